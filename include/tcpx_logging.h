/*
 * The library's log lines: tcpx_set_log_callback() and the levels TCPX_LOG_ERROR to TCPX_LOG_TRACE.
 * There are no macros LOG_ERROR or LOG_DEBUG, which would be those of <syslog.h> or of the
 * program's own log. getEnvInt() reads a number from the environment.
 */
#ifndef TCPX_LOGGING_H
#define TCPX_LOGGING_H

#include <errno.h>
#include <limits.h>
#include <stdlib.h>

#include "tcpx_p2p.h"

/**
 * Returns the decimal number in an environment variable; `otherwise` when the variable is not set, is
 * no number, or is too large for an int.
 */
static inline int getEnvInt(const char *name, int otherwise) {
  const char *const text = getenv(name);
  char *end;
  long number;
  if (text == NULL || *text == '\0') return otherwise;
  errno = 0;
  number = strtol(text, &end, 10);
  if (errno != 0 || *end != '\0' || number < INT_MIN || number > INT_MAX) return otherwise;
  return (int)number;
}

#endif /* TCPX_LOGGING_H */
