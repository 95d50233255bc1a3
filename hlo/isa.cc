#include "hlo/isa.h"

#include <algorithm>
#include <cstdlib>
#include <string_view>

#include "hlo/once.h"
#include "hlo/strings.h"

namespace lamina::hlo {

absl::StatusOr<Isa> isa_limit() {
  const char* text = std::getenv("LAMINA_ISA");
  const std::string_view name = text ? text : "";
  if (name.empty() || name == "avx512") return Isa::kAvx512;
  if (name == "avx2") return Isa::kAvx2;
  if (name == "baseline") return Isa::kPortable;
  return absl::InvalidArgumentError(
      str_cat("LAMINA_ISA is '", name, "'; it is baseline, avx2, avx512 or not set"));
}

Isa best_isa() {
  static constinit Once<const Isa> best;
  return best.get([] {
    Isa machine = Isa::kPortable;
#if defined(__x86_64__)
    if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && __builtin_cpu_supports("f16c"))
      machine =
          __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") ? Isa::kAvx512 : Isa::kAvx2;
#endif
    return new Isa(std::min(machine, isa_limit().value_or(Isa::kAvx512)));
  });
}

Isa usable_isa(Isa isa) { return std::min(isa, best_isa()); }

}  // namespace lamina::hlo
