// Which rows chains hold, and how.
#include <absl/strings/str_cat.h>

#include <algorithm>
#include <set>

#include "jit/kernel/grid_held.h"
#include "jit/kernel/in_place.h"

namespace lamina::jit {
namespace {

// Of shared memory a block takes what leaves a multiprocessor enough blocks, or else all that it may.
constexpr int64_t kEasyBytes = 24 << 10;
enum class Makes : uint8_t { kLines, kElements, kReduced };

// Which elements of a buffer an access reaches, the same for kernels of different dimensions.
struct Reach {
  int64_t offset = 0;
  std::vector<std::pair<int64_t, int64_t>> lines;  // extents and strides from line to line
  int64_t along = 0;                               // stride along a line
  bool operator==(const Reach&) const = default;
};

Reach reach_of(const PlacedKernel& k, Makes makes, const Access& access) {
  const std::vector<int64_t> args(k.args.begin(), k.args.end());
  const std::vector<int64_t> steps = resolved(access, args);
  Reach out;
  out.offset = steps[kMaxLoopRank];
  if (makes != Makes::kLines) out.along = steps[static_cast<size_t>(line_dim(*k.kernel))];
  const int outer = k.kernel->parallel_rank - (makes == Makes::kElements ? 1 : 0);
  for (int d = 0; d < outer; ++d) {
    const int64_t extent = args[static_cast<size_t>(d)], stride = steps[static_cast<size_t>(d)];
    if (extent == 1) continue;
    if (!out.lines.empty() && out.lines.back().second == stride * extent)
      out.lines.back() = {out.lines.back().first * extent, stride};
    else
      out.lines.emplace_back(extent, stride);
  }
  return out;
}

// What is read and written again and again.
struct Array {
  struct Use {
    size_t kernel;
    uint32_t access;
  };
  int place;
  Reach reach;
  DType type;
  bool of_elements, made;
  std::vector<Use> uses;  // the first one makes it, or reads it from memory
  bool held = false;
  uint32_t number = 0;
  size_t first() const { return uses.front().kernel; }
  size_t last() const { return uses.back().kernel; }
};

class Planner {
 public:
  Planner(std::span<const PlacedKernel> chain, int64_t rows, const std::vector<bool>& inner)
      : chain_(chain), rows_(rows), inner_(inner) {}

  absl::StatusOr<HeldPlan> plan() {
    if (absl::Status s = see_kernels(); !s.ok()) return s;
    for (size_t k = 0; k < chain_.size(); ++k)
      if (absl::Status s = see_accesses(k); !s.ok()) return s;
    number_lines();
    int64_t wanted = 0;  // bytes of an element
    for (const bool what_is_read : {true, false}) {
      number_elements(what_is_read);
      if (held_ > 0 && find_threads()) return made(what_is_read);
      wanted = std::max(wanted, held_);
    }
    if (wanted == 0) return absl::InvalidArgumentError("no step reads what one before it has read or made");
    return absl::InvalidArgumentError(absl::StrCat("rows of ", length_, " times ", wanted,
                                                   " bytes are more than the threads of a block can hold"));
  }

 private:
  const LoopKernel& kernel(size_t k) const { return *chain_[k].kernel; }
  absl::Status see_kernels();
  absl::Status see_accesses(size_t k);
  absl::Status see_load(size_t k, uint32_t access, bool predicated);
  absl::Status see_store(size_t k, uint32_t access);
  void number_lines();
  void number_elements(bool what_is_read);
  bool find_threads();
  HeldPlan made(bool reads_once) const;
  Array seen(size_t k, uint32_t access) const;
  Array* find(const Array& seen) {
    const auto found = std::find_if(arrays_.begin(), arrays_.end(), [&](const Array& a) {
      return a.place == seen.place && a.reach == seen.reach && a.type == seen.type &&
             a.of_elements == seen.of_elements;
    });
    return found == arrays_.end() ? nullptr : &*found;
  }

  const std::span<const PlacedKernel> chain_;
  const int64_t rows_;
  const std::vector<bool>& inner_;
  std::vector<Makes> makes_;
  int64_t lines_ = 0, length_ = 0, stretch_ = 0;
  int64_t widest_tree_ = 0;
  std::vector<Array> arrays_;
  std::set<int> written_, unwritten_;
  int64_t held_ = 0;  // bytes of an element
  GridSchedule shape_;
};

absl::Status Planner::see_kernels() {
  for (const PlacedKernel& k : chain_) {
    if (!k.kernel->has_reduction) continue;
    lines_ = product_of(k.args.first(k.kernel->parallel_rank));
    length_ = product_of(k.args.subspan(k.kernel->parallel_rank, k.kernel->reduce_rank));
    const int64_t lanes = tree_lanes(*k.kernel);
    stretch_ = stretch_ == 0 ? lanes : std::min(stretch_, lanes);
    widest_tree_ = std::max(widest_tree_, lanes);
  }
  if (lines_ == 0) return absl::InvalidArgumentError("no step reduces rows");
  if (length_ < 2) return absl::InvalidArgumentError("rows have one element");
  for (const PlacedKernel& k : chain_) {
    const LoopKernel& spec = *k.kernel;
    const int64_t outputs = product_of(k.args.first(spec.parallel_rank));
    if (spec.has_reduction) {
      if (outputs != lines_ || spec.reduce_rank != 1 || k.args[spec.parallel_rank] != length_)
        return absl::InvalidArgumentError("steps reduce different rows");
      makes_.push_back(Makes::kReduced);
    } else if (outputs == lines_) {
      makes_.push_back(Makes::kLines);
    } else if (outputs == lines_ * length_ && spec.parallel_rank > 1 &&
               k.args[spec.parallel_rank - 1u] == length_) {
      makes_.push_back(Makes::kElements);
    } else {
      return absl::InvalidArgumentError("a step makes neither the elements of the rows nor one for each");
    }
  }
  return absl::OkStatus();
}

Array Planner::seen(size_t k, uint32_t access) const {
  const Access& a = kernel(k).accesses[access];
  const bool of_elements = makes_[k] != Makes::kLines && varies_along_line(kernel(k), a);
  return {chain_[k].places[a.buffer],          reach_of(chain_[k], makes_[k], a),
          kernel(k).buffers[a.buffer].type,    of_elements,
          kernel(k).buffers[a.buffer].written, {{k, access}}};
}

absl::Status Planner::see_load(size_t k, uint32_t access, bool predicated) {
  const Array load = seen(k, access);
  if (Array* known = predicated ? nullptr : find(load)) {
    if (known->made || known->first() != k || !known->of_elements) known->uses.push_back({k, access});
    return absl::OkStatus();
  }
  if (written_.contains(load.place))
    return absl::InvalidArgumentError("a step reads other elements of a row than its own");
  const bool is_one_for_all = lines_ > 1 && std::all_of(load.reach.lines.begin(), load.reach.lines.end(),
                                                        [](const auto& line) { return line.second == 0; });
  if (!predicated && !is_one_for_all) arrays_.push_back(load);
  return absl::OkStatus();
}

absl::Status Planner::see_store(size_t k, uint32_t access) {
  const Array store = seen(k, access);
  if (store.of_elements != (makes_[k] == Makes::kElements) || store.of_elements != (store.reach.along != 0))
    return absl::InvalidArgumentError("a step writes one element for a whole row");
  if (std::any_of(arrays_.begin(), arrays_.end(), [&](const Array& a) {
        return a.place == store.place && (!a.made || a.reach == store.reach);
      }))
    return absl::InvalidArgumentError("a step writes elements again");
  arrays_.push_back(store);
  written_.insert(store.place);
  return absl::OkStatus();
}

absl::Status Planner::see_accesses(size_t k) {
  std::set<uint32_t> seen;
  for (const std::vector<KernelInstr>* section : {&kernel(k).body, &kernel(k).epilogue})
    for (const KernelInstr& i : *section) {
      if (i.op == KernelOp::kLoadAt) return absl::InvalidArgumentError("a step reads at computed positions");
      if (i.op != KernelOp::kLoad || (!i.predicated && !seen.insert(static_cast<uint32_t>(i.imm)).second))
        continue;
      if (absl::Status s = see_load(k, static_cast<uint32_t>(i.imm), i.predicated); !s.ok()) return s;
    }
  for (uint32_t access : kernel(k).reduction.init)
    if (seen.insert(access).second)
      if (absl::Status s = see_load(k, access, false); !s.ok()) return s;
  for (const Store& store : kernel(k).stores)
    if (absl::Status s = see_store(k, store.access); !s.ok()) return s;
  return absl::OkStatus();
}

void Planner::number_lines() {
  uint32_t next = 0;
  for (Array& a : arrays_) {
    if (a.of_elements) continue;
    a.held = a.made || a.uses.size() > 1;
    if (a.held) a.number = next++;
  }
}

// What is no longer needed makes room: also in the kernel that reads it last, of what that makes.
void Planner::number_elements(bool what_is_read) {
  struct Room {
    uint32_t at;
    int64_t size;
    size_t last;
  };
  std::vector<Room> rooms;
  held_ = 0;
  for (Array& a : arrays_) {
    if (!a.of_elements) continue;
    a.held = a.uses.size() > 1 && (a.made || what_is_read);
    if (!a.held) continue;
    const int64_t size = hlo::byte_size(a.type);
    const auto free = std::find_if(rooms.begin(), rooms.end(), [&](const Room& r) {
      return r.size == size && (a.made ? r.last <= a.first() : r.last < a.first());
    });
    if (free != rooms.end()) {
      a.number = free->at;
      free->last = a.last();
      continue;
    }
    a.number = static_cast<uint32_t>(held_);
    rooms.push_back({a.number, size, a.last()});
    held_ += size;
  }
  unwritten_.clear();
  for (const Array& a : arrays_)
    if (a.made && inner_[static_cast<size_t>(a.place)]) unwritten_.insert(a.place);
  for (const Array& a : arrays_)
    if (a.made && !a.held) unwritten_.erase(a.place);
}

// As few threads to a line as can hold it.
bool Planner::find_threads() {
  const auto fits = [&](int64_t most) {
    for (int64_t threads = kRowThreads; threads <= std::min(stretch_, kGridThreads); threads *= 2) {
      shape_ = {};
      shape_.form = GridForm::kHeld;
      shape_.lanes = static_cast<uint32_t>(stretch_ / threads);
      shape_.rows = static_cast<uint32_t>(kGridThreads / threads);
      const int64_t least = widest_tree_ * (shape_.lanes == 1 && widest_tree_ == stretch_ ? 2 : 1);
      // Room for three quarters of a power of two, or for one: few kinds of code.
      int64_t room = least;
      while (room < length_) room *= 2;
      if (room / 4 * 3 >= length_ && room / 4 % least == 0) room = room / 4 * 3;
      shape_.room = static_cast<uint32_t>(room);
      WarpExchange exchange;
      for (const PlacedKernel& k : chain_) exchange = widest(exchange, exchange_of(*k.kernel, shape_));
      if (room * shape_.rows * held_ + exchange.bytes() <= most) return true;
    }
    return false;
  };
  return fits(kEasyBytes) || fits(kMostSharedBytes);
}

HeldPlan Planner::made(bool reads_once) const {
  HeldPlan plan;
  plan.reads_once = reads_once;
  const int64_t units = lines_ / rows_;
  while (plan.block_rows * units < shape_.rows && plan.block_rows < rows_) plan.block_rows *= 2;
  plan.blocks = (rows_ + plan.block_rows - 1) / plan.block_rows;
  for (size_t k = 0; k < chain_.size(); ++k)
    plan.parts.push_back({kernel(k), makes_[k] == Makes::kLines ? GridSchedule() : shape_, {}});
  for (const Array& a : arrays_) {
    if (!a.held) continue;
    for (size_t u = 0; u < a.uses.size(); ++u) {
      const bool memory = u == 0 && !(a.made && unwritten_.contains(a.place));
      plan.parts[a.uses[u].kernel].held.push_back({a.uses[u].access, a.number, memory});
    }
  }
  const int64_t groups = held_groups(plan.parts);
  for (size_t k = 0; k < chain_.size(); ++k)
    if (makes_[k] != Makes::kLines)
      plan.parts[k].schedule = held_schedule(kernel(k), chain_[k].args, shape_, groups);
  plan.unwritten.assign(unwritten_.begin(), unwritten_.end());
  return plan;
}

}  // namespace

absl::StatusOr<HeldPlan> held_plan(std::span<const PlacedKernel> chain, int64_t rows,
                                   const std::vector<bool>& inner) {
  return Planner(chain, rows, inner).plan();
}

}  // namespace lamina::jit
