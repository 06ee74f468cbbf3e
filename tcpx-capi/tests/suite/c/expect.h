/* Shared code of the programs: checks that end the program, and two sessions that are connected. */
#ifndef TCPX_TEST_EXPECT_H
#define TCPX_TEST_EXPECT_H

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tcpx_p2p.h"

#define EXPECT(wanted, call)                                                                                 \
  do {                                                                                                       \
    tcpx_status expect_status = (call);                                                                      \
    if (expect_status != (wanted)) {                                                                         \
      fprintf(stderr, "%s:%d: %s is %d (%s: %s), not %s\n", __FILE__, __LINE__, #call, (int)expect_status,   \
              tcpx_status_text(expect_status), tcpx_last_error(), #wanted);                                  \
      exit(1);                                                                                               \
    }                                                                                                        \
  } while (0)

#define OK(call) EXPECT(TCPX_OK, call)

#define TRUE(condition)                                                         \
  do {                                                                          \
    if (!(condition)) {                                                         \
      fprintf(stderr, "%s:%d: not true: %s\n", __FILE__, __LINE__, #condition); \
      exit(1);                                                                  \
    }                                                                           \
  } while (0)

/* Two sessions that know each other: `left` accepted "right", `right` connected to "left". */
typedef struct {
  tcpx_session left;
  tcpx_session right;
} two_sessions;

static inline void *accept_right(void *sessions) {
  OK(tcpx_session_accept(((two_sessions *)sessions)->left, "right"));
  return NULL;
}

static inline two_sessions connect_sessions_with(const tcpx_session_options *left, const tcpx_session_options *right) {
  two_sessions sessions = {{0}, {0}};
  char info[4096];
  size_t size = 0;
  pthread_t thread;
  OK(tcpx_session_create(left, &sessions.left));
  OK(tcpx_session_create(right, &sessions.right));
  OK(tcpx_session_listen(sessions.left, info, sizeof info, &size));
  OK(tcpx_session_load_remote_conn_info(sessions.right, "left", info, size));
  TRUE(pthread_create(&thread, NULL, accept_right, &sessions) == 0);
  OK(tcpx_session_connect(sessions.right, "left"));
  TRUE(pthread_join(thread, NULL) == 0);
  return sessions;
}

static inline two_sessions connect_sessions(void) { return connect_sessions_with(NULL, NULL); }

static inline void *destroy_right(void *sessions) {
  OK(tcpx_session_destroy(((two_sessions *)sessions)->right));
  return NULL;
}

/* Both ends say goodbye, each waiting for the other. */
static inline void destroy_sessions(two_sessions sessions) {
  pthread_t thread;
  TRUE(pthread_create(&thread, NULL, destroy_right, &sessions) == 0);
  OK(tcpx_session_destroy(sessions.left));
  TRUE(pthread_join(thread, NULL) == 0);
}

#endif
