// Transforms and factorizations made of other ops, so that every tier runs them to the same bits and every
// transform goes through them.
//
// Contract: matrices are the last two dimensions, everything before them is a batch. Errors are left in the
// builder. Nothing is computed while composing: the graphs have a size that does not depend on the arrays'.
#ifndef LAMINA_HLO_STABLEHLO_COMPOSE_H_
#define LAMINA_HLO_STABLEHLO_COMPOSE_H_

#include "hlo/builder.h"
#include "hlo/linalg/linalg.h"

namespace lamina::hlo::stablehlo {

using linalg::Transpose;
// x with op(a) x = y, or x op(a) = y if not `left`; reads one triangle of `a`, and not its diagonal if
// `unit`.
Value compose_triangular_solve(Builder& b, const Value& a, const Value& y, bool left, bool lower, bool unit,
                               Transpose op);
// The lower factor of a Hermitian matrix, of which the lower triangle is read; NaN where it is not positive.
Value compose_cholesky(Builder& b, const Value& a);

// Packed factors of row-pivoted a, one-based pivots s32[..., min(m, n)], one-based place of the first zero
// pivot or 0.
struct Lu {
  Value packed, pivots, info;
};
Lu compose_lu(Builder& b, const Value& a);

// Householder vectors below the diagonal, the triangular factor above, and the scales of the reflections.
struct Reflections {
  Value packed, scales;
};
Reflections compose_qr(Builder& b, const Value& a);
// The first columns of the product of reflections, as many as `packed` has.
Value compose_householder_product(Builder& b, const Reflections& r);

// Unsigned integers of `dtype` by Philox-4x32, as XLA lays them out, and the state that follows: u64[3], a
// key and a counter of 128 bits, or u64[2], whose key is the counter's upper half too. Words of a block stand
// one after the other; two make a 64-bit integer, low word first, and narrow integers are the low bits of
// one.
struct RandomBits {
  Value state, bits;
};
RandomBits compose_philox(Builder& b, const Value& state, DType dtype, const Dims& shape);

}  // namespace lamina::hlo::stablehlo

#endif  // LAMINA_HLO_STABLEHLO_COMPOSE_H_
