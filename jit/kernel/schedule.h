// How a target runs a kernel: what changes its code and its speed, and never its results.
//
// Contract: a kernel says what, a schedule how. A target chooses it from a kernel and its arguments (a pure
// function); its line is a part of the key of compiled code. Any schedule is legal for any kernel.
#ifndef LAMINA_JIT_KERNEL_SCHEDULE_H_
#define LAMINA_JIT_KERNEL_SCHEDULE_H_

#include <absl/status/statusor.h>

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "jit/kernel/kernel.h"

namespace lamina::jit {

// Where the vector lanes of a reduction go: along the reduced index, or along the last parallel dimension
// (with L accumulators each). A kernel without parallel dimensions has only the first.
enum class ReduceForm : uint8_t { kAlongReduced, kAcrossParallel };

// Bodies of so many instructions are chains of which the processor sees too little ahead.
inline constexpr size_t kLongBody = 24;

// Elements that lie side by side along another dimension than the lanes are turned in blocks of so many
// columns. Reductions turn rows of at most so many elements.
inline constexpr int64_t kTurnedColumns = 64, kMostTurnedRow = 32;

// Results of so many bytes are not in any cache when they are read, nor what they displace.
inline constexpr int64_t kStreamedBytes = int64_t{16} << 20;

struct Schedule {
  ReduceForm reduce = ReduceForm::kAlongReduced;
  // Elements that lie side by side along another dimension than the lanes are read by tiles of the two.
  bool tiles = false;
  // What it stores is too large for the caches and goes past them, so that memory is not read first; only in
  // calls that store much, row by row where the addresses allow it.
  bool streams = false;
  // The most lanes of a vector where rows are short, 0: no limit. Half empty vectors of a row touch what is
  // next to it, which the processor then waits for, and long bodies take several vectors side by side.
  int lanes = 0;
  bool operator==(const Schedule&) const = default;
};

// One line, such as "schedule cpu reduce=along tiles streams\n"; `parse_schedule` reads that and nothing
// else.
std::string to_string(const Schedule& schedule);
absl::StatusOr<Schedule> parse_schedule(std::string_view text);

// The form that walks memory in its order where the elements lie so, and leaves few lanes empty. `args` as
// the kernel takes them.
ReduceForm favoured_form(const LoopKernel& kernel, std::span<const int64_t> args);

// What tiles serve: the dimension along which elements lie side by side, another parallel one than the last
// or the reduced one, and the accesses where they do, all of whose loads may read at any index. None: there
// are no accesses.
struct Turned {
  int dim = -1;
  std::vector<uint32_t> accesses;
};
Turned turned_accesses(const LoopKernel& kernel);

// How the CPU runs it, of those.
Schedule favoured_schedule(const LoopKernel& kernel, std::span<const int64_t> args);

}  // namespace lamina::jit

#endif  // LAMINA_JIT_KERNEL_SCHEDULE_H_
