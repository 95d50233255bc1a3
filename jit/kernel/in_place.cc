#include "jit/kernel/in_place.h"

#include <algorithm>

namespace lamina::jit {

std::vector<int64_t> resolved(const Access& access, const std::vector<int64_t>& args) {
  std::vector<int64_t> out(kMaxLoopRank + 1, 0);
  out[kMaxLoopRank] = access.offset_slot < 0 ? 0 : args[access.offset_slot];
  for (const AccessTerm& t : access.terms) out[t.dim] += t.unit ? t.unit : args[t.stride_slot];
  return out;
}

std::vector<std::pair<size_t, size_t>> overwritable(const LoopKernel& k, const LoweredLoop& loop) {
  std::vector<std::pair<size_t, size_t>> out;
  if (k.has_reduction || changes_arrays(k)) return out;
  // A loop's scalar results are written by every row of elements, which would read them in turn.
  const auto own_element = [&](const Access& access) {
    std::vector<bool> has(k.parallel_rank, false);
    for (const AccessTerm& t : access.terms)
      if (t.dim < k.parallel_rank) has[t.dim] = true;
    return k.repeats.empty() || std::find(has.begin(), has.end(), false) == has.end();
  };
  auto only_access = [&](size_t buffer) -> const Access* {
    const Access* found = nullptr;
    bool computed = false;
    for_each_section(k, [&](const std::vector<KernelInstr>& section) {
      for (const KernelInstr& i : section) computed |= i.op == KernelOp::kLoadAt && i.imm == buffer;
    });
    if (computed) return nullptr;
    for (const Access& a : k.accesses) {
      if (a.buffer != buffer) continue;
      if (found) return nullptr;
      found = &a;
    }
    return found;
  };
  for (size_t w = 0; w < k.buffers.size(); ++w) {
    const Access* store = k.buffers[w].written ? only_access(w) : nullptr;
    if (!store || !own_element(*store) || !loop.buffers[w]) continue;
    for (size_t r = 0; r < k.buffers.size(); ++r) {
      const Access* load = k.buffers[r].written ? nullptr : only_access(r);
      if (!load || !loop.buffers[r] || loop.buffers[r].type()->bytes() != loop.buffers[w].type()->bytes() ||
          hlo::byte_size(k.buffers[r].type) != hlo::byte_size(k.buffers[w].type))
        continue;
      if (resolved(*load, loop.args) == resolved(*store, loop.args)) out.emplace_back(w, r);
    }
  }
  return out;
}

}  // namespace lamina::jit
