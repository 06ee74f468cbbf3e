/*
 * A decode host fetches a key-value cache from a prefill host, which does nothing for it: it exports
 * its cache of 10,000 blocks and waits. The decode host reads all of them in one operation, in an
 * order of its own. It changes every third block, writes it back, and sends a notification.
 *
 *   kv_pull server [PORT]          the prefill host: exports, prints its port
 *   kv_pull client HOST PORT       the decode host: reads and writes
 */
#define _POSIX_C_SOURCE 200809L
#include <poll.h>
#include <time.h>

#include "bootstrap.h"
#include "check.h"

enum { BLOCKS = 10000, BLOCK_BYTES = 4096, BLOCK_WORDS = BLOCK_BYTES / 8, CHANGED_EACH = 3, WAIT_MS = 60000 };

static const char NOTE[] = "every third block";

/* Returns the content of word `index` of a block: a swap of blocks or words is found. */
static uint64_t word_of(uint64_t block, uint64_t index) {
  return (block * BLOCK_WORDS + index + 1) * UINT64_C(0x9e3779b97f4a7c15);
}

/* Returns its content after the change of the decode host. */
static uint64_t changed_word(uint64_t block, uint64_t index) { return ~word_of(block, index); }

/* Returns the slot of a block: a permutation, since the factor is prime to the number of blocks. */
static uint64_t prefill_slot(uint64_t block) { return (block * 7919) % BLOCKS; }
static uint64_t decode_slot(uint64_t block) { return (block * 4001 + 17) % BLOCKS; }

static uint64_t *cache(void) {
  void *memory = NULL;
  REQUIRE(posix_memalign(&memory, 4096, (size_t)BLOCKS * BLOCK_BYTES) == 0);
  memset(memory, 0, (size_t)BLOCKS * BLOCK_BYTES);
  return (uint64_t *)memory;
}

static double seconds(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

/* Waits for the notification NOTE of the peer. The program sleeps meanwhile. */
static void await_note(tcpx_session session, const char *peer) {
  static char bytes[TCPX_MAX_NOTIFICATION_BYTES];
  tcpx_notification note;
  size_t count = 0;
  struct pollfd descriptor = {-1, POLLIN, 0};
  int32_t fd = -1;
  CHECK(tcpx_session_event_fd(session, &fd));
  descriptor.fd = fd;
  for (;;) {
    size_t none = 0;
    /* This makes the descriptor unreadable until something happens. */
    CHECK(tcpx_session_poll_completions(session, NULL, sizeof(tcpx_completion), 0, &none));
    CHECK(tcpx_poll_notifications(session, &note, sizeof note, 1, bytes, sizeof bytes, &count));
    if (count == 1) break;
    REQUIRE(poll(&descriptor, 1, WAIT_MS) == 1);
  }
  REQUIRE(strcmp(note.peer, peer) == 0 && note.bytes == sizeof NOTE && memcmp(bytes, NOTE, sizeof NOTE) == 0);
}

static void server(uint16_t port) {
  char info[4096];
  char key[TCPX_REMOTE_KEY_BYTES];
  size_t info_size = 0;
  size_t key_size = 0;
  tcpx_export_options options = {sizeof options, 0, 0, TCPX_ACCESS_READ | TCPX_ACCESS_WRITE, 0};
  uint64_t memory = 0;
  uint64_t block;
  uint64_t index;
  tcpx_session session = {0};
  uint64_t *blocks = cache();
  int listener = bootstrap_listen(port);
  int peer;
  REQUIRE(listener >= 0);
  for (block = 0; block < BLOCKS; ++block) {
    uint64_t *words = blocks + prefill_slot(block) * BLOCK_WORDS;
    for (index = 0; index < BLOCK_WORDS; ++index) words[index] = word_of(block, index);
  }

  CHECK(tcpx_session_create(NULL, &session));
  CHECK(tcpx_session_listen(session, info, sizeof info, &info_size));
  CHECK(tcpx_session_register_memory(session, blocks, (uint64_t)BLOCKS * BLOCK_BYTES, TCPX_PTR_CUDA, 1, &memory));
  CHECK(tcpx_export(session, memory, &options, key, sizeof key, &key_size));
  peer = bootstrap_accept(listener);
  /* A peer with the key and the connection info may read and write the blocks. */
  REQUIRE(peer >= 0 && bootstrap_send(peer, info, info_size) == 0 && bootstrap_send(peer, key, key_size) == 0);
  CHECK(tcpx_session_accept(session, "decode"));

  await_note(session, "decode");
  /* No peer reads or writes them any more. */
  CHECK(tcpx_unexport(session, key, key_size));
  for (block = 0; block < BLOCKS; ++block) {
    const uint64_t *words = blocks + prefill_slot(block) * BLOCK_WORDS;
    uint64_t (*word)(uint64_t, uint64_t) = block % CHANGED_EACH == 0 ? changed_word : word_of;
    for (index = 0; index < BLOCK_WORDS; ++index) REQUIRE(words[index] == word(block, index));
  }
  printf("every third of %d blocks was changed\nPASSED\n", BLOCKS);

  CHECK(tcpx_session_disconnect(session, "decode"));
  CHECK(tcpx_session_destroy(session));
  free(blocks);
  close(peer);
  close(listener);
}

/* Moves every `each`th block between this cache and the one that the key leads to, and waits. */
static void move(tcpx_session session, int32_t kind, uint64_t memory, const char *key, size_t key_size, uint64_t each,
                 const char *note, size_t note_size) {
  tcpx_pair *pairs = (tcpx_pair *)calloc(BLOCKS, sizeof *pairs);
  tcpx_operation operation = {0};
  size_t count = 0;
  uint64_t block;
  double took;
  REQUIRE(pairs != NULL);
  for (block = 0; block < BLOCKS; block += each) {
    tcpx_pair *pair = &pairs[count++];
    pair->memory = memory;
    pair->offset = decode_slot(block) * BLOCK_BYTES;
    pair->key = key;
    pair->key_bytes = key_size;
    pair->remote_offset = prefill_slot(block) * BLOCK_BYTES;
    pair->bytes = BLOCK_BYTES;
  }
  CHECK(tcpx_operation_prepare(session, "prefill", kind, pairs, sizeof *pairs, count, &operation));
  free(pairs); /* The operation has a list of its own. */
  took = -seconds();
  CHECK(tcpx_operation_post(operation, note, note_size));
  CHECK(tcpx_operation_wait(operation, WAIT_MS));
  took += seconds();
  printf("%s %zu blocks of %d bytes in %.1f ms, %.2f GB/s\n", kind == TCPX_READ ? "read" : "wrote", count, BLOCK_BYTES,
         took * 1e3, (double)count * BLOCK_BYTES / took / 1e9);
  CHECK(tcpx_operation_release(operation));
}

static void client(const char *host, const char *port) {
  char info[4096];
  char key[TCPX_REMOTE_KEY_BYTES];
  long info_size;
  long key_size;
  uint64_t memory = 0;
  uint64_t block;
  uint64_t index;
  tcpx_session session = {0};
  uint64_t *blocks = cache();
  int peer = bootstrap_connect(host, port);
  REQUIRE(peer >= 0);

  CHECK(tcpx_session_create(NULL, &session));
  info_size = bootstrap_receive(peer, info, sizeof info);
  key_size = bootstrap_receive(peer, key, sizeof key);
  REQUIRE(info_size >= 0 && key_size >= 0);
  CHECK(tcpx_session_load_remote_conn_info(session, "prefill", info, (size_t)info_size));
  CHECK(tcpx_session_connect(session, "prefill"));
  CHECK(tcpx_session_register_memory(session, blocks, (uint64_t)BLOCKS * BLOCK_BYTES, TCPX_PTR_CUDA, 1, &memory));

  move(session, TCPX_READ, memory, key, (size_t)key_size, 1, NULL, 0);
  for (block = 0; block < BLOCKS; ++block) {
    uint64_t *words = blocks + decode_slot(block) * BLOCK_WORDS;
    for (index = 0; index < BLOCK_WORDS; ++index) {
      REQUIRE(words[index] == word_of(block, index));
      if (block % CHANGED_EACH == 0) words[index] = changed_word(block, index);
    }
  }
  move(session, TCPX_WRITE, memory, key, (size_t)key_size, CHANGED_EACH, NOTE, sizeof NOTE);
  printf("PASSED\n");

  CHECK(tcpx_session_disconnect(session, "prefill"));
  CHECK(tcpx_session_destroy(session));
  free(blocks);
  close(peer);
}

int main(int argc, char **argv) {
  if (argc >= 2 && argc <= 3 && strcmp(argv[1], "server") == 0) {
    server(argc == 3 ? (uint16_t)atoi(argv[2]) : 0);
  } else if (argc == 4 && strcmp(argv[1], "client") == 0) {
    client(argv[2], argv[3]);
  } else {
    fprintf(stderr, "usage: %s server [PORT] | client HOST PORT\n", argv[0]);
    return 2;
  }
  return 0;
}
