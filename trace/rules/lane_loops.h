// Loops over the lanes of a batch, which may end apart.
#ifndef LAMINA_TRACE_RULES_LANE_LOOPS_H_
#define LAMINA_TRACE_RULES_LANE_LOOPS_H_

#include <functional>
#include <optional>

#include "trace/rules/loops.h"

namespace lamina::trace {

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
// Whether a step is one that makes numbers and small enough to be a kernel, and writes each lane's array at a
// position of its own: where lanes go together that is a step of the program for each step of the loop.
// `of_lanes`: the same step for all lanes.
bool writes_apart(const hlo::Computation& step, const hlo::Computation& of_lanes);
// The carries to start it with.
Values lanes_carries(Builder& b, const LanesLoop& lanes, std::span<const Value> x,
                     std::span<const bool> batched, int64_t size);
// `value` in lanes where `pred` holds, else `other`; pred is one bool per lane.
Value select_lanes(Builder& b, const Value& pred, const Value& value, const Value& other);
// The same values, of which lanes that are not `here`, in this branch or loop, have no derivative in it: it
// may be infinite there (the root of 0), and infinity times the zero that comes from the select of the
// results is NaN.
Value derived_here(Builder& b, const Value& here, const Value& x);

// --- lanes by cost ---

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

}  // namespace lamina::trace

#endif  // LAMINA_TRACE_RULES_LANE_LOOPS_H_
