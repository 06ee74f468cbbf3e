/*
 * The library's log lines: tcpx_set_log_callback() and the levels TCPX_LOG_ERROR to TCPX_LOG_TRACE.
 * There are no macros LOG_ERROR or LOG_DEBUG, which would be those of <syslog.h> or of the
 * program's own log.
 */
#ifndef TCPX_LOGGING_H
#define TCPX_LOGGING_H

#include "tcpx_p2p.h"

#endif /* TCPX_LOGGING_H */
