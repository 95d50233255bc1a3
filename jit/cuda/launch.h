// Steps that launch a kernel.
#ifndef LAMINA_JIT_CUDA_LAUNCH_H_
#define LAMINA_JIT_CUDA_LAUNCH_H_

#include <memory>
#include <string_view>

#include "cluster/fuse.h"
#include "jit/cuda/queue_step.h"

namespace lamina::jit::cuda {

// The step of a loop group, or of a library op that is loops there (jit/kernel/lower_call.h); in words why
// the device has no form for it. `never` is the address of a word that is 0; `beside` ends its description.
absl::StatusOr<std::unique_ptr<QueueStep>> make_launch_step(CudaKernels& kernels, int capability,
                                                            Address never, const cluster::FusionPlan& plan,
                                                            const cluster::Group& group,
                                                            const SlotOf& slot_of,
                                                            std::string_view beside = "");

}  // namespace lamina::jit::cuda

#endif  // LAMINA_JIT_CUDA_LAUNCH_H_
