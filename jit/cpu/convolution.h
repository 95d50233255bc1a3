// Convolutions on the CPU as matrix products over patches that are packed straight into the product's panels;
// with the bits of hlo/reference_conv.h on every instruction set and thread count.
#ifndef LAMINA_JIT_CPU_CONVOLUTION_H_
#define LAMINA_JIT_CPU_CONVOLUTION_H_

#include "absl/status/status.h"
#include "hlo/dtype.h"
#include "hlo/reference_conv.h"
#include "jit/cpu/kernel_context.h"

namespace lamina::jit {

// As hlo::reference_conv; statuses as for `dot`.
absl::Status convolution(hlo::DType in, hlo::DType out, const hlo::ConvShape& shape, const void* input,
                         const void* filter, void* output, const KernelContext& context);

}  // namespace lamina::jit

#endif  // LAMINA_JIT_CPU_CONVOLUTION_H_
