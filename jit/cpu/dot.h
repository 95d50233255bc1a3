// Matrix products on the CPU, with the bits of hlo/reference_dot.h on every instruction set and thread count.
#ifndef LAMINA_JIT_CPU_DOT_H_
#define LAMINA_JIT_CPU_DOT_H_

#include <cstdint>
#include <optional>
#include <vector>

#include "absl/status/status.h"
#include "hlo/dtype.h"
#include "hlo/reference_dot.h"
#include "jit/cpu/kernel_context.h"

namespace lamina::jit {

// As hlo::reference_dot. Cancelled when the context's flag was set, ResourceExhausted when there is no memory
// to pack into; `c` is then unspecified.
absl::Status dot(hlo::DType in, hlo::DType out, const hlo::DotShape& shape, const void* a, const void* b,
                 void* c, const KernelContext& context);

// One dimension of a general dot; a stride is 0 where the operand lacks the dimension.
struct DotDim {
  int64_t extent;
  int64_t lhs_stride;
  int64_t rhs_stride;
};

// c is row-major over [batch..., m..., n...]; k is summed in row-major order of its dimensions.
struct DotGeneralShape {
  std::vector<DotDim> batch, m, n, k;
};

// The same as a plain dot, where each list of dimensions collapses to one stride in each operand.
std::optional<hlo::DotShape> collapsed(const DotGeneralShape& shape);

// Dimension lists that do not collapse to one stride are first gathered into a dense copy of that operand.
absl::Status dot_general(hlo::DType in, hlo::DType out, const DotGeneralShape& shape, const void* a,
                         const void* b, void* c, const KernelContext& context);

}  // namespace lamina::jit

#endif  // LAMINA_JIT_CPU_DOT_H_
