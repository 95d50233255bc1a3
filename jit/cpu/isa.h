// Instruction sets of the hand-written CPU kernels. All give the same bits; they differ in speed only.
#ifndef LAMINA_JIT_CPU_ISA_H_
#define LAMINA_JIT_CPU_ISA_H_

#include <cstdint>

namespace lamina::jit {

enum class Isa : uint8_t { kPortable, kAvx2, kAvx512 };  // slowest first; kAvx2 means AVX2 and FMA

// The best one that this machine runs.
Isa best_isa();
// `isa`, or the best one below it that this machine runs.
Isa usable_isa(Isa isa);

}  // namespace lamina::jit

#endif  // LAMINA_JIT_CPU_ISA_H_
