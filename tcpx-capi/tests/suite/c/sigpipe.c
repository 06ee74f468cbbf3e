/*
 * A peer process ends in mid-transfer, and SIGPIPE would end this one: the plugin writes to the peer
 * as the original does. GPU memory on both sides.
 */
#define _POSIX_C_SOURCE 200809L
#include <dlfcn.h>
#include <signal.h>
#include <stdint.h>
#include <sys/wait.h>
#include <unistd.h>

#include "expect.h"

enum { BYTES = 64 << 20, WORDS = BYTES / 8, PATIENCE_MS = 60000, FIRST = 1, SECOND = 2, THIRD = 3 };

static uint64_t words[WORDS];

/* The few functions of the CUDA driver that this needs. */
static int (*init)(unsigned);
static int (*device_get)(int *, int);
static int (*retain)(void **, int);
static int (*push)(void *);
static int (*allocate)(uint64_t *, size_t);
static int (*stream_create)(void **, unsigned);
static int (*copy)(uint64_t, uint64_t, size_t, void *);
static int (*synchronize)(void *);

static void find(void *driver, void *function, const char *name) {
  void *found = dlsym(driver, name);
  TRUE(found != NULL);
  memcpy(function, &found, sizeof found);
}

static void open_driver(void) {
  void *driver = dlopen("libcuda.so.1", RTLD_NOW);
  void *context;
  int device;
  TRUE(driver != NULL);
  find(driver, &init, "cuInit");
  find(driver, &device_get, "cuDeviceGet");
  find(driver, &retain, "cuDevicePrimaryCtxRetain");
  find(driver, &push, "cuCtxPushCurrent_v2");
  find(driver, &allocate, "cuMemAlloc_v2");
  find(driver, &stream_create, "cuStreamCreate");
  find(driver, &copy, "cuMemcpyAsync");
  find(driver, &synchronize, "cuStreamSynchronize");
  TRUE(init(0) == 0 && device_get(&device, 0) == 0 && retain(&context, device) == 0 && push(context) == 0);
}

static void copy_words(uint64_t to, uint64_t from) {
  void *stream;
  TRUE(stream_create(&stream, 1) == 0 && copy(to, from, BYTES, stream) == 0 && synchronize(stream) == 0);
}

/* Memory of the GPU, registered, with what is in `words`. */
static uint64_t gpu_memory(tcpx_session session, int is_recv, uint64_t *address) {
  uint64_t id;
  TRUE(allocate(address, BYTES) == 0);
  copy_words(*address, (uint64_t)(uintptr_t)words);
  OK(tcpx_session_register_memory(session, (void *)(uintptr_t)*address, BYTES, TCPX_PTR_CUDA, is_recv, &id));
  return id;
}

static tcpx_session session_of(const char *name) {
  tcpx_session session;
  tcpx_session_options options;
  OK(tcpx_session_options_init(&options, sizeof options));
  options.name = name;
  options.progress_thread = 0;
  OK(tcpx_session_create(&options, &session));
  return session;
}

static uint64_t word(size_t index) { return (index + 1) * UINT64_C(0x9e3779b97f4a7c15); }

/* Receives one message, verifies it, and ends while the next one comes. */
static void receiver(int info_pipe) {
  char info[4096];
  size_t size = 0, i;
  uint64_t id, address;
  tcpx_session session;
  tcpx_transfer transfer;
  tcpx_transfer_counts counts = {sizeof counts, 0, 0, 0, 0, 0};
  uint64_t done;
  open_driver();
  session = session_of("receiver");
  OK(tcpx_session_listen(session, info, sizeof info, &size));
  TRUE(write(info_pipe, info, size) == (ssize_t)size);
  OK(tcpx_session_accept(session, "sender"));
  id = gpu_memory(session, 1, &address);
  OK(tcpx_session_create_transfer(session, "sender", &transfer));
  OK(tcpx_transfer_post_recv(transfer, id, 0, BYTES, FIRST));
  OK(tcpx_transfer_wait(transfer, PATIENCE_MS));
  copy_words((uint64_t)(uintptr_t)words, address);
  for (i = 0; i < WORDS; ++i) TRUE(words[i] == word(i));
  OK(tcpx_transfer_get_counts(transfer, &counts));
  done = counts.chunks_done;
  OK(tcpx_transfer_post_recv(transfer, id, 0, BYTES, SECOND));
  while (counts.chunks_done == done) {
    OK(tcpx_session_progress(session, NULL));
    OK(tcpx_transfer_get_counts(transfer, &counts));
  }
  TRUE(counts.operations_done == 1);
  _exit(0);
}

static void sender(const char *info, size_t size) {
  size_t i;
  uint64_t id, address;
  tcpx_session session;
  tcpx_transfer transfer;
  open_driver();
  for (i = 0; i < WORDS; ++i) words[i] = word(i);
  session = session_of("sender");
  OK(tcpx_session_load_remote_conn_info(session, "receiver", info, size));
  OK(tcpx_session_connect(session, "receiver"));
  id = gpu_memory(session, 0, &address);
  OK(tcpx_session_create_transfer(session, "receiver", &transfer));
  OK(tcpx_transfer_post_send(transfer, id, 0, BYTES, FIRST));
  OK(tcpx_transfer_post_send(transfer, id, 0, BYTES, SECOND));
  /* A send is done when the system has it all. This one is never asked for. */
  OK(tcpx_transfer_post_send(transfer, id, 0, BYTES, THIRD));
  EXPECT(TCPX_ERR_PEER_GONE, tcpx_transfer_wait(transfer, PATIENCE_MS));
  TRUE(strstr(tcpx_last_error(), "[TCPX-") != NULL);
  OK(tcpx_session_destroy(session));
}

int main(void) {
  char info[4096];
  int ends[2], status = 0;
  ssize_t size;
  pid_t child;
  TRUE(pipe(ends) == 0 && signal(SIGPIPE, SIG_DFL) != SIG_ERR);
  child = fork();
  TRUE(child >= 0);
  if (child == 0) receiver(ends[1]);
  size = read(ends[0], info, sizeof info);
  TRUE(size > 0);
  sender(info, (size_t)size);
  TRUE(waitpid(child, &status, 0) == child && status == 0);
  printf("PASSED\n");
  return 0;
}
