// Matrix products on the CPU, with the bits of hlo/reference_dot.h on every instruction set and thread count.
#ifndef LAMINA_JIT_CPU_DOT_H_
#define LAMINA_JIT_CPU_DOT_H_

#include "absl/status/status.h"
#include "hlo/dot_shape.h"
#include "hlo/dtype.h"
#include "jit/cpu/kernel_context.h"

namespace lamina::jit {

// As hlo::reference_dot. Cancelled when the context's flag was set, ResourceExhausted when there is no memory
// to pack into; `c` is then unspecified.
absl::Status dot(hlo::DType in, hlo::DType out, const hlo::DotShape& shape, const void* a, const void* b,
                 void* c, const KernelContext& context);

// Dimension lists that do not collapse to one stride are first gathered into a dense copy of that operand.
absl::Status dot_general(hlo::DType in, hlo::DType out, const hlo::DotGeneralShape& shape, const void* a,
                         const void* b, void* c, const KernelContext& context);

}  // namespace lamina::jit

#endif  // LAMINA_JIT_CPU_DOT_H_
