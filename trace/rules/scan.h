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
BatchResult scan_batch(Builder& b, const Node& node, std::span<const Value> x, std::span<const bool> batched,
                       int64_t size);

}  // namespace lamina::trace

#endif  // LAMINA_TRACE_RULES_SCAN_H_
