// Answers of the classes of the plugin API when something is wrong. Files with and without
// exceptions share these classes.
#include "classes.hpp"
#include "tcpx_logging.h"
#include "tcpx_session.h"
// As NCCL's own header says it, which may come after.
#define NCCL_PTR_HOST 0x1
#define NCCL_PTR_CUDA 0x2

#include <cstdio>
#include <cstdlib>
#include <memory>
#include <thread>
#include <type_traits>

static_assert(!std::is_copy_constructible<TcpxSession>::value, "a session has one owner");
static_assert(!std::is_copy_constructible<TcpxTransfer>::value, "a transfer has one owner");

namespace {

void require(bool condition, const char* what) {
  if (condition) return;
  std::fprintf(stderr, "%s: %s\n", what, tcpx_last_error());
  std::exit(1);
}

void descriptors() {
  TcpxMemoryDescriptor descriptor;
  require(descriptor.serialize().empty(), "impossible memory has no descriptor");
  descriptor.base_addr = 4096;
  descriptor.size = 65536;
  descriptor.ptr_type = NCCL_PTR_CUDA;
  require(describes(descriptor), "the descriptor round-trips");
  char sealed[TCPX_MEMORY_DESCRIPTOR_BYTES];
  const tcpx_memory_descriptor value{sizeof value, 1, 2, TCPX_PTR_HOST, 0};
  size_t size = 0;
  require(tcpx_memory_descriptor_serialize(&value, sealed, sizeof sealed, &size) == TCPX_OK, "sealed");
  require(TcpxMemoryDescriptor::deserialize(std::string(sealed, size)).size == 2, "the binary form is read");
  for (const char* text : {"", "4096", "4096,0,2", "-1,2,1", "4096,65536,3", "4096, 65 536,2"}) {
    require(TcpxMemoryDescriptor::deserialize(text).size == 0, text);
  }
}

void failures() {
  TcpxSession none(TCPX_GPU_NONE, -1);
  require(none.status() == TCPX_ERR_SETTING && none.handle().id == 0, "a negative number of channels is refused");
  require(none.listen().empty() && none.accept("x") == TCPX_ERR_HANDLE, "a session that was not made fails");
  require(none.registerMemory(&none, 1, NCCL_PTR_HOST, true) == 0, "a session that was not made registers nothing");

  TcpxSession session(TCPX_GPU_NONE, 2);
  char bytes[8] = {};
  require(session.status() == TCPX_OK && !session.listen().empty(), "the session listens");
  require(session.connect("x") == TCPX_ERR_UNKNOWN_PEER, "the peer is unknown");
  require(session.disconnect("x") == TCPX_ERR_UNKNOWN_PEER, "the peer is unknown");
  require(session.connect(std::string("x\0y", 3)) == TCPX_ERR_ARGUMENT, "a name with NUL is refused");
  require(session.loadRemoteConnInfo("x", "y") == TCPX_ERR_CONN_INFO, "other bytes are refused");
  require(session.createTransfer("x") == nullptr, "a transfer needs a peer");
  require(session.registerMemory(bytes, 0, NCCL_PTR_HOST, true) == 0, "an empty range is refused");
  require(session.registerMemory(bytes, 8, 0, true) == 0, "an unknown kind is refused");
  require(session.getMemoryHandle(0) == nullptr, "0 is no id");
  require(session.deregisterMemory(1) == TCPX_ERR_UNKNOWN_MEMORY, "nothing was registered");
}

void transfers() {
  TcpxSession left(TCPX_GPU_NONE, 1);
  TcpxSession right(TCPX_GPU_NONE, 1);
  right.loadRemoteConnInfo("left", left.listen());
  std::thread accepts([&] { require(left.accept("right") == 0, "the accept succeeds"); });
  require(right.connect("left") == 0, "the connect succeeds");
  accepts.join();

  char from[] = "0123456789";
  char to[10] = {};
  const uint64_t source = left.registerMemory(from, 10, NCCL_PTR_HOST, false);
  const uint64_t target = right.registerMemory(to, 10, NCCL_PTR_CUDA, true);
  TcpxSession::MemoryHandle* memory = right.getMemoryHandle(target);
  require(memory->ptr_type == NCCL_PTR_CUDA && !left.getMemoryHandle(source)->is_recv, "as registered");
  std::unique_ptr<TcpxTransfer> send(left.createTransfer("right"));
  std::unique_ptr<TcpxTransfer> receive(right.createTransfer("left"));
  require(receive->isComplete() && receive->wait(0) == 0, "a transfer without posts is complete");
  require(receive->postRecvBatch({target, target}, {5, 0}, {5, 5}, {-2, 1}) == 0, "posted");
  require(!receive->isComplete() && receive->wait(1) == TCPX_ERR_TIMEOUT, "the receive waits");
  require(send->postSendBatch({source}, {0, 5}, {5}, {1}) == TCPX_ERR_ARGUMENT, "lengths differ");
  require(send->postSend(source, 6, 5, 1) == TCPX_ERR_MEMORY, "a range outside is refused");
  require(send->postSendBatch({source, source}, {0, 5}, {5, 5}, {1, -2}) == 0, "posted");
  require(completes(*send) && completes(*receive), "both ends complete");
  require(std::string(to, 10) == from, "every byte is right");
  require(receive->release() == 0 && receive->release() == 0, "a second release does nothing");
  require(receive->postRecv(target, 0, 1, 1) == TCPX_ERR_HANDLE, "a released transfer refuses posts");
  require(receive->isComplete() && receive->wait(0) == TCPX_ERR_HANDLE, "a released transfer waits in vain");
  require(right.deregisterMemory(target) == 0 && right.getMemoryHandle(target) == nullptr, "the registration is gone");
  static char buffer[64];
  require(knows(right, buffer), "the buffer can be registered");
  std::thread leaves([&] { left.disconnect("right"); });
  require(right.disconnect("left") == 0, "the disconnect succeeds");
  leaves.join();
}

}  // namespace

int main() {
  descriptors();
  failures();
  transfers();
  std::puts("PASSED");
  return 0;
}
