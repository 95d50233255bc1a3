// Target machine and ORC: from a kernel and its schedule to an entry point and back to free memory.
#ifndef LAMINA_JIT_CODEGEN_ORC_H_
#define LAMINA_JIT_CODEGEN_ORC_H_

#include <llvm/ADT/SmallVector.h>
#include <llvm/ExecutionEngine/Orc/Core.h>
#include <llvm/ExecutionEngine/Orc/ObjectLinkingLayer.h>
#include <llvm/IR/LLVMContext.h>
#include <llvm/IR/Module.h>
#include <llvm/Support/Error.h>
#include <llvm/Target/TargetMachine.h>

#include <memory>
#include <string>

#include "jit/codegen/api.h"
#include "jit/codegen/cpu_schedule.h"
#include "jit/kernel/schedule.h"

namespace lamina::jit::codegen {

struct Code {
  llvm::orc::JITDylib* library = nullptr;
  LaminaCodeInfo info = {};
  llvm::SmallVector<char, 0> object;
};

class OrcCompiler {
 public:
  static llvm::Expected<std::unique_ptr<OrcCompiler>> create(const LaminaEngineOptions& options);
  ~OrcCompiler();

  const std::string& target_text() const { return text_; }
  llvm::Expected<std::unique_ptr<Code>> compile(const LoopKernel& kernel, const Schedule& schedule,
                                                bool keep_object);
  llvm::Expected<std::unique_ptr<Code>> load(llvm::StringRef object);
  void release(std::unique_ptr<Code> code);
  llvm::Expected<std::string> text(const LoopKernel& kernel, const Schedule& schedule, int kind);

 private:
  OrcCompiler() = default;
  std::unique_ptr<llvm::Module> emit(const LoopKernel& kernel, const Schedule& schedule,
                                     llvm::LLVMContext& context, unsigned* lanes);
  llvm::Error link(Code& code);

  TargetText target_;
  std::string text_;
  std::unique_ptr<llvm::TargetMachine> machine_;
  std::unique_ptr<llvm::orc::ExecutionSession> session_;
  std::unique_ptr<llvm::orc::ObjectLinkingLayer> linking_;
  uint64_t next_library_ = 0;
};

}  // namespace lamina::jit::codegen

#endif  // LAMINA_JIT_CODEGEN_ORC_H_
