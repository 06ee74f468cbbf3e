/*
 * By this the two programs of an example find each other: one TCP connection that carries blobs
 * with their length in front. A real program has such a channel already, such as its RPC or a
 * key-value store. This library needs it once for each peer, for the connection info. C99 and C++,
 * POSIX sockets. Every wait ends after BOOTSTRAP_SECONDS.
 */
#ifndef TCPX_EXAMPLES_BOOTSTRAP_H
#define TCPX_EXAMPLES_BOOTSTRAP_H

#include <arpa/inet.h>
#include <netdb.h>
#include <netinet/in.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

enum { BOOTSTRAP_SECONDS = 30, BOOTSTRAP_MAX_BYTES = 1 << 20 };

static inline void bootstrap_limit_waits(int fd) {
  struct timeval limit;
  limit.tv_sec = BOOTSTRAP_SECONDS;
  limit.tv_usec = 0;
  setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
  setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof limit);
}

/*
 * Listens on a port, or for 0 on one that the system chooses, and prints which one it is. Returns
 * -1 on failure.
 */
static inline int bootstrap_listen(uint16_t port) {
  struct sockaddr_in address;
  socklen_t size = sizeof address;
  int on = 1;
  int fd = socket(AF_INET, SOCK_STREAM, 0);
  if (fd < 0) return -1;
  memset(&address, 0, sizeof address);
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_ANY);
  address.sin_port = htons(port);
  setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
  bootstrap_limit_waits(fd);
  if (bind(fd, (struct sockaddr *)&address, sizeof address) != 0 || listen(fd, 16) != 0 ||
      getsockname(fd, (struct sockaddr *)&address, &size) != 0) {
    close(fd);
    return -1;
  }
  printf("port %u\n", (unsigned)ntohs(address.sin_port));
  fflush(stdout);
  return fd;
}

/* Takes the next connection. -1 on failure. */
static inline int bootstrap_accept(int listener) {
  int fd = accept(listener, NULL, NULL);
  if (fd >= 0) bootstrap_limit_waits(fd);
  return fd;
}

/* Connects to a host. -1 on failure. */
static inline int bootstrap_connect(const char *host, const char *port) {
  struct addrinfo hints;
  struct addrinfo *found = NULL;
  struct addrinfo *next;
  int fd = -1;
  memset(&hints, 0, sizeof hints);
  hints.ai_family = AF_UNSPEC;
  hints.ai_socktype = SOCK_STREAM;
  if (getaddrinfo(host, port, &hints, &found) != 0) return -1;
  for (next = found; next != NULL && fd < 0; next = next->ai_next) {
    fd = socket(next->ai_family, next->ai_socktype, next->ai_protocol);
    if (fd < 0) continue;
    bootstrap_limit_waits(fd);
    if (connect(fd, next->ai_addr, next->ai_addrlen) != 0) {
      close(fd);
      fd = -1;
    }
  }
  freeaddrinfo(found);
  return fd;
}

/* Sends a blob. 0 or -1. */
static inline int bootstrap_send(int fd, const void *bytes, size_t size) {
  const char *parts[2];
  size_t sizes[2];
  uint32_t length = htonl((uint32_t)size);
  int i;
  if (size > BOOTSTRAP_MAX_BYTES) return -1;
  parts[0] = (const char *)&length;
  sizes[0] = sizeof length;
  parts[1] = (const char *)bytes;
  sizes[1] = size;
  for (i = 0; i < 2; ++i) {
    while (sizes[i] > 0) {
      ssize_t sent = send(fd, parts[i], sizes[i], MSG_NOSIGNAL);
      if (sent <= 0) return -1;
      parts[i] += sent;
      sizes[i] -= (size_t)sent;
    }
  }
  return 0;
}

/* Receives a blob of at most `capacity` bytes. Its size, or -1. */
static inline long bootstrap_receive(int fd, void *bytes, size_t capacity) {
  uint32_t length = 0;
  if (recv(fd, &length, sizeof length, MSG_WAITALL) != (ssize_t)sizeof length) return -1;
  length = ntohl(length);
  if (length > capacity || recv(fd, bytes, length, MSG_WAITALL) != (ssize_t)length) return -1;
  return (long)length;
}

#endif
