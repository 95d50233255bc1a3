// Kernels shared by structure, each in one of two tiers: interpreted, or compiled by LLVM.
//
// Contract: equal loop kernels with equal schedules are one `Kernel`. A kernel starts in the interpreting
// tier. When the time spent (or about to be spent) interpreting makes a compile worth its cost, it is queued
// for the thread that compiles (compile_queue.h), and its runs go on interpreted until the code is there,
// which they take over in their midst (Tier). Both tiers give the same bits, so the moment does not matter.
// No caller waits, unless compiling is eager: then each kernel is compiled before its first run. Where no
// code generator can be had, or it finds no memory now, the interpreter serves, and `unavailable()` says why.
// Safe from any thread; a kernel is compiled once, and no lock is held meanwhile but the one of LLVM's
// thread.
#ifndef LAMINA_JIT_CPU_KERNEL_STORE_H_
#define LAMINA_JIT_CPU_KERNEL_STORE_H_

#include <atomic>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "hlo/hash_map.h"
#include "hlo/mutex.h"
#include "jit/client/kernel_stats.h"
#include "jit/codegen/client.h"
#include "jit/cpu/compile_queue.h"
#include "jit/cpu/object_code.h"
#include "jit/kernel/interpret.h"
#include "jit/program/disk_cache.h"
#include "jit/program/step.h"
#include "jit/program/target.h"

namespace lamina::jit {

// How a run begins, and where code appears that it may go on with; null: never.
struct Tier {
  KernelEntry code = nullptr;  // null: interpreted
  const std::atomic<KernelEntry>* coming = nullptr;
};

// Of one kernel: what the generator linked, or an image, which needs no generator.
struct MachineCode {
  CompiledKernel linked;
  std::unique_ptr<const MappedCode> image;  // in its place
  double compile_ms = 0;                    // what the generator took

  KernelEntry entry() const { return image ? image->entry() : linked.entry(); }
  size_t bytes() const { return image ? image->size() : linked.stats().code_bytes; }
};

class Kernel : public std::enable_shared_from_this<Kernel> {
 public:
  Kernel(LoopKernel spec, const Schedule& schedule);
  ~Kernel();
  Kernel(const Kernel&) = delete;
  Kernel& operator=(const Kernel&) = delete;
  const LoopKernel& spec() const { return spec_; }
  // Made at the first call: most kernels are never compiled.
  const KernelText& text() const {
    return once(text_, [&] { return KernelText{to_string(spec_), schedule_}; });
  }
  bool is_compiled() const { return entry_.load(std::memory_order_acquire) != nullptr; }
  // The interpreting tier's form, made at the first call.
  const KernelInterpreter& interpreter() const {
    return once(interpreter_, [&] { return KernelInterpreter(spec_); });
  }
  double compile_ms() const { return is_compiled() ? code_.compile_ms : 0; }
  // Of memory, about: its code is the lesser part.
  size_t bytes() const { return kBytes + static_cast<size_t>(instrs_) * kBytesOfInstr; }
  // Time that code would have saved, over the time that it takes to get.
  double urgency() const;
  // Whether code would have been worth its price by now, whatever comes.
  bool has_paid() const;

 private:
  friend class KernelStore;
  friend class CompileQueue;
  // Measured: an instruction with its part of the text and of what is prepared for the interpreter.
  static constexpr size_t kBytes = 1000, kBytesOfInstr = 125;

  // kWaits: in the queue; kRefused: the generator could not compile it.
  enum class State : uint8_t { kCold, kWaits, kCompiling, kCompiled, kRefused };

  // The object that is made at the first call, by one of the threads that are at it.
  template <typename T, typename Make>
  static const T& once(std::atomic<const T*>& object, Make&& make) {
    const T* known = object.load(std::memory_order_acquire);
    if (known) return *known;
    auto made = std::make_unique<const T>(make());
    return object.compare_exchange_strong(known, made.get()) ? *made.release() : *known;
  }

  // Nanoseconds that getting the code takes: loading while the disk has not been asked.
  int64_t price() const;

  const LoopKernel spec_;
  const Schedule schedule_;
  const int64_t instrs_, compile_ns_;  // the latter estimated
  mutable std::atomic<const KernelText*> text_{nullptr};
  mutable std::atomic<const KernelInterpreter*> interpreter_{nullptr};
  std::atomic<KernelEntry> entry_{nullptr};
  // Estimated, not measured: the choice must not depend on the clock.
  std::atomic<int64_t> interpreted_ns_{0}, interpreted_runs_{0};
  std::atomic<State> state_{State::kCold};
  std::atomic<bool> not_on_disk_{false};
  MachineCode code_;
};

class KernelStore {
 public:
  KernelStore();

  // Kept of one process before those that nothing uses are dropped.
  static constexpr size_t kMaxKernels = 20'000;
  static constexpr size_t kMaxBytes = size_t{256} << 20;

  std::shared_ptr<Kernel> get(LoopKernel spec, const Schedule& schedule);

  // How to run `work` element operations.
  Tier tier_for(Kernel& kernel, int64_t work, int64_t runs = 1);
  // A run has gone on with code in its midst.
  void note_switch() { switched_runs_.fetch_add(1, std::memory_order_relaxed); }

  // When false, everything is interpreted; for tests that compare the tiers.
  void set_compiling(bool on) { compiling_.store(on); }
  // When true, a kernel is compiled before its first run. So it is from the start where $LAMINA_COMPILE is
  // "first".
  void set_eager(bool on) { eager_.store(on); }
  // Whether no kernel waits for its code.
  bool is_settled() const { return queue_.pending() == 0; }
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
  // For files, as Target has them. Code is made for this where it is not at hand.
  absl::StatusOr<std::string> machine();
  absl::StatusOr<KernelCode> code(const KernelText& kernel);
  absl::StatusOr<std::shared_ptr<const Kernel>> adopt(const KernelCode& code);
  void clear();
  void drop_unused();
  // For tests, in place of kMaxKernels and kMaxBytes.
  void set_limits(size_t kernels, size_t bytes);

 private:
  // Who waits for code: runs go on meanwhile; a caller whose run begins after it; the same, whatever it
  // costs.
  enum class Waits : uint8_t { kNobody, kCaller, kAtAnyCost };
  // Gives a claimed kernel its code, from the disk or, if that is worth its cost, from the generator.
  void compile(Kernel& kernel, Waits waits);
  absl::StatusOr<const CodeGenerator*> generator(Pace pace = Pace::kNow);
  // NotFound if only a compile can make it and `may_compile` is false.
  absl::StatusOr<MachineCode> load_or_compile(Kernel& kernel, Waits waits, bool may_compile);
  // From the disk; NotFound if it has none that can be used.
  absl::StatusOr<MachineCode> load(const std::string& key);
  // Under which the disk has a kernel's code; empty if nothing may be kept, or if only the generator, which
  // is not there yet, knows the key.
  std::string disk_key(const KernelText& kernel);

  // What a kernel is found by: its own, once there is one.
  struct Structure {
    const LoopKernel* kernel;
    Schedule schedule;
    size_t hash;
    bool operator==(const Structure& other) const {
      return hash == other.hash && schedule == other.schedule && *kernel == *other.kernel;
    }
  };
  struct StructureHash {
    size_t operator()(const Structure& s) const { return s.hash; }
  };
  using Kernels = HashMap<Structure, std::shared_ptr<Kernel>, StructureHash>;

  // Takes out those that nothing uses; the caller lets go of them without mutex_, as code is released when no
  // compile runs.
  std::vector<std::shared_ptr<Kernel>> sweep();  // mutex_ held

  hlo::Mutex turn_{
      hlo::LockRank::kCompiles};  // held briefly, but to open the generator; guards the next five
  CodeGeneratorOptions options_;
  std::unique_ptr<const CodeGenerator> generator_;  // stays, once it is there
  absl::Status missing_;                            // why there is no generator
  // What kept code depends on besides its kernel; empty if that is not known, none if nobody asked.
  std::optional<std::string> identity_;
  DiskCache disk_;
  mutable hlo::Mutex mutex_{hlo::LockRank::kKernels};  // held briefly; guards the next seven
  Kernels kernels_;
  size_t bytes_ = 0;  // of them all
  size_t max_kernels_ = kMaxKernels, max_bytes_ = kMaxBytes;
  // Past which they are swept: the limits, or twice what the last sweep had to leave.
  size_t sweep_kernels_ = kMaxKernels, sweep_bytes_ = kMaxBytes;
  std::string unavailable_;
  KernelStats stats_;
  std::atomic<bool> compiling_{true}, eager_;
  std::atomic<int64_t> interpreted_runs_{0}, compiled_runs_{0}, switched_runs_{0};
  CompileQueue queue_;  // last: its thread ends before the rest goes
};

}  // namespace lamina::jit

#endif  // LAMINA_JIT_CPU_KERNEL_STORE_H_
