// What may go to the NVPTX code generator: it ends the process where it meets what it cannot select.
//
// Contract: a list of what is allowed, so that what nobody thought of is refused. Everything on it has been
// through the code generator and the assembler (tests/grid).
#ifndef LAMINA_JIT_CODEGEN_IR_GATE_H_
#define LAMINA_JIT_CODEGEN_IR_GATE_H_

#include <llvm/IR/Module.h>
#include <llvm/Support/Error.h>

namespace lamina::jit::codegen {

// An error that names the first thing that is not allowed.
llvm::Error pass_gate(const llvm::Module& module);

}  // namespace lamina::jit::codegen

#endif  // LAMINA_JIT_CODEGEN_IR_GATE_H_
