// Two sessions of all devices as C++ objects: from the memory of one GPU to that of another.
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <stdexcept>
#include <string>
#include <vector>

#include "tcpx_p2p.hpp"

namespace {

constexpr int kPatienceMs = 60000;

void require(bool holds, const char* what) {
  if (!holds) throw std::runtime_error(what);
}

tcpx::Session group(const char* name) {
  tcpx_session_options options = tcpx::defaultOptions();
  options.plugin = "soft";
  options.name = name;
  options.group = 1;
  return tcpx::Session(options);
}

}  // namespace

int main() {
  try {
    setenv("TCPX_EMULATED_GPUS", "2", 1);
    std::vector<char> here(100000, 'x'), there(100000, 'y');
    tcpx::Session left = group("left");
    tcpx::Session right = group("right");
    right.reportPeers();
    left.loadRemoteConnInfo("right", right.listen());
    const uint64_t own = left.registerMemoryOn(0, here.data(), here.size(), true);
    const uint64_t theirs = right.registerMemoryOn(1, there.data(), there.size(), true);
    const tcpx::RemoteKey key = right.exportMemory(theirs, TCPX_ACCESS_WRITE);
    tcpx::Operation write = left.prepare("right", TCPX_WRITE, {key.pair(own, 0, 0, here.size())});
    write.post("done");
    require(write.wait(kPatienceMs) == TCPX_OK && here == there, "the write is in place");
    const std::vector<tcpx::Notification> notes = right.waitNotifications(9, kPatienceMs);
    require(notes.size() == 1 && right.waitNotifications(9, 1).empty(), "one notification came");
    require(right.waitNotifications(0).empty(), "a limit of 0 returns none");
    require(notes[0].peer == "left" && notes[0].bytes == "done", "the notification is the sent one");
    // A notification may be there before its peer is reported.
    const auto give_up_at = std::chrono::steady_clock::now() + std::chrono::milliseconds(kPatienceMs);
    std::vector<tcpx_completion> events;
    while (events.empty() && std::chrono::steady_clock::now() < give_up_at) events = right.pollCompletions();
    require(events.size() == 1 && events[0].kind == TCPX_COMPLETION_PEER, "one peer is reported");
    require(events[0].state == TCPX_PEER_UP && std::string(events[0].peer) == "left", "the peer is up");
    require(right.stats().writes_served == 1, "its GPU has served one write");
    require(right.statsJson().find("\"device\":\"gpu1\"") != std::string::npos, "the JSON lists devices");
    left.loadRemoteConnInfo("other", right.listen());
    left.notify("other", "again");
    require(right.waitNotifications(9, kPatienceMs).size() == 1, "both devices are one peer");
    tcpx::Operation answered = left.prepareNotification("other");
    answered.post("confirmed");
    require(answered.wait(kPatienceMs) == TCPX_OK, "the notification is confirmed");
    require(right.pollNotifications().size() == 1, "the notification can be taken");
    answered.release();
    left.forgetRemoteConnInfo("other");
    try {
      left.accept("x");
      require(false, "an accept by name is refused");
    } catch (const tcpx::Error& error) {
      require(error.status() == TCPX_ERR_PEER_STATE, error.what());
    }
    try {
      left.registerMemoryOn(2, here.data(), here.size(), true);
      require(false, "an unknown GPU is refused");
    } catch (const tcpx::Error& error) {
      require(error.status() == TCPX_ERR_UNAVAILABLE, error.what());
    }
    write.release();
    right.unexport(key);
    left.deregisterMemory(own);
    right.deregisterMemory(theirs);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
  std::puts("PASSED");
  return 0;
}
