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
} session_pair;

static inline void *accept_right(void *pair) {
  OK(tcpx_session_accept(((session_pair *)pair)->left, "right"));
  return NULL;
}

static inline session_pair connected_pair_with(const tcpx_session_options *left, const tcpx_session_options *right) {
  session_pair pair = {{0}, {0}};
  char info[4096];
  size_t size = 0;
  pthread_t thread;
  OK(tcpx_session_create(left, &pair.left));
  OK(tcpx_session_create(right, &pair.right));
  OK(tcpx_session_listen(pair.left, info, sizeof info, &size));
  OK(tcpx_session_load_remote_conn_info(pair.right, "left", info, size));
  TRUE(pthread_create(&thread, NULL, accept_right, &pair) == 0);
  OK(tcpx_session_connect(pair.right, "left"));
  TRUE(pthread_join(thread, NULL) == 0);
  return pair;
}

static inline session_pair connected_pair(void) { return connected_pair_with(NULL, NULL); }

static inline void *destroy_right(void *pair) {
  OK(tcpx_session_destroy(((session_pair *)pair)->right));
  return NULL;
}

/* Both ends say goodbye, each waiting for the other. */
static inline void destroy_pair(session_pair pair) {
  pthread_t thread;
  TRUE(pthread_create(&thread, NULL, destroy_right, &pair) == 0);
  OK(tcpx_session_destroy(pair.left));
  TRUE(pthread_join(thread, NULL) == 0);
}

#endif
