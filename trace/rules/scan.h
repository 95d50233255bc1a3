// Transforms of scans, shared with loops that are scans in disguise.
#ifndef LAMINA_TRACE_RULES_SCAN_H_
#define LAMINA_TRACE_RULES_SCAN_H_

#include "trace/rules/support.h"

namespace lamina::trace {

JvpResult scan_jvp(Builder& b, const Node& node, std::span<const Value> x, std::span<const Value> t);
// Primal scan with stacked residuals, and a scan linear in the tangents.
JvpResult scan_linearize(Builder& b, const Node& node, std::span<const Value> x, std::span<const Value> t);
Values scan_transpose(Builder& b, const Node& node, std::span<const Value> x, std::span<const bool> linear,
                      std::span<const Value> ct);
// Of a scan that stacks nothing, where it is better reversed as a loop that is by tiles (while.cc); else
// absent.
std::optional<JvpResult> scan_linearize_by_tiles(Builder& b, const Node& node, std::span<const Value> x,
                                                 std::span<const Value> t);
BatchResult scan_batch(Builder& b, const Node& node, std::span<const Value> x, std::span<const bool> batched,
                       int64_t size);

Mask present(std::span<const Value> values);
// a, then b.
Values joined(std::span<const Value> a, std::span<const Value> b);
// Those of `values` that are marked (or not).
Values picked(std::span<const Value> values, std::span<const bool> mask, bool want = true);
// Whether computation result i is parameter i itself.
bool is_invariant(const Computation& body, size_t i);

}  // namespace lamina::trace

#endif  // LAMINA_TRACE_RULES_SCAN_H_
