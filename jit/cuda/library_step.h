// Steps that call a library: products by cublasLt, convolutions and attention by cuDNN, Fourier transforms by
// cuFFT. Where
// an array does not lie as the library takes it, a kernel of ours makes a dense copy in memory of the step.
#ifndef LAMINA_JIT_CUDA_LIBRARY_STEP_H_
#define LAMINA_JIT_CUDA_LIBRARY_STEP_H_

#include <memory>
#include <span>

#include "jit/cuda/attention.h"
#include "jit/cuda/convolutions.h"
#include "jit/cuda/fourier.h"
#include "jit/cuda/parts_step.h"
#include "jit/cuda/product_epilogue.h"
#include "jit/cuda/products.h"

namespace lamina::jit::cuda {

// Null, or in words why there is none, as of Products::plan and its like; `reads` likewise.
absl::StatusOr<std::unique_ptr<Step>> make_product_step(Products& products, CudaKernels& kernels,
                                                        const hlo::Node& dot,
                                                        std::span<const hlo::Value> reads,
                                                        const SlotOf& slot_of, MakeKernel make_kernel);
// Of a call that stands for a product with this epilogue.
absl::StatusOr<std::unique_ptr<Step>> make_epilogue_step(Products& products, CudaKernels& kernels,
                                                         const hlo::Node& call,
                                                         const ProductEpilogue& epilogue,
                                                         const SlotOf& slot_of, MakeKernel make_kernel);
absl::StatusOr<std::unique_ptr<Step>> make_convolution_step(Convolutions& convolutions, CudaKernels& kernels,
                                                            const hlo::Node& convolution,
                                                            const SlotOf& slot_of, MakeKernel make_kernel);
// Of a call that has this form.
absl::StatusOr<std::unique_ptr<Step>> make_attention_step(Attentions& attentions, CudaKernels& kernels,
                                                          const hlo::Node& call, const AttentionForm& form,
                                                          const SlotOf& slot_of, MakeKernel make_kernel);
absl::StatusOr<std::unique_ptr<Step>> make_fourier_step(Fourier& fourier, CudaKernels& kernels,
                                                        const hlo::Node& transform, const SlotOf& slot_of,
                                                        MakeKernel make_kernel);

}  // namespace lamina::jit::cuda

#endif  // LAMINA_JIT_CUDA_LIBRARY_STEP_H_
