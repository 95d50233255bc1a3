// Reductions on a grid, with the tree of jit/kernel/kernel.h.
#ifndef LAMINA_JIT_CODEGEN_GRID_REDUCE_H_
#define LAMINA_JIT_CODEGEN_GRID_REDUCE_H_

#include <llvm/Support/Error.h>

#include <vector>

#include "jit/codegen/grid_schedule.h"

namespace lamina::jit::codegen {

llvm::Error emit_grid_reduction(GridParts& parts);
// By the forms of jit/kernel/grid.h: half a warp to a row or chunk, a block to a chunk, and columns.
llvm::Error emit_grid_rows(GridParts& parts);
llvm::Error emit_grid_block_chunks(GridParts& parts);  // the first entry only
llvm::Error emit_grid_columns(GridParts& parts);       // of columns of several chunks the first entry only
// For a part of a chain: results [begin, end), which the threads of this block make, half a warp to each.
void emit_half_warp_results(GridParts& parts, llvm::Value* begin, llvm::Value* end);

// The extent of all reduced dimensions together.
llvm::Value* reduced_total(GridParts& parts);
inline size_t reduced_values(const GridParts& parts) { return parts.kernel.reduction.inputs.size(); }
inline DType reduced_type(const GridParts& parts, size_t v) {
  return parts.kernel.reduction.combine.inputs[v];
}
// The reduced values of lane k.
Values lane_of(GridParts& parts, const Values& lanes, size_t k);

// The chunk that is reduced: elements [start, end) of a row.
struct GridChunk {
  llvm::Value *row, *start, *end;
};
// Chunk number `task` of all rows, each of `length` elements in `chunks` chunks.
GridChunk chunk_of(GridParts& parts, llvm::Value* task, llvm::Value* chunks, llvm::Value* length);
llvm::Value* chunks_of(GridParts& parts, llvm::Value* length);
// Where result v of chunk number `number` lies in scratch.
llvm::Value* partial_address(GridParts& parts, llvm::Value* scratch, llvm::Value* number, size_t v);
void store_partial(GridParts& parts, llvm::Value* scratch, llvm::Value* number, const Values& result);
// Zeros of the reduced values' types, `count` times.
Values no_lanes(GridParts& parts, size_t count);

// What the body makes of one row.
class RowElements {
 public:
  // `parallel`: indices of the row.
  RowElements(GridParts& parts, Values parallel);
  // Elements from each of `starts` on, `lanes` of them; `starts` are multiples of that. Those past `end`
  // hold anything, unless none is (`whole`). By element: the reduced values.
  std::vector<Values> at(unsigned lanes, const Values& starts, llvm::Value* end, bool whole);

 private:
  Values values_at(Row& row, llvm::Value* index);
  GridParts& c_;
  const Values parallel_;
  Row row_;  // where one dimension is reduced
};

// Lanes of the tree in memory that a block shares: `rows` threads below each other, each with a lane of
// `lanes` columns side by side.
class SharedTree {
 public:
  SharedTree(GridParts& parts, int64_t rows, int64_t columns, unsigned lanes);
  int64_t bytes() const { return bytes_; }
  // In the entered function: this thread's row, and the first of its columns.
  void enter(llvm::Value* row, llvm::Value* column);
  // `count` lanes, of which this thread holds one, fold from `stride` on; the first row has the result. All
  // threads of the block come by.
  Values fold(Values lanes, llvm::Value* count, int64_t stride);
  // The same in steps of one's own: lane `k` of a row, once all have been published and threads have met.
  void publish(llvm::Value* row, const Values& lanes);
  Values published(llvm::Value* row, unsigned k);

 private:
  llvm::Value* address(llvm::Value* row, unsigned k, size_t v);
  GridParts& c_;
  FunctionBuilder& f_;
  llvm::IRBuilder<>& b_;
  const int64_t columns_;
  const unsigned lanes_;
  int64_t bytes_ = 0;
  std::vector<int64_t> offsets_;
  llvm::Value *shared_ = nullptr, *row_ = nullptr, *column_ = nullptr;
};

// What follows the tree: init, epilogue, stores. `indices` are those of the parallel dimensions, `total` the
// number of elements that were reduced, `tree` their results.
// For one output element:
void finish_one(GridParts& parts, const Values& indices, llvm::Value* total, const Values& tree);
// For a part of a row of them, along the last parallel dimension; `tree` by element.
void finish_part(GridParts& parts, const Values& indices, llvm::Value* total, const GridLanes::Part& part,
                 const std::vector<Values>& tree);

}  // namespace lamina::jit::codegen

#endif  // LAMINA_JIT_CODEGEN_GRID_REDUCE_H_
