// Collectives: what the lanes of a named axis exchange. The axis is that of a
// vmap(f, VmapOptions{.axis_name = "i"}) around the call; an inner axis of the same name hides an outer one.
//
// Contract: each is recorded like any operation, under grad, jit and vmap in any nesting; its derivative is
// that of the whole batch. Trees (lamina/tree.h) are exchanged tensor by tensor. Throw lamina::Error (kValue)
// for a name that no open vmap has, and sizes that do not fit the number of lanes.
#ifndef LAMINA_AXES_H_
#define LAMINA_AXES_H_

#include <cstdint>
#include <source_location>
#include <string>
#include <utility>
#include <vector>

#include "lamina/tensor.h"
#include "lamina/tree.h"

#pragma GCC visibility push(default)
namespace lamina {

// The number of lanes, and this lane's own number: int32, of shape {}.
int64_t axis_size(const std::string& axis, std::source_location where = std::source_location::current());
Tensor axis_index(const std::string& axis, std::source_location where = std::source_location::current());

enum class Reduction { kSum, kMean, kMax, kMin };
namespace detail {
Tensor reduced_over_lanes(const Tensor& x, const std::string& axis, Reduction kind,
                          std::source_location where);
template <typename Tree>
Tree reduced_over_lanes_of(const Tree& tree, const std::string& axis, Reduction kind,
                           std::source_location where) {
  return tree_map([&](const Tensor& x) { return reduced_over_lanes(x, axis, kind, where); }, tree);
}
}  // namespace detail

// Of all lanes, the same in each. Booleans are counted, and their mean is a float. The derivative of an
// extremum is shared by the lanes that have it.
template <typename Tree>
Tree psum(const Tree& x, const std::string& axis,
          std::source_location where = std::source_location::current()) {
  return detail::reduced_over_lanes_of(x, axis, Reduction::kSum, where);
}
template <typename Tree>
Tree pmean(const Tree& x, const std::string& axis,
           std::source_location where = std::source_location::current()) {
  return detail::reduced_over_lanes_of(x, axis, Reduction::kMean, where);
}
template <typename Tree>
Tree pmax(const Tree& x, const std::string& axis,
          std::source_location where = std::source_location::current()) {
  return detail::reduced_over_lanes_of(x, axis, Reduction::kMax, where);
}
template <typename Tree>
Tree pmin(const Tree& x, const std::string& axis,
          std::source_location where = std::source_location::current()) {
  return detail::reduced_over_lanes_of(x, axis, Reduction::kMin, where);
}

struct LaneOptions {
  int64_t dimension = 0;  // negative ones count from the end
  bool tiled = false;     // parts one behind the other along the dimension, instead of one of its own
};
// The values of all lanes: along a new dimension, or `tiled`: {3} of 4 lanes gives {4, 3}, or {12}.
Tensor all_gather(const Tensor& x, const std::string& axis, LaneOptions options = {},
                  std::source_location where = std::source_location::current());
// This lane's part of the sum over all lanes: {4, 3} of 4 lanes gives {3}; `tiled`, {12} gives {3}.
Tensor psum_scatter(const Tensor& x, const std::string& axis, LaneOptions options = {},
                    std::source_location where = std::source_location::current());
// Each lane sends its parts along dimension `split`, which is as long as there are lanes and goes, one to
// each lane, which has them along a new dimension `concat`.
Tensor all_to_all(const Tensor& x, const std::string& axis, int64_t split, int64_t concat,
                  std::source_location where = std::source_location::current());
// Values sent from lane to lane by pairs (from, to), each lane at most once on either side; zeros where none
// arrives.
Tensor ppermute(const Tensor& x, const std::string& axis,
                const std::vector<std::pair<int64_t, int64_t>>& pairs,
                std::source_location where = std::source_location::current());

}  // namespace lamina
#pragma GCC visibility pop

#endif  // LAMINA_AXES_H_
