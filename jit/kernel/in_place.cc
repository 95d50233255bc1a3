#include "jit/kernel/in_place.h"

#include <algorithm>
#include <utility>

namespace lamina::jit {
namespace {

// Whether every index reads nothing but what it stores itself: one element, or some side by side.
bool reads_own(const std::vector<const Access*>& stores, const std::vector<const Access*>& loads,
               const std::vector<int64_t>& args) {
  std::vector<int64_t> first = resolved(*stores[0], args), stored;
  const auto place = [&](const Access* a) {
    std::vector<int64_t> steps = resolved(*a, args);
    const int64_t at = std::exchange(steps[kMaxLoopRank], first[kMaxLoopRank]) - first[kMaxLoopRank];
    return steps == first ? at : -1;
  };
  for (const Access* s : stores) stored.push_back(place(s));
  for (size_t i = 0; i < stored.size(); ++i)
    if (stored[i] != static_cast<int64_t>(i)) return false;
  return std::all_of(loads.begin(), loads.end(), [&](const Access* l) {
    const int64_t at = place(l);
    return at >= 0 && at < std::ssize(stored);
  });
}

}  // namespace

std::vector<int64_t> resolved(const Access& access, const std::vector<int64_t>& args) {
  std::vector<int64_t> out(kMaxLoopRank + 1, 0);
  out[kMaxLoopRank] = (access.offset_slot < 0 ? 0 : args[access.offset_slot]) + access.beside;
  for (const AccessTerm& t : access.terms) out[t.dim] += t.unit ? t.unit : args[t.stride_slot];
  return out;
}

std::vector<std::pair<size_t, size_t>> overwritable(const LoopKernel& k, const LoweredLoop& loop) {
  std::vector<std::pair<size_t, size_t>> out;
  if (k.has_reduction || k.before || changes_arrays(k)) return out;
  // A loop's scalar results are written by every row of elements, which would read them in turn.
  const auto own_element = [&](const Access& access) {
    std::vector<bool> has(k.parallel_rank, false);
    for (const AccessTerm& t : access.terms)
      if (t.dim < k.parallel_rank) has[t.dim] = true;
    return k.repeats.empty() || std::find(has.begin(), has.end(), false) == has.end();
  };
  // None where a place is computed.
  auto accesses_of = [&](size_t buffer) {
    std::vector<const Access*> found;
    bool computed = false;
    for_each_section(k, [&](const std::vector<KernelInstr>& section) {
      for (const KernelInstr& i : section) computed |= i.op == KernelOp::kLoadAt && i.imm == buffer;
    });
    for (const Access& a : k.accesses)
      if (a.buffer == buffer && !computed) found.push_back(&a);
    return found;
  };
  for (size_t w = 0; w < k.buffers.size(); ++w) {
    const std::vector<const Access*> stores =
        k.buffers[w].written ? accesses_of(w) : std::vector<const Access*>();
    if (stores.empty() || !own_element(*stores[0]) || !loop.buffers[w]) continue;
    if (stores.size() > 1 && !k.repeats.empty()) continue;  // which store at each step
    for (size_t r = 0; r < k.buffers.size(); ++r) {
      const std::vector<const Access*> loads =
          k.buffers[r].written ? std::vector<const Access*>() : accesses_of(r);
      if (loads.empty() || !loop.buffers[r] ||
          loop.buffers[r].type()->bytes() != loop.buffers[w].type()->bytes() ||
          hlo::byte_size(k.buffers[r].type) != hlo::byte_size(k.buffers[w].type))
        continue;
      if (reads_own(stores, loads, loop.args)) out.emplace_back(w, r);
    }
  }
  return out;
}

}  // namespace lamina::jit
