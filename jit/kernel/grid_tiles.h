// Loads that walk memory along another parallel dimension than the last one, as a transpose has them, and the
// tiles by which a block of a grid makes them.
//
// Contract: pure functions of a kernel and a schedule of the form `tiles`. A tile is a part of the plane of
// the crossed dimension and the last one. Its elements are loaded by threads side by side along the crossed
// dimension, and taken from shared memory by threads side by side along the last one.
#ifndef LAMINA_JIT_KERNEL_GRID_TILES_H_
#define LAMINA_JIT_KERNEL_GRID_TILES_H_

#include <absl/status/status.h>

#include <algorithm>
#include <cstdint>
#include <vector>

#include "jit/kernel/grid.h"

namespace lamina::jit {

// The accesses that lie side by side for each index of the crossed dimension: one, or all of those that
// alternate there.
struct CrossedLoad {
  std::vector<uint32_t> accesses;  // in the order of memory
  int64_t bytes = 0;               // of all of them for one index: a power of two up to 16
};
struct CrossedLoads {
  int dim = -1;                    // crossed; -1: no load is
  std::vector<CrossedLoad> loads;  // each is made for every element, and in bounds for every index
};
CrossedLoads crossed_loads(const LoopKernel& kernel);

struct GridTile {
  int64_t across, along;  // extents in the crossed and in the last dimension: powers of two
};
inline GridTile grid_tile(const GridSchedule& schedule) {
  return {schedule.rows, kGridThreads * schedule.lanes * schedule.vectors / schedule.rows};
}

// A load's tile in shared memory: words of `group` indices of the last dimension, at [along / group][across].
struct TileLayout {
  int64_t word, group;
  int64_t pitch;  // words from one index along to the next: odd, so that either order meets all banks
  int64_t bytes;  // of all, a multiple of 16
};
TileLayout tile_layout(const CrossedLoad& load, const GridTile& tile);

// InvalidArgument with the reason in words unless the schedule's tiles are some for this kernel.
absl::Status takes_tiles(const LoopKernel& kernel, const GridSchedule& schedule);

// Threads of a warp that lie along the last dimension when elements are made; the others lie across. Either
// way of 32 words they meet all banks.
inline int64_t threads_along(const GridSchedule& schedule) { return schedule.lanes == 1 ? kWarp : 8; }
// Rows of a tile: so many at least and at most, by the warps that lie beside each other.
inline int64_t fewest_rows(const GridSchedule& s) {
  constexpr int64_t kOfWord = 4;
  return std::max(kWarp / threads_along(s) * s.vectors, kOfWord);
}
inline int64_t most_rows(const GridSchedule& s) { return kGridThreads / threads_along(s) * s.vectors; }

}  // namespace lamina::jit

#endif  // LAMINA_JIT_KERNEL_GRID_TILES_H_
