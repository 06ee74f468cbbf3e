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
  require(session.status() == TCPX_OK, "it was made");
  char memory[16] = {};
  const uint64_t id = session.registerMemory(memory, sizeof memory, TCPX_PTR_HOST, true);
  const tcpx::RemoteKey key = session.exportMemory(id, TCPX_ACCESS_WRITE, 8, 4);
  require(key.bytes.size() == TCPX_REMOTE_KEY_BYTES && key.memory().bytes == 4, "a part of it");
  require(key.memory().size == sizeof(tcpx_remote_memory), "it is a key");
  require(session.exportMemory(id, 0).bytes.empty(), "for nothing");
  require(session.exportMemory(id, TCPX_ACCESS_READ, 16).bytes.empty(), "of nothing");
  require(tcpx::RemoteKey{"no key"}.memory().size == 0, "it is none");

  tcpx::Operation none = session.prepare("nobody", TCPX_WRITE, {key.pair(id, 0, 0, 4)});
  require(none.handle().id == 0 && none.post() == TCPX_ERR_HANDLE, "there is no such peer");
  require(none.wait(0) == TCPX_ERR_HANDLE && none.state() == TCPX_OPERATION_FAILED, "so it fails");
  require(none.error() == TCPX_ERR_HANDLE && none.release() == TCPX_OK, "nothing to release");
  require(session.notify("nobody", "x") == TCPX_ERR_UNKNOWN_PEER, "nobody hears it");
  require(session.pollNotifications().empty(), "nobody says anything");
  require(session.waitNotifications(1, -2).empty(), "and so cannot be waited for");
  require(session.unexport(key) == TCPX_OK, "nobody uses it");
  require(session.unexport(key) == TCPX_ERR_REMOTE_MEMORY, "it was taken back");
  std::puts("PASSED");
  return 0;
}
