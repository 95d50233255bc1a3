// Steps that call a library: products by cublasLt, convolutions by cuDNN. Where an array does not lie as the
// library takes it, a kernel of ours makes a dense copy in memory of the step.
#ifndef LAMINA_JIT_CUDA_LIBRARY_STEP_H_
#define LAMINA_JIT_CUDA_LIBRARY_STEP_H_

#include <memory>

#include "absl/functional/function_ref.h"
#include "jit/cuda/convolutions.h"
#include "jit/cuda/products.h"
#include "jit/cuda/queue_step.h"

namespace lamina::jit::cuda {

// A step that writes its slot 0 with dimensions in this order to its slot 1, or in words why there is none.
using MakeCopy = absl::FunctionRef<absl::StatusOr<std::unique_ptr<QueueStep>>(const hlo::Type* type,
                                                                              const hlo::Dims& order)>;

// Null, or in words why there is none, as of Products::plan and Convolutions::plan.
absl::StatusOr<std::unique_ptr<Step>> make_product_step(Products& products, CudaKernels& kernels,
                                                        const hlo::Node& dot, const SlotOf& slot_of,
                                                        MakeCopy make_copy);
absl::StatusOr<std::unique_ptr<Step>> make_convolution_step(Convolutions& convolutions, CudaKernels& kernels,
                                                            const hlo::Node& convolution,
                                                            const SlotOf& slot_of, MakeCopy make_copy);

}  // namespace lamina::jit::cuda

#endif  // LAMINA_JIT_CUDA_LIBRARY_STEP_H_
