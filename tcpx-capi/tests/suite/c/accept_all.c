/* A session that accepts every peer, over authenticated links: other sessions write its memory
 * without a call of its program, and it reaches itself. */
#include <poll.h>

#include "expect.h"

enum { BYTES = 100000, WAIT_MS = 60000 };

static unsigned char exported[BYTES];
static unsigned char own[BYTES];

static void fill(unsigned char *bytes, int seed) {
  int i;
  for (i = 0; i < BYTES; ++i) bytes[i] = (unsigned char)(i * 7 + i / 251 + seed);
}

static tcpx_session open_session(const char *name, int32_t accept_all) {
  tcpx_session_options options;
  tcpx_session session = {0};
  OK(tcpx_session_options_init(&options, sizeof options));
  TRUE(options.accept_all == 0);
  options.plugin = "soft";
  options.progress_thread = 1;
  options.name = name;
  options.accept_all = accept_all;
  TRUE(options.encryption == NULL);
  options.encryption = accept_all ? "require" : "prefer";
  OK(tcpx_session_create(&options, &session));
  return session;
}

/* Moves all of `own` between a session and the memory that the key leads to. */
static void run_operation(tcpx_session session, const char *peer, int32_t kind, uint64_t memory, const char *key) {
  tcpx_pair pair = {memory, 0, key, TCPX_REMOTE_KEY_BYTES, 0, BYTES};
  tcpx_operation operation = {0};
  OK(tcpx_operation_prepare(session, peer, kind, &pair, sizeof pair, 1, &operation));
  OK(tcpx_operation_post(operation, "moved", 5));
  OK(tcpx_operation_wait(operation, WAIT_MS));
  OK(tcpx_operation_release(operation));
}

/* The next notification says "moved", and is from this peer. */
static void expect_note(tcpx_session session, const char *peer) {
  static char bytes[TCPX_MAX_NOTIFICATION_BYTES];
  tcpx_notification note;
  struct pollfd descriptor = {-1, POLLIN, 0};
  size_t count = 0;
  OK(tcpx_session_event_fd(session, &descriptor.fd));
  for (;;) {
    OK(tcpx_session_poll_completions(session, NULL, sizeof(tcpx_completion), 0, &count));
    OK(tcpx_poll_notifications(session, &note, sizeof note, 1, bytes, sizeof bytes, &count));
    if (count == 1) break;
    TRUE(poll(&descriptor, 1, WAIT_MS) == 1);
  }
  TRUE(strcmp(note.peer, peer) == 0 && note.bytes == 5 && memcmp(bytes, "moved", 5) == 0);
}

int main(void) {
  tcpx_session host = open_session("host", 1);
  tcpx_session visitor = open_session("visitor", 0);
  tcpx_export_options options = {sizeof options, 0, 0, TCPX_ACCESS_READ | TCPX_ACCESS_WRITE, 0};
  char key[TCPX_REMOTE_KEY_BYTES];
  char info[4096];
  static char stats[65536];
  size_t size = 0;
  size_t stats_size = 0;
  uint64_t memories[3] = {0, 0, 0};
  OK(tcpx_session_register_memory(host, exported, BYTES, TCPX_PTR_HOST, 1, &memories[0]));
  OK(tcpx_session_register_memory(host, own, BYTES, TCPX_PTR_HOST, 1, &memories[1]));
  OK(tcpx_session_register_memory(visitor, own, BYTES, TCPX_PTR_HOST, 1, &memories[2]));
  OK(tcpx_export(host, memories[0], &options, key, sizeof key, &size));
  OK(tcpx_session_listen(host, info, sizeof info, &size));

  fill(own, 1);
  OK(tcpx_session_load_remote_conn_info(visitor, "host", info, size));
  OK(tcpx_session_connect(visitor, "host"));
  OK(tcpx_session_stats_json(visitor, stats, sizeof stats, &stats_size));
  TRUE(strstr(stats, "\"link_encrypted\":true") != NULL);
  run_operation(visitor, "host", TCPX_WRITE, memories[2], key);
  TRUE(memcmp(exported, own, BYTES) == 0);
  expect_note(host, "visitor");

  fill(own, 2);
  OK(tcpx_session_load_remote_conn_info(host, "myself", info, size));
  OK(tcpx_session_connect(host, "myself"));
  run_operation(host, "myself", TCPX_WRITE, memories[1], key);
  TRUE(memcmp(exported, own, BYTES) == 0);
  expect_note(host, "host"); /* the name that it gives itself */
  memset(own, 0, BYTES);
  run_operation(host, "myself", TCPX_READ, memories[1], key);
  TRUE(memcmp(exported, own, BYTES) == 0);
  expect_note(host, "host");

  OK(tcpx_session_forget_remote_conn_info(visitor, "host"));
  EXPECT(TCPX_ERR_UNKNOWN_PEER, tcpx_session_forget_remote_conn_info(visitor, "host"));
  EXPECT(TCPX_ERR_NULL, tcpx_session_forget_remote_conn_info(visitor, NULL));
  OK(tcpx_notify(visitor, "host", "moved", 5));
  expect_note(host, "visitor");
  OK(tcpx_session_disconnect(visitor, "host"));
  EXPECT(TCPX_ERR_UNKNOWN_PEER, tcpx_notify(visitor, "host", "moved", 5));
  OK(tcpx_session_destroy(visitor));
  OK(tcpx_session_destroy(host));
  puts("PASSED");
  return 0;
}
