// Steps that convolve by cuDNN.
#ifndef LAMINA_JIT_CUDA_CONVOLUTION_STEP_H_
#define LAMINA_JIT_CUDA_CONVOLUTION_STEP_H_

#include <memory>

#include "jit/cuda/convolutions.h"
#include "jit/cuda/queue_step.h"

namespace lamina::jit::cuda {

// Null, or in words why there is none, as of Convolutions::plan.
absl::StatusOr<std::unique_ptr<Step>> make_convolution_step(Convolutions& convolutions, CudaKernels& kernels,
                                                            const hlo::Node& convolution,
                                                            const SlotOf& slot_of);

}  // namespace lamina::jit::cuda

#endif  // LAMINA_JIT_CUDA_CONVOLUTION_STEP_H_
