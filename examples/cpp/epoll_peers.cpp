/*
 * Serves several peers with one session and one thread that sleeps in epoll_wait. Accepts, receives
 * and goodbyes are begun, and the session's descriptor is readable when one of them has ended.
 * poll_peers.cpp does the same with a loop that spins.
 *
 *   epoll_peers_cpp server PEERS [PORT]     receives kRounds messages from each peer, prints its port
 *   epoll_peers_cpp client HOST PORT NAME   sends them
 */
#include "event_loop.hpp" /* before tcpx_p2p.hpp, which it does not need */

#include <sys/epoll.h>

#include <cstdlib>
#include <functional>
#include <iostream>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "bootstrap.h"
#include "require.hpp"
#include "tcpx_p2p.hpp"

EventLoop::EventLoop() : epoll_(epoll_create1(EPOLL_CLOEXEC)) { require(epoll_ >= 0, "making an epoll set"); }
EventLoop::~EventLoop() { close(epoll_); }

void EventLoop::watch(const tcpx::Session& session) {
  epoll_event event{};
  event.events = EPOLLIN;
  require(epoll_ctl(epoll_, EPOLL_CTL_ADD, session.eventFd(), &event) == 0, "watching a session");
}

bool EventLoop::wait(int timeout_ms) {
  epoll_event event{};
  return epoll_wait(epoll_, &event, 1, timeout_ms) > 0;
}

namespace {

constexpr int kRounds = 8;
constexpr std::size_t kMessageBytes = 100000;
constexpr int kWaitMs = 60000;

/* Both ends know a peer's name, so the receiver can distinguish its bytes from another's. */
unsigned char byteOf(const std::string& name, int round, std::size_t index) {
  const std::size_t sum = std::hash<std::string>{}(name) + static_cast<std::size_t>(round) * 7 + index * 31;
  return static_cast<unsigned char>(sum ^ (sum >> 8));
}

/* One peer: its buffer, its transfer, and the round that it is in. */
struct Peer {
  std::string name;
  std::vector<unsigned char> buffer = std::vector<unsigned char>(kMessageBytes);
  std::uint64_t memory = 0;
  tcpx::Transfer transfer;
  int round = 0;
};

class Server {
 public:
  Server(int count, std::uint16_t port) : count_(count), listener_(bootstrap_listen(port)) {}

  void run() {
    const std::string info = session_.listen();
    for (int i = 0; i < count_; ++i) {
      Socket fd(bootstrap_accept(listener_.fd()));
      require(bootstrap_send(fd.fd(), info.data(), info.size()) == 0, "sending the connection info");
      session_.startAcceptAny();
    }
    loop_.watch(session_);
    while (done_ < count_) {
      require(loop_.wait(kWaitMs), "something happened in time");
      if (makes_progress_) session_.progress();
      takeCompletions();
      takePeers();
    }
  }

 private:
  /* The queue names each transfer that has ended by its number, so no other transfer is asked. */
  void takeCompletions() {
    std::vector<tcpx_completion> completions;
    do {
      completions = session_.pollCompletions(16);
      for (const tcpx_completion& completion : completions) {
        require(completion.status == TCPX_OK, "the round has ended well");
        receive(*peers_.at(completion.context));
      }
    } while (completions.size() == 16);
  }

  void receive(Peer& peer) {
    for (std::size_t i = 0; i < peer.buffer.size(); ++i) {
      require(peer.buffer[i] == byteOf(peer.name, peer.round, i), "every byte is right");
    }
    if (++peer.round < kRounds) {
      peer.transfer.postRecv(peer.memory, 0, peer.buffer.size(), peer.round);
    } else {
      ++done_;
    }
  }

  /* Peers that have come in since the last call. */
  void takePeers() {
    std::string name;
    while (static_cast<int>(peers_.size()) < count_ && (session_.pollAcceptAny(name), !name.empty())) {
      const std::uint64_t number = peers_.size();
      auto peer = std::make_unique<Peer>();
      peer->name = name;
      peer->memory = session_.registerMemory(peer->buffer.data(), peer->buffer.size(), TCPX_PTR_CUDA, true);
      peer->transfer = session_.transfer(name);
      peer->transfer.reportCompletions(number);
      peer->transfer.postRecv(peer->memory, 0, peer->buffer.size(), 0);
      peers_.emplace(number, std::move(peer));
    }
  }

  int count_;
  int done_ = 0;
  Socket listener_;
  std::map<std::uint64_t, std::unique_ptr<Peer>> peers_; /* before the session: their buffers outlive it */
  /* Without a progress thread the descriptor is also readable when a round of progress is due. */
  const bool makes_progress_ = tcpx::defaultOptions().progress_thread == 0;
  tcpx::Session session_{tcpx::defaultOptions()};
  EventLoop loop_;
};

void client(const char* host, const char* port, const std::string& name) {
  Socket peer(bootstrap_connect(host, port));
  std::vector<unsigned char> buffer(kMessageBytes * kRounds);
  for (std::size_t i = 0; i < buffer.size(); ++i) {
    buffer[i] = byteOf(name, static_cast<int>(i / kMessageBytes), i % kMessageBytes);
  }

  tcpx_session_options options = tcpx::defaultOptions();
  options.name = name.c_str(); /* the server learns this name from its accept */
  tcpx::Session session(options);
  EventLoop loop;
  loop.watch(session);
  const auto wait_until = [&](const std::function<bool()>& is_over) {
    while (!is_over()) {
      require(loop.wait(kWaitMs), "something happened in time");
      if (options.progress_thread == 0) session.progress();
      session.pollCompletions();
    }
  };

  session.loadRemoteConnInfo("server", receive_text(peer));
  session.startConnect("server");
  wait_until([&] {
    switch (session.peerState("server")) {
      case tcpx::PeerState::Up:
        return true;
      case tcpx::PeerState::Failed:
        require(false, "connecting");
        return true;
      default:
        return false;
    }
  });
  const std::uint64_t memory = session.registerMemory(buffer.data(), buffer.size(), TCPX_PTR_CUDA, false);
  tcpx::Transfer transfer = session.transfer("server");
  for (int round = 0; round < kRounds; ++round) {
    transfer.postSend(memory, static_cast<std::size_t>(round) * kMessageBytes, kMessageBytes, round);
  }
  wait_until([&] { return transfer.isComplete(); });
  std::cout << "sent\nPASSED" << std::endl;
}

}  // namespace

int main(int argc, char** argv) {
  const std::string role = argc > 1 ? argv[1] : "";
  try {
    if (role == "server" && (argc == 3 || argc == 4)) {
      const int count = std::atoi(argv[2]);
      Server(count, argc == 4 ? static_cast<std::uint16_t>(std::atoi(argv[3])) : std::uint16_t{0}).run();
      std::cout << kRounds << " messages from each of " << count << " peers\nPASSED" << std::endl;
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
