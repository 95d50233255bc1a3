// Chains on a grid: kernels over the same rows, one after the other, that one launch runs. A block makes all
// of them for some rows, so that what one leaves for the next is in the caches of its multiprocessor.
//
// Contract: as jit/kernel/grid.h. The rows of a chain divide the extent of the first parallel dimension of
// every kernel, and for its rows each kernel touches those of what the chain writes alone
// (jit/program/row_chain.h). The code of a chain holds one entry, which takes, 64 bits each: for each kernel
// the addresses of its buffers, its arguments and what `chain_units` says; then how many rows there are, and
// how many of them a block makes. Threads meet between kernels.
#ifndef LAMINA_JIT_KERNEL_GRID_CHAIN_H_
#define LAMINA_JIT_KERNEL_GRID_CHAIN_H_

#include <absl/status/status.h>
#include <absl/status/statusor.h>

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "jit/kernel/grid.h"

namespace lamina::jit {

// What the threads of a chain hold of an access (jit/kernel/grid_held.h). Memory is touched where it is a
// load that is the first to read them, or a store of what others need as well.
struct HeldAccess {
  uint32_t access;
  uint32_t number;
  bool memory;
};
// One kernel by itself, or two and more that are a chain.
struct GridPart {
  LoopKernel kernel;
  GridSchedule schedule;
  std::vector<HeldAccess> held = {};
};
inline constexpr std::string_view kGridChain = "lamina_chain";

// Their texts, one after the other: behind a schedule a line such as "held x0=0 memory, x2=4\n" where there
// is something to hold. `parse_grid_parts` reads these and nothing else.
std::string kernel_texts(std::span<const GridPart> parts);
std::string schedule_texts(std::span<const GridPart> parts);
absl::StatusOr<std::vector<GridPart>> parse_grid_parts(std::string_view kernels, std::string_view schedules);

// Whether threads hold the chain's rows.
bool holds_rows(std::span<const GridPart> parts);

// Whether a kernel with these arguments gains where it is part of a chain: not if threads had better walk
// along another dimension than its rows.
bool joins_chains(const LoopKernel& kernel, std::span<const int64_t> args);

// What one row of a chain of `rows` means for a kernel: results, if it reduces; else rows of its own, which
// of a kernel of one dimension are elements.
int64_t chain_units(const LoopKernel& kernel, std::span<const int64_t> args, int64_t rows);

struct ChainPlan {
  std::vector<GridSchedule> schedules;
  int64_t block_rows = 1, blocks = 0;
};
// Of kernels that join chains: what is quick for these arguments, with at most `most_rows` to a block.
struct ChainedKernel {
  const LoopKernel* kernel;
  std::span<const int64_t> args;
};
ChainPlan chain_plan(std::span<const ChainedKernel> chain, int64_t rows, int64_t most_rows);
// Why the schedules are none for these kernels in a chain.
absl::Status check_chain(std::span<const GridPart> parts);

}  // namespace lamina::jit

#endif  // LAMINA_JIT_KERNEL_GRID_CHAIN_H_
