// Repeats: loops of steps inside the code of one vector of elements, carried values in registers.
//
// Values that are the same for all lanes stay scalars, and a repeat that has no others is run once per row.
// A condition that differs between lanes becomes a mask: the loop goes on while it holds for any lane, the
// others keep what they have.
#include <llvm/IR/Instructions.h>
#include <llvm/IR/MDBuilder.h>

#include <algorithm>
#include <cstddef>

#include "jit/codegen/emit_kernel.h"

namespace lamina::jit::cpu {

using llvm::BasicBlock;
using llvm::Value;

namespace {

constexpr int64_t kPollSteps = 8192;

}  // namespace

std::vector<bool> KernelEmitter::variance(const Instrs& section, int dim, const std::vector<bool>& outer,
                                          const std::vector<bool>& carried) const {
  std::vector<bool> varies(section.size(), false);
  for (size_t i = 0; i < section.size(); ++i) {
    const KernelInstr& instr = section[i];
    bool v = false;
    switch (instr.op) {
      case KernelOp::kLoad:
        v = access_varies(instr.imm, dim);
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
        varies[i] = repeat_varies(kernel_.repeats[instr.imm], dim, varies);
        continue;
      default:
        break;
    }
    for_each_operand(kernel_, instr, [&](uint32_t o) { v = v || varies[o]; });
    varies[i] = v;
  }
  return varies;
}

std::vector<bool> KernelEmitter::carried_variance(const Repeat& repeat, int dim,
                                                  const std::vector<bool>& outer) const {
  std::vector<bool> carried;
  for (uint32_t v : repeat.init) carried.push_back(outer[v]);
  while (true) {
    if (!repeat.counted && variance(repeat.cond, dim, outer, carried)[repeat.condition])
      carried.assign(carried.size(), true);
    const std::vector<bool> body = variance(repeat.body, dim, outer, carried);
    bool changed = false;
    for (size_t i = 0; i < carried.size(); ++i) {
      if (carried[i] || !body[repeat.next[i]]) continue;
      carried[i] = changed = true;
    }
    if (!changed) return carried;
  }
}

bool KernelEmitter::repeat_varies(const Repeat& repeat, int dim, const std::vector<bool>& outer) const {
  const std::vector<bool> carried = carried_variance(repeat, dim, outer);
  if (std::find(carried.begin(), carried.end(), true) != carried.end()) return true;
  for (const auto* code : {&repeat.cond, &repeat.body}) {
    const std::vector<bool> varies = variance(*code, dim, outer, carried);
    for (size_t i = 0; i < code->size(); ++i)
      if (varies[i] && (*code)[i].op == KernelOp::kRepeat) return true;
    if (code == &repeat.cond && !repeat.counted && varies[repeat.condition]) return true;
    if (code == &repeat.body)
      for (const Store& s : repeat.stores)
        if (varies[s.value] || access_varies(s.access, dim)) return true;
  }
  return false;
}

void KernelEmitter::address_repeat(Row& row, const Repeat& repeat) {
  const auto known = [&](uint32_t access) {
    for (const AccessTerm& term : kernel_.accesses[access].terms)
      if (term.dim != row.dim && (term.dim >= row.indices.size() || !row.indices[term.dim])) return;
    address_row(row, access);
  };
  for (const auto* code : {&repeat.cond, &repeat.body})
    for (const KernelInstr& instr : *code) {
      if (instr.op == KernelOp::kLoad) known(instr.imm);
      if (instr.op == KernelOp::kRepeat) address_repeat(row, kernel_.repeats[instr.imm]);
    }
}

// Between steps: looks at the flag, or asks, if `due`.
void KernelEmitter::poll_steps(Value* due) {
  auto& context = module_.getContext();
  llvm::Function* function = b_.GetInsertBlock()->getParent();
  auto* poll = BasicBlock::Create(context, "poll", function);
  auto* on = BasicBlock::Create(context, "on", function);
  llvm::MDBuilder weights(context);
  b_.CreateCondBr(due, poll, on, weights.createBranchWeights(1, 2000));
  b_.SetInsertPoint(poll);
  const bool asks =
      std::any_of(kernel_.repeats.begin(), kernel_.repeats.end(), [](const Repeat& r) { return !r.counted; });
  if (asks) {
    Value* function_at = b_.CreateConstGEP1_64(b_.getInt8Ty(), cancel_, offsetof(CancelQuestion, ask));
    auto* type = llvm::FunctionType::get(b_.getInt32Ty(), {b_.getPtrTy()}, false);
    llvm::CallInst* stop = b_.CreateCall(type, b_.CreateLoad(b_.getPtrTy(), function_at), {cancel_});
    stop->setDoesNotThrow();
    b_.CreateCondBr(b_.CreateICmpEQ(stop, b_.getInt32(0)), on, cancelled_);
  } else {
    poll_cancel();
    b_.CreateBr(on);
  }
  b_.SetInsertPoint(on);
}

// Whether another step is to be made; *active: for which lanes, if they differ.
Value* KernelEmitter::emit_condition(Row& row, Value* index, unsigned lanes, Value** active) {
  const Repeat& r = kernel_.repeats[row.inside->step_dim - step_dim(0)];
  const Values values = emit_section(row, index, lanes);
  if (lanes == 1 || !row.varies[r.condition]) return row_value(row, values, r.condition, 1);
  *active = within_row(row_value(row, values, r.condition, lanes));
  return b_.CreateOrReduce(*active);
}

void KernelEmitter::emit_repeat(Row& row, uint64_t number, const Values& values, Value* index,
                                unsigned lanes) {
  const Repeat& r = kernel_.repeats[number];
  Inside inside{&row, &values, step_dim(number), lanes, carried_variance(r, row.dim, row.varies), {}};
  const auto width = [&](size_t i) { return inside.carried_vary[i] ? lanes : 1; };
  auto& context = module_.getContext();
  llvm::Function* function = b_.GetInsertBlock()->getParent();
  auto* head = BasicBlock::Create(context, "step", function);
  auto* go = BasicBlock::Create(context, "go", function);
  auto* after = BasicBlock::Create(context, "steps_done", function);
  Values init;
  for (size_t i = 0; i < r.init.size(); ++i) init.push_back(row_value(row, values, r.init[i], width(i)));
  Value* trips = r.counted ? arg(inside.step_dim) : nullptr;
  BasicBlock* before = b_.GetInsertBlock();
  b_.CreateBr(head);

  b_.SetInsertPoint(head);
  llvm::PHINode* step = b_.CreatePHI(b_.getInt64Ty(), 2);
  step->addIncoming(i64(0), before);
  for (Value* v : init) {
    llvm::PHINode* phi = b_.CreatePHI(v->getType(), 2);
    phi->addIncoming(v, before);
    inside.carried.push_back(phi);
  }
  Values indices = row.indices;
  indices.resize(step_dim(kernel_.repeats.size()), nullptr);
  indices[inside.step_dim] = step;
  Value* active = nullptr;
  Value* more;
  if (r.counted) {
    more = b_.CreateICmpSLT(step, trips);
  } else {
    Row cond = begin_row(r.cond, row.dim, indices, {}, {r.condition}, nullptr, &inside);
    more = emit_condition(cond, index, lanes, &active);
  }
  b_.CreateCondBr(more, go, after);

  b_.SetInsertPoint(go);
  poll_steps(b_.CreateICmpEQ(b_.CreateAnd(step, i64(kPollSteps - 1)), i64(kPollSteps - 1)));
  Value* around = row_mask_;
  if (active) row_mask_ = active;
  std::vector<uint32_t> uses = r.next, accesses;
  for (const Store& s : r.stores) {
    uses.push_back(s.value);
    accesses.push_back(s.access);
  }
  Row inner = begin_row(r.body, row.dim, indices, accesses, uses, nullptr, &inside);
  const Values made = emit_section(inner, index, lanes);
  emit_stores(inner, r.stores, made, index, lanes);
  for (size_t i = 0; i < init.size(); ++i) {
    auto* phi = llvm::cast<llvm::PHINode>(inside.carried[i]);
    Value* next = row_value(inner, made, r.next[i], width(i));
    if (active && next != phi) next = b_.CreateSelect(active, next, phi);
    phi->addIncoming(next, b_.GetInsertBlock());
  }
  row_mask_ = around;
  step->addIncoming(b_.CreateAdd(step, i64(1)), b_.GetInsertBlock());
  b_.CreateBr(head);
  b_.SetInsertPoint(after);
  if (row.inside) {
    // Many short loops make a long one.
    if (!inner_steps_) {
      llvm::IRBuilder<> at(entry_end_);
      inner_steps_ = at.CreateAlloca(at.getInt64Ty(), nullptr, "inner_steps");
      at.CreateStore(at.getInt64(0), inner_steps_);
    }
    Value* steps = b_.CreateAdd(b_.CreateLoad(b_.getInt64Ty(), inner_steps_), step);
    Value* due = b_.CreateICmpSGE(steps, i64(kPollSteps));
    b_.CreateStore(b_.CreateSelect(due, i64(0), steps), inner_steps_);
    poll_steps(due);
  }
  repeated_[number] = inside.carried;
}

}  // namespace lamina::jit::cpu
