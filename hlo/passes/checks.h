// Programs that tell the first thing that went wrong while they ran.
#ifndef LAMINA_HLO_PASSES_CHECKS_H_
#define LAMINA_HLO_PASSES_CHECKS_H_

#include <cstdint>
#include <functional>
#include <string_view>

#include "absl/status/statusor.h"
#include "hlo/computation.h"

namespace lamina::hlo {

// A user's check: an effect (function, token, holds, values...) -> token with its number as `index`.
inline constexpr std::string_view kCheckTarget = "python.check", kCppCheckTarget = "cpp.check";
// What is called with (function, values...) where a check with values failed: gives a number that stands for
// both.
inline constexpr std::string_view kFailedTarget = "python.failed", kCppFailedTarget = "cpp.failed";

struct CheckOptions {
  bool user = false;      // the checks that the program records
  bool nan = false;       // results with a NaN
  bool division = false;  // divisors with a zero
  // The number, above 0, by which a check of this node is told. `what`: "nan" or "division".
  std::function<int64_t(const Node& node, std::string_view what)> number;
};

// `c` with a parameter s32[] before parameter `parameter` and a result before result `result`: the number of
// the first check that failed, 0 where none did, given that of what ran before. Bodies of loops, branches and
// calls are checked too, except calls with a derivative rule of their own whose bodies have other effects.
absl::StatusOr<ComputationPtr> with_checks(const Computation& c, const CheckOptions& options,
                                           size_t parameter, size_t result);

}  // namespace lamina::hlo

#endif  // LAMINA_HLO_PASSES_CHECKS_H_
