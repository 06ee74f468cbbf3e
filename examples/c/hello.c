/*
 * Sends one message from one process to another, through device memory. Without a GPU ordinary
 * memory stands in for it.
 *
 *   hello server [PORT]          prints its port
 *   hello client HOST PORT
 */
#define _POSIX_C_SOURCE 200809L
#include "bootstrap.h"
#include "check.h"

enum { MESSAGE_BYTES = 64, TAG = 42 };
static const char MESSAGE[] = "Hello from TCPX client!";

static void *buffer_of(size_t bytes) {
  void *buffer = NULL;
  REQUIRE(posix_memalign(&buffer, 4096, bytes) == 0);
  memset(buffer, 0, bytes);
  return buffer;
}

static void server(uint16_t port) {
  char info[4096];
  size_t info_size = 0;
  uint64_t memory = 0;
  tcpx_session session = {0};
  tcpx_transfer transfer = {0};
  char *buffer = buffer_of(MESSAGE_BYTES);
  int listener = bootstrap_listen(port);
  int peer;
  REQUIRE(listener >= 0);

  CHECK(tcpx_session_create(NULL, &session));
  CHECK(tcpx_session_listen(session, info, sizeof info, &info_size));
  peer = bootstrap_accept(listener);
  REQUIRE(peer >= 0 && bootstrap_send(peer, info, info_size) == 0);
  CHECK(tcpx_session_accept(session, "client"));

  CHECK(tcpx_session_register_memory(session, buffer, MESSAGE_BYTES, TCPX_PTR_CUDA, 1, &memory));
  CHECK(tcpx_session_create_transfer(session, "client", &transfer));
  CHECK(tcpx_transfer_post_recv(transfer, memory, 0, MESSAGE_BYTES, TAG));
  CHECK(tcpx_transfer_wait(transfer, 30000));
  REQUIRE(memcmp(buffer, MESSAGE, sizeof MESSAGE) == 0);
  printf("received: %s\nPASSED\n", buffer);

  CHECK(tcpx_transfer_release(transfer));
  CHECK(tcpx_session_deregister_memory(session, memory));
  CHECK(tcpx_session_disconnect(session, "client"));
  CHECK(tcpx_session_destroy(session));
  free(buffer);
  close(peer);
  close(listener);
}

static void client(const char *host, const char *port) {
  char info[4096];
  long info_size;
  uint64_t memory = 0;
  tcpx_session session = {0};
  tcpx_transfer transfer = {0};
  char *buffer = buffer_of(MESSAGE_BYTES);
  int peer = bootstrap_connect(host, port);
  REQUIRE(peer >= 0);

  CHECK(tcpx_session_create(NULL, &session));
  info_size = bootstrap_receive(peer, info, sizeof info);
  REQUIRE(info_size >= 0);
  CHECK(tcpx_session_load_remote_conn_info(session, "server", info, (size_t)info_size));
  CHECK(tcpx_session_connect(session, "server"));

  memcpy(buffer, MESSAGE, sizeof MESSAGE);
  CHECK(tcpx_session_register_memory(session, buffer, MESSAGE_BYTES, TCPX_PTR_CUDA, 0, &memory));
  CHECK(tcpx_session_create_transfer(session, "server", &transfer));
  CHECK(tcpx_transfer_post_send(transfer, memory, 0, MESSAGE_BYTES, TAG));
  CHECK(tcpx_transfer_wait(transfer, 30000));
  printf("sent\nPASSED\n");

  CHECK(tcpx_transfer_release(transfer));
  CHECK(tcpx_session_deregister_memory(session, memory));
  CHECK(tcpx_session_disconnect(session, "server"));
  CHECK(tcpx_session_destroy(session));
  free(buffer);
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
