// What the derivative, transpose and batching rules of all families share.
#ifndef LAMINA_HLO_RULES_TRANSFORM_SUPPORT_H_
#define LAMINA_HLO_RULES_TRANSFORM_SUPPORT_H_

#include <optional>
#include <span>

#include "hlo/builder.h"
#include "hlo/computation.h"
#include "hlo/graph.h"
#include "hlo/op.h"
#include "hlo/strings.h"

namespace lamina::hlo {

using Mask = absl::InlinedVector<bool, 8>;

// Nodes recorded while this lives take numerics mode and location of `node`.
class NodeScope {
 public:
  explicit NodeScope(const Node& node) : saved_(record_state()) {
    record_state().mode = node.mode();
    record_state().location = node.location();
  }
  ~NodeScope() { record_state() = saved_; }
  NodeScope(const NodeScope&) = delete;
  NodeScope& operator=(const NodeScope&) = delete;

 private:
  RecordState saved_;
};

inline Value value_of(const Node& node, uint32_t index = 0) { return Value(const_cast<Node*>(&node), index); }

// The results of `node`'s op on `operands`: the node itself if these are its own.
Values results_of(Builder& b, const Node& node, std::span<const Value> operands);
Value result_of(Builder& b, const Node& node, std::span<const Value> operands);

// `x`, or zeros like `like` where there is no tangent.
inline Value or_zeros(Builder& b, const Value& x, const Value& like) { return x ? x : b.zeros_like(like); }
inline bool any(std::span<const Value> values) {
  for (const Value& v : values)
    if (v) return true;
  return false;
}
// Whether values of this type have tangents.
inline bool has_tangent(const Type* type) { return type->is_array() && is_inexact(type->dtype); }

// {first, rest + 1, ...}, the shape of a list of dimensions after a batch dimension was put in front.
Dims prepend(int64_t first, std::span<const int64_t> rest);
Dims shifted(std::span<const int64_t> dims, int64_t by = 1);
// {0, dims + 1, ...}.
Dims shifted_with_zero(std::span<const int64_t> dims);
// 0 ... n-1.
Dims all_dims(int64_t n);
const Type* batched_type(const Type* type, int64_t size);

// `x` with the batch at dimension 0, broadcast if it does not carry it.
Value with_batch(Builder& b, const Value& x, bool batched, int64_t size);
Values all_with_batch(Builder& b, std::span<const Value> xs, std::span<const bool> batched, int64_t size);
// A result list in which every value carries the batch.
BatchResult all_batched(Values results);

// Runs the node once per lane in a scan: the loop that batching stands for, for nodes that have no batched
// form.
BatchResult batch_by_scan(Builder& b, const Node& node, std::span<const Value> operands,
                          std::span<const bool> batched, int64_t size);

// x[at] along the first dimension.
Value row_at(Builder& b, const Value& x, const Value& at);
// The greatest or the least value of the type, the start of a minimum or maximum: infinite if it has
// infinities.
Value extreme(Builder& b, DType dtype, bool greatest);

std::vector<const Type*> types_of(std::span<const Value> values);
// A computation that takes, and ignores, further parameters.
absl::StatusOr<ComputationPtr> with_parameters(const Computation& c, std::span<const Type* const> more);

// The token of effects of all lanes as one, where lanes had one each.
Value joined_token(Builder& b, const Value& token);
// Whether the test holds for the node, or for one within its regions; for one of the computation's nodes, or
// of their regions.
bool anywhere(const Node& node, bool (*test)(const Node&));
bool anywhere(const Computation& computation, bool (*test)(const Node&));
// Whether the node's results are elements of its operands: it makes no number.
bool passes_on(const Node& node);
bool is_effect(const Node& node);  // a host callback with effects
// Whether lanes that go different ways must do so one after the other, for what they do on their way; lanes
// that exchange values go together.
bool goes_lane_by_lane(const Node& node);

// The op of a region (a, b) -> op(a, b), if it is one elementwise op of its two parameters.
std::optional<Op> region_op(const Computation& region);
// A region (a..., b...) -> (a + b)....
bool is_sum_region(const Computation& region);
// A region (a..., b...) -> (b...).
bool is_second_region(const Computation& region);
ComputationPtr second_region(DType dtype);

// Rules for ops without tangents (integers, indices, effects), and batching by remaking on the batched
// operands.
JvpResult no_tangent(Builder& b, const Node& node, std::span<const Value> operands,
                     std::span<const Value> tangents);
BatchResult never_batched(Builder& b, const Node& node, std::span<const Value> operands,
                          std::span<const bool> batched, int64_t size);

}  // namespace lamina::hlo

#endif  // LAMINA_HLO_RULES_TRANSFORM_SUPPORT_H_
