// The block kernels behind the interpreter: one loop per primitive and combination of types.
//
// Contract: a kernel reads `count` values of each operand and writes `count` results; the result may be the
// same array as an operand of the same width, arrays never overlap partly. bool is one byte, 0 or 1. The fma
// copies are compiled for AVX2+FMA and give the same bits as the baseline copies.
#ifndef LAMINA_HLO_SCALAR_KERNELS_H_
#define LAMINA_HLO_SCALAR_KERNELS_H_

#include <cstdint>

#include "hlo/scalar/program.h"

namespace lamina::hlo {

using ScalarKernel = void (*)(void* out, const void* a, const void* b, const void* c, int64_t count);

// The kernel of `prim` for this result type and operand type (select: the type of its second and third
// operand), in the best copy for this CPU; null where the primitive does not exist for the types.
ScalarKernel find_kernel(Prim prim, DType result, DType operand);

namespace kernels_baseline {
ScalarKernel find_kernel(Prim prim, DType result, DType operand);
}
namespace kernels_fma {
ScalarKernel find_kernel(Prim prim, DType result, DType operand);
}

}  // namespace lamina::hlo

#endif  // LAMINA_HLO_SCALAR_KERNELS_H_
