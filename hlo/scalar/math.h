// The scalar math library: every function as a straight-line rule over primitives, for f64.
//
// f32, f16 and bf16 are computed in f64 and rounded once (adapters.h), which makes them correctly rounded but for
// values within the f64 error of a tie. Bounds for f64, largest error seen in units in the last place, stand in the
// accuracy tests. Subnormals are honoured; overflow, underflow, NaN and signed zeros follow IEEE 754 and C99 annex F.
// `precise` false allows polynomials that are only as long as f32 results need.
#ifndef LAMINA_HLO_SCALAR_MATH_H_
#define LAMINA_HLO_SCALAR_MATH_H_

#include "hlo/scalar/program.h"

namespace lamina::hlo::scalar {

// A sum of two f64 whose second is at most half a unit of the first.
struct Pair {
  Scalar hi, lo;
};

Scalar exp64(Scalar x, bool precise = true);
Scalar exp64(Pair x);
Scalar exp2_64(Scalar x, bool precise = true);
Scalar expm1_64(Scalar x, bool precise = true);
Scalar log64(Scalar x, bool precise = true);
Scalar log1p_64(Scalar x, bool precise = true);
Scalar pow64(Scalar x, Scalar y, bool precise = true);
Scalar logistic64(Scalar x, bool precise = true);
Scalar tanh64(Scalar x, bool precise = true);
Scalar sinh64(Scalar x);
Scalar cosh64(Scalar x);
Scalar asinh64(Scalar x);
Scalar acosh64(Scalar x);
Scalar atanh64(Scalar x);
Scalar sin64(Scalar x, bool precise = true);
Scalar cos64(Scalar x, bool precise = true);
Scalar tan64(Scalar x);
Scalar atan64(Scalar x);
Scalar atan2_64(Scalar y, Scalar x);
Scalar asin64(Scalar x);
Scalar acos64(Scalar x);
Scalar cbrt64(Scalar x);
Scalar erf64(Scalar x);
Scalar erfc64(Scalar x);
Scalar erf_inv64(Scalar x);
Scalar lgamma64(Scalar x);
Scalar digamma64(Scalar x);
// C's fmod for f32 or f64 operands held in f64; `f32_range` says they came from f32.
Scalar fmod64(Scalar x, Scalar y, bool f32_range);

}  // namespace lamina::hlo::scalar

#endif  // LAMINA_HLO_SCALAR_MATH_H_
