// Instruction sets that hand-written kernels exist for. All give the same bits; they differ in speed only.
//
// The environment variable LAMINA_ISA (baseline, avx2, avx512) makes this process treat its machine as one
// that has no more than that, so that a test on a large machine sees what a small one does. It is read once.
#ifndef LAMINA_HLO_ISA_H_
#define LAMINA_HLO_ISA_H_

#include <cstdint>

#include "absl/status/statusor.h"

namespace lamina::hlo {

// Slowest first; kAvx2 means AVX2, FMA and F16C, kAvx512 AVX-512 F and BW besides.
enum class Isa : uint8_t { kPortable, kAvx2, kAvx512 };

// The best one that this machine runs and LAMINA_ISA allows.
Isa best_isa();
// `isa`, or the best one below it that may be used here.
Isa usable_isa(Isa isa);

// What LAMINA_ISA allows: kAvx512 if it is not set. InvalidArgument for a name that is none of the three.
absl::StatusOr<Isa> isa_limit();

}  // namespace lamina::hlo

#endif  // LAMINA_HLO_ISA_H_
