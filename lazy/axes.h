// The named axes of a thread: those of the vmaps that are open, outermost first.
//
// Contract: a collective is recorded on the lane of its axis, the vmap's own parameter (hlo/ops.def). What is
// traced once and called under other axes of the same names and sizes gets their lanes (Program,
// call_with_rule).
#ifndef LAMINA_LAZY_AXES_H_
#define LAMINA_LAZY_AXES_H_

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "hlo/graph.h"

namespace lamina::lazy {

struct BoundAxis {
  std::string name;
  int64_t size;
  hlo::Value lane;  // s32[], unknown until the vmap closes
};

std::vector<BoundAxis>& bound_axes();
// The innermost axis of this name; null if there is none.
const BoundAxis* find_axis(std::string_view name);
// A number for the names and sizes of all of them; 0 where there are none.
uint64_t axes_key();

// Has other axes bound for a while.
class AxesScope {
 public:
  explicit AxesScope(std::vector<BoundAxis> axes) : saved_(std::exchange(bound_axes(), std::move(axes))) {}
  ~AxesScope() { std::swap(bound_axes(), saved_); }
  AxesScope(const AxesScope&) = delete;
  AxesScope& operator=(const AxesScope&) = delete;

 private:
  std::vector<BoundAxis> saved_;
};

}  // namespace lamina::lazy

#endif  // LAMINA_LAZY_AXES_H_
