/*
 * A decode host fetches a key-value cache from a prefill host, which does nothing for it: it exports
 * its cache of 10,000 blocks and waits. The decode host reads all of them in one operation, in an
 * order of its own. It changes every third block, writes it back, and sends a notification.
 *
 *   kv_pull_cpp server [PORT]          the prefill host: exports, prints its port
 *   kv_pull_cpp client HOST PORT       the decode host: reads and writes
 */
#include "tcpx_p2p.hpp"

#include <poll.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <iostream>
#include <numeric>
#include <random>
#include <string>
#include <vector>

#include "bootstrap.h"
#include "require.hpp"

namespace {

constexpr std::size_t kBlocks = 10000;
constexpr std::size_t kBlockBytes = 4096;
constexpr std::size_t kBlockWords = kBlockBytes / sizeof(std::uint64_t);
constexpr std::size_t kChangedEach = 3;
constexpr int kWaitMs = 60000;
const std::string kNote = "every third block";
/* Both ends know each other's block table. A real program sends it. */
constexpr unsigned kPrefillSeed = 1;
constexpr unsigned kDecodeSeed = 2;

/* Returns the content of word `index` of a block: a swap of blocks or words is found. */
std::uint64_t wordOf(std::size_t block, std::size_t index) {
  return (block * kBlockWords + index + 1) * 0x9e3779b97f4a7c15u;
}

/* Returns the slot of each block. */
std::vector<std::size_t> blockTable(unsigned seed) {
  std::vector<std::size_t> slots(kBlocks);
  std::iota(slots.begin(), slots.end(), std::size_t{0});
  std::shuffle(slots.begin(), slots.end(), std::mt19937(seed));
  return slots;
}

/* Blocks in an order of its own. */
class Cache {
 public:
  explicit Cache(unsigned seed) : words_(kBlocks * kBlockWords), slots_(blockTable(seed)) {}

  void* data() { return words_.data(); }
  std::size_t bytes() const { return words_.size() * sizeof words_[0]; }
  std::size_t offset(std::size_t block) const { return slots_[block] * kBlockBytes; }

  void fill() {
    for (std::size_t b = 0; b < kBlocks; ++b) {
      for (std::size_t i = 0; i < kBlockWords; ++i) word(b, i) = wordOf(b, i);
    }
  }

  /* The decode host's work. */
  void change() {
    for (std::size_t b = 0; b < kBlocks; b += kChangedEach) {
      for (std::size_t i = 0; i < kBlockWords; ++i) word(b, i) = ~word(b, i);
    }
  }

  bool isRight(bool is_changed) {
    for (std::size_t b = 0; b < kBlocks; ++b) {
      const bool inverted = is_changed && b % kChangedEach == 0;
      for (std::size_t i = 0; i < kBlockWords; ++i) {
        if (word(b, i) != (inverted ? ~wordOf(b, i) : wordOf(b, i))) return false;
      }
    }
    return true;
  }

 private:
  std::uint64_t& word(std::size_t block, std::size_t index) { return words_[slots_[block] * kBlockWords + index]; }

  std::vector<std::uint64_t> words_;
  std::vector<std::size_t> slots_;
};

/* Returns the next notification. The program sleeps meanwhile. */
tcpx::Notification awaitNote(tcpx::Session& session) {
  for (;;) {
    session.pollCompletions(0); /* this makes the descriptor unreadable until something happens */
    const std::vector<tcpx::Notification> notes = session.pollNotifications(1);
    if (!notes.empty()) return notes[0];
    pollfd descriptor{session.eventFd(), POLLIN, 0};
    require(poll(&descriptor, 1, kWaitMs) == 1, "the decode host says something in time");
  }
}

void server(std::uint16_t port) {
  Socket listener(bootstrap_listen(port));
  Cache cache(kPrefillSeed);
  cache.fill();
  tcpx::Session session(tcpx::defaultOptions());
  const std::string info = session.listen();
  const std::uint64_t memory = session.registerMemory(cache.data(), cache.bytes(), TCPX_PTR_CUDA, true);
  const tcpx::RemoteKey key = session.exportMemory(memory, TCPX_ACCESS_READ | TCPX_ACCESS_WRITE);
  Socket peer(bootstrap_accept(listener.fd()));
  /* A peer with the key and the connection info may read and write the blocks. */
  require(bootstrap_send(peer.fd(), info.data(), info.size()) == 0, "sending the connection info");
  require(bootstrap_send(peer.fd(), key.bytes.data(), key.bytes.size()) == 0, "sending the key");
  session.accept("decode");

  const tcpx::Notification note = awaitNote(session);
  require(note.peer == "decode" && note.bytes == kNote, "the notification is right");
  session.unexport(key); /* no peer reads or writes them any more */
  require(cache.isRight(true), "every word is right");
  std::cout << "every third of " << kBlocks << " blocks was changed\nPASSED" << std::endl;
  session.disconnect("decode");
  session.destroy();
}

using Clock = std::chrono::steady_clock;

void finish(tcpx::Operation& operation, const char* what, std::size_t blocks, Clock::time_point started) {
  require(operation.wait(kWaitMs) == TCPX_OK, "the blocks were moved in time");
  const std::chrono::duration<double> took = Clock::now() - started;
  std::cout << what << " " << blocks << " blocks of " << kBlockBytes << " bytes in " << took.count() * 1e3 << " ms, "
            << static_cast<double>(blocks * kBlockBytes) / took.count() / 1e9 << " GB/s" << std::endl;
}

void client(const char* host, const char* port) {
  Socket peer(bootstrap_connect(host, port));
  Cache cache(kDecodeSeed);
  const std::vector<std::size_t> prefill = blockTable(kPrefillSeed);
  tcpx::Session session(tcpx::defaultOptions());
  session.loadRemoteConnInfo("prefill", receive_text(peer));
  const tcpx::RemoteKey key{receive_text(peer)};
  session.connect("prefill");
  const std::uint64_t memory = session.registerMemory(cache.data(), cache.bytes(), TCPX_PTR_CUDA, true);

  std::vector<tcpx_pair> all;
  std::vector<tcpx_pair> changed;
  for (std::size_t block = 0; block < kBlocks; ++block) {
    all.push_back(key.pair(memory, cache.offset(block), prefill[block] * kBlockBytes, kBlockBytes));
    if (block % kChangedEach == 0) changed.push_back(all.back());
  }
  tcpx::Operation read = session.prepare("prefill", TCPX_READ, all);
  auto started = Clock::now();
  read.post();
  finish(read, "read", all.size(), started);
  require(cache.isRight(false), "every word is right");

  cache.change();
  tcpx::Operation write = session.prepare("prefill", TCPX_WRITE, changed);
  started = Clock::now();
  write.post(kNote);
  finish(write, "wrote", changed.size(), started);
  std::cout << "PASSED" << std::endl;
  session.disconnect("prefill");
  session.destroy();
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
