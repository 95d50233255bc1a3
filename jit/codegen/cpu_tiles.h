// Rows read by tiles: what lies along another dimension than the last in memory is turned into a block on the
// stack first, so that both sides are walked by whole cache lines.
#ifndef LAMINA_JIT_CODEGEN_CPU_TILES_H_
#define LAMINA_JIT_CODEGEN_CPU_TILES_H_

#include <functional>
#include <vector>

#include "jit/codegen/cpu_schedule.h"
#include "jit/codegen/cpu_turn.h"

namespace lamina::jit::codegen {

class CpuTiles {
 public:
  // Makes the functions that turn tiles of the `turned` accesses.
  CpuTiles(CpuParts& parts, Turned turned);
  // Calls `row(indices, begin, end)` for parts of rows that together are all elements; `at_row` lets the
  // accesses of a row read from their blocks.
  using EachRow = std::function<void(const Values& indices, llvm::Value* begin, llvm::Value* end)>;
  void emit(const CpuBounds& bounds, const EachRow& row);
  void at_row(Row& row);

 private:
  void rows(const CpuBounds& bounds, const Values& indices, llvm::Value* first, llvm::Value* last,
            const EachRow& each);
  void tile(Values indices, llvm::Value* row, llvm::Value* row_end, llvm::Value* column,
            llvm::Value* column_end, const EachRow& each);

  CpuParts& c_;
  FunctionBuilder& f_;
  llvm::IRBuilder<>& b_;
  const int dim_;  // of the rows of a tile
  CpuTurn turn_;
  int64_t rows_ = 0;                                                             // of a tile
  llvm::Value *first_row_ = nullptr, *row_ = nullptr, *first_column_ = nullptr;  // of the present tile
};

}  // namespace lamina::jit::codegen

#endif  // LAMINA_JIT_CODEGEN_CPU_TILES_H_
