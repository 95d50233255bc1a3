// Reductions along the vectors: rows of reduced elements that lie side by side, and what folds their lanes.
// The tree is that of jit/kernel/kernel.h.
#include <llvm/IR/Constants.h>
#include <llvm/IR/Function.h>
#include <llvm/IR/Instructions.h>
#include <llvm/IR/Intrinsics.h>

#include <algorithm>
#include <optional>

#include "jit/codegen/cpu_choice.h"
#include "jit/codegen/cpu_reduce.h"

namespace lamina::jit::codegen {

using llvm::BasicBlock;
using llvm::Type;
using llvm::Value;

namespace {

// Lanes stay in registers where the body, which is then there once per vector, has at most so many
// instructions in all.
constexpr size_t kMostUnrolled = 96;
// A body of up to so many in all is there twice more, so that rows meet no masks but those of their end and
// short ones few branches.
constexpr size_t kMostRepeated = 32;
// Rows that begin at least so many bytes apart are read two at a time: of two streams the caches and memory
// have more under way than of one, unless they are in one page.
constexpr int64_t kPairedFrom = 8192;

class Along : public CpuReduction {
 public:
  explicit Along(CpuParts& parts)
      : c_(parts),
        kernel_(parts.kernel),
        f_(parts.f),
        b_(f_.builder()),
        tree_(parts, parts.widths.lanes),
        width_(parts.widths.lanes),
        last_(kernel_.parallel_rank + kernel_.reduce_rank - 1),
        vectors_(tree_.lanes() / width_),
        masked_(parts.widths.reads_masked(kernel_, last_)) {
    if (const std::optional<Choice> choice = choice_of(kernel_); choice && CpuChoice::suits(kernel_))
      choice_.emplace(parts, *choice);
    make_fold_block();
  }
  void emit(const CpuBounds& bounds) override;

 private:
  // The m values of the elements of one vector, the first of them at `index`.
  using ElementsAt = std::function<Values(Value* index)>;
  using Take = std::function<void(unsigned k, const Values& elements)>;

  void make_fold_block();
  Value* up_to_width(Value* count);
  // A row of results: to its place in rows_.
  void reduce_row(const Values& parallel, Value* row);
  void short_row(const Values& parallel, Value* row);
  void single_row(const Values& parallel, Value* row);
  void two_rows(const std::vector<Values>& parallel, const Values& places);
  void chosen_row(const Values& parallel, Value* row);
  Values fold_short(Row& row, size_t k, size_t step);
  void reduce_rows(const Values& outer, Value* column, Value* count);
  // A chunk, to one vector of lanes. Of several vectors, value v of vector k is at k * m + v.
  Values chunk(const Values& parallel, Value* start, Value* count);
  Values fold_vectors(Values lanes, Value* count);
  void fold_level(Value* count);
  Value* reached_by(Value* reach, unsigned k);
  // In registers throughout.
  bool lanes_fit_registers() const;
  bool stays_in_registers() const;
  bool is_peeled() const;
  bool pairs_rows() const;
  Row row_of(const Values& indices);
  Values in_registers(const Values& indices, Value* start, Value* count);
  Values peeled(const Values& indices, Value* start, Value* count);
  Values partial_segment(Value* begin, Value* left, Values& lanes, const ElementsAt& elements_at,
                         const Take& take);
  Values whole_segments(Value* begin, Value* end, const Values& lanes, const std::vector<ElementsAt>& rows);
  Values add_segments(Value* begin, int64_t count, const Values& lanes, const ElementsAt& elements_at);
  // By way of memory.
  void add_runs(Values indices, Value* start, Value* count);
  void add_run(const Values& indices, Value* column, Value* position, Value* end);
  Value* run_in_registers(Value* begin, Value* end, const ElementsAt& elements_at);

  CpuParts& c_;
  const LoopKernel& kernel_;
  FunctionBuilder& f_;
  llvm::IRBuilder<>& b_;
  CpuTree tree_;
  const unsigned width_;             // lanes of a vector
  const int last_;                   // the last reduced dimension
  const unsigned vectors_;           // that hold the L lanes
  const bool masked_;                // rows are read by masks
  std::optional<CpuChoice> choice_;  // of rows of a segment and more
  llvm::Function* fold_block_ = nullptr;
  Value* rows_ = nullptr;  // a block with a vector of lanes per row of results
  Value *total_ = nullptr, *several_ = nullptr;
  Value *is_short_ = nullptr, *is_single_ = nullptr;  // less than L elements, no more than a vector has
  Values short_masks_;  // per vector of a row shorter than L: the lanes that hold an element
};

// fold_block(level, rows, reach): in each of the first `rows` rows, the first `reach` of its elements
// fold at halving stride; the result of row i goes to element i of row 0. While blocks of `length` elements
// are left, row i holds those of rows i, i + length, ...: every step halves the blocks and puts two rows into
// one.
void Along::make_fold_block() {
  Type* i64_type = b_.getInt64Ty();
  fold_block_ = f_.make_function("fold_block", b_.getVoidTy(), {b_.getPtrTy(), i64_type, i64_type},
                                 llvm::GlobalValue::InternalLinkage);
  b_.SetInsertPoint(BasicBlock::Create(f_.context(), "entry", fold_block_));
  Value* level = fold_block_->getArg(0);
  const unsigned m = tree_.size();
  const unsigned w = width_;
  Value* reach = f_.splat(b_.CreateTrunc(fold_block_->getArg(2), b_.getInt32Ty()), w);
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
    Value* end = b_.CreateBinaryIntrinsic(llvm::Intrinsic::smin, f_.i64(half), fold_block_->getArg(1));
    f_.loop(f_.i64(0), end, f_.i64(1), [&](Value* i) {
      Values addresses, a, e;
      for (unsigned v = 0; v < m; ++v) {
        addresses.push_back(tree_.address(level, v, i, f_.i64(0)));
        Value* one = tree_.load(addresses[v], v, w);
        Value* two = tree_.load(tree_.address(level, v, b_.CreateAdd(i, f_.i64(half)), f_.i64(0)), v, w);
        a.push_back(b_.CreateShuffleVector(one, two, low));
        e.push_back(b_.CreateShuffleVector(one, two, high));
      }
      const Values r = tree_.combine(a, e, w);
      for (unsigned v = 0; v < m; ++v) tree_.store(b_.CreateSelect(reached, r[v], a[v]), addresses[v], v, w);
    });
  }
  b_.CreateRetVoid();
}

// The L lanes of a chunk of `count` elements, value v of vector k at k * m + v, folded at halving stride
// until they are one vector.
Values Along::fold_vectors(Values lanes, Value* count) {
  const unsigned m = tree_.size();
  Value* reach = f_.splat(b_.CreateTrunc(count, b_.getInt32Ty()), width_);
  for (size_t half = lanes.size() / m / 2; half > 0; half /= 2)
    for (size_t k = 0; k < half; ++k) {
      Value* reached = reached_by(reach, static_cast<unsigned>(k + half));
      const auto a = lanes.begin() + k * m, e = lanes.begin() + (k + half) * m;
      const Values r = tree_.combine(Values(a, a + m), Values(e, e + m), width_);
      for (unsigned v = 0; v < m; ++v) a[v] = b_.CreateSelect(reached, r[v], a[v]);
    }
  lanes.resize(m);
  return lanes;
}

// The elements [start, start + count) of the reduced index, to one vector of lanes.
Values Along::chunk(const Values& parallel, Value* start, Value* count) {
  const unsigned m = tree_.size();
  Values indices = parallel;
  indices.resize(last_ + 1, nullptr);
  if (stays_in_registers())
    return fold_vectors(is_peeled() ? peeled(indices, start, count) : in_registers(indices, start, count),
                        count);
  add_runs(indices, start, count);
  fold_level(count);
  Values lanes;
  for (unsigned v = 0; v < m; ++v)
    lanes.push_back(tree_.load(tree_.address(tree_.level(0), v, f_.i64(0), f_.i64(0)), v, width_));
  return lanes;
}

// As fold_vectors, of the lanes in level 0. Elements that do not reach a half have no code of it to run.
void Along::fold_level(Value* count) {
  Value* reach = f_.splat(b_.CreateTrunc(count, b_.getInt32Ty()), width_);
  const auto vector = [&](unsigned v, unsigned k) {
    return tree_.address(tree_.level(0), v, f_.i64(0), f_.i64(static_cast<int64_t>(k) * width_));
  };
  for (unsigned half = vectors_ / 2; half > 0; half /= 2)
    f_.if_then(b_.CreateICmpSGT(count, f_.i64(static_cast<int64_t>(half) * width_)), [&] {
      for (unsigned k = 0; k < half; ++k) {
        Values a, e;
        for (unsigned v = 0; v < tree_.size(); ++v) {
          a.push_back(tree_.load(vector(v, k), v, width_));
          e.push_back(tree_.load(vector(v, k + half), v, width_));
        }
        const Values r = tree_.combine(a, e, width_);
        Value* reached = reached_by(reach, k + half);
        for (unsigned v = 0; v < tree_.size(); ++v)
          tree_.store(b_.CreateSelect(reached, r[v], a[v]), vector(v, k), v, width_);
      }
    });
}

// Which lanes of vector k lie before `reach`.
Value* Along::reached_by(Value* reach, unsigned k) {
  std::vector<llvm::Constant*> lanes;
  for (unsigned j = 0; j < width_; ++j) lanes.push_back(b_.getInt32(k * width_ + j));
  return b_.CreateICmpSLT(llvm::ConstantVector::get(lanes), reach);
}

bool Along::stays_in_registers() const {
  return kernel_.reduce_rank == 1 && masked_ && lanes_fit_registers();
}

bool Along::is_peeled() const {
  return stays_in_registers() && vectors_ * kernel_.body.size() <= kMostRepeated;
}

bool Along::lanes_fit_registers() const {
  return vectors_ * tree_.size() <= kMostRegisters && vectors_ * kernel_.body.size() <= kMostUnrolled;
}

// Whether there is code for two rows at a time.
bool Along::pairs_rows() const {
  return is_peeled() && kernel_.parallel_rank > 0 && !choice_;
}

Row Along::row_of(const Values& indices) {
  Row row = c_.sections.begin(kernel_.body, last_, indices, {{}, kernel_.reduction.inputs});
  c_.lanes.prefetch_along(row, last_, kBytesAhead / hlo::byte_size(tree_.type(0)));
  return row;
}

// A chunk whose reduced index is that of one dimension, the L lanes in registers throughout. A segment is L
// elements: the first, and one that is not whole, take masked vectors, as many as they have elements for.
Values Along::in_registers(const Values& indices, Value* start, Value* count) {
  const unsigned m = tree_.size();
  Row row = row_of(indices);
  const auto elements_at = [&](Value* x) { return tree_.elements(row, b_.CreateAdd(start, x), width_); };
  BasicBlock *before = b_.GetInsertBlock(), *segment = f_.block("segment"), *filled = f_.block("filled"),
             *done = f_.block("run_done");
  b_.CreateBr(segment);
  b_.SetInsertPoint(segment);
  llvm::PHINode* base = b_.CreatePHI(b_.getInt64Ty(), 2);
  base->addIncoming(f_.i64(0), before);
  std::vector<llvm::PHINode*> entering;
  for (unsigned i = 0; i < vectors_ * m; ++i) {
    Type* type = f_.prims().type(tree_.type(i % m), width_);
    entering.push_back(b_.CreatePHI(type, 2));
    entering.back()->addIncoming(llvm::Constant::getNullValue(type), before);
  }
  Values lanes(entering.begin(), entering.end());
  Value* first = f_.splat(b_.CreateICmpEQ(base, f_.i64(0)), width_);
  Value* left = b_.CreateSub(count, base);
  std::vector<FunctionBuilder::Way> exits;
  for (unsigned k = 0; k < vectors_; ++k) {
    const int64_t at = static_cast<int64_t>(k) * width_;
    if (k > 0) {
      exits.emplace_back(b_.GetInsertBlock(), lanes);
      BasicBlock* more = f_.block("more");
      b_.CreateCondBr(b_.CreateICmpSGT(left, f_.i64(at)), more, filled);
      b_.SetInsertPoint(more);
    }
    Value* x = b_.CreateAdd(base, f_.i64(at));
    c_.lanes.masked(x, count, width_, [&] {
      const Values e = elements_at(x);
      const Values a(lanes.begin() + k * m, lanes.begin() + (k + 1) * m);
      const Values r = tree_.combine(a, e, width_);
      for (unsigned v = 0; v < m; ++v)
        lanes[k * m + v] = b_.CreateSelect(first, e[v], b_.CreateSelect(c_.lanes.on(), r[v], a[v]));
    });
  }
  exits.emplace_back(b_.GetInsertBlock(), lanes);
  b_.CreateBr(filled);
  b_.SetInsertPoint(filled);
  lanes = f_.meet(exits);
  Value* begin = b_.CreateAdd(base, f_.i64(tree_.lanes()));
  Value* whole = b_.CreateAnd(b_.CreateSub(count, begin), f_.i64(-tree_.lanes()));
  lanes = whole_segments(begin, b_.CreateAdd(begin, whole), lanes, {elements_at});
  Value* next = b_.CreateAdd(begin, b_.CreateBinaryIntrinsic(llvm::Intrinsic::smax, whole, f_.i64(0)));
  base->addIncoming(next, b_.GetInsertBlock());
  for (unsigned i = 0; i < vectors_ * m; ++i) entering[i]->addIncoming(lanes[i], b_.GetInsertBlock());
  b_.CreateCondBr(b_.CreateICmpSLT(next, count), segment, done);
  b_.SetInsertPoint(done);
  return lanes;
}

// The first `left` elements, fewer than L, of a segment in masked vectors, as many as they need: calls
// take(k, element values) for vector k with its mask set, and gives `lanes` as it left them.
Values Along::partial_segment(Value* begin, Value* left, Values& lanes, const ElementsAt& elements_at,
                              const Take& take) {
  BasicBlock* filled = f_.block("filled");
  std::vector<FunctionBuilder::Way> exits;
  for (unsigned k = 0; k < vectors_; ++k) {
    const int64_t at = static_cast<int64_t>(k) * width_;
    exits.emplace_back(b_.GetInsertBlock(), lanes);
    BasicBlock* more = f_.block("more");
    b_.CreateCondBr(b_.CreateICmpSGT(left, f_.i64(at)), more, filled);
    b_.SetInsertPoint(more);
    c_.lanes.masked(f_.i64(at), left, width_, [&] { take(k, elements_at(b_.CreateAdd(begin, f_.i64(at)))); });
  }
  exits.emplace_back(b_.GetInsertBlock(), lanes);
  b_.CreateBr(filled);
  b_.SetInsertPoint(filled);
  return f_.meet(exits);
}

// A row of fewer than L elements.
void Along::short_row(const Values& parallel, Value* place) {
  c_.lanes.poll_cancel();
  Values indices = parallel;
  indices.push_back(nullptr);
  Row row = c_.sections.begin(kernel_.body, kernel_.parallel_rank, indices, {{}, kernel_.reduction.inputs});
  const Values result = fold_short(row, 0, 1);
  for (unsigned v = 0; v < result.size(); ++v)
    tree_.store(result[v], tree_.address(rows_, v, place, f_.i64(0)), v, width_);
}

// A row of no more than a vector. There are many of them: nothing stands here but what each asks for.
void Along::single_row(const Values& parallel, Value* place) {
  Values indices = parallel;
  indices.push_back(nullptr);
  Row row = c_.sections.begin(kernel_.body, kernel_.parallel_rank, indices, {{}, kernel_.reduction.inputs});
  const LaneOps::Only only(c_.lanes, short_masks_[0]);
  const Values result = tree_.elements(row, f_.i64(0), width_);
  for (unsigned v = 0; v < result.size(); ++v)
    tree_.store(result[v], tree_.address(rows_, v, place, f_.i64(0)), v, width_);
}

// Rows of at least a segment and at most a chunk. The processor looks ahead by itself where it sees two.
void Along::two_rows(const std::vector<Values>& parallel, const Values& places) {
  c_.lanes.poll_cancel();
  const unsigned m = tree_.size();
  std::vector<Row> rows;
  std::vector<ElementsAt> elements;
  for (const Values& at : parallel) {
    Values indices = at;
    indices.push_back(nullptr);
    rows.push_back(c_.sections.begin(kernel_.body, last_, indices, {{}, kernel_.reduction.inputs}));
  }
  for (Row& row : rows)
    elements.emplace_back([this, &row](Value* x) { return tree_.elements(row, x, width_); });
  Values lanes;
  for (const ElementsAt& of : elements)
    for (unsigned k = 0; k < vectors_; ++k)
      for (Value* v : of(f_.i64(int64_t{k} * width_))) lanes.push_back(v);
  Value* const end = b_.CreateAnd(total_, f_.i64(-tree_.lanes()));
  lanes = whole_segments(f_.i64(tree_.lanes()), end, lanes, elements);
  for (size_t r = 0; r < rows.size(); ++r) {
    const auto of = lanes.begin() + static_cast<ptrdiff_t>(r * vectors_ * m);
    Values own(of, of + vectors_ * m);
    own = partial_segment(end, b_.CreateSub(total_, end), own, elements[r], [&](unsigned k, const Values& e) {
      const Values a(own.begin() + k * m, own.begin() + (k + 1) * m);
      const Values next = tree_.combine(a, e, width_);
      for (unsigned v = 0; v < m; ++v) own[k * m + v] = b_.CreateSelect(c_.lanes.on(), next[v], a[v]);
    });
    const Values folded = fold_vectors(own, total_);
    for (unsigned v = 0; v < m; ++v)
      tree_.store(folded[v], tree_.address(rows_, v, places[r], f_.i64(0)), v, width_);
  }
}

// Elements of vectors k, k + step, k + 2 * step, ... of a short row as the tree has them: vector k folds with
// vector k + half, from the last half on. A row that ends before some vector has no code of it to run.
Values Along::fold_short(Row& row, size_t k, size_t step) {
  if (step >= vectors_) {
    const LaneOps::Only only(c_.lanes, short_masks_[k]);
    return tree_.elements(row, f_.i64(static_cast<int64_t>(k) * width_), width_);
  }
  const Values a = fold_short(row, k, 2 * step);
  Value* mask = short_masks_[k + step];
  BasicBlock* before = b_.GetInsertBlock();
  BasicBlock* some = f_.block("some");
  BasicBlock* after = f_.block("folded");
  Value* none = b_.CreateICmpEQ(b_.CreateBitCast(mask, b_.getIntNTy(width_)),
                                llvm::ConstantInt::get(b_.getIntNTy(width_), 0));
  b_.CreateCondBr(none, after, some);
  b_.SetInsertPoint(some);
  const Values e = fold_short(row, k + step, 2 * step);
  Values r = tree_.combine(a, e, width_);
  for (unsigned v = 0; v < r.size(); ++v) r[v] = b_.CreateSelect(mask, r[v], a[v]);
  some = b_.GetInsertBlock();
  b_.CreateBr(after);
  b_.SetInsertPoint(after);
  return f_.meet({{before, a}, {some, r}});
}

// The same as in_registers, with code of its own for the first segment.
Values Along::peeled(const Values& indices, Value* start, Value* count) {
  const unsigned m = tree_.size();
  Row row = row_of(indices);
  const auto elements_at = [&](Value* x) { return tree_.elements(row, b_.CreateAdd(start, x), width_); };
  Value* is_short = b_.CreateICmpSLT(count, f_.i64(tree_.lanes()));
  Value* end = b_.CreateAnd(count, f_.i64(-tree_.lanes()));
  // Of extremes what is left is also in a segment that begins earlier.
  Value* left = tree_.is_extreme() ? b_.CreateSelect(is_short, count, f_.i64(0)) : b_.CreateSub(count, end);
  BasicBlock* before = b_.GetInsertBlock();
  BasicBlock* whole = f_.block("whole");
  BasicBlock* rest = f_.block("rest");
  b_.CreateCondBr(is_short, rest, whole);
  b_.SetInsertPoint(whole);
  Values lanes;
  for (unsigned k = 0; k < vectors_; ++k) {
    const Values e = elements_at(f_.i64(static_cast<int64_t>(k) * width_));
    lanes.insert(lanes.end(), e.begin(), e.end());
  }
  lanes = whole_segments(f_.i64(tree_.lanes()), end, lanes, {elements_at});
  if (tree_.is_extreme())
    lanes = add_segments(b_.CreateSub(count, f_.i64(tree_.lanes())), 1, lanes, elements_at);
  whole = b_.GetInsertBlock();
  b_.CreateBr(rest);
  b_.SetInsertPoint(rest);
  Values none;
  for (Value* lane : lanes) none.push_back(llvm::Constant::getNullValue(lane->getType()));
  lanes = f_.meet({{whole, lanes}, {before, none}});
  Value* first = f_.splat(is_short, width_);
  return partial_segment(end, left, lanes, elements_at, [&](unsigned k, const Values& e) {
    const Values a(lanes.begin() + k * m, lanes.begin() + (k + 1) * m);
    const Values r = tree_.combine(a, e, width_);
    for (unsigned v = 0; v < m; ++v)
      lanes[k * m + v] = b_.CreateSelect(first, e[v], b_.CreateSelect(c_.lanes.on(), r[v], a[v]));
  });
}

// Segments in which every lane has an element and held one before; of several rows, the lanes of one behind
// those of the other.
Values Along::whole_segments(Value* begin, Value* end, const Values& lanes,
                             const std::vector<ElementsAt>& rows) {
  const auto each = static_cast<ptrdiff_t>(lanes.size() / rows.size());
  const auto add = [&](Value* from, Value* to, int64_t together, const Values& before) {
    return f_.loop(from, to, f_.i64(together * tree_.lanes()), before, [&](Value* x, const Values& a) {
      Values next;
      for (auto of = a.begin(); const ElementsAt& row : rows) {
        const Values added = add_segments(x, together, Values(of, of + each), row);
        next.insert(next.end(), added.begin(), added.end());
        of += each;
      }
      return next;
    });
  };
  if (!tree_.is_extreme()) return add(begin, end, 1, lanes);
  Value* together = b_.CreateAnd(b_.CreateSub(end, begin), f_.i64(-kExtremesTogether * tree_.lanes()));
  Value* rest = b_.CreateAdd(begin, b_.CreateBinaryIntrinsic(llvm::Intrinsic::smax, together, f_.i64(0)));
  return add(rest, end, 1, add(begin, rest, kExtremesTogether, lanes));
}

// One of them, or several of extremes, whose elements may go to any lanes.
Values Along::add_segments(Value* begin, int64_t count, const Values& lanes, const ElementsAt& elements_at) {
  const unsigned m = tree_.size();
  Values next;
  int64_t at = 0;
  for (size_t k = 0; k < lanes.size() / m; ++k) {
    std::vector<Values> in_turn = {Values(lanes.begin() + k * m, lanes.begin() + (k + 1) * m)};
    for (int64_t s = 0; s < count; ++s, at += width_)
      in_turn.push_back(elements_at(b_.CreateAdd(begin, f_.i64(at))));
    const Values r = tree_.combine_all(in_turn, width_);
    next.insert(next.end(), r.begin(), r.end());
  }
  return next;
}

// The elements [start, start + count) of the reduced index to the lanes in memory, run by run of the last
// reduced dimension.
void Along::add_runs(Values indices, Value* start, Value* count) {
  const int first_reduced = kernel_.parallel_rank;
  if (kernel_.reduce_rank == 1) {
    add_run(indices, start, f_.i64(0), count);
    return;
  }
  Value* extent = f_.arg(last_);
  Value* first_row = b_.CreateUDiv(start, extent);
  Value* first_column = b_.CreateSub(start, b_.CreateMul(first_row, extent));
  Value* runs =
      b_.CreateUDiv(b_.CreateAdd(b_.CreateAdd(first_column, count), b_.CreateSub(extent, f_.i64(1))), extent);
  Values carried = f_.decompose(first_row, first_reduced, kernel_.reduce_rank - 1);
  carried.push_back(f_.i64(0));
  f_.loop(f_.i64(0), runs, f_.i64(1), carried, [&](Value* run, const Values& state) {
    Values outer(state.begin(), state.end() - 1);
    Value* position = state.back();
    Value* column = b_.CreateSelect(b_.CreateICmpEQ(run, f_.i64(0)), first_column, f_.i64(0));
    Value* length = b_.CreateBinaryIntrinsic(llvm::Intrinsic::smin, b_.CreateSub(extent, column),
                                             b_.CreateSub(count, position));
    Value* end = b_.CreateAdd(position, length);
    std::copy(outer.begin(), outer.end(), indices.begin() + first_reduced);
    add_run(indices, column, position, end);
    Values next = f_.increment(outer, first_reduced);
    next.push_back(end);
    return next;
  });
}

// One run: the elements at positions [position, end) of the chunk, the first of them at `column` of the last
// dimension. Segments end where the lanes wrap; whole ones after the first keep the lanes in registers.
void Along::add_run(const Values& indices, Value* column, Value* position, Value* end) {
  Row row = c_.sections.begin(kernel_.body, last_, indices, {{}, kernel_.reduction.inputs});
  Value* to_index = b_.CreateSub(column, position);
  const auto elements_at = [&](Value* x, unsigned lanes) {
    return tree_.elements(row, b_.CreateAdd(x, to_index), lanes);
  };
  Value* begin_base = b_.CreateAnd(position, f_.i64(-tree_.lanes()));
  BasicBlock* segment = f_.block("segment");
  BasicBlock* done = f_.block("run_done");
  BasicBlock* before = b_.GetInsertBlock();
  b_.CreateCondBr(b_.CreateICmpSLT(begin_base, end), segment, done);
  b_.SetInsertPoint(segment);
  llvm::PHINode* base = b_.CreatePHI(b_.getInt64Ty(), 2);
  base->addIncoming(begin_base, before);
  Value* begin = b_.CreateBinaryIntrinsic(llvm::Intrinsic::smax, base, position);
  Value* stop =
      b_.CreateBinaryIntrinsic(llvm::Intrinsic::smin, b_.CreateAdd(base, f_.i64(tree_.lanes())), end);
  Value* first = b_.CreateICmpEQ(base, f_.i64(0));
  const auto one = [&](Value* x, unsigned lanes) {
    tree_.accumulate({elements_at(x, lanes)}, f_.i64(0), b_.CreateSub(x, base), first, lanes);
  };
  c_.rows.read_part(begin, stop, masked_, one);
  Value* next = b_.CreateAdd(base, f_.i64(tree_.lanes()));
  if (lanes_fit_registers())
    next = run_in_registers(next, end, [&](Value* x) { return elements_at(x, width_); });
  base->addIncoming(next, b_.GetInsertBlock());
  b_.CreateCondBr(b_.CreateICmpSLT(next, end), segment, done);
  b_.SetInsertPoint(done);
}

// The whole segments of [begin, end), every lane having an element; gives where they end.
Value* Along::run_in_registers(Value* begin, Value* end, const ElementsAt& elements_at) {
  const unsigned m = tree_.size();
  Value* left = b_.CreateSub(end, begin);
  Value* whole = b_.CreateAnd(left, f_.i64(-tree_.lanes()));
  Value* stop = b_.CreateAdd(begin, whole);
  BasicBlock* before = b_.GetInsertBlock();
  BasicBlock* inside = f_.block("registers");
  BasicBlock* after = f_.block("memory");
  b_.CreateCondBr(b_.CreateICmpSGT(whole, f_.i64(0)), inside, after);
  b_.SetInsertPoint(inside);
  const auto address = [&](unsigned k, unsigned v) {
    return tree_.address(tree_.level(0), v, f_.i64(0), f_.i64(static_cast<int64_t>(k) * width_));
  };
  Values lanes;
  for (unsigned k = 0; k < vectors_; ++k)
    for (unsigned v = 0; v < m; ++v) lanes.push_back(tree_.load(address(k, v), v, width_));
  lanes = whole_segments(begin, stop, lanes, {elements_at});
  for (unsigned k = 0; k < vectors_; ++k)
    for (unsigned v = 0; v < m; ++v) tree_.store(lanes[k * m + v], address(k, v), v, width_);
  inside = b_.GetInsertBlock();
  b_.CreateBr(after);
  b_.SetInsertPoint(after);
  return f_.meet({{before, {begin}}, {inside, {stop}}})[0];
}

Value* Along::up_to_width(Value* count) {
  return b_.CreateBinaryIntrinsic(llvm::Intrinsic::smin, count, f_.i64(width_));
}

void Along::reduce_row(const Values& parallel, Value* row) {
  c_.lanes.poll_cancel();
  Value* level = b_.CreateSelect(several_, tree_.level(0), rows_);
  Value* place = b_.CreateSelect(several_, f_.i64(0), row);
  tree_.chunks(total_, several_, f_.i64(1), [&](Value* start, Value* count) {
    const Values folded = chunk(parallel, start, count);
    for (unsigned v = 0; v < folded.size(); ++v)
      tree_.store(folded[v], tree_.address(level, v, place, f_.i64(0)), v, width_);
    f_.if_then(several_, [&] {
      b_.CreateCall(fold_block_, {tree_.level(0), f_.i64(1), up_to_width(count)});
    });
  });
  f_.if_then(several_, [&] { tree_.copy_row(rows_, row, tree_.level(2), f_.i64(0), f_.i64(1)); });
}

void Along::chosen_row(const Values& parallel, Value* place) {
  Values indices = parallel;
  indices.resize(last_ + 1, nullptr);
  const Values result = choice_->row(indices, total_);
  for (unsigned v = 0; v < result.size(); ++v)
    tree_.store(result[v], tree_.address(rows_, v, place, f_.i64(0)), v, 1);
}

// The first `count` rows from `column` on.
void Along::reduce_rows(const Values& outer, Value* column, Value* count) {
  const auto parallel = [&](Value* row) {
    Values indices = outer;
    if (kernel_.parallel_rank > 0) indices.push_back(b_.CreateAdd(column, row));
    return indices;
  };
  const auto each = [&](void (Along::*reduce)(const Values&, Value*), Value* first) {
    f_.loop(first, count, f_.i64(1), [&](Value* row) { (this->*reduce)(parallel(row), row); });
  };
  const bool short_rows = is_peeled() && kernel_.parallel_rank > 0;
  if (!short_rows && !choice_) {
    each(&Along::reduce_row, f_.i64(0));
    return;
  }
  Value* is_short = is_short_;
  if (short_rows) {
    f_.if_then(is_single_, [&] {
      c_.lanes.poll_cancel();
      each(&Along::single_row, f_.i64(0));
    });
    is_short = b_.CreateAnd(is_short, b_.CreateNot(is_single_));
  }
  f_.if_then(is_short, [&] { each(short_rows ? &Along::short_row : &Along::reduce_row, f_.i64(0)); });
  Value* whole = b_.CreateNot(is_short_);
  Value* first = f_.i64(0);
  if (pairs_rows()) {
    Value* half = b_.CreateLShr(count, 1);
    Value* bytes = b_.CreateMul(b_.CreateMul(total_, half), f_.i64(hlo::byte_size(tree_.type(0))));
    Value* pairs = b_.CreateAnd(whole, b_.CreateNot(several_));
    pairs = b_.CreateAnd(pairs, b_.CreateICmpSGE(bytes, f_.i64(kPairedFrom)));
    half = b_.CreateSelect(pairs, half, first);
    f_.loop(first, half, f_.i64(1), [&](Value* row) {
      Value* other = b_.CreateAdd(row, half);
      two_rows({parallel(row), parallel(other)}, {row, other});
    });
    first = b_.CreateShl(half, 1);
  }
  f_.if_then(whole, [&] { each(choice_ ? &Along::chosen_row : &Along::reduce_row, first); });
}

// As many rows at a time as a vector has lanes: their last vectors fold together, and what follows the
// reduction is done for all of them at once.
void Along::emit(const CpuBounds& bounds) {
  tree_.enter();
  rows_ = tree_.new_level();
  const int rank = kernel_.parallel_rank;
  total_ = tree_.total();
  several_ = tree_.several_chunks(total_);
  // Rows of less than one segment all end at the same lane.
  is_short_ = b_.CreateICmpULT(total_, f_.i64(tree_.lanes()));
  is_single_ = b_.CreateICmpULE(total_, f_.i64(width_));
  Value* is_folded = choice_ ? b_.CreateNot(is_short_) : several_;
  Value* reach = b_.CreateSelect(is_folded, f_.i64(1), up_to_width(total_));
  for (int64_t at = 0; is_peeled() && at < tree_.lanes(); at += width_) {
    Value* left =
        b_.CreateBinaryIntrinsic(llvm::Intrinsic::smax, b_.CreateSub(total_, f_.i64(at)), f_.i64(0));
    short_masks_.push_back(c_.lanes.first_lanes(left, width_));
  }
  f_.loop(bounds.outer_begin, bounds.outer_end, f_.i64(1),
          f_.decompose(bounds.outer_begin, 0, std::max(rank - 1, 0)), [&](Value*, const Values& outer) {
            f_.loop(bounds.inner_begin, bounds.inner_end, f_.i64(width_), [&](Value* column) {
              Value* rows = up_to_width(b_.CreateSub(bounds.inner_end, column));
              reduce_rows(outer, column, rows);
              b_.CreateCall(fold_block_, {rows_, rows, reach});
              tree_.epilogue(outer, rows_, total_, column, column, b_.CreateAdd(column, rows));
            });
            return f_.increment(outer, 0);
          });
}

}  // namespace

std::unique_ptr<CpuReduction> make_cpu_along(CpuParts& parts) { return std::make_unique<Along>(parts); }

}  // namespace lamina::jit::codegen
