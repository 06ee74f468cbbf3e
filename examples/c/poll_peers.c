/*
 * Serves several peers with one session and one loop that never blocks: it posts a receive for
 * each, makes progress, polls for complete ones, and posts again.
 *
 *   poll_peers server PEERS [PORT]     receives ROUNDS messages from each peer, prints its port
 *   poll_peers client HOST PORT NAME   sends them
 */
#define _POSIX_C_SOURCE 200809L
#include <sched.h>
#include <time.h>

#include "bootstrap.h"
#include "check.h"

enum { ROUNDS = 8, MESSAGE_BYTES = 100000, MAX_PEERS = 16, LIMIT_SECONDS = 60 };

typedef struct {
  char name[TCPX_MAX_NAME_BYTES + 1];
  unsigned char *buffer;
  tcpx_transfer transfer;
  int round;
} peer_state;

/* Both ends know a peer's name, so the receiver can tell its bytes from another's. */
static unsigned char byte_of(const char *name, int round, size_t index) {
  size_t sum = index * 31 + (size_t)round * 7;
  while (*name != '\0') sum = sum * 33 + (unsigned char)*name++;
  return (unsigned char)(sum ^ (sum >> 8));
}

static unsigned char *buffer_of(size_t bytes) {
  void *buffer = NULL;
  REQUIRE(posix_memalign(&buffer, 4096, bytes) == 0);
  memset(buffer, 0, bytes);
  return (unsigned char *)buffer;
}

/* Where a peer's part of the registration begins: pages of its own. */
static uint64_t offset_of(int index) { return (uint64_t)index * ((MESSAGE_BYTES + 4095) / 4096 * 4096); }

static void meet(tcpx_session session, int listener, const void *info, size_t info_size, peer_state *peer) {
  int fd = bootstrap_accept(listener);
  long length;
  REQUIRE(fd >= 0);
  length = bootstrap_receive(fd, peer->name, sizeof peer->name - 1);
  REQUIRE(length > 0);
  peer->name[length] = '\0';
  REQUIRE(bootstrap_send(fd, info, info_size) == 0);
  CHECK(tcpx_session_accept(session, peer->name));
  close(fd);
}

/* Polls one peer. Returns whether a message has arrived. */
static bool look(peer_state *peer, uint64_t memory, uint64_t offset) {
  bool complete = false;
  size_t i;
  if (peer->round == ROUNDS) return false;
  CHECK(tcpx_transfer_is_complete(peer->transfer, &complete));
  if (!complete) return false;
  for (i = 0; i < MESSAGE_BYTES; ++i) REQUIRE(peer->buffer[i] == byte_of(peer->name, peer->round, i));
  if (++peer->round < ROUNDS) {
    CHECK(tcpx_transfer_post_recv(peer->transfer, memory, offset, MESSAGE_BYTES, peer->round));
  }
  return true;
}

static void serve(peer_state *peers, int count, uint64_t memory) {
  time_t started = time(NULL);
  int open = count * ROUNDS;
  int i;
  while (open > 0) {
    bool came = false;
    for (i = 0; i < count; ++i) {
      if (look(&peers[i], memory, offset_of(i))) {
        came = true;
        --open;
      }
    }
    REQUIRE(time(NULL) - started < LIMIT_SECONDS);
    if (!came) sched_yield();
  }
}

static void server(int count, uint16_t port) {
  char info[4096];
  size_t info_size = 0;
  uint64_t memory = 0;
  tcpx_session session = {0};
  peer_state peers[MAX_PEERS];
  unsigned char *buffer = buffer_of((size_t)offset_of(count));
  tcpx_transfer_counts counts = {sizeof counts, 0, 0, 0, 0, 0};
  int listener = bootstrap_listen(port);
  int i;
  REQUIRE(listener >= 0);
  memset(peers, 0, sizeof peers);

  CHECK(tcpx_session_create(NULL, &session));
  CHECK(tcpx_session_listen(session, info, sizeof info, &info_size));
  CHECK(tcpx_session_register_memory(session, buffer, offset_of(count), TCPX_PTR_CUDA, 1, &memory));
  for (i = 0; i < count; ++i) {
    peers[i].buffer = buffer + offset_of(i);
    meet(session, listener, info, info_size, &peers[i]);
    CHECK(tcpx_session_create_transfer(session, peers[i].name, &peers[i].transfer));
    CHECK(tcpx_transfer_post_recv(peers[i].transfer, memory, offset_of(i), MESSAGE_BYTES, 0));
  }
  serve(peers, count, memory);

  for (i = 0; i < count; ++i) {
    CHECK(tcpx_transfer_get_counts(peers[i].transfer, &counts));
    REQUIRE(counts.operations_done == ROUNDS && counts.bytes_done == (uint64_t)ROUNDS * MESSAGE_BYTES);
    CHECK(tcpx_transfer_release(peers[i].transfer));
  }
  printf("%d messages from each of %d peers\nPASSED\n", ROUNDS, count);
  CHECK(tcpx_session_destroy(session));
  free(buffer);
  close(listener);
}

static void client(const char *host, const char *port, const char *name) {
  char info[4096];
  long info_size;
  uint64_t memory = 0;
  size_t i;
  int round;
  tcpx_session_options options;
  tcpx_session session = {0};
  tcpx_transfer transfer = {0};
  unsigned char *buffer = buffer_of((size_t)MESSAGE_BYTES * ROUNDS);
  int peer = bootstrap_connect(host, port);
  REQUIRE(peer >= 0 && bootstrap_send(peer, name, strlen(name)) == 0);
  info_size = bootstrap_receive(peer, info, sizeof info);
  REQUIRE(info_size >= 0);

  CHECK(tcpx_session_options_init(&options, sizeof options));
  options.name = name; /* several peers connect: an accept finds its peer by name */
  CHECK(tcpx_session_create(&options, &session));
  CHECK(tcpx_session_load_remote_conn_info(session, "server", info, (size_t)info_size));
  CHECK(tcpx_session_connect(session, "server"));
  for (round = 0; round < ROUNDS; ++round) {
    for (i = 0; i < MESSAGE_BYTES; ++i) buffer[(size_t)round * MESSAGE_BYTES + i] = byte_of(name, round, i);
  }
  CHECK(tcpx_session_register_memory(session, buffer, (uint64_t)MESSAGE_BYTES * ROUNDS, TCPX_PTR_CUDA, 0, &memory));
  CHECK(tcpx_session_create_transfer(session, "server", &transfer));
  for (round = 0; round < ROUNDS; ++round) {
    CHECK(tcpx_transfer_post_send(transfer, memory, (uint64_t)round * MESSAGE_BYTES, MESSAGE_BYTES, round));
  }
  CHECK(tcpx_transfer_wait(transfer, LIMIT_SECONDS * 1000));
  printf("sent\nPASSED\n");
  CHECK(tcpx_transfer_release(transfer));
  CHECK(tcpx_session_destroy(session));
  free(buffer);
  close(peer);
}

int main(int argc, char **argv) {
  if (argc >= 3 && argc <= 4 && strcmp(argv[1], "server") == 0) {
    int count = atoi(argv[2]);
    REQUIRE(count >= 1 && count <= MAX_PEERS);
    server(count, argc == 4 ? (uint16_t)atoi(argv[3]) : 0);
  } else if (argc == 5 && strcmp(argv[1], "client") == 0) {
    REQUIRE(strlen(argv[4]) >= 1 && strlen(argv[4]) <= TCPX_MAX_NAME_BYTES);
    client(argv[2], argv[3], argv[4]);
  } else {
    fprintf(stderr, "usage: %s server PEERS [PORT] | client HOST PORT NAME\n", argv[0]);
    return 2;
  }
  return 0;
}
