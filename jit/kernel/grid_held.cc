#include "jit/kernel/grid_held.h"

#include <absl/strings/str_cat.h>

#include <algorithm>
#include <set>

namespace lamina::jit {
namespace {

bool has_dim(const Access& access, int first, int end) {
  return std::any_of(access.terms.begin(), access.terms.end(),
                     [&](const AccessTerm& t) { return t.dim >= first && t.dim < end; });
}

const GridSchedule* shape_of(std::span<const GridPart> parts) {
  for (const GridPart& p : parts)
    if (p.schedule.form == GridForm::kHeld) return &p.schedule;
  return nullptr;
}

}  // namespace

int line_dim(const LoopKernel& kernel) {
  return kernel.has_reduction ? kernel.parallel_rank : kernel.parallel_rank - 1;
}

bool is_line_kernel(const GridPart& part) { return part.schedule.form != GridForm::kHeld; }

bool varies_along_line(const LoopKernel& kernel, const Access& access) {
  return has_dim(access, line_dim(kernel), line_dim(kernel) + 1);
}

bool varies_by_line(const LoopKernel& kernel, const Access& access) {
  return has_dim(access, 0, line_dim(kernel));
}

size_t line_kernel(std::span<const GridPart> parts) {
  size_t p = 0;
  while (p < parts.size() && !parts[p].kernel.has_reduction) ++p;
  return p;
}

int64_t held_groups(std::span<const GridPart> parts) {
  const GridSchedule* shape = shape_of(parts);
  int64_t groups = shape->lanes == 1 ? 2 : 1;
  for (const GridPart& p : parts)
    if (p.kernel.has_reduction) groups = std::max(groups, tree_lanes(p.kernel) / held_stretch(*shape));
  return groups;
}

int64_t held_bytes(std::span<const GridPart> parts) {
  int64_t of_element = 0;
  for (const GridPart& p : parts)
    for (const HeldAccess& h : p.held) {
      const Access& a = p.kernel.accesses[h.access];
      if (!is_line_kernel(p) && varies_along_line(p.kernel, a))
        of_element = std::max(of_element, h.number + hlo::byte_size(p.kernel.buffers[a.buffer].type));
    }
  const GridSchedule* shape = shape_of(parts);
  return of_element * shape->room * shape->rows;
}

WarpExchange exchange_of(const LoopKernel& kernel, const GridSchedule& s) {
  if (!kernel.has_reduction || held_threads(s) <= kWarp) return {};
  int64_t lane = 0;
  for (size_t v = 0; v < kernel.reduction.inputs.size(); ++v)
    lane += hlo::byte_size(kernel.reduction.combine.inputs[v]);
  return {lane * tree_lanes(kernel) * s.rows,
          kPartialBytes * static_cast<int64_t>(kernel.reduction.inputs.size()) * s.rows};
}

WarpExchange widest(const WarpExchange& a, const WarpExchange& b) {
  return {std::max(a.lanes, b.lanes), std::max(a.results, b.results)};
}

absl::Status check_held(std::span<const GridPart> parts) {
  const GridSchedule* shape = shape_of(parts);
  const auto refuse = [](const GridPart& p, absl::string_view why) {
    return absl::InvalidArgumentError(absl::StrCat(
        "no kernel of a chain that holds its rows has this schedule: ", to_string(p.schedule), why));
  };
  if (line_kernel(parts) == parts.size()) return absl::InvalidArgumentError("no kernel of the chain reduces");
  const int64_t groups = held_groups(parts), stretch = held_stretch(*shape);
  std::set<uint32_t> lines, elements;
  for (const GridPart& p : parts) {
    const LoopKernel& k = p.kernel;
    if (absl::Status s = grid_takes(k); !s.ok()) return s;
    if (k.parallel_rank == 0 || k.before || !k.repeats.empty() || (k.has_reduction && k.reduce_rank != 1))
      return refuse(p, "the kernel has no lines");
    const GridSchedule& s = p.schedule;
    if (is_line_kernel(p)) {
      if (k.has_reduction || s != GridSchedule()) return refuse(p, "it makes no value of a line");
    } else if (s.lanes != shape->lanes || s.rows != shape->rows || s.room != shape->room ||
               s.room % (groups * stretch) != 0 || s.vectors % groups != 0 ||
               (k.has_reduction && tree_lanes(k) % stretch != 0) ||
               (!k.has_reduction && k.parallel_rank < 2)) {
      return refuse(p, "threads would not own the same elements");
    }
    for (const HeldAccess& h : p.held) {
      if (h.access >= k.accesses.size()) return refuse(p, "there is no such access");
      const Access& a = k.accesses[h.access];
      const bool of_elements = !is_line_kernel(p) && varies_along_line(k, a);
      const bool gives = h.memory || k.buffers[a.buffer].written;
      std::set<uint32_t>& known = of_elements ? elements : lines;
      if (gives) known.insert(h.number);
      if (!known.contains(h.number)) return refuse(p, "a kernel reads what none before it has held");
    }
    for (const Store& store : k.stores) {
      const Access& a = k.accesses[store.access];
      const bool of_elements = !k.has_reduction && !is_line_kernel(p);
      if (of_elements != (!is_line_kernel(p) && varies_along_line(k, a)) ||
          (!of_elements && std::none_of(p.held.begin(), p.held.end(),
                                        [&](const HeldAccess& h) { return h.access == store.access; })))
        return refuse(p, "a value of a line is not held, or stands for its elements");
    }
  }
  WarpExchange exchange;
  for (const GridPart& p : parts) exchange = widest(exchange, exchange_of(p.kernel, *shape));
  if (held_bytes(parts) + exchange.bytes() > kMostSharedBytes)
    return absl::InvalidArgumentError("the chain holds more than a block has memory for");
  return absl::OkStatus();
}

}  // namespace lamina::jit
