/* When a status is not success, the examples print where and why, and end. */
#ifndef TCPX_EXAMPLES_CHECK_H
#define TCPX_EXAMPLES_CHECK_H

#include <stdio.h>
#include <stdlib.h>

#include "tcpx_p2p.h"

#define CHECK(call)                                                                                            \
  do {                                                                                                         \
    tcpx_status check_status = (call);                                                                         \
    if (check_status != TCPX_OK) {                                                                             \
      fprintf(stderr, "%s:%d: %s: %s\n", __FILE__, __LINE__, tcpx_status_text(check_status), tcpx_last_error()); \
      exit(1);                                                                                                 \
    }                                                                                                          \
  } while (0)

#define REQUIRE(condition)                                                      \
  do {                                                                          \
    if (!(condition)) {                                                         \
      fprintf(stderr, "%s:%d: not true: %s\n", __FILE__, __LINE__, #condition); \
      exit(1);                                                                  \
    }                                                                           \
  } while (0)

#endif
