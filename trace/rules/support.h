// What the derivative, transpose and batching rules of all families share.
#ifndef LAMINA_TRACE_RULES_SUPPORT_H_
#define LAMINA_TRACE_RULES_SUPPORT_H_

#include <span>

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
inline bool any(std::span<const Value> values) {
  for (const Value& v : values)
    if (v) return true;
  return false;
}

// Runs the node once per lane in a scan: the loop that batching stands for, for nodes that have no batched
// form.
BatchResult batch_by_scan(Builder& b, const Node& node, std::span<const Value> operands,
                          std::span<const bool> batched, int64_t size);

// x[at] along the first dimension.
Value row_at(Builder& b, const Value& x, const Value& at);

// Whether lanes that go different ways must do so one after the other, for what they do on their way; lanes
// that exchange values go together.
bool goes_lane_by_lane(const Node& node);

// Rules for ops without tangents (integers, indices, effects), and batching by remaking on the batched
// operands.
JvpResult no_tangent(Builder& b, const Node& node, std::span<const Value> operands,
                     std::span<const Value> tangents);
BatchResult never_batched(Builder& b, const Node& node, std::span<const Value> operands,
                          std::span<const bool> batched, int64_t size);

}  // namespace lamina::trace

#endif  // LAMINA_TRACE_RULES_SUPPORT_H_
