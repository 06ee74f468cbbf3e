/* Handles that are stale, of another kind or made up, ends in every order, and what is left behind: nothing. */
#include <dirent.h>

#include "expect.h"

static char memory[8192];

/* Every function that takes a session, with one that is not there. */
static void no_session(tcpx_session session) {
  tcpx_transfer transfer;
  tcpx_memory_info info = {sizeof info, 0, 0, 0, 0, 0};
  tcpx_session_stats stats;
  tcpx_nic nic;
  tcpx_completion completion;
  tcpx_export_options options = {sizeof options, 0, 0, TCPX_ACCESS_READ, 0};
  tcpx_operation operation;
  tcpx_status error;
  int32_t number;
  bool accepted;
  uint64_t id;
  size_t size = 0;
  stats.size = sizeof stats;
  nic.size = sizeof nic;
  EXPECT(TCPX_ERR_HANDLE, tcpx_session_listen(session, memory, sizeof memory, &size));
  EXPECT(TCPX_ERR_HANDLE, tcpx_session_accept(session, "x"));
  EXPECT(TCPX_ERR_HANDLE, tcpx_session_load_remote_conn_info(session, "x", memory, 10));
  EXPECT(TCPX_ERR_HANDLE, tcpx_session_connect(session, "x"));
  EXPECT(TCPX_ERR_HANDLE, tcpx_session_disconnect(session, "x"));
  EXPECT(TCPX_ERR_HANDLE, tcpx_session_accept_any(session, memory, sizeof memory));
  EXPECT(TCPX_ERR_HANDLE, tcpx_session_start_accept(session, "x"));
  EXPECT(TCPX_ERR_HANDLE, tcpx_session_start_accept_any(session));
  EXPECT(TCPX_ERR_HANDLE, tcpx_session_poll_accept_any(session, &accepted, memory, sizeof memory));
  EXPECT(TCPX_ERR_HANDLE, tcpx_session_stop_accept_any(session));
  EXPECT(TCPX_ERR_HANDLE, tcpx_session_start_connect(session, "x"));
  EXPECT(TCPX_ERR_HANDLE, tcpx_session_start_disconnect(session, "x"));
  EXPECT(TCPX_ERR_HANDLE, tcpx_session_peer_state(session, "x", &number));
  EXPECT(TCPX_ERR_HANDLE, tcpx_session_peer_error(session, "x", &error, memory, sizeof memory, &size));
  EXPECT(TCPX_ERR_HANDLE, tcpx_session_event_fd(session, &number));
  EXPECT(TCPX_ERR_HANDLE, tcpx_session_report_peers(session));
  EXPECT(TCPX_ERR_HANDLE, tcpx_session_poll_completions(session, &completion, sizeof completion, 1, &size));
  EXPECT(TCPX_ERR_HANDLE, tcpx_session_progress(session, NULL));
  EXPECT(TCPX_ERR_HANDLE, tcpx_session_arm(session));
  EXPECT(TCPX_ERR_HANDLE, tcpx_session_register_memory(session, memory, 10, TCPX_PTR_HOST, 1, &id));
  EXPECT(TCPX_ERR_HANDLE, tcpx_session_deregister_memory(session, 1));
  EXPECT(TCPX_ERR_HANDLE, tcpx_session_memory_info(session, 1, &info));
  EXPECT(TCPX_ERR_HANDLE, tcpx_session_create_transfer(session, "x", &transfer));
  EXPECT(TCPX_ERR_HANDLE, tcpx_session_get_stats(session, &stats));
  EXPECT(TCPX_ERR_HANDLE, tcpx_session_stats_json(session, memory, sizeof memory, &size));
  EXPECT(TCPX_ERR_HANDLE, tcpx_metrics_text(&session, 1, memory, sizeof memory, &size));
  EXPECT(TCPX_ERR_HANDLE, tcpx_session_nic_count(session, &size));
  EXPECT(TCPX_ERR_HANDLE, tcpx_session_nic(session, 0, &nic));
  EXPECT(TCPX_ERR_HANDLE, tcpx_export(session, 1, &options, memory, sizeof memory, &size));
  EXPECT(TCPX_ERR_HANDLE, tcpx_operation_prepare(session, "x", TCPX_READ, NULL, sizeof(tcpx_pair), 0, &operation));
  EXPECT(TCPX_ERR_HANDLE, tcpx_notify(session, "x", memory, 1));
  EXPECT(TCPX_ERR_HANDLE, tcpx_poll_notifications(session, NULL, sizeof(tcpx_notification), 0, NULL, 0, &size));
  EXPECT(TCPX_ERR_HANDLE, tcpx_wait_notifications(session, NULL, sizeof(tcpx_notification), 0, NULL, 0, &size, 0));
  EXPECT(TCPX_ERR_HANDLE, tcpx_session_close(session));
  EXPECT(TCPX_ERR_HANDLE, tcpx_session_destroy(session));
}

/* Every function that takes a transfer, with one that is not there. */
static void no_transfer(tcpx_transfer transfer) {
  tcpx_post post = {1, 0, 1, 0};
  tcpx_transfer_counts counts = {sizeof counts, 0, 0, 0, 0, 0};
  tcpx_status error;
  bool complete;
  size_t size = 0;
  EXPECT(TCPX_ERR_HANDLE, tcpx_transfer_post_send(transfer, 1, 0, 1, 0));
  EXPECT(TCPX_ERR_HANDLE, tcpx_transfer_post_recv(transfer, 1, 0, 1, 0));
  EXPECT(TCPX_ERR_HANDLE, tcpx_transfer_post_send_batch(transfer, &post, sizeof(tcpx_post), 1));
  EXPECT(TCPX_ERR_HANDLE, tcpx_transfer_post_recv_batch(transfer, &post, sizeof(tcpx_post), 1));
  EXPECT(TCPX_ERR_HANDLE, tcpx_transfer_is_complete(transfer, &complete));
  EXPECT(TCPX_ERR_HANDLE, tcpx_transfer_wait(transfer, TCPX_WAIT_FOREVER));
  EXPECT(TCPX_ERR_HANDLE, tcpx_transfer_report_completions(transfer, 1));
  EXPECT(TCPX_ERR_HANDLE, tcpx_transfer_set_timeout(transfer, 1));
  EXPECT(TCPX_ERR_HANDLE, tcpx_transfer_cancel(transfer));
  EXPECT(TCPX_ERR_HANDLE, tcpx_transfer_get_counts(transfer, &counts));
  EXPECT(TCPX_ERR_HANDLE, tcpx_transfer_get_round_counts(transfer, &counts));
  EXPECT(TCPX_ERR_HANDLE, tcpx_transfer_error(transfer, &error, NULL, 0, &size));
  EXPECT(TCPX_ERR_HANDLE, tcpx_transfer_release(transfer));
}

/* Every function that takes an operation, with one that is not there. */
static void no_operation(tcpx_operation operation) {
  tcpx_status error;
  int32_t state;
  size_t size = 0;
  EXPECT(TCPX_ERR_HANDLE, tcpx_operation_post(operation, NULL, 0));
  EXPECT(TCPX_ERR_HANDLE, tcpx_operation_post_with(operation, NULL));
  EXPECT(TCPX_ERR_HANDLE, tcpx_operation_status(operation, &state, &error));
  EXPECT(TCPX_ERR_HANDLE, tcpx_operation_wait(operation, TCPX_WAIT_FOREVER));
  EXPECT(TCPX_ERR_HANDLE, tcpx_operation_cancel(operation));
  EXPECT(TCPX_ERR_HANDLE, tcpx_operation_error(operation, &error, NULL, 0, &size));
  EXPECT(TCPX_ERR_HANDLE, tcpx_operation_report_completions(operation, 1));
  EXPECT(TCPX_ERR_HANDLE, tcpx_operation_release(operation));
}

static void invented_handles(two_sessions sessions, tcpx_transfer transfer) {
  const uint64_t numbers[] = {0, 1, 2, UINT64_MAX, (uint64_t)(uintptr_t)memory, UINT64_C(1) << 63};
  size_t i;
  for (i = 0; i < sizeof numbers / sizeof numbers[0]; ++i) {
    tcpx_session session;
    tcpx_transfer other;
    tcpx_operation operation;
    session.id = other.id = operation.id = numbers[i];
    no_session(session);
    no_transfer(other);
    no_operation(operation);
  }
  /* The wrong kind. */
  {
    tcpx_session session;
    tcpx_transfer other;
    tcpx_operation operation;
    session.id = operation.id = transfer.id;
    other.id = sessions.left.id;
    no_session(session);
    no_transfer(other);
    no_operation(operation);
  }
}

static int entries(const char *folder) {
  int count = 0;
  DIR *dir = opendir(folder);
  TRUE(dir != NULL);
  while (readdir(dir) != NULL) ++count;
  closedir(dir);
  return count;
}

/* Either end may have been the first to say goodbye. */
static void expect_ended(tcpx_status status) {
  TRUE(status == TCPX_ERR_CLOSED || status == TCPX_ERR_PEER_GONE || status == TCPX_ERR_CANCELLED);
}

/* A write of left's memory to some of right's, which is exported. It is not posted. */
static tcpx_operation operation_of(two_sessions sessions, uint64_t id) {
  tcpx_export_options options = {sizeof options, 0, 0, TCPX_ACCESS_WRITE, 0};
  unsigned char key[TCPX_REMOTE_KEY_BYTES];
  tcpx_operation operation = {0};
  tcpx_pair write;
  uint64_t target = 0;
  size_t size = 0;
  OK(tcpx_session_register_memory(sessions.right, memory, 10, TCPX_PTR_CUDA, 1, &target));
  OK(tcpx_export(sessions.right, target, &options, key, sizeof key, &size));
  write.memory = id;
  write.offset = write.remote_offset = 0;
  write.key = key;
  write.key_bytes = size;
  write.bytes = 10;
  OK(tcpx_operation_prepare(sessions.left, "right", TCPX_WRITE, &write, sizeof write, 1, &operation));
  return operation;
}

/* A session ends while it has a peer, registrations, an operation and transfers with posts. */
static void end_under_load(void) {
  two_sessions sessions = connect_sessions();
  tcpx_transfer transfer = {0};
  tcpx_operation operation;
  tcpx_transfer_counts counts = {sizeof counts, 0, 0, 0, 0, 0};
  bool complete;
  uint64_t id = 0;
  char *buffer = (char *)malloc(100000);
  TRUE(buffer != NULL);
  OK(tcpx_session_register_memory(sessions.left, buffer, 100000, TCPX_PTR_CUDA, 1, &id));
  OK(tcpx_session_create_transfer(sessions.left, "right", &transfer));
  OK(tcpx_transfer_post_recv(transfer, id, 0, 100000, 1));
  operation = operation_of(sessions, id);
  destroy_sessions(sessions);
  free(buffer); /* the library does not look at it any more */
  no_session(sessions.left);
  expect_ended(tcpx_operation_post(operation, NULL, 0));
  OK(tcpx_operation_release(operation));
  no_operation(operation);
  expect_ended(tcpx_transfer_post_recv(transfer, id, 0, 10, 1));
  expect_ended(tcpx_transfer_wait(transfer, TCPX_WAIT_FOREVER));
  expect_ended(tcpx_transfer_is_complete(transfer, &complete));
  OK(tcpx_transfer_get_counts(transfer, &counts));
  TRUE(counts.operations_posted == 1 && counts.operations_done == 1 && counts.bytes_done == 0);
  OK(tcpx_transfer_cancel(transfer));
  OK(tcpx_transfer_release(transfer));
  no_transfer(transfer);
}

int main(void) {
  two_sessions sessions = connect_sessions();
  two_sessions next;
  tcpx_transfer transfer = {0};
  int files;
  int threads;
  int round;
  OK(tcpx_session_create_transfer(sessions.left, "right", &transfer));
  invented_handles(sessions, transfer);
  OK(tcpx_transfer_release(transfer));
  no_transfer(transfer);
  destroy_sessions(sessions);
  no_session(sessions.left);
  next = connect_sessions(); /* takes the places of the old one, not its numbers */
  no_session(sessions.left);
  no_session(sessions.right);
  destroy_sessions(next);

  end_under_load();
  files = entries("/proc/self/fd");
  threads = entries("/proc/self/task");
  for (round = 0; round < 10; ++round) end_under_load();
  TRUE(entries("/proc/self/fd") <= files && entries("/proc/self/task") <= threads);
  printf("PASSED\n");
  return 0;
}
