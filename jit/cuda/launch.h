// Steps that launch a kernel.
#ifndef LAMINA_JIT_CUDA_LAUNCH_H_
#define LAMINA_JIT_CUDA_LAUNCH_H_

#include <memory>
#include <span>
#include <string_view>

#include "cluster/fuse.h"
#include "jit/cuda/queue_step.h"
#include "jit/cuda/user_line.h"

namespace lamina::jit::cuda {

// The step of a loop group, or of a library op that is loops there (jit/kernel/lower_call.h); in words why
// the device has no form for it. `never` is the address of a word that is 0; `beside` ends its description.
absl::StatusOr<std::unique_ptr<QueueStep>> make_launch_step(CudaKernels& kernels, int capability,
                                                            Address never, const cluster::FusionPlan& plan,
                                                            const cluster::Group& group,
                                                            const SlotOf& slot_of,
                                                            std::string_view beside = "");

// What a chain needs to know of a step that may be part of one.
struct ChainedLaunch {
  const LoopKernel* kernel;
  std::span<const int64_t> args;
  std::span<const int> places;  // by buffer, once the step has been placed
  UserLine line;
};
ChainedLaunch chained(const Step& launch);

}  // namespace lamina::jit::cuda

#endif  // LAMINA_JIT_CUDA_LAUNCH_H_
