// What the computations inside reductions, scatters and their like are.
#ifndef LAMINA_HLO_REGIONS_H_
#define LAMINA_HLO_REGIONS_H_

#include <optional>
#include <span>

#include "absl/status/statusor.h"
#include "hlo/builder.h"
#include "hlo/computation.h"
#include "hlo/graph.h"

namespace lamina::hlo {

// The op of a region (a, b) -> op(a, b), if it is one elementwise op of its two parameters.
std::optional<Op> region_op(const Computation& region);
// A region (a..., b...) -> (a + b)....
bool is_sum_region(const Computation& region);
// A region (a..., b...) -> (b...).
bool is_second_region(const Computation& region);
ComputationPtr second_region(DType dtype);
// The greatest or the least value of the type, the start of a minimum or maximum: infinite if it has
// infinities.
Value extreme(Builder& b, DType dtype, bool greatest);
// A computation that takes, and ignores, further parameters.
absl::StatusOr<ComputationPtr> with_parameters(const Computation& c, std::span<const Type* const> more);

}  // namespace lamina::hlo

#endif  // LAMINA_HLO_REGIONS_H_
