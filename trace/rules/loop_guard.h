// Loops that need a flag.
//
// A lane that is not part of a loop, because it stopped or because its branch is another one, does not run
// the loops inside on its state: `guarded_graph` records a region whose loops need a further flag.
#ifndef LAMINA_TRACE_RULES_LOOP_GUARD_H_
#define LAMINA_TRACE_RULES_LOOP_GUARD_H_

#include "trace/rules/loops.h"

namespace lamina::trace {

// Whether a loop may run in the computation that no number of steps bounds.
bool may_loop(const Computation& c);
// The results of `c` on `arguments`, with every such loop also needing `active`, one bool.
Values guarded_graph(Builder& b, const Computation& c, std::span<const Value> arguments, const Value& active);
// (parameters..., active) -> results.
absl::StatusOr<ComputationPtr> guarded(const Computation& c);
// The loop with a last carry that it needs.
absl::StatusOr<Loop> guarded(const Loop& loop);

}  // namespace lamina::trace

#endif  // LAMINA_TRACE_RULES_LOOP_GUARD_H_
