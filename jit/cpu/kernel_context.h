// What a hand-written CPU kernel gets besides its operands.
#ifndef LAMINA_JIT_CPU_KERNEL_CONTEXT_H_
#define LAMINA_JIT_CPU_KERNEL_CONTEXT_H_

#include <atomic>
#include <cstdint>

#include "hlo/isa.h"
#include "jit/client/client.h"
#include "jit/cpu/parallel.h"

namespace lamina::jit {

using hlo::best_isa;
using hlo::Isa;
using hlo::usable_isa;

// Memory of the CPU is host memory.
inline void* pointer(Address address) { return reinterpret_cast<void*>(address.bits()); }

struct KernelContext {
  Memory* scratch = nullptr;                     // required: packing buffers come from here
  ParallelFor parallel;                          // default: the calling thread
  const std::atomic<int32_t>* cancel = nullptr;  // may be null
  Isa isa = best_isa();

  bool cancelled() const { return cancel && cancel->load(std::memory_order_relaxed) != 0; }
};

}  // namespace lamina::jit

#endif  // LAMINA_JIT_CPU_KERNEL_CONTEXT_H_
