// Reductions across the vectors: L accumulators for each of a block of columns of the last parallel
// dimension.
#include <llvm/IR/Intrinsics.h>

#include <algorithm>
#include <functional>
#include <optional>

#include "jit/codegen/cpu_choice.h"
#include "jit/codegen/cpu_reduce.h"

namespace lamina::jit::codegen {

using llvm::Value;

namespace {

// Columns of one block. More of them read longer parts of each row (AVX2: sums over a middle axis 1.8 times
// as fast with 256 as with 64), and L lanes of 256 bytes make 64 KiB per level of the tree, which lie on the
// stack: too much for several reduced values.
constexpr int64_t kBlockColumns = 256, kBlockColumnsOfSeveral = 64;
// Such a part is too short for the hardware to see the stream: rows are asked for early.
constexpr int64_t kPrefetchRows = 8;
// With lanes in registers a step reads far from the one before. One addition each, and the processor is
// several steps ahead by itself; a longer combination keeps it from that, and rows are asked for so many
// segments early.
constexpr int64_t kPrefetchSegments = 2;
// Lanes, and vectors of columns, that are in registers together where the body has at most so many
// instructions.
constexpr unsigned kAcrossRegisters = 16, kAcrossVectors = 4;
constexpr size_t kMostAcross = 6;

// Elements of a vector of rows that are gone over before those of the next one.
constexpr int64_t kChosenTogether = 8;

class Across : public CpuReduction {
 public:
  explicit Across(CpuParts& parts)
      : c_(parts),
        kernel_(parts.kernel),
        f_(parts.f),
        b_(f_.builder()),
        columns_(kernel_.reduction.inputs.size() == 1 ? kBlockColumns : kBlockColumnsOfSeveral),
        tree_(parts, columns_),
        width_(parts.widths.lanes) {
    if (const std::optional<Choice> choice = choice_of(kernel_)) choice_.emplace(parts, *choice);
  }
  void emit(const CpuBounds& bounds) override;

 private:
  // Where a block stands.
  struct Block {
    const Values& parallel;  // indices of the parallel dimensions but the last
    Value *column, *column_end;
  };

  bool in_registers() const;
  void choose(const Block& block, Value* total);
  void chunk(const Block& block, Value* start, Value* count);
  void lanes_in_registers(const Block& block, Value* start, Value* count);
  void part_in_registers(const Block& block, Value* start, Value* count, Value* part);
  Values elements(const Block& block, Value* start, Value* e, Value* part, const Values& masks);

  CpuParts& c_;
  const LoopKernel& kernel_;
  FunctionBuilder& f_;
  llvm::IRBuilder<>& b_;
  const int64_t columns_;
  CpuTree tree_;
  const unsigned width_;  // lanes of a vector
  const unsigned vectors_ = std::min<unsigned>(kAcrossVectors, kBlockColumnsOfSeveral / width_);  // of a part
  const unsigned together_ = kAcrossRegisters / vectors_;  // lanes of the tree
  const bool masked_ =
      c_.widths.reads_masked(kernel_, kernel_.parallel_rank - 1);  // columns are read by masks
  std::optional<CpuChoice> choice_;
};

void Across::emit(const CpuBounds& bounds) {
  tree_.enter();
  const int rank = kernel_.parallel_rank;
  Value* total = tree_.total();
  Value* several = tree_.several_chunks(total);
  const auto reduce_block = [&](const Values& outer, Value* column) {
    c_.lanes.poll_cancel();
    Value* column_end = b_.CreateBinaryIntrinsic(llvm::Intrinsic::smin,
                                                 b_.CreateAdd(column, f_.i64(columns_)), bounds.inner_end);
    Value* vectors =
        b_.CreateUDiv(b_.CreateAdd(b_.CreateSub(column_end, column), f_.i64(width_ - 1)), f_.i64(width_));
    const Block block{outer, column, column_end};
    if (choice_) {
      choose(block, total);
      tree_.epilogue(outer, tree_.level(0), total, column, column_end);
      return;
    }
    tree_.chunks(total, several, vectors, [&](Value* start, Value* count) {
      chunk(block, start, count);
      tree_.fold(tree_.level(0), count, vectors);
    });
    tree_.epilogue(outer, b_.CreateSelect(several, tree_.level(2), tree_.level(0)), total, column,
                   column_end);
  };
  f_.loop(bounds.outer_begin, bounds.outer_end, f_.i64(1), f_.decompose(bounds.outer_begin, 0, rank - 1),
          [&](Value*, const Values& outer) {
            f_.loop(bounds.inner_begin, bounds.inner_end, f_.i64(columns_),
                    [&](Value* column) { reduce_block(outer, column); });
            return f_.increment(outer, 0);
          });
}

bool Across::in_registers() const {
  return kernel_.reduce_rank == 1 && c_.widths.masks && tree_.size() == 1 &&
         kernel_.body.size() <= kMostAcross;
}

// A few elements of all rows at a time, so that they are read in their order, while what is chosen of them
// stays in registers.
void Across::choose(const Block& block, Value* total) {
  f_.loop(f_.i64(0), total, f_.i64(kChosenTogether), [&](Value* begin) {
    c_.lanes.poll_cancel();
    Value* first = b_.CreateICmpEQ(begin, f_.i64(0));
    Value* end =
        b_.CreateBinaryIntrinsic(llvm::Intrinsic::smin, b_.CreateAdd(begin, f_.i64(kChosenTogether)), total);
    c_.rows.read_part(block.column, block.column_end, masked_, [&](Value* i, unsigned n) {
      Values places, best;
      for (unsigned v = 0; v < tree_.size(); ++v) {
        places.push_back(tree_.address(tree_.level(0), v, f_.i64(0), b_.CreateSub(i, block.column)));
        best.push_back(tree_.load(places[v], v, n));
      }
      best = choice_->rows(block.parallel, i, begin, end, best, first, n);
      for (unsigned v = 0; v < tree_.size(); ++v) tree_.store(best[v], places[v], v, n);
    });
  });
}

void Across::chunk(const Block& block, Value* start, Value* count) {
  const int dim = kernel_.parallel_rank - 1;
  Value* done = f_.i64(0);
  if (in_registers()) {
    done = b_.CreateAnd(count, f_.i64(-tree_.lanes()));
    lanes_in_registers(block, start, done);
  }
  f_.loop(done, count, f_.i64(1),
          f_.decompose(b_.CreateAdd(start, done), kernel_.parallel_rank, kernel_.reduce_rank),
          [&](Value* e, const Values& reduced) {
            c_.lanes.poll_cancel();
            Values indices = block.parallel;
            indices.push_back(nullptr);
            indices.insert(indices.end(), reduced.begin(), reduced.end());
            Row row = c_.sections.begin(kernel_.body, dim, indices, {{}, kernel_.reduction.inputs});
            c_.lanes.prefetch_along(row, kernel_.parallel_rank + kernel_.reduce_rank - 1, kPrefetchRows);
            Value* lane = b_.CreateAnd(e, f_.i64(tree_.lanes() - 1));
            Value* first = b_.CreateICmpSLT(e, f_.i64(tree_.lanes()));
            c_.rows.read_part(block.column, block.column_end, masked_, [&](Value* i, unsigned n) {
              tree_.accumulate(tree_.elements(row, i, n), lane, b_.CreateSub(i, block.column), first, n);
            });
            return f_.increment(reduced, kernel_.parallel_rank);
          });
}

// The first `count` elements of a chunk, a whole number of segments, lane after lane: a few lanes of a part
// of the block of columns are in registers while their elements are visited.
void Across::lanes_in_registers(const Block& block, Value* start, Value* count) {
  f_.if_then(b_.CreateICmpSGT(count, f_.i64(0)), [&] {
    f_.loop(block.column, block.column_end, f_.i64(vectors_ * width_),
            [&](Value* part) { part_in_registers(block, start, count, part); });
  });
}

void Across::part_in_registers(const Block& block, Value* start, Value* count, Value* part) {
  const auto at = [&](unsigned k) { return b_.CreateAdd(part, f_.i64(static_cast<int64_t>(k) * width_)); };
  Values masks;
  for (unsigned k = 0; k < vectors_; ++k)
    masks.push_back(c_.lanes.first_lanes(
        b_.CreateBinaryIntrinsic(llvm::Intrinsic::smax, b_.CreateSub(block.column_end, at(k)), f_.i64(0)),
        width_));
  const auto elements_at = [&](Value* e) { return elements(block, start, e, part, masks); };
  f_.loop(f_.i64(0), f_.i64(tree_.lanes()), f_.i64(together_), [&](Value* lane) {
    c_.lanes.poll_cancel();
    const Values lanes = f_.loop(b_.CreateAdd(lane, f_.i64(tree_.lanes())), count, f_.i64(tree_.lanes()),
                                 elements_at(lane), [&](Value* e, const Values& a) {
                                   const Values elements = elements_at(e);
                                   Values next;
                                   for (size_t i = 0; i < a.size(); ++i)
                                     next.push_back(tree_.combine({a[i]}, {elements[i]}, width_)[0]);
                                   return next;
                                 });
    for (unsigned i = 0; i < lanes.size(); ++i)
      f_.if_then(b_.CreateICmpSLT(at(i % vectors_), block.column_end), [&] {
        tree_.store(lanes[i],
                    tree_.address(tree_.level(0), 0, b_.CreateAdd(lane, f_.i64(i / vectors_)),
                                  b_.CreateSub(at(i % vectors_), block.column)),
                    0, width_);
      });
  });
}

// Of the elements from `e` on, one per lane, those of all columns of the part.
Values Across::elements(const Block& block, Value* start, Value* e, Value* part, const Values& masks) {
  Values elements;
  for (unsigned g = 0; g < together_; ++g) {
    Values indices = block.parallel;
    indices.push_back(nullptr);
    indices.push_back(b_.CreateAdd(b_.CreateAdd(start, e), f_.i64(g)));
    Row row =
        c_.sections.begin(kernel_.body, kernel_.parallel_rank - 1, indices, {{}, kernel_.reduction.inputs});
    if (kernel_.reduction.combine.code.size() > 1)
      c_.lanes.prefetch_along(row, kernel_.parallel_rank, kPrefetchSegments * tree_.lanes());
    for (unsigned k = 0; k < vectors_; ++k) {
      const LaneOps::Only only(c_.lanes, masks[k]);
      Value* column = b_.CreateAdd(part, f_.i64(static_cast<int64_t>(k) * width_));
      elements.push_back(tree_.elements(row, column, width_)[0]);
    }
  }
  return elements;
}

}  // namespace

std::unique_ptr<CpuReduction> make_cpu_across(CpuParts& parts) { return std::make_unique<Across>(parts); }

}  // namespace lamina::jit::codegen
