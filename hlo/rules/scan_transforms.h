// Transforms of scans, shared with loops that are scans in disguise.
#ifndef LAMINA_HLO_RULES_SCAN_TRANSFORMS_H_
#define LAMINA_HLO_RULES_SCAN_TRANSFORMS_H_

#include "hlo/rules/graph_transforms.h"

namespace lamina::hlo {

JvpResult scan_jvp(Builder& b, const Node& node, std::span<const Value> x, std::span<const Value> t);
// Primal scan with stacked residuals, and a scan linear in the tangents.
JvpResult scan_linearize(Builder& b, const Node& node, std::span<const Value> x, std::span<const Value> t);
Values scan_transpose(Builder& b, const Node& node, std::span<const Value> x, std::span<const bool> linear,
                      std::span<const Value> ct);
BatchResult scan_batch(Builder& b, const Node& node, std::span<const Value> x, std::span<const bool> batched,
                       int64_t size);

// The value of a computation, or null with the error in the builder.
template <typename T>
const T* get_or_fail(Builder& b, const absl::StatusOr<T>& value) {
  if (value.ok()) return &*value;
  b.fail(value.status());
  return nullptr;
}

Mask present(std::span<const Value> values);
// a, then b.
Values joined(std::span<const Value> a, std::span<const Value> b);
// Those of `values` that are marked (or not).
Values picked(std::span<const Value> values, std::span<const bool> mask, bool want = true);
// Whether computation result i is parameter i itself.
bool is_invariant(const Computation& body, size_t i);

}  // namespace lamina::hlo

#endif  // LAMINA_HLO_RULES_SCAN_TRANSFORMS_H_
