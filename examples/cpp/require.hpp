/* What the C++ examples share: a socket that closes itself, and a check that throws. */
#ifndef TCPX_EXAMPLES_REQUIRE_HPP
#define TCPX_EXAMPLES_REQUIRE_HPP

#include <unistd.h>

#include <stdexcept>
#include <string>

#include "bootstrap.h"

inline void require(bool condition, const std::string& what) {
  if (!condition) throw std::runtime_error("failed: " + what);
}

class Socket {
 public:
  explicit Socket(int fd) : fd_(fd) { require(fd >= 0, "opening a socket"); }
  Socket(const Socket&) = delete;
  Socket& operator=(const Socket&) = delete;
  ~Socket() { close(fd_); }
  int fd() const { return fd_; }

 private:
  int fd_;
};

/* Receives one blob of the bootstrap connection. */
inline std::string receive_text(const Socket& peer) {
  std::string bytes(BOOTSTRAP_MAX_BYTES, '\0');
  const long size = bootstrap_receive(peer.fd(), &bytes[0], bytes.size());
  require(size >= 0, "receiving a blob");
  bytes.resize(static_cast<size_t>(size));
  return bytes;
}

#endif
