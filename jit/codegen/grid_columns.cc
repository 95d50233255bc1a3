// Reductions across rows: threads side by side make columns, `rows` of them below each other the lanes of the
// tree, which fold in the memory that a block shares.
#include <llvm/IR/Constants.h>

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
  Values walk(const Values& outer, Value* row, Value* end);

  GridParts& c_;
  FunctionBuilder& f_;
  llvm::IRBuilder<>& b_;
  const int64_t rows_;
  const int64_t columns_;  // of a block
  SharedTree tree_;
  GridLanes::Part part_;  // this thread's columns
};

// What lane `row` of the tree holds of each column, after the elements before `end`.
Values ColumnReduction::walk(const Values& outer, Value* row, Value* end) {
  const LoopKernel& kernel = c_.kernel;
  const Values none = no_lanes(c_, part_.lanes);
  return f_.loop(row, end, f_.i64(tree_lanes(kernel)), none, [&](Value* number, const Values& entering) {
    Values indices = outer;
    indices.push_back(nullptr);
    const Values reduced = c_.rows.decompose(number, kernel.parallel_rank, kernel.reduce_rank);
    indices.insert(indices.end(), reduced.begin(), reduced.end());
    Row line =
        c_.sections.begin(kernel.body, kernel.parallel_rank - 1, indices, {{}, kernel.reduction.inputs});
    Value* first = b_.CreateICmpEQ(number, row);
    Values next;
    c_.lanes.part(line, part_, {}, [&](Value* index, unsigned k) {
      const Values values = c_.sections.emit(line, index, 1);
      Values e;
      for (uint32_t id : kernel.reduction.inputs) e.push_back(c_.sections.value(line, values, id, 1));
      const Values r = c_.sections.combine(lane_of(c_, entering, k), e, 1);
      for (size_t v = 0; v < r.size(); ++v) next.push_back(b_.CreateSelect(first, e[v], r[v]));
    });
    return next;
  });
}

void ColumnReduction::emit() {
  c_.enter(kGridEntry, false);
  const unsigned outer_dims = c_.kernel.parallel_rank - 1;
  const int64_t across = kGridThreads / rows_;
  Value* inner = f_.arg(outer_dims);
  Value *block = c_.rows.block(), *thread = c_.rows.thread();
  Value* row = b_.CreateUDiv(thread, f_.i64(across));
  Value* side =
      b_.CreateMul(b_.CreateSub(thread, b_.CreateMul(row, f_.i64(across))), f_.i64(c_.schedule.lanes));
  tree_.enter(row, side);
  Value* outer = f_.i64(0);
  if (outer_dims > 0) {
    Value* tiles = c_.rows.parts(inner, columns_);
    outer = c_.rows.quotient(block, tiles);
    block = b_.CreateSub(block, b_.CreateMul(outer, tiles));
  }
  part_ = {c_.schedule.lanes, {b_.CreateAdd(b_.CreateMul(block, f_.i64(columns_)), side)}, inner};
  const Values parallel = c_.rows.decompose(outer, 0, outer_dims);
  Value* total = reduced_total(c_);
  // Past the end there is nothing to be made like the last column: one column is no vector.
  Value* there = b_.CreateICmpSLT(part_.starts[0], inner);
  const Values lanes =
      tree_.fold(walk(parallel, row, b_.CreateSelect(there, total, f_.i64(0))), total, rows_ / 2);
  f_.if_then(b_.CreateAnd(there, b_.CreateICmpEQ(row, f_.i64(0))), [&] {
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
