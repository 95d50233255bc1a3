// Steps that solve triangular systems by cuBLAS.
#ifndef LAMINA_JIT_CUDA_TRIANGLE_STEP_H_
#define LAMINA_JIT_CUDA_TRIANGLE_STEP_H_

#include <memory>
#include <span>

#include "jit/cuda/parts_step.h"
#include "jit/cuda/triangles.h"

namespace lamina::jit::cuda {

// Null, or in words why there is none, as of Triangles::plan; `reads` likewise.
absl::StatusOr<std::unique_ptr<Step>> make_triangle_step(Triangles& triangles, CudaKernels& kernels,
                                                         const hlo::Node& node,
                                                         std::span<const hlo::Value> reads,
                                                         const SlotOf& slot_of, MakeKernel make_kernel);

}  // namespace lamina::jit::cuda

#endif  // LAMINA_JIT_CUDA_TRIANGLE_STEP_H_
