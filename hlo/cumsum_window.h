// cumsum as the reduce_window that other compilers know as a running sum: a window over all elements up to
// each.
#ifndef LAMINA_HLO_CUMSUM_WINDOW_H_
#define LAMINA_HLO_CUMSUM_WINDOW_H_

#include <span>

#include "absl/status/statusor.h"
#include "hlo/builder.h"
#include "hlo/computation.h"

namespace lamina::hlo {

// A computation of the operand.
absl::StatusOr<ComputationPtr> window_of_cumsum(const Node& cumsum);

// The other way round; null for any other reduction. Whoever writes such a window leaves the order of its
// additions open.
Value cumsum_of_window(Builder& b, std::span<const Value> arrays, std::span<const Value> inits,
                       const Computation& body, const WindowDims& window);

}  // namespace lamina::hlo

#endif  // LAMINA_HLO_CUMSUM_WINDOW_H_
