/* Answers of transfers after an end has closed or disconnected: the table of
 * docs/c-api/transfer.md, line by line. */
#include "expect.h"

enum { WAIT_MS = 60000 };

typedef enum { CLOSE, CLOSE_UNANSWERED, DESTROY, DISCONNECT, DISCONNECT_UNANSWERED, PEER_LEAVES, PEER_ABORTS } event;

typedef struct {
  event event;
  const char *name;
  tcpx_status unmatched; /* an operation that had no counterpart */
  tcpx_status post;      /* what is posted afterwards */
  tcpx_status create;    /* a transfer that is made afterwards */
} line;

static const line TABLE[] = {
    {CLOSE, "tcpx_session_close", TCPX_ERR_CLOSED, TCPX_ERR_CLOSED, TCPX_ERR_CLOSED},
    {CLOSE_UNANSWERED, "tcpx_session_close, unanswered", TCPX_ERR_CLOSED, TCPX_ERR_CLOSED, TCPX_ERR_CLOSED},
    {DESTROY, "tcpx_session_destroy", TCPX_ERR_CLOSED, TCPX_ERR_CLOSED, TCPX_ERR_HANDLE},
    {DISCONNECT, "tcpx_session_disconnect", TCPX_ERR_CLOSED, TCPX_ERR_CLOSED, TCPX_ERR_UNKNOWN_PEER},
    {DISCONNECT_UNANSWERED, "tcpx_session_disconnect, unanswered", TCPX_ERR_CLOSED, TCPX_ERR_CLOSED,
     TCPX_ERR_UNKNOWN_PEER},
    {PEER_LEAVES, "the peer's goodbye", TCPX_ERR_PEER_GONE, TCPX_ERR_PEER_GONE, TCPX_ERR_PEER_GONE},
    {PEER_ABORTS, "the peer gives up", TCPX_ERR_PEER_GONE, TCPX_ERR_PEER_GONE, TCPX_ERR_PEER_GONE},
};

static char memory[4096];

static void *disconnect_left(void *sessions) {
  OK(tcpx_session_disconnect(((two_sessions *)sessions)->right, "left"));
  return NULL;
}

/* The peer leaves without an answer, and says that it gave up. */
static void *abandon_left(void *sessions) {
  EXPECT(TCPX_ERR_TIMEOUT, tcpx_session_disconnect(((two_sessions *)sessions)->right, "left"));
  return NULL;
}

/* The peer has no progress thread, so it answers only in a call. */
static int is_silent(event event) {
  return event == CLOSE_UNANSWERED || event == DISCONNECT_UNANSWERED || event == PEER_ABORTS;
}

static void trigger(event event, two_sessions sessions) {
  pthread_t thread;
  switch (event) {
    case CLOSE:
      OK(tcpx_session_close(sessions.left));
      break;
    case CLOSE_UNANSWERED:
      EXPECT(TCPX_ERR_TIMEOUT, tcpx_session_close(sessions.left));
      break;
    case DESTROY:
      OK(tcpx_session_destroy(sessions.left));
      break;
    case DISCONNECT:
      OK(tcpx_session_disconnect(sessions.left, "right"));
      break;
    case DISCONNECT_UNANSWERED:
      EXPECT(TCPX_ERR_TIMEOUT, tcpx_session_disconnect(sessions.left, "right"));
      break;
    case PEER_LEAVES:
      TRUE(pthread_create(&thread, NULL, disconnect_left, &sessions) == 0);
      TRUE(pthread_join(thread, NULL) == 0);
      break;
    case PEER_ABORTS:
      TRUE(pthread_create(&thread, NULL, abandon_left, &sessions) == 0);
      TRUE(pthread_join(thread, NULL) == 0);
      break;
  }
}

/* Every call on a transfer that has come to its end. */
static void expect_statuses(tcpx_transfer transfer, tcpx_status outcome, tcpx_status post, uint64_t id) {
  tcpx_transfer_counts counts = {sizeof counts, 0, 0, 0, 0, 0}, round = counts;
  tcpx_status error = TCPX_ERR_INTERNAL;
  size_t size = 0;
  bool complete = false;
  EXPECT(outcome, tcpx_transfer_wait(transfer, WAIT_MS));
  EXPECT(outcome, tcpx_transfer_wait(transfer, TCPX_WAIT_FOREVER));
  EXPECT(outcome, tcpx_transfer_is_complete(transfer, &complete));
  TRUE(complete == (outcome == TCPX_OK));
  OK(tcpx_transfer_error(transfer, &error, NULL, 0, &size));
  TRUE(error == outcome);
  OK(tcpx_transfer_get_counts(transfer, &counts));
  OK(tcpx_transfer_get_round_counts(transfer, &round));
  TRUE(counts.operations_done == counts.operations_posted);
  TRUE(memcmp(&counts, &round, sizeof counts) == 0);
  EXPECT(post, tcpx_transfer_post_send(transfer, id, 0, 8, 9));
  EXPECT(post, tcpx_transfer_post_recv(transfer, id, 0, 8, 9));
  OK(tcpx_transfer_cancel(transfer));
  EXPECT(outcome, tcpx_transfer_wait(transfer, 0));
  OK(tcpx_transfer_release(transfer));
  EXPECT(TCPX_ERR_HANDLE, tcpx_transfer_wait(transfer, 0));
}

static void check_row(const line *line) {
  tcpx_session_options left, right;
  two_sessions sessions;
  uint64_t here, there;
  tcpx_transfer idle, done, cancelled, sends, receives, counterpart, again;
  bool complete = false;
  printf("%s\n", line->name);
  OK(tcpx_session_options_init(&left, sizeof left));
  OK(tcpx_session_options_init(&right, sizeof right));
  left.plugin = right.plugin = "soft";
  left.progress_thread = line->event != PEER_ABORTS;
  right.progress_thread = !is_silent(line->event);
  left.eager_bytes = 0; /* every send waits for its receive */
  left.close_timeout_ms = right.close_timeout_ms = is_silent(line->event) ? 20 : WAIT_MS;
  sessions = connect_sessions_with(&left, &right);
  OK(tcpx_session_register_memory(sessions.left, memory, sizeof memory, TCPX_PTR_HOST, 1, &here));
  OK(tcpx_session_register_memory(sessions.right, memory, sizeof memory, TCPX_PTR_HOST, 1, &there));
  OK(tcpx_session_create_transfer(sessions.left, "right", &idle));
  OK(tcpx_session_create_transfer(sessions.left, "right", &done));
  OK(tcpx_session_create_transfer(sessions.left, "right", &cancelled));
  OK(tcpx_session_create_transfer(sessions.left, "right", &sends));
  OK(tcpx_session_create_transfer(sessions.left, "right", &receives));
  OK(tcpx_session_create_transfer(sessions.right, "left", &counterpart));
  OK(tcpx_transfer_post_send(done, here, 0, 8, 1));
  OK(tcpx_transfer_post_recv(counterpart, there, 8, 8, 1));
  while (!complete) {
    OK(tcpx_transfer_is_complete(counterpart, &complete));
    OK(tcpx_session_progress(sessions.left, NULL));
  }
  OK(tcpx_transfer_wait(done, WAIT_MS));
  OK(tcpx_transfer_post_send(cancelled, here, 0, 8, 2));
  OK(tcpx_transfer_cancel(cancelled));
  OK(tcpx_transfer_post_send(sends, here, 0, 8, 3));
  OK(tcpx_transfer_post_recv(receives, here, 0, 8, 4));
  EXPECT(TCPX_ERR_TIMEOUT, tcpx_transfer_wait(sends, 0));

  trigger(line->event, sessions);

  /* Left learns of what its peer has done. */
  EXPECT(line->unmatched, tcpx_transfer_wait(receives, WAIT_MS));
  EXPECT(line->create, tcpx_session_create_transfer(sessions.left, "right", &again));
  expect_statuses(idle, TCPX_OK, line->post, here);
  expect_statuses(done, TCPX_OK, line->post, here);
  expect_statuses(cancelled, TCPX_ERR_CANCELLED, line->post, here);
  expect_statuses(sends, line->unmatched, line->post, here);
  expect_statuses(receives, line->unmatched, line->post, here);
  if (line->event != DESTROY) OK(tcpx_session_destroy(sessions.left));
  OK(tcpx_transfer_release(counterpart));
  OK(tcpx_session_destroy(sessions.right));
}

/* A transfer is used again after an error, which is that of its round. */
static void rounds(void) {
  tcpx_session_options options;
  two_sessions sessions;
  uint64_t id;
  tcpx_transfer transfer;
  tcpx_transfer_counts counts = {sizeof counts, 0, 0, 0, 0, 0}, round = counts;
  tcpx_status error = TCPX_ERR_INTERNAL;
  size_t size = 0;
  OK(tcpx_session_options_init(&options, sizeof options));
  options.plugin = "soft";
  options.eager_bytes = 0; /* every send waits for its receive */
  sessions = connect_sessions_with(&options, &options);
  OK(tcpx_session_register_memory(sessions.left, memory, sizeof memory, TCPX_PTR_HOST, 1, &id));
  OK(tcpx_session_create_transfer(sessions.left, "right", &transfer));
  OK(tcpx_transfer_post_send(transfer, id, 0, 8, 1));
  OK(tcpx_transfer_cancel(transfer));
  EXPECT(TCPX_ERR_CANCELLED, tcpx_transfer_wait(transfer, WAIT_MS));
  OK(tcpx_transfer_post_send(transfer, id, 0, 8, 2));
  OK(tcpx_transfer_error(transfer, &error, NULL, 0, &size));
  TRUE(error == TCPX_OK);
  EXPECT(TCPX_ERR_TIMEOUT, tcpx_transfer_wait(transfer, 0));
  TRUE(strstr(tcpx_last_error(), "0 of 1 operations") != NULL);
  OK(tcpx_transfer_get_counts(transfer, &counts));
  OK(tcpx_transfer_get_round_counts(transfer, &round));
  TRUE(counts.operations_posted == 2 && counts.operations_done == 1);
  TRUE(round.operations_posted == 1 && round.operations_done == 0);
  OK(tcpx_transfer_release(transfer));
  destroy_sessions(sessions);
}

int main(void) {
  size_t i;
  for (i = 0; i < sizeof TABLE / sizeof TABLE[0]; ++i) check_row(&TABLE[i]);
  rounds();
  printf("PASSED\n");
  return 0;
}
