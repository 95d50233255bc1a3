#include "jit/kernel/grid.h"

#include <absl/strings/ascii.h>
#include <absl/strings/numbers.h>
#include <absl/strings/str_cat.h>
#include <absl/strings/string_view.h>

#include <algorithm>
#include <bit>
#include <optional>

#include "jit/kernel/grid_sort.h"
#include "jit/kernel/grid_tiles.h"

namespace lamina::jit {
namespace {

constexpr int64_t kVectorBytes = 16;
// Code is made anew for each element of a thread: no more instructions than this.
constexpr size_t kMostInstrs = 768;
// And no more registers for what is loaded and stored at a time: with more of them values go to memory.
constexpr int64_t kMostRegisters = 64;
// Loads that a thread keeps under way: of elements, of a row and of columns.
constexpr uint32_t kMostVectors = 4, kMostRowVectors = 8, kMostColumnVectors = 2;
// So few rows or chunks of at least so many elements leave most of a device idle with half a warp for each.
constexpr int64_t kFewTasks = 8192, kLongTask = 2048;
// Of a block, for elements on their way to the tree.
constexpr int64_t kStageBytes = 32 << 10;
// With fewer elements, or fewer side by side, the cache does what tiles do.
constexpr int64_t kFewTiled = 1 << 16, kLeastAcross = 8;
// Blocks that give a device enough to do.
constexpr int64_t kManyBlocks = 512;
constexpr int64_t kMostBlocks = int64_t{1} << 31;

struct FormName {
  GridForm form;
  std::string_view name;
};
constexpr FormName kGridForms[] = {{GridForm::kElements, "elements"},
                                   {GridForm::kTiles, "tiles"},
                                   {GridForm::kHalfWarp, "half_warp"},
                                   {GridForm::kChunks, "chunks"},
                                   {GridForm::kBlocks, "blocks"},
                                   {GridForm::kColumns, "columns"},
                                   {GridForm::kColumnChunks, "column_chunks"},
                                   {GridForm::kSort, "sort"},
                                   {GridForm::kMerges, "merges"},
                                   {GridForm::kHeld, "held"}};

constexpr std::string_view kRoom = " room=";

absl::string_view view(std::string_view s) { return {s.data(), s.size()}; }

int64_t ceil_div(int64_t a, int64_t b) { return (a + b - 1) / b; }

struct Extents {
  Extents(const LoopKernel& k, std::span<const int64_t> args)
      : rows(product_of(args.first(std::max(k.parallel_rank - 1, 0)))),
        inner(k.parallel_rank > 0 ? args[k.parallel_rank - 1] : 1),
        reduced(product_of(args.subspan(k.parallel_rank, k.reduce_rank))) {}
  int64_t rows, inner;  // output elements: rows x inner
  int64_t reduced;
};

// The number of elements from one index of `dim` to the next, where that is known; 0 else.
int64_t known_step(const Access& access, int dim) {
  int64_t step = 0;
  int along = 0;
  for (const AccessTerm& t : access.terms)
    if (t.dim == dim) {
      step = t.unit;
      ++along;
    }
  return along == 1 ? step : 0;
}

// The widest element that lies side by side along `dim`, with those that alternate there; 0 if none does.
int64_t widest_along(const LoopKernel& kernel, int dim) {
  int64_t widest = 0;
  const auto see = [&](const std::vector<uint32_t>& accesses) {
    for (const auto& group : side_by_side(kernel, accesses, dim)) {
      const Access& a = kernel.accesses[group[0]];
      if (known_step(a, dim) == std::ssize(group))
        widest = std::max(widest, std::ssize(group) * hlo::byte_size(kernel.buffers[a.buffer].type));
    }
  };
  std::vector<uint32_t> loads, stores;
  for (const KernelInstr& i : kernel.body)
    if (i.op == KernelOp::kLoad) loads.push_back(static_cast<uint32_t>(i.imm));
  if (!kernel.has_reduction)
    for (const Store& s : kernel.stores) stores.push_back(s.access);
  see(loads);
  see(stores);
  return widest;
}

// That an element takes while it is on its way from and to memory.
int64_t element_registers(const LoopKernel& kernel) {
  constexpr int64_t kRegisterBytes = 4;
  int64_t registers = 0;
  const auto see = [&](DType t) { registers += ceil_div(hlo::byte_size(t), kRegisterBytes); };
  for (const KernelInstr& i : kernel.body)
    if (i.op == KernelOp::kLoad) see(i.type);
  for (DType t : kernel.reduction.combine.inputs) see(t);
  if (!kernel.has_reduction)
    for (const Store& s : kernel.stores) see(kernel.buffers[kernel.accesses[s.access].buffer].type);
  return std::max<int64_t>(registers, 1);
}

// Whether a thread can make so many elements, and combine them where the kernel reduces.
bool fits_thread(const LoopKernel& kernel, int64_t count) {
  const size_t size = std::max<size_t>(kernel.body.size() + kernel.reduction.combine.code.size(), 1);
  return static_cast<size_t>(count) * size <= kMostInstrs &&
         count * element_registers(kernel) <= kMostRegisters;
}

// Whether what moves along a dimension begins each row at a multiple of `lanes` elements of it.
bool starts_aligned(const LoopKernel& kernel, std::span<const int64_t> args, int dim, int64_t lanes) {
  const auto aligned = [&](const Access& a) {
    const int64_t step = known_step(a, dim);
    if (step <= 0) return true;
    return std::all_of(a.terms.begin(), a.terms.end(), [&](const AccessTerm& t) {
      const int64_t stride = t.unit ? t.unit : args[t.stride_slot];
      return t.dim == dim || args[t.dim] == 1 || stride % (step * lanes) == 0;
    });
  };
  for (const KernelInstr& i : kernel.body)
    if (i.op == KernelOp::kLoad && !aligned(kernel.accesses[i.imm])) return false;
  return kernel.has_reduction || std::all_of(kernel.stores.begin(), kernel.stores.end(), [&](const Store& s) {
           return aligned(kernel.accesses[s.access]);
         });
}

// As GridSchedule::exact says.
bool is_exact(const LoopKernel& kernel, const GridSchedule& s, std::span<const int64_t> args) {
  const Extents extents(kernel, args);
  const bool holds = s.form == GridForm::kHeld;
  const bool along = s.form == GridForm::kHalfWarp || s.form == GridForm::kBlocks ||
                     s.form == GridForm::kChunks || (holds && kernel.has_reduction);
  if (kernel.parallel_rank == 0 && !along) return false;
  if (!kernel.repeats.empty() || kernel.reduce_rank > 1 ||
      (!along && !holds && s.form != GridForm::kElements))
    return false;
  const int dim = along ? kernel.parallel_rank : kernel.parallel_rank - 1;
  const int64_t row = along ? extents.reduced : extents.inner;
  const int64_t multiple = holds   ? kGridThreads / s.rows * s.lanes * s.vectors
                           : along ? tree_lanes(kernel)
                                   : s.lanes * s.vectors * (s.vectors > 1 ? kWarp : 1);
  const auto begins = [&](const Access& a) {
    return known_step(a, dim) <= 0 || a.offset_slot < 0 ||
           args[static_cast<size_t>(a.offset_slot)] % (known_step(a, dim) * s.lanes) == 0;
  };
  return row > 0 && row % multiple == 0 && starts_aligned(kernel, args, dim, s.lanes) &&
         std::all_of(kernel.accesses.begin(), kernel.accesses.end(), begins);
}

GridSchedule elements(const LoopKernel& kernel, const Extents& extents, std::span<const int64_t> args) {
  GridSchedule s;
  const int64_t widest = kernel.parallel_rank > 0 ? widest_along(kernel, kernel.parallel_rank - 1) : 0;
  // Elements that step differently wait for each other in one thread.
  if (!kernel.repeats.empty() || widest == 0) return s;
  const auto fits = [&](uint32_t count) { return fits_thread(kernel, count); };
  s.lanes = static_cast<uint32_t>(std::max<int64_t>(kVectorBytes / widest, 1));
  while (s.lanes > 1 && (!fits(s.lanes) || s.lanes > extents.inner)) s.lanes /= 2;
  while (s.vectors < kMostVectors && fits(s.vectors * 2 * s.lanes) &&
         s.vectors * 2 * s.lanes * kWarp <= extents.inner)
    s.vectors *= 2;
  // Fewer at a time are worth it where nothing is left over.
  GridSchedule exact = s;
  while (exact.vectors > 1 && !is_exact(kernel, exact, args)) exact.vectors /= 2;
  exact.exact = is_exact(kernel, exact, args);
  return exact.exact ? exact : s;
}

int64_t tiles_of(const Extents& extents, int64_t across, const GridTile& tile) {
  return extents.rows / across * ceil_div(across, tile.across) * ceil_div(extents.inner, tile.along);
}

std::optional<GridSchedule> tiles(const LoopKernel& kernel, const Extents& extents,
                                  std::span<const int64_t> args) {
  const CrossedLoads crossed = crossed_loads(kernel);
  if (crossed.loads.empty() || extents.rows * extents.inner < kFewTiled) return std::nullopt;
  const int64_t across = args[static_cast<size_t>(crossed.dim)];
  if (std::min(across, extents.inner) < kLeastAcross) return std::nullopt;
  const int64_t along_bytes = std::max<int64_t>(widest_along(kernel, kernel.parallel_rank - 1), 1);
  int64_t across_bytes = 1;
  for (const CrossedLoad& load : crossed.loads) across_bytes = std::max(across_bytes, load.bytes);
  GridSchedule s;
  s.form = GridForm::kTiles;
  s.lanes = static_cast<uint32_t>(std::max<int64_t>(kVectorBytes / along_bytes, 1));
  while (s.lanes > 1 && !fits_thread(kernel, s.lanes)) s.lanes /= 2;
  while (s.lanes > 2 && threads_along(s) * s.lanes >= 2 * extents.inner) s.lanes /= 2;
  while (s.lanes > 1 && !starts_aligned(kernel, args, kernel.parallel_rank - 1, s.lanes)) s.lanes /= 2;
  const uint32_t most = s.lanes == 1 ? kMostRowVectors : kMostVectors;
  while (s.vectors < most && fits_thread(kernel, s.vectors * 2 * s.lanes)) s.vectors *= 2;
  // As long stretches of memory one way as the other, if there are such.
  const auto shape = [&] {
    s.rows = static_cast<uint32_t>(most_rows(s));
    const auto along = [&] { return grid_tile(s).along; };
    while (s.rows > fewest_rows(s) && along() < extents.inner &&
           (s.rows * across_bytes > 2 * along() * along_bytes || s.rows >= 2 * across))
      s.rows /= 2;
  };
  shape();
  // How far tiles reach past the end of a plane.
  const auto covered = [&] {
    const GridTile t = grid_tile(s);
    return ceil_div(across, t.across) * t.across * ceil_div(extents.inner, t.along) * t.along;
  };
  const int64_t plane = across * extents.inner;
  while (s.vectors > 1 && (2 * plane <= covered() || !takes_tiles(kernel, s).ok() ||
                           tiles_of(extents, across, grid_tile(s)) < kManyBlocks)) {
    s.vectors /= 2;
    shape();
  }
  // Planes that are much smaller than a tile are read from the cache.
  if (2 * plane <= covered() || !takes_tiles(kernel, s).ok()) return std::nullopt;
  return s;
}

uint32_t vectors_of_row(const LoopKernel& kernel, const Extents& extents, int64_t lanes) {
  if (!kernel.repeats.empty() || kernel.reduce_rank != 1) return 1;
  uint32_t vectors = 1;
  while (vectors < kMostRowVectors && fits_thread(kernel, vectors * 2 * lanes) &&
         (vectors * 2 + 1) * tree_lanes(kernel) <= extents.reduced)
    vectors *= 2;
  return vectors;
}

absl::Status no_schedule(const GridSchedule& schedule, absl::string_view why) {
  std::string line = to_string(schedule);
  line.pop_back();
  return absl::InvalidArgumentError(absl::StrCat("\"", line, "\" is no schedule here: ", why));
}

absl::Status check_columns(const LoopKernel& kernel, const GridSchedule& schedule, const Extents& extents) {
  if (kernel.parallel_rank == 0) return no_schedule(schedule, "there are no columns");
  if (schedule.rows > tree_lanes(kernel) ||
      (schedule.rows < extents.reduced && schedule.rows != tree_lanes(kernel)))
    return no_schedule(schedule, "its rows are not those of the tree");
  return absl::OkStatus();
}

// Blocks side by side that have a column of every row.
int64_t column_tiles(const GridSchedule& schedule, const Extents& extents) {
  return extents.rows * ceil_div(extents.inner, kGridThreads / schedule.rows * schedule.lanes);
}

// Of elements that a block's threads load before they enter the tree.
int64_t stage_bytes(const LoopKernel& kernel, uint32_t vectors) {
  int64_t size = 0;
  for (uint32_t v = 0; v < kernel.reduction.inputs.size(); ++v)
    size += hlo::byte_size(kernel.reduction.combine.inputs[v]);
  return kGridThreads * row_lanes(kernel) * vectors * size;
}

}  // namespace

std::vector<std::vector<uint32_t>> side_by_side(const LoopKernel& kernel, std::span<const uint32_t> accesses,
                                                int dim) {
  std::vector<std::vector<uint32_t>> groups;
  std::vector<bool> taken(kernel.accesses.size(), false);
  for (uint32_t first : accesses) {
    const int64_t step = known_step(kernel.accesses[first], dim);
    if (kernel.accesses[first].beside != 0 || step < 2 || !std::has_single_bit(static_cast<uint64_t>(step)))
      continue;
    Access expected = kernel.accesses[first];
    std::vector<uint32_t> group;
    for (int64_t k = 0; k < step; ++k) {
      expected.beside = static_cast<uint8_t>(k);
      const auto found = std::find_if(accesses.begin(), accesses.end(), [&](uint32_t a) {
        return !taken[a] && kernel.accesses[a] == expected;
      });
      if (found != accesses.end()) group.push_back(*found);
    }
    if (std::ssize(group) != step) continue;
    for (uint32_t a : group) taken[a] = true;
    groups.push_back(std::move(group));
  }
  for (uint32_t a : accesses) {
    if (!taken[a]) groups.push_back({a});
    taken[a] = true;
  }
  return groups;
}

int64_t tree_lanes(const LoopKernel& kernel) {
  int64_t widest = 1;
  for (DType t : kernel.reduction.combine.inputs) widest = std::max(widest, hlo::byte_size(t));
  return kReduceLaneBytes / widest;
}

// As ReduceForm: whichever walks memory in its order.
bool favours_columns(const LoopKernel& kernel) {
  if (kernel.parallel_rank == 0 || !kernel.repeats.empty()) return false;
  const int last = kernel.parallel_rank + kernel.reduce_rank - 1;
  int along = 0, across = 0;
  for (const KernelInstr& i : kernel.body) {
    if (i.op != KernelOp::kLoad) continue;
    for (const AccessTerm& t : kernel.accesses[i.imm].terms) {
      along += t.unit == 1 && t.dim == last;
      across += t.unit == 1 && t.dim == kernel.parallel_rank - 1;
    }
  }
  return across > along;
}

std::string to_string(const GridSchedule& schedule) {
  std::string_view name;
  for (const FormName& f : kGridForms)
    if (f.form == schedule.form) name = f.name;
  return absl::StrCat("schedule grid form=", view(name), " lanes=", schedule.lanes,
                      " vectors=", schedule.vectors, " rows=", schedule.rows, schedule.exact ? " exact" : "",
                      schedule.room ? absl::StrCat(view(kRoom), schedule.room) : "", "\n");
}

absl::StatusOr<GridSchedule> parse_grid_schedule(std::string_view text) {
  uint32_t room = 0;
  if (const size_t at = text.find(kRoom); at != text.npos)
    if (!absl::SimpleAtoi(absl::StripTrailingAsciiWhitespace(view(text.substr(at + kRoom.size()))), &room))
      room = 0;
  for (const FormName& f : kGridForms)
    for (uint32_t lanes = 1; lanes <= 16; lanes *= 2)
      for (uint32_t vectors = 1; vectors <= 8; vectors *= 2)
        for (uint32_t rows = 1; rows <= kGridThreads; rows *= 2)
          for (const bool exact : {false, true})
            if (const GridSchedule s{f.form, lanes, vectors, rows, exact, room}; to_string(s) == text)
              return s;
  return absl::InvalidArgumentError(absl::StrCat("no schedule: ", view(text)));
}

absl::Status grid_takes(const LoopKernel& kernel) {
  if (changes_arrays(kernel))
    return absl::UnimplementedError(
        "the grid has no schedule for a kernel that changes arrays at computed positions");
  const size_t parameters = kernel.buffers.size() + kernel.num_args + 4;
  if (parameters * sizeof(int64_t) > kMostGridParameters)
    return absl::UnimplementedError(absl::StrCat("a kernel of ", kernel.buffers.size(), " buffers and ",
                                                 kernel.num_args,
                                                 " arguments has more parameters than a grid takes"));
  if (kernel.has_reduction && holds_question(kernel))
    return absl::UnimplementedError("the grid has no schedule for a reduction over loops of unknown length");
  if (kernel.before) return takes_sort(kernel);
  return absl::OkStatus();
}

GridSchedule favoured_grid(const LoopKernel& kernel, std::span<const int64_t> args) {
  const Extents extents(kernel, args);
  if (kernel.before) return favoured_sort(kernel, args);
  if (!kernel.has_reduction) return tiles(kernel, extents, args).value_or(elements(kernel, extents, args));
  GridSchedule s;
  if (favours_columns(kernel)) {
    s.form = extents.reduced > kReduceChunk ? GridForm::kColumnChunks : GridForm::kColumns;
    const auto tree = static_cast<uint32_t>(tree_lanes(kernel));
    s.rows = tree;
    while (s.rows > 1 && s.rows / 2 >= extents.reduced) s.rows /= 2;
    const int64_t widest = std::max<int64_t>(widest_along(kernel, kernel.parallel_rank - 1), 1);
    s.lanes = static_cast<uint32_t>(std::max<int64_t>(kVectorBytes / std::max<int64_t>(widest, 4), 1));
    while (s.lanes > 1 && s.lanes > extents.inner) s.lanes /= 2;
    while (s.vectors < kMostColumnVectors && s.vectors * 2 * s.rows <= extents.reduced &&
           fits_thread(kernel, s.vectors * 2 * s.lanes))
      s.vectors *= 2;
    return s;
  }
  s = half_warp_schedule(kernel, args);
  if (extents.reduced > kReduceChunk) s.form = GridForm::kChunks;
  const int64_t tasks = extents.rows * extents.inner * ceil_div(extents.reduced, kReduceChunk);
  if (tasks >= kFewTasks || extents.reduced < kLongTask) return s;
  const GridSchedule blocks = block_rows_schedule(kernel, args);
  return blocks.form == GridForm::kBlocks ? blocks : s;
}

GridSchedule half_warp_schedule(const LoopKernel& kernel, std::span<const int64_t> args) {
  GridSchedule s;
  s.form = GridForm::kHalfWarp;
  s.lanes = static_cast<uint32_t>(row_lanes(kernel));
  s.vectors = vectors_of_row(kernel, Extents(kernel, args), s.lanes);
  s.exact = is_exact(kernel, s, args);
  return s;
}

GridSchedule block_rows_schedule(const LoopKernel& kernel, std::span<const int64_t> args) {
  GridSchedule s = half_warp_schedule(kernel, args);
  if (stage_bytes(kernel, 1) > kStageBytes) return s;
  s.form = GridForm::kBlocks;
  s.vectors = std::min(s.vectors, kMostVectors);
  while (s.vectors > 1 && stage_bytes(kernel, s.vectors) > kStageBytes) s.vectors /= 2;
  return s;
}

GridSchedule held_schedule(const LoopKernel& kernel, std::span<const int64_t> args, const GridSchedule& shape,
                           int64_t groups) {
  GridSchedule s = shape;
  s.vectors = static_cast<uint32_t>(groups);
  const int64_t stretch = kGridThreads / s.rows * s.lanes;
  const int64_t length = args[kernel.has_reduction ? kernel.parallel_rank : kernel.parallel_rank - 1u];
  while (s.vectors < kMostRowVectors && fits_thread(kernel, s.vectors * 2 * s.lanes) &&
         s.vectors * 2 * stretch <= length)
    s.vectors *= 2;
  GridSchedule exact = s;
  while (exact.vectors > groups && !is_exact(kernel, exact, args)) exact.vectors /= 2;
  exact.exact = is_exact(kernel, exact, args);
  return exact.exact ? exact : s;
}

absl::StatusOr<GridPlan> grid_plan(const LoopKernel& kernel, const GridSchedule& schedule,
                                   std::span<const int64_t> args) {
  if (absl::Status status = grid_takes(kernel); !status.ok()) return status;
  if (args.size() != kernel.num_args) return no_schedule(schedule, "there are too few or too many arguments");
  if (kernel.has_reduction != reduces(schedule))
    return no_schedule(schedule, "it is one for a kernel that reduces, or the reverse");
  if (kernel.before.has_value() != sorts(schedule))
    return no_schedule(schedule, "it is one for a kernel that sorts, or the reverse");
  if (schedule.exact && !is_exact(kernel, schedule, args))
    return no_schedule(schedule, "threads have to ask for the ends of rows, or for addresses");
  const Extents extents(kernel, args);
  GridPlan plan;
  const int64_t outputs = extents.rows * extents.inner;
  if (outputs == 0) return plan;
  const auto launch = [&](std::string_view entry, int64_t blocks) -> GridLaunch& {
    return plan.launches.emplace_back(GridLaunch{entry, blocks, 0, 0, 0});
  };
  constexpr int64_t kRowsOfBlock = kGridThreads / kRowThreads;
  switch (schedule.form) {
    case GridForm::kElements: {
      const int64_t width = schedule.vectors > 1 ? kWarp : 1;
      const int64_t parts = extents.rows * ceil_div(extents.inner, width * schedule.lanes * schedule.vectors);
      launch(kGridEntry, ceil_div(parts, kGridThreads / width));
      break;
    }
    case GridForm::kTiles: {
      if (absl::Status status = takes_tiles(kernel, schedule); !status.ok())
        return no_schedule(schedule, status.message());
      const int64_t across = args[static_cast<size_t>(crossed_loads(kernel).dim)];
      launch(kGridEntry, tiles_of(extents, across, grid_tile(schedule)));
      break;
    }
    case GridForm::kSort:
    case GridForm::kMerges:
      if (absl::Status s = takes_sort(kernel, schedule); !s.ok()) return no_schedule(schedule, s.message());
      if ((extents.inner > sort_tile(schedule).pitch) != (schedule.form == GridForm::kMerges))
        return no_schedule(schedule, "a row has more elements than its part of a tile, or a single tile");
      plan = sort_plan(kernel, schedule, args);
      break;
    case GridForm::kHeld:
      return no_schedule(schedule, "rows are held from one kernel of a chain to the next");
    case GridForm::kHalfWarp:
      if (extents.reduced > kReduceChunk) return no_schedule(schedule, "a row has more than one chunk");
      launch(kGridEntry, ceil_div(outputs, kRowsOfBlock));
      break;
    case GridForm::kColumns:
      if (absl::Status s = check_columns(kernel, schedule, extents); !s.ok()) return s;
      if (extents.reduced > kReduceChunk) return no_schedule(schedule, "a column has more than one chunk");
      launch(kGridEntry, column_tiles(schedule, extents));
      break;
    case GridForm::kColumnChunks:
      if (absl::Status s = check_columns(kernel, schedule, extents); !s.ok()) return s;
      [[fallthrough]];
    case GridForm::kChunks:
    case GridForm::kBlocks: {
      // Two halves of the scratch, one read and one written in turn.
      const int64_t record = kPartialBytes * static_cast<int64_t>(kernel.reduction.inputs.size());
      int64_t chunks = std::max<int64_t>(ceil_div(extents.reduced, kReduceChunk), 1);
      const int64_t half = outputs * chunks * record;
      launch(kGridChunks, schedule.form == GridForm::kColumnChunks ? column_tiles(schedule, extents) * chunks
                          : schedule.form == GridForm::kBlocks     ? outputs * chunks
                                                               : ceil_div(outputs * chunks, kRowsOfBlock));
      int64_t at = 0;
      while (chunks > kReduceChunk) {
        const int64_t fewer = ceil_div(chunks, kReduceChunk);
        GridLaunch& l = launch(kGridPartials, ceil_div(outputs * fewer, kRowsOfBlock));
        l.from = at;
        l.to = at = half - at;
        l.count = chunks;
        chunks = fewer;
      }
      GridLaunch& last = launch(kGridFinish, ceil_div(outputs, kRowsOfBlock));
      last.from = at;
      last.count = chunks;
      plan.scratch_bytes = plan.launches.size() > 2 ? 2 * half : half;
      break;
    }
  }
  for (const GridLaunch& l : plan.launches)
    if (l.blocks >= kMostBlocks) return no_schedule(schedule, "there are more blocks than a grid has");
  return plan;
}

}  // namespace lamina::jit
