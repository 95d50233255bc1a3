// Kernels shared by structure, each in one of two tiers: interpreted, or compiled by LLVM.
//
// Contract: equal loop kernels with equal schedules are one `Kernel`. A kernel starts in the interpreting
// tier and is compiled when the time spent (or about to be spent) interpreting exceeds the cost of a compile,
// or a part of it that shrinks with the number of runs; both tiers give the same bits, so the moment does not
// matter. Where no code generator can be had, or it finds no memory now, the interpreter serves, and
// `unavailable()` says why. Safe from any thread: kernels are compiled one after the other, and meanwhile
// others are looked up and run.
#ifndef LAMINA_JIT_CPU_KERNEL_STORE_H_
#define LAMINA_JIT_CPU_KERNEL_STORE_H_

#include <atomic>
#include <memory>
#include <string>

#include "hlo/hash_map.h"
#include "hlo/mutex.h"
#include "jit/codegen/client.h"
#include "jit/kernel/interpret.h"
#include "jit/program/disk_cache.h"
#include "jit/program/step.h"

namespace lamina::jit {

struct KernelStats {
  int64_t kernels = 0;  // distinct structures seen
  int64_t compiles = 0;
  int64_t loads = 0;  // taken from the disk cache instead
  int64_t interpreted_runs = 0;
  int64_t compiled_runs = 0;
  int64_t code_bytes = 0;
  double compile_ms = 0;
};

class KernelStore;

class Kernel {
 public:
  Kernel() = default;
  ~Kernel() { delete interpreter_.load(); }
  Kernel(const Kernel&) = delete;
  Kernel& operator=(const Kernel&) = delete;
  const LoopKernel& spec() const { return spec_; }
  const KernelText& text() const { return text_; }
  bool is_compiled() const { return entry_.load(std::memory_order_acquire) != nullptr; }
  // The interpreting tier's form, made at the first call.
  const KernelInterpreter& interpreter() {
    const KernelInterpreter* known = interpreter_.load(std::memory_order_acquire);
    if (known) return *known;
    auto made = std::make_unique<const KernelInterpreter>(spec_);
    return interpreter_.compare_exchange_strong(known, made.get()) ? *made.release() : *known;
  }
  double compile_ms() const { return is_compiled() ? compiled_.stats().total_ms : 0; }

 private:
  friend class KernelStore;
  LoopKernel spec_;
  KernelText text_;
  std::atomic<const KernelInterpreter*> interpreter_{nullptr};
  std::atomic<KernelEntry> entry_{nullptr};
  // Estimated, not measured: the choice must not depend on the clock.
  std::atomic<int64_t> interpreted_ns_{0}, interpreted_runs_{0};
  std::atomic<bool> refused_{false};  // the generator could not compile it
  CompiledKernel compiled_;
};

class KernelStore {
 public:
  // Code of one process.
  static constexpr size_t kMaxKernels = 20'000;

  std::shared_ptr<Kernel> get(LoopKernel spec, const Schedule& schedule);

  // Machine code to run `work` element operations with, or null: interpret.
  KernelEntry entry_for(Kernel& kernel, int64_t work);

  // When false, everything is interpreted; for tests that compare the tiers.
  void set_compiling(bool on) { compiling_.store(on); }
  // When true, a kernel is compiled before its first run.
  void set_eager(bool on) { eager_.store(on); }
  // Of the code generator, if there is none yet: it is looked for again.
  void set_generator_options(CodeGeneratorOptions options);
  // Where code is kept between processes; none for an empty name.
  void set_cache_directory(std::string directory);
  const DiskCache& disk() const { return disk_; }
  std::string disk_unusable();
  DiskCache::Contents clear_disk();

  KernelStats stats() const;
  // Why there is no code generator; empty if there is one or none was needed.
  std::string unavailable() const;
  // Listings for the tools.
  absl::StatusOr<std::string> ir(const KernelText& kernel);
  absl::StatusOr<std::string> assembly(const KernelText& kernel);
  void clear();
  // Kernels kept; past this those that nothing uses are dropped. For tests.
  void set_limit(size_t kernels) { limit_.store(kernels); }

 private:
  void compile(Kernel& kernel);
  // With turn_ held.
  absl::StatusOr<const CodeGenerator*> generator();
  absl::StatusOr<CompiledKernel> load_or_compile(const Kernel& kernel);

  hlo::Mutex turn_{hlo::LockRank::kCompiles};  // one compile at a time; guards the next four
  CodeGeneratorOptions options_;
  std::unique_ptr<const CodeGenerator> generator_;
  absl::Status missing_;  // why there is no generator
  DiskCache disk_;
  mutable hlo::Mutex mutex_{hlo::LockRank::kKernels};  // held briefly; guards the next three
  HashMap<std::string, std::shared_ptr<Kernel>> kernels_;
  std::string unavailable_;
  KernelStats stats_;
  std::atomic<size_t> limit_{kMaxKernels};
  std::atomic<bool> compiling_{true}, eager_{false};
  std::atomic<int64_t> interpreted_runs_{0}, compiled_runs_{0};
};

}  // namespace lamina::jit

#endif  // LAMINA_JIT_CPU_KERNEL_STORE_H_
