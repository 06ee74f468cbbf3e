// Stands in for CUDA's header where there is no GPU: its memory is malloc's.
//
// What is allocated after stand_in_fills was set has a pattern, and everything else is zero. What is
// freed must have the pattern: so a program that copies none of its data is checked all the same.
#ifndef TCPX_TEST_CUDA_RUNTIME_H
#define TCPX_TEST_CUDA_RUNTIME_H

#include <cstdio>
#include <cstdlib>
#include <map>

using cudaError_t = int;
constexpr cudaError_t cudaSuccess = 0;
constexpr cudaError_t cudaErrorInvalidValue = 1;
constexpr cudaError_t cudaErrorMemoryAllocation = 2;

inline bool stand_in_fills = false;
inline std::map<void*, size_t> stand_in_sizes;

inline unsigned char stand_in_byte(size_t index) {
  return static_cast<unsigned char>(index * 131 + index / 251 + 1);
}

inline cudaError_t cudaMalloc(void** address, size_t bytes) {
  auto* memory = static_cast<unsigned char*>(std::calloc(bytes, 1));
  if (memory == nullptr) return cudaErrorMemoryAllocation;
  for (size_t i = 0; stand_in_fills && i < bytes; ++i) memory[i] = stand_in_byte(i);
  stand_in_sizes[memory] = bytes;
  *address = memory;
  return cudaSuccess;
}

inline cudaError_t cudaFree(void* address) {
  const auto found = stand_in_sizes.find(address);
  if (found == stand_in_sizes.end()) return cudaErrorInvalidValue;
  const auto* memory = static_cast<const unsigned char*>(address);
  for (size_t i = 0; i < found->second; ++i) {
    if (memory[i] != stand_in_byte(i)) {
      std::fprintf(stderr, "byte %zu of %zu is wrong\n", i, found->second);
      std::exit(1);
    }
  }
  stand_in_sizes.erase(found);
  std::free(address);
  std::puts("PASSED");
  return cudaSuccess;
}

#endif
