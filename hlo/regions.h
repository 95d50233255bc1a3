// What the computations inside reductions, scatters and their like are, and what such ops are themselves.
#ifndef LAMINA_HLO_REGIONS_H_
#define LAMINA_HLO_REGIONS_H_

#include <functional>
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
// A call that stands for what its body does, and for nothing else.
bool is_plain_call(const Node& n);
// A call that compilers may know by a name.
bool is_composite(const Node& n);
// Where among these values `o` is, the first time.
std::optional<size_t> position_of(std::span<const Value> values, Operand o);
// A computation that takes, and ignores, further parameters.
absl::StatusOr<ComputationPtr> with_parameters(const Computation& c, std::span<const Type* const> more);
// The attributes with `other(region)` in the place of each region; null: it stays. The same where all stay.
const Attrs* with_regions(const Attrs& attrs, const std::function<ComputationPtr(const Computation&)>& other);
// f(const ComputationPtr&) for each region among the attributes.
template <typename F>
void for_each_region(const Attrs& attrs, F&& f) {
  for (const auto& [key, value] : attrs.entries()) {
    if (const auto* one = std::get_if<ComputationPtr>(&value)) {
      if (*one) f(*one);
    } else if (const auto* many = std::get_if<std::vector<ComputationPtr>>(&value)) {
      for (const ComputationPtr& c : *many)
        if (c) f(c);
    }
  }
}
// Whether a scatter has one index vector: one for each place along `batch`, dimensions of its indices.
bool has_one_index_vector(const Node& scatter, const Dims& batch = {});
// A while or a scan.
bool is_loop_op(Op op);
// How many values a while or scan carries from step to step: its first operands and results.
size_t num_carried(const Node& loop);

}  // namespace lamina::hlo

#endif  // LAMINA_HLO_REGIONS_H_
