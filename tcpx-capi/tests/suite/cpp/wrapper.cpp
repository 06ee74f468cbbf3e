/* What the C++ headers add to the C interface: enums, keys that cannot dangle, buffers that are used again. */
#include "tcpx_fwd.hpp"

/* A header of a program may stop here: the names are enough. */
struct Program {
  tcpx::Session* session;
  tcpx::PeerState state;
};

#include <cstdio>
#include <cstdlib>
#include <new>
#include <stdexcept>
#include <type_traits>

#include "tcpx_logging.h"
#include "tcpx_memory_desc.h"
#include "tcpx_p2p.hpp"

namespace {

std::size_t largest_allocation = 0;

void require(bool condition, const char* what) {
  if (!condition) throw std::runtime_error(what);
}

template <typename Key, typename = void>
struct HasPair : std::false_type {};
template <typename Key>
struct HasPair<Key, decltype(static_cast<void>(std::declval<Key>().pair(1, 0, 0, 1)))> : std::true_type {};

static_assert(HasPair<const tcpx::RemoteKey&>::value, "a key makes pairs");
static_assert(!HasPair<tcpx::RemoteKey>::value, "a key that ends with the statement makes none");

void enums() {
  require(tcpx::PeerState::Up == TCPX_PEER_UP && TCPX_PEER_UP == tcpx::PeerState::Up, "numbers of C compare");
  require(tcpx::OperationState::Done != TCPX_OPERATION_FAILED, "other numbers differ");
  require(tcpx::OperationKind::Write == TCPX_WRITE, "kinds are those of C");
}

void notifications() {
  tcpx::Session session(TCPX_GPU_NONE, 0);
  require(session.pollNotifications().empty(), "none has come");
  largest_allocation = 0;
  require(session.pollNotifications().empty(), "none has come again");
  require(largest_allocation < 4096, "a poll uses its buffer again");
}

void environment() {
  setenv("TCPX_WRAPPER_NUMBER", "-12", 1);
  require(getEnvInt("TCPX_WRAPPER_NUMBER", 5) == -12, "a number is read");
  unsetenv("TCPX_WRAPPER_NUMBER");
  require(getEnvInt("TCPX_WRAPPER_NUMBER", 5) == 5, "a variable that is not set has the default");
  for (const char* text : {"", "x", "1x", "99999999999999999999", "4294967296"}) {
    setenv("TCPX_WRAPPER_NUMBER", text, 1);
    require(getEnvInt("TCPX_WRAPPER_NUMBER", 5) == 5, "what is no int has the default");
  }
}

void descriptors() {
  for (const char* text : {"4096,64,1", "4096, 64, 1", " 4096 ,\t64 , 1\n"}) {
    const TcpxMemoryDescriptor read = TcpxMemoryDescriptor::deserialize(text);
    require(read.base_addr == 4096 && read.size == 64 && read.ptr_type == NCCL_PTR_HOST, "blanks do not matter");
  }
  for (const char* text : {"", " ", "4 096,64,1", "4096, 6 4, 1", "4096 64 1", "4096,,64,1", "x, 64, 1"}) {
    require(TcpxMemoryDescriptor::deserialize(text).size == 0, "other texts are refused");
  }
}

}  // namespace

void* operator new(std::size_t size) {
  if (size > largest_allocation) largest_allocation = size;
  if (void* const memory = std::malloc(size)) return memory;
  throw std::bad_alloc();
}
void* operator new[](std::size_t size) { return operator new(size); }
void operator delete(void* memory) noexcept { std::free(memory); }
void operator delete(void* memory, std::size_t) noexcept { std::free(memory); }
void operator delete[](void* memory) noexcept { std::free(memory); }
void operator delete[](void* memory, std::size_t) noexcept { std::free(memory); }

int main() {
  const Program program{nullptr, tcpx::PeerState::None};
  require(program.session == nullptr && program.state == 0, "declarations are enough for a member");
  enums();
  notifications();
  environment();
  descriptors();
  std::puts("PASSED");
}
