// The schedules of a grid: which thread makes what of a kernel.
//
// Contract: makes the entries that jit/kernel/grid.h names in the module, with the parameters stated there,
// and what they call. Barriers and shuffles stand where all threads of a block or warp come by.
#ifndef LAMINA_JIT_CODEGEN_GRID_SCHEDULE_H_
#define LAMINA_JIT_CODEGEN_GRID_SCHEDULE_H_

#include <llvm/IR/Module.h>
#include <llvm/Support/Error.h>

#include "jit/codegen/function.h"
#include "jit/codegen/grid_lanes.h"
#include "jit/codegen/grid_rows.h"
#include "jit/codegen/section.h"
#include "jit/kernel/grid.h"

namespace lamina::jit::codegen {

// What schedules are made of.
struct GridParts {
  GridParts(const LoopKernel& kernel, const GridSchedule& schedule, llvm::Module& module,
            FunctionBuilder::Attributes attributes);

  // What the entry was given beside buffers and arguments; null where there is none.
  struct Extra {
    llvm::Value *from = nullptr, *to = nullptr, *count = nullptr;
  };
  // Makes an entry and enters it; `partials`: of results of chunks.
  Extra enter(std::string_view name, bool partials);
  void leave() { f.builder().CreateRetVoid(); }
  // Static memory of a block, at a multiple of 16 bytes.
  llvm::Value* shared_memory(int64_t bytes);

  const LoopKernel& kernel;
  const GridSchedule schedule;
  llvm::Module& module;
  FunctionBuilder f;
  GridLanes lanes;
  SectionEmitter sections;
  GridRows rows;
};

// The entry of the form `tiles`, whose schedule is one for the kernel.
void emit_grid_tiles(GridParts& parts);

// Unimplemented kernels and schedules of other kernels are refused in words.
llvm::Error emit_grid_kernel(const LoopKernel& kernel, const GridSchedule& schedule, llvm::Module& module,
                             FunctionBuilder::Attributes attributes);

}  // namespace lamina::jit::codegen

#endif  // LAMINA_JIT_CODEGEN_GRID_SCHEDULE_H_
