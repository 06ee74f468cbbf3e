/*
 * Serves several peers with one session and one loop that never blocks: it posts a receive for
 * each, makes progress, polls for complete ones, and posts again.
 *
 *   poll_peers_cpp server PEERS [PORT]     receives kRounds messages from each peer, prints its port
 *   poll_peers_cpp client HOST PORT NAME   sends them
 */
#include "tcpx_p2p.hpp"

#include <chrono>
#include <cstdlib>
#include <iostream>
#include <string>
#include <thread>
#include <vector>

#include "bootstrap.h"
#include "require.hpp"

namespace {

constexpr int kRounds = 8;
constexpr std::size_t kMessageBytes = 100000;
constexpr int kWaitMs = 60000;

/* Both ends know a peer's name, so the receiver can tell its bytes from another's. */
unsigned char byteOf(const std::string& name, int round, std::size_t index) {
  const std::size_t sum = std::hash<std::string>{}(name) + static_cast<std::size_t>(round) * 7 + index * 31;
  return static_cast<unsigned char>(sum ^ (sum >> 8));
}

/* One peer: its name, its buffer, its transfer, and how far it is. */
struct Peer {
  std::string name;
  std::vector<unsigned char> buffer = std::vector<unsigned char>(kMessageBytes);
  std::uint64_t memory = 0;
  tcpx::Transfer transfer;
  int round = 0;

  void post() { transfer.postRecv(memory, 0, buffer.size(), round); }

  /* Looks whether a message came. */
  bool look() {
    if (round == kRounds || !transfer.isComplete()) return false;
    for (std::size_t i = 0; i < buffer.size(); ++i) require(buffer[i] == byteOf(name, round, i), "every byte is right");
    if (++round < kRounds) post();
    return true;
  }
};

Peer meet(tcpx::Session& session, const Socket& listener, const std::string& info) {
  Peer peer;
  Socket fd(bootstrap_accept(listener.fd()));
  peer.name = receive_text(fd);
  require(bootstrap_send(fd.fd(), info.data(), info.size()) == 0, "sending the connection info");
  session.accept(peer.name);
  peer.memory = session.registerMemory(peer.buffer.data(), peer.buffer.size(), TCPX_PTR_CUDA, true);
  peer.transfer = session.transfer(peer.name);
  peer.post();
  return peer;
}

void server(int count, std::uint16_t port) {
  Socket listener(bootstrap_listen(port));
  std::vector<Peer> peers; /* before the session: their buffers outlive it */
  tcpx::Session session(tcpx::defaultOptions());
  const std::string info = session.listen();
  for (int i = 0; i < count; ++i) peers.push_back(meet(session, listener, info));

  const auto give_up = std::chrono::steady_clock::now() + std::chrono::milliseconds(kWaitMs);
  for (int open = count * kRounds; open > 0;) {
    bool came = false;
    for (Peer& peer : peers) {
      if (peer.look()) {
        came = true;
        --open;
      }
    }
    require(std::chrono::steady_clock::now() < give_up, "everything came in time");
    if (!came) std::this_thread::yield();
  }
  std::cout << kRounds << " messages from each of " << count << " peers\nPASSED" << std::endl;
}

void client(const char* host, const char* port, const std::string& name) {
  Socket peer(bootstrap_connect(host, port));
  require(bootstrap_send(peer.fd(), name.data(), name.size()) == 0, "sending the name");
  std::vector<unsigned char> buffer(kMessageBytes * kRounds);
  for (std::size_t i = 0; i < buffer.size(); ++i) {
    buffer[i] = byteOf(name, static_cast<int>(i / kMessageBytes), i % kMessageBytes);
  }

  tcpx_session_options options = tcpx::defaultOptions();
  options.name = name.c_str(); /* several peers connect: the name says which one an accept takes */
  tcpx::Session session(options);
  session.loadRemoteConnInfo("server", receive_text(peer));
  session.connect("server");
  const std::uint64_t memory = session.registerMemory(buffer.data(), buffer.size(), TCPX_PTR_CUDA, false);
  tcpx::Transfer transfer = session.transfer("server");
  for (int round = 0; round < kRounds; ++round) {
    transfer.postSend(memory, static_cast<std::size_t>(round) * kMessageBytes, kMessageBytes, round);
  }
  require(transfer.wait(kWaitMs) == TCPX_OK, "everything left in time");
  std::cout << "sent\nPASSED" << std::endl;
}

}  // namespace

int main(int argc, char** argv) {
  const std::string role = argc > 1 ? argv[1] : "";
  try {
    if (role == "server" && (argc == 3 || argc == 4)) {
      server(std::atoi(argv[2]), argc == 4 ? static_cast<std::uint16_t>(std::atoi(argv[3])) : std::uint16_t{0});
    } else if (role == "client" && argc == 5) {
      client(argv[2], argv[3], argv[4]);
    } else {
      std::cerr << "usage: " << argv[0] << " server PEERS [PORT] | client HOST PORT NAME\n";
      return 2;
    }
  } catch (const std::exception& error) {
    std::cerr << error.what() << "\n";
    return 1;
  }
  return 0;
}
