#include "jit/kernel/grid_chain.h"

#include <absl/strings/numbers.h>
#include <absl/strings/str_cat.h>
#include <absl/strings/str_split.h>
#include <absl/strings/strip.h>

#include <algorithm>

#include "jit/kernel/grid_held.h"

namespace lamina::jit {
namespace {

// Elements that keep the threads of a block busy, and blocks that keep a device busy.
constexpr int64_t kBlockElements = 4096, kFullBlocks = 256;

int64_t outputs_of(const LoopKernel& k, std::span<const int64_t> args) {
  return product_of(args.first(k.parallel_rank));
}
int64_t reduced_of(const LoopKernel& k, std::span<const int64_t> args) {
  return product_of(args.subspan(k.parallel_rank, k.reduce_rank));
}

// Elements that a row is made of.
int64_t row_elements(const ChainedKernel& c, int64_t rows) {
  return outputs_of(*c.kernel, c.args) / rows * std::max<int64_t>(reduced_of(*c.kernel, c.args), 1);
}

// The text up to the end of its first kernel.
std::string_view take_kernel(std::string_view& text) {
  constexpr std::string_view kEnd = "\nend\n";
  const size_t end = text.find(kEnd);
  const std::string_view taken = text.substr(0, end == text.npos ? end : end + kEnd.size());
  text.remove_prefix(taken.size());
  return taken;
}
std::string_view take_line(std::string_view& text) {
  const size_t end = text.find('\n');
  const std::string_view taken = text.substr(0, end == text.npos ? end : end + 1);
  text.remove_prefix(taken.size());
  return taken;
}

// A line as `schedule_texts` writes it, or another of the same meaning.
absl::StatusOr<std::vector<HeldAccess>> parse_held(absl::string_view line) {
  std::vector<HeldAccess> held;
  for (absl::string_view entry : absl::StrSplit(absl::StripSuffix(line, "\n"), ", ")) {
    HeldAccess& h = held.emplace_back();
    h.memory = absl::ConsumeSuffix(&entry, " memory");
    const std::pair<absl::string_view, absl::string_view> sides = absl::StrSplit(entry, '=');
    absl::string_view access = sides.first;
    if (!absl::ConsumePrefix(&access, "x") || !absl::SimpleAtoi(access, &h.access) ||
        !absl::SimpleAtoi(sides.second, &h.number))
      return absl::InvalidArgumentError(absl::StrCat("nothing that is held: ", entry));
  }
  return held;
}

}  // namespace

std::string kernel_texts(std::span<const GridPart> parts) {
  std::string out;
  for (const GridPart& p : parts) out += to_string(p.kernel);
  return out;
}

std::string schedule_texts(std::span<const GridPart> parts) {
  std::string out;
  for (const GridPart& p : parts) {
    out += to_string(p.schedule);
    for (size_t i = 0; i < p.held.size(); ++i)
      absl::StrAppend(&out, i == 0 ? "held x" : ", x", p.held[i].access, "=", p.held[i].number,
                      p.held[i].memory ? " memory" : "");
    if (!p.held.empty()) out += "\n";
  }
  return out;
}

absl::StatusOr<std::vector<GridPart>> parse_grid_parts(std::string_view kernels, std::string_view schedules) {
  std::vector<GridPart> parts;
  do {
    absl::StatusOr<LoopKernel> kernel = parse_kernel(take_kernel(kernels));
    if (!kernel.ok()) return kernel.status();
    const absl::StatusOr<GridSchedule> schedule = parse_grid_schedule(take_line(schedules));
    if (!schedule.ok()) return schedule.status();
    parts.push_back({*std::move(kernel), *schedule});
    constexpr std::string_view kHeld = "held ";
    if (!schedules.starts_with(kHeld)) continue;
    schedules.remove_prefix(kHeld.size());
    const std::string_view line = take_line(schedules);
    absl::StatusOr<std::vector<HeldAccess>> held = parse_held({line.data(), line.size()});
    if (!held.ok()) return held.status();
    parts.back().held = *std::move(held);
  } while (!kernels.empty() && !schedules.empty());
  if (!kernels.empty() || !schedules.empty())
    return absl::InvalidArgumentError("there are not as many schedules as kernels");
  return parts;
}

bool holds_rows(std::span<const GridPart> parts) {
  return std::any_of(parts.begin(), parts.end(),
                     [](const GridPart& p) { return p.schedule.form == GridForm::kHeld; });
}

bool joins_chains(const LoopKernel& kernel, std::span<const int64_t> args) {
  if (kernel.parallel_rank == 0 || outputs_of(kernel, args) == 0 || !kernel.repeats.empty() || kernel.before)
    return false;
  if (!kernel.has_reduction) return favoured_grid(kernel, args).form == GridForm::kElements;
  return !favours_columns(kernel) && reduced_of(kernel, args) <= kReduceChunk;
}

int64_t chain_units(const LoopKernel& kernel, std::span<const int64_t> args, int64_t rows) {
  const int rank =
      kernel.has_reduction || kernel.parallel_rank == 1 ? kernel.parallel_rank : kernel.parallel_rank - 1;
  return product_of(args.first(static_cast<size_t>(rank))) / rows;
}

ChainPlan chain_plan(std::span<const ChainedKernel> chain, int64_t rows, int64_t most_rows) {
  // As many rows as half warps of a block have results to make, and its threads elements.
  constexpr int64_t kResults = kGridThreads / kRowThreads;
  int64_t elements = 1, results = kResults;
  for (const ChainedKernel& c : chain) {
    elements = std::max(elements, row_elements(c, rows));
    if (c.kernel->has_reduction) results = std::min(results, chain_units(*c.kernel, c.args, rows));
  }
  ChainPlan plan;
  while ((plan.block_rows * results < kResults || plan.block_rows * 2 * elements <= kBlockElements) &&
         plan.block_rows * 2 <= most_rows && rows / (plan.block_rows * 2) >= kFullBlocks)
    plan.block_rows *= 2;
  plan.blocks = (rows + plan.block_rows - 1) / plan.block_rows;
  for (const ChainedKernel& c : chain)
    plan.schedules.push_back(c.kernel->has_reduction        ? half_warp_schedule(*c.kernel, c.args)
                             : c.kernel->parallel_rank == 1 ? GridSchedule()  // rows begin anywhere
                                                            : favoured_grid(*c.kernel, c.args));
  return plan;
}

absl::Status check_chain(std::span<const GridPart> parts) {
  if (holds_rows(parts)) return check_held(parts);
  for (const GridPart& p : parts) {
    if (absl::Status s = grid_takes(p.kernel); !s.ok()) return s;
    const GridForm form = p.schedule.form;
    const bool fits = p.kernel.has_reduction ? form == GridForm::kHalfWarp
                                             : form == GridForm::kElements && (p.kernel.parallel_rank > 1 ||
                                                                               p.schedule == GridSchedule());
    if (!fits || !p.held.empty() || p.kernel.parallel_rank == 0 || p.kernel.before ||
        holds_question(p.kernel))
      return absl::InvalidArgumentError(
          absl::StrCat("no kernel of a chain has this schedule: ", to_string(p.schedule)));
  }
  return absl::OkStatus();
}

}  // namespace lamina::jit
