#include "jit/kernel/schedule.h"

#include <absl/strings/str_cat.h>

namespace lamina::jit {
namespace {

// Reductions of so few elements leave most lanes along them empty; where the elements lie side by side in
// memory it takes fewer.
constexpr int64_t kFewReduced = 32, kFewAdjacent = 4;
// Fewer elements than this beside each other make no vector.
constexpr int64_t kFewParallel = 4;

// Shorter sides make no tiles.
constexpr int64_t kShortSide = 8;

}  // namespace

std::string to_string(const Schedule& schedule) {
  return absl::StrCat(
      "schedule cpu reduce=", schedule.reduce == ReduceForm::kAlongReduced ? "along" : "across",
      schedule.tiles ? " tiles" : "", "\n");
}

absl::StatusOr<Schedule> parse_schedule(std::string_view text) {
  for (ReduceForm form : {ReduceForm::kAlongReduced, ReduceForm::kAcrossParallel})
    for (bool tiles : {false, true})
      if (const Schedule schedule{form, tiles}; to_string(schedule) == text) return schedule;
  return absl::InvalidArgumentError(
      absl::StrCat("no schedule: ", absl::string_view(text.data(), text.size())));
}

ReduceForm favoured_form(const LoopKernel& kernel, std::span<const int64_t> args) {
  const int parallel = kernel.parallel_rank;
  if (!kernel.has_reduction || parallel == 0 || args[parallel - 1] < kFewParallel)
    return ReduceForm::kAlongReduced;
  int64_t reduced = 1;
  for (int d = 0; d < kernel.reduce_rank; ++d) reduced *= args[parallel + d];
  int along = 0, across = 0;
  for (const KernelInstr& i : kernel.body) {
    if (i.op != KernelOp::kLoad) continue;
    for (const AccessTerm& t : kernel.accesses[i.imm].terms) {
      if (t.unit != 1) continue;
      along += t.dim == parallel + kernel.reduce_rank - 1;
      across += t.dim == parallel - 1;
    }
  }
  if (reduced <= (along > across ? kFewAdjacent : kFewReduced)) return ReduceForm::kAcrossParallel;
  return across > along ? ReduceForm::kAcrossParallel : ReduceForm::kAlongReduced;
}

std::vector<uint32_t> turned_accesses(const LoopKernel& kernel) {
  std::vector<uint32_t> turned;
  const int rank = kernel.parallel_rank;
  if (rank < 2 || kernel.has_reduction || !kernel.repeats.empty()) return turned;
  for (uint32_t a = 0; a < kernel.accesses.size(); ++a) {
    bool loaded = false, everywhere = true;
    for (const KernelInstr& i : kernel.body) {
      if (i.op != KernelOp::kLoad || i.imm != a) continue;
      loaded = true;
      everywhere &= !i.predicated;
    }
    int beside = 0, others = 0, far = 0;
    for (const AccessTerm& t : kernel.accesses[a].terms) {
      if (t.dim == rank - 2) ++(t.unit == 1 ? beside : others);
      if (t.dim == rank - 1) ++(t.unit == 0 ? far : others);
    }
    if (loaded && everywhere && beside == 1 && far > 0 && others == 0) turned.push_back(a);
  }
  return turned;
}

Schedule favoured_schedule(const LoopKernel& kernel, std::span<const int64_t> args) {
  const int rank = kernel.parallel_rank;
  const bool tiles =
      !turned_accesses(kernel).empty() && args[rank - 2] >= kShortSide && args[rank - 1] >= kShortSide;
  return {favoured_form(kernel, args), tiles};
}

}  // namespace lamina::jit
