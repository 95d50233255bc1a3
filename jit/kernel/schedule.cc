#include "jit/kernel/schedule.h"

#include <absl/strings/str_cat.h>

namespace lamina::jit {
namespace {

// Reductions of so few elements leave most lanes along them empty; where the elements lie side by side in
// memory it takes fewer.
constexpr int64_t kFewReduced = 32, kFewAdjacent = 4;
// Fewer elements than this beside each other make no vector.
constexpr int64_t kFewParallel = 4;

constexpr std::string_view kAlong = "schedule cpu reduce=along\n", kAcross = "schedule cpu reduce=across\n";

}  // namespace

std::string to_string(const Schedule& schedule) {
  return std::string(schedule.reduce == ReduceForm::kAlongReduced ? kAlong : kAcross);
}

absl::StatusOr<Schedule> parse_schedule(std::string_view text) {
  for (ReduceForm form : {ReduceForm::kAlongReduced, ReduceForm::kAcrossParallel})
    if (const Schedule schedule{form}; to_string(schedule) == text) return schedule;
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

}  // namespace lamina::jit
