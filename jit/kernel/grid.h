// How kernels run on a grid of threads (a GPU): schedules, what is launched for given arguments, and what is
// refused.
//
// Contract: pure functions of a kernel and its arguments, known without a code generator. The code of a
// kernel and a schedule (jit/codegen/ptx.h) holds one entry for each name that `grid_plan` may give.
//
// Every entry takes, by value and in this order, 64 bits each: the address of each buffer, each argument of
// the kernel, and, if the kernel `holds_question`, the address of a 32-bit word that the device can read:
// threads leave once it is not 0. Entries of forms that have partial results take three more: GridLaunch's
// `from`, `to` as addresses (the scratch of the run and these offsets), and `count`. Blocks are of one
// dimension and of `kGridThreads` threads, which the code states (reqntid). Shared memory is static. Launches
// of one plan run one after the other.
//
// Addresses of buffers are multiples of their elements' size, and of `kGridAlign` under schedules that are
// exact; 16 bytes at a time are moved where an address allows it. As everywhere a written buffer may be the
// memory of a read one if each element is read by the very output element that is stored there.
#ifndef LAMINA_JIT_KERNEL_GRID_H_
#define LAMINA_JIT_KERNEL_GRID_H_

#include <absl/status/status.h>
#include <absl/status/statusor.h>

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "jit/kernel/kernel.h"

namespace lamina::jit {

inline constexpr int64_t kGridThreads = 256;
// Threads that share a row of a reduction: half a warp, whose 16 times 16 bytes are the lanes of the tree.
inline constexpr int64_t kRowThreads = 16;
inline constexpr int64_t kWarp = 32;
// Static shared memory of a block.
inline constexpr int64_t kMostSharedBytes = 48 << 10;
inline constexpr uint64_t kGridAlign = 16;
// Of parameters of an entry, in bytes (CUDA below 12.1).
inline constexpr size_t kMostGridParameters = 4096;

enum class GridForm : uint8_t {
  kElements,  // no reduction: a thread makes `vectors` vectors of `lanes` elements of a row
  kTiles,     // the same of as many rows, by tiles of `rows` rows (jit/kernel/grid_tiles.h)
  kHalfWarp,  // 16 threads reduce a row of at most one chunk
  kChunks,    // 16 threads reduce a chunk of a row; further launches reduce the chunks' results
  kBlocks,    // the same with a block to a chunk, for rows that are few
  kColumns,   // threads side by side along the last parallel dimension, `rows` of them along the reduced one
  kColumnChunks,  // the same for columns of several chunks; further launches reduce the chunks' results
  kSort,          // of kernels that sort: a block sorts `rows` rows (jit/kernel/grid_sort.h)
  kMerges,        // blocks sort tiles of rows; further launches merge these
  kHeld,          // of a chain: threads hold the elements of their rows (jit/kernel/grid_held.h)
};

struct GridSchedule {
  GridForm form = GridForm::kElements;
  uint32_t lanes = 1;    // elements of one vector: powers of two up to 16. Of a row's 16 threads: the tree's;
                         // of a sort: those that a thread has
  uint32_t vectors = 1;  // that one thread loads before it uses one: powers of two up to 8
  uint32_t rows = 1;     // of a tile, or of threads in a block, by columns: a power of two
  // Rows are multiples of what threads make at a time, and all that is moved by vectors lies at multiples of
  // theirs if the buffers begin at multiples of 16 bytes: nothing is left to ask for when the code runs.
  bool exact = false;
  uint32_t room = 0;  // of rows that are held: for so many elements of each
  bool operator==(const GridSchedule&) const = default;
};

// One line, such as "schedule grid form=elements lanes=4 vectors=4 rows=1 exact\n", or that with " room=512"
// before its end; `parse_grid_schedule`
// reads that and nothing else.
std::string to_string(const GridSchedule& schedule);
absl::StatusOr<GridSchedule> parse_grid_schedule(std::string_view text);

// Unimplemented, with the reason in words, for a kernel that no schedule here can run.
absl::Status grid_takes(const LoopKernel& kernel);

// The schedule that is quick for these arguments; of a kernel that `grid_takes`.
GridSchedule favoured_grid(const LoopKernel& kernel, std::span<const int64_t> args);
// Whether threads of a kernel that reduces had better lie side by side across rows.
bool favours_columns(const LoopKernel& kernel);
// Of kernels that reduce along rows of at most a chunk: half a warp to a row; and a block to a chunk, where
// a block's memory holds what its threads load.
GridSchedule half_warp_schedule(const LoopKernel& kernel, std::span<const int64_t> args);
GridSchedule block_rows_schedule(const LoopKernel& kernel, std::span<const int64_t> args);

// Of a kernel in a chain that holds its rows: lanes, rows and room are those of `shape`, and a thread makes
// vectors by multiples of `groups`.
GridSchedule held_schedule(const LoopKernel& kernel, std::span<const int64_t> args, const GridSchedule& shape,
                           int64_t groups);

// Names of entries.
inline constexpr std::string_view kGridEntry = "lamina_kernel";
inline constexpr std::string_view kGridChunks = "lamina_chunks";      // elements to results of chunks
inline constexpr std::string_view kGridPartials = "lamina_partials";  // results of chunks to fewer of them
inline constexpr std::string_view kGridFinish = "lamina_finish";      // at most a chunk of them to results
// Of merges, these are tiles, sorted; longer runs of them; and results. And before either of the last two:
inline constexpr std::string_view kGridSplits = "lamina_splits";

struct GridLaunch {
  std::string_view entry;
  int64_t blocks = 0;
  int64_t from = 0, to = 0;  // offsets in the scratch
  int64_t count = 0;         // of results per row that are read
};
struct GridPlan {
  std::vector<GridLaunch> launches;  // none where there is nothing to do
  int64_t scratch_bytes = 0;
};
// What to launch; InvalidArgument if the schedule is not one for this kernel and these arguments.
absl::StatusOr<GridPlan> grid_plan(const LoopKernel& kernel, const GridSchedule& schedule,
                                   std::span<const int64_t> args);

inline int64_t product_of(std::span<const int64_t> extents) {
  int64_t n = 1;
  for (int64_t e : extents) n *= e;
  return n;
}

// The accesses by groups that lie side by side: for each index of `dim` those of a group are the elements
// from its place to that of the next index, in their order, a power of two of them. Others are groups of one.
std::vector<std::vector<uint32_t>> side_by_side(const LoopKernel& kernel, std::span<const uint32_t> accesses,
                                                int dim);

// L of the tree, and how many of its lanes each of a row's threads holds.
int64_t tree_lanes(const LoopKernel& kernel);
inline int64_t row_lanes(const LoopKernel& kernel) { return tree_lanes(kernel) / kRowThreads; }
// Whether there are chunks' results between launches.
inline bool has_partials(const GridSchedule& s) {
  return s.form == GridForm::kChunks || s.form == GridForm::kBlocks || s.form == GridForm::kColumnChunks ||
         s.form == GridForm::kMerges;
}
inline bool sorts(const GridSchedule& s) { return s.form == GridForm::kSort || s.form == GridForm::kMerges; }
// Whether it is a schedule of kernels that reduce.
inline bool reduces(const GridSchedule& s) {
  return s.form != GridForm::kElements && s.form != GridForm::kTiles && !sorts(s);
}
// A result of a chunk in scratch: a slot of this size for each reduced value.
inline constexpr int64_t kPartialBytes = 8;

}  // namespace lamina::jit

#endif  // LAMINA_JIT_KERNEL_GRID_H_
