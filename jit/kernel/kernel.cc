#include "jit/kernel/kernel.h"

namespace lamina::jit {
namespace {

// An instruction that something needs, or that is there for what it does, needs its operands.
void spread(const LoopKernel& kernel, const std::vector<KernelInstr>& code, size_t i,
            std::vector<bool>& live) {
  live[i] = live[i] || !has_value(code[i].op);
  if (live[i]) for_each_operand(kernel, code[i], [&](uint32_t v) { live[v] = true; });
}
// The same of a whole section. `live`: what is needed from outside.
void spread(const LoopKernel& kernel, const std::vector<KernelInstr>& code, std::vector<bool>& live) {
  for (size_t i = code.size(); i-- > 0;) spread(kernel, code, i, live);
}

// Takes out the carried values that only make themselves, such as counters that nothing reads. `needed`:
// those whose last value is read. Gives the numbers of those that stay, by their old ones.
std::vector<uint32_t> drop_unneeded(const LoopKernel& kernel, Repeat& r, std::vector<bool> needed) {
  const auto see = [&](const std::vector<KernelInstr>& code, const std::vector<bool>& live) {
    bool more = false;
    for (size_t i = 0; i < code.size(); ++i) {
      if (code[i].op != KernelOp::kCarried || !live[i] || needed[code[i].imm]) continue;
      needed[code[i].imm] = more = true;
    }
    return more;
  };
  if (!r.counted) {
    std::vector<bool> live(r.cond.size(), false);
    live[r.condition] = true;
    spread(kernel, r.cond, live);
    see(r.cond, live);
  }
  for (bool more = true; more;) {
    std::vector<bool> live(r.body.size(), false);
    for (size_t c = 0; c < needed.size(); ++c)
      if (needed[c]) live[r.next[c]] = true;
    for (const Store& s : r.stores) live[s.value] = true;
    spread(kernel, r.body, live);
    more = see(r.body, live);
  }
  std::vector<uint32_t> number;
  uint32_t kept = 0;
  for (size_t c = 0; c < needed.size(); ++c) {
    number.push_back(kept);
    if (!needed[c]) continue;
    r.init[kept] = r.init[c];
    r.next[kept] = r.next[c];
    ++kept;
  }
  r.init.resize(kept);
  r.next.resize(kept);
  return number;
}

// What a section computes that something needs, renumbered. `roots`: the values needed from outside.
void prune(LoopKernel& kernel, std::vector<KernelInstr>& code, const std::vector<uint32_t*>& roots) {
  std::vector<bool> live(code.size(), false);
  for (uint32_t* root : roots) live[*root] = true;
  for (size_t i = code.size(); i-- > 0;) {
    if (code[i].op == KernelOp::kRepeat) {
      Repeat& r = kernel.repeats[code[i].imm];
      const auto is_last_value = [&](size_t k) {
        return code[k].op == KernelOp::kRepeated && code[k].operands[0] == i;
      };
      std::vector<bool> read(r.init.size(), false);
      for (size_t k = i + 1; k < code.size(); ++k)
        if (is_last_value(k) && live[k]) read[code[k].imm] = true;
      const std::vector<uint32_t> carried = drop_unneeded(kernel, r, std::move(read));
      for (size_t k = i + 1; k < code.size(); ++k)
        if (is_last_value(k)) code[k].imm = carried[code[k].imm];
      if (!r.counted) prune(kernel, r.cond, {&r.condition});
      std::vector<uint32_t*> needed;
      for (uint32_t& v : r.next) needed.push_back(&v);
      for (Store& s : r.stores) needed.push_back(&s.value);
      prune(kernel, r.body, needed);
      for (auto* inside : {&r.cond, &r.body})
        for (KernelInstr& inner : *inside)
          if (inner.op == KernelOp::kCarried) inner.imm = carried[inner.imm];
    }
    spread(kernel, code, i, live);
  }
  std::vector<uint32_t> number(code.size(), 0);
  uint32_t kept = 0;
  for (size_t i = 0; i < code.size(); ++i) {
    if (!live[i]) continue;
    number[i] = kept;
    KernelInstr instr = code[i];
    for (uint32_t& operand : instr.operands)
      if (operand < i) operand = number[operand];
    if (instr.op == KernelOp::kRepeat) {
      Repeat& r = kernel.repeats[instr.imm];
      for (uint32_t& v : r.init) v = number[v];
      for (auto* inside : {&r.cond, &r.body})
        for (KernelInstr& inner : *inside)
          if (inner.op == KernelOp::kOuter) inner.imm = number[inner.imm];
    }
    code[kept++] = instr;
  }
  code.resize(kept);
  for (uint32_t* root : roots) *root = number[*root];
}

}  // namespace

void drop_unused(LoopKernel& kernel) {
  if (kernel.repeats.empty()) return;
  std::vector<uint32_t*> roots;
  if (kernel.has_reduction) {
    for (uint32_t& v : kernel.reduction.inputs) roots.push_back(&v);
  } else {
    for (Store& s : kernel.stores) roots.push_back(&s.value);
  }
  prune(kernel, kernel.body, roots);
}

bool changes_arrays(const LoopKernel& kernel) {
  bool changes = false;
  for_each_section(kernel, [&](const std::vector<KernelInstr>& section) {
    for (const KernelInstr& i : section) changes |= i.op == KernelOp::kStoreAt || i.op == KernelOp::kCopy;
  });
  return changes;
}

size_t alternating(const LoopKernel& kernel, std::span<const Store> stores, int dim) {
  const Access& first = kernel.accesses[stores[0].access];
  int64_t stride = 0, along = 0;
  for (const AccessTerm& t : first.terms) {
    if (t.dim != dim) continue;
    stride = t.unit;
    ++along;
  }
  if (along != 1 || stride < 2 || std::ssize(stores) < stride) return 1;
  for (int64_t k = 0; k < stride; ++k) {
    Access expected = first;
    expected.beside = static_cast<uint8_t>(k);
    if (kernel.accesses[stores[k].access] != expected) return 1;
  }
  return static_cast<size_t>(stride);
}

bool holds_question(const LoopKernel& kernel) {
  for (const Repeat& r : kernel.repeats)
    if (!r.counted) return true;
  return false;
}

}  // namespace lamina::jit
