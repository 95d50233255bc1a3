// The kernel that says whether a loop in a graph goes on (jit/cuda/graph.h).
#ifndef LAMINA_JIT_CUDA_LOOP_SWITCH_H_
#define LAMINA_JIT_CUDA_LOOP_SWITCH_H_

#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "hlo/mutex.h"
#include "jit/cuda/gpu.h"
#include "jit/cuda/kernels.h"

namespace lamina::jit::cuda {

// Of one thread. Its parameters are the address of a byte and a condition, which is then 1 where the byte is
// not 0, else 0.
inline constexpr const char* kLoopSwitch = "lamina_goes_on";
// Text for the assembler. The function that it calls is the driver's, which assemblers know since CUDA 12.3.
std::string_view loop_switch_ptx();

class LoopSwitch {
 public:
  // Loads its code, the first time. It stays.
  absl::StatusOr<FunctionHandle> function(CudaKernels& kernels, Gpu& gpu);

 private:
  hlo::Mutex mutex_{hlo::LockRank::kQueues};
  std::vector<std::pair<const Gpu*, FunctionHandle>> loaded_;
};

}  // namespace lamina::jit::cuda

#endif  // LAMINA_JIT_CUDA_LOOP_SWITCH_H_
