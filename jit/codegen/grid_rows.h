// Where a thread of a grid stands: its number, the row and the elements that are its own.
//
// Contract: the order of threads along a row is that of memory, so that neighbours in a warp touch
// neighbouring addresses. Divisions are of 32 bits where the numbers at hand allow it.
#ifndef LAMINA_JIT_CODEGEN_GRID_ROWS_H_
#define LAMINA_JIT_CODEGEN_GRID_ROWS_H_

#include "jit/codegen/function.h"
#include "jit/codegen/grid_lanes.h"
#include "jit/kernel/grid.h"

namespace lamina::jit::codegen {

class GridRows {
 public:
  GridRows(const LoopKernel& kernel, FunctionBuilder& f) : kernel_(kernel), f_(f), b_(f.builder()) {}

  llvm::Value* block();   // this block's number, s64
  llvm::Value* thread();  // this thread's number in it, s64
  llvm::Value* barrier();
  // The value, of type t, of the thread `distance` further on among `together`, half a warp of threads or a
  // whole one, all of which come by.
  llvm::Value* from_thread(llvm::Value* value, DType t, int64_t distance, int64_t together);
  // That of the first of `together` threads.
  llvm::Value* from_first_thread(llvm::Value* value, DType t, int64_t together);

  // The part of a row that is this thread's, by the schedule of elements.
  struct Mine {
    llvm::Value* row;  // index over all parallel dimensions but the last
    llvm::Value* any;  // whether there is such a row and an element of it
    GridLanes::Part part;
  };
  // `number`: the thread's among all that the schedule has.
  Mine elements(const GridSchedule& schedule, llvm::Value* number);
  // How many threads the schedule has for a row over all parallel dimensions but the last; where that is the
  // only one, for an element (of schedules of one element a thread).
  llvm::Value* threads_of_row(const GridSchedule& schedule);

  // Of numbers that are not negative; the divisor is not 0.
  llvm::Value* quotient(llvm::Value* a, llvm::Value* b);
  // The product of the extents of `count` dimensions from `first` on.
  llvm::Value* product(unsigned first, unsigned count);
  // Indices along them.
  Values decompose(llvm::Value* linear, unsigned first, unsigned count);
  // ceil(a / b) of a power of two.
  llvm::Value* parts(llvm::Value* a, int64_t b);

 private:
  llvm::Value* special(unsigned id);
  llvm::Value* shuffled(llvm::Value* value, DType t, unsigned intrinsic, int64_t operand, int64_t together);

  const LoopKernel& kernel_;
  FunctionBuilder& f_;
  llvm::IRBuilder<>& b_;
};

}  // namespace lamina::jit::codegen

#endif  // LAMINA_JIT_CODEGEN_GRID_ROWS_H_
