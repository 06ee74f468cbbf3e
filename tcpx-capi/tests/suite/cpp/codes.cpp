// Without exceptions: the same failures as codes, and values that stand for "failed".
#include "tcpx_p2p.hpp"

#include <cstdio>
#include <cstdlib>

#ifdef __cpp_exceptions
#error "compile this with -fno-exceptions"
#endif

#define REQUIRE(condition)                                                      \
  do {                                                                          \
    if (!(condition)) {                                                         \
      std::fprintf(stderr, "%d: not true: %s\n", __LINE__, #condition);         \
      std::exit(1);                                                             \
    }                                                                           \
  } while (0)

int main() {
  tcpx::Session none(0, 2);
  REQUIRE(none.status() == TCPX_ERR_UNAVAILABLE && none.handle().id == 0);
  REQUIRE(none.listen().empty() && none.connect("x") == TCPX_ERR_HANDLE);
  REQUIRE(none.createTransfer("x") == nullptr && none.destroy() == TCPX_OK);

  tcpx::Session session(TCPX_GPU_NONE, 2);
  REQUIRE(session.status() == TCPX_OK && !session.listen().empty());
  REQUIRE(session.connect("x") == TCPX_ERR_UNKNOWN_PEER && tcpx_last_error()[0] != '\0');
  REQUIRE(session.connect(std::string("x\0y", 3)) == TCPX_ERR_ARGUMENT);
  REQUIRE(session.loadRemoteConnInfo("x", "y") == TCPX_ERR_CONN_INFO);
  REQUIRE(session.registerMemory(nullptr, 1, TCPX_PTR_HOST, true) == 0);
  REQUIRE(session.memoryInfo(1).id == 0 && session.deregisterMemory(1) == TCPX_ERR_UNKNOWN_MEMORY);

  char bytes[20] = {};
  const auto ids = session.registerMemoryList({{bytes, 10, TCPX_PTR_HOST, 1}, {bytes + 10, 10, TCPX_PTR_CUDA, 0}});
  REQUIRE(ids.size() == 2 && session.memoryInfo(ids[1]).ptr_type == TCPX_PTR_CUDA);
  REQUIRE(session.registerMemoryList({{bytes, 10, TCPX_PTR_HOST, 1}, {bytes, 0, TCPX_PTR_HOST, 1}}).empty());
  REQUIRE(session.registerMemoryList({}).empty());

  tcpx::Transfer transfer = session.transfer("x");
  REQUIRE(transfer.handle().id == 0 && transfer.isComplete() && transfer.wait(0) == TCPX_ERR_HANDLE);
  REQUIRE(transfer.postSendBatch({1}, {}, {}, {}) == TCPX_ERR_ARGUMENT);
  REQUIRE(tcpx::MemoryDescriptor::deserialize("x").size == 0 && tcpx::MemoryDescriptor().serialize().empty());
  std::puts("PASSED");
  return 0;
}
