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

#include <functional>
#include <limits>
#include <optional>
#include <vector>

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
// finite at their own, zero times it would be no zero, in what all lanes share neither. Absent after an
// error.
std::optional<LanesLoop> lanes_loop(Builder& b, const Loop& loop, Mask marks, int64_t size, bool finite);
// Whether the steps compute numbers, and read and write rows of an array at positions of their own: lanes
// that end apart then go one after the other, as their positions differ.
bool has_stack(const Loop& loop);
// Whether the steps make numbers, and arrays only by writing some rows.
bool makes_numbers(const Loop& loop);
// The carries to start it with.
Values lanes_carries(Builder& b, const LanesLoop& lanes, std::span<const Value> x,
                     std::span<const bool> batched, int64_t size);
// `value` in lanes where `pred` holds, else `other`; pred is one bool per lane.
Value select_lanes(Builder& b, const Value& pred, const Value& value, const Value& other);
// The same values, of which lanes that are not `here`, in this branch or loop, have no derivative in it: it
// may be infinite there (the root of 0), and infinity times the zero that comes from the select of the
// results is NaN.
Value derived_here(Builder& b, const Value& here, const Value& x);

// --- lanes by cost (lanes.cc) ---

// Of a batch of `size`, how many lanes that still go on are few: those go one after the other, more together.
int64_t few_lanes(const Loop& loop, int64_t size);
// `lanes`, whose lanes end apart, of which there are few or none; absent after an error.
std::optional<LanesLoop> while_enough(Builder& b, const Loop& loop, const LanesLoop& lanes, int64_t size);
// `state` and `others` after `one_by_one` of them if some lane of that state goes on, else as they are.
using LeftLanes = std::function<Values(Builder&, std::span<const Value>, std::span<const Value>)>;
Values those_left(Builder& b, const LanesLoop& lanes, std::span<const Value> state,
                  std::span<const Value> others, const LeftLanes& one_by_one);
// The results of a loop whose lanes end apart, from lanes_carries.
Values loop_by_cost(Builder& b, const Node& node, const LanesLoop& lanes, std::span<const Value> carries,
                    int64_t size);
// The same, where each lane is an element of the arrays.
Values elements_by_cost(Builder& b, const Loop& loop, const LanesLoop& lanes, std::span<const Value> carries,
                        int64_t size);
// Whether lanes that take different branches save more than it costs to take them one after the other.
bool branches_cost_more(std::span<const ComputationPtr> branches);

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
//   kPrimal: (carries) -> results, by a program that is part of kReverse's: where both are there, it runs
//   once.
enum class LoopDirection : uint8_t { kForward, kReverse, kForwardOfReverse, kPrimal };
struct LoopDerivative {
  LoopDirection direction;
  Loop loop;
  Mask marked;  // closed: what depends on a marked carry is marked
};
std::optional<LoopDerivative> loop_derivative(const Node& call);
Values record_loop_derivative(Builder& b, const LoopDerivative& d, std::span<const Value> operands);
// A loop's results by a program that gives the same: it is derived and batched as the loop.
Values record_loop_as(Builder& b, const Loop& loop, const ComputationPtr& program,
                      std::span<const Value> carries);
// Whether tangents of the call's operands go through the program that it is a call of, as those of other
// calls: rules of the user's in the steps need not be derivatives, and second ones not be symmetric, as
// loop_derivative_jvp has them.
bool derived_as_recorded(const LoopDerivative& d, std::span<const Value> t);
JvpResult loop_derivative_jvp(Builder& b, const LoopDerivative& d, const Node& node, std::span<const Value> x,
                              std::span<const Value> t, JvpMode mode);
Values loop_derivative_transpose(Builder& b, const LoopDerivative& d, std::span<const Value> x,
                                 std::span<const bool> linear, std::span<const Value> ct);
BatchResult loop_derivative_batch(Builder& b, const LoopDerivative& d, const Node& node,
                                  std::span<const Value> x, std::span<const bool> batched, int64_t size);
// Cotangents of the marked carries of a loop from its carries x and the cotangents of the marked results,
// with states kept; back: (carries, cotangents after a step) -> those before it.
Values reversed_by_states(Builder& b, const Loop& loop, const Mask& marked, const ComputationPtr& back,
                          std::span<const Value> x, std::span<const Value> ct);
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

#endif  // LAMINA_TRACE_RULES_WHILE_H_
