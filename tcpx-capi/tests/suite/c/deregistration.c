/* Memory that is deregistered while it is in use: when the call returns, its pages are taken away, and traffic goes on.
 * Whatever touches them ends this program, or its connection. */
#define _DEFAULT_SOURCE
#include <sys/mman.h>
#include <time.h>

#include "expect.h"

enum { BYTES = 8 << 20, CASES = 16, TRAFFIC_MS = 3000, WAIT_MS = 60000, SOME = 100000 };

typedef struct {
  session_pair sessions;
  unsigned char *pages;        /* left's, registered until they are taken away */
  unsigned char *right, *more; /* right's, and others of left's */
  uint64_t pages_id, right_id, more_id;
  unsigned char key[TCPX_REMOTE_KEY_BYTES];      /* of right's */
  unsigned char left_key[TCPX_REMOTE_KEY_BYTES]; /* of the pages */
  uint64_t sum;
} scene;

static scene scenes[CASES];

static uint64_t sum_of(const unsigned char *bytes) {
  uint64_t sum = 0;
  size_t i;
  for (i = 0; i < BYTES; ++i) sum = sum * 31 + bytes[i];
  return sum;
}

static void meet(scene *scene, int32_t ptr_type) {
  tcpx_session_options options;
  tcpx_export_options export_options = {sizeof export_options, 0, 0, TCPX_ACCESS_READ | TCPX_ACCESS_WRITE, 0};
  size_t size = 0;
  OK(tcpx_session_options_init(&options, sizeof options));
  options.plugin = "soft";
  options.progress_thread = 1;
  options.close_timeout_ms = WAIT_MS;
  scene->sessions = connected_pair_with(&options, &options);
  scene->pages = mmap(NULL, BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  scene->right = malloc(BYTES);
  scene->more = malloc(SOME);
  TRUE(scene->pages != MAP_FAILED && scene->right != NULL && scene->more != NULL);
  memset(scene->right, 7, BYTES);
  OK(tcpx_session_register_memory(scene->sessions.left, scene->pages, BYTES, ptr_type, 1, &scene->pages_id));
  OK(tcpx_session_register_memory(scene->sessions.left, scene->more, SOME, ptr_type, 1, &scene->more_id));
  OK(tcpx_session_register_memory(scene->sessions.right, scene->right, BYTES, ptr_type, 1, &scene->right_id));
  OK(tcpx_export(scene->sessions.right, scene->right_id, &export_options, scene->key, sizeof scene->key, &size));
  OK(tcpx_export(scene->sessions.left, scene->pages_id, &export_options, scene->left_key, sizeof scene->left_key, &size));
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

static void read_or_write(const scene *scene, unsigned number) {
  const int32_t kind = number & 1 ? TCPX_READ : TCPX_WRITE;
  tcpx_operation operation = prepare(scene->sessions.left, "right", kind, scene->pages_id, scene->key, BYTES);
  OK(tcpx_operation_post(operation, "note", number & 2 ? 4 : 0));
  if (number & 2) OK(tcpx_operation_release(operation));
  OK(tcpx_session_deregister_memory(scene->sessions.left, scene->pages_id));
  if (number & 2) return;
  TRUE(tcpx_operation_wait(operation, 0) != TCPX_ERR_TIMEOUT); /* it has ended */
  EXPECT(TCPX_ERR_UNKNOWN_MEMORY, tcpx_operation_post(operation, NULL, 0));
  OK(tcpx_operation_release(operation));
}

static void send_or_receive(const scene *scene, unsigned number) {
  tcpx_transfer here = {0}, there = {0};
  OK(tcpx_session_create_transfer(scene->sessions.left, "right", &here));
  OK(tcpx_session_create_transfer(scene->sessions.right, "left", &there));
  if (number & 1) {
    OK(tcpx_transfer_post_recv(here, scene->pages_id, 0, BYTES, 1));
    OK(tcpx_transfer_post_send(there, scene->right_id, 0, BYTES, 1));
  } else {
    OK(tcpx_transfer_post_recv(there, scene->right_id, 0, BYTES, 1));
    OK(tcpx_transfer_post_send(here, scene->pages_id, 0, BYTES, 1));
  }
  if (number & 2) OK(tcpx_transfer_release(here));
  OK(tcpx_session_deregister_memory(scene->sessions.left, scene->pages_id));
  if (!(number & 2)) {
    TRUE(tcpx_transfer_wait(here, 0) != TCPX_ERR_TIMEOUT);
    OK(tcpx_transfer_release(here));
  }
  OK(tcpx_transfer_release(there));
}

static void take_away(scene *scene) {
  tcpx_operation late;
  scene->sum = sum_of(scene->pages);
  TRUE(mprotect(scene->pages, BYTES, PROT_NONE) == 0);
  EXPECT(TCPX_ERR_UNKNOWN_MEMORY, tcpx_session_deregister_memory(scene->sessions.left, scene->pages_id));
  late = prepare(scene->sessions.right, "left", TCPX_WRITE, scene->right_id, scene->left_key, SOME);
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
    meet(&scenes[i], i / 3 & 1 ? TCPX_PTR_CUDA : TCPX_PTR_HOST);
    if (i & 4) {
      send_or_receive(&scenes[i], i);
    } else {
      read_or_write(&scenes[i], i);
    }
    take_away(&scenes[i]);
  }
  for (end = now_ms() + traffic_ms, i = 0; now_ms() < end; i = (i + 1) % CASES) {
    scene *scene = &scenes[i];
    tcpx_operation read = prepare(scene->sessions.left, "right", TCPX_READ, scene->more_id, scene->key, SOME);
    OK(tcpx_operation_post(read, NULL, 0));
    OK(tcpx_operation_wait(read, WAIT_MS));
    OK(tcpx_operation_release(read));
  }
  for (i = 0; i < CASES; ++i) {
    TRUE(mprotect(scenes[i].pages, BYTES, PROT_READ) == 0);
    TRUE(sum_of(scenes[i].pages) == scenes[i].sum);
    destroy_pair(scenes[i].sessions);
    TRUE(munmap(scenes[i].pages, BYTES) == 0);
    free(scenes[i].right);
    free(scenes[i].more);
  }
  puts("PASSED");
  return 0;
}
