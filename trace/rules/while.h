// Transforms of while loops, and of what stands for their derivatives.
//
// A loop whose number of steps is not known has a forward derivative, a loop over carries and tangents. Its
// linear part, as reverse mode needs it, is a `call` that knows the loop it comes from (`LoopDerivative`):
// transposed, derived and batched it is again such a call, of the loop itself, its forward derivative or its
// batched form, so that no order of derivatives keeps states of a loop that keeps states.
//
// A lane that is not part of a loop, because it stopped or because its branch is another one, does not run
// the loops inside on its state: `guarded_graph` records a region whose loops need a further flag.
#ifndef LAMINA_TRACE_RULES_WHILE_H_
#define LAMINA_TRACE_RULES_WHILE_H_

#include <optional>

#include "trace/rules/support.h"

namespace lamina::trace {

struct Loop {
  ComputationPtr cond, body;
  int64_t kept = 0;  // states that reverse mode keeps at a time; 0: as many as fit a budget
};
Loop loop_of(const Node& while_node);
Values record_loop(Builder& b, const Loop& loop, std::span<const Value> carries);

// How often a loop runs whose condition compares a carry that steps by a constant with a constant.
std::optional<int64_t> trip_count(const Node& loop, std::span<const Value> carries);

JvpResult while_jvp(Builder& b, const Node& node, std::span<const Value> x, std::span<const Value> t);
JvpResult while_linearize(Builder& b, const Node& node, std::span<const Value> x, std::span<const Value> t);
Values while_transpose(Builder& b, const Node& node, std::span<const Value> x, std::span<const bool> linear,
                       std::span<const Value> ct);
BatchResult while_batch(Builder& b, const Node& node, std::span<const Value> x, std::span<const bool> batched,
                        int64_t size);

// A loop over lanes: runs while any lane goes on.
struct LanesLoop {
  Loop loop;
  Mask batched;       // by carry of the original loop
  ComputationPtr go;  // of the carries: which lanes start; null if all lanes take the same steps
  size_t size() const { return batched.size() + (go ? 1 : 0); }  // which lanes go on is a further carry
};
// `marks`: carries that are batched; others that come to differ between lanes are added. With `finite`, lanes
// that stopped take part in a step with the state of a lane that goes on: where a step's derivative is not
// finite at their own, zero times it would be no zero. Absent after an error.
std::optional<LanesLoop> lanes_loop(Builder& b, const Loop& loop, Mask marks, int64_t size, bool finite);
// The carries to start it with.
Values lanes_carries(Builder& b, const LanesLoop& lanes, std::span<const Value> x,
                     std::span<const bool> batched, int64_t size);
// `value` in lanes where `pred` holds, else `other`; pred is one bool per lane.
Value select_lanes(Builder& b, const Value& pred, const Value& value, const Value& other);

// --- loops that need a flag ---

// Whether a loop may run in the computation that no number of steps bounds.
bool may_loop(const Computation& c);
// The results of `c` on `arguments`, with every such loop also needing `active`, one bool.
Values guarded_graph(Builder& b, const Computation& c, std::span<const Value> arguments, const Value& active);
// (parameters..., active) -> results.
absl::StatusOr<ComputationPtr> guarded(const Computation& c);
// The loop with a last carry that it needs.
absl::StatusOr<Loop> guarded(const Loop& loop);

// --- derivatives of loops ---

// Of a loop of n carries, m of which are marked as having derivatives:
//   kForward: (carries, tangents of the marked) -> tangents of the marked results.
//   kReverse: (carries, cotangents of the marked results) -> cotangents of the marked carries.
//   kForwardOfReverse: (carries, cotangents, tangents of marked carries, tangents of cotangents) -> tangents
//   of what kReverse gives.
enum class LoopDirection : uint8_t { kForward, kReverse, kForwardOfReverse };
struct LoopDerivative {
  LoopDirection direction;
  Loop loop;
  Mask marked;  // closed: what depends on a marked carry is marked
};
std::optional<LoopDerivative> loop_derivative(const Node& call);
Values record_loop_derivative(Builder& b, const LoopDerivative& d, std::span<const Value> operands);
JvpResult loop_derivative_jvp(Builder& b, const LoopDerivative& d, const Node& node, std::span<const Value> x,
                              std::span<const Value> t);
Values loop_derivative_transpose(Builder& b, const LoopDerivative& d, std::span<const Value> x,
                                 std::span<const bool> linear, std::span<const Value> ct);
BatchResult loop_derivative_batch(Builder& b, const LoopDerivative& d, std::span<const Value> x,
                                  std::span<const bool> batched, int64_t size);
// Marks of a loop's carries, with those added that come to depend on them.
absl::StatusOr<Mask> closed_marks(const Computation& body, Mask marks);
// The loop with a count of its steps as a last carry.
absl::StatusOr<Loop> counted(const Loop& loop);

}  // namespace lamina::trace

#endif  // LAMINA_TRACE_RULES_WHILE_H_
