// Reductions with the tree of jit/kernel/kernel.h. Accumulators are in memory: L lanes (times a block of
// columns in the kAcrossParallel form), so a row may start at any lane and the body is emitted once per
// width.
#include <llvm/IR/Constants.h>
#include <llvm/IR/Function.h>
#include <llvm/IR/Instructions.h>
#include <llvm/IR/Intrinsics.h>

#include <algorithm>

#include "jit/codegen/emit_kernel.h"

namespace lamina::jit::cpu {

using llvm::BasicBlock;
using llvm::Type;
using llvm::Value;

namespace {

// Columns of one block of the kAcrossParallel form: with L lanes of 256 bytes this makes 16 KiB per level,
// which stay in the first-level cache.
constexpr int64_t kBlockColumns = 64;
// A block touches 256 bytes of each row, too little for the hardware to see the stream: its rows are asked
// for early.
constexpr int64_t kPrefetchRows = 4;
// Lanes of the kAcrossParallel form, and vectors of columns, that are in registers together where the body
// has at most so many instructions.
constexpr unsigned kAcrossRegisters = 16, kAcrossVectors = 4;
constexpr size_t kMostAcross = 6;

unsigned log2_of(int64_t n) {
  unsigned k = 0;
  while ((int64_t{1} << k) < n) ++k;
  return k;
}

}  // namespace

void KernelEmitter::layout_levels() {
  const auto& types = kernel_.reduction.combine.inputs;
  const size_t m = kernel_.reduction.inputs.size();
  int64_t widest = 1;
  for (size_t v = 0; v < m; ++v) widest = std::max(widest, hlo::byte_size(types[v]));
  tree_lanes_ = kReduceLaneBytes / widest;
  row_elements_ = along_ ? lanes_ : kBlockColumns;
  level_bytes_ = 0;
  for (size_t v = 0; v < m; ++v) {
    level_offsets_.push_back(level_bytes_);
    level_bytes_ += tree_lanes_ * row_elements_ * hlo::byte_size(types[v]);
  }
}

Value* KernelEmitter::acc_address(Value* level, unsigned v, Value* lane, Value* column) {
  Value* base = b_.CreateConstGEP1_64(b_.getInt8Ty(), level, level_offsets_[v]);
  Value* position = b_.CreateAdd(b_.CreateMul(lane, i64(row_elements_)), column);
  return b_.CreateGEP(prim_.memory_type(reduced_type(v), 1), base, position);
}

Value* KernelEmitter::acc_load(Value* address, unsigned v, unsigned lanes) {
  const DType t = reduced_type(v);
  // Lanes that no element has reached hold anything; what is computed from them is never used.
  Value* raw = b_.CreateFreeze(b_.CreateAlignedLoad(prim_.memory_type(t, lanes), address, llvm::Align(1)));
  return prim_.from_memory(raw, t, lanes);
}

void KernelEmitter::acc_store(Value* value, Value* address, unsigned v, unsigned lanes) {
  b_.CreateAlignedStore(prim_.to_memory(value, reduced_type(v), lanes), address, llvm::Align(1));
}

KernelEmitter::Values KernelEmitter::combine(const Values& a, const Values& e, unsigned lanes) {
  const hlo::ScalarProgram& program = kernel_.reduction.combine;
  Values values = a;
  values.insert(values.end(), e.begin(), e.end());
  for (const hlo::ScalarInstr& instr : program.code) {
    Operand operands[3];
    for (int k = 0; k < hlo::prim_arity(instr.prim); ++k)
      operands[k] = {values[instr.operands[k]], program.type_of(instr.operands[k])};
    values.push_back(prim_.emit(instr.prim, instr.type, operands, instr.imm, lanes));
  }
  Values result;
  for (uint32_t id : program.outputs) result.push_back(values[id]);
  return result;
}

// combine_rows(to, to_lane, from, from_lane, vectors, copy): row to_lane = copy ? other : combine(row,
// other).
void KernelEmitter::emit_combine_rows() {
  Type* ptr = b_.getPtrTy();
  Type* i64_type = b_.getInt64Ty();
  combine_rows_ = make_function("combine_rows", b_.getVoidTy(),
                                {ptr, i64_type, ptr, i64_type, i64_type, b_.getInt1Ty()}, false);
  b_.SetInsertPoint(BasicBlock::Create(module_.getContext(), "entry", combine_rows_));
  const unsigned m = level_offsets_.size();
  Value* copy = splat(combine_rows_->getArg(5), lanes_);
  Value* end = b_.CreateMul(combine_rows_->getArg(4), i64(lanes_));
  loop(i64(0), end, i64(lanes_), {}, [&](Value* column, const Values&) -> Values {
    Values addresses, a, e;
    for (unsigned v = 0; v < m; ++v) {
      addresses.push_back(acc_address(combine_rows_->getArg(0), v, combine_rows_->getArg(1), column));
      a.push_back(acc_load(addresses[v], v, lanes_));
      e.push_back(
          acc_load(acc_address(combine_rows_->getArg(2), v, combine_rows_->getArg(3), column), v, lanes_));
    }
    const Values r = combine(a, e, lanes_);
    for (unsigned v = 0; v < m; ++v) acc_store(b_.CreateSelect(copy, e[v], r[v]), addresses[v], v, lanes_);
    return {};
  });
  b_.CreateRetVoid();
}

// fold_rows(level, count, vectors): the first `count` lanes fold at halving stride into lane 0.
void KernelEmitter::emit_fold_rows() {
  Type* i64_type = b_.getInt64Ty();
  fold_rows_ = make_function("fold_rows", b_.getVoidTy(), {b_.getPtrTy(), i64_type, i64_type}, false);
  b_.SetInsertPoint(BasicBlock::Create(module_.getContext(), "entry", fold_rows_));
  Value* level = fold_rows_->getArg(0);
  Value* count = b_.CreateBinaryIntrinsic(llvm::Intrinsic::smin, fold_rows_->getArg(1), i64(tree_lanes_));
  loop(i64(1), i64(log2_of(tree_lanes_) + 1), i64(1), {}, [&](Value* k, const Values&) -> Values {
    Value* stride = b_.CreateLShr(i64(tree_lanes_), k);
    Value* end = b_.CreateBinaryIntrinsic(llvm::Intrinsic::smin, stride, b_.CreateSub(count, stride));
    loop(i64(0), end, i64(1), {}, [&](Value* j, const Values&) -> Values {
      b_.CreateCall(combine_rows_,
                    {level, j, level, b_.CreateAdd(j, stride), fold_rows_->getArg(2), b_.getFalse()});
      return {};
    });
    return {};
  });
  b_.CreateRetVoid();
}

// push(to, position, from, vectors): row 0 of `from` is the next element of the sequence that `to` reduces.
void KernelEmitter::emit_push() {
  Type* ptr = b_.getPtrTy();
  Type* i64_type = b_.getInt64Ty();
  push_ = make_function("push", b_.getVoidTy(), {ptr, i64_type, ptr, i64_type}, false);
  b_.SetInsertPoint(BasicBlock::Create(module_.getContext(), "entry", push_));
  Value* position = push_->getArg(1);
  b_.CreateCall(combine_rows_,
                {push_->getArg(0), b_.CreateAnd(position, i64(tree_lanes_ - 1)), push_->getArg(2), i64(0),
                 push_->getArg(3), b_.CreateICmpSLT(position, i64(tree_lanes_))});
  b_.CreateRetVoid();
}

Value* KernelEmitter::reduced_count() {
  Value* total = i64(1);
  for (unsigned d = 0; d < kernel_.reduce_rank; ++d)
    total = b_.CreateMul(total, arg(kernel_.parallel_rank + d));
  return total;
}

// Runs `chunk(start, count)`, which leaves its result in row 0 of level 0, for every chunk and, if they are
// `several`, reduces their results to row 0 of level 2.
void KernelEmitter::reduce_chunks(Value* total, Value* several, Value* vectors,
                                  const std::function<void(Value*, Value*)>& chunk) {
  Value* chunks = b_.CreateUDiv(b_.CreateAdd(total, i64(kReduceChunk - 1)), i64(kReduceChunk));
  loop(i64(0), chunks, i64(1), {}, [&](Value* c, const Values&) -> Values {
    poll_cancel();
    Value* start = b_.CreateMul(c, i64(kReduceChunk));
    Value* count =
        b_.CreateBinaryIntrinsic(llvm::Intrinsic::smin, b_.CreateSub(total, start), i64(kReduceChunk));
    chunk(start, count);
    if_then(several, [&] {
      Value* position = b_.CreateAnd(c, i64(kReduceChunk - 1));
      b_.CreateCall(push_, {levels_[1], position, levels_[0], vectors});
      Value* filled = b_.CreateAdd(position, i64(1));
      Value* last = b_.CreateOr(b_.CreateICmpEQ(filled, i64(kReduceChunk)),
                                b_.CreateICmpEQ(b_.CreateAdd(c, i64(1)), chunks));
      if_then(last, [&] {
        b_.CreateCall(fold_rows_, {levels_[1], filled, vectors});
        b_.CreateCall(push_, {levels_[2], b_.CreateSDiv(c, i64(kReduceChunk)), levels_[1], vectors});
      });
    });
    return {};
  });
  if_then(several, [&] {
    Value* blocks = b_.CreateSDiv(b_.CreateAdd(chunks, i64(kReduceChunk - 1)), i64(kReduceChunk));
    b_.CreateCall(fold_rows_, {levels_[2], blocks, vectors});
  });
}

void KernelEmitter::accumulate(const Values& elements, Value* lane, Value* column, Value* first,
                               unsigned lanes) {
  Values addresses, a;
  for (unsigned v = 0; v < elements.size(); ++v) {
    addresses.push_back(acc_address(levels_[0], v, lane, column));
    a.push_back(acc_load(addresses[v], v, lanes));
  }
  const Values r = combine(a, elements, lanes);
  for (unsigned v = 0; v < elements.size(); ++v) {
    Value* result = b_.CreateSelect(splat(first, lanes), elements[v], r[v]);
    if (lanes > 1 && row_mask_) result = b_.CreateSelect(row_mask_, result, a[v]);
    acc_store(result, addresses[v], v, lanes);
  }
}

KernelEmitter::Values KernelEmitter::row_elements(Row& row, Value* index, unsigned lanes) {
  const Values values = emit_section(row, index, lanes);
  Values elements;
  for (uint32_t id : kernel_.reduction.inputs) elements.push_back(row_value(row, values, id, lanes));
  return elements;
}

void KernelEmitter::across_chunk(const Values& parallel, Value* start, Value* count, Value* column,
                                 Value* column_end) {
  const int dim = kernel_.parallel_rank - 1;
  const bool fast = kernel_.reduce_rank == 1 && target_.has_masks && lanes_ <= kMostMasked &&
                    level_offsets_.size() == 1 && kernel_.body.size() <= kMostAcross;
  Value* done = i64(0);
  if (fast) {
    done = b_.CreateAnd(count, i64(-tree_lanes_));
    across_lanes(parallel, start, done, column, column_end);
  }
  loop(done, count, i64(1), decompose(b_.CreateAdd(start, done), kernel_.parallel_rank, kernel_.reduce_rank),
       [&](Value* e, const Values& reduced) {
         poll_cancel();
         Values indices = parallel;
         indices.push_back(nullptr);
         indices.insert(indices.end(), reduced.begin(), reduced.end());
         Row row = begin_row(kernel_.body, dim, indices, {}, kernel_.reduction.inputs);
         prefetch_along(row, kernel_.parallel_rank + kernel_.reduce_rank - 1, kPrefetchRows);
         Value* lane = b_.CreateAnd(e, i64(tree_lanes_ - 1));
         Value* first = b_.CreateICmpSLT(e, i64(tree_lanes_));
         const auto part = target_.has_masks && lanes_ <= kMostMasked ? &KernelEmitter::masked_row_part
                                                                      : &KernelEmitter::row_part;
         (this->*part)(column, column_end, [&](Value* i, unsigned lanes) {
           accumulate(row_elements(row, i, lanes), lane, b_.CreateSub(i, column), first, lanes);
         });
         return increment(reduced, kernel_.parallel_rank);
       });
}

// A mask of the first `count` lanes, all if it is more than there are.
Value* KernelEmitter::first_lanes(Value* count) {
  Value* bits = b_.CreateSelect(b_.CreateICmpSGE(count, i64(lanes_)), i64(-1),
                                b_.CreateSub(b_.CreateShl(i64(1), count), i64(1)));
  return b_.CreateBitCast(b_.CreateTrunc(bits, b_.getIntNTy(lanes_)), prim_.type(DType::kBool, lanes_));
}

// The first `count` elements of a chunk, a whole number of segments, lane after lane: a few lanes of a part
// of the block of columns are in registers while their elements are visited.
void KernelEmitter::across_lanes(const Values& parallel, Value* start, Value* count, Value* column,
                                 Value* column_end) {
  const unsigned vectors = std::min<unsigned>(kAcrossVectors, kBlockColumns / lanes_);
  const unsigned together = kAcrossRegisters / vectors;
  const auto for_lanes = [&](Value* part) {
    const auto at = [&](unsigned k) { return b_.CreateAdd(part, i64(static_cast<int64_t>(k) * lanes_)); };
    Values masks;
    for (unsigned k = 0; k < vectors; ++k)
      masks.push_back(first_lanes(
          b_.CreateBinaryIntrinsic(llvm::Intrinsic::smax, b_.CreateSub(column_end, at(k)), i64(0))));
    // Of the elements from `e` on, one per lane, those of all columns.
    const auto elements_at = [&](Value* e) {
      Values elements;
      for (unsigned g = 0; g < together; ++g) {
        Values indices = parallel;
        indices.push_back(nullptr);
        indices.push_back(b_.CreateAdd(b_.CreateAdd(start, e), i64(g)));
        Row row = begin_row(kernel_.body, kernel_.parallel_rank - 1, indices, {}, kernel_.reduction.inputs);
        for (unsigned k = 0; k < vectors; ++k) {
          row_mask_ = masks[k];
          elements.push_back(row_elements(row, at(k), lanes_)[0]);
          row_mask_ = nullptr;
        }
      }
      return elements;
    };
    loop(i64(0), i64(tree_lanes_), i64(together), {}, [&](Value* lane, const Values&) -> Values {
      poll_cancel();
      const Values lanes = loop(b_.CreateAdd(lane, i64(tree_lanes_)), count, i64(tree_lanes_),
                                elements_at(lane), [&](Value* e, const Values& a) {
                                  const Values elements = elements_at(e);
                                  Values next;
                                  for (size_t i = 0; i < a.size(); ++i)
                                    next.push_back(combine({a[i]}, {elements[i]}, lanes_)[0]);
                                  return next;
                                });
      for (unsigned i = 0; i < lanes.size(); ++i)
        if_then(b_.CreateICmpSLT(at(i % vectors), column_end), [&] {
          acc_store(lanes[i],
                    acc_address(levels_[0], 0, b_.CreateAdd(lane, i64(i / vectors)),
                                b_.CreateSub(at(i % vectors), column)),
                    0, lanes_);
        });
      return {};
    });
  };
  if_then(b_.CreateICmpSGT(count, i64(0)), [&] {
    loop(column, column_end, i64(vectors * lanes_), {}, [&](Value* part, const Values&) -> Values {
      for_lanes(part);
      return {};
    });
  });
}

// Lets vector loads of the row also fetch the element that lies `rows` further along `dim`.
void KernelEmitter::prefetch_along(Row& row, int dim, int64_t rows) {
  row.prefetch.assign(kernel_.accesses.size(), nullptr);
  for (size_t a = 0; a < kernel_.accesses.size(); ++a) {
    if (!row.pointers[a] || row.strides[a] || !access_varies(a, row.dim)) continue;
    for (const AccessTerm& term : kernel_.accesses[a].terms)
      if (term.dim == dim)
        row.prefetch[a] = term.unit ? i64(rows) : b_.CreateMul(arg(term.stride_slot), i64(rows));
  }
}

// result = combine(tree, init), or init if nothing was reduced.
KernelEmitter::Values KernelEmitter::finish(Row& init_row, Value* level, Value* total, Value* index,
                                            Value* column, unsigned lanes) {
  Values tree, init;
  for (unsigned v = 0; v < level_offsets_.size(); ++v) {
    tree.push_back(acc_load(acc_address(level, v, i64(0), column), v, lanes));
    init.push_back(load(init_row, kernel_.reduction.init[v], index, nullptr, lanes));
  }
  Values result = combine(tree, init, lanes);
  Value* empty = splat(b_.CreateICmpEQ(total, i64(0)), lanes);
  for (unsigned v = 0; v < result.size(); ++v) result[v] = b_.CreateSelect(empty, init[v], result[v]);
  return result;
}

// What follows the reduction, for the elements [column, column_end) of the last parallel dimension; their
// results are in row 0 of `level`.
void KernelEmitter::emit_epilogue(const Values& outer, Value* level, Value* total, Value* column,
                                  Value* column_end) {
  const int dim = kernel_.parallel_rank - 1;
  Values indices = outer;
  if (dim >= 0) indices.push_back(nullptr);
  Values results;
  Row init_row = begin_row({}, dim, indices, kernel_.reduction.init, {});
  if (dim < 0) results = finish(init_row, level, total, nullptr, i64(0), 1);
  Row row = begin_row(kernel_.epilogue, dim, indices, store_accesses(), store_values(),
                      [&](uint64_t v, Value*, unsigned) { return results[v]; });
  if (dim < 0) {
    emit_stores(row, kernel_.stores, {}, nullptr, 1);
    return;
  }
  const auto part = [&](Value* i, unsigned lanes) {
    results = finish(init_row, level, total, i, b_.CreateSub(i, column), lanes);
    const Values values = emit_section(row, i, lanes);
    emit_stores(row, kernel_.stores, values, i, lanes);
  };
  if (!target_.has_masks || lanes_ > kMostMasked) {
    row_part(column, column_end, part);
    return;
  }
  loop(column, column_end, i64(lanes_), {}, [&](Value* i, const Values&) -> Values {
    masked(i, column_end, lanes_, [&] { part(i, lanes_); });
    return {};
  });
}

void KernelEmitter::emit_across(Value* outer_begin, Value* outer_end, Value* inner_begin, Value* inner_end) {
  const int rank = kernel_.parallel_rank;
  Value* total = reduced_count();
  Value* several = b_.CreateICmpUGT(total, i64(kReduceChunk));
  loop(outer_begin, outer_end, i64(1), decompose(outer_begin, 0, rank - 1), [&](Value*, const Values& outer) {
    loop(inner_begin, inner_end, i64(kBlockColumns), {}, [&](Value* column, const Values&) -> Values {
      poll_cancel();
      Value* column_end = b_.CreateBinaryIntrinsic(llvm::Intrinsic::smin,
                                                   b_.CreateAdd(column, i64(kBlockColumns)), inner_end);
      Value* vectors =
          b_.CreateUDiv(b_.CreateAdd(b_.CreateSub(column_end, column), i64(lanes_ - 1)), i64(lanes_));
      reduce_chunks(total, several, vectors, [&](Value* start, Value* count) {
        across_chunk(outer, start, count, column, column_end);
        b_.CreateCall(fold_rows_, {levels_[0], count, vectors});
      });
      emit_epilogue(outer, b_.CreateSelect(several, levels_[2], levels_[0]), total, column, column_end);
      return {};
    });
    return increment(outer, 0);
  });
}

}  // namespace lamina::jit::cpu
