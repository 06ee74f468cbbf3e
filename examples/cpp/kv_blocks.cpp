/*
 * Moves a key-value cache from a prefill host to a decode host: 10,000 blocks in one batch. Both
 * ends have a block table, so each block lies somewhere else at the other end. The tag is the
 * block's number.
 *
 *   kv_blocks_cpp server [PORT]          the decode host: receives, prints its port
 *   kv_blocks_cpp client HOST PORT       the prefill host: sends
 */
#include "tcpx_p2p.hpp"

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
constexpr int kWaitMs = 60000;

/* Returns the content of word `index` of a block: a swap of blocks or words is found. */
std::uint64_t wordOf(std::size_t block, std::size_t index) {
  return (block * kBlockWords + index + 1) * 0x9e3779b97f4a7c15u;
}

/* Blocks in an order of its own. */
class Cache {
 public:
  explicit Cache(unsigned seed) : words_(kBlocks * kBlockWords), slots_(kBlocks) {
    std::iota(slots_.begin(), slots_.end(), std::size_t{0});
    std::shuffle(slots_.begin(), slots_.end(), std::mt19937(seed));
  }

  void* data() { return words_.data(); }
  std::size_t bytes() const { return words_.size() * sizeof words_[0]; }
  std::uint64_t* block(std::size_t block) { return words_.data() + slots_[block] * kBlockWords; }

  std::vector<tcpx_post> posts(std::uint64_t memory) const {
    std::vector<tcpx_post> posts;
    posts.reserve(kBlocks);
    for (std::size_t block = 0; block < kBlocks; ++block) {
      posts.push_back(tcpx_post{memory, slots_[block] * kBlockBytes, kBlockBytes, static_cast<std::int32_t>(block)});
    }
    return posts;
  }

  void fill() {
    for (std::size_t b = 0; b < kBlocks; ++b) {
      for (std::size_t i = 0; i < kBlockWords; ++i) block(b)[i] = wordOf(b, i);
    }
  }

  bool isRight() {
    for (std::size_t b = 0; b < kBlocks; ++b) {
      for (std::size_t i = 0; i < kBlockWords; ++i) {
        if (block(b)[i] != wordOf(b, i)) return false;
      }
    }
    return true;
  }

 private:
  std::vector<std::uint64_t> words_;
  std::vector<std::size_t> slots_;
};

using Clock = std::chrono::steady_clock;

void finish(tcpx::Transfer& transfer, Clock::time_point started) {
  require(transfer.wait(kWaitMs) == TCPX_OK, "the blocks came in time");
  const std::chrono::duration<double> took = Clock::now() - started;
  const tcpx_transfer_counts counts = transfer.counts();
  require(counts.operations_done == kBlocks && counts.bytes_done == kBlocks * kBlockBytes, "every block was counted");
  std::cout << kBlocks << " blocks of " << kBlockBytes << " bytes in " << took.count() * 1e3 << " ms, "
            << static_cast<double>(counts.bytes_done) / took.count() / 1e9 << " GB/s" << std::endl;
}

void server(std::uint16_t port) {
  Socket listener(bootstrap_listen(port));
  Cache cache(1);
  tcpx::Session session(tcpx::defaultOptions());
  Socket peer(bootstrap_accept(listener.fd()));
  const std::string info = session.listen();
  require(bootstrap_send(peer.fd(), info.data(), info.size()) == 0, "sending the connection info");
  session.accept("prefill");

  const std::uint64_t memory = session.registerMemory(cache.data(), cache.bytes(), TCPX_PTR_CUDA, true);
  tcpx::Transfer transfer = session.transfer("prefill");
  const auto started = Clock::now();
  transfer.postRecvBatch(cache.posts(memory));
  finish(transfer, started);
  require(cache.isRight(), "every word is right");
  std::cout << "PASSED" << std::endl;
  transfer.release();
  session.disconnect("prefill");
  session.destroy();
}

void client(const char* host, const char* port) {
  Socket peer(bootstrap_connect(host, port));
  Cache cache(2);
  cache.fill();
  tcpx::Session session(tcpx::defaultOptions());
  session.loadRemoteConnInfo("decode", receive_text(peer));
  session.connect("decode");

  const std::uint64_t memory = session.registerMemory(cache.data(), cache.bytes(), TCPX_PTR_CUDA, false);
  tcpx::Transfer transfer = session.transfer("decode");
  const auto started = Clock::now();
  transfer.postSendBatch(cache.posts(memory));
  finish(transfer, started);
  std::cout << "PASSED" << std::endl;
  transfer.release();
  session.disconnect("decode");
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
