#include "jit/codegen/nvptx.h"

#include <llvm/ADT/SmallVector.h>
#include <llvm/IR/LegacyPassManager.h>
#include <llvm/MC/MCSubtargetInfo.h>
#include <llvm/MC/TargetRegistry.h>
#include <llvm/Support/TargetSelect.h>
#include <llvm/Support/raw_ostream.h>
#include <llvm/Target/TargetMachine.h>

#include "jit/codegen/grid_schedule.h"
#include "jit/codegen/ir_gate.h"

extern "C" void LLVMInitializeNVPTXTargetInfo();
extern "C" void LLVMInitializeNVPTXTarget();
extern "C" void LLVMInitializeNVPTXTargetMC();
extern "C" void LLVMInitializeNVPTXAsmPrinter();

namespace lamina::jit::codegen {
namespace {

constexpr char kTriple[] = "nvptx64-nvidia-cuda", kLeastChip[] = "sm_75", kIsa[] = "+ptx78";

}  // namespace

// Chips are asked for by names that users write: what LLVM does not know it would only warn of.
llvm::Expected<std::unique_ptr<llvm::TargetMachine>> grid_machine(llvm::StringRef chip) {
  LLVMInitializeNVPTXTargetInfo();
  LLVMInitializeNVPTXTarget();
  LLVMInitializeNVPTXTargetMC();
  LLVMInitializeNVPTXAsmPrinter();
  if (chip.empty()) chip = kLeastChip;
  std::string message;
  const llvm::Target* target = llvm::TargetRegistry::lookupTarget(kTriple, message);
  if (!target)
    return llvm::createStringError("no code generator for " + llvm::Twine(kTriple) + ": " + message);
  const std::unique_ptr<llvm::MCSubtargetInfo> known(target->createMCSubtargetInfo(kTriple, "", ""));
  if (!known->isCPUStringValid(chip))
    return llvm::createStringError("the code generator knows no chip " + chip);
  llvm::TargetOptions options;
  options.AllowFPOpFusion = llvm::FPOpFusion::Strict;
  std::unique_ptr<llvm::TargetMachine> machine(target->createTargetMachine(
      kTriple, chip, kIsa, options, llvm::Reloc::PIC_, std::nullopt, llvm::CodeGenOptLevel::Default));
  if (!machine) return llvm::createStringError("no code generator for chip " + chip);
  return machine;
}

llvm::Expected<std::unique_ptr<llvm::Module>> emit_grid_module(std::span<const GridPart> parts,
                                                               const llvm::TargetMachine& machine,
                                                               llvm::LLVMContext& context) {
  auto module = std::make_unique<llvm::Module>("lamina", context);
  module->setTargetTriple(machine.getTargetTriple().str());
  module->setDataLayout(machine.createDataLayout());
  const FunctionBuilder::Attributes attributes{{"target-cpu", machine.getTargetCPU().str()},
                                               {"target-features", kIsa}};
  if (llvm::Error error = parts.size() > 1
                              ? emit_grid_chain(parts, *module, attributes)
                              : emit_grid_kernel(parts[0].kernel, parts[0].schedule, *module, attributes))
    return error;
  return module;
}

llvm::Expected<std::string> make_ptx(std::span<const GridPart> parts, llvm::StringRef chip) {
  auto machine = grid_machine(chip);
  if (!machine) return machine.takeError();
  llvm::LLVMContext context;
  auto module = emit_grid_module(parts, **machine, context);
  if (!module) return module.takeError();
  if (llvm::Error error = pass_gate(**module)) return error;
  llvm::SmallVector<char, 0> bytes;
  llvm::raw_svector_ostream stream(bytes);
  llvm::legacy::PassManager passes;
  if ((*machine)->addPassesToEmitFile(passes, stream, nullptr, llvm::CodeGenFileType::AssemblyFile))
    return llvm::createStringError("the target writes no text");
  passes.run(**module);
  return std::string(bytes.data(), bytes.size());
}

}  // namespace lamina::jit::codegen
