// Loops over small arrays that are one kernel: `while` and `scan` whose steps read and write elements of
// arrays at computed positions.
//
// Contract: such a kernel has one element, which makes all steps one after the other; arrays that change lie
// in memory of their own, written in place. A step may hold what can be computed element by element for the
// few elements that it needs, products and reductions of a few terms, updates of small windows, loops of the
// same kind, and branches. What it writes as a whole has to be small beside the rest of the step: loops over
// large arrays gain more from vectors and threads. Says why not otherwise. Depends on the node and its
// regions only.
#ifndef LAMINA_CLUSTER_ARRAY_LOOP_H_
#define LAMINA_CLUSTER_ARRAY_LOOP_H_

#include <optional>
#include <string>
#include <vector>

#include "hlo/computation.h"

namespace lamina::cluster {

// Why the loop is no such kernel; empty if it is. `read`: which of its results anything reads.
std::string array_loop_refusal(const hlo::Node& loop, const std::vector<bool>& read);

// A node whose result is its first operand but for one window: dynamic_update_slice, and scatter with one
// index vector.
struct WindowUpdate {
  hlo::Operand update;
  std::vector<hlo::Operand> starts;  // per array dimension: of an integer array, at `start_element`; none: 0
  std::vector<hlo::Dims> start_element;
  hlo::Dims sizes;            // of the window, per array dimension
  std::vector<int64_t> from;  // per array dimension: that of the update, or -1
  bool clamped = false;       // starts are moved so that the window lies inside; else what lies outside drops
  hlo::ComputationPtr combine;  // of the old value and the update; null: the update
};
std::optional<WindowUpdate> window_update(const hlo::Node& node);

// A case in a step of which one branch is run, where others compute all branches and choose a number: it
// gives arrays, or a branch holds a loop.
bool runs_branch(const hlo::Node& node);

// Terms of an element of a dot_general or a reduce that is written out; 0: it is not.
int64_t written_out_terms(const hlo::Node& node);

// Arrays of so many elements, and windows that are written in place, are written element by element, each at
// a known place.
inline constexpr int64_t kMostWrittenOut = 36;

}  // namespace lamina::cluster

#endif  // LAMINA_CLUSTER_ARRAY_LOOP_H_
