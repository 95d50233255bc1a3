// Repeats: loops of steps inside the code of one vector of elements, carried values in registers.
//
// Values that are the same for all lanes stay scalars, and a repeat that has no others is run once per row.
// A condition that differs between lanes becomes a mask: the loop goes on while it holds for any lane, the
// others keep what they have.
#include <llvm/IR/Instructions.h>

#include "jit/codegen/section.h"

namespace lamina::jit::codegen {

using llvm::BasicBlock;
using llvm::Value;

namespace {

constexpr int64_t kPollSteps = 8192;

}  // namespace

void SectionEmitter::address_repeat(Row& row, const Repeat& repeat) {
  const auto known = [&](uint32_t access) {
    for (const AccessTerm& term : kernel_.accesses[access].terms)
      if (term.dim != row.dim && (term.dim >= row.indices.size() || !row.indices[term.dim])) return;
    lanes_.address(row, access);
  };
  for (const auto* code : {&repeat.cond, &repeat.body})
    for (const KernelInstr& instr : *code) {
      if (instr.op == KernelOp::kLoad) known(instr.imm);
      if (instr.op == KernelOp::kRepeat) address_repeat(row, kernel_.repeats[instr.imm]);
    }
}

void SectionEmitter::emit_repeat(Row& row, uint64_t number, const Values& values, Value* index, unsigned n) {
  const Repeat& r = kernel_.repeats[number];
  Inside inside{&row, &values, step_dim(number), n, variance_.carried(r, row.dim, row.varies), {}};
  BasicBlock* head = f_.block("step");
  BasicBlock* go = f_.block("go");
  BasicBlock* after = f_.block("steps_done");
  Values init;
  for (size_t i = 0; i < r.init.size(); ++i)
    init.push_back(value(row, values, r.init[i], inside.carried_vary[i] ? n : 1));
  Value* trips = r.counted ? f_.arg(inside.step_dim) : nullptr;
  const auto pause_after = [&](Value* from) -> Value* {
    Value* at = b_.CreateAdd(from, f_.i64(kPollSteps));
    return trips ? b_.CreateBinaryIntrinsic(llvm::Intrinsic::smin, trips, at) : at;
  };
  Value* first_pause = pause_after(f_.i64(0));
  BasicBlock* before = b_.GetInsertBlock();
  b_.CreateBr(head);

  b_.SetInsertPoint(head);
  llvm::PHINode* step = b_.CreatePHI(b_.getInt64Ty(), 3);
  step->addIncoming(f_.i64(0), before);
  llvm::PHINode* pause_at = b_.CreatePHI(b_.getInt64Ty(), 3);
  pause_at->addIncoming(first_pause, before);
  for (Value* v : init) {
    llvm::PHINode* phi = b_.CreatePHI(v->getType(), 3);
    phi->addIncoming(v, before);
    inside.carried.push_back(phi);
  }
  Values indices = row.indices;
  indices.resize(step_dim(kernel_.repeats.size()), nullptr);
  indices[inside.step_dim] = step;
  // An inner loop up to each pause: its steps look at nothing else but their own condition.
  BasicBlock* pause = f_.block("pause");
  BasicBlock* on = trips ? go : f_.block("condition");
  b_.CreateCondBr(b_.CreateICmpSLT(step, pause_at), on, pause);

  b_.SetInsertPoint(pause);
  Value* more = trips ? b_.CreateICmpSLT(step, trips) : b_.getTrue();
  lanes_.poll(more);
  pause_at->addIncoming(pause_after(step), b_.GetInsertBlock());
  step->addIncoming(step, b_.GetInsertBlock());
  for (Value* v : inside.carried) llvm::cast<llvm::PHINode>(v)->addIncoming(v, b_.GetInsertBlock());
  b_.CreateCondBr(more, head, after);

  Value* active = nullptr;
  if (!trips) {
    b_.SetInsertPoint(on);
    b_.CreateCondBr(emit_condition(r, inside, indices, index, &active), go, after);
  }
  b_.SetInsertPoint(go);
  emit_step(r, inside, indices, index, active);
  step->addIncoming(b_.CreateAdd(step, f_.i64(1)), b_.GetInsertBlock());
  pause_at->addIncoming(pause_at, b_.GetInsertBlock());
  b_.CreateBr(head);
  b_.SetInsertPoint(after);
  if (row.inside) count_steps(step);
  repeated_[number] = inside.carried;
}

// Whether another step is to be made; *active: for which lanes, if they differ.
Value* SectionEmitter::emit_condition(const Repeat& r, const Inside& inside, const Values& indices,
                                      Value* index, Value** active) {
  const unsigned n = inside.lanes;
  Row row = begin(r.cond, inside.outer->dim, indices, {{}, {r.condition}}, nullptr, &inside);
  const Values values = emit(row, index, n);
  if (n == 1 || !row.varies[r.condition]) return value(row, values, r.condition, 1);
  *active = lanes_.within(value(row, values, r.condition, n));
  return lanes_.any(*active);
}

// One step: its stores, and the carried values after it, which flow to where `inside` has them.
void SectionEmitter::emit_step(const Repeat& r, const Inside& inside, const Values& indices, Value* index,
                               Value* active) {
  const unsigned n = inside.lanes;
  const LaneOps::Only only(lanes_, active ? active : lanes_.on());
  Uses uses = uses_of(r.stores);
  uses.values.insert(uses.values.begin(), r.next.begin(), r.next.end());
  Row row = begin(r.body, inside.outer->dim, indices, uses, nullptr, &inside);
  const Values values = emit(row, index, n);
  store(row, r.stores, values, index, n);
  for (size_t i = 0; i < r.next.size(); ++i) {
    auto* phi = llvm::cast<llvm::PHINode>(inside.carried[i]);
    Value* next = value(row, values, r.next[i], inside.carried_vary[i] ? n : 1);
    if (active && next != phi) next = b_.CreateSelect(active, next, phi);
    phi->addIncoming(next, b_.GetInsertBlock());
  }
}

// Many short loops make a long one.
void SectionEmitter::count_steps(Value* made) {
  if (!inner_steps_) {
    llvm::IRBuilder<> at = f_.at_entry();
    inner_steps_ = at.CreateAlloca(at.getInt64Ty(), nullptr, "inner_steps");
    at.CreateStore(at.getInt64(0), inner_steps_);
  }
  Value* steps = b_.CreateAdd(b_.CreateLoad(b_.getInt64Ty(), inner_steps_), made);
  Value* due = b_.CreateICmpSGE(steps, f_.i64(kPollSteps));
  b_.CreateStore(b_.CreateSelect(due, f_.i64(0), steps), inner_steps_);
  lanes_.poll(due);
}

}  // namespace lamina::jit::codegen
