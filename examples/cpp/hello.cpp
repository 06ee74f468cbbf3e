/*
 * Sends one message from one process to another, through device memory. Without a GPU ordinary
 * memory stands in for it.
 *
 *   hello_cpp server [PORT]          prints its port
 *   hello_cpp client HOST PORT
 */
#include "tcpx_p2p.hpp"

#include <cstdlib>
#include <cstring>
#include <iostream>
#include <string>
#include <vector>

#include "bootstrap.h"
#include "require.hpp"

namespace {

constexpr int kTag = 42;
constexpr int kWaitMs = 30000;
const std::string kMessage = "Hello from TCPX client!";

void server(std::uint16_t port) {
  Socket listener(bootstrap_listen(port));
  std::vector<char> buffer(kMessage.size()); /* before the session, so that it outlives it */
  tcpx::Session session(tcpx::defaultOptions());
  Socket peer(bootstrap_accept(listener.fd()));
  const std::string info = session.listen();
  require(bootstrap_send(peer.fd(), info.data(), info.size()) == 0, "sending the connection info");
  session.accept("client");

  const std::uint64_t memory = session.registerMemory(buffer.data(), buffer.size(), TCPX_PTR_CUDA, true);
  tcpx::Transfer transfer = session.transfer("client");
  transfer.postRecv(memory, 0, buffer.size(), kTag);
  require(transfer.wait(kWaitMs) == TCPX_OK, "the message came in time");
  require(std::string(buffer.begin(), buffer.end()) == kMessage, "the message is right");
  std::cout << "received: " << kMessage << "\nPASSED" << std::endl;

  transfer.release();
  session.deregisterMemory(memory);
  session.disconnect("client");
}

void client(const char* host, const char* port) {
  Socket peer(bootstrap_connect(host, port));
  std::string message = kMessage; /* before the session, so that it outlives it */
  tcpx::Session session(tcpx::defaultOptions());
  session.loadRemoteConnInfo("server", receive_text(peer));
  session.connect("server");

  const std::uint64_t memory = session.registerMemory(&message[0], message.size(), TCPX_PTR_CUDA, false);
  tcpx::Transfer transfer = session.transfer("server");
  transfer.postSend(memory, 0, message.size(), kTag);
  require(transfer.wait(kWaitMs) == TCPX_OK, "the message left in time");
  std::cout << "sent\nPASSED" << std::endl;

  transfer.release();
  session.deregisterMemory(memory);
  session.disconnect("server");
}

}  // namespace

int main(int argc, char** argv) {
  const std::string role = argc > 1 ? argv[1] : "";
  try {
    if (role == "server" && argc <= 3) {
      server(argc == 3 ? static_cast<std::uint16_t>(std::atoi(argv[2])) : std::uint16_t{0});
    } else if (role == "client" && argc == 4) {
      client(argv[2], argv[3]);
    } else {
      std::cerr << "usage: " << argv[0] << " server [PORT] | client HOST PORT\n";
      return 2;
    }
  } catch (const std::exception& error) {
    std::cerr << error.what() << "\n";
    return 1;
  }
  return 0;
}
