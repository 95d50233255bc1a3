#include "jit/codegen/cpu_reduce.h"

#include <llvm/IR/DerivedTypes.h>
#include <llvm/IR/Function.h>
#include <llvm/IR/Instructions.h>
#include <llvm/IR/Intrinsics.h>

#include <algorithm>
#include <span>

namespace lamina::jit::codegen {

using llvm::BasicBlock;
using llvm::Type;
using llvm::Value;

namespace {

unsigned log2_of(int64_t n) {
  unsigned k = 0;
  while ((int64_t{1} << k) < n) ++k;
  return k;
}

// Whether any order of combinations gives the same bits.
bool is_order_free(const hlo::ScalarProgram& combine) {
  if (combine.inputs.size() != 2 || combine.code.size() != 1 || hlo::is_float(combine.inputs[0]))
    return false;
  switch (combine.code[0].prim) {
    case Prim::bit_and:
    case Prim::bit_or:
    case Prim::bit_xor:
    case Prim::add:
    case Prim::mul:
      return true;
    default:
      return false;
  }
}

}  // namespace

// Without parallel dimensions there is only one form.
std::unique_ptr<CpuReduction> make_cpu_reduction(CpuParts& parts, const Schedule& schedule) {
  const bool along = parts.kernel.parallel_rank == 0 || schedule.reduce == ReduceForm::kAlongReduced;
  if (along) return make_cpu_along(parts);
  return make_cpu_across(parts, schedule.tiles ? turned_accesses(parts.kernel) : Turned());
}

// ---- memory

CpuTree::CpuTree(CpuParts& parts, int64_t row_elements)
    : c_(parts),
      kernel_(parts.kernel),
      f_(parts.f),
      b_(f_.builder()),
      prim_(f_.prims()),
      sections_(parts.sections),
      width_(parts.widths.lanes),
      row_elements_(row_elements) {
  const size_t m = kernel_.reduction.inputs.size();
  int64_t widest = 1;
  for (size_t v = 0; v < m; ++v) widest = std::max(widest, hlo::byte_size(type(v)));
  lanes_ = kReduceLaneBytes / widest;
  // No more than fit the registers, where that is free.
  if (is_extreme()) lanes_ = std::min<int64_t>(lanes_, kExtremeVectors * width_);
  if (is_order_free(kernel_.reduction.combine)) lanes_ = std::min<int64_t>(lanes_, kMostRegisters * width_);
  for (size_t v = 0; v < m; ++v) {
    offsets_.push_back(bytes_);
    bytes_ += lanes_ * row_elements_ * hlo::byte_size(type(v));
  }
  make_combine_rows();
  make_fold_rows();
  make_push();
}

bool CpuTree::is_extreme(const LoopKernel& kernel) {
  const hlo::ScalarProgram& combine = kernel.reduction.combine;
  if (combine.inputs.size() != 2 || combine.code.size() != 1) return false;
  return combine.code[0].prim == Prim::maximum || combine.code[0].prim == Prim::minimum;
}

Values CpuTree::combine_all(const std::vector<Values>& elements, unsigned n) {
  if (is_extreme()) {
    Values values;
    for (const Values& e : elements) values.push_back(e[0]);
    return {prim_.emit_extremes(kernel_.reduction.combine.code[0].prim, type(0), values, n)};
  }
  Values all = elements[0];
  for (size_t i = 1; i < elements.size(); ++i) all = combine(all, elements[i], n);
  return all;
}

Value* CpuTree::new_level() {
  llvm::IRBuilder<> at = f_.at_entry();
  auto* block = at.CreateAlloca(llvm::ArrayType::get(at.getInt8Ty(), bytes_), nullptr, "level");
  block->setAlignment(llvm::Align(64));
  return block;
}

void CpuTree::enter(size_t levels) {
  for (Value*& level : std::span(levels_).first(levels)) level = new_level();
}

Value* CpuTree::address(Value* level, unsigned v, Value* lane, Value* column) {
  Value* base = b_.CreateConstGEP1_64(b_.getInt8Ty(), level, offsets_[v]);
  Value* position = b_.CreateAdd(b_.CreateMul(lane, f_.i64(row_elements_)), column);
  return b_.CreateGEP(prim_.memory_type(type(v), 1), base, position);
}

Value* CpuTree::load(Value* address, unsigned v, unsigned n) {
  const DType t = type(v);
  // Lanes that no element has reached hold anything; what is computed from them is never used.
  Value* raw = b_.CreateFreeze(b_.CreateAlignedLoad(prim_.memory_type(t, n), address, llvm::Align(1)));
  return prim_.from_memory(raw, t, n);
}

void CpuTree::store(Value* value, Value* address, unsigned v, unsigned n) {
  b_.CreateAlignedStore(prim_.to_memory(value, type(v), n), address, llvm::Align(1));
}

// ---- functions

// combine_rows(to, to_lane, from, from_lane, vectors, copy): row to_lane = copy ? other : combine(row,
// other).
void CpuTree::make_combine_rows() {
  Type* ptr = b_.getPtrTy();
  Type* s64 = b_.getInt64Ty();
  combine_rows_ = f_.make_function("combine_rows", b_.getVoidTy(), {ptr, s64, ptr, s64, s64, b_.getInt1Ty()},
                                   llvm::GlobalValue::InternalLinkage);
  b_.SetInsertPoint(BasicBlock::Create(f_.context(), "entry", combine_rows_));
  Value* copy = f_.splat(combine_rows_->getArg(5), width_);
  Value* end = b_.CreateMul(combine_rows_->getArg(4), f_.i64(width_));
  f_.loop(f_.i64(0), end, f_.i64(width_), [&](Value* column) {
    Values addresses, a, e;
    for (unsigned v = 0; v < size(); ++v) {
      addresses.push_back(address(combine_rows_->getArg(0), v, combine_rows_->getArg(1), column));
      a.push_back(load(addresses[v], v, width_));
      e.push_back(load(address(combine_rows_->getArg(2), v, combine_rows_->getArg(3), column), v, width_));
    }
    const Values r = combine(a, e, width_);
    for (unsigned v = 0; v < size(); ++v) store(b_.CreateSelect(copy, e[v], r[v]), addresses[v], v, width_);
  });
  b_.CreateRetVoid();
}

// fold_rows(level, count, vectors): the first `count` lanes fold at halving stride into lane 0.
void CpuTree::make_fold_rows() {
  Type* s64 = b_.getInt64Ty();
  fold_rows_ = f_.make_function("fold_rows", b_.getVoidTy(), {b_.getPtrTy(), s64, s64},
                                llvm::GlobalValue::InternalLinkage);
  b_.SetInsertPoint(BasicBlock::Create(f_.context(), "entry", fold_rows_));
  Value* level = fold_rows_->getArg(0);
  Value* count = b_.CreateBinaryIntrinsic(llvm::Intrinsic::smin, fold_rows_->getArg(1), f_.i64(lanes_));
  f_.loop(f_.i64(1), f_.i64(log2_of(lanes_) + 1), f_.i64(1), [&](Value* k) {
    Value* stride = b_.CreateLShr(f_.i64(lanes_), k);
    Value* end = b_.CreateBinaryIntrinsic(llvm::Intrinsic::smin, stride, b_.CreateSub(count, stride));
    f_.loop(f_.i64(0), end, f_.i64(1), [&](Value* j) {
      b_.CreateCall(combine_rows_,
                    {level, j, level, b_.CreateAdd(j, stride), fold_rows_->getArg(2), b_.getFalse()});
    });
  });
  b_.CreateRetVoid();
}

// push(to, position, from, vectors): row 0 of `from` is the next element of the sequence that `to` reduces.
void CpuTree::make_push() {
  Type* ptr = b_.getPtrTy();
  Type* s64 = b_.getInt64Ty();
  push_ = f_.make_function("push", b_.getVoidTy(), {ptr, s64, ptr, s64}, llvm::GlobalValue::InternalLinkage);
  b_.SetInsertPoint(BasicBlock::Create(f_.context(), "entry", push_));
  Value* position = push_->getArg(1);
  b_.CreateCall(combine_rows_,
                {push_->getArg(0), b_.CreateAnd(position, f_.i64(lanes_ - 1)), push_->getArg(2), f_.i64(0),
                 push_->getArg(3), b_.CreateICmpSLT(position, f_.i64(lanes_))});
  b_.CreateRetVoid();
}

void CpuTree::copy_row(Value* to, Value* to_lane, Value* from, Value* from_lane, Value* vectors) {
  b_.CreateCall(combine_rows_, {to, to_lane, from, from_lane, vectors, b_.getTrue()});
}

void CpuTree::fold(Value* level, Value* count, Value* vectors) {
  b_.CreateCall(fold_rows_, {level, count, vectors});
}

// ---- elements and chunks

Values CpuTree::elements(Row& row, Value* index, unsigned n) {
  const Values values = sections_.emit(row, index, n);
  Values elements;
  for (uint32_t id : kernel_.reduction.inputs) elements.push_back(sections_.value(row, values, id, n));
  return elements;
}

void CpuTree::accumulate(const std::vector<Values>& elements, Value* lane, Value* column, Value* first,
                         unsigned n) {
  Values addresses, before;
  for (unsigned v = 0; v < size(); ++v) {
    addresses.push_back(address(levels_[0], v, lane, column));
    before.push_back(load(addresses[v], v, n));
  }
  Values a = is_extreme() ? before : combine(before, elements[0], n);
  for (unsigned v = 0; v < size(); ++v) a[v] = b_.CreateSelect(f_.splat(first, n), elements[0][v], a[v]);
  std::vector<Values> in_turn = {a};
  in_turn.insert(in_turn.end(), elements.begin() + (is_extreme() ? 0 : 1), elements.end());
  a = combine_all(in_turn, n);
  for (unsigned v = 0; v < size(); ++v) {
    if (n > 1 && c_.lanes.on()) a[v] = b_.CreateSelect(c_.lanes.on(), a[v], before[v]);
    store(a[v], addresses[v], v, n);
  }
}

Value* CpuTree::total() {
  Value* total = f_.i64(1);
  for (unsigned d = 0; d < kernel_.reduce_rank; ++d)
    total = b_.CreateMul(total, f_.arg(kernel_.parallel_rank + d));
  return total;
}

Value* CpuTree::several_chunks(Value* total) { return b_.CreateICmpUGT(total, f_.i64(kReduceChunk)); }

void CpuTree::chunks(Value* total, Value* several, Value* vectors,
                     const std::function<void(Value*, Value*)>& chunk) {
  Value* chunks = b_.CreateUDiv(b_.CreateAdd(total, f_.i64(kReduceChunk - 1)), f_.i64(kReduceChunk));
  f_.loop(f_.i64(0), chunks, f_.i64(1), [&](Value* c) {
    c_.lanes.poll_cancel();
    Value* start = b_.CreateMul(c, f_.i64(kReduceChunk));
    Value* count =
        b_.CreateBinaryIntrinsic(llvm::Intrinsic::smin, b_.CreateSub(total, start), f_.i64(kReduceChunk));
    chunk(start, count);
    f_.if_then(several, [&] {
      Value* position = b_.CreateAnd(c, f_.i64(kReduceChunk - 1));
      b_.CreateCall(push_, {levels_[1], position, levels_[0], vectors});
      Value* filled = b_.CreateAdd(position, f_.i64(1));
      Value* last = b_.CreateOr(b_.CreateICmpEQ(filled, f_.i64(kReduceChunk)),
                                b_.CreateICmpEQ(b_.CreateAdd(c, f_.i64(1)), chunks));
      f_.if_then(last, [&] {
        fold(levels_[1], filled, vectors);
        b_.CreateCall(push_, {levels_[2], b_.CreateSDiv(c, f_.i64(kReduceChunk)), levels_[1], vectors});
      });
    });
  });
  f_.if_then(several, [&] {
    Value* blocks = b_.CreateSDiv(b_.CreateAdd(chunks, f_.i64(kReduceChunk - 1)), f_.i64(kReduceChunk));
    fold(levels_[2], blocks, vectors);
  });
}

// ---- what follows

// result = combine(tree, init), or init if nothing was reduced; without one the tree.
Values CpuTree::finish(Row& init_row, Value* level, Value* total, Value* index, Value* column, unsigned n) {
  Values tree, init;
  for (unsigned v = 0; v < size(); ++v) {
    tree.push_back(load(address(level, v, f_.i64(0), column), v, n));
    if (!kernel_.reduction.init.empty())
      init.push_back(c_.lanes.load(init_row, kernel_.reduction.init[v], index, nullptr, n));
  }
  if (init.empty()) return tree;
  Values result = combine(tree, init, n);
  Value* empty = f_.splat(b_.CreateICmpEQ(total, f_.i64(0)), n);
  for (unsigned v = 0; v < result.size(); ++v) result[v] = b_.CreateSelect(empty, init[v], result[v]);
  return result;
}

void CpuTree::epilogue(const Values& outer, Value* level, Value* total, Value* first, Value* column,
                       Value* column_end) {
  const int dim = kernel_.parallel_rank - 1;
  Values indices = outer;
  if (dim >= 0) indices.push_back(nullptr);
  Values results;
  const Instrs none;
  Row init_row = sections_.begin(none, dim, indices, {kernel_.reduction.init, {}});
  if (dim < 0) results = finish(init_row, level, total, nullptr, f_.i64(0), 1);
  Row row = sections_.begin(kernel_.epilogue, dim, indices, SectionEmitter::uses_of(kernel_.stores),
                            [&](uint64_t v, Value*, unsigned) { return results[v]; });
  if (dim < 0) {
    sections_.store(row, kernel_.stores, {}, nullptr, 1);
    return;
  }
  c_.rows.masked_part(column, column_end, [&](Value* i, unsigned n) {
    results = finish(init_row, level, total, i, b_.CreateSub(i, first), n);
    const Values values = sections_.emit(row, i, n);
    sections_.store(row, kernel_.stores, values, i, n);
  });
}

}  // namespace lamina::jit::codegen
