/* TcpxMemoryDescriptor: description of memory by address, size and kind. C++17, header only. */
#ifndef TCPX_MEMORY_DESC_H
#define TCPX_MEMORY_DESC_H

#include <cstddef>
#include <cstdint>
#include <string>

#include "tcpx_types.h"

/** A plain value for the other end. It owns nothing, and gives no peer access to the memory. */
struct TcpxMemoryDescriptor {
  uint64_t base_addr = 0;
  size_t size = 0;
  /** NCCL_PTR_HOST or NCCL_PTR_CUDA. */
  int ptr_type = 0;

  /** Returns "base_addr,size,ptr_type" in decimal; empty when there can be no such memory. */
  std::string serialize() const {
    const tcpx_memory_descriptor value{sizeof value, base_addr, size, ptr_type, 0};
    size_t bytes = 0;
    if (tcpx_memory_descriptor_serialize(&value, nullptr, 0, &bytes) != TCPX_OK) return {};
    return std::to_string(base_addr) + ',' + std::to_string(size) + ',' + std::to_string(ptr_type);
  }

  /**
   * Reads the bytes of serialize() or tcpx_memory_descriptor_serialize(). Returns a descriptor of
   * size 0 when the bytes are no descriptor; tcpx_last_error() gives the reason.
   */
  static TcpxMemoryDescriptor deserialize(const std::string& str) {
    tcpx_memory_descriptor value{};
    value.size = sizeof value;
    TcpxMemoryDescriptor descriptor;
    if (tcpx_memory_descriptor_deserialize(str.data(), str.size(), &value) == TCPX_OK) {
      descriptor.base_addr = value.base_addr;
      descriptor.size = static_cast<size_t>(value.bytes);
      descriptor.ptr_type = value.ptr_type;
    }
    return descriptor;
  }
};

#endif /* TCPX_MEMORY_DESC_H */
