// Sorts on a grid: the tiles that blocks sort in the memory that they share, and the sorted runs between the
// launches that merge them.
//
// Contract: pure functions of a kernel that sorts and a schedule of the form `sort` or `merges`. A tile has
// `lanes` places for each thread of a block; `rows` rows share it, each with the same number of places, at
// least one thread's. Under `sort` rows fit their places. Under `merges` a row has tiles of its own: one
// launch sorts each, and leaves a run of sorted values in scratch; then, for each doubling of the runs'
// length, one launch finds where the tiles of the merged runs begin in the two that are merged ("splits"),
// and another one merges them, the last time to the results.
//
// What lies in scratch between launches, each part at a multiple of 16 bytes: the splits, of each tile of
// every row in 64 bits how many elements before it are of the first run; then, for each store of the kernel,
// its values, row after row.
#ifndef LAMINA_JIT_KERNEL_GRID_SORT_H_
#define LAMINA_JIT_KERNEL_GRID_SORT_H_

#include <absl/status/status.h>

#include <cstdint>
#include <span>
#include <vector>

#include "jit/kernel/grid.h"

namespace lamina::jit {

struct SortTile {
  int64_t places;  // of a tile
  int64_t pitch;   // of these, a row's
};
inline SortTile sort_tile(const GridSchedule& s) {
  return {kGridThreads * s.lanes, kGridThreads * s.lanes / s.rows};
}

// Where the values of each store begin in the memory of a block, in bytes, and behind them how many there
// are. Every 32 places there is one of nobody, so that threads whose places are a power of two apart meet
// different banks.
inline constexpr int kSortBanks = 5;  // log2(32)
std::vector<int64_t> sort_places(const LoopKernel& kernel, const GridSchedule& schedule);

// In scratch, aligned.
inline int64_t sort_part(int64_t bytes) { return (bytes + 15) / 16 * 16; }

// Where a block's memory holds no tile of the kernel's elements.
absl::Status takes_sort(const LoopKernel& kernel);
// InvalidArgument unless it is a schedule for this kernel.
absl::Status takes_sort(const LoopKernel& kernel, const GridSchedule& schedule);

GridSchedule favoured_sort(const LoopKernel& kernel, std::span<const int64_t> args);

// Of schedules that the kernel takes. There is one half of the scratch, or are two, one read and one written
// in turn.
int64_t sort_half_bytes(const LoopKernel& kernel, const GridSchedule& schedule,
                        std::span<const int64_t> args);
GridPlan sort_plan(const LoopKernel& kernel, const GridSchedule& schedule, std::span<const int64_t> args);

}  // namespace lamina::jit

#endif  // LAMINA_JIT_KERNEL_GRID_SORT_H_
