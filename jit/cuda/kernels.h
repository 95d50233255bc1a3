// The kernels of CUDA devices: PTX, made once for each kernel and schedule, assembled for the chip and kept
// on disk (jit/cuda/assembler.h) or left to the driver, and loaded once on each device.
//
// Contract: any thread may call anything; kernels live as long as their steps.
#ifndef LAMINA_JIT_CUDA_KERNELS_H_
#define LAMINA_JIT_CUDA_KERNELS_H_

#include <atomic>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "hlo/mutex.h"
#include "jit/codegen/ptx.h"
#include "jit/cuda/assembler.h"
#include "jit/cuda/gpu.h"
#include "jit/kernel/grid.h"
#include "jit/program/disk_cache.h"
#include "jit/program/step.h"

namespace lamina::jit::cuda {

class CudaKernels;

class CudaKernel {
 public:
  // One kernel, or those of a chain.
  CudaKernel(CudaKernels& store, std::vector<GridPart> parts, KernelText text)
      : store_(store), parts_(std::move(parts)), text_(std::move(text)) {}
  ~CudaKernel();
  CudaKernel(const CudaKernel&) = delete;
  CudaKernel& operator=(const CudaKernel&) = delete;

  std::span<const GridPart> parts() const { return parts_; }
  const LoopKernel& spec() const { return parts_[0].kernel; }
  const GridSchedule& schedule() const { return parts_[0].schedule; }
  const KernelText& text() const { return text_; }
  // Loads the code, the first time.
  absl::StatusOr<FunctionHandle> function(Gpu& gpu, std::string_view entry) const {
    for (const Found* f = found_.load(std::memory_order_acquire); f; f = f->next)
      if (f->gpu == &gpu && f->entry == entry) return f->function;
    return find(gpu, entry);
  }

 private:
  friend class CudaKernels;
  struct Loaded {
    Gpu* gpu;
    ModuleHandle module;
  };
  struct Found {
    const Gpu* gpu;
    std::string entry;
    FunctionHandle function;
    const Found* next;
  };
  absl::StatusOr<ModuleHandle> load(Gpu& gpu) const;
  absl::StatusOr<FunctionHandle> find(Gpu& gpu, std::string_view entry) const;
  // Of those that are loaded; null for none.
  Loaded* loaded_on(const Gpu& gpu) const;

  CudaKernels& store_;
  const std::vector<GridPart> parts_;
  const KernelText text_;
  // The store's, under its lock. PTX begins with the texts of kernel and schedule, as comments.
  mutable std::string ptx_;
  mutable std::map<int, std::string> machine_code_;  // by capability
  mutable hlo::Mutex mutex_{hlo::LockRank::kQueues};
  mutable std::vector<Loaded> loaded_;
  mutable std::deque<Found> all_found_;
  mutable std::atomic<const Found*> found_{nullptr};  // the last of them
};

// A kernel with schedules that are exact, and the same for buffers that begin anywhere.
struct AlignedKernel {
  std::shared_ptr<const CudaKernel> kernel;
  std::shared_ptr<const CudaKernel> anywhere = nullptr;  // null where no schedule is exact

  // `begins`: all bits that are set in an address of a buffer.
  const CudaKernel& of(uint64_t begins) const {
    return begins % kGridAlign != 0 && anywhere ? *anywhere : *kernel;
  }
};

// Since the process began, but for `kernels`: those that there are.
struct CudaKernelStats {
  int64_t generated = 0, assembled = 0, loaded = 0;  // PTX, machine code, and that from disk
  int64_t runs = 0, kernels = 0;
  // Graphs (jit/cuda/graph.h): how many were made, runs of one, and what the driver refused.
  int64_t graphs = 0, graph_runs = 0, graphs_refused = 0;
};

class CudaKernels {
 public:
  // For devices of this capability and above; in words why there is none. Code that may never be asked for is
  // made `kLater`, when it is.
  enum class Code : uint8_t { kNow, kLater };
  absl::StatusOr<std::shared_ptr<const CudaKernel>> get(std::vector<GridPart> parts, int capability,
                                                        Code code);
  // That for buffers that begin anywhere is made later.
  absl::StatusOr<AlignedKernel> get_aligned(std::vector<GridPart> parts, int capability, Code code);
  // Machine code for devices of this capability; NotFound where there is only PTX.
  absl::StatusOr<std::string> machine_code(const CudaKernel& kernel, int capability);
  absl::StatusOr<std::string> ptx(const CudaKernel& kernel, int capability);
  // Where the code generator is, as CodeGeneratorOptions have it.
  void set_library(std::string path);
  // What code is assembled for: 1000 * major + 10 * minor.
  void set_driver_version(int version);
  void set_cache_directory(std::string directory);
  // Of a kernel that is alive.
  absl::StatusOr<std::string> ptx(const KernelText& kernel);
  // What assembles, in words.
  std::string assembler();
  CudaKernelStats stats();
  void count_runs(int64_t runs) { runs_.fetch_add(runs, std::memory_order_relaxed); }
  void count_graph() { graphs_.fetch_add(1, std::memory_order_relaxed); }
  void count_graph_run() { graph_runs_.fetch_add(1, std::memory_order_relaxed); }
  void count_refused_graph() { graphs_refused_.fetch_add(1, std::memory_order_relaxed); }

 private:
  absl::StatusOr<std::string> ptx_locked(const CudaKernel& kernel, int capability);
  absl::StatusOr<std::string> machine_code_locked(const CudaKernel& kernel, int capability);
  const absl::StatusOr<Assembler>& assembler_locked();
  // Of the code generator that there is, or would be; empty where it has no name, or there is none.
  const std::string& build_locked();
  // Empty where nothing may be kept.
  std::string disk_key(const CudaKernel& kernel, int capability);

  hlo::Mutex mutex_{hlo::LockRank::kKernels};
  std::string library_;
  int driver_version_ = 0;
  int capability_ = 0;  // that kernels were last asked for
  std::optional<absl::StatusOr<PtxGenerator>> generator_;
  std::optional<absl::StatusOr<Assembler>> assembler_;
  std::optional<std::string> build_;  // of the code generator
  DiskCache disk_;
  CudaKernelStats stats_;
  std::atomic<int64_t> runs_{0}, graphs_{0}, graph_runs_{0}, graphs_refused_{0};
  // By texts of kernel and schedule.
  std::map<std::pair<std::string, std::string>, std::weak_ptr<const CudaKernel>> kernels_;
};

}  // namespace lamina::jit::cuda

#endif  // LAMINA_JIT_CUDA_KERNELS_H_
