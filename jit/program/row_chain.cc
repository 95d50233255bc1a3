#include "jit/program/row_chain.h"

#include <algorithm>

#include "hlo/hash_map.h"

namespace lamina::jit {
namespace {

// Blocks of more rows begin at multiples of this: reductions take rows a vector at a time.
constexpr int64_t kRowGrain = 16;
// What a chain makes is held until its end, and each step that joins is compared with all before it.
constexpr int kMostSteps = 32;

// A chain in the making.
class Chain {
 public:
  Chain(const Places& places, const cluster::Costs& costs) : places_(places), costs_(costs) {}

  // Whether the step may join, as it then has.
  bool add(const Step& step) {
    const int64_t leading = step.leading();
    if (leading == 0 || steps_ == kMostSteps) return false;
    const int64_t rows = steps_ == 0 ? leading : std::min(rows_, leading);
    if (leading % rows != 0 || (steps_ > 0 && rows_ % rows != 0)) return false;
    std::vector<RowAccess> accesses = accesses_;
    HashSet<int> known;
    for (const RowAccess& a : accesses_) known.insert(place(a));
    bool shares = steps_ == 0;
    std::vector<int64_t> leadings = leadings_;
    for (RowAccess& a : step.row_accesses()) {
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
    if (row_bytes > costs_.chain_row_bytes) return false;
    ++steps_;
    accesses_ = std::move(accesses);
    leadings_ = std::move(leadings);
    rows_ = rows;
    row_bytes_ = row_bytes;
    return true;
  }

  bool is_worth_it() const {
    return steps_ > 1 && rows_ * row_bytes_ >= costs_.chain_least_bytes && rows_ >= costs_.chain_least_rows;
  }
  RowChain made(int first) const {
    int64_t block =
        std::clamp<int64_t>(costs_.chain_block_bytes / std::max<int64_t>(row_bytes_, 1), 1, rows_);
    if (block > kRowGrain) block -= block % kRowGrain;
    return {first, first + steps_ - 1, rows_, block};
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
  const cluster::Costs& costs_;
  int steps_ = 0;
  std::vector<RowAccess> accesses_;
  std::vector<int64_t> leadings_;  // by access: of its step
  int64_t rows_ = 0, row_bytes_ = 0;
};

}  // namespace

std::vector<RowChain> make_row_chains(std::span<const std::unique_ptr<Step>> steps, const Places& places,
                                      const cluster::Costs& costs, MemoryRequest& request) {
  std::vector<RowChain> out;
  for (size_t i = 0; i < steps.size();) {
    Chain chain(places, costs);
    size_t end = i;
    while (end < steps.size() && chain.add(*steps[end])) ++end;
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

}  // namespace lamina::jit
