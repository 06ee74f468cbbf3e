/* Memory that is deregistered while it is in use: when the call returns, its pages are taken away, and traffic goes on.
 * Whatever touches them ends this program, or its connection. */
#define _DEFAULT_SOURCE
#include <sys/mman.h>
#include <time.h>

#include "expect.h"

enum { BYTES = 8 << 20, CASES = 16, TRAFFIC_MS = 3000, WAIT_MS = 60000, SOME = 100000 };

typedef struct {
  two_sessions sessions;
  unsigned char *pages;        /* left's, registered until they are taken away */
  unsigned char *right, *more; /* right's, and others of left's */
  uint64_t pages_id, right_id, more_id;
  unsigned char key[TCPX_REMOTE_KEY_BYTES];      /* of right's */
  unsigned char left_key[TCPX_REMOTE_KEY_BYTES]; /* of the pages */
  uint64_t sum;
} traffic;

static traffic scenes[CASES];

static uint64_t sum_of(const unsigned char *bytes) {
  uint64_t sum = 0;
  size_t i;
  for (i = 0; i < BYTES; ++i) sum = sum * 31 + bytes[i];
  return sum;
}

static void connect_ends(traffic *traffic, int32_t ptr_type) {
  tcpx_session_options options;
  tcpx_export_options export_options = {sizeof export_options, 0, 0, TCPX_ACCESS_READ | TCPX_ACCESS_WRITE, 0};
  size_t size = 0;
  OK(tcpx_session_options_init(&options, sizeof options));
  options.plugin = "soft";
  options.progress_thread = 1;
  options.close_timeout_ms = WAIT_MS;
  traffic->sessions = connect_sessions_with(&options, &options);
  traffic->pages = mmap(NULL, BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  traffic->right = malloc(BYTES);
  traffic->more = malloc(SOME);
  TRUE(traffic->pages != MAP_FAILED && traffic->right != NULL && traffic->more != NULL);
  memset(traffic->right, 7, BYTES);
  OK(tcpx_session_register_memory(traffic->sessions.left, traffic->pages, BYTES, ptr_type, 1, &traffic->pages_id));
  OK(tcpx_session_register_memory(traffic->sessions.left, traffic->more, SOME, ptr_type, 1, &traffic->more_id));
  OK(tcpx_session_register_memory(traffic->sessions.right, traffic->right, BYTES, ptr_type, 1, &traffic->right_id));
  OK(tcpx_export(traffic->sessions.right, traffic->right_id, &export_options, traffic->key, sizeof traffic->key, &size));
  OK(tcpx_export(traffic->sessions.left, traffic->pages_id, &export_options, traffic->left_key, sizeof traffic->left_key, &size));
}

static tcpx_operation prepare(tcpx_session session, const char *peer, int32_t kind, uint64_t memory,
                              const unsigned char *key, uint64_t bytes) {
  tcpx_pair pair;
  tcpx_operation operation = {0};
  pair.memory = memory;
  pair.offset = pair.remote_offset = 0;
  pair.key = key;
  pair.key_bytes = TCPX_REMOTE_KEY_BYTES;
  pair.bytes = bytes;
  OK(tcpx_operation_prepare(session, peer, kind, &pair, sizeof pair, 1, &operation));
  return operation;
}

static void read_or_write(const traffic *traffic, unsigned number) {
  const int32_t kind = number & 1 ? TCPX_READ : TCPX_WRITE;
  tcpx_operation operation = prepare(traffic->sessions.left, "right", kind, traffic->pages_id, traffic->key, BYTES);
  OK(tcpx_operation_post(operation, "note", number & 2 ? 4 : 0));
  if (number & 2) OK(tcpx_operation_release(operation));
  OK(tcpx_session_deregister_memory(traffic->sessions.left, traffic->pages_id));
  if (number & 2) return;
  TRUE(tcpx_operation_wait(operation, 0) != TCPX_ERR_TIMEOUT); /* it has ended */
  EXPECT(TCPX_ERR_UNKNOWN_MEMORY, tcpx_operation_post(operation, NULL, 0));
  OK(tcpx_operation_release(operation));
}

static void send_or_receive(const traffic *traffic, unsigned number) {
  tcpx_transfer here = {0}, there = {0};
  OK(tcpx_session_create_transfer(traffic->sessions.left, "right", &here));
  OK(tcpx_session_create_transfer(traffic->sessions.right, "left", &there));
  if (number & 1) {
    OK(tcpx_transfer_post_recv(here, traffic->pages_id, 0, BYTES, 1));
    OK(tcpx_transfer_post_send(there, traffic->right_id, 0, BYTES, 1));
  } else {
    OK(tcpx_transfer_post_recv(there, traffic->right_id, 0, BYTES, 1));
    OK(tcpx_transfer_post_send(here, traffic->pages_id, 0, BYTES, 1));
  }
  if (number & 2) OK(tcpx_transfer_release(here));
  OK(tcpx_session_deregister_memory(traffic->sessions.left, traffic->pages_id));
  if (!(number & 2)) {
    TRUE(tcpx_transfer_wait(here, 0) != TCPX_ERR_TIMEOUT);
    OK(tcpx_transfer_release(here));
  }
  OK(tcpx_transfer_release(there));
}

static void deregister_under_load(traffic *traffic) {
  tcpx_operation late;
  traffic->sum = sum_of(traffic->pages);
  TRUE(mprotect(traffic->pages, BYTES, PROT_NONE) == 0);
  EXPECT(TCPX_ERR_UNKNOWN_MEMORY, tcpx_session_deregister_memory(traffic->sessions.left, traffic->pages_id));
  late = prepare(traffic->sessions.right, "left", TCPX_WRITE, traffic->right_id, traffic->left_key, SOME);
  OK(tcpx_operation_post(late, NULL, 0));
  EXPECT(TCPX_ERR_REMOTE_MEMORY, tcpx_operation_wait(late, WAIT_MS));
  OK(tcpx_operation_release(late));
}

static long now_ms(void) {
  struct timespec now;
  TRUE(clock_gettime(CLOCK_MONOTONIC, &now) == 0);
  return (long)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

/* An argument: for how many milliseconds traffic goes on. */
int main(int argc, char **argv) {
  const long traffic_ms = argc > 1 ? atol(argv[1]) : TRAFFIC_MS;
  long end;
  unsigned i;
  for (i = 0; i < CASES; ++i) {
    /* On channels, or on the link. */
    TRUE(setenv("TCPX_LINK_BYTES", i & 8 ? "0" : "1099511627776", 1) == 0);
    /* Without a GPU its memory is emulated. */
    connect_ends(&scenes[i], i / 3 & 1 ? TCPX_PTR_CUDA : TCPX_PTR_HOST);
    if (i & 4) {
      send_or_receive(&scenes[i], i);
    } else {
      read_or_write(&scenes[i], i);
    }
    deregister_under_load(&scenes[i]);
  }
  for (end = now_ms() + traffic_ms, i = 0; now_ms() < end; i = (i + 1) % CASES) {
    traffic *traffic = &scenes[i];
    tcpx_operation read = prepare(traffic->sessions.left, "right", TCPX_READ, traffic->more_id, traffic->key, SOME);
    OK(tcpx_operation_post(read, NULL, 0));
    OK(tcpx_operation_wait(read, WAIT_MS));
    OK(tcpx_operation_release(read));
  }
  for (i = 0; i < CASES; ++i) {
    TRUE(mprotect(scenes[i].pages, BYTES, PROT_READ) == 0);
    TRUE(sum_of(scenes[i].pages) == scenes[i].sum);
    destroy_sessions(scenes[i].sessions);
    TRUE(munmap(scenes[i].pages, BYTES) == 0);
    free(scenes[i].right);
    free(scenes[i].more);
  }
  puts("PASSED");
  return 0;
}
