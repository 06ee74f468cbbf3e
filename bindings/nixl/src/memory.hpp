/* Memory of agents, as NIXL keeps it for the backend. One class for what is here and what is
 * elsewhere, because NIXL hands either back as a nixlBackendMD. */
#ifndef TCPX_NIXL_MEMORY_HPP
#define TCPX_NIXL_MEMORY_HPP

#include <cstdint>
#include <optional>
#include <string>

#include "nixl_abi.hpp"
#include "tcpx_p2p.h"

namespace tcpx_nixl {

struct Memory : nixlBackendMD {
  explicit Memory(bool isLocal) : nixlBackendMD(isLocal) {}

  /* Whether `bytes` from `from` on lie in it. */
  bool covers(std::uint64_t from, std::uint64_t count) const {
    return from >= address && from - address <= bytes && count <= bytes - (from - address);
  }

  std::uint64_t address = 0;
  std::uint64_t bytes = 0;
  std::int32_t device = TCPX_GPU_NONE;
  /* What peers may do with it. */
  std::uint32_t access = 0;
  /* Lets peers reach it. It is what NIXL tells other agents of the memory. */
  std::string key;
  /* tcpx's registration; 0 of memory that is reached by its key. */
  std::uint64_t id = 0;
};

/* tcpx's number of the device that NIXL calls `device` among memory of a kind. Nothing for memory
 * that is not tcpx's business, and for numbers that no GPU has. */
inline std::optional<std::int32_t> deviceOf(nixl_mem_t kind, std::uint64_t device) {
  if (kind == DRAM_SEG) return TCPX_GPU_NONE;
  if (kind != VRAM_SEG || device > INT32_MAX) return std::nullopt;
  return static_cast<std::int32_t>(device);
}

}  // namespace tcpx_nixl

#endif
