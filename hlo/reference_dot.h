// The meaning of a dot, to the last bit.
//
// An element of a dot is the sum over blocks of 256 consecutive k, added in order: total = block 0, then
// total = total + block b. A block is a chain: its first term is a product, each further one acc = fma(x, y,
// acc).
//   - f32, f64: in that type.
//   - f16, bf16: operands to f32 (exact), the f32 order, one rounding at the end; or f32 results as they are.
//   - integers: operands to the result's type (sign or zero extended), which wraps around.
//   - complex: two such chains, each with two terms per k in this order: real part x.re*y.re, then
//   -x.im*y.im;
//     imaginary part x.re*y.im, then x.im*y.re. A block is 256 complex k.
// An empty sum is 0. Nothing else about the shape, the layout or the machine enters.
#ifndef LAMINA_HLO_REFERENCE_DOT_H_
#define LAMINA_HLO_REFERENCE_DOT_H_

#include <cstdint>

#include "absl/status/status.h"
#include "hlo/dtype.h"

namespace lamina::hlo {

inline constexpr int64_t kDotBlock = 256;

// c[batch][m][n] = sum over k of a[batch, m, k] * b[batch, k, n]; c is row-major and dense, strides count
// elements.
struct DotShape {
  int64_t batch = 1, m = 1, n = 1, k = 1;
  int64_t lhs_batch = 0, lhs_m = 0, lhs_k = 0;  // strides
  int64_t rhs_batch = 0, rhs_k = 0, rhs_n = 0;
};

// OK if a dot of operands of type `in` may give `out`: the same type (bool excepted), f32 from f16 and bf16,
// or a wider integer from an integer. InvalidArgument otherwise.
absl::Status check_dot_types(DType in, DType out);

// Slow and simple. `c` does not overlap the operands.
absl::Status reference_dot(DType in, DType out, const DotShape& shape, const void* a, const void* b, void* c);

}  // namespace lamina::hlo

#endif  // LAMINA_HLO_REFERENCE_DOT_H_
