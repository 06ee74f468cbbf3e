/*
 * Moves a key-value cache from a prefill host to a decode host: 10,000 blocks in one batch. Both
 * ends have a block table, so each block lies somewhere else at the other end. The tag is the
 * block's number.
 *
 *   kv_blocks server [PORT]          the decode host: receives, prints its port
 *   kv_blocks client HOST PORT       the prefill host: sends
 */
#define _POSIX_C_SOURCE 200809L
#include <time.h>

#include "bootstrap.h"
#include "check.h"

enum { BLOCKS = 10000, BLOCK_BYTES = 4096, BLOCK_WORDS = BLOCK_BYTES / 8 };

/* Returns the content of word `index` of a block: a swap of blocks or words is found. */
static uint64_t word_of(uint64_t block, uint64_t index) {
  return (block * BLOCK_WORDS + index + 1) * UINT64_C(0x9e3779b97f4a7c15);
}

/* Returns the slot of a block: a permutation, since the factor is prime to the number of blocks. */
static uint64_t sender_slot(uint64_t block) { return (block * 7919) % BLOCKS; }
static uint64_t receiver_slot(uint64_t block) { return (block * 4001 + 17) % BLOCKS; }

static uint64_t *cache(void) {
  void *memory = NULL;
  REQUIRE(posix_memalign(&memory, 4096, (size_t)BLOCKS * BLOCK_BYTES) == 0);
  memset(memory, 0, (size_t)BLOCKS * BLOCK_BYTES);
  return (uint64_t *)memory;
}

static tcpx_post *posts_of(uint64_t memory, uint64_t (*slot)(uint64_t)) {
  tcpx_post *posts = (tcpx_post *)calloc(BLOCKS, sizeof *posts);
  int32_t block;
  REQUIRE(posts != NULL);
  for (block = 0; block < BLOCKS; ++block) {
    posts[block].memory = memory;
    posts[block].offset = slot((uint64_t)block) * BLOCK_BYTES;
    posts[block].bytes = BLOCK_BYTES;
    posts[block].tag = block;
  }
  return posts;
}

static double seconds(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

static void report(tcpx_transfer transfer, double took) {
  tcpx_transfer_counts counts = {sizeof counts, 0, 0, 0, 0, 0};
  CHECK(tcpx_transfer_get_counts(transfer, &counts));
  REQUIRE(counts.operations_done == BLOCKS && counts.bytes_done == (uint64_t)BLOCKS * BLOCK_BYTES);
  printf("%d blocks of %d bytes in %.1f ms, %.2f GB/s\nPASSED\n", BLOCKS, BLOCK_BYTES, took * 1e3,
         (double)counts.bytes_done / took / 1e9);
}

static void server(uint16_t port) {
  char info[4096];
  size_t info_size = 0;
  uint64_t memory = 0;
  uint64_t block;
  uint64_t index;
  tcpx_session session = {0};
  tcpx_transfer transfer = {0};
  uint64_t *blocks = cache();
  tcpx_post *posts;
  double started;
  double took;
  int listener = bootstrap_listen(port);
  int peer;
  REQUIRE(listener >= 0);

  CHECK(tcpx_session_create(NULL, &session));
  CHECK(tcpx_session_listen(session, info, sizeof info, &info_size));
  peer = bootstrap_accept(listener);
  REQUIRE(peer >= 0 && bootstrap_send(peer, info, info_size) == 0);
  CHECK(tcpx_session_accept(session, "prefill"));
  CHECK(tcpx_session_register_memory(session, blocks, (uint64_t)BLOCKS * BLOCK_BYTES, TCPX_PTR_CUDA, 1, &memory));

  posts = posts_of(memory, receiver_slot);
  CHECK(tcpx_session_create_transfer(session, "prefill", &transfer));
  started = seconds();
  CHECK(tcpx_transfer_post_recv_batch(transfer, posts, sizeof *posts, BLOCKS));
  CHECK(tcpx_transfer_wait(transfer, 60000));
  took = seconds() - started;
  for (block = 0; block < BLOCKS; ++block) {
    const uint64_t *words = blocks + receiver_slot(block) * BLOCK_WORDS;
    for (index = 0; index < BLOCK_WORDS; ++index) REQUIRE(words[index] == word_of(block, index));
  }
  report(transfer, took);

  CHECK(tcpx_transfer_release(transfer));
  CHECK(tcpx_session_disconnect(session, "prefill"));
  CHECK(tcpx_session_destroy(session));
  free(posts);
  free(blocks);
  close(peer);
  close(listener);
}

static void client(const char *host, const char *port) {
  char info[4096];
  long info_size;
  uint64_t memory = 0;
  uint64_t block;
  uint64_t index;
  tcpx_session session = {0};
  tcpx_transfer transfer = {0};
  uint64_t *blocks = cache();
  tcpx_post *posts;
  double started;
  double took;
  int peer = bootstrap_connect(host, port);
  REQUIRE(peer >= 0);

  CHECK(tcpx_session_create(NULL, &session));
  info_size = bootstrap_receive(peer, info, sizeof info);
  REQUIRE(info_size >= 0);
  CHECK(tcpx_session_load_remote_conn_info(session, "decode", info, (size_t)info_size));
  CHECK(tcpx_session_connect(session, "decode"));
  for (block = 0; block < BLOCKS; ++block) {
    uint64_t *words = blocks + sender_slot(block) * BLOCK_WORDS;
    for (index = 0; index < BLOCK_WORDS; ++index) words[index] = word_of(block, index);
  }
  CHECK(tcpx_session_register_memory(session, blocks, (uint64_t)BLOCKS * BLOCK_BYTES, TCPX_PTR_CUDA, 0, &memory));

  posts = posts_of(memory, sender_slot);
  CHECK(tcpx_session_create_transfer(session, "decode", &transfer));
  started = seconds();
  CHECK(tcpx_transfer_post_send_batch(transfer, posts, sizeof *posts, BLOCKS));
  CHECK(tcpx_transfer_wait(transfer, 60000));
  took = seconds() - started;
  report(transfer, took);

  CHECK(tcpx_transfer_release(transfer));
  CHECK(tcpx_session_disconnect(session, "decode"));
  CHECK(tcpx_session_destroy(session));
  free(posts);
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
