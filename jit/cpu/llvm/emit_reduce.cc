// Reductions with the tree of jit/loop_kernel.h. Accumulators are in memory: L lanes (times a block of
// columns in the kAcrossParallel form), so a row may start at any lane and the body is emitted once per
// width.
#include <llvm/IR/Constants.h>
#include <llvm/IR/Function.h>
#include <llvm/IR/Instructions.h>
#include <llvm/IR/Intrinsics.h>

#include <algorithm>

#include "jit/cpu/llvm/emit_kernel.h"

namespace lamina::jit::cpu {

using llvm::BasicBlock;
using llvm::Type;
using llvm::Value;

namespace {

// Columns of one block of the kAcrossParallel form: with L lanes of 256 bytes this makes 64 KiB per level.
constexpr int64_t kBlockColumns = 256;
// A block touches one KiB of each row, too little for the hardware to see the stream: its rows are asked for
// early.
constexpr int64_t kPrefetchRows = 4;
// Lanes of the kAlongReduced form stay in registers where they fit in so many vectors and the body, which is
// then there once per vector, has at most so many instructions in all.
constexpr int64_t kMostRegisters = 8;
constexpr int64_t kMostUnrolled = 96;
// A body of up to so many in all is there twice more, so that short rows meet few branches and no masks but
// that of their end.
constexpr int64_t kMostRepeated = 32;

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
    for (int k = 0; k < PrimEmitter::arity(instr.prim); ++k)
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
  Value* reach = count ? splat(b_.CreateTrunc(count, b_.getInt32Ty()), lanes_) : nullptr;
  for (size_t half = lanes.size() / m / 2; half > 0; half /= 2)
    for (size_t k = 0; k < half; ++k) {
      const auto a = lanes.begin() + k * m, e = lanes.begin() + (k + half) * m;
      Values r = combine(Values(a, a + m), Values(e, e + m), lanes_);
      if (reach) {
        std::vector<llvm::Constant*> others;
        for (unsigned j = 0; j < lanes_; ++j) others.push_back(b_.getInt32((k + half) * lanes_ + j));
        Value* reached = b_.CreateICmpSLT(llvm::ConstantVector::get(others), reach);
        for (unsigned v = 0; v < m; ++v) r[v] = b_.CreateSelect(reached, r[v], a[v]);
      }
      std::copy(r.begin(), r.end(), a);
    }
  lanes.resize(m);
  return lanes;
}

Value* KernelEmitter::reduced_count() {
  Value* total = i64(1);
  for (unsigned d = 0; d < kernel_.reduce_rank; ++d)
    total = b_.CreateMul(total, arg(kernel_.parallel_rank + d));
  return total;
}

Value* KernelEmitter::chunks_of(Value* total) {
  return b_.CreateUDiv(b_.CreateAdd(total, i64(kReduceChunk - 1)), i64(kReduceChunk));
}

// Runs `chunk(start, count)`, which leaves its result in row 0 of level 0, for every chunk and, if they are
// `several`, reduces their results to row 0 of level 2.
void KernelEmitter::reduce_chunks(Value* total, Value* several, Value* vectors,
                                  const std::function<void(Value*, Value*)>& chunk) {
  Value* chunks = chunks_of(total);
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

// The elements [start, start + count) of the reduced index, to one vector of lanes.
KernelEmitter::Values KernelEmitter::along_chunk(const Values& parallel, Value* start, Value* count) {
  const unsigned vectors = tree_lanes_ / lanes_;
  const unsigned m = level_offsets_.size();
  const int last = kernel_.parallel_rank + kernel_.reduce_rank - 1;
  Values indices = parallel;
  indices.resize(last + 1, nullptr);
  if (kernel_.reduce_rank == 1 && target_.has_masks && lanes_ <= kMostMasked && lanes_fit_registers()) {
    if (static_cast<int64_t>(vectors * kernel_.body.size()) <= kMostRepeated)
      return along_peeled(indices, start, count);
    return fold_vectors(along_in_registers(indices, start, count), count);
  }
  along_runs(indices, start, count);
  Values lanes;
  for (unsigned k = 0; k < vectors; ++k)
    for (unsigned v = 0; v < m; ++v)
      lanes.push_back(acc_load(acc_address(levels_[0], v, i64(0), i64(k * lanes_)), v, lanes_));
  return fold_vectors(std::move(lanes), count);
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

// The same as along_in_registers, folded, with code of its own for the first segment and for less than one.
KernelEmitter::Values KernelEmitter::along_peeled(const Values& indices, Value* start, Value* count) {
  const int last = kernel_.parallel_rank + kernel_.reduce_rank - 1;
  const unsigned vectors = tree_lanes_ / lanes_;
  const unsigned m = level_offsets_.size();
  Row row = begin_row(kernel_.body, last, indices, {}, kernel_.reduction.inputs);
  const auto elements_at = [&](Value* x) { return row_elements(row, b_.CreateAdd(start, x), lanes_); };
  llvm::Function* function = b_.GetInsertBlock()->getParent();
  const auto block = [&](const char* name) {
    return BasicBlock::Create(module_.getContext(), name, function);
  };
  BasicBlock *small = block("short"), *large = block("long"), *done = block("run_done");
  b_.CreateCondBr(b_.CreateICmpSLT(count, i64(tree_lanes_)), small, large);

  b_.SetInsertPoint(small);
  Values lanes;
  for (unsigned i = 0; i < vectors * m; ++i)
    lanes.push_back(llvm::Constant::getNullValue(prim_.type(reduced_type(i % m), lanes_)));
  lanes = partial_segment(i64(0), count, lanes, elements_at, [&](unsigned k, const Values& e) {
    std::copy(e.begin(), e.end(), lanes.begin() + k * m);
  });
  const Values few = fold_vectors(lanes, count);
  small = b_.GetInsertBlock();
  b_.CreateBr(done);

  b_.SetInsertPoint(large);
  lanes.clear();
  for (unsigned k = 0; k < vectors; ++k) {
    const Values e = elements_at(i64(static_cast<int64_t>(k) * lanes_));
    lanes.insert(lanes.end(), e.begin(), e.end());
  }
  Value* end = b_.CreateAnd(count, i64(-tree_lanes_));
  lanes = whole_segments(i64(tree_lanes_), end, lanes, elements_at);
  lanes =
      partial_segment(end, b_.CreateSub(count, end), lanes, elements_at, [&](unsigned k, const Values& e) {
        const Values a(lanes.begin() + k * m, lanes.begin() + (k + 1) * m);
        const Values r = combine(a, e, lanes_);
        for (unsigned v = 0; v < m; ++v) lanes[k * m + v] = b_.CreateSelect(row_mask_, r[v], a[v]);
      });
  const Values many = fold_vectors(lanes, nullptr);
  large = b_.GetInsertBlock();
  b_.CreateBr(done);

  b_.SetInsertPoint(done);
  Values result;
  for (unsigned v = 0; v < m; ++v) {
    llvm::PHINode* phi = b_.CreatePHI(few[v]->getType(), 2);
    phi->addIncoming(few[v], small);
    phi->addIncoming(many[v], large);
    result.push_back(phi);
  }
  return result;
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

KernelEmitter::Values KernelEmitter::row_elements(Row& row, Value* index, unsigned lanes) {
  const Values values = emit_section(row, index, lanes);
  Values elements;
  for (uint32_t id : kernel_.reduction.inputs) elements.push_back(row_value(row, values, id, lanes));
  return elements;
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

void KernelEmitter::across_chunk(const Values& parallel, Value* start, Value* count, Value* column,
                                 Value* column_end) {
  const int dim = kernel_.parallel_rank - 1;
  loop(i64(0), count, i64(1), decompose(start, kernel_.parallel_rank, kernel_.reduce_rank),
       [&](Value* e, const Values& reduced) {
         poll_cancel();
         Values indices = parallel;
         indices.push_back(nullptr);
         indices.insert(indices.end(), reduced.begin(), reduced.end());
         Row row = begin_row(kernel_.body, dim, indices, {}, kernel_.reduction.inputs);
         prefetch_along(row, kernel_.parallel_rank + kernel_.reduce_rank - 1, kPrefetchRows);
         Value* lane = b_.CreateAnd(e, i64(tree_lanes_ - 1));
         Value* first = b_.CreateICmpSLT(e, i64(tree_lanes_));
         row_part(column, column_end, [&](Value* i, unsigned lanes) {
           accumulate(row_elements(row, i, lanes), lane, b_.CreateSub(i, column), first, lanes);
         });
         return increment(reduced, kernel_.parallel_rank);
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
           loop(i64(0), rows, i64(1), {}, [&](Value* row, const Values&) -> Values {
             Values parallel = outer;
             if (rank > 0) parallel.push_back(b_.CreateAdd(column, row));
             reduce_row(parallel, row);
             return {};
           });
           b_.CreateCall(fold_block_, {rows_, rows, reach});
           emit_epilogue(outer, rows_, total, column, b_.CreateAdd(column, rows));
           return {};
         });
         return increment(outer, 0);
       });
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
