#include "jit/codegen/orc.h"

#include <llvm/ADT/StringExtras.h>
#include <llvm/ExecutionEngine/JITLink/JITLink.h>
#include <llvm/ExecutionEngine/Orc/ExecutorProcessControl.h>
#include <llvm/IR/LegacyPassManager.h>
#include <llvm/IR/Verifier.h>
#include <llvm/MC/MCContext.h>
#include <llvm/MC/MCSubtargetInfo.h>
#include <llvm/MC/TargetRegistry.h>
#include <llvm/Object/ObjectFile.h>
#include <llvm/Support/CommandLine.h>
#include <llvm/Support/MemoryBuffer.h>
#include <llvm/Support/TargetSelect.h>
#include <llvm/Support/raw_ostream.h>
#include <llvm/TargetParser/Host.h>

#include <algorithm>
#include <chrono>
#include <vector>

namespace lamina::jit::codegen {

namespace {

double now_ms() {
  using Clock = std::chrono::steady_clock;
  return std::chrono::duration<double, std::milli>(Clock::now().time_since_epoch()).count();
}

bool has_feature(const llvm::TargetMachine& machine, llvm::StringRef name) {
  return machine.getMCSubtargetInfo()->checkFeatures(("+" + name).str());
}

// The IR comes in final form, so two passes of the code generation pipeline only cost time: loop strength
// reduction and CodeGenPrepare took 1.9 of 3.9 ms of a small kernel, and its code ran no faster for them.
// This copy of LLVM is ours alone, so its process-wide options are too.
void set_process_options() {
  static const bool done = [] {
    const char* options[] = {"lamina", "-disable-lsr", "-disable-cgp"};
    return llvm::cl::ParseCommandLineOptions(3, options, "", &llvm::nulls());
  }();
  (void)done;
}

}  // namespace

llvm::Expected<std::unique_ptr<OrcCompiler>> OrcCompiler::create(const LaminaEngineOptions& options) {
  set_process_options();
  llvm::InitializeNativeTarget();
  llvm::InitializeNativeTargetAsmPrinter();
  std::unique_ptr<OrcCompiler> engine(new OrcCompiler());
  const std::string triple = llvm::sys::getProcessTriple();
  std::string message;
  const llvm::Target* target = llvm::TargetRegistry::lookupTarget(triple, message);
  if (!target) return llvm::createStringError("no code generator for " + triple + ": " + message);

  engine->target_.cpu = options.cpu ? options.cpu : llvm::sys::getHostCPUName().str();
  std::vector<std::string> names;
  if (!options.cpu) {
    for (const auto& entry : llvm::sys::getHostCPUFeatures())
      names.push_back(((entry.second ? "+" : "-") + entry.first()).str());
    std::sort(names.begin(), names.end());
  }
  if (options.features && *options.features) names.push_back(options.features);
  const std::string features = llvm::join(names, ",");
  engine->target_.features = features;

  llvm::TargetOptions target_options;
  target_options.AllowFPOpFusion = llvm::FPOpFusion::Strict;
  engine->machine_.reset(target->createTargetMachine(triple, engine->target_.cpu, features, target_options,
                                                     llvm::Reloc::PIC_, llvm::CodeModel::Small,
                                                     llvm::CodeGenOptLevel::Default, /*JIT=*/true));
  if (!engine->machine_) return llvm::createStringError("no code generator for CPU " + engine->target_.cpu);

  const llvm::Triple parsed(triple);
  const llvm::TargetMachine& machine = *engine->machine_;
  if (!machine.getMCSubtargetInfo()->isCPUStringValid(engine->target_.cpu))
    return llvm::createStringError("the code generator for " + triple + " knows no CPU " +
                                   engine->target_.cpu);
  engine->target_.vector_bits = 128;
  if (parsed.isAArch64() && !has_feature(machine, "neon"))
    return llvm::createStringError("compiled kernels need a CPU with Advanced SIMD; " + engine->target_.cpu +
                                   " has none");
  if (parsed.isX86()) {
    for (const char* needed : {"avx2", "fma", "f16c"})
      if (!has_feature(machine, needed))
        return llvm::createStringError("compiled kernels need a CPU with AVX2, FMA and F16C; " +
                                       engine->target_.cpu + " has no " + needed);
    engine->target_.vector_bits = 256;
    engine->target_.has_word_masks = true;
    if (has_feature(machine, "avx512bw") && has_feature(machine, "avx512dq") &&
        has_feature(machine, "avx512vl")) {
      engine->target_.vector_bits = 512;
      engine->target_.has_masks = true;
    }
  }
  if (options.vector_bits >= 128 && options.vector_bits < engine->target_.vector_bits)
    engine->target_.vector_bits = options.vector_bits;
  engine->text_ = llvm::join_items(" ", triple, engine->target_.cpu, features,
                                   std::to_string(engine->target_.vector_bits));

  auto control = llvm::orc::SelfExecutorProcessControl::Create(
      nullptr, std::make_unique<llvm::orc::InPlaceTaskDispatcher>());
  if (!control) return control.takeError();
  engine->session_ = std::make_unique<llvm::orc::ExecutionSession>(std::move(*control));
  // Errors reach the caller through the look-up; nothing is printed.
  engine->session_->setErrorReporter([](llvm::Error error) { llvm::consumeError(std::move(error)); });
  engine->linking_ = std::make_unique<llvm::orc::ObjectLinkingLayer>(*engine->session_);
  return engine;
}

OrcCompiler::~OrcCompiler() {
  if (session_) llvm::consumeError(session_->endSession());
}

std::unique_ptr<llvm::Module> OrcCompiler::emit(const LoopKernel& kernel, const Schedule& schedule,
                                                llvm::LLVMContext& context, unsigned* lanes) {
  auto module = std::make_unique<llvm::Module>("lamina", context);
  module->setTargetTriple(machine_->getTargetTriple().str());
  module->setDataLayout(machine_->createDataLayout());
  *lanes = emit_cpu_kernel(kernel, schedule, target_, *module);
  return module;
}

llvm::Expected<std::unique_ptr<Code>> OrcCompiler::compile(const LoopKernel& kernel, const Schedule& schedule,
                                                           bool keep_object) {
  auto code = std::make_unique<Code>();
  const double start = now_ms();
  if (kernel.before) return llvm::createStringError("a processor's code has no form for a kernel that sorts");
  llvm::LLVMContext context;
  unsigned lanes = 0;
  std::unique_ptr<llvm::Module> module = emit(kernel, schedule, context, &lanes);
  const double emitted = now_ms();
  {
    llvm::raw_svector_ostream stream(code->object);
    llvm::legacy::PassManager passes;
    llvm::MCContext* machine_context = nullptr;
    if (machine_->addPassesToEmitMC(passes, machine_context, stream))
      return llvm::createStringError("the target writes no object code");
    passes.run(*module);
  }
  const double generated = now_ms();
  if (llvm::Error error = link(*code)) return error;
  code->info.vector_lanes = lanes;
  code->info.emit_ms = emitted - start;
  code->info.codegen_ms = generated - emitted;
  code->info.link_ms = now_ms() - generated;
  if (keep_object) {
    code->info.object_data = reinterpret_cast<const uint8_t*>(code->object.data());
    code->info.object_size = code->object.size();
  } else {
    code->object = {};
  }
  return code;
}

llvm::Expected<std::unique_ptr<Code>> OrcCompiler::load(llvm::StringRef object) {
  auto code = std::make_unique<Code>();
  const double start = now_ms();
  code->object.append(object.begin(), object.end());
  if (llvm::Error error = link(*code)) return error;
  code->object = {};
  code->info.link_ms = now_ms() - start;
  return code;
}

// Each code has a library of its own, so that the entry has one name and nothing else can be found from it: a
// call into a library would fail here. The memory manager maps pages writable first and executable after,
// never both.
llvm::Error OrcCompiler::link(Code& code) {
  const llvm::StringRef bytes(code.object.data(), code.object.size());
  auto parsed = llvm::object::ObjectFile::createObjectFile(llvm::MemoryBufferRef(bytes, "lamina"));
  if (!parsed) return parsed.takeError();
  for (const llvm::object::SectionRef& section : (*parsed)->sections())
    if (section.isText() || section.isData()) code.info.code_bytes += section.getSize();
  llvm::orc::JITDylib& library = session_->createBareJITDylib("kernel" + std::to_string(next_library_++));
  auto drop = [&](llvm::Error error) {
    llvm::consumeError(session_->removeJITDylib(library));
    return error;
  };
  auto buffer = llvm::MemoryBuffer::getMemBuffer(bytes, "lamina", /*RequiresNullTerminator=*/false);
  if (llvm::Error error = linking_->add(library, std::move(buffer))) return drop(std::move(error));
  auto symbol = session_->lookup({&library}, session_->intern(kEntryName));
  if (!symbol) return drop(symbol.takeError());
  code.library = &library;
  code.info.entry = symbol->getAddress().toPtr<void*>();
  return llvm::Error::success();
}

void OrcCompiler::release(std::unique_ptr<Code> code) {
  llvm::consumeError(session_->removeJITDylib(*code->library));
}

llvm::Expected<std::string> OrcCompiler::text(const LoopKernel& kernel, const Schedule& schedule, int kind) {
  llvm::LLVMContext context;
  unsigned lanes = 0;
  std::unique_ptr<llvm::Module> module = emit(kernel, schedule, context, &lanes);
  std::string result;
  if (kind == LAMINA_TEXT_IR) {
    llvm::raw_string_ostream stream(result);
    if (llvm::verifyModule(*module, &stream))
      return llvm::createStringError("the emitted IR is malformed: " + stream.str());
    module->print(stream, nullptr);
    return result;
  }
  llvm::SmallVector<char, 0> bytes;
  llvm::raw_svector_ostream stream(bytes);
  llvm::legacy::PassManager passes;
  if (machine_->addPassesToEmitFile(passes, stream, nullptr, llvm::CodeGenFileType::AssemblyFile))
    return llvm::createStringError("the target writes no assembly text");
  passes.run(*module);
  return std::string(bytes.data(), bytes.size());
}

}  // namespace lamina::jit::codegen
