#include "jit/codegen/variance.h"

#include <algorithm>

namespace lamina::jit::codegen {

bool Variance::access(uint32_t access, int dim) const {
  for (const AccessTerm& term : kernel_.accesses[access].terms)
    if (term.dim == dim) return true;
  return false;
}

std::vector<bool> Variance::section(const std::vector<KernelInstr>& code, int dim,
                                    const std::vector<bool>& outer, const std::vector<bool>& carried,
                                    const std::vector<bool>& steady) const {
  std::vector<bool> varies(code.size(), false);
  for (size_t i = 0; i < code.size(); ++i) {
    if (!steady.empty() && steady[i]) continue;
    const KernelInstr& instr = code[i];
    bool v = false;
    switch (instr.op) {
      case KernelOp::kLoad:
        v = access(instr.imm, dim);
        break;
      case KernelOp::kIndex:
        v = static_cast<int>(instr.imm) == dim;
        break;
      case KernelOp::kReduced:
        v = dim >= 0;
        break;
      case KernelOp::kCarried:
        v = carried[instr.imm];
        break;
      case KernelOp::kOuter:
        v = outer[instr.imm];
        break;
      case KernelOp::kRepeat:
        varies[i] = repeat(kernel_.repeats[instr.imm], dim, varies);
        continue;
      default:
        break;
    }
    for_each_operand(kernel_, instr, [&](uint32_t o) { v = v || varies[o]; });
    varies[i] = v;
  }
  return varies;
}

std::vector<bool> Variance::carried(const Repeat& repeat, int dim, const std::vector<bool>& outer) const {
  std::vector<bool> carried;
  for (uint32_t v : repeat.init) carried.push_back(outer[v]);
  while (true) {
    if (!repeat.counted && section(repeat.cond, dim, outer, carried)[repeat.condition])
      carried.assign(carried.size(), true);
    const std::vector<bool> body = section(repeat.body, dim, outer, carried);
    bool changed = false;
    for (size_t i = 0; i < carried.size(); ++i) {
      if (carried[i] || !body[repeat.next[i]]) continue;
      carried[i] = changed = true;
    }
    if (!changed) return carried;
  }
}

bool Variance::repeat(const Repeat& repeat, int dim, const std::vector<bool>& outer) const {
  const std::vector<bool> around = carried(repeat, dim, outer);
  if (std::find(around.begin(), around.end(), true) != around.end()) return true;
  for (const auto* code : {&repeat.cond, &repeat.body}) {
    const std::vector<bool> varies = section(*code, dim, outer, around);
    for (size_t i = 0; i < code->size(); ++i)
      if (varies[i] && (*code)[i].op == KernelOp::kRepeat) return true;
    if (code == &repeat.cond && !repeat.counted && varies[repeat.condition]) return true;
    if (code == &repeat.body)
      for (const Store& s : repeat.stores)
        if (varies[s.value] || access(s.access, dim)) return true;
  }
  return false;
}

}  // namespace lamina::jit::codegen
