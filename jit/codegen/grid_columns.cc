// Reductions across rows: threads side by side make columns, `rows` of them below each other the lanes of the
// tree, which fold in the memory that a block shares. Columns of several chunks have a block for each chunk.
#include <llvm/IR/Constants.h>
#include <llvm/IR/Intrinsics.h>

#include "jit/codegen/grid_reduce.h"

namespace lamina::jit::codegen {

using llvm::Value;

namespace {

class ColumnReduction {
 public:
  explicit ColumnReduction(GridParts& parts)
      : c_(parts),
        f_(parts.f),
        b_(f_.builder()),
        rows_(parts.schedule.rows),
        columns_(kGridThreads / rows_ * parts.schedule.lanes),
        tree_(parts, rows_, columns_, parts.schedule.lanes) {}

  bool fits() const { return tree_.bytes() <= kMostSharedBytes; }
  void emit();

 private:
  Values step(Row& line, Value* index, Value* first, const Values& lane);
  Values lines(const Values& outer, Value* number, Value* first, uint32_t count, const Values& entering);
  Values walk(const Values& outer, Value* first, Value* end);

  GridParts& c_;
  FunctionBuilder& f_;
  llvm::IRBuilder<>& b_;
  const int64_t rows_;
  const int64_t columns_;  // of a block
  SharedTree tree_;
  GridLanes::Part part_;  // this thread's columns
};

// Lanes of this thread's columns after one more element of each, which are the first ones where `first`.
Values ColumnReduction::step(Row& line, Value* index, Value* first, const Values& lane) {
  const Values values = c_.sections.emit(line, index, 1);
  Values e;
  for (uint32_t id : c_.kernel.reduction.inputs) e.push_back(c_.sections.value(line, values, id, 1));
  Values r = c_.sections.combine(lane, e, 1);
  for (size_t v = 0; v < r.size(); ++v) r[v] = b_.CreateSelect(first, e[v], r[v]);
  return r;
}

// The elements `number`, `number` + L, ..., `count` of them, whose loads are under way together.
Values ColumnReduction::lines(const Values& outer, Value* number, Value* first, uint32_t count,
                              const Values& entering) {
  const LoopKernel& kernel = c_.kernel;
  std::vector<Row> rows;
  for (uint32_t j = 0; j < count; ++j) {
    Values indices = outer;
    indices.push_back(nullptr);
    const Values reduced = c_.rows.decompose(b_.CreateAdd(number, f_.i64(j * tree_lanes(kernel))),
                                             kernel.parallel_rank, kernel.reduce_rank);
    indices.insert(indices.end(), reduced.begin(), reduced.end());
    rows.push_back(
        c_.sections.begin(kernel.body, kernel.parallel_rank - 1, indices, {{}, kernel.reduction.inputs}));
  }
  Value* starts = b_.CreateICmpEQ(number, first);
  std::vector<Values> lanes;
  for (unsigned k = 0; k < part_.lanes; ++k) lanes.push_back(lane_of(c_, entering, k));
  c_.lanes.lines(rows, part_, [&](size_t line, Value* index, unsigned k) {
    lanes[k] = step(rows[line], index, line == 0 ? starts : b_.getFalse(), lanes[k]);
  });
  Values next;
  for (const Values& lane : lanes) next.insert(next.end(), lane.begin(), lane.end());
  return next;
}

// What this thread's lane of the tree holds of each column after the elements from `first` on, L apart and
// before `end`.
Values ColumnReduction::walk(const Values& outer, Value* first, Value* end) {
  const int64_t apart = tree_lanes(c_.kernel), together = apart * c_.schedule.vectors;
  Value* from = first;
  Values lanes = no_lanes(c_, part_.lanes);
  if (c_.schedule.vectors > 1) {
    Value* whole = b_.CreateSub(b_.CreateSub(end, f_.i64(together - apart)), first);
    whole = b_.CreateMul(
        c_.rows.parts(b_.CreateBinaryIntrinsic(llvm::Intrinsic::smax, whole, f_.i64(0)), together),
        f_.i64(together));
    from = b_.CreateAdd(first, whole);
    lanes = f_.loop(first, from, f_.i64(together), lanes, [&](Value* number, const Values& entering) {
      return lines(outer, number, first, c_.schedule.vectors, entering);
    });
  }
  return f_.loop(from, end, f_.i64(apart), lanes, [&](Value* number, const Values& entering) {
    return lines(outer, number, first, 1, entering);
  });
}

// The results of all of a column, or of one chunk.
void ColumnReduction::emit() {
  const bool in_chunks = has_partials(c_.schedule);
  const GridParts::Extra extra = c_.enter(in_chunks ? kGridChunks : kGridEntry, in_chunks);
  const unsigned outer_dims = c_.kernel.parallel_rank - 1;
  const int64_t across = kGridThreads / rows_;
  Value* inner = f_.arg(outer_dims);
  Value *block = c_.rows.block(), *thread = c_.rows.thread();
  Value* row = b_.CreateUDiv(thread, f_.i64(across));
  Value* side =
      b_.CreateMul(b_.CreateSub(thread, b_.CreateMul(row, f_.i64(across))), f_.i64(c_.schedule.lanes));
  tree_.enter(row, side);
  Value *total = reduced_total(c_), *outer = f_.i64(0), *chunks = nullptr;
  GridChunk chunk{outer, f_.i64(0), total};
  if (outer_dims > 0 || in_chunks) {
    Value* tiles = c_.rows.parts(inner, columns_);
    outer = c_.rows.quotient(block, tiles);
    block = b_.CreateSub(block, b_.CreateMul(outer, tiles));
  }
  Value* task = outer;
  if (in_chunks) {
    chunks = chunks_of(c_, total);
    chunk = chunk_of(c_, task, chunks, total);
    outer = chunk.row;
  }
  part_ = {c_.schedule.lanes, {b_.CreateAdd(b_.CreateMul(block, f_.i64(columns_)), side)}, inner};
  const Values parallel = c_.rows.decompose(outer, 0, outer_dims);
  // Past the end there is nothing to be made like the last column: one column is no vector.
  Value* there = b_.CreateICmpSLT(part_.starts[0], inner);
  const Values lanes =
      tree_.fold(walk(parallel, b_.CreateAdd(chunk.start, row), b_.CreateSelect(there, chunk.end, f_.i64(0))),
                 b_.CreateSub(chunk.end, chunk.start), rows_ / 2);
  f_.if_then(b_.CreateAnd(there, b_.CreateICmpEQ(row, f_.i64(0))), [&] {
    if (in_chunks) {
      Value* first_of_row = b_.CreateMul(chunk.row, inner);
      Value* in_row = b_.CreateSub(task, b_.CreateMul(chunk.row, chunks));
      for (unsigned k = 0; k < part_.lanes; ++k) {
        Value* column = b_.CreateAdd(part_.starts[0], f_.i64(k));
        f_.if_then(b_.CreateICmpSLT(column, inner), [&] {
          Value* output = b_.CreateAdd(first_of_row, column);
          store_partial(c_, extra.to, b_.CreateAdd(b_.CreateMul(output, chunks), in_row),
                        lane_of(c_, lanes, k));
        });
      }
      return;
    }
    std::vector<Values> tree;
    for (unsigned k = 0; k < part_.lanes; ++k) tree.push_back(lane_of(c_, lanes, k));
    Values indices = parallel;
    indices.push_back(nullptr);
    finish_part(c_, indices, total, part_, tree);
  });
  c_.leave();
}

}  // namespace

llvm::Error emit_grid_columns(GridParts& parts) {
  const auto refuse = [](const char* why) {
    return llvm::createStringError(llvm::inconvertibleErrorCode(), why);
  };
  if (parts.kernel.parallel_rank == 0) return refuse("a schedule of columns where there are none");
  if (parts.schedule.rows > tree_lanes(parts.kernel))
    return refuse("the schedule has more rows than the tree lanes");
  ColumnReduction reduction(parts);
  if (!reduction.fits()) return refuse("the columns' lanes exceed the memory that a block shares");
  reduction.emit();
  return llvm::Error::success();
}

}  // namespace lamina::jit::codegen
