// Reductions along the vectors: rows of reduced elements that lie side by side, and what folds their lanes.
// The tree is that of jit/kernel/kernel.h.
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

// Lanes of the kAlongReduced form stay in registers where they fit in so many vectors and the body, which is
// then there once per vector, has at most so many instructions in all.
constexpr int64_t kMostRegisters = 8;
constexpr int64_t kMostUnrolled = 96;
// A body of up to so many in all is there twice more, so that rows meet no masks but those of their end and
// short ones few branches.
constexpr int64_t kMostRepeated = 32;

}  // namespace

// fold_block(level, rows, reach): in each of the first `rows` rows, the first `reach` of its lanes_ elements
// fold at halving stride; the result of row i goes to element i of row 0. While blocks of `length` elements
// are left, row i holds those of rows i, i + length, ...: every step halves the blocks and puts two rows into
// one.
void KernelEmitter::emit_fold_block() {
  Type* i64_type = b_.getInt64Ty();
  fold_block_ = make_function("fold_block", b_.getVoidTy(), {b_.getPtrTy(), i64_type, i64_type}, false);
  b_.SetInsertPoint(BasicBlock::Create(module_.getContext(), "entry", fold_block_));
  Value* level = fold_block_->getArg(0);
  const unsigned m = level_offsets_.size();
  const unsigned w = lanes_;
  Value* reach = splat(b_.CreateTrunc(fold_block_->getArg(2), b_.getInt32Ty()), w);
  for (unsigned half = w / 2; half > 0; half /= 2) {
    std::vector<int> low, high;
    std::vector<llvm::Constant*> others;
    for (unsigned j = 0; j < w; ++j) {
      const unsigned block = j / half, at = j % half;
      low.push_back(static_cast<int>(block % 2 * w + block / 2 * 2 * half + at));
      high.push_back(low.back() + static_cast<int>(half));
      others.push_back(b_.getInt32(at + half));
    }
    Value* reached = b_.CreateICmpSLT(llvm::ConstantVector::get(others), reach);
    Value* end = b_.CreateBinaryIntrinsic(llvm::Intrinsic::smin, i64(half), fold_block_->getArg(1));
    loop(i64(0), end, i64(1), {}, [&](Value* i, const Values&) -> Values {
      Values addresses, a, e;
      for (unsigned v = 0; v < m; ++v) {
        addresses.push_back(acc_address(level, v, i, i64(0)));
        Value* one = acc_load(addresses[v], v, w);
        Value* two = acc_load(acc_address(level, v, b_.CreateAdd(i, i64(half)), i64(0)), v, w);
        a.push_back(b_.CreateShuffleVector(one, two, low));
        e.push_back(b_.CreateShuffleVector(one, two, high));
      }
      const Values r = combine(a, e, w);
      for (unsigned v = 0; v < m; ++v) acc_store(b_.CreateSelect(reached, r[v], a[v]), addresses[v], v, w);
      return {};
    });
  }
  b_.CreateRetVoid();
}

// The L lanes of a chunk of `count` elements, value v of vector k at k * m + v, folded at halving stride
// until they are one vector.
KernelEmitter::Values KernelEmitter::fold_vectors(Values lanes, Value* count) {
  const unsigned m = level_offsets_.size();
  Value* reach = splat(b_.CreateTrunc(count, b_.getInt32Ty()), lanes_);
  for (size_t half = lanes.size() / m / 2; half > 0; half /= 2)
    for (size_t k = 0; k < half; ++k) {
      std::vector<llvm::Constant*> others;
      for (unsigned j = 0; j < lanes_; ++j) others.push_back(b_.getInt32((k + half) * lanes_ + j));
      Value* reached = b_.CreateICmpSLT(llvm::ConstantVector::get(others), reach);
      const auto a = lanes.begin() + k * m, e = lanes.begin() + (k + half) * m;
      const Values r = combine(Values(a, a + m), Values(e, e + m), lanes_);
      for (unsigned v = 0; v < m; ++v) a[v] = b_.CreateSelect(reached, r[v], a[v]);
    }
  lanes.resize(m);
  return lanes;
}

// The elements [start, start + count) of the reduced index, to one vector of lanes.
KernelEmitter::Values KernelEmitter::along_chunk(const Values& parallel, Value* start, Value* count) {
  const unsigned vectors = tree_lanes_ / lanes_;
  const unsigned m = level_offsets_.size();
  const int last = kernel_.parallel_rank + kernel_.reduce_rank - 1;
  Values indices = parallel;
  indices.resize(last + 1, nullptr);
  if (stays_in_registers())
    return fold_vectors(
        is_peeled() ? along_peeled(indices, start, count) : along_in_registers(indices, start, count), count);
  along_runs(indices, start, count);
  Values lanes;
  for (unsigned k = 0; k < vectors; ++k)
    for (unsigned v = 0; v < m; ++v)
      lanes.push_back(acc_load(acc_address(levels_[0], v, i64(0), i64(k * lanes_)), v, lanes_));
  return fold_vectors(std::move(lanes), count);
}

bool KernelEmitter::stays_in_registers() const {
  return kernel_.reduce_rank == 1 && target_.has_masks && lanes_ <= kMostMasked && lanes_fit_registers();
}

bool KernelEmitter::is_peeled() const {
  return stays_in_registers() &&
         tree_lanes_ / lanes_ * static_cast<int64_t>(kernel_.body.size()) <= kMostRepeated;
}

bool KernelEmitter::lanes_fit_registers() const {
  const int64_t vectors = tree_lanes_ / lanes_;
  return vectors * static_cast<int64_t>(level_offsets_.size()) <= kMostRegisters &&
         vectors * static_cast<int64_t>(kernel_.body.size()) <= kMostUnrolled;
}

// A chunk whose reduced index is that of one dimension, the L lanes in registers throughout. A segment is L
// elements: the first, and one that is not whole, take masked vectors, as many as they have elements for.
KernelEmitter::Values KernelEmitter::along_in_registers(const Values& indices, Value* start, Value* count) {
  const int last = kernel_.parallel_rank + kernel_.reduce_rank - 1;
  const unsigned vectors = tree_lanes_ / lanes_;
  const unsigned m = level_offsets_.size();
  Row row = begin_row(kernel_.body, last, indices, {}, kernel_.reduction.inputs);
  const auto elements_at = [&](Value* x) { return row_elements(row, b_.CreateAdd(start, x), lanes_); };
  llvm::Function* function = b_.GetInsertBlock()->getParent();
  const auto block = [&](const char* name) {
    return BasicBlock::Create(module_.getContext(), name, function);
  };
  BasicBlock *before = b_.GetInsertBlock(), *segment = block("segment"), *filled = block("filled"),
             *done = block("run_done");
  b_.CreateBr(segment);
  b_.SetInsertPoint(segment);
  llvm::PHINode* base = b_.CreatePHI(b_.getInt64Ty(), 2);
  base->addIncoming(i64(0), before);
  std::vector<llvm::PHINode*> entering;
  for (unsigned i = 0; i < vectors * m; ++i) {
    Type* type = prim_.type(reduced_type(i % m), lanes_);
    entering.push_back(b_.CreatePHI(type, 2));
    entering.back()->addIncoming(llvm::Constant::getNullValue(type), before);
  }
  Values lanes(entering.begin(), entering.end());
  Value* first = splat(b_.CreateICmpEQ(base, i64(0)), lanes_);
  Value* left = b_.CreateSub(count, base);
  std::vector<std::pair<BasicBlock*, Values>> exits;
  for (unsigned k = 0; k < vectors; ++k) {
    const int64_t at = static_cast<int64_t>(k) * lanes_;
    if (k > 0) {
      exits.emplace_back(b_.GetInsertBlock(), lanes);
      BasicBlock* more = block("more");
      b_.CreateCondBr(b_.CreateICmpSGT(left, i64(at)), more, filled);
      b_.SetInsertPoint(more);
    }
    Value* x = b_.CreateAdd(base, i64(at));
    masked(x, count, lanes_, [&] {
      const Values e = elements_at(x);
      const Values a(lanes.begin() + k * m, lanes.begin() + (k + 1) * m);
      const Values r = combine(a, e, lanes_);
      for (unsigned v = 0; v < m; ++v)
        lanes[k * m + v] = b_.CreateSelect(first, e[v], b_.CreateSelect(row_mask_, r[v], a[v]));
    });
  }
  exits.emplace_back(b_.GetInsertBlock(), lanes);
  b_.CreateBr(filled);
  b_.SetInsertPoint(filled);
  for (unsigned i = 0; i < vectors * m; ++i) {
    llvm::PHINode* phi = b_.CreatePHI(lanes[i]->getType(), vectors);
    for (const auto& [from, values] : exits) phi->addIncoming(values[i], from);
    lanes[i] = phi;
  }
  Value* begin = b_.CreateAdd(base, i64(tree_lanes_));
  Value* whole = b_.CreateAnd(b_.CreateSub(count, begin), i64(-tree_lanes_));
  lanes = whole_segments(begin, b_.CreateAdd(begin, whole), lanes, elements_at);
  Value* next = b_.CreateAdd(begin, b_.CreateBinaryIntrinsic(llvm::Intrinsic::smax, whole, i64(0)));
  base->addIncoming(next, b_.GetInsertBlock());
  for (unsigned i = 0; i < vectors * m; ++i) entering[i]->addIncoming(lanes[i], b_.GetInsertBlock());
  b_.CreateCondBr(b_.CreateICmpSLT(next, count), segment, done);
  b_.SetInsertPoint(done);
  return lanes;
}

// The first `left` elements, fewer than L, of a segment in masked vectors, as many as they need: calls
// take(k, element values) for vector k with its mask set, and gives `lanes` as it left them.
KernelEmitter::Values KernelEmitter::partial_segment(
    Value* begin, Value* left, Values& lanes, const std::function<Values(Value*)>& elements_at,
    const std::function<void(unsigned, const Values&)>& take) {
  const unsigned vectors = tree_lanes_ / lanes_;
  llvm::Function* function = b_.GetInsertBlock()->getParent();
  auto* filled = BasicBlock::Create(module_.getContext(), "filled", function);
  std::vector<std::pair<BasicBlock*, Values>> exits;
  for (unsigned k = 0; k < vectors; ++k) {
    const int64_t at = static_cast<int64_t>(k) * lanes_;
    exits.emplace_back(b_.GetInsertBlock(), lanes);
    auto* more = BasicBlock::Create(module_.getContext(), "more", function);
    b_.CreateCondBr(b_.CreateICmpSGT(left, i64(at)), more, filled);
    b_.SetInsertPoint(more);
    masked(i64(at), left, lanes_, [&] { take(k, elements_at(b_.CreateAdd(begin, i64(at)))); });
  }
  exits.emplace_back(b_.GetInsertBlock(), lanes);
  b_.CreateBr(filled);
  b_.SetInsertPoint(filled);
  Values result;
  for (size_t i = 0; i < lanes.size(); ++i) {
    llvm::PHINode* phi = b_.CreatePHI(lanes[i]->getType(), exits.size());
    for (const auto& [from, values] : exits) phi->addIncoming(values[i], from);
    result.push_back(phi);
  }
  return result;
}

// A row of fewer than L elements, to its place in rows_; `masks` has the lanes of each vector that hold one.
void KernelEmitter::short_row(const Values& parallel, Value* place, const Values& masks) {
  poll_cancel();
  const unsigned m = level_offsets_.size();
  const size_t vectors = masks.size();
  Values indices = parallel;
  indices.push_back(nullptr);
  Row row = begin_row(kernel_.body, kernel_.parallel_rank, indices, {}, kernel_.reduction.inputs);
  const auto element = [&](size_t k) {
    row_mask_ = masks[k];
    Values e = row_elements(row, i64(static_cast<int64_t>(k) * lanes_), lanes_);
    row_mask_ = nullptr;
    return e;
  };
  const auto add = [&](const Values& a, const Values& e, size_t k) {
    Values r = combine(a, e, lanes_);
    for (unsigned v = 0; v < m; ++v) r[v] = b_.CreateSelect(masks[k], r[v], a[v]);
    return r;
  };
  // Vector k folds with vector k + half, from the last half on; a row that ends before some vector has no
  // code of it to run.
  const auto none = [&](size_t k) {
    return b_.CreateICmpEQ(b_.CreateBitCast(masks[k], b_.getIntNTy(lanes_)),
                           llvm::ConstantInt::get(b_.getIntNTy(lanes_), 0));
  };
  std::function<Values(size_t, size_t)> fold = [&](size_t k, size_t step) -> Values {
    // Elements of vectors k, k + step, k + 2 * step, ... as the tree has them.
    if (step >= vectors) return element(k);
    const Values a = fold(k, 2 * step);
    BasicBlock* before = b_.GetInsertBlock();
    auto* some = BasicBlock::Create(module_.getContext(), "some", before->getParent());
    auto* after = BasicBlock::Create(module_.getContext(), "folded", before->getParent());
    b_.CreateCondBr(none(k + step), after, some);
    b_.SetInsertPoint(some);
    Values r = add(a, fold(k + step, 2 * step), k + step);
    some = b_.GetInsertBlock();
    b_.CreateBr(after);
    b_.SetInsertPoint(after);
    for (unsigned v = 0; v < m; ++v) {
      llvm::PHINode* phi = b_.CreatePHI(r[v]->getType(), 2);
      phi->addIncoming(a[v], before);
      phi->addIncoming(r[v], some);
      r[v] = phi;
    }
    return r;
  };
  const Values result = fold(0, 1);
  for (unsigned v = 0; v < m; ++v) acc_store(result[v], acc_address(rows_, v, place, i64(0)), v, lanes_);
}

// The same as along_in_registers, with code of its own for the first segment.
KernelEmitter::Values KernelEmitter::along_peeled(const Values& indices, Value* start, Value* count) {
  const int last = kernel_.parallel_rank + kernel_.reduce_rank - 1;
  const unsigned vectors = tree_lanes_ / lanes_;
  const unsigned m = level_offsets_.size();
  Row row = begin_row(kernel_.body, last, indices, {}, kernel_.reduction.inputs);
  const auto elements_at = [&](Value* x) { return row_elements(row, b_.CreateAdd(start, x), lanes_); };
  Value* is_short = b_.CreateICmpSLT(count, i64(tree_lanes_));
  Value* end = b_.CreateAnd(count, i64(-tree_lanes_));
  BasicBlock* before = b_.GetInsertBlock();
  auto* whole = BasicBlock::Create(module_.getContext(), "whole", before->getParent());
  auto* rest = BasicBlock::Create(module_.getContext(), "rest", before->getParent());
  b_.CreateCondBr(is_short, rest, whole);
  b_.SetInsertPoint(whole);
  Values lanes;
  for (unsigned k = 0; k < vectors; ++k) {
    const Values e = elements_at(i64(static_cast<int64_t>(k) * lanes_));
    lanes.insert(lanes.end(), e.begin(), e.end());
  }
  lanes = whole_segments(i64(tree_lanes_), end, lanes, elements_at);
  whole = b_.GetInsertBlock();
  b_.CreateBr(rest);
  b_.SetInsertPoint(rest);
  for (Value*& lane : lanes) {
    llvm::PHINode* phi = b_.CreatePHI(lane->getType(), 2);
    phi->addIncoming(lane, whole);
    phi->addIncoming(llvm::Constant::getNullValue(lane->getType()), before);
    lane = phi;
  }
  Value* first = splat(is_short, lanes_);
  return partial_segment(end, b_.CreateSub(count, end), lanes, elements_at, [&](unsigned k, const Values& e) {
    const Values a(lanes.begin() + k * m, lanes.begin() + (k + 1) * m);
    const Values r = combine(a, e, lanes_);
    for (unsigned v = 0; v < m; ++v)
      lanes[k * m + v] = b_.CreateSelect(first, e[v], b_.CreateSelect(row_mask_, r[v], a[v]));
  });
}

// Segments in which every lane has an element and held one before.
KernelEmitter::Values KernelEmitter::whole_segments(Value* begin, Value* end, const Values& lanes,
                                                    const std::function<Values(Value*)>& elements_at) {
  const unsigned m = level_offsets_.size();
  return loop(begin, end, i64(tree_lanes_), lanes, [&](Value* x, const Values& a) {
    Values next;
    for (size_t k = 0; k < a.size() / m; ++k) {
      const Values e = elements_at(b_.CreateAdd(x, i64(static_cast<int64_t>(k) * lanes_)));
      const Values r = combine(Values(a.begin() + k * m, a.begin() + (k + 1) * m), e, lanes_);
      next.insert(next.end(), r.begin(), r.end());
    }
    return next;
  });
}

// The elements [start, start + count) of the reduced index to the lanes in memory, run by run of the last
// reduced dimension.
void KernelEmitter::along_runs(Values indices, Value* start, Value* count) {
  const int first_reduced = kernel_.parallel_rank;
  const int last = first_reduced + kernel_.reduce_rank - 1;
  if (kernel_.reduce_rank == 1) {
    along_run(indices, start, i64(0), count);
    return;
  }
  Value* extent = arg(last);
  Value* first_row = b_.CreateUDiv(start, extent);
  Value* first_column = b_.CreateSub(start, b_.CreateMul(first_row, extent));
  Value* runs =
      b_.CreateUDiv(b_.CreateAdd(b_.CreateAdd(first_column, count), b_.CreateSub(extent, i64(1))), extent);
  Values carried = decompose(first_row, first_reduced, kernel_.reduce_rank - 1);
  carried.push_back(i64(0));
  loop(i64(0), runs, i64(1), carried, [&](Value* run, const Values& state) {
    Values outer(state.begin(), state.end() - 1);
    Value* position = state.back();
    Value* column = b_.CreateSelect(b_.CreateICmpEQ(run, i64(0)), first_column, i64(0));
    Value* length = b_.CreateBinaryIntrinsic(llvm::Intrinsic::smin, b_.CreateSub(extent, column),
                                             b_.CreateSub(count, position));
    Value* end = b_.CreateAdd(position, length);
    std::copy(outer.begin(), outer.end(), indices.begin() + first_reduced);
    along_run(indices, column, position, end);
    Values next = increment(outer, first_reduced);
    next.push_back(end);
    return next;
  });
}

// One run: the elements at positions [position, end) of the chunk, the first of them at `column` of the last
// dimension. Segments end where the lanes wrap; whole ones after the first keep the lanes in registers.
void KernelEmitter::along_run(const Values& indices, Value* column, Value* position, Value* end) {
  const int last = kernel_.parallel_rank + kernel_.reduce_rank - 1;
  Row row = begin_row(kernel_.body, last, indices, {}, kernel_.reduction.inputs);
  Value* to_index = b_.CreateSub(column, position);
  const auto elements_at = [&](Value* x, unsigned lanes) {
    return row_elements(row, b_.CreateAdd(x, to_index), lanes);
  };
  Value* begin_base = b_.CreateAnd(position, i64(-tree_lanes_));
  llvm::Function* function = b_.GetInsertBlock()->getParent();
  auto* segment = BasicBlock::Create(module_.getContext(), "segment", function);
  auto* done = BasicBlock::Create(module_.getContext(), "run_done", function);
  BasicBlock* before = b_.GetInsertBlock();
  b_.CreateCondBr(b_.CreateICmpSLT(begin_base, end), segment, done);
  b_.SetInsertPoint(segment);
  llvm::PHINode* base = b_.CreatePHI(b_.getInt64Ty(), 2);
  base->addIncoming(begin_base, before);
  Value* begin = b_.CreateBinaryIntrinsic(llvm::Intrinsic::smax, base, position);
  Value* stop = b_.CreateBinaryIntrinsic(llvm::Intrinsic::smin, b_.CreateAdd(base, i64(tree_lanes_)), end);
  Value* first = b_.CreateICmpEQ(base, i64(0));
  const auto one = [&](Value* x, unsigned lanes) {
    accumulate(elements_at(x, lanes), i64(0), b_.CreateSub(x, base), first, lanes);
  };
  if (target_.has_masks && lanes_ <= kMostMasked) {
    loop(begin, stop, i64(lanes_), {}, [&](Value* x, const Values&) -> Values {
      masked(x, stop, lanes_, [&] { one(x, lanes_); });
      return {};
    });
  } else {
    row_part(begin, stop, one);
  }
  Value* next = b_.CreateAdd(base, i64(tree_lanes_));
  if (lanes_fit_registers())
    next = along_registers(next, end, [&](Value* x) { return elements_at(x, lanes_); });
  base->addIncoming(next, b_.GetInsertBlock());
  b_.CreateCondBr(b_.CreateICmpSLT(next, end), segment, done);
  b_.SetInsertPoint(done);
}

// The whole segments of [begin, end), every lane having an element; gives where they end.
Value* KernelEmitter::along_registers(Value* begin, Value* end,
                                      const std::function<Values(Value*)>& elements_at) {
  const unsigned vectors = tree_lanes_ / lanes_;
  const unsigned m = level_offsets_.size();
  Value* left = b_.CreateSub(end, begin);
  Value* whole = b_.CreateAnd(left, i64(-tree_lanes_));
  Value* stop = b_.CreateAdd(begin, whole);
  BasicBlock* before = b_.GetInsertBlock();
  llvm::Function* function = before->getParent();
  auto* inside = BasicBlock::Create(module_.getContext(), "registers", function);
  auto* after = BasicBlock::Create(module_.getContext(), "memory", function);
  b_.CreateCondBr(b_.CreateICmpSGT(whole, i64(0)), inside, after);
  b_.SetInsertPoint(inside);
  const auto address = [&](unsigned k, unsigned v) {
    return acc_address(levels_[0], v, i64(0), i64(static_cast<int64_t>(k) * lanes_));
  };
  Values lanes;
  for (unsigned k = 0; k < vectors; ++k)
    for (unsigned v = 0; v < m; ++v) lanes.push_back(acc_load(address(k, v), v, lanes_));
  lanes = whole_segments(begin, stop, lanes, elements_at);
  for (unsigned k = 0; k < vectors; ++k)
    for (unsigned v = 0; v < m; ++v) acc_store(lanes[k * m + v], address(k, v), v, lanes_);
  inside = b_.GetInsertBlock();
  b_.CreateBr(after);
  b_.SetInsertPoint(after);
  llvm::PHINode* reached = b_.CreatePHI(b_.getInt64Ty(), 2);
  reached->addIncoming(begin, before);
  reached->addIncoming(stop, inside);
  return reached;
}

// As many rows at a time as a vector has lanes: their last vectors fold together, and what follows the
// reduction is done for all of them at once.
void KernelEmitter::emit_along(Value* outer_begin, Value* outer_end, Value* inner_begin, Value* inner_end) {
  const int rank = kernel_.parallel_rank;
  Value* total = reduced_count();
  Value* several = b_.CreateICmpUGT(total, i64(kReduceChunk));
  const auto reach_of = [&](Value* count) {
    return b_.CreateBinaryIntrinsic(llvm::Intrinsic::smin, count, i64(lanes_));
  };
  Value* reach = b_.CreateSelect(several, i64(1), reach_of(total));
  // Rows of less than one segment all end at the same lane.
  Value* is_short = b_.CreateICmpULT(total, i64(tree_lanes_));
  Values masks;
  for (int64_t at = 0; is_peeled() && at < tree_lanes_; at += lanes_) {
    Value* left = b_.CreateBinaryIntrinsic(llvm::Intrinsic::smax, b_.CreateSub(total, i64(at)), i64(0));
    masks.push_back(first_lanes(left));
  }
  const auto reduce_row = [&](const Values& parallel, Value* row) {
    poll_cancel();
    Value* level = b_.CreateSelect(several, levels_[0], rows_);
    Value* place = b_.CreateSelect(several, i64(0), row);
    reduce_chunks(total, several, i64(1), [&](Value* start, Value* count) {
      const Values folded = along_chunk(parallel, start, count);
      for (unsigned v = 0; v < folded.size(); ++v)
        acc_store(folded[v], acc_address(level, v, place, i64(0)), v, lanes_);
      if_then(several, [&] { b_.CreateCall(fold_block_, {levels_[0], i64(1), reach_of(count)}); });
    });
    if_then(several, [&] {
      b_.CreateCall(combine_rows_, {rows_, row, levels_[2], i64(0), i64(1), b_.getTrue()});
    });
  };
  loop(outer_begin, outer_end, i64(1), decompose(outer_begin, 0, std::max(rank - 1, 0)),
       [&](Value*, const Values& outer) {
         loop(inner_begin, inner_end, i64(lanes_), {}, [&](Value* column, const Values&) -> Values {
           Value* rows = reach_of(b_.CreateSub(inner_end, column));
           const auto for_rows = [&](const std::function<void(const Values&, Value*)>& reduce) {
             loop(i64(0), rows, i64(1), {}, [&](Value* row, const Values&) -> Values {
               Values parallel = outer;
               if (rank > 0) parallel.push_back(b_.CreateAdd(column, row));
               reduce(parallel, row);
               return {};
             });
           };
           if (is_peeled() && rank > 0) {
             if_then(is_short, [&] {
               for_rows([&](const Values& parallel, Value* row) { short_row(parallel, row, masks); });
             });
             if_then(b_.CreateNot(is_short), [&] { for_rows(reduce_row); });
           } else {
             for_rows(reduce_row);
           }
           b_.CreateCall(fold_block_, {rows_, rows, reach});
           emit_epilogue(outer, rows_, total, column, b_.CreateAdd(column, rows));
           return {};
         });
         return increment(outer, 0);
       });
}

}  // namespace lamina::jit::cpu
