// The schedules of a grid: which thread makes what of a kernel.
//
// Contract: makes the entries that jit/kernel/grid.h names in the module, with the parameters stated there,
// and what they call. Barriers and shuffles stand where all threads of a block or warp come by.
#ifndef LAMINA_JIT_CODEGEN_GRID_SCHEDULE_H_
#define LAMINA_JIT_CODEGEN_GRID_SCHEDULE_H_

#include <llvm/IR/Module.h>
#include <llvm/Support/Error.h>

#include <memory>
#include <span>
#include <string_view>
#include <vector>

#include "jit/codegen/function.h"
#include "jit/codegen/grid_lanes.h"
#include "jit/codegen/grid_rows.h"
#include "jit/codegen/section.h"
#include "jit/kernel/grid_chain.h"

namespace lamina::jit::codegen {

// What schedules are made of.
struct GridParts {
  // `chained`: its code stands in a function with that of other kernels.
  GridParts(const LoopKernel& kernel, const GridSchedule& schedule, llvm::Module& module,
            FunctionBuilder::Attributes attributes, bool chained = false);

  // What the entry was given beside buffers and arguments; null where there is none.
  struct Extra {
    llvm::Value *from = nullptr, *to = nullptr, *count = nullptr;
  };
  // Makes an entry and enters it; `partials`: of results of chunks.
  Extra enter(std::string_view name, bool partials);
  void leave() { f.builder().CreateRetVoid(); }
  // Goes on in a function whose parameters from `first` on are buffers and arguments of this kernel.
  void go_on_in(llvm::Function* function, unsigned first);
  // Static memory of a block, at a multiple of 16 bytes.
  llvm::Value* shared_memory(int64_t bytes);

  const LoopKernel& kernel;
  const GridSchedule schedule;
  llvm::Module& module;
  FunctionBuilder f;
  GridLanes lanes;
  SectionEmitter sections;
  GridRows rows;

 private:
  Values take(llvm::Function* function, unsigned& at, size_t count);
};

// An entry of these parameters.
llvm::Function* make_entry(FunctionBuilder& f, llvm::Module& module, std::string_view name,
                           llvm::ArrayRef<llvm::Type*> types);

// The entry of the form `tiles`, whose schedule is one for the kernel.
void emit_grid_tiles(GridParts& parts);

// The entries of a kernel that sorts, whose schedule is one for it (jit/kernel/grid_sort.h).
void emit_grid_sort(GridParts& parts);

// Of kernels without reductions: what this thread makes of the units [begin, end) of the schedule, which
// threads of the block take in turn.
void emit_element_units(GridParts& parts, llvm::Value* begin, llvm::Value* end);

// The entry of a chain (jit/kernel/grid_chain.h), whose schedules `check_chain` takes.
llvm::Error emit_grid_chain(std::span<const GridPart> chain, llvm::Module& module,
                            const FunctionBuilder::Attributes& attributes);

// The same where its rows are held (jit/kernel/grid_held.h), in the function that all parts have entered one
// after the other: the lines [begin, end).
void emit_held_lines(std::span<const GridPart> chain, std::vector<std::unique_ptr<GridParts>>& parts,
                     llvm::Value* begin, llvm::Value* end);

// Unimplemented kernels and schedules of other kernels are refused in words.
llvm::Error emit_grid_kernel(const LoopKernel& kernel, const GridSchedule& schedule, llvm::Module& module,
                             FunctionBuilder::Attributes attributes);

}  // namespace lamina::jit::codegen

#endif  // LAMINA_JIT_CODEGEN_GRID_SCHEDULE_H_
