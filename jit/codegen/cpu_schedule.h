// The schedules of the CPU: who owns the loops of a kernel.
//
// Contract: makes `kEntryName` of jit/kernel/kernel.h's KernelEntry in the module, and what it calls.
#ifndef LAMINA_JIT_CODEGEN_CPU_SCHEDULE_H_
#define LAMINA_JIT_CODEGEN_CPU_SCHEDULE_H_

#include <llvm/IR/Module.h>

#include "jit/codegen/cpu_lanes.h"
#include "jit/codegen/cpu_rows.h"
#include "jit/codegen/function.h"
#include "jit/codegen/section.h"
#include "jit/kernel/schedule.h"

namespace lamina::jit::codegen {

inline constexpr char kEntryName[] = "lamina_kernel";

// What schedules are made of.
struct CpuParts {
  CpuParts(const LoopKernel& kernel, const Schedule& schedule, const TargetText& target,
           llvm::Module& module);

  const LoopKernel& kernel;
  const CpuWidths widths;
  FunctionBuilder f;
  CpuLanes lanes;
  SectionEmitter sections;
  CpuRows rows;
};

// The elements that a call of the entry makes.
struct CpuBounds {
  llvm::Value *outer_begin, *outer_end, *inner_begin, *inner_end;
};

// Gives the lanes of its vectors.
unsigned emit_cpu_kernel(const LoopKernel& kernel, const Schedule& schedule, const TargetText& target,
                         llvm::Module& module);

}  // namespace lamina::jit::codegen

#endif  // LAMINA_JIT_CODEGEN_CPU_SCHEDULE_H_
