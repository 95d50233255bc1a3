// What the derivative, transpose and batching rules of all families share.
#ifndef LAMINA_TRACE_RULES_SUPPORT_H_
#define LAMINA_TRACE_RULES_SUPPORT_H_

#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "hlo/batching.h"
#include "hlo/nodes.h"
#include "hlo/regions.h"
#include "hlo/rules/support.h"
#include "trace/graph_transforms.h"
#include "trace/rules/rules.h"

namespace lamina::trace {

using Ops = std::span<const Value>;
using Marks = std::span<const bool>;

// `x`, or zeros like `like` where there is no tangent.
inline Value or_zeros(Builder& b, const Value& x, const Value& like) { return x ? x : b.zeros_like(like); }
// An s64.
inline Value number(Builder& b, int64_t x) { return b.scalar_int(hlo::DType::kS64, x); }
inline Values own_operands(const Node& n) {
  Values out;
  for (size_t i = 0; i < n.operands().size(); ++i) out.push_back(n.operand_value(i));
  return out;
}
inline bool any(std::span<const Value> values) {
  for (const Value& v : values)
    if (v) return true;
  return false;
}

Mask present(std::span<const Value> values);
// a, then b.
Values joined(std::span<const Value> a, std::span<const Value> b);
// Those of `values` that are marked (or not).
Values picked(std::span<const Value> values, std::span<const bool> mask, bool want = true);
// How many are marked.
size_t count(std::span<const bool> marks);
// Whether computation result i is parameter i itself.
bool is_invariant(const Computation& body, size_t i);

// The place at hand, of which reports (cluster/fuse.h) tell how the lanes of a batch go on in the loops and
// branches recorded there: "one by one", "together until the last has ended".
hlo::LocationId place_of_lanes(std::string_view how);

// Runs the node once per lane in a scan: the loop that batching stands for, for nodes that have no batched
// form.
BatchResult batch_by_scan(Builder& b, const Node& node, std::span<const Value> operands,
                          std::span<const bool> batched, int64_t size);

// x[at : at + count] and x[at] along the first dimension.
Value rows_at(Builder& b, const Value& x, const Value& at, int64_t count);
Value row_at(Builder& b, const Value& x, const Value& at);
// rows[at] = x.
Value put_row(Builder& b, const Value& rows, const Value& x, const Value& at);
// What a read of some place of an array sends back: a row that is added there, and nothing elsewhere.
struct Window {
  Value row;
  Values starts;
};
inline constexpr size_t kMostWindows = 4;
// The windows, the last one first, that a cotangent is made of, as far as its nodes tell; absent: it is
// something else.
std::optional<std::vector<Window>> windows_of(const Value& v);
Value add_window(Builder& b, const Value& all, const Window& w);
// The sum of two cotangents; one made of windows is added in their places, and the other one not gone
// through.
Value add_cotangents(Builder& b, const Value& x, const Value& y);

// Whether lanes that go different ways must do so one after the other, for what they do on their way; lanes
// that exchange values go together.
bool goes_lane_by_lane(const Node& node);
// Whether lanes exchange values in the node.
bool exchanges(const Node& node);
// Whether lanes that go different ways are to do so one after the other (LaneStrategy::kLoop).
bool lanes_apart(const Node& node);

// Rules for ops without tangents (integers, indices, effects), and batching by remaking on the batched
// operands.
JvpResult no_tangent(Builder& b, const Node& node, std::span<const Value> operands,
                     std::span<const Value> tangents);
BatchResult never_batched(Builder& b, const Node& node, std::span<const Value> operands,
                          std::span<const bool> batched, int64_t size);
// Of ops that are linear in their first operand and take no tangents of others.
JvpResult linear_jvp(Builder& b, const Node& node, std::span<const Value> operands,
                     std::span<const Value> tangents);

}  // namespace lamina::trace

#endif  // LAMINA_TRACE_RULES_SUPPORT_H_
