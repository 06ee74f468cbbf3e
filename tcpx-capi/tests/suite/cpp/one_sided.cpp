// Reads and writes of exported memory, and notifications, with errors as exceptions.
#include "tcpx_p2p.hpp"

#include <poll.h>

#include <cstdio>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>
#include <vector>

namespace {

constexpr int kPatienceMs = 60000;
constexpr size_t kBytes = 100000;
constexpr size_t kBlock = 1000;

void require(bool condition, const char* what) {
  if (!condition) throw std::runtime_error(what);
}

template <typename Call>
void requireStatus(int wanted, Call call) {
  try {
    call();
  } catch (const tcpx::Error& error) {
    require(error.status() == wanted, error.what());
    return;
  }
  require(false, "nothing was thrown");
}

tcpx::Session session(const char* encryption) {
  tcpx_session_options options = tcpx::defaultOptions();
  require(options.encryption == nullptr, "the environment decides by default");
  options.encryption = encryption;
  options.plugin = "soft";
  options.progress_thread = 1;
  return tcpx::Session(options);
}

std::vector<tcpx::Notification> await(tcpx::Session& session) {
  for (;;) {
    session.pollCompletions(0);
    std::vector<tcpx::Notification> notifications = session.pollNotifications();
    if (!notifications.empty()) return notifications;
    pollfd descriptor{session.eventFd(), POLLIN, 0};
    require(poll(&descriptor, 1, kPatienceMs) == 1, "no notification comes");
  }
}

std::string pattern(unsigned seed) {
  std::string bytes(kBytes, ' ');
  for (size_t i = 0; i < kBytes; ++i) bytes[i] = static_cast<char>(i * 7 + i / 251 + seed);
  return bytes;
}

// Block i of one end is the last but i of the other.
std::vector<tcpx_pair> backwards(const tcpx::RemoteKey& key, uint64_t memory) {
  std::vector<tcpx_pair> pairs;
  for (size_t at = 0; at < kBytes; at += kBlock) {
    pairs.push_back(key.pair(memory, at, kBytes - kBlock - at, kBlock));
  }
  return pairs;
}

void transferAll(tcpx::Session& left, tcpx::Session& right) {
  std::string here = pattern(1);
  std::string there = pattern(2);
  const uint64_t own = left.registerMemory(&here[0], kBytes, TCPX_PTR_HOST, true);
  const uint64_t exported = right.registerMemory(&there[0], kBytes, TCPX_PTR_HOST, true);
  const tcpx::RemoteKey key = right.exportMemory(exported, TCPX_ACCESS_READ | TCPX_ACCESS_WRITE);
  require(key.bytes.size() == TCPX_REMOTE_KEY_BYTES, "the key is whole");
  require(key.memory().bytes == kBytes, "the whole registration");
  require(key.memory().access == (TCPX_ACCESS_READ | TCPX_ACCESS_WRITE), "both");

  tcpx::Operation write = left.prepare("right", TCPX_WRITE, backwards(key, own));
  require(write.state() == TCPX_OPERATION_IDLE, "a prepared operation is idle");
  write.reportCompletions(42);
  const std::string note("with\0a NUL", 10);
  for (int round = 0; round < 2; ++round) {
    if (round == 0) {
      write.post(note);
    } else {
      write.postWithin(kPatienceMs);
    }
    require(write.wait(kPatienceMs) == TCPX_OK, "the write ends well");
    require(write.state() == TCPX_OPERATION_DONE && write.error() == TCPX_OK, "the state says so");
    for (size_t at = 0; at < kBytes; at += kBlock) {
      require(there.compare(kBytes - kBlock - at, kBlock, here, at, kBlock) == 0, "every block is in place");
    }
  }
  const std::vector<tcpx::Notification> notes = await(right);
  require(notes.size() == 1 && notes[0].peer == "left" && notes[0].bytes == note, "one notification came");
  const std::vector<tcpx_completion> completions = left.pollCompletions();
  require(completions.size() == 1 && completions[0].context == 42, "one completion is reported");
  require(completions[0].rounds == 2 && completions[0].status == TCPX_OK, "the completion counts both rounds");

  const std::string other = pattern(3);
  there.replace(0, kBytes, other);  // in place: it is registered
  tcpx::Operation read = left.prepare("right", TCPX_READ, {key.pair(own, 0, 0, kBytes)});
  read.post("");
  require(read.wait() == TCPX_OK && here == there, "every byte was read");
  require(await(right)[0].bytes.empty(), "the notification is empty");

  require(right.unexport(key) == TCPX_OK, "the key is taken back");
  tcpx::Operation moved = std::move(read);
  require(read.handle().id == 0 && moved.post() == TCPX_OK, "the handle has moved");
  requireStatus(TCPX_ERR_REMOTE_MEMORY, [&] { moved.wait(kPatienceMs); });
  std::string words;
  require(moved.error(&words) == TCPX_ERR_REMOTE_MEMORY && !words.empty(), "the error has a text");
  require(moved.state() == TCPX_OPERATION_FAILED, "the state is failed");
  moved.cancel();
  moved.release();
  requireStatus(TCPX_ERR_HANDLE, [&] { moved.post(); });
  write.release();
  left.deregisterMemory(own);
  right.deregisterMemory(exported);
}

void exchangeNotifications(tcpx::Session& left, tcpx::Session& right) {
  const std::string longest(TCPX_MAX_NOTIFICATION_BYTES, 'x');
  size_t sent = 0;
  while (left.notify("right", longest) == TCPX_OK) require(++sent < 100000, "the peer's queue fills up");
  require(left.notify("right", longest) == TCPX_ERR_AGAIN, "a full queue refuses");
  require(right.pollNotifications(0).empty(), "a limit of 0 returns none");
  size_t taken = 0;
  while (taken < sent) {
    for (const tcpx::Notification& note : await(right)) {
      require(note.peer == "left" && note.bytes == longest, "the notification is whole");
      ++taken;
    }
  }
  requireStatus(TCPX_ERR_ARGUMENT, [&] { left.notify("right", longest + "x"); });
  requireStatus(TCPX_ERR_UNKNOWN_PEER, [&] { left.notify("absent", ""); });
  requireStatus(TCPX_ERR_DESCRIPTOR, [&] { tcpx::RemoteKey{"no key"}.memory(); });
  requireStatus(TCPX_ERR_UNKNOWN_MEMORY, [&] { left.exportMemory(99, TCPX_ACCESS_READ); });
}

// `left` asks for encryption, or neither end does.
void runBoth(bool isEncrypted) {
  tcpx::Session left = session(isEncrypted ? "require" : "off");
  tcpx::Session right = session("prefer");
  left.loadRemoteConnInfo("right", right.listen());
  std::thread accepts([&] { right.accept("left"); });
  left.connect("right");
  accepts.join();
  const std::string wanted = isEncrypted ? "\"link_encrypted\":true" : "\"link_encrypted\":false";
  require(right.statsJson().find(wanted) != std::string::npos, "both ends report it");
  transferAll(left, right);
  exchangeNotifications(left, right);
}

}  // namespace

int main() {
  try {
    runBoth(false);
    runBoth(true);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
  std::puts("PASSED");
  return 0;
}
