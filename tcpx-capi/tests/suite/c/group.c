/* Two sessions of all devices: the host and two GPUs each, for which ordinary memory stands in. All four ways between
 * host and GPU, and what such a session is not for. */
#define _POSIX_C_SOURCE 200809L
#include <limits.h>

#include "expect.h"

enum { WAIT_MS = 60000, BYTES = 300000, DEVICES = 3 };

static const int32_t devices[DEVICES] = {TCPX_GPU_NONE, 0, 1};
static char page[65536];
static char notes[TCPX_MAX_NOTIFICATION_BYTES];

static tcpx_session open_group(const char *name) {
  tcpx_session_options options;
  tcpx_session session = {0};
  OK(tcpx_session_options_init(&options, sizeof options));
  TRUE(options.group == 0);
  options.plugin = "soft";
  options.name = name;
  options.group = 1;
  OK(tcpx_session_create(&options, &session));
  TRUE(session.id != 0);
  return session;
}

static void expect_note(tcpx_session session, const char *peer) {
  tcpx_notification entry;
  size_t count = 0;
  OK(tcpx_wait_notifications(session, &entry, sizeof entry, 1, notes, sizeof notes, &count, WAIT_MS));
  TRUE(count == 1);
  TRUE(strcmp(entry.peer, peer) == 0 && entry.bytes == 4 && memcmp(notes, "done", 4) == 0);
}

/* The next event is that "left" is in this state. */
static void expect_peer(tcpx_session session, int32_t state) {
  tcpx_completion entry;
  size_t count = 0;
  while (count == 0) OK(tcpx_session_poll_completions(session, &entry, sizeof entry, 1, &count));
  TRUE(entry.kind == TCPX_COMPLETION_PEER && entry.state == state && strcmp(entry.peer, "left") == 0);
}

/* Writes from a device of left to one of right, and reads it back to another place. */
static void move(tcpx_session left, tcpx_session right, int32_t here, int32_t there) {
  tcpx_export_options options = {sizeof options, 0, 0, TCPX_ACCESS_READ | TCPX_ACCESS_WRITE, 0};
  unsigned char *memory = malloc(2 * BYTES), key[TCPX_REMOTE_KEY_BYTES];
  uint64_t left_id = 0, right_id = 0, left_again = 0;
  tcpx_operation write = {0}, read = {0};
  tcpx_completion completion;
  tcpx_memory_info info;
  tcpx_pair pair;
  size_t size = 0, count = 0;
  TRUE(memory != NULL);
  memset(memory, here + 2, BYTES);
  memset(memory + BYTES, 99, BYTES);
  OK(tcpx_session_register_memory_on(left, here, memory, BYTES, 1, &left_id));
  OK(tcpx_session_register_memory_on(right, there, memory + BYTES, BYTES, 1, &right_id));
  OK(tcpx_session_register_memory_on(left, here, memory, BYTES, 1, &left_again));
  TRUE(left_again != left_id);
  OK(tcpx_session_deregister_memory(left, left_again));
  info.size = sizeof info;
  OK(tcpx_session_memory_info(left, left_id, &info));
  TRUE(info.id == left_id && info.ptr_type == (here == TCPX_GPU_NONE ? TCPX_PTR_HOST : TCPX_PTR_CUDA));
  OK(tcpx_export(right, right_id, &options, key, sizeof key, &size));

  pair.memory = left_id;
  pair.offset = 0;
  pair.key = key;
  pair.key_bytes = sizeof key;
  pair.remote_offset = 0;
  pair.bytes = BYTES;
  OK(tcpx_operation_prepare(left, "right", TCPX_WRITE, &pair, sizeof pair, 1, &write));
  OK(tcpx_operation_prepare(left, "right", TCPX_READ, &pair, sizeof pair, 1, &read));
  OK(tcpx_operation_report_completions(write, 7));
  OK(tcpx_operation_post(write, "done", 4));
  OK(tcpx_operation_wait(write, WAIT_MS));
  TRUE(memcmp(memory, memory + BYTES, BYTES) == 0 && memory[BYTES] == here + 2);
  expect_note(right, "left");
  OK(tcpx_session_poll_completions(left, &completion, sizeof completion, 1, &count));
  TRUE(count == 1 && completion.context == 7 && completion.status == TCPX_OK);
  memset(memory + BYTES, there + 50, BYTES);
  OK(tcpx_operation_post(read, NULL, 0));
  OK(tcpx_operation_wait(read, WAIT_MS));
  TRUE(memcmp(memory, memory + BYTES, BYTES) == 0 && memory[0] == there + 50);
  OK(tcpx_operation_release(write));
  OK(tcpx_operation_release(read));
  OK(tcpx_unexport(right, key, sizeof key));
  EXPECT(TCPX_ERR_REMOTE_MEMORY, tcpx_unexport(right, key, sizeof key));
  OK(tcpx_session_deregister_memory(left, left_id));
  EXPECT(TCPX_ERR_UNKNOWN_MEMORY, tcpx_session_deregister_memory(left, left_id));
  OK(tcpx_session_deregister_memory(right, right_id));
  free(memory);
}

/* One operation between all devices, in both directions; and one that a key ends which opens nothing any more. */
static void one_sided_between_groups(tcpx_session left, tcpx_session right) {
  enum { EACH = 10000 };
  tcpx_export_options options = {sizeof options, 0, 0, TCPX_ACCESS_READ | TCPX_ACCESS_WRITE, 0};
  static unsigned char here[DEVICES][DEVICES * EACH], there[DEVICES][DEVICES * EACH];
  static char keys[DEVICES][TCPX_REMOTE_KEY_BYTES];
  uint64_t left_ids[DEVICES], right_ids[DEVICES];
  tcpx_pair pairs[DEVICES * DEVICES];
  tcpx_operation write = {0}, read = {0};
  tcpx_status error = TCPX_OK;
  char text[256];
  int32_t state = -1;
  size_t size = 0;
  int i, j;
  for (i = 0; i < DEVICES; ++i) {
    OK(tcpx_session_register_memory_on(left, devices[i], here[i], sizeof here[i], 1, &left_ids[i]));
    OK(tcpx_session_register_memory_on(right, devices[i], there[i], sizeof there[i], 1, &right_ids[i]));
    OK(tcpx_export(right, right_ids[i], &options, keys[i], sizeof keys[i], &size));
  }
  for (i = 0; i < DEVICES; ++i)
    for (j = 0; j < DEVICES; ++j) {
      tcpx_pair pair = {left_ids[i], (uint64_t)j * EACH, keys[j], TCPX_REMOTE_KEY_BYTES, (uint64_t)i * EACH, EACH};
      pairs[DEVICES * i + j] = pair;
      memset(here[i] + j * EACH, 10 * i + j + 1, EACH);
    }
  OK(tcpx_operation_prepare(left, "right", TCPX_WRITE, pairs, sizeof pairs[0], DEVICES * DEVICES, &write));
  OK(tcpx_operation_prepare(left, "right", TCPX_READ, pairs, sizeof pairs[0], DEVICES * DEVICES, &read));
  OK(tcpx_operation_post(write, "done", 4));
  expect_note(right, "left");
  for (i = 0; i < DEVICES; ++i)
    for (j = 0; j < DEVICES; ++j) TRUE(memcmp(here[i] + j * EACH, there[j] + i * EACH, EACH) == 0);
  OK(tcpx_operation_wait(write, WAIT_MS));
  OK(tcpx_operation_status(write, &state, NULL));
  TRUE(state == TCPX_OPERATION_DONE);
  memset(there, 77, sizeof there);
  OK(tcpx_operation_post(read, NULL, 0));
  OK(tcpx_operation_wait(read, WAIT_MS));
  TRUE(memcmp(here, there, sizeof here) == 0);
  OK(tcpx_unexport(right, keys[2], sizeof keys[2]));
  OK(tcpx_operation_post(write, "done", 4));
  EXPECT(TCPX_ERR_REMOTE_MEMORY, tcpx_operation_wait(write, WAIT_MS));
  OK(tcpx_operation_error(write, &error, text, sizeof text, &size));
  TRUE(error == TCPX_ERR_REMOTE_MEMORY && strstr(text, "right/gpu1 from ") != NULL);
  OK(tcpx_operation_release(write));
  OK(tcpx_operation_release(read));
  for (i = 0; i < DEVICES; ++i) {
    OK(tcpx_session_deregister_memory(right, right_ids[i]));
    OK(tcpx_session_deregister_memory(left, left_ids[i]));
  }
}

/* Sums over all devices, and each device by itself. Each pair of devices has written and read once, and once more
 * together; the last write was refused at one device. */
static void check_stats(tcpx_session left, tcpx_session right) {
  tcpx_session_stats stats;
  size_t size = 0;
  stats.size = sizeof stats;
  OK(tcpx_session_get_stats(right, &stats));
  TRUE(stats.peers == DEVICES * DEVICES);
  TRUE(stats.writes_served >= 2 * DEVICES * DEVICES && stats.reads_served >= 2 * DEVICES * DEVICES);
  TRUE(stats.bytes_written >= (uint64_t)DEVICES * DEVICES * BYTES && stats.bytes_read >= (uint64_t)DEVICES * DEVICES * BYTES);
  TRUE(stats.refused_key + stats.revoked >= 1 && stats.notifications_received == DEVICES * DEVICES + 1);
  OK(tcpx_session_get_stats(left, &stats));
  TRUE(stats.notifications_sent == DEVICES * DEVICES + 1 && stats.peers == DEVICES * DEVICES);
  EXPECT(TCPX_ERR_BUFFER_TOO_SMALL, tcpx_session_stats_json(left, page, 9, &size));
  TRUE(size > 9);
  OK(tcpx_session_stats_json(left, page, sizeof page, &size));
  TRUE(strncmp(page, "{\"sessions\":[{", 14) == 0 && strcmp(page + size - 3, "]}") == 0);
  TRUE(strstr(page, "\"device\":\"host\"") != NULL && strstr(page, "\"device\":\"gpu1\"") != NULL);
}

/* Calls that are for sessions of one device, and devices that there are not. */
static void refused(tcpx_session group) {
  char byte;
  bool flag = false;
  uint64_t id = 0;
  tcpx_session alone = {0};
  EXPECT(TCPX_ERR_PEER_STATE, tcpx_session_accept(group, "x"));
  TRUE(strstr(tcpx_last_error(), "all devices") != NULL);
  EXPECT(TCPX_ERR_PEER_STATE, tcpx_session_start_accept(group, "x"));
  EXPECT(TCPX_ERR_PEER_STATE, tcpx_session_start_accept_any(group));
  OK(tcpx_session_stop_accept_any(group));
  EXPECT(TCPX_ERR_ARGUMENT, tcpx_session_register_memory(group, &byte, 1, TCPX_PTR_CUDA, 1, &id));
  EXPECT(TCPX_ERR_UNAVAILABLE, tcpx_session_register_memory_on(group, 2, &byte, 1, 1, &id));
  EXPECT(TCPX_ERR_UNAVAILABLE, tcpx_session_register_memory_on(group, INT32_MAX, &byte, 1, 1, &id));
  EXPECT(TCPX_ERR_ARGUMENT, tcpx_session_register_memory_on(group, -2, &byte, 1, 1, &id));
  EXPECT(TCPX_ERR_ARGUMENT, tcpx_session_register_memory_on(group, 0, &byte, 1, 2, &id));
  EXPECT(TCPX_ERR_NULL, tcpx_session_register_memory_on(group, 0, NULL, 1, 1, &id));
  EXPECT(TCPX_ERR_NULL, tcpx_session_register_memory_on(group, 0, &byte, 1, 1, NULL));
  OK(tcpx_session_register_memory(group, &byte, 1, TCPX_PTR_HOST, 1, &id));
  OK(tcpx_session_deregister_memory(group, id));
  OK(tcpx_session_progress(group, &flag));

  OK(tcpx_session_create(NULL, &alone));
  EXPECT(TCPX_ERR_ARGUMENT, tcpx_session_register_memory_on(alone, 0, &byte, 1, 1, &id));
  OK(tcpx_session_register_memory_on(alone, TCPX_GPU_NONE, &byte, 1, 1, &id));
  OK(tcpx_session_destroy(alone));
}

/* Sends and receives by tag are between hosts. */
static void tagged(tcpx_session left, tcpx_session right) {
  static char from[BYTES], to[BYTES];
  tcpx_transfer send = {0}, receive = {0};
  uint64_t left_id = 0, right_id = 0;
  memset(from, 5, sizeof from);
  OK(tcpx_session_register_memory(left, from, sizeof from, TCPX_PTR_HOST, 0, &left_id));
  OK(tcpx_session_register_memory(right, to, sizeof to, TCPX_PTR_HOST, 1, &right_id));
  OK(tcpx_session_create_transfer(left, "right", &send));
  OK(tcpx_session_create_transfer(right, "left", &receive));
  OK(tcpx_transfer_post_recv(receive, right_id, 0, sizeof to, 3));
  OK(tcpx_transfer_post_send(send, left_id, 0, sizeof from, 3));
  OK(tcpx_transfer_wait(send, WAIT_MS));
  OK(tcpx_transfer_wait(receive, WAIT_MS));
  TRUE(memcmp(from, to, sizeof to) == 0);
  OK(tcpx_transfer_release(send));
  OK(tcpx_transfer_release(receive));
  OK(tcpx_session_deregister_memory(left, left_id));
  OK(tcpx_session_deregister_memory(right, right_id));
}

int main(void) {
  char info[4096];
  tcpx_notification none;
  tcpx_session_stats stats;
  tcpx_operation notice = {0};
  size_t size = 0, info_bytes = 0;
  int32_t state = 0, descriptor = -1;
  int here, there;
  tcpx_session left, right;
  TRUE(setenv("TCPX_EMULATED_GPUS", "2", 1) == 0);
  left = open_group("left");
  right = open_group("right");
  stats.size = sizeof stats;
  OK(tcpx_session_listen(right, info, sizeof info, &info_bytes));
  OK(tcpx_session_load_remote_conn_info(left, "right", info, info_bytes));
  EXPECT(TCPX_ERR_SETTING, tcpx_session_load_remote_conn_info(left, "right/gpu0", info, info_bytes));
  OK(tcpx_session_event_fd(left, &descriptor));
  OK(tcpx_session_report_peers(right));
  refused(left);
  for (here = 0; here < DEVICES; ++here)
    for (there = 0; there < DEVICES; ++there) move(left, right, devices[here], devices[there]);
  one_sided_between_groups(left, right);
  tagged(left, right);
  check_stats(left, right);
  OK(tcpx_metrics_text(&left, 1, page, sizeof page, &size));
  TRUE(strstr(page, "\ntcpx_peers{session=\"left\",device=\"host\"} ") != NULL);
  TRUE(strstr(page, "\ntcpx_peers{session=\"left\",device=\"gpu1\"} ") != NULL);
  OK(tcpx_notify(left, "right", "done", 4));
  expect_note(right, "left");
  OK(tcpx_operation_prepare_notification(left, "right", &notice));
  for (here = 0; here < 2; ++here) {
    OK(tcpx_operation_post(notice, "done", 4));
    OK(tcpx_operation_wait(notice, WAIT_MS));
    /* It is there when the post is done, so no call has to wait for it. */
    OK(tcpx_poll_notifications(right, &none, sizeof none, 1, notes, sizeof notes, &size));
    TRUE(size == 1 && strcmp(none.peer, "left") == 0 && memcmp(notes, "done", 4) == 0);
  }
  OK(tcpx_operation_release(notice));
  EXPECT(TCPX_ERR_UNKNOWN_PEER, tcpx_operation_prepare_notification(left, "absent", &notice));
  EXPECT(TCPX_ERR_NULL, tcpx_operation_prepare_notification(left, "right", NULL));
  size = 99;
  EXPECT(TCPX_ERR_TIMEOUT, tcpx_wait_notifications(right, &none, sizeof none, 1, notes, sizeof notes, &size, 1));
  EXPECT(TCPX_ERR_ARGUMENT, tcpx_wait_notifications(right, &none, sizeof none, 1, notes, sizeof notes, &size, -2));
  EXPECT(TCPX_ERR_ARGUMENT, tcpx_wait_notifications(right, &none, sizeof none, 1, notes, 9, &size, 1));
  EXPECT(TCPX_ERR_NULL, tcpx_wait_notifications(right, &none, sizeof none, 1, notes, sizeof notes, NULL, 1));
  TRUE(size == 99);
  OK(tcpx_session_peer_state(left, "right", &state));
  TRUE(state == TCPX_PEER_UP);
  expect_peer(right, TCPX_PEER_UP);
  OK(tcpx_session_disconnect(left, "right"));
  expect_peer(right, TCPX_PEER_PARTED);
  OK(tcpx_session_connect(left, "right"));
  OK(tcpx_session_load_remote_conn_info(left, "other", info, info_bytes));
  OK(tcpx_session_connect(left, "other"));
  OK(tcpx_session_get_stats(left, &stats));
  TRUE(stats.peers == 1);
  OK(tcpx_session_forget_remote_conn_info(left, "other"));
  EXPECT(TCPX_ERR_UNKNOWN_PEER, tcpx_session_forget_remote_conn_info(left, "right"));
  OK(tcpx_session_start_disconnect(left, "right"));
  OK(tcpx_session_close(left));
  EXPECT(TCPX_ERR_CLOSED, tcpx_wait_notifications(left, &none, sizeof none, 1, notes, sizeof notes, &size, -1));
  EXPECT(TCPX_ERR_CLOSED, tcpx_notify(left, "right", "done", 4));
  OK(tcpx_session_destroy(left));
  EXPECT(TCPX_ERR_HANDLE, tcpx_session_destroy(left));
  OK(tcpx_session_destroy(right));
  puts("PASSED");
  return 0;
}
