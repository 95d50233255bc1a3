#include "jit/cpu/isa.h"

#include <algorithm>

namespace lamina::jit {

Isa best_isa() {
#if defined(__x86_64__)
  if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma"))
    return __builtin_cpu_supports("avx512f") ? Isa::kAvx512 : Isa::kAvx2;
#endif
  return Isa::kPortable;
}

Isa usable_isa(Isa isa) { return std::min(isa, best_isa()); }

}  // namespace lamina::jit
