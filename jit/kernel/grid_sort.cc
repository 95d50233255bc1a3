#include "jit/kernel/grid_sort.h"

#include <absl/strings/str_cat.h>

#include <algorithm>
#include <bit>

namespace lamina::jit {
namespace {

constexpr uint32_t kMostLanes = 16;
// Of values that a thread holds at a time: with more of them too few threads find registers.
constexpr int64_t kThreadBytes = 64;
// Blocks that give a device enough to do.
constexpr int64_t kEnoughBlocks = 512;

int64_t tiles_of(int64_t count, int64_t places) { return (count + places - 1) / places; }

struct SortExtents {
  SortExtents(const LoopKernel& k, std::span<const int64_t> args)
      : rows(product_of(args.first(k.parallel_rank - 1U))), length(args[k.parallel_rank - 1U]) {}
  int64_t rows, length;
};

DType stored_type(const LoopKernel& kernel, const Store& store) {
  return kernel.buffers[kernel.accesses[store.access].buffer].type;
}

int64_t element_bytes(const LoopKernel& kernel) {
  int64_t bytes = 0;
  for (const Store& s : kernel.stores) bytes += hlo::byte_size(stored_type(kernel, s));
  return bytes;
}

}  // namespace

std::vector<int64_t> sort_places(const LoopKernel& kernel, const GridSchedule& schedule) {
  const int64_t places = sort_tile(schedule).places, apart = places + (places >> kSortBanks);
  std::vector<int64_t> begins{0};
  for (const Store& s : kernel.stores)
    begins.push_back(begins.back() + sort_part(apart * hlo::byte_size(stored_type(kernel, s))));
  return begins;
}

absl::Status takes_sort(const LoopKernel& kernel) {
  if (sort_places(kernel, {GridForm::kSort}).back() > kMostSharedBytes)
    return absl::UnimplementedError(
        absl::StrCat("a block's memory has no place to sort elements of ", element_bytes(kernel), " bytes"));
  return absl::OkStatus();
}

absl::Status takes_sort(const LoopKernel& kernel, const GridSchedule& schedule) {
  if (schedule.lanes > kMostLanes || schedule.vectors != 1 ||
      schedule.rows > (schedule.form == GridForm::kMerges ? 1 : kGridThreads))
    return absl::InvalidArgumentError("its tiles are none for a sort");
  if (sort_places(kernel, schedule).back() > kMostSharedBytes)
    return absl::InvalidArgumentError("its tiles exceed the memory that a block shares");
  return absl::OkStatus();
}

GridSchedule favoured_sort(const LoopKernel& kernel, std::span<const int64_t> args) {
  const SortExtents extents(kernel, args);
  GridSchedule s;
  s.form = GridForm::kSort;
  const auto wider = [&] {
    GridSchedule next = s;
    next.lanes *= 2;
    return next;
  };
  while (s.lanes < kMostLanes && 2 * s.lanes * element_bytes(kernel) <= kThreadBytes &&
         takes_sort(kernel, wider()).ok())
    s = wider();
  if (extents.length > sort_tile(s).places) {
    s.form = GridForm::kMerges;
    return s;
  }
  const auto pitch = std::bit_ceil(static_cast<uint64_t>(std::max<int64_t>(extents.length, 1)));
  const auto share = [&] {
    const auto places = static_cast<uint64_t>(sort_tile(GridSchedule{s.form, s.lanes}).places);
    s.rows = static_cast<uint32_t>(std::min<uint64_t>(places / pitch, kGridThreads));
  };
  share();
  // Fewer places to a thread, so that rows fill theirs, and blocks the device.
  while (s.lanes > 1 && pitch <= static_cast<uint64_t>(kGridThreads * s.lanes / 2) &&
         (s.lanes > pitch || tiles_of(extents.rows, s.rows) < kEnoughBlocks)) {
    s.lanes /= 2;
    share();
  }
  return s;
}

int64_t sort_half_bytes(const LoopKernel& kernel, const GridSchedule& schedule,
                        std::span<const int64_t> args) {
  const SortExtents extents(kernel, args);
  const int64_t tiles = extents.rows * tiles_of(extents.length, sort_tile(schedule).places);
  int64_t half = sort_part(tiles * static_cast<int64_t>(sizeof(int64_t)));
  for (const Store& s : kernel.stores)
    half += sort_part(extents.rows * extents.length * hlo::byte_size(stored_type(kernel, s)));
  return half;
}

GridPlan sort_plan(const LoopKernel& kernel, const GridSchedule& schedule, std::span<const int64_t> args) {
  const SortExtents extents(kernel, args);
  GridPlan plan;
  if (schedule.form == GridForm::kSort) {
    plan.launches.push_back({kGridEntry, tiles_of(extents.rows, schedule.rows)});
    return plan;
  }
  const int64_t places = sort_tile(schedule).places;
  const int64_t tiles = extents.rows * tiles_of(extents.length, places);
  const int64_t half = sort_half_bytes(kernel, schedule, args);
  plan.launches.push_back({kGridChunks, tiles});
  int64_t at = 0, passes = 0;
  for (int64_t run = places; run < extents.length; run *= 2, at = half - at, ++passes) {
    const bool last = 2 * run >= extents.length;
    plan.launches.push_back({kGridSplits, tiles_of(tiles, kGridThreads), at, 0, run});
    plan.launches.push_back({last ? kGridFinish : kGridPartials, tiles, at, last ? 0 : half - at, run});
  }
  plan.scratch_bytes = passes > 1 ? 2 * half : half;
  return plan;
}

}  // namespace lamina::jit
