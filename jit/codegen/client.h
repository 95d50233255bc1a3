// The code generator as the rest of the library sees it: liblamina_llvm behind Status and RAII.
//
// The library is opened (RTLD_LOCAL) when the first generator is made. LLVM works for one caller at a time,
// on threads with a 64 MB stack, one for each Pace, started when it is first needed; a forked child starts
// its own, and a fork waits for a running compile. Generators and compiled kernels may be used from any
// thread; a compiled kernel keeps what it needs of its generator alive. LLVM ends the process where it finds
// no memory, so it is called only where there is room for what it is known to need: ResourceExhausted
// elsewhere, and nothing has changed.
#ifndef LAMINA_JIT_CODEGEN_CLIENT_H_
#define LAMINA_JIT_CODEGEN_CLIENT_H_

#include <absl/status/status.h>
#include <absl/status/statusor.h>

#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "jit/kernel/schedule.h"

namespace lamina::jit {

struct CodeGeneratorOptions {
  // Empty: $LAMINA_LLVM_PATH if set, else liblamina_llvm.so beside the library that holds this code.
  std::string library_path;
  std::string cpu;           // empty: this machine; else an LLVM name such as "x86-64-v3"
  std::string features;      // added to the CPU's, such as "-avx512f"
  uint32_t vector_bits = 0;  // 0: the target's widest
};

// Whether somebody waits for what LLVM makes, or it makes way for others where processors are scarce.
enum class Pace : uint8_t { kNow, kAside };

struct CompileStats {
  uint64_t code_bytes = 0;
  uint32_t vector_lanes = 0;  // 0 when loaded from an object
  double emit_ms = 0;
  double codegen_ms = 0;
  double link_ms = 0;
  double total_ms = 0;  // as the caller saw it
};

namespace internal {
struct GeneratorState;
}

// Machine code of one kernel; frees its memory when destroyed, so nothing may be running in it then.
class CompiledKernel {
 public:
  CompiledKernel() = default;
  CompiledKernel(CompiledKernel&& other) noexcept;
  CompiledKernel& operator=(CompiledKernel&& other) noexcept;
  ~CompiledKernel();

  KernelEntry entry() const { return entry_; }
  const CompileStats& stats() const { return stats_; }
  // The relocatable object for the disk cache, given away; empty unless asked for.
  std::string take_object() { return std::move(object_); }

 private:
  friend class CodeGenerator;
  std::shared_ptr<internal::GeneratorState> state_;
  void* code_ = nullptr;
  KernelEntry entry_ = nullptr;
  CompileStats stats_;
  std::string object_;
};

class CodeGenerator {
 public:
  // Opens the library and makes an engine; fails with words where there is none or the CPU is too old.
  static absl::StatusOr<std::unique_ptr<CodeGenerator>> create(const CodeGeneratorOptions& options = {},
                                                               Pace pace = Pace::kNow);

  // CPU and features that code is made for.
  const std::string& target() const;
  // The name of the library's contents (jit/client/build_id.h), on which saved code depends besides its
  // kernel, the target and the options. Empty if it has none: then nothing may be saved.
  const std::string& build() const;
  // The same of the library that `create` would open, which is not opened.
  static std::string build_of(const CodeGeneratorOptions& options);

  // `kernel` is a text (to_string of a LoopKernel); InternalError with the place if it is not one.
  absl::StatusOr<CompiledKernel> compile(const std::string& kernel, const Schedule& schedule = {},
                                         bool keep_object = false, Pace pace = Pace::kNow) const;
  // Links an object that `compile` of the same target() made. The caller has checked its origin.
  absl::StatusOr<CompiledKernel> load(std::span<const char> object) const;
  absl::StatusOr<std::string> ir(const std::string& kernel, const Schedule& schedule = {}) const;
  absl::StatusOr<std::string> assembly(const std::string& kernel, const Schedule& schedule = {}) const;

 private:
  explicit CodeGenerator(std::shared_ptr<internal::GeneratorState> state) : state_(std::move(state)) {}
  absl::StatusOr<std::string> text(const std::string& kernel, const Schedule& schedule, int kind) const;
  std::shared_ptr<internal::GeneratorState> state_;
};

}  // namespace lamina::jit

#endif  // LAMINA_JIT_CODEGEN_CLIENT_H_
