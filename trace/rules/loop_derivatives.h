// What stands for the derivatives of loops.
//
// A loop whose number of steps is not known has a forward derivative, a loop over carries and tangents. Its
// linear part, as reverse mode needs it, is a `call` that knows the loop it comes from (`LoopDerivative`):
// transposed, derived and batched it is again such a call, of the loop itself, its forward derivative or its
// batched form, so that no order of derivatives keeps states of a loop that keeps states.
#ifndef LAMINA_TRACE_RULES_LOOP_DERIVATIVES_H_
#define LAMINA_TRACE_RULES_LOOP_DERIVATIVES_H_

#include <optional>

#include "trace/rules/loops.h"

namespace lamina::trace {

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
  // Of kReverse: the marked results whose cotangents are not zeros that were put in for none. Empty: all.
  Mask given = {};
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
// A loop's results, and tangents of the carries that have any: both by what stands for them.
JvpResult loop_linearize(Builder& b, const Loop& loop, std::span<const Value> x, std::span<const Value> t);

}  // namespace lamina::trace

#endif  // LAMINA_TRACE_RULES_LOOP_DERIVATIVES_H_
