#include "jit/program/row_chain.h"

#include <algorithm>
#include <atomic>

#include "absl/container/inlined_vector.h"
#include "hlo/hash_map.h"
#include "jit/program/engine.h"

namespace lamina::jit {
namespace {

// What a block of rows touches should stay in the second-level cache.
constexpr int64_t kBlockBytes = 384 * 1024;
// Chains that touch less than this in all gain nothing.
constexpr int64_t kLeastBytes = 512 * 1024;
// Blocks of more rows begin at multiples of this: reductions take rows a vector at a time.
constexpr int64_t kRowGrain = 16;
// What a chain makes is held until its end, and each step that joins is compared with all before it.
constexpr size_t kMostSteps = 32;

// A chain in the making.
class Chain {
 public:
  explicit Chain(const Places& places) : places_(places) {}

  // Whether the step may join, as it then has.
  bool add(const RowStep* step) {
    if (!step || steps_.size() == kMostSteps) return false;
    const int64_t leading = step->leading();
    const int64_t rows = steps_.empty() ? leading : std::min(rows_, leading);
    if (leading % rows != 0 || (!steps_.empty() && rows_ % rows != 0)) return false;
    std::vector<RowAccess> accesses = accesses_;
    HashSet<int> known;
    for (const RowAccess& a : accesses_) known.insert(place(a));
    bool shares = steps_.empty();
    std::vector<int64_t> leadings = leadings_;
    for (RowAccess& a : step->row_accesses()) {
      shares |= known.contains(place(a));
      accesses.push_back(a);
      leadings.push_back(leading);
    }
    if (!shares) return false;
    HashSet<int> written;
    for (const RowAccess& a : accesses)
      if (a.written) written.insert(place(a));
    int64_t row_bytes = 0;
    known.clear();
    for (size_t i = 0; i < accesses.size(); ++i) {
      const bool fixed = accesses[i].stride == 0 && !written.contains(place(accesses[i]));
      if (!fixed && !is_by_rows(accesses[i], leadings[i], rows)) return false;
      if (!fixed && known.insert(place(accesses[i])).second) row_bytes += accesses[i].bytes / rows;
    }
    if (row_bytes > kBlockBytes) return false;
    steps_.push_back(step);
    accesses_ = std::move(accesses);
    leadings_ = std::move(leadings);
    rows_ = rows;
    row_bytes_ = row_bytes;
    return true;
  }

  bool is_worth_it() const { return steps_.size() > 1 && rows_ * row_bytes_ >= kLeastBytes; }
  RowChain made(int first) const {
    int64_t block = std::clamp<int64_t>(kBlockBytes / std::max<int64_t>(row_bytes_, 1), 1, rows_);
    if (block > kRowGrain) block -= block % kRowGrain;
    RowChain out{first, first + static_cast<int>(steps_.size()) - 1, rows_, block};
    for (const RowStep* s : steps_) out.work += s->work();
    return out;
  }
  // Whether its memory may be written over in the chain: no row needs that of another.
  bool keeps_to_rows(int slot) const {
    for (size_t i = 0; i < accesses_.size(); ++i)
      if (place(accesses_[i]) == places_.of_slot[slot] && !is_by_rows(accesses_[i], leadings_[i], rows_))
        return false;
    return true;
  }

 private:
  int place(const RowAccess& a) const { return places_.of_slot[a.slot]; }
  static bool is_by_rows(const RowAccess& a, int64_t leading, int64_t rows) {
    if (a.elements % rows != 0) return false;
    const int64_t each = a.elements / rows, count = leading / rows;
    return a.low >= 0 && count * a.stride == each && (count - 1) * a.stride + a.high <= each;
  }

  const Places& places_;
  std::vector<const RowStep*> steps_;
  std::vector<RowAccess> accesses_;
  std::vector<int64_t> leadings_;  // by access: of its step
  int64_t rows_ = 0, row_bytes_ = 0;
};

}  // namespace

std::vector<RowChain> make_row_chains(std::span<const std::unique_ptr<Step>> steps, const Places& places,
                                      MemoryRequest& request) {
  std::vector<RowChain> out;
  for (size_t i = 0; i < steps.size();) {
    Chain chain(places);
    size_t end = i;
    while (end < steps.size() && chain.add(steps[end]->by_rows())) ++end;
    if (chain.is_worth_it()) {
      out.push_back(chain.made(static_cast<int>(i)));
      const RowChain& made = out.back();
      std::erase_if(request.overwrites, [&](const Overwrite& o) {
        return o.step >= made.first && o.step <= made.last && !chain.keeps_to_rows(o.operand);
      });
      request.together.emplace_back(made.first, made.last);
    }
    i = std::max(end, i + 1);
  }
  return out;
}

absl::Status RowChain::run(Run& run, std::span<const std::unique_ptr<Step>> steps) const {
  struct Part {
    const RowStep* step;
    KernelEntry entry;
    int64_t each;  // of the leading dimension, for one row
  };
  absl::InlinedVector<Part, 8> parts;
  for (int s = first; s <= last; ++s) {
    const RowStep* step = steps[s]->by_rows();
    parts.push_back({step, step->entry(run), step->leading() / rows});
  }
  ThreadPool& pool = run.engine.runtime().pool();
  const int64_t tasks = std::clamp<int64_t>(rows / block, 1, pool.threads_for(work));
  std::atomic<bool> done{true};
  const auto run_task = [&](int64_t t) {
    const int64_t end = rows * (t + 1) / tasks;
    for (int64_t row = rows * t / tasks; row < end; row += block)
      for (const Part& p : parts)
        if (!p.step->run_rows(run, p.entry, row * p.each, std::min(end, row + block) * p.each)) {
          done = false;
          return;
        }
  };
  if (tasks == 1)
    run_task(0);
  else
    pool.parallel_for(tasks, run_task);
  return done ? absl::OkStatus() : absl::CancelledError("the run was cancelled");
}

}  // namespace lamina::jit
