// The rules of while.
#ifndef LAMINA_TRACE_RULES_WHILE_H_
#define LAMINA_TRACE_RULES_WHILE_H_

#include "trace/rules/support.h"

namespace lamina::trace {

JvpResult while_jvp(Builder& b, const Node& node, std::span<const Value> x, std::span<const Value> t);
JvpResult while_linearize(Builder& b, const Node& node, std::span<const Value> x, std::span<const Value> t);
Values while_transpose(Builder& b, const Node& node, std::span<const Value> x, std::span<const bool> linear,
                       std::span<const Value> ct);
BatchResult while_batch(Builder& b, const Node& node, std::span<const Value> x, std::span<const bool> batched,
                        int64_t size);

}  // namespace lamina::trace

#endif  // LAMINA_TRACE_RULES_WHILE_H_
