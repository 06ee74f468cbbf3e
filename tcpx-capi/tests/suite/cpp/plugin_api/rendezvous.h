// What the programs leave out as "...": sockets on the loopback that find each other. Both functions
// end the program when they cannot.
#ifndef TCPX_TEST_RENDEZVOUS_H
#define TCPX_TEST_RENDEZVOUS_H

#include "bootstrap.h"

#include <cstdlib>

// Binds a socket, listens, prints the port, and takes one connection in its place.
inline void accept_in_place(int& fd) {
  const int listener = bootstrap_listen(0);
  close(fd);
  fd = bootstrap_accept(listener);
  if (fd < 0) std::exit(1);
  close(listener);
}

// Connects in the place of a socket.
inline void connect_in_place(int& fd, const char* host, const char* port) {
  close(fd);
  fd = bootstrap_connect(host, port);
  if (fd < 0) std::exit(1);
}

#endif
