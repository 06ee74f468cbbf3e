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
   * Reads the bytes of serialize() or tcpx_memory_descriptor_serialize(). Blanks around the numbers of
   * a text do not matter. Returns a descriptor of size 0 when the bytes are no descriptor;
   * tcpx_last_error() gives the reason.
   */
  static TcpxMemoryDescriptor deserialize(const std::string& str) {
    const std::string text = trimmed(str);
    tcpx_memory_descriptor value{};
    value.size = sizeof value;
    TcpxMemoryDescriptor descriptor;
    if (tcpx_memory_descriptor_deserialize(text.data(), text.size(), &value) == TCPX_OK) {
      descriptor.base_addr = value.base_addr;
      descriptor.size = static_cast<size_t>(value.bytes);
      descriptor.ptr_type = value.ptr_type;
    }
    return descriptor;
  }

 private:
  /** Returns a text without the blanks around its numbers, and other bytes as they are. */
  static std::string trimmed(const std::string& str) {
    static const char kBlanks[] = " \t\n\v\f\r";
    if (str.find_first_not_of("0123456789, \t\n\v\f\r") != std::string::npos) return str;
    std::string text;
    for (size_t i = 0; i < str.size(); ++i) {
      const size_t next = str.find_first_not_of(kBlanks, i);
      if (next == std::string::npos) break;
      const bool is_first = text.empty() || text.back() == ',';
      if (next != i && !is_first && str[next] != ',') text += ' '; /* between two digits */
      text += str[next];
      i = next;
    }
    return text;
  }
};

#endif /* TCPX_MEMORY_DESC_H */
