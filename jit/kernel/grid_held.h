// Chains on a grid that read their rows once: the threads that own a row's elements hold them, and what the
// kernels of the chain make of them, from one kernel to the next.
//
// Contract: as jit/kernel/grid_chain.h. A *line* is what is reduced: one result of each kernel that reduces,
// or all elements of one index of the others' outer dimensions. So many threads share a line that a block has
// `rows` of them at a time under the schedules, which are of the form `held`: of M = threads * `lanes`
// elements that follow each other each thread owns `lanes`, and of the next M as many. M divides the lanes of
// every tree of the chain, so that all elements of a lane are one thread's. Elements are held in shared
// memory, at an offset of `number` * `room` * `rows` bytes, in which no thread reads what another has
// written; values of a line in registers of all its threads, by `number`. Bits are those of the kernels one
// after the other.
#ifndef LAMINA_JIT_KERNEL_GRID_HELD_H_
#define LAMINA_JIT_KERNEL_GRID_HELD_H_

#include <absl/status/statusor.h>

#include <cstdint>
#include <span>
#include <vector>

#include "jit/kernel/grid_chain.h"

namespace lamina::jit {

// A kernel of the chain, with the place of each buffer: one memory, one place.
struct PlacedKernel {
  const LoopKernel* kernel;
  std::span<const int64_t> args;
  std::span<const int> places;
};

struct HeldPlan {
  std::vector<GridPart> parts;
  int64_t block_rows = 1, blocks = 0;
  bool reads_once = true;      // or there is room only for what the chain makes
  std::vector<int> unwritten;  // places that the chain makes and does not touch memory for
};
// `inner`: by place, whether nothing but the chain reads it. In words why the rows are better not held.
absl::StatusOr<HeldPlan> held_plan(std::span<const PlacedKernel> chain, int64_t rows,
                                   const std::vector<bool>& inner);

// Of parts that are held: which kernel says how many lines a row has, and how many times M elements the
// threads make at least at a time.
size_t line_kernel(std::span<const GridPart> parts);
int64_t held_groups(std::span<const GridPart> parts);
// Threads of a line, M, and bytes of shared memory for what is held.
inline int64_t held_threads(const GridSchedule& s) { return kGridThreads / s.rows; }
inline int64_t held_stretch(const GridSchedule& s) { return held_threads(s) * s.lanes; }
int64_t held_bytes(std::span<const GridPart> parts);
// And of what threads of different warps tell each other: the lanes of each line's tree, and behind those of
// all kernels the results, which some threads read while others write the lanes of the next kernel.
struct WarpExchange {
  int64_t lanes = 0, results = 0;
  int64_t bytes() const { return lanes + results; }
};
WarpExchange exchange_of(const LoopKernel& kernel, const GridSchedule& schedule);
WarpExchange widest(const WarpExchange& a, const WarpExchange& b);
// The dimension of a line's elements, of a kernel that makes or reduces them.
int line_dim(const LoopKernel& kernel);
// Whether an access reaches different elements along a line of a kernel that is held, and from line to line.
bool varies_along_line(const LoopKernel& kernel, const Access& access);
bool varies_by_line(const LoopKernel& kernel, const Access& access);
// Whether it is a kernel of one value for each line.
bool is_line_kernel(const GridPart& part);
// Why it is no chain whose rows are held.
absl::Status check_held(std::span<const GridPart> parts);

}  // namespace lamina::jit

#endif  // LAMINA_JIT_KERNEL_GRID_HELD_H_
