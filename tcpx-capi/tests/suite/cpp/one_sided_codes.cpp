// Return values of the methods of one-sided operations where there are no exceptions.
#include "tcpx_p2p.hpp"

#include <cstdio>
#include <cstdlib>

namespace {

void require(bool condition, const char* what) {
  if (condition) return;
  std::fprintf(stderr, "%s: %s\n", what, tcpx_last_error());
  std::exit(1);
}

}  // namespace

int main() {
  tcpx_session_options options = tcpx::defaultOptions();
  options.plugin = "soft";
  tcpx::Session session(options);
  require(session.status() == TCPX_OK, "the session was made");
  char memory[16] = {};
  const uint64_t id = session.registerMemory(memory, sizeof memory, TCPX_PTR_HOST, true);
  const tcpx::RemoteKey key = session.exportMemory(id, TCPX_ACCESS_WRITE, 8, 4);
  require(key.bytes.size() == TCPX_REMOTE_KEY_BYTES && key.memory().bytes == 4, "the key covers four bytes");
  require(key.memory().size == sizeof(tcpx_remote_memory), "the key can be read");
  require(session.exportMemory(id, 0).bytes.empty(), "an export without access is refused");
  require(session.exportMemory(id, TCPX_ACCESS_READ, 16).bytes.empty(), "an empty range is refused");
  require(tcpx::RemoteKey{"no key"}.memory().size == 0, "other bytes are no key");

  tcpx::Operation none = session.prepare("absent", TCPX_WRITE, {key.pair(id, 0, 0, 4)});
  require(none.handle().id == 0 && none.post() == TCPX_ERR_HANDLE, "the peer is unknown");
  require(none.wait(0) == TCPX_ERR_HANDLE && none.state() == TCPX_OPERATION_FAILED, "an empty operation fails");
  require(none.error() == TCPX_ERR_HANDLE && none.release() == TCPX_OK, "a release of nothing succeeds");
  require(session.notify("absent", "x") == TCPX_ERR_UNKNOWN_PEER, "the peer is unknown");
  require(session.pollNotifications().empty(), "no notification came");
  require(session.waitNotifications(1, -2).empty(), "a wrong time limit is refused");
  require(session.unexport(key) == TCPX_OK, "the key is taken back");
  require(session.unexport(key) == TCPX_ERR_REMOTE_MEMORY, "the key is unknown");
  std::puts("PASSED");
  return 0;
}
