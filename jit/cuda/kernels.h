// The kernels of CUDA devices: PTX, made once for each kernel and schedule, and loaded once on each device.
//
// Contract: any thread may call anything; kernels live as long as their steps.
#ifndef LAMINA_JIT_CUDA_KERNELS_H_
#define LAMINA_JIT_CUDA_KERNELS_H_

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
#include "jit/cuda/gpu.h"
#include "jit/kernel/grid.h"
#include "jit/program/step.h"

namespace lamina::jit::cuda {

class CudaKernel {
 public:
  CudaKernel(LoopKernel spec, GridSchedule schedule, std::string text, std::string ptx)
      : spec_(std::move(spec)), schedule_(schedule), text_{std::move(text), {}}, ptx_(std::move(ptx)) {}
  ~CudaKernel();
  CudaKernel(const CudaKernel&) = delete;
  CudaKernel& operator=(const CudaKernel&) = delete;

  const LoopKernel& spec() const { return spec_; }
  const GridSchedule& schedule() const { return schedule_; }
  const KernelText& text() const { return text_; }
  // Begins with the texts of kernel and schedule, as comments.
  const std::string& ptx() const { return ptx_; }
  // Loads the code, the first time.
  absl::StatusOr<FunctionHandle> function(Gpu& gpu, std::string_view entry) const;

 private:
  struct Loaded {
    Gpu* gpu;
    ModuleHandle module;
    std::map<std::string, FunctionHandle, std::less<>> functions;
  };

  const LoopKernel spec_;
  const GridSchedule schedule_;
  const KernelText text_;
  const std::string ptx_;
  mutable hlo::Mutex mutex_{hlo::LockRank::kQueues};
  mutable std::vector<Loaded> loaded_;
};

class CudaKernels {
 public:
  // For devices of this capability and above; in words why there is none.
  absl::StatusOr<std::shared_ptr<const CudaKernel>> get(const LoopKernel& spec, const GridSchedule& schedule,
                                                        int capability);
  // Where the code generator is, as CodeGeneratorOptions have it.
  void set_library(std::string path);
  // Of a kernel that is alive, with any schedule.
  absl::StatusOr<std::string> ptx(const std::string& text);

 private:
  hlo::Mutex mutex_{hlo::LockRank::kKernels};
  std::string library_;
  std::optional<absl::StatusOr<PtxGenerator>> generator_;
  // By texts of kernel and schedule.
  std::map<std::pair<std::string, std::string>, std::weak_ptr<const CudaKernel>> kernels_;
};

}  // namespace lamina::jit::cuda

#endif  // LAMINA_JIT_CUDA_KERNELS_H_
