// Loops whose number of steps may not be known before they run: what they consist of.
#ifndef LAMINA_TRACE_RULES_LOOPS_H_
#define LAMINA_TRACE_RULES_LOOPS_H_

#include <functional>
#include <limits>
#include <optional>

#include "trace/rules/support.h"

namespace lamina::trace {

// In the place of a number of states: as many as the square root of a loop's steps, up to a factor.
inline constexpr int64_t kRootOfSteps = std::numeric_limits<int64_t>::min();

struct Loop {
  ComputationPtr cond, body;
  int64_t kept = 0;  // states that reverse mode keeps at a time, or kRootOfSteps; 0: as many as fit a budget
  std::optional<int64_t> steps = std::nullopt;  // of every run, where they are known
};
Loop loop_of(const Node& while_node);
Values record_loop(Builder& b, const Loop& loop, std::span<const Value> carries);

// How often a loop runs whose condition compares a carry that steps by a constant with a constant.
std::optional<int64_t> trip_count(const Node& loop, std::span<const Value> carries);

// A loop recorded by its condition and step.
Values loop_over(Builder& b, std::span<const Value> carries,
                 const std::function<Value(Builder&, std::span<const Value>)>& go,
                 const std::function<Values(Builder&, std::span<const Value>)>& step);
// Marks of a loop's carries, with those added that come to depend on them.
absl::StatusOr<Mask> closed_marks(const Computation& body, Mask marks);
// The loop as its derivative computes it: a user's rule gives the results of its function too, and it is
// these that further derivatives go through.
absl::StatusOr<Loop> differentiated(const Loop& loop, const Mask& marked);
// The loop with a count of its steps as a last carry.
absl::StatusOr<Loop> counted(const Loop& loop);

}  // namespace lamina::trace

#endif  // LAMINA_TRACE_RULES_LOOPS_H_
