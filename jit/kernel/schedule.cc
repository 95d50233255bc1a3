#include "jit/kernel/schedule.h"

#include <absl/strings/str_cat.h>

#include <algorithm>
#include <bit>

#include "jit/kernel/choice.h"

namespace lamina::jit {
namespace {

// Reductions of so few elements leave most lanes along them empty; where the elements lie side by side in
// memory it takes fewer.
constexpr int64_t kFewReduced = 32, kFewAdjacent = 4, kFewAdjacentPairs = 16;
// Fewer elements than this beside each other make no vector.
constexpr int64_t kFewParallel = 4;

// Shorter sides make no tiles.
constexpr int64_t kShortSide = 8;

// Longer bodies wait for their arithmetic and not for memory.
constexpr size_t kMostStreamed = 64;

// Longer rows fill several vectors; of fewer rows than this it makes no difference.
constexpr int64_t kShortRow = 16, kManyRows = 16;

bool divides(const LoopKernel& kernel) {
  return std::ranges::any_of(kernel.body, [](const KernelInstr& i) {
    return i.op == KernelOp::kPrim && i.prim == hlo::Prim::div && hlo::is_float(i.type);
  });
}

int lanes_of_short_rows(const LoopKernel& kernel, std::span<const int64_t> args) {
  const int last = kernel.parallel_rank - 1;
  if (kernel.has_reduction || !kernel.repeats.empty() || last < 1 || args[last] > kShortRow ||
      std::none_of(args.begin(), args.begin() + last, [](int64_t n) { return n >= kManyRows; }))
    return 0;
  const auto row = static_cast<uint64_t>(args[last]);
  if (row >= 4 && std::has_single_bit(row)) return static_cast<int>(row);
  // Short bodies are the same for long rows, but what long ones do once before they divide.
  return kernel.body.size() < kLongBody && !divides(kernel) ? 0 : kShortRow;
}

bool streams(const LoopKernel& kernel, std::span<const int64_t> args) {
  const int last = kernel.parallel_rank - 1;
  if (kernel.has_reduction || !kernel.repeats.empty() || last < 0 || kernel.stores.empty() ||
      kernel.body.size() > kMostStreamed)
    return false;
  int64_t elements = 1;
  for (int d = 0; d <= last; ++d) elements *= args[d];
  return std::ranges::all_of(kernel.stores, [&](const Store& s) {
    const Access& access = kernel.accesses[s.access];
    const bool beside =
        std::ranges::any_of(access.terms, [&](const AccessTerm& t) { return t.dim == last && t.unit == 1; });
    const bool once =
        std::ranges::count_if(access.terms, [&](const AccessTerm& t) { return t.dim == last; }) == 1;
    return beside && once && elements * hlo::byte_size(kernel.buffers[access.buffer].type) >= kStreamedBytes;
  });
}

bool turns_rows(const LoopKernel& kernel, std::span<const int64_t> args) {
  const int last = kernel.parallel_rank - 1;
  return kernel.has_reduction && last >= 0 && args[last] >= kTurnedColumns &&
         args[last + 1] <= kMostTurnedRow && !turned_accesses(kernel).accesses.empty();
}

}  // namespace

std::string to_string(const Schedule& schedule) {
  return absl::StrCat(
      "schedule cpu reduce=", schedule.reduce == ReduceForm::kAlongReduced ? "along" : "across",
      schedule.tiles ? " tiles" : "", schedule.streams ? " streams" : "",
      schedule.lanes > 0 ? absl::StrCat(" lanes=", schedule.lanes) : "", "\n");
}

absl::StatusOr<Schedule> parse_schedule(std::string_view text) {
  for (ReduceForm form : {ReduceForm::kAlongReduced, ReduceForm::kAcrossParallel})
    for (bool tiles : {false, true})
      for (bool streams : {false, true})
        for (int lanes : {0, 4, 8, 16})
          if (const Schedule schedule{form, tiles, streams, lanes}; to_string(schedule) == text)
            return schedule;
  return absl::InvalidArgumentError(
      absl::StrCat("no schedule: ", absl::string_view(text.data(), text.size())));
}

ReduceForm favoured_form(const LoopKernel& kernel, std::span<const int64_t> args) {
  const int parallel = kernel.parallel_rank;
  if (!kernel.has_reduction || parallel == 0 || args[parallel - 1] < kFewParallel)
    return ReduceForm::kAlongReduced;
  if (turns_rows(kernel, args)) return ReduceForm::kAcrossParallel;
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
  const int64_t few = along <= across                       ? kFewReduced
                      : kernel.reduction.inputs.size() == 1 ? kFewAdjacent
                                                            : kFewAdjacentPairs;
  if (reduced <= few) return ReduceForm::kAcrossParallel;
  return across > along ? ReduceForm::kAcrossParallel : ReduceForm::kAlongReduced;
}

Turned turned_accesses(const LoopKernel& kernel) {
  Turned most;
  const int last = kernel.parallel_rank - 1;
  if (last < 0 || !kernel.repeats.empty()) return most;
  if (kernel.has_reduction &&
      (kernel.reduce_rank != 1 || (kernel.reduction.inputs.size() != 1 && !choice_of(kernel))))
    return most;
  const int first = kernel.has_reduction ? last + 1 : last - 1, end = kernel.has_reduction ? last : -1;
  for (int dim = first; dim > end; --dim) {
    Turned turned{dim, {}};
    for (uint32_t a = 0; a < kernel.accesses.size(); ++a) {
      bool loaded = false, everywhere = true;
      for (const KernelInstr& i : kernel.body) {
        if (i.op != KernelOp::kLoad || i.imm != a) continue;
        loaded = true;
        everywhere &= !i.predicated;
      }
      int beside = 0, others = 0, far = 0;
      for (const AccessTerm& t : kernel.accesses[a].terms) {
        if (t.dim == dim) ++(t.unit == 1 ? beside : others);
        if (t.dim == last) ++(t.unit == 0 ? far : others);
      }
      if (loaded && everywhere && beside == 1 && far > 0 && others == 0) turned.accesses.push_back(a);
    }
    if (turned.accesses.size() > most.accesses.size()) most = std::move(turned);
  }
  return most;
}

Schedule favoured_schedule(const LoopKernel& kernel, std::span<const int64_t> args) {
  if (kernel.has_reduction) return {favoured_form(kernel, args), turns_rows(kernel, args)};
  const Turned turned = turned_accesses(kernel);
  const bool tiles = !turned.accesses.empty() && args[turned.dim] >= kShortSide &&
                     args[kernel.parallel_rank - 1] >= kShortSide;
  return {ReduceForm::kAlongReduced, tiles, !tiles && streams(kernel, args),
          tiles ? 0 : lanes_of_short_rows(kernel, args)};
}

}  // namespace lamina::jit
