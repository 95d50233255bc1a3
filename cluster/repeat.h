// Loops that can live inside a loop kernel: `while` and `scan` whose steps compute element by element.
//
// Contract: every carried value is a scalar or has the one shape of the loop's space, and element e of it
// depends on element e of the others only, on scalars, and on arrays that no step changes; so each element
// can make all its steps before the next one starts, its carried values in registers. A condition reads
// scalars, or is that of a lane (see LaneLoop). The same holds for loops nested in the steps;
// a `case` in a step computes all its branches and chooses. Says why not
// otherwise. Depends on the node and its regions only.
#ifndef LAMINA_CLUSTER_REPEAT_H_
#define LAMINA_CLUSTER_REPEAT_H_

#include <optional>
#include <string>
#include <vector>

#include "hlo/computation.h"

namespace lamina::cluster {

bool is_loop_op(hlo::Op op);

// Number of carried values, and whether carried value i comes back from each step as it was.
size_t num_carried(const hlo::Node& loop);
bool is_unchanged(const hlo::Node& loop, size_t carried);

// A scan whose only carry is also what it stacks: running sums and the like, which may have routines of their
// own that read their operands from memory.
bool is_running_scan(const hlo::Node& loop);

// A `while` over lanes, as vmap makes them: it goes on while any lane of carried value `flag` does, and lanes
// that have stopped keep what they carry. Each lane can then stop by itself.
struct LaneLoop {
  size_t flag;
  // What a lane that goes on carries on, per carried value.
  std::vector<hlo::Operand> next;
};
std::optional<LaneLoop> lane_loop(const hlo::Node& loop);

// What a kernel for the loop has to know.
struct RepeatForm {
  std::string refusal;  // why there is none; empty if there is
  hlo::Dims space;      // of the elements
};
// `read`: which results of the loop anything reads.
RepeatForm repeat_form(const hlo::Node& loop, const std::vector<bool>& read);

}  // namespace lamina::cluster

#endif  // LAMINA_CLUSTER_REPEAT_H_
