// PTX of kernels: LLVM's NVPTX target behind a check of what it is given.
#ifndef LAMINA_JIT_CODEGEN_NVPTX_H_
#define LAMINA_JIT_CODEGEN_NVPTX_H_

#include <llvm/IR/LLVMContext.h>
#include <llvm/IR/Module.h>
#include <llvm/Support/Error.h>
#include <llvm/Target/TargetMachine.h>

#include <memory>
#include <span>
#include <string>

#include "jit/kernel/grid_chain.h"

namespace lamina::jit::codegen {

// For a chip such as "sm_90" (empty: the least) and PTX of ISA 7.8; an error in words for a chip that LLVM
// does not know.
llvm::Expected<std::unique_ptr<llvm::TargetMachine>> grid_machine(llvm::StringRef chip);

// IR in final form. The kernels, one or those of a chain, hold nothing unused (drop_unused).
llvm::Expected<std::unique_ptr<llvm::Module>> emit_grid_module(std::span<const GridPart> parts,
                                                               const llvm::TargetMachine& machine,
                                                               llvm::LLVMContext& context);

// An error in words for what the gate does not let by, too.
llvm::Expected<std::string> make_ptx(std::span<const GridPart> parts, llvm::StringRef chip);

}  // namespace lamina::jit::codegen

#endif  // LAMINA_JIT_CODEGEN_NVPTX_H_
