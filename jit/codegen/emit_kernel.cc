#include "jit/codegen/emit_kernel.h"

#include <llvm/IR/Constants.h>
#include <llvm/IR/DerivedTypes.h>
#include <llvm/IR/Function.h>
#include <llvm/IR/Instructions.h>
#include <llvm/IR/Intrinsics.h>
#include <llvm/IR/MDBuilder.h>

#include <algorithm>

namespace lamina::jit::cpu {

using llvm::BasicBlock;
using llvm::Type;
using llvm::Value;

namespace {

constexpr int64_t kPollElements = 65536;

}  // namespace

// A body of so many instructions is a chain of which the processor sees too little ahead: two vectors side by
// side fill the time that one waits for itself, and four where it is longer still.
constexpr size_t kLongBody = 24;

// The steps of a repeat wait for each other: vectors side by side fill the time, as long as their carried
// values have registers.
constexpr size_t kMostCarriedByFour = 3, kMostCarriedByTwo = 6;

// Types of 4 bytes and more decide: with one of them a register is filled, with two the wider takes two
// registers.
unsigned KernelEmitter::single_lanes(const LoopKernel& kernel, unsigned vector_bits) {
  int64_t widest = 1, narrowest = 8;
  auto see = [&](DType t) {
    widest = std::max(widest, hlo::byte_size(t));
    if (hlo::byte_size(t) >= 4) narrowest = std::min(narrowest, hlo::byte_size(t));
  };
  for_each_section(kernel, [&](const Instrs& section) {
    for (const KernelInstr& instr : section)
      if (instr.op != KernelOp::kArg && instr.op != KernelOp::kRepeat) see(instr.type);
  });
  for (const hlo::ScalarInstr& instr : kernel.reduction.combine.code) see(instr.type);
  const int64_t bytes = widest >= 4 ? narrowest : widest;
  return static_cast<unsigned>(vector_bits / 8 / bytes);
}

unsigned KernelEmitter::side_by_side(const LoopKernel& kernel) {
  if (!kernel.repeats.empty()) {
    size_t carried = 0;
    for (const Repeat& r : kernel.repeats) carried = std::max(carried, r.init.size());
    return carried <= kMostCarriedByFour && !is_long(kernel) ? 4 : carried <= kMostCarriedByTwo ? 2 : 1;
  }
  return !is_long(kernel) ? 1 : kernel.body.size() < 4 * kLongBody ? 2 : 4;
}

bool KernelEmitter::is_long(const LoopKernel& kernel) {
  if (kernel.repeats.empty()) return !kernel.has_reduction && kernel.body.size() >= kLongBody;
  size_t size = 0;
  for (const Repeat& r : kernel.repeats) size += r.cond.size() + r.body.size();
  return size >= 4 * kLongBody;
}

KernelEmitter::KernelEmitter(const LoopKernel& kernel, const Schedule& schedule, const TargetText& target,
                             llvm::Module& module)
    : kernel_(kernel),
      target_(target),
      module_(module),
      b_(module.getContext()),
      prim_(b_),
      lanes_(0),
      single_(single_lanes(kernel, target.vector_bits)),
      along_(kernel.parallel_rank == 0 || schedule.reduce == ReduceForm::kAlongReduced),
      args_(kernel.num_args, nullptr),
      buffers_(kernel.buffers.size(), nullptr),
      repeated_(kernel.repeats.size()) {
  lanes_ = std::max(single_, std::min(side_by_side(kernel) * single_, kMostMasked));
}

void KernelEmitter::set_attributes(llvm::Function* function) {
  function->addFnAttr(llvm::Attribute::NoUnwind);
  function->addFnAttr("target-cpu", target_.cpu);
  function->addFnAttr("target-features", target_.features);
  const std::string bits = std::to_string(target_.vector_bits);
  function->addFnAttr("prefer-vector-width", bits);
  function->addFnAttr("min-legal-vector-width", bits);
  function->addFnAttr("no-builtins");
}

llvm::Function* KernelEmitter::make_function(const char* name, Type* result, llvm::ArrayRef<Type*> parameters,
                                             bool external) {
  auto* type = llvm::FunctionType::get(result, parameters, false);
  auto* function = llvm::Function::Create(
      type, external ? llvm::GlobalValue::ExternalLinkage : llvm::GlobalValue::InternalLinkage, name,
      module_);
  set_attributes(function);
  return function;
}

void KernelEmitter::emit() {
  if (kernel_.has_reduction) {
    layout_levels();
    emit_combine_rows();
    emit_fold_rows();
    emit_push();
    if (along_) emit_fold_block();
  }
  Type* ptr = b_.getPtrTy();
  Type* i64_type = b_.getInt64Ty();
  function_ = make_function(kEntryName, b_.getInt32Ty(),
                            {ptr, ptr, i64_type, i64_type, i64_type, i64_type, ptr}, true);
  auto& context = module_.getContext();
  auto* entry = BasicBlock::Create(context, "entry", function_);
  auto* start = BasicBlock::Create(context, "start", function_);
  cancelled_ = BasicBlock::Create(context, "cancelled", function_);
  b_.SetInsertPoint(cancelled_);
  b_.CreateRet(b_.getInt32(1));
  b_.SetInsertPoint(entry);
  entry_end_ = b_.CreateBr(start);
  b_.SetInsertPoint(entry_end_);
  zero_slot_ = b_.CreateAlloca(i64_type, nullptr, "zero");
  b_.CreateStore(i64(0), zero_slot_);
  const auto level = [&] {
    auto* block = b_.CreateAlloca(llvm::ArrayType::get(b_.getInt8Ty(), level_bytes_), nullptr, "level");
    block->setAlignment(llvm::Align(64));
    return block;
  };
  if (kernel_.has_reduction) {
    for (Value*& l : levels_) l = level();
    if (along_) rows_ = level();
  }
  b_.SetInsertPoint(start);
  cancel_ = function_->getArg(6);
  Value* outer_begin = function_->getArg(2);
  Value* outer_end = function_->getArg(3);
  Value* inner_begin = function_->getArg(4);
  Value* inner_end = function_->getArg(5);
  Value* any =
      b_.CreateAnd(b_.CreateICmpSLT(outer_begin, outer_end), b_.CreateICmpSLT(inner_begin, inner_end));
  if_then(any, [&] {
    if (!kernel_.has_reduction) {
      emit_elementwise(outer_begin, outer_end, inner_begin, inner_end);
    } else if (along_) {
      emit_along(outer_begin, outer_end, inner_begin, inner_end);
    } else {
      emit_across(outer_begin, outer_end, inner_begin, inner_end);
    }
  });
  b_.CreateRet(b_.getInt32(0));
}

// ---- control flow

KernelEmitter::Values KernelEmitter::loop(Value* begin, Value* end, Value* step, const Values& init,
                                          const LoopBody& body) {
  auto& context = module_.getContext();
  llvm::Function* function = b_.GetInsertBlock()->getParent();
  BasicBlock* before = b_.GetInsertBlock();
  auto* inside = BasicBlock::Create(context, "loop", function);
  auto* after = BasicBlock::Create(context, "after", function);
  b_.CreateCondBr(b_.CreateICmpSLT(begin, end), inside, after);
  b_.SetInsertPoint(inside);
  llvm::PHINode* index = b_.CreatePHI(begin->getType(), 2);
  index->addIncoming(begin, before);
  Values carried;
  for (Value* v : init) {
    llvm::PHINode* phi = b_.CreatePHI(v->getType(), 2);
    phi->addIncoming(v, before);
    carried.push_back(phi);
  }
  const Values next_values = body(index, carried);
  Value* next = b_.CreateAdd(index, step);
  BasicBlock* latch = b_.GetInsertBlock();
  index->addIncoming(next, latch);
  for (size_t i = 0; i < carried.size(); ++i)
    llvm::cast<llvm::PHINode>(carried[i])->addIncoming(next_values[i], latch);
  b_.CreateCondBr(b_.CreateICmpSLT(next, end), inside, after);
  b_.SetInsertPoint(after);
  Values results;
  for (size_t i = 0; i < init.size(); ++i) {
    llvm::PHINode* phi = b_.CreatePHI(init[i]->getType(), 2);
    phi->addIncoming(init[i], before);
    phi->addIncoming(next_values[i], latch);
    results.push_back(phi);
  }
  return results;
}

void KernelEmitter::if_then(Value* condition, const std::function<void()>& then) {
  auto& context = module_.getContext();
  llvm::Function* function = b_.GetInsertBlock()->getParent();
  auto* inside = BasicBlock::Create(context, "then", function);
  auto* after = BasicBlock::Create(context, "after", function);
  b_.CreateCondBr(condition, inside, after);
  b_.SetInsertPoint(inside);
  then();
  b_.CreateBr(after);
  b_.SetInsertPoint(after);
}

void KernelEmitter::poll_cancel() {
  auto* flag = b_.CreateAlignedLoad(b_.getInt32Ty(), cancel_, llvm::Align(4));
  flag->setAtomic(llvm::AtomicOrdering::Monotonic);
  auto* on = BasicBlock::Create(module_.getContext(), "on", b_.GetInsertBlock()->getParent());
  b_.CreateCondBr(b_.CreateICmpEQ(flag, b_.getInt32(0)), on, cancelled_);
  b_.SetInsertPoint(on);
}

void KernelEmitter::row_part(Value* begin, Value* end, const RowBody& body) {
  Value* whole = b_.CreateAnd(b_.CreateSub(end, begin), i64(-static_cast<int64_t>(lanes_)));
  Value* vectors_end = b_.CreateAdd(begin, whole);
  loop(begin, vectors_end, i64(lanes_), {}, [&](Value* i, const Values&) -> Values {
    body(i, lanes_);
    return {};
  });
  loop(vectors_end, end, i64(1), {}, [&](Value* i, const Values&) -> Values {
    body(i, 1);
    return {};
  });
}

void KernelEmitter::masked(Value* index, Value* end, unsigned lanes, const std::function<void()>& body) {
  row_left_ = b_.CreateBinaryIntrinsic(llvm::Intrinsic::umin, b_.CreateSub(end, index), i64(lanes));
  Value* bits = b_.CreateLShr(i64(-1), b_.CreateSub(i64(64), row_left_));
  row_mask_ = b_.CreateBitCast(b_.CreateTrunc(bits, b_.getIntNTy(lanes)), prim_.type(DType::kBool, lanes));
  body();
  row_mask_ = row_left_ = nullptr;
}

// A long body is emitted once, always masked; a short one also without a mask.
void KernelEmitter::masked_row_part(Value* begin, Value* end, const RowBody& body) {
  if (is_long(kernel_)) {
    loop(begin, end, i64(lanes_), {}, [&](Value* i, const Values&) -> Values {
      masked(i, end, lanes_, [&] { body(i, lanes_); });
      return {};
    });
    return;
  }
  Value* whole = b_.CreateAnd(b_.CreateSub(end, begin), i64(-static_cast<int64_t>(lanes_)));
  Value* vectors_end = b_.CreateAdd(begin, whole);
  loop(begin, vectors_end, i64(lanes_), {}, [&](Value* i, const Values&) -> Values {
    body(i, lanes_);
    return {};
  });
  if_then(b_.CreateICmpSLT(vectors_end, end),
          [&] { masked(vectors_end, end, lanes_, [&] { body(vectors_end, lanes_); }); });
}

void KernelEmitter::repeat_row_part(Value* begin, Value* end, const RowBody& body) {
  const bool masks = target_.has_masks && lanes_ <= kMostMasked;
  const auto whole_vectors = [&](Value* from, unsigned lanes) {
    Value* whole = b_.CreateAnd(b_.CreateSub(end, from), i64(-static_cast<int64_t>(lanes)));
    Value* stop = b_.CreateAdd(from, whole);
    loop(from, stop, i64(lanes), {}, [&](Value* i, const Values&) -> Values {
      body(i, lanes);
      return {};
    });
    return stop;
  };
  // A long body is emitted once.
  const unsigned rest = masks && is_long(kernel_) ? lanes_ : single_;
  Value* from = lanes_ > rest ? whole_vectors(begin, lanes_) : begin;
  if (!masks) from = whole_vectors(from, single_);
  loop(from, end, i64(masks ? rest : 1), {}, [&](Value* i, const Values&) -> Values {
    if (masks)
      masked(i, end, rest, [&] { body(i, rest); });
    else
      body(i, 1);
    return {};
  });
}

Value* KernelEmitter::within_row(Value* predicate) {
  if (!row_mask_ || !predicate) return predicate ? predicate : row_mask_;
  return b_.CreateAnd(predicate, row_mask_);
}

void KernelEmitter::row_loop(Value* begin, Value* end, const RowBody& body) {
  loop(begin, end, i64(kPollElements), {}, [&](Value* strip, const Values&) -> Values {
    poll_cancel();
    Value* stop =
        b_.CreateBinaryIntrinsic(llvm::Intrinsic::smin, b_.CreateAdd(strip, i64(kPollElements)), end);
    if (!kernel_.repeats.empty())
      repeat_row_part(strip, stop, body);
    else if (target_.has_masks && lanes_ <= kMostMasked)
      masked_row_part(strip, stop, body);
    else
      row_part(strip, stop, body);
    return {};
  });
}

// ---- arguments

Value* KernelEmitter::arg(uint32_t slot) {
  if (!args_[slot]) {
    llvm::IRBuilder<> at(entry_end_);
    args_[slot] =
        at.CreateLoad(at.getInt64Ty(), at.CreateConstGEP1_64(at.getInt64Ty(), function_->getArg(1), slot));
  }
  return args_[slot];
}

Value* KernelEmitter::buffer(uint32_t index) {
  if (!buffers_[index]) {
    llvm::IRBuilder<> at(entry_end_);
    buffers_[index] =
        at.CreateLoad(at.getPtrTy(), at.CreateConstGEP1_64(at.getPtrTy(), function_->getArg(0), index));
  }
  return buffers_[index];
}

KernelEmitter::Values KernelEmitter::decompose(Value* linear, unsigned first, unsigned count) {
  Values result(count);
  for (unsigned d = count; d-- > 1;) {
    Value* extent = b_.CreateBinaryIntrinsic(llvm::Intrinsic::smax, arg(first + d), i64(1));
    Value* quotient = b_.CreateUDiv(linear, extent);
    result[d] = b_.CreateSub(linear, b_.CreateMul(quotient, extent));
    linear = quotient;
  }
  if (count > 0) result[0] = linear;
  return result;
}

KernelEmitter::Values KernelEmitter::increment(const Values& indices, unsigned first) {
  Values result = indices;
  Value* carry = b_.getTrue();
  for (size_t d = indices.size(); d-- > 0;) {
    Value* next = b_.CreateAdd(indices[d], b_.CreateZExt(carry, b_.getInt64Ty()));
    if (d == 0) {
      result[d] = next;
      break;
    }
    carry = b_.CreateICmpEQ(next, arg(first + d));
    result[d] = b_.CreateSelect(carry, i64(0), next);
  }
  return result;
}

// ---- rows

bool KernelEmitter::access_varies(uint32_t access, int dim) const {
  for (const AccessTerm& term : kernel_.accesses[access].terms)
    if (term.dim == dim) return true;
  return false;
}

void KernelEmitter::address_row(Row& row, uint32_t access) {
  if (row.pointers[access]) return;
  if (row.inside && row.inside->outer->pointers[access] && !access_varies(access, row.inside->step_dim)) {
    row.pointers[access] = row.inside->outer->pointers[access];
    row.strides[access] = row.inside->outer->strides[access];
    row.pairs[access] = row.inside->outer->pairs[access];
    return;
  }
  const Access& a = kernel_.accesses[access];
  Value* offset = a.offset_slot < 0 ? i64(0) : arg(a.offset_slot);
  Value* stride = nullptr;
  int along = 0;
  bool unit = false, pair = false;
  for (const AccessTerm& term : a.terms) {
    Value* s = term.unit ? i64(term.unit) : arg(term.stride_slot);
    if (term.dim == row.dim) {
      unit = term.unit == 1;
      pair = term.unit == 2;
      stride = stride ? b_.CreateAdd(stride, s) : s;
      ++along;
    } else {
      Value* index = row.indices[term.dim];
      offset = b_.CreateAdd(offset, term.unit == 1 ? index : b_.CreateMul(index, s));
    }
  }
  row.strides[access] = along == 1 && unit ? nullptr : stride;
  row.pairs[access] = along == 1 && pair;
  row.pointers[access] =
      b_.CreateGEP(prim_.memory_type(kernel_.buffers[a.buffer].type, 1), buffer(a.buffer), offset);
}

KernelEmitter::Row KernelEmitter::begin_row(const Instrs& section, int dim, const Values& indices,
                                            const std::vector<uint32_t>& more_accesses,
                                            const std::vector<uint32_t>& vector_uses, Reduced reduced,
                                            const Inside* inside) {
  Row row;
  row.dim = dim;
  row.indices = indices;
  row.section = &section;
  row.reduced = std::move(reduced);
  row.inside = inside;
  const size_t n = section.size();
  row.uniform.assign(n, nullptr);
  row.splats.assign(n, nullptr);
  row.pointers.assign(kernel_.accesses.size(), nullptr);
  row.strides.assign(kernel_.accesses.size(), nullptr);
  row.pairs.assign(kernel_.accesses.size(), false);
  // Scalar code of a repeat is made in one piece, so that what is rarely needed stands behind its guards.
  const std::vector<bool> none;
  if (!inside)
    row.varies = variance(section, dim, none, none);
  else if (inside->lanes == 1)
    row.varies.assign(n, true);
  else
    row.varies = variance(section, dim, inside->outer->varies, inside->carried_vary);
  std::vector<bool> wanted(n, false);
  for (uint32_t access : more_accesses) address_row(row, access);
  for (size_t i = 0; i < n; ++i) {
    const KernelInstr& instr = section[i];
    if (instr.op == KernelOp::kLoad) address_row(row, instr.imm);
    if (instr.op == KernelOp::kRepeat) address_repeat(row, kernel_.repeats[instr.imm]);
    if (row.varies[i])
      for_each_operand(kernel_, instr, [&](uint32_t v) { wanted[v] = true; });
    else
      row.uniform[i] = emit_instr(row, instr, {}, nullptr, 1);
  }
  for (uint32_t use : vector_uses) wanted[use] = true;
  const unsigned lanes = inside ? inside->lanes : lanes_;
  for (size_t i = 0; i < n; ++i) {
    if (!wanted[i] || row.varies[i] || section[i].op == KernelOp::kRepeat) continue;
    Value* known = section[i].op == KernelOp::kOuter && lanes == lanes_
                       ? inside->outer->splats[section[i].imm]
                       : nullptr;
    row.splats[i] = known ? known : splat(row.uniform[i], lanes);
  }

  std::vector<uint32_t> position(n, 0), varying;
  for (uint32_t i = 0; i < n; ++i) {
    if (!row.varies[i]) continue;
    position[i] = static_cast<uint32_t>(varying.size());
    varying.push_back(i);
  }
  std::vector<hlo::ScheduleInput> code(varying.size());
  std::vector<bool> read(varying.size(), false);
  for (uint32_t use : vector_uses)
    if (row.varies[use]) read[position[use]] = true;
  for (size_t i = 0; i < varying.size(); ++i) {
    const KernelInstr& instr = section[varying[i]];
    for_each_operand(kernel_, instr, [&](uint32_t v) {
      if (row.varies[v]) code[i].operands.push_back(position[v]);
    });
    // Guarded code is made for one lane, which these are not.
    read[i] = read[i] || instr.op == KernelOp::kRepeat || instr.op == KernelOp::kRepeated ||
              instr.op == KernelOp::kCarried || instr.op == KernelOp::kOuter;
    if (instr.op == KernelOp::kPrim && instr.prim == Prim::select_rare && row.varies[instr.operands[1]])
      code[i].rare_operand = static_cast<int32_t>(position[instr.operands[1]]);
  }
  row.order = hlo::schedule(code, read);
  for (hlo::Scheduled& s : row.order) s.instr = varying[s.instr];
  return row;
}

Value* KernelEmitter::row_value(Row& row, const Values& values, uint32_t id, unsigned lanes) {
  if (row.varies[id]) return values[id];
  if (lanes == 1) return row.uniform[id];
  // Rows end in vectors narrower than those that their splats were made for.
  return !row.inside && lanes != lanes_ ? splat(row.uniform[id], lanes) : row.splats[id];
}

KernelEmitter::Values KernelEmitter::emit_section(Row& row, Value* index, unsigned lanes) {
  const Instrs& section = *row.section;
  Values values(section.size(), nullptr);
  for (size_t at = 0; at < row.order.size(); ++at) {
    const hlo::Scheduled& s = row.order[at];
    if (s.guarded)
      at = emit_guarded(row, at, values, index, lanes);
    else
      values[s.instr] = emit_instr(row, section[s.instr], values, index, lanes);
  }
  return values;
}

size_t KernelEmitter::emit_guarded(Row& row, size_t guard, Values& values, Value* index, unsigned lanes) {
  const hlo::Scheduled& s = row.order[guard];
  const KernelInstr& select = (*row.section)[s.instr];
  Value* chosen = row_value(row, values, select.operands[0], lanes);
  Value* usual = row_value(row, values, select.operands[2], lanes);
  if (lanes > 1) chosen = within_row(chosen);
  Value* any = lanes == 1 ? chosen : b_.CreateOrReduce(chosen);
  llvm::Function* function = b_.GetInsertBlock()->getParent();
  auto* rare = BasicBlock::Create(module_.getContext(), "rare", function);
  auto* after = BasicBlock::Create(module_.getContext(), "usual", function);
  BasicBlock* before = b_.GetInsertBlock();
  llvm::MDBuilder weights(module_.getContext());
  b_.CreateCondBr(any, rare, after, weights.createBranchWeights(1, 2000));
  b_.SetInsertPoint(rare);
  Value* result = lanes == 1 ? emit_rare(row, guard, values, index)
                             : emit_rare_lanes(row, guard, values, chosen, usual, index, lanes);
  rare = b_.GetInsertBlock();
  b_.CreateBr(after);
  b_.SetInsertPoint(after);
  llvm::PHINode* phi = b_.CreatePHI(usual->getType(), 2);
  phi->addIncoming(result, rare);
  phi->addIncoming(usual, before);
  values[s.instr] = phi;
  return guard + s.guarded + 1;
}

Value* KernelEmitter::emit_rare(Row& row, size_t guard, Values& values, Value* index) {
  const hlo::Scheduled& s = row.order[guard];
  for (size_t at = guard + 1; at <= guard + s.guarded; ++at) {
    const hlo::Scheduled& inner = row.order[at];
    if (inner.guarded)
      at = emit_guarded(row, at, values, index, 1);
    else
      values[inner.instr] = emit_instr(row, (*row.section)[inner.instr], values, index, 1);
  }
  return row_value(row, values, (*row.section)[s.instr].operands[1], 1);
}

Value* KernelEmitter::emit_rare_lanes(Row& row, size_t guard, const Values& values, Value* chosen,
                                      Value* usual, Value* index, unsigned lanes) {
  const Instrs& section = *row.section;
  const hlo::Scheduled& s = row.order[guard];
  // Vectors that the rare code reads, and the result, go through memory.
  llvm::Function* function = b_.GetInsertBlock()->getParent();
  const auto spill = [&](Value* vector, DType t) {
    llvm::IRBuilder<> entry(&function->getEntryBlock(), function->getEntryBlock().begin());
    Value* slot = entry.CreateAlloca(prim_.memory_type(t, lanes));
    b_.CreateAlignedStore(prim_.to_memory(vector, t, lanes), slot, llvm::Align(1));
    return slot;
  };
  std::vector<Value*> slots(section.size(), nullptr);
  const auto reads = [&](uint32_t id) {
    if (row.varies[id] && values[id] && !slots[id]) slots[id] = spill(values[id], section[id].type);
  };
  for (size_t at = guard + 1; at <= guard + s.guarded; ++at) {
    const KernelInstr& instr = section[row.order[at].instr];
    for_each_operand(kernel_, instr, reads);
  }
  reads(section[s.instr].operands[1]);
  const DType type = section[s.instr].type;
  Value* result_slot = spill(usual, type);

  BasicBlock* before = b_.GetInsertBlock();
  Value* bits = b_.CreateZExt(b_.CreateBitCast(chosen, b_.getIntNTy(lanes)), b_.getInt64Ty());
  auto* each = BasicBlock::Create(module_.getContext(), "rare_lane", function);
  auto* done = BasicBlock::Create(module_.getContext(), "rare_done", function);
  b_.CreateBr(each);
  b_.SetInsertPoint(each);
  llvm::PHINode* left = b_.CreatePHI(b_.getInt64Ty(), 2);
  left->addIncoming(bits, before);
  Value* lane = b_.CreateBinaryIntrinsic(llvm::Intrinsic::cttz, left, b_.getTrue());
  const auto element = [&](Value* slot, DType t) {
    return b_.CreateGEP(prim_.memory_type(t, 1), slot, lane);
  };
  Values one(section.size(), nullptr);
  for (size_t id = 0; id < slots.size(); ++id) {
    if (!slots[id]) continue;
    const DType t = section[id].type;
    one[id] = prim_.from_memory(
        b_.CreateAlignedLoad(prim_.memory_type(t, 1), element(slots[id], t), llvm::Align(1)), t, 1);
  }
  Value* rare = emit_rare(row, guard, one, index ? b_.CreateAdd(index, lane) : nullptr);
  b_.CreateAlignedStore(prim_.to_memory(rare, type, 1), element(result_slot, type), llvm::Align(1));
  Value* next = b_.CreateAnd(left, b_.CreateSub(left, i64(1)));
  left->addIncoming(next, b_.GetInsertBlock());
  b_.CreateCondBr(b_.CreateICmpNE(next, i64(0)), each, done);
  b_.SetInsertPoint(done);
  return prim_.from_memory(b_.CreateAlignedLoad(prim_.memory_type(type, lanes), result_slot, llvm::Align(1)),
                           type, lanes);
}

Value* KernelEmitter::emit_instr(Row& row, const KernelInstr& instr, const Values& values, Value* index,
                                 unsigned lanes) {
  auto value = [&](int k) { return row_value(row, values, instr.operands[k], lanes); };
  switch (instr.op) {
    case KernelOp::kPrim: {
      Operand operands[3];
      for (int k = 0; k < hlo::prim_arity(instr.prim); ++k)
        operands[k] = {value(k), (*row.section)[instr.operands[k]].type};
      return prim_.emit(instr.prim, instr.type, operands, instr.imm, lanes);
    }
    case KernelOp::kLoad:
      return load(row, instr.imm, index, instr.predicated ? value(0) : nullptr, lanes);
    case KernelOp::kLoadAt:
      return load_at(instr.imm, value(0), instr.predicated ? value(1) : nullptr, lanes);
    case KernelOp::kIndex:
      return static_cast<int>(instr.imm) == row.dim ? lane_indices(index, lanes) : row.indices[instr.imm];
    case KernelOp::kArg:
      return arg(instr.imm);
    case KernelOp::kReduced:
      return row.reduced(instr.imm, index, lanes);
    case KernelOp::kRepeat:
      emit_repeat(row, instr.imm, values, index, lanes);
      return nullptr;
    case KernelOp::kRepeated: {
      Value* result = repeated_[(*row.section)[instr.operands[0]].imm][instr.imm];
      return result->getType()->isVectorTy() ? result : splat(result, lanes);
    }
    case KernelOp::kCarried:
      return row.inside->carried[instr.imm];
    case KernelOp::kOuter:
      return row_value(*row.inside->outer, *row.inside->outer_values, instr.imm, lanes);
  }
  return nullptr;
}

Value* KernelEmitter::splat(Value* value, unsigned lanes) {
  return lanes == 1 ? value : b_.CreateVectorSplat(lanes, value);
}

Value* KernelEmitter::lane_indices(Value* index, unsigned lanes) {
  if (lanes == 1) return index;
  std::vector<llvm::Constant*> steps;
  for (unsigned i = 0; i < lanes; ++i) steps.push_back(b_.getInt64(i));
  return b_.CreateAdd(splat(index, lanes), llvm::ConstantVector::get(steps));
}

Value* KernelEmitter::lane_addresses(Row& row, uint32_t access, Value* index, unsigned lanes) {
  Type* element = prim_.memory_type(kernel_.buffers[kernel_.accesses[access].buffer].type, 1);
  Value* position = lane_indices(index, lanes);
  if (row.strides[access]) position = b_.CreateMul(position, splat(row.strides[access], lanes));
  return b_.CreateGEP(element, row.pointers[access], position);
}

// The lanes of `value` with zero lanes between them.
Value* KernelEmitter::spread(Value* value, unsigned lanes) {
  std::vector<int> mask;
  for (unsigned i = 0; i < lanes; ++i) {
    mask.push_back(static_cast<int>(i));
    mask.push_back(static_cast<int>(lanes + i));
  }
  return b_.CreateShuffleVector(value, llvm::Constant::getNullValue(value->getType()), mask);
}

Value* KernelEmitter::load(Row& row, uint32_t access, Value* index, Value* predicate, unsigned lanes) {
  const DType t = kernel_.buffers[kernel_.accesses[access].buffer].type;
  Type* element = prim_.memory_type(t, 1);
  Type* memory = prim_.memory_type(t, lanes);
  const llvm::Align align(1);
  const bool varies = access_varies(access, row.dim);
  if (lanes == 1) {
    Value* address = varies ? lane_addresses(row, access, index, 1) : row.pointers[access];
    if (predicate) address = b_.CreateSelect(predicate, address, zero_slot_);
    return prim_.from_memory(b_.CreateAlignedLoad(element, address, align), t, 1);
  }
  llvm::Constant* zero = llvm::Constant::getNullValue(memory);
  if (varies) predicate = within_row(predicate);
  Value* loaded;
  if (!varies && !predicate) {
    return splat(load(row, access, index, nullptr, 1), lanes);
  } else if (!varies) {
    // Only the predicate differs between lanes.
    Value* any = b_.CreateOrReduce(predicate);
    Value* address = b_.CreateSelect(any, row.pointers[access], zero_slot_);
    Value* all = splat(b_.CreateAlignedLoad(element, address, align), lanes);
    loaded = b_.CreateSelect(predicate, all, zero);
  } else if (!row.strides[access]) {
    Value* address = b_.CreateGEP(element, row.pointers[access], index);
    if (!row.prefetch.empty() && row.prefetch[access])
      b_.CreateIntrinsic(llvm::Intrinsic::prefetch, {b_.getPtrTy()},
                         {b_.CreateGEP(element, address, row.prefetch[access]), b_.getInt32(0),
                          b_.getInt32(3), b_.getInt32(1)});
    loaded = predicate ? static_cast<Value*>(b_.CreateMaskedLoad(memory, address, align, predicate, zero))
                       : b_.CreateAlignedLoad(memory, address, align);
  } else if (row.pairs[access]) {
    // Twice the lanes with every second one off: the last element may be the last of its buffer.
    Value* on = predicate ? predicate : llvm::Constant::getAllOnesValue(prim_.type(DType::kBool, lanes));
    Type* both = prim_.memory_type(t, 2 * lanes);
    Value* raw = b_.CreateMaskedLoad(both, lane_addresses(row, access, index, 1), align, spread(on, lanes),
                                     llvm::Constant::getNullValue(both));
    std::vector<int> even;
    for (unsigned i = 0; i < lanes; ++i) even.push_back(static_cast<int>(2 * i));
    loaded = b_.CreateShuffleVector(raw, even);
  } else {
    Value* mask = predicate ? predicate : llvm::Constant::getAllOnesValue(prim_.type(DType::kBool, lanes));
    loaded = b_.CreateMaskedGather(memory, lane_addresses(row, access, index, lanes), align, mask, zero);
  }
  return prim_.from_memory(loaded, t, lanes);
}

Value* KernelEmitter::load_at(uint32_t buffer_index, Value* position, Value* predicate, unsigned lanes) {
  const DType t = kernel_.buffers[buffer_index].type;
  Value* address = b_.CreateGEP(prim_.memory_type(t, 1), buffer(buffer_index), position);
  if (lanes == 1) {
    if (predicate) address = b_.CreateSelect(predicate, address, zero_slot_);
    return prim_.from_memory(b_.CreateAlignedLoad(prim_.memory_type(t, 1), address, llvm::Align(1)), t, 1);
  }
  Type* memory = prim_.memory_type(t, lanes);
  Value* mask = within_row(predicate);
  if (!mask) mask = llvm::Constant::getAllOnesValue(prim_.type(DType::kBool, lanes));
  return prim_.from_memory(
      b_.CreateMaskedGather(memory, address, llvm::Align(1), mask, llvm::Constant::getNullValue(memory)), t,
      lanes);
}

void KernelEmitter::store(Row& row, uint32_t access, Value* value, Value* index, unsigned lanes) {
  const DType t = kernel_.buffers[kernel_.accesses[access].buffer].type;
  const llvm::Align align(1);
  if (!access_varies(access, row.dim)) {
    // Every element of the row has one address: the last one stays.
    if (lanes > 1)
      value = b_.CreateExtractElement(value, row_left_ ? b_.CreateSub(row_left_, i64(1)) : i64(lanes - 1));
    b_.CreateAlignedStore(prim_.to_memory(value, t, 1), row.pointers[access], align);
    return;
  }
  value = prim_.to_memory(value, t, lanes);
  if (lanes == 1 || !row.strides[access]) {
    Value* address = lanes == 1 ? lane_addresses(row, access, index, 1)
                                : b_.CreateGEP(prim_.memory_type(t, 1), row.pointers[access], index);
    if (lanes > 1 && row_mask_)
      b_.CreateMaskedStore(value, address, align, row_mask_);
    else
      b_.CreateAlignedStore(value, address, align);
    return;
  }
  Value* on = within_row(nullptr);
  if (!on) on = llvm::Constant::getAllOnesValue(prim_.type(DType::kBool, lanes));
  if (row.pairs[access]) {
    b_.CreateMaskedStore(spread(value, lanes), lane_addresses(row, access, index, 1), align,
                         spread(on, lanes));
    return;
  }
  b_.CreateMaskedScatter(value, lane_addresses(row, access, index, lanes), align, on);
}

void KernelEmitter::emit_stores(Row& row, const std::vector<Store>& stores, const Values& values,
                                Value* index, unsigned lanes) {
  for (const Store& s : stores) store(row, s.access, row_value(row, values, s.value, lanes), index, lanes);
}

std::vector<uint32_t> KernelEmitter::store_accesses() const {
  std::vector<uint32_t> result;
  for (const Store& s : kernel_.stores) result.push_back(s.access);
  return result;
}

std::vector<uint32_t> KernelEmitter::store_values() const {
  std::vector<uint32_t> result;
  for (const Store& s : kernel_.stores) result.push_back(s.value);
  return result;
}

void KernelEmitter::emit_elementwise(Value* outer_begin, Value* outer_end, Value* inner_begin,
                                     Value* inner_end) {
  const int rank = kernel_.parallel_rank;
  if (rank == 0) {
    poll_cancel();
    Row row = begin_row(kernel_.body, -1, {}, store_accesses(), {});
    emit_stores(row, kernel_.stores, {}, nullptr, 1);
    return;
  }
  loop(outer_begin, outer_end, i64(1), decompose(outer_begin, 0, rank - 1), [&](Value*, const Values& outer) {
    Values indices = outer;
    indices.push_back(nullptr);
    Row row = begin_row(kernel_.body, rank - 1, indices, store_accesses(), store_values());
    row_loop(inner_begin, inner_end, [&](Value* i, unsigned lanes) {
      const Values values = emit_section(row, i, lanes);
      emit_stores(row, kernel_.stores, values, i, lanes);
    });
    return increment(outer, 0);
  });
}

}  // namespace lamina::jit::cpu
