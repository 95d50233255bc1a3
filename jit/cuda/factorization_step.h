// Steps that factor matrices by cuSOLVER.
#ifndef LAMINA_JIT_CUDA_FACTORIZATION_STEP_H_
#define LAMINA_JIT_CUDA_FACTORIZATION_STEP_H_

#include <memory>
#include <span>

#include "jit/cuda/factorizations.h"
#include "jit/cuda/parts_step.h"

namespace lamina::jit::cuda {

// Null, or in words why there is none, as of Factorizations::plan; `reads` as for
// jit/cuda/triangle_step.h. Matrices with a number that is not finite,
// and those without a factor, give NaN, of which the host knows nothing.
absl::StatusOr<std::unique_ptr<Step>> make_factorization_step(Factorizations& factorizations,
                                                              CudaKernels& kernels, const hlo::Node& node,
                                                              std::span<const hlo::Value> reads,
                                                              const SlotOf& slot_of, MakeKernel make_kernel);

}  // namespace lamina::jit::cuda

#endif  // LAMINA_JIT_CUDA_FACTORIZATION_STEP_H_
