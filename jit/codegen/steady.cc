#include "jit/codegen/steady.h"

namespace lamina::jit::codegen {

using hlo::Prim;
using llvm::Value;

SteadyConditions::SteadyConditions(const std::vector<KernelInstr>& section, int dim)
    : section_(section), dim_(dim), conditions_(section.size(), false) {
  for (uint32_t i = 0; i < section.size(); ++i) see(i);
}

bool SteadyConditions::is_bound(uint32_t value) const {
  const KernelInstr& i = section_[value];
  if (i.op == KernelOp::kArg) return i.type == DType::kS64;
  return i.op == KernelOp::kPrim && i.prim == Prim::bitcast && is_bound(i.operands[0]);
}

bool SteadyConditions::is_along(uint32_t value, Bound* offset) const {
  const KernelInstr& i = section_[value];
  if (i.op == KernelOp::kIndex) return static_cast<int>(i.imm) == dim_;
  if (i.op != KernelOp::kPrim) return false;
  if (i.prim == Prim::bitcast) return is_along(i.operands[0], offset);
  if (i.prim != Prim::add) return false;
  for (int k = 0; k < 2; ++k) {
    if (!is_bound(i.operands[1 - k]) || !is_along(i.operands[k], offset) || *offset) continue;
    *offset = i.operands[1 - k];
    return true;
  }
  return false;
}

void SteadyConditions::see(uint32_t condition) {
  const KernelInstr& i = section_[condition];
  if (i.op != KernelOp::kPrim || (i.prim != Prim::lt && i.prim != Prim::le)) return;
  const DType type = section_[i.operands[0]].type;
  if (type != DType::kS64 && type != DType::kU64) return;
  for (int k = 0; k < 2; ++k) {
    Bound offset;
    if (!is_along(i.operands[k], &offset) || !is_bound(i.operands[1 - k])) continue;
    conditions_[condition] = true;
    // It is another one at the bound where equal is as above it, else behind it.
    changes_.push_back({i.operands[1 - k], offset, (i.prim == Prim::lt) == (k == 1)});
    if (type == DType::kU64) changes_.push_back({std::nullopt, offset, false});
    return;
  }
}

Value* SteadyConditions::number(FunctionBuilder& f, Bound bound) const {
  if (!bound) return f.i64(0);
  const KernelInstr& i = section_[*bound];
  return i.op == KernelOp::kArg ? f.arg(static_cast<uint32_t>(i.imm)) : number(f, i.operands[0]);
}

Value* SteadyConditions::next(FunctionBuilder& f, Value* begin, Value* end) const {
  llvm::IRBuilder<>& b = f.builder();
  for (const Change& c : changes_) {
    Value* place = number(f, c.bound);
    if (c.offset) place = b.CreateSub(place, number(f, c.offset));
    if (c.after) place = b.CreateAdd(place, f.i64(1));
    Value* ahead = b.CreateAnd(b.CreateICmpSGT(place, begin), b.CreateICmpSLT(place, end));
    end = b.CreateSelect(ahead, place, end);
  }
  return end;
}

}  // namespace lamina::jit::codegen
