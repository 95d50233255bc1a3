#include "jit/kernel/grid_tiles.h"

#include <absl/strings/string_view.h>

#include <algorithm>
#include <optional>

namespace lamina::jit {
namespace {

constexpr int64_t kMostUnitBytes = 16, kBankBytes = 4;

// The dimension that a load crosses the last one along, and how many elements alternate there.
struct Crossing {
  int dim;
  int64_t unit;
};
std::optional<Crossing> crossing(const LoopKernel& kernel, const Access& access) {
  const int last = kernel.parallel_rank - 1;
  std::optional<Crossing> found;
  int along = 0;
  bool far = true;
  for (const AccessTerm& t : access.terms) {
    if (t.dim == last) {
      ++along;
      far &= t.unit == 0;
    } else if (t.unit > 0) {
      if (found) return std::nullopt;
      found = {t.dim, t.unit};
    }
  }
  if (!found || along != 1 || !far) return std::nullopt;
  for (const AccessTerm& t : access.terms)
    if (t.dim == found->dim && t.unit == 0) return std::nullopt;
  return found;
}

}  // namespace

CrossedLoads crossed_loads(const LoopKernel& kernel) {
  if (kernel.has_reduction || !kernel.repeats.empty() || kernel.parallel_rank < 2) return {};
  std::vector<CrossedLoads> by_dim(kernel.parallel_rank);
  for (int d = 0; d + 1 < kernel.parallel_rank; ++d) {
    std::vector<uint32_t> crossed;
    for (const KernelInstr& i : kernel.body) {
      if (i.op != KernelOp::kLoad || i.predicated || kernel.buffers[kernel.accesses[i.imm].buffer].written)
        continue;
      const std::optional<Crossing> found = crossing(kernel, kernel.accesses[i.imm]);
      if (found && found->dim == d) crossed.push_back(static_cast<uint32_t>(i.imm));
    }
    for (auto& group : side_by_side(kernel, crossed, d)) {
      const Access& access = kernel.accesses[group[0]];
      const int64_t unit = crossing(kernel, access)->unit;
      const int64_t bytes = unit * hlo::byte_size(kernel.buffers[access.buffer].type);
      // Where one of those that alternate is not loaded, its place may be past the end of the array.
      if (std::ssize(group) == unit && bytes <= kMostUnitBytes)
        by_dim[static_cast<size_t>(d)].loads.push_back({std::move(group), bytes});
    }
  }
  const auto weight = [](const CrossedLoads& c) {
    int64_t bytes = 0;
    for (const CrossedLoad& load : c.loads) bytes += load.bytes;
    return bytes;
  };
  CrossedLoads most;
  for (size_t d = 0; d < by_dim.size(); ++d)
    if (weight(by_dim[d]) > weight(most)) {
      most = std::move(by_dim[d]);
      most.dim = static_cast<int>(d);
    }
  return most;
}

TileLayout tile_layout(const CrossedLoad& load, const GridTile& tile) {
  TileLayout layout;
  layout.word = std::max(load.bytes, kBankBytes);
  layout.group = layout.word / load.bytes;
  layout.pitch = tile.across + 1;
  layout.bytes = tile.along / layout.group * layout.pitch * layout.word;
  layout.bytes = (layout.bytes + 15) / 16 * 16;
  return layout;
}

absl::Status takes_tiles(const LoopKernel& kernel, const GridSchedule& schedule) {
  const CrossedLoads crossed = crossed_loads(kernel);
  if (crossed.loads.empty()) return absl::InvalidArgumentError("no load crosses the last dimension");
  if (schedule.rows < fewest_rows(schedule) || schedule.rows > most_rows(schedule))
    return absl::InvalidArgumentError("its rows are not those of a tile");
  int64_t bytes = 0;
  for (const CrossedLoad& load : crossed.loads) bytes += tile_layout(load, grid_tile(schedule)).bytes;
  if (bytes > kMostSharedBytes)
    return absl::InvalidArgumentError("its tiles exceed the memory that a block shares");
  return absl::OkStatus();
}

}  // namespace lamina::jit
