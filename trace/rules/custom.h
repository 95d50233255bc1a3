// Transforms of calls that carry a custom rule.
#ifndef LAMINA_TRACE_RULES_CUSTOM_H_
#define LAMINA_TRACE_RULES_CUSTOM_H_

#include "trace/rules/support.h"

namespace lamina::trace {

JvpResult custom_rule_jvp(Builder& b, const Node& call, std::span<const Value> x, std::span<const Value> t,
                          JvpMode mode);
BatchResult custom_rule_batch(Builder& b, const Node& call, std::span<const Value> x,
                              std::span<const bool> batched, int64_t size);
// The call with loops that need a flag (trace/rules/loop_guard.h): `body` is its body and takes the flag
// last, as `x` has it.
Values custom_rule_guarded(Builder& b, const Node& call, const ComputationPtr& body,
                           std::span<const Value> x);
// Whether the call has a rule; that of a checkpointed region is its policy.
inline bool has_custom_rule(const Node& call) {
  return call.attrs().has(Attr::rule) && !call.attrs().has(Attr::instance);
}
// Whether the call has a rule with `transpose`, and its cotangents by that.
bool has_custom_transpose(const Node& call);
Values custom_rule_transpose(Builder& b, const Node& call, std::span<const Value> x,
                             std::span<const bool> linear, std::span<const Value> ct);
// Of the linear stand-in that custom_rule_jvp makes for a function with a custom vjp: it is linear in what
// follows its residuals.
JvpResult custom_vjp_linear_jvp(Builder& b, const Node& custom_call, std::span<const Value> x,
                                std::span<const Value> t);
BatchResult custom_vjp_linear_batch(Builder& b, const Node& custom_call, std::span<const Value> x,
                                    std::span<const bool> batched, int64_t size);
Values custom_vjp_transpose(Builder& b, const Node& custom_call, std::span<const Value> x,
                            std::span<const bool> linear, std::span<const Value> ct);

}  // namespace lamina::trace

#endif  // LAMINA_TRACE_RULES_CUSTOM_H_
