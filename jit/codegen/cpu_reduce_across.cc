// Reductions across the vectors: L accumulators for each of a block of columns of the last parallel
// dimension.
#include <llvm/IR/Intrinsics.h>

#include <algorithm>
#include <functional>
#include <optional>

#include "jit/codegen/cpu_choice.h"
#include "jit/codegen/cpu_reduce.h"
#include "jit/codegen/cpu_turn.h"

namespace lamina::jit::codegen {

using llvm::Value;

namespace {

// Columns of one block. More of them read longer parts of each row (AVX2: sums over a middle axis 1.8 times
// as fast with 256 as with 64), and L lanes of 256 bytes make 64 KiB per level of the tree, which lie on the
// stack: too much for several reduced values.
constexpr int64_t kBlockColumns = 256, kBlockColumnsOfSeveral = 64;
// Extremes have one lane: their levels are so large for the sake of long parts alone (AVX2: 2048 of f32).
constexpr int64_t kExtremeLevel = 256 * 1024;
// Of a part of fewer columns the hardware sees too little to go ahead by itself: rows are asked for early,
// which costs more than it gains where it does.
constexpr int64_t kLongPart = 512, kPrefetchRows = 8;
// With lanes in registers a step reads far from the one before. One addition each, and the processor is
// several steps ahead by itself; a longer combination keeps it from that, and rows are asked for so many
// segments early.
constexpr int64_t kPrefetchSegments = 2;
// Accumulators of lanes, each with so many vectors of columns, that are in registers together where the body
// has at most so many instructions; of the few columns behind whole parts, kAcrossRest lanes of one vector.
// Powers of two.
constexpr unsigned kAcrossRegisters = 16, kAcrossVectors = 4, kAcrossRest = 8;
constexpr size_t kMostAcross = 6;
// Where no masks read the columns behind whole vectors, the rows of so many segments are read side by side:
// lanes of 256 columns are larger than the first cache, and are loaded and stored once for all of those.
constexpr int64_t kSegmentsTogether = 3;

// Rows without gaps are read by so many segments side by side, where L rows of that many columns are no
// larger than the first cache.
constexpr int64_t kDenseTogether = 3, kMostDense = 128;
// Where such a segment is shorter than a page, several of them side by side are one stream to the processor,
// and slower than one after the other. Then so many reductions are made together that read far apart: memory
// has more under way of several streams than of one.
constexpr int64_t kReductionsBeside = 4, kShortSegment = 4096, kFarApart = 16384;

// Rows of which the extremes of each column are looked for together.
constexpr int64_t kExtremeRows = 8;

// Elements of a vector of rows that are gone over before those of the next one.
constexpr int64_t kChosenTogether = 8;

// Whether the body is so short that it may be made several times.
bool is_repeated(const LoopKernel& kernel) {
  return kernel.reduce_rank == 1 && kernel.reduction.inputs.size() == 1 && kernel.body.size() <= kMostAcross;
}

int64_t columns_of_block(const CpuParts& parts, const Turned& turned) {
  const LoopKernel& kernel = parts.kernel;
  if (kernel.reduction.inputs.size() != 1 || !turned.accesses.empty()) return kBlockColumnsOfSeveral;
  if (!is_repeated(kernel) || !CpuTree::is_extreme(kernel)) return kBlockColumns;
  const int64_t lanes = kExtremeVectors * parts.widths.lanes;
  return std::max(kBlockColumns,
                  kExtremeLevel / (lanes * hlo::byte_size(kernel.reduction.combine.inputs[0])));
}

class Across : public CpuReduction {
 public:
  Across(CpuParts& parts, const Turned& turned)
      : c_(parts),
        kernel_(parts.kernel),
        f_(parts.f),
        b_(f_.builder()),
        columns_(columns_of_block(parts, turned)),
        tree_(parts, columns_),
        width_(parts.widths.lanes) {
    if (const std::optional<Choice> choice = choice_of(kernel_)) choice_.emplace(parts, *choice);
    if (!turned.accesses.empty()) turn_.emplace(parts, turned.accesses);
  }
  void emit(const CpuBounds& bounds) override;

 private:
  // Where a block stands.
  struct Block {
    const Values& parallel;  // indices of the parallel dimensions but the last
    Value *column, *column_end;
  };

  bool is_repeated() const { return codegen::is_repeated(kernel_); }
  bool in_registers() const { return is_repeated() && masked_; }
  // Whether one lane of the tree and one chunk are enough, and rows are read in the order in which they lie.
  bool rows_in_turn() const { return is_repeated() && tree_.is_extreme(); }
  bool may_be_dense() const;
  bool loads(uint32_t access) const {
    return std::ranges::any_of(
        kernel_.body, [&](const KernelInstr& i) { return i.op == KernelOp::kLoad && i.imm == access; });
  }
  // Whether the access tells columns apart and not rows.
  bool is_of_columns(uint32_t access) const;
  DType type_of(uint32_t access) const { return kernel_.buffers[kernel_.accesses[access].buffer].type; }
  Value* is_dense(const Block& block);
  void spread_columns(const Block& block);
  void choose(const Block& block, Value* total);
  Value* fits_turned(const CpuBounds& bounds, Value* total);
  void reduce_turned(const CpuBounds& bounds, const Values& outer, Value* column, Value* total);
  void turn(const CpuBounds& bounds, const Block& block, Value* total);
  void choose_turned(const Block& block, Value* total);
  // Gives how many lanes of the tree are left to fold.
  Value* chunk(const Block& block, Value* start, Value* count);
  Row dense_row(const Block& block, Value* first);
  void add_dense(std::vector<Row>& rows, const Block& block, Value* i, Value* place, unsigned n, bool first);
  void fold_dense(Value* columns, Value* place);
  void dense_result(Value* columns, Value* place);
  void dense(const Block& block, Value* start, Value* count);
  Value* gains_beside(const Block& block, Value* total);
  void beside(const Block& block, Value* number, Value* total);
  void accumulate_rows(const Block& block, const std::vector<Values>& reduced, Value* lane, Value* first,
                       int64_t ahead = kPrefetchRows);
  void segments_together(const Block& block, Value* start, Value* count);
  void extremes(const Block& block, Value* start, Value* count);
  void lanes_in_registers(const Block& block, Value* start, Value* count);
  // Some vectors of columns of the block, all of whose lanes of the tree are gone over.
  struct Part {
    Value* column;  // the first one
    unsigned vectors;
    unsigned lanes;          // in registers together
    Value* mask;             // of one vector, or null: all of it
    bool is_turned = false;  // its elements are in the blocks of turn_, at most one for each lane
  };
  void part_in_registers(const Block& block, Value* start, Value* count, const Part& part);
  Value* apart(Value* count, unsigned lanes);
  void fold_part(const Block& block, Value* lanes, Value* power, const Part& part);
  Values elements(const Block& block, Value* row, const Part& part);
  Value* place(const Block& block, Value* lane, const Part& part, unsigned k);
  Values combine_all(const Values& a, const Values& e);

  CpuParts& c_;
  const LoopKernel& kernel_;
  FunctionBuilder& f_;
  llvm::IRBuilder<>& b_;
  const int64_t columns_;
  CpuTree tree_;
  const Variance variance_{kernel_};
  const unsigned width_;  // lanes of a vector
  const unsigned vectors_ = std::min<unsigned>(kAcrossVectors, kBlockColumnsOfSeveral / width_);  // of a part
  const bool masked_ =
      c_.widths.reads_masked(kernel_, kernel_.parallel_rank - 1);  // columns are read by masks
  std::optional<CpuChoice> choice_;
  std::optional<CpuTurn> turn_;
  Value* dense_rows_ = nullptr;  // lanes of the tree without gaps, where rows may lie so in memory
  // Accesses that are the same for all rows, and as many rows of each as the tree has lanes.
  std::vector<std::pair<uint32_t, Value*>> spread_;
};

void Across::emit(const CpuBounds& bounds) {
  tree_.enter(rows_in_turn() ? 1 : 3);
  if (turn_) turn_->enter(kMostTurnedRow);
  if (may_be_dense()) {
    dense_rows_ = tree_.new_level();
    for (uint32_t access = 0; access < kernel_.accesses.size(); ++access)
      if (loads(access) && is_of_columns(access))
        spread_.emplace_back(access, f_.at_entry().CreateAlloca(f_.prims().memory_type(type_of(access), 1),
                                                                f_.i64(tree_.lanes() * kMostDense)));
  }
  const int rank = kernel_.parallel_rank;
  Value* total = tree_.total();
  Value* several = rows_in_turn() ? nullptr : tree_.several_chunks(total);
  const auto reduce_block = [&](Value* outer_index, const Values& outer, Value* column) {
    c_.lanes.poll_cancel();
    Value* column_end = b_.CreateBinaryIntrinsic(llvm::Intrinsic::smin,
                                                 b_.CreateAdd(column, f_.i64(columns_)), bounds.inner_end);
    Value* vectors =
        b_.CreateUDiv(b_.CreateAdd(b_.CreateSub(column_end, column), f_.i64(width_ - 1)), f_.i64(width_));
    const Block block{outer, column, column_end};
    if (!spread_.empty()) f_.if_then(is_dense(block), [&] { spread_columns(block); });
    if (choice_) {
      choose(block, total);
      tree_.epilogue(outer, tree_.level(0), total, column, column, column_end);
      return;
    }
    Value* is_beside = b_.getFalse();
    if (dense_rows_ && rank > 1) {
      Value* number =
          b_.CreateAnd(b_.CreateSub(outer_index, bounds.outer_begin), f_.i64(kReductionsBeside - 1));
      Value* last = b_.CreateAdd(b_.CreateSub(outer_index, number), f_.i64(kReductionsBeside - 1));
      is_beside = b_.CreateAnd(gains_beside(block, total), b_.CreateICmpSLT(last, bounds.outer_end));
      f_.if_then(is_beside, [&] { beside(block, number, total); });
    }
    f_.if_then(b_.CreateNot(is_beside), [&] {
      if (!several) {
        chunk(block, f_.i64(0), total);
        return;
      }
      tree_.chunks(total, several, vectors, [&](Value* start, Value* count) {
        tree_.fold(tree_.level(0), chunk(block, start, count), vectors);
      });
    });
    Value* level = several ? b_.CreateSelect(several, tree_.level(2), tree_.level(0)) : tree_.level(0);
    tree_.epilogue(outer, level, total, column, column, column_end);
  };
  Value* turns = turn_ ? fits_turned(bounds, total) : b_.getFalse();
  f_.loop(bounds.outer_begin, bounds.outer_end, f_.i64(1), f_.decompose(bounds.outer_begin, 0, rank - 1),
          [&](Value* outer_index, const Values& outer) {
            if (turn_)
              f_.loop(bounds.inner_begin, b_.CreateSelect(turns, bounds.inner_end, bounds.inner_begin),
                      f_.i64(kTurnedColumns),
                      [&](Value* column) { reduce_turned(bounds, outer, column, total); });
            f_.loop(b_.CreateSelect(turns, bounds.inner_end, bounds.inner_begin), bounds.inner_end,
                    f_.i64(columns_), [&](Value* column) { reduce_block(outer_index, outer, column); });
            return f_.increment(outer, 0);
          });
}

// Whether all that is read lies row after row, given the right strides, or is the same for all rows.
bool Across::may_be_dense() const {
  const int column = kernel_.parallel_rank - 1, row = kernel_.parallel_rank;
  const auto along = [](const Access& a, int dim) {
    return std::ranges::count_if(a.terms, [&](const AccessTerm& t) { return t.dim == dim; });
  };
  return is_repeated() && tree_.lanes() % width_ == 0 &&
         std::ranges::all_of(kernel_.body, [&](const KernelInstr& i) {
           if (i.op != KernelOp::kLoad) return i.op == KernelOp::kPrim || i.op == KernelOp::kArg;
           const Access& a = kernel_.accesses[i.imm];
           const bool beside = std::ranges::all_of(
               a.terms, [&](const AccessTerm& t) { return t.dim != column || t.unit == 1; });
           return !i.predicated && beside && along(a, row) <= along(a, column) && along(a, column) <= 1;
         });
}

bool Across::is_of_columns(uint32_t access) const {
  return variance_.access(access, kernel_.parallel_rank - 1) &&
         !variance_.access(access, kernel_.parallel_rank);
}

// Lets a long row of the tree's lanes read what is the same for all of them.
void Across::spread_columns(const Block& block) {
  Value* columns = b_.CreateSub(block.column_end, block.column);
  for (const auto& [access, to] : spread_) {
    llvm::Type* const type = f_.prims().memory_type(type_of(access), 1);
    Values indices = block.parallel;
    indices.push_back(block.column);
    Value* from = c_.lanes.place_of(access, indices).first;
    f_.loop(f_.i64(0), columns, f_.i64(1), [&, to = to](Value* i) {
      Value* value = b_.CreateAlignedLoad(type, b_.CreateGEP(type, from, i), llvm::Align(1));
      f_.loop(i, b_.CreateMul(columns, f_.i64(tree_.lanes())), columns,
              [&](Value* at) { b_.CreateAlignedStore(value, b_.CreateGEP(type, to, at), llvm::Align(1)); });
    });
  }
}

// Rows of few columns without gaps between them.
Value* Across::is_dense(const Block& block) {
  Value* columns = b_.CreateSub(block.column_end, block.column);
  Value* dense = b_.CreateICmpSLE(columns, f_.i64(kMostDense));
  for (const KernelInstr& i : kernel_.body) {
    if (i.op != KernelOp::kLoad) continue;
    for (const AccessTerm& t : kernel_.accesses[i.imm].terms)
      if (t.dim == kernel_.parallel_rank)
        dense =
            b_.CreateAnd(dense, b_.CreateICmpEQ(t.unit ? f_.i64(t.unit) : f_.arg(t.stride_slot), columns));
  }
  return dense;
}

// L rows without gaps from row `first` on as one long row.
Row Across::dense_row(const Block& block, Value* first) {
  Values indices = block.parallel;
  indices.push_back(nullptr);
  indices.push_back(first);
  Row row =
      c_.sections.begin(kernel_.body, kernel_.parallel_rank - 1, indices, {{}, kernel_.reduction.inputs});
  for (const auto& [access, from] : spread_) {
    llvm::Type* const type = f_.prims().memory_type(type_of(access), 1);
    c_.lanes.read_from(row, access, b_.CreateGEP(type, from, b_.CreateNeg(block.column)));
  }
  return row;
}

// Elements from `i` on of such rows enter those that lie from `place` on, `first`: are the first ones there.
void Across::add_dense(std::vector<Row>& rows, const Block& block, Value* i, Value* place, unsigned n,
                       bool first) {
  Value* at = tree_.address(dense_rows_, 0, place, i);
  std::vector<Values> in_turn;
  if (!first) in_turn.push_back({tree_.load(at, 0, n)});
  for (Row& row : rows) in_turn.push_back(tree_.elements(row, b_.CreateAdd(block.column, i), n));
  Value* all = tree_.combine_all(in_turn, n)[0];
  if (Value* on = c_.lanes.on()) all = b_.CreateSelect(on, all, in_turn[0][0]);
  tree_.store(all, at, 0, n);
}

// Of all lanes, to the first row. The rest of its last vector lies in the half that has been folded already.
void Across::fold_dense(Value* columns, Value* place) {
  const auto at = [&](Value* i) { return tree_.address(dense_rows_, 0, place, i); };
  for (int64_t stride = tree_.lanes() / 2; stride > 0; stride /= 2) {
    Value* half = b_.CreateMul(columns, f_.i64(stride));
    f_.loop(f_.i64(0), half, f_.i64(width_), [&](Value* i) {
      const Values upper = {tree_.load(at(b_.CreateAdd(half, i)), 0, width_)};
      tree_.store(tree_.combine({tree_.load(at(i), 0, width_)}, upper, width_)[0], at(i), 0, width_);
    });
  }
}

// To row 0.
void Across::dense_result(Value* columns, Value* place) {
  f_.loop(f_.i64(0), columns, f_.i64(width_), [&](Value* i) {
    tree_.store(tree_.load(tree_.address(dense_rows_, 0, place, i), 0, width_),
                tree_.address(tree_.level(0), 0, f_.i64(0), i), 0, width_);
  });
}

// A chunk of at least a segment: L rows without gaps are one long row over which the others are folded vector
// by vector, whatever the number of columns. Row 0 gets the fold of all lanes.
void Across::dense(const Block& block, Value* start, Value* count) {
  Value* const columns = b_.CreateSub(block.column_end, block.column);
  Value* const end = b_.CreateMul(columns, f_.i64(tree_.lanes()));
  Value* const place = f_.i64(0);
  const int64_t vectors = std::min<int64_t>(kAcrossVectors, tree_.lanes() / width_);
  const auto segments = [&](Value* e, int64_t together, bool first) {
    c_.lanes.poll_cancel();
    std::vector<Row> rows;
    for (int64_t k = 0; k < together; ++k)
      rows.push_back(dense_row(block, b_.CreateAdd(start, b_.CreateAdd(e, f_.i64(k * tree_.lanes())))));
    f_.loop(f_.i64(0), end, f_.i64(vectors * width_), [&](Value* i) {
      for (int64_t v = 0; v < vectors; ++v)
        add_dense(rows, block, b_.CreateAdd(i, f_.i64(v * width_)), place, width_, first);
    });
  };
  // The first are so few that the others are a whole number of steps.
  Value* const whole = b_.CreateAnd(count, f_.i64(-tree_.lanes()));
  Value* const step = f_.i64(kDenseTogether * tree_.lanes());
  Value* const first = b_.CreateAdd(b_.CreateURem(b_.CreateSub(whole, f_.i64(1)), step), f_.i64(1));
  for (int64_t together = 1; together <= kDenseTogether; ++together)
    f_.if_then(b_.CreateICmpEQ(first, f_.i64(together * tree_.lanes())),
               [&] { segments(f_.i64(0), together, true); });
  f_.loop(first, whole, step, [&](Value* e) { segments(e, kDenseTogether, false); });
  std::vector<Row> rest;
  rest.push_back(dense_row(block, b_.CreateAdd(start, whole)));
  c_.rows.read_part(f_.i64(0), b_.CreateMul(columns, b_.CreateSub(count, whole)), masked_,
                    [&](Value* i, unsigned n) { add_dense(rest, block, i, place, n, false); });
  fold_dense(columns, place);
  dense_result(columns, place);
}

// Whether kReductionsBeside of them are faster than one after the other.
Value* Across::gains_beside(const Block& block, Value* total) {
  const int64_t bytes = hlo::byte_size(tree_.type(0)), row = tree_.lanes() * bytes;
  Value* columns = b_.CreateSub(block.column_end, block.column);
  Value* few = b_.CreateICmpSLT(columns, f_.i64(std::min(kShortSegment / row, columns_ / kReductionsBeside)));
  Value* far = b_.CreateICmpSGE(b_.CreateMul(total, columns), f_.i64(kFarApart / bytes));
  Value* whole = b_.CreateICmpSGE(total, f_.i64(tree_.lanes()));
  Value* one_chunk = b_.CreateICmpSLE(total, f_.i64(kReduceChunk));
  return b_.CreateAnd(b_.CreateAnd(is_dense(block), few), b_.CreateAnd(far, b_.CreateAnd(whole, one_chunk)));
}

// Row 0 gets the result of number `number` of those that are made together; number 0 makes them.
void Across::beside(const Block& block, Value* number, Value* total) {
  Value* const columns = b_.CreateSub(block.column_end, block.column);
  // Not at the same distance from the beginnings of pages.
  const int64_t lane = columns_ * hlo::byte_size(tree_.type(0));
  const int64_t lanes = std::min(kShortSegment / lane + 1, tree_.lanes() / kReductionsBeside);
  const auto place = [&](Value* k) { return b_.CreateMul(k, f_.i64(lanes)); };
  Value* const whole = b_.CreateAnd(total, f_.i64(-tree_.lanes()));
  const auto segment = [&](Value* e, bool first) {
    c_.lanes.poll_cancel();
    std::vector<std::vector<Row>> rows(kReductionsBeside);
    Values outer = block.parallel;
    for (std::vector<Row>& row : rows) {
      row.push_back(dense_row({outer, block.column, block.column_end}, e));
      outer = f_.increment(outer, 0);
    }
    f_.loop(f_.i64(0), b_.CreateMul(columns, f_.i64(tree_.lanes())), f_.i64(width_), [&](Value* i) {
      for (int64_t k = 0; k < kReductionsBeside; ++k)
        add_dense(rows[k], block, i, place(f_.i64(k)), width_, first);
    });
  };
  f_.if_then(b_.CreateICmpEQ(number, f_.i64(0)), [&] {
    segment(f_.i64(0), true);
    f_.loop(f_.i64(tree_.lanes()), whole, f_.i64(tree_.lanes()), [&](Value* e) { segment(e, false); });
    f_.loop(f_.i64(0), f_.i64(kReductionsBeside), f_.i64(1), block.parallel,
            [&](Value* k, const Values& outer) {
              std::vector<Row> rest;
              rest.push_back(dense_row({outer, block.column, block.column_end}, whole));
              c_.rows.read_part(f_.i64(0), b_.CreateMul(columns, b_.CreateSub(total, whole)), masked_,
                                [&](Value* i, unsigned n) { add_dense(rest, block, i, place(k), n, false); });
              fold_dense(columns, place(k));
              return f_.increment(outer, 0);
            });
  });
  dense_result(columns, place(number));
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
      const auto at = [&](Value* e) {
        Row row = choice_->beside(block.parallel, e);
        return choice_->at(row, i, e, n);
      };
      const Values one = at(begin);
      best = choice_->chosen(best, one);
      for (unsigned v = 0; v < tree_.size(); ++v)
        best[v] = b_.CreateSelect(f_.splat(first, n), one[v], best[v]);
      best = f_.loop(b_.CreateAdd(begin, f_.i64(1)), end, f_.i64(1), best,
                     [&](Value* e, const Values& before) { return choice_->chosen(before, at(e)); });
      for (unsigned v = 0; v < tree_.size(); ++v) tree_.store(best[v], places[v], v, n);
    });
  });
}

// ---- rows of few elements that lie side by side, read by turned blocks of them

// Whether there are enough rows for a block, and each element has a lane of the tree for itself.
Value* Across::fits_turned(const CpuBounds& bounds, Value* total) {
  Value* rows = b_.CreateSub(bounds.inner_end, bounds.inner_begin);
  Value* few =
      b_.CreateICmpULE(b_.CreateSub(total, f_.i64(1)), f_.i64(std::min(kMostTurnedRow, tree_.lanes()) - 1));
  return b_.CreateAnd(few, b_.CreateICmpSGE(rows, f_.i64(kTurnedColumns)));
}

// The last block begins earlier and reduces some rows again.
void Across::reduce_turned(const CpuBounds& bounds, const Values& outer, Value* column, Value* total) {
  c_.lanes.poll_cancel();
  Value* begin = b_.CreateBinaryIntrinsic(llvm::Intrinsic::smin, column,
                                          b_.CreateSub(bounds.inner_end, f_.i64(kTurnedColumns)));
  const Block block{outer, begin, b_.CreateAdd(begin, f_.i64(kTurnedColumns))};
  turn(bounds, block, total);
  if (choice_) {
    choose_turned(block, total);
  } else {
    const unsigned vectors = is_repeated() ? std::min(kAcrossRegisters / 4, vectors_) : 1;
    const unsigned lanes = is_repeated() ? kAcrossRegisters / vectors : 1;
    f_.loop(block.column, block.column_end, f_.i64(static_cast<int64_t>(vectors) * width_), [&](Value* i) {
      part_in_registers(block, f_.i64(0), total, {i, vectors, lanes, nullptr, true});
    });
  }
  tree_.epilogue(outer, tree_.level(0), total, block.column, column, block.column_end);
}

void Across::turn(const CpuBounds& bounds, const Block& block, Value* total) {
  const int dim = kernel_.parallel_rank - 1;
  Values first = block.parallel;
  first.push_back(block.column);
  first.push_back(f_.i64(0));
  for (size_t k = 0; k < turn_->accesses().size(); ++k) {
    const uint32_t access = turn_->accesses()[k];
    Value* step = nullptr;
    for (const AccessTerm& t : kernel_.accesses[access].terms)
      if (t.dim == dim) step = f_.arg(t.stride_slot);
    // Whole squares reach over the ends of rows, if other rows are there.
    const int64_t together = turn_->rows_together(k);
    Value* whole = b_.CreateAnd(b_.CreateAdd(total, f_.i64(together - 1)), f_.i64(-together));
    Value* reaches = b_.CreateAnd(b_.CreateICmpSLT(block.column_end, bounds.inner_end),
                                  b_.CreateICmpSGE(step, b_.CreateSub(whole, total)));
    turn_->fill(k, c_.lanes.place_of(access, first).first, step, b_.CreateSelect(reaches, whole, total),
                f_.i64(kTurnedColumns));
  }
}

void Across::choose_turned(const Block& block, Value* total) {
  const unsigned m = tree_.size();
  f_.loop(block.column, block.column_end, f_.i64(static_cast<int64_t>(vectors_) * width_), [&](Value* i) {
    const auto column = [&](unsigned k) { return b_.CreateAdd(i, f_.i64(k * int64_t{width_})); };
    const auto row_at = [&](Value* e) {
      Row row = choice_->beside(block.parallel, e);
      turn_->read(row, e, block.column);
      return row;
    };
    Values best;
    Row first = row_at(f_.i64(0));
    for (unsigned k = 0; k < vectors_; ++k)
      for (Value* v : choice_->at(first, column(k), f_.i64(0), width_)) best.push_back(v);
    best = f_.loop(f_.i64(1), total, f_.i64(1), best, [&](Value* e, const Values& before) {
      Row row = row_at(e);
      Values next;
      for (unsigned k = 0; k < vectors_; ++k) {
        const Values old(before.begin() + k * m, before.begin() + (k + 1) * m);
        for (Value* v : choice_->chosen(old, choice_->at(row, column(k), e, width_))) next.push_back(v);
      }
      return next;
    });
    for (unsigned k = 0; k < vectors_; ++k)
      for (unsigned v = 0; v < m; ++v)
        tree_.store(best[k * m + v],
                    tree_.address(tree_.level(0), v, f_.i64(0), b_.CreateSub(column(k), block.column)), v,
                    width_);
  });
}

// ---- chunks

Value* Across::chunk(const Block& block, Value* start, Value* count) {
  Value *done = f_.i64(0), *dense = b_.getFalse();
  if (dense_rows_) {
    dense = b_.CreateAnd(is_dense(block), b_.CreateICmpSGE(count, f_.i64(tree_.lanes())));
    f_.if_then(dense, [&] { this->dense(block, start, count); });
  }
  if (rows_in_turn()) {
    f_.if_then(b_.CreateNot(dense), [&] { extremes(block, start, count); });
    return f_.i64(1);
  }
  if (in_registers()) {
    f_.if_then(b_.CreateNot(dense), [&] { lanes_in_registers(block, start, count); });
    return f_.i64(1);
  }
  if (is_repeated()) {
    done = b_.CreateSub(count, b_.CreateURem(count, f_.i64(kSegmentsTogether * tree_.lanes())));
    done = b_.CreateSelect(dense, f_.i64(0), done);
    segments_together(block, start, done);
    done = b_.CreateSelect(dense, count, done);
  }
  f_.loop(done, count, f_.i64(1),
          f_.decompose(b_.CreateAdd(start, done), kernel_.parallel_rank, kernel_.reduce_rank),
          [&](Value* e, const Values& reduced) {
            Value* lane = b_.CreateAnd(e, f_.i64(tree_.lanes() - 1));
            Value* first = b_.CreateICmpSLT(e, f_.i64(tree_.lanes()));
            accumulate_rows(block, {reduced}, lane, first);
            return f_.increment(reduced, kernel_.parallel_rank);
          });
  return b_.CreateSelect(dense, f_.i64(1), count);
}

// Rows at the given reduced indices enter one lane.
void Across::accumulate_rows(const Block& block, const std::vector<Values>& reduced, Value* lane,
                             Value* first, int64_t ahead) {
  c_.lanes.poll_cancel();
  std::vector<Row> rows;
  for (const Values& at : reduced) {
    Values indices = block.parallel;
    indices.push_back(nullptr);
    indices.insert(indices.end(), at.begin(), at.end());
    rows.push_back(
        c_.sections.begin(kernel_.body, kernel_.parallel_rank - 1, indices, {{}, kernel_.reduction.inputs}));
    if (ahead > 0)
      c_.lanes.prefetch_along(rows.back(), kernel_.parallel_rank + kernel_.reduce_rank - 1, ahead);
  }
  c_.rows.read_part(block.column, block.column_end, masked_, [&](Value* i, unsigned n) {
    std::vector<Values> elements;
    for (Row& row : rows) elements.push_back(tree_.elements(row, i, n));
    tree_.accumulate(elements, lane, b_.CreateSub(i, block.column), first, n);
  });
}

// A chunk's `count` elements fold into row 0, a few rows at a time in their order.
void Across::extremes(const Block& block, Value* start, Value* count) {
  const auto add = [&](Value* from, Value* to, int64_t together, int64_t ahead) {
    f_.loop(from, to, f_.i64(together), [&](Value* e) {
      std::vector<Values> rows;
      for (int64_t k = 0; k < together; ++k)
        rows.push_back({b_.CreateAdd(start, b_.CreateAdd(e, f_.i64(k)))});
      accumulate_rows(block, rows, f_.i64(0), b_.CreateICmpEQ(e, f_.i64(0)), ahead);
    });
  };
  Value* rest = b_.CreateAnd(count, f_.i64(-kExtremeRows));
  Value* is_long = b_.CreateICmpSGE(b_.CreateSub(block.column_end, block.column), f_.i64(kLongPart));
  f_.if_then(is_long, [&] { add(f_.i64(0), rest, kExtremeRows, 0); });
  f_.if_then(b_.CreateNot(is_long), [&] { add(f_.i64(0), rest, kExtremeRows, kPrefetchRows); });
  add(rest, count, 1, 0);
}

// The first `count` elements of a chunk, a whole number of kSegmentsTogether segments.
void Across::segments_together(const Block& block, Value* start, Value* count) {
  f_.loop(f_.i64(0), count, f_.i64(kSegmentsTogether * tree_.lanes()), [&](Value* segment) {
    f_.loop(f_.i64(0), f_.i64(tree_.lanes()), f_.i64(1), [&](Value* lane) {
      std::vector<Values> rows;
      for (int64_t k = 0; k < kSegmentsTogether; ++k)
        rows.push_back(
            {b_.CreateAdd(b_.CreateAdd(start, segment), b_.CreateAdd(lane, f_.i64(k * tree_.lanes())))});
      accumulate_rows(block, rows, lane, b_.CreateICmpEQ(segment, f_.i64(0)));
    });
  });
}

// A chunk's `count` elements, one or more, fold into row 0: a few lanes of a part of the block of columns are
// in registers while their elements are visited.
void Across::lanes_in_registers(const Block& block, Value* start, Value* count) {
  const int64_t length = static_cast<int64_t>(vectors_) * width_;
  Value* columns = b_.CreateSub(block.column_end, block.column);
  Value* whole = b_.CreateAnd(columns, f_.i64(-length));
  // Many columns behind the whole parts are one that begins earlier and makes some again.
  Value* again = b_.CreateAnd(b_.CreateICmpSGE(columns, f_.i64(length)),
                              b_.CreateICmpSGT(b_.CreateSub(columns, whole), f_.i64(length / 2)));
  Value* parts_end = b_.CreateSelect(again, block.column_end, b_.CreateAdd(block.column, whole));
  Value* last = b_.CreateSub(block.column_end, f_.i64(length));
  f_.loop(block.column, parts_end, f_.i64(length), [&](Value* i) {
    Value* begin = b_.CreateBinaryIntrinsic(llvm::Intrinsic::smin, i, last);
    part_in_registers(block, start, count, {begin, vectors_, kAcrossRegisters / vectors_, nullptr});
  });
  f_.loop(parts_end, block.column_end, f_.i64(width_), [&](Value* i) {
    Value* mask = c_.lanes.first_lanes(b_.CreateSub(block.column_end, i), width_);
    part_in_registers(block, start, count, {i, 1, kAcrossRest, mask});
  });
}

// The lanes that are in registers together lie so far apart that the tree folds them first.
void Across::part_in_registers(const Block& block, Value* start, Value* count, const Part& part) {
  Value* const apart = this->apart(count, part.lanes);
  const auto row = [&](Value* e, unsigned g) { return b_.CreateAdd(e, b_.CreateMul(apart, f_.i64(g))); };
  const auto element = [&](Value* e) { return elements(block, b_.CreateAdd(start, e), part); };
  Value* const segments = b_.CreateAnd(count, f_.i64(-tree_.lanes()));
  Value* const last = b_.CreateSub(count, f_.i64(1));
  Value* const folded = b_.CreateBinaryIntrinsic(llvm::Intrinsic::smin, count, apart);
  f_.loop(f_.i64(0), folded, f_.i64(1), [&](Value* lane) {
    c_.lanes.poll_cancel();
    Values sums;  // `vectors` of each lane
    for (unsigned g = 0; g < part.lanes; ++g)
      // A lane that no element reaches gets any.
      for (Value* v : element(b_.CreateBinaryIntrinsic(llvm::Intrinsic::smin, row(lane, g), last)))
        sums.push_back(v);
    if (!part.is_turned)
      sums = f_.loop(b_.CreateAdd(lane, f_.i64(tree_.lanes())), segments, f_.i64(tree_.lanes()), sums,
                     [&](Value* e, const Values& before) {
                       Values next;
                       for (unsigned g = 0; g < part.lanes; ++g)
                         for (Value* v : element(row(e, g))) next.push_back(v);
                       return combine_all(before, next);
                     });
    Value* const rest = b_.CreateBinaryIntrinsic(llvm::Intrinsic::smax, segments, f_.i64(tree_.lanes()));
    std::vector<Values> lanes;
    for (unsigned g = 0; g < part.lanes; ++g) {
      const auto begin = sums.begin() + g * part.vectors;
      lanes.emplace_back(begin, begin + part.vectors);
      if (part.is_turned) continue;
      // Once or not at all.
      lanes.back() = f_.loop(b_.CreateAdd(rest, row(lane, g)), count, f_.i64(tree_.lanes()), lanes.back(),
                             [&](Value* e, const Values& before) { return combine_all(before, element(e)); });
    }
    for (unsigned half = part.lanes / 2; half > 0; half /= 2)
      for (unsigned g = 0; g < half; ++g) {
        Value* exists = b_.CreateICmpSLT(row(lane, g + half), count);
        const Values both = combine_all(lanes[g], lanes[g + half]);
        for (unsigned k = 0; k < part.vectors; ++k)
          lanes[g][k] = b_.CreateSelect(exists, both[k], lanes[g][k]);
      }
    for (unsigned k = 0; k < part.vectors; ++k)
      tree_.store(lanes[0][k], place(block, lane, part, k), 0, width_);
  });
  fold_part(block, folded, apart, part);
}

// The distance of so many lanes that fold together first: a power of two, as those that hold an element are
// at most `lanes` times as many.
Value* Across::apart(Value* count, unsigned lanes) {
  Value* zeros =
      b_.CreateBinaryIntrinsic(llvm::Intrinsic::ctlz, b_.CreateSub(count, f_.i64(1)), b_.getFalse());
  Value* held = b_.CreateShl(f_.i64(1), b_.CreateSub(f_.i64(64), zeros));
  held = b_.CreateBinaryIntrinsic(llvm::Intrinsic::smin, held, f_.i64(tree_.lanes()));
  return b_.CreateBinaryIntrinsic(llvm::Intrinsic::smax, b_.CreateUDiv(held, f_.i64(lanes)), f_.i64(1));
}

// Where vector k of the part stands in a lane of level 0.
Value* Across::place(const Block& block, Value* lane, const Part& part, unsigned k) {
  Value* column = b_.CreateAdd(b_.CreateSub(part.column, block.column), f_.i64(k * int64_t{width_}));
  return tree_.address(tree_.level(0), 0, lane, column);
}

// The first `lanes` lanes, of at most `power` (one of two), fold at halving stride into lane 0.
void Across::fold_part(const Block& block, Value* lanes, Value* power, const Part& part) {
  const auto values = [&](Value* lane) {
    Values values;
    for (unsigned k = 0; k < part.vectors; ++k)
      values.push_back(tree_.load(place(block, lane, part, k), 0, width_));
    return values;
  };
  Value* levels = b_.CreateBinaryIntrinsic(llvm::Intrinsic::cttz, power, b_.getTrue());
  f_.loop(f_.i64(0), levels, f_.i64(1), [&](Value* level) {
    Value* stride = b_.CreateLShr(power, b_.CreateAdd(level, f_.i64(1)));
    Value* end = b_.CreateBinaryIntrinsic(llvm::Intrinsic::smin, stride, b_.CreateSub(lanes, stride));
    f_.loop(f_.i64(0), end, f_.i64(1), [&](Value* lane) {
      const Values both = combine_all(values(lane), values(b_.CreateAdd(lane, stride)));
      for (unsigned k = 0; k < part.vectors; ++k)
        tree_.store(both[k], place(block, lane, part, k), 0, width_);
    });
  });
}

Values Across::combine_all(const Values& a, const Values& e) {
  Values all;
  for (size_t i = 0; i < a.size(); ++i) all.push_back(tree_.combine({a[i]}, {e[i]}, width_)[0]);
  return all;
}

// Those of the part's columns at an index of the reduced dimension.
Values Across::elements(const Block& block, Value* row, const Part& part) {
  std::optional<LaneOps::Only> only;
  if (part.mask) only.emplace(c_.lanes, part.mask);
  Values indices = block.parallel;
  indices.push_back(nullptr);
  indices.push_back(row);
  Row elements =
      c_.sections.begin(kernel_.body, kernel_.parallel_rank - 1, indices, {{}, kernel_.reduction.inputs});
  if (part.is_turned)
    turn_->read(elements, row, block.column);
  else if (kernel_.reduction.combine.code.size() > 1 || part.mask)
    c_.lanes.prefetch_along(elements, kernel_.parallel_rank, kPrefetchSegments * tree_.lanes());
  Values values;
  for (unsigned k = 0; k < part.vectors; ++k)
    values.push_back(
        tree_.elements(elements, b_.CreateAdd(part.column, f_.i64(k * int64_t{width_})), width_)[0]);
  return values;
}

}  // namespace

std::unique_ptr<CpuReduction> make_cpu_across(CpuParts& parts, const Turned& turned) {
  return std::make_unique<Across>(parts, turned);
}

}  // namespace lamina::jit::codegen
