// Steps that multiply by cublasLt.
#ifndef LAMINA_JIT_CUDA_PRODUCT_STEP_H_
#define LAMINA_JIT_CUDA_PRODUCT_STEP_H_

#include <memory>

#include "absl/functional/function_ref.h"
#include "jit/cuda/products.h"
#include "jit/cuda/queue_step.h"

namespace lamina::jit::cuda {

// A step that writes its slot 0 with dimensions in this order to its slot 1, or in words why there is none.
using MakeCopy = absl::FunctionRef<absl::StatusOr<std::unique_ptr<QueueStep>>(const hlo::Type* type,
                                                                              const hlo::Dims& order)>;

// Null, or in words why there is none, as of Products::plan.
absl::StatusOr<std::unique_ptr<Step>> make_product_step(Products& products, CudaKernels& kernels,
                                                        const hlo::Node& dot, const SlotOf& slot_of,
                                                        MakeCopy make_copy);

}  // namespace lamina::jit::cuda

#endif  // LAMINA_JIT_CUDA_PRODUCT_STEP_H_
