// Loops that can live inside a loop kernel: `while` and `scan` whose steps compute element by element.
//
// Contract: every carried value is a scalar or an array over the loop's space, with a few more dimensions
// perhaps: element e of the space has one value, or the few that lie there. They depend on values of the same
// element only, at known places, on scalars, and on arrays that no step changes; so each element can make all
// its steps before the next one starts, its carried values in registers. A space without dimensions has one
// element, to which everything belongs. Products and reductions of a few terms are written out. A condition
// reads scalars, or is that of a lane (see LaneLoop). The same holds for loops nested in the steps; a `case`
// in a step computes all its branches and chooses. Says why not otherwise. Depends on the node and its
// regions only.
#ifndef LAMINA_CLUSTER_REPEAT_H_
#define LAMINA_CLUSTER_REPEAT_H_

#include <optional>
#include <string>
#include <vector>

#include "hlo/computation.h"
#include "hlo/regions.h"

namespace lamina::cluster {

// What a kernel can compute places from: integers, all of which are s64, too.
inline bool is_index(const hlo::Type& type) {
  return type.is_array() && hlo::is_integer(type.dtype) && type.dtype != hlo::DType::kU64;
}

using hlo::is_loop_op;
using hlo::num_carried;
// Whether carried value i comes back from each step as it was.
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
  bool spreads =
      false;  // some lanes carry several elements of an array, its leading dimensions are the lanes
};
std::optional<LaneLoop> lane_loop(const hlo::Node& loop);

// What a kernel for the loop has to know.
struct RepeatForm {
  std::string refusal;  // why there is none; empty if there is
  hlo::Dims space;      // of the elements
  bool trailing =
      false;  // the space is the trailing dimensions of arrays that have more, else the leading ones
};
// `read`: which results of the loop anything reads.
RepeatForm repeat_form(const hlo::Node& loop, const std::vector<bool>& read);

// How many values of an array an element of the space has; 0: it is no array over the space.
int64_t values_each(const hlo::Type& type, const hlo::Dims& space, bool trailing);

// Dimensions that a reshape leaves as they are, before and after those that it splits and merges.
struct MergedDims {
  size_t before = 0, after = 0;
};
MergedDims merged_dims(const hlo::Node& reshape);

}  // namespace lamina::cluster

#endif  // LAMINA_CLUSTER_REPEAT_H_
