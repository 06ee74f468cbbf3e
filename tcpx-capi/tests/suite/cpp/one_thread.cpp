// Two sessions of one thread meet, move bytes and part: every method that returns at once.
#include "tcpx_p2p.hpp"

#include <cstdio>
#include <functional>
#include <stdexcept>
#include <string>
#include <vector>

namespace {

void require(bool condition, const char* what) {
  if (!condition) throw std::runtime_error(what);
}

tcpx::Session session(const char* name) {
  tcpx_session_options options = tcpx::defaultOptions();
  options.plugin = "soft";
  options.name = name;
  options.listen = "127.0.0.1:0";
  options.progress_thread = 0;
  return tcpx::Session(options);
}

void takeTurns(tcpx::Session& left, tcpx::Session& right, const std::function<bool()>& isOver) {
  for (int turn = 0; !isOver(); ++turn) {
    require(turn < 100000000, "the loop ends in time");
    left.progress();
    right.progress();
  }
}

bool isUnknown(const tcpx::Session& session, const std::string& peer) {
  try {
    session.peerState(peer);
  } catch (const tcpx::Error& error) {
    require(error.status() == TCPX_ERR_UNKNOWN_PEER, error.what());
    return true;
  }
  return false;
}

void connectBoth(tcpx::Session& left, tcpx::Session& right) {
  right.loadRemoteConnInfo("left", left.listen());
  left.startAcceptAny();
  left.stopAcceptAny();
  left.startAcceptAny();
  left.startAccept("absent");
  require(left.peerState("absent") == TCPX_PEER_ACCEPTING, "the accept waits");
  require(left.startDisconnect("absent") == TCPX_OK && isUnknown(left, "absent"), "the accept was given up");
  right.startConnect("left");
  require(right.peerState("left") == TCPX_PEER_CONNECTING, "the connect is under way");
  std::string name;
  takeTurns(left, right, [&] { return left.pollAcceptAny(name) == TCPX_OK && !name.empty(); });
  require(name == "right", name.c_str());
  takeTurns(left, right, [&] { return right.peerState("left") == TCPX_PEER_UP; });
  std::string words = "none";
  require(right.peerError("left", &words) == TCPX_OK && words.empty(), "an attempt under way has no error");
}

void transferOne(tcpx::Session& left, tcpx::Session& right) {
  std::string from = "0123456789";
  std::string to(10, ' ');
  const std::uint64_t source = left.registerMemory(&from[0], from.size(), TCPX_PTR_HOST, false);
  const std::uint64_t target = right.registerMemory(&to[0], to.size(), TCPX_PTR_HOST, true);
  tcpx::Transfer send = left.transfer("right");
  tcpx::Transfer receive = right.transfer("left");
  receive.reportCompletions(42);
  right.arm();
  require(right.eventFd() >= 0 && right.eventFd() != left.eventFd(), "each session has its own descriptor");
  receive.postRecv(target, 0, 10, 1);
  require(right.pollCompletions().empty(), "the queue is empty");
  send.postSend(source, 0, 10, 1);
  std::vector<tcpx_completion> completions;
  takeTurns(left, right, [&] {
    completions = right.pollCompletions(5);
    return !completions.empty();
  });
  require(completions.size() == 1 && completions[0].context == 42, "one transfer is reported");
  require(completions[0].rounds == 1 && completions[0].status == TCPX_OK, "one round has ended well");
  require(to == from && right.pollCompletions(0).empty(), "every byte is there");
  takeTurns(left, right, [&] { return send.isComplete(); });
}

void disconnectBoth(tcpx::Session& left, tcpx::Session& right) {
  left.startDisconnect("right");
  require(left.peerState("right") == TCPX_PEER_LEAVING, "the peer is leaving");
  right.startDisconnect("left");
  takeTurns(left, right, [&] { return isUnknown(left, "right") && isUnknown(right, "left"); });
  require(left.close() == TCPX_OK && right.close() == TCPX_OK, "a close without peers waits for none");
}

}  // namespace

int main() {
  try {
    tcpx::Session left = session("left");
    tcpx::Session right = session("right");
    connectBoth(left, right);
    transferOne(left, right);
    disconnectBoth(left, right);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
  std::puts("PASSED");
  return 0;
}
