// The half that is compiled with -fno-exceptions.
#include "classes.hpp"
// In the words of NCCL's own header, which may come before.
#define NCCL_PTR_HOST 0x1
#define NCCL_PTR_CUDA 0x2
#include "tcpx_session.h"

#ifdef __cpp_exceptions
#error "compile this with -fno-exceptions"
#endif

bool describes(const TcpxMemoryDescriptor& descriptor) {
  const std::string text = descriptor.serialize();
  const TcpxMemoryDescriptor read = TcpxMemoryDescriptor::deserialize(text);
  return text == "4096,65536,2" && read.base_addr == 4096 && read.size == 65536 && read.ptr_type == NCCL_PTR_CUDA;
}

bool completes(TcpxTransfer& transfer) { return transfer.wait(60000) == 0 && transfer.isComplete(); }

bool knows(TcpxSession& session, void* buffer) {
  const uint64_t id = session.registerMemory(buffer, 64, NCCL_PTR_HOST, true);
  TcpxSession::MemoryHandle* memory = session.getMemoryHandle(id);
  return id != 0 && memory != nullptr && memory->buffer == buffer && memory->size == 64 && memory->id == id &&
         memory->ptr_type == NCCL_PTR_HOST && memory->is_recv && memory->mhandle == nullptr;
}
