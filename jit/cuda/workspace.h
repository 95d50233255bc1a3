// Work space that a library asks for, in memory of a step, which may begin at fewer multiples.
#ifndef LAMINA_JIT_CUDA_WORKSPACE_H_
#define LAMINA_JIT_CUDA_WORKSPACE_H_

#include <cstddef>
#include <cstdint>

#include "jit/client/memory.h"
#include "jit/program/memory_plan.h"

namespace lamina::jit::cuda {

// Of the step's memory, for so many bytes at a multiple of `alignment`, a power of two; 0 for none.
inline int64_t workspace_memory(size_t bytes, int64_t alignment) {
  return bytes == 0 ? 0 : static_cast<int64_t>(bytes) + alignment - kArenaAlignment;
}
// Where in that memory it begins.
inline void* workspace_in(Address memory, int64_t alignment) {
  const auto mask = static_cast<uint64_t>(alignment - 1);
  return reinterpret_cast<void*>((memory.bits() + mask) & ~mask);
}

}  // namespace lamina::jit::cuda

#endif  // LAMINA_JIT_CUDA_WORKSPACE_H_
