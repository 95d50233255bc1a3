// The scalar rules: what every elementwise op computes, as functions over `Scalar` handles.
//
// Contract: total on every input; operands of a binary function have one type. f32, f64, f16 and bf16 are
// accepted wherever floats are, `ScalarComplex` (parts f32 or f64) where an overload takes it. A 16-bit float
// result is the correctly rounded one for every unary function. Names are those of StableHLO and CHLO; where
// C++ reserves the word (and, or, xor, not) an underscore follows.
#ifndef LAMINA_HLO_SCALAR_MATH_H_
#define LAMINA_HLO_SCALAR_MATH_H_

#include "hlo/scalar/ops.h"

namespace lamina::hlo::scalar {

// Arithmetic (arithmetic.cc). bool: add and maximum are or, multiply and minimum are and.
Scalar abs(Scalar x);
Scalar negate(Scalar x);
Scalar sign(Scalar x);
Scalar square(Scalar x);
Scalar sqrt(Scalar x);
Scalar floor(Scalar x);
Scalar ceil(Scalar x);
Scalar round_nearest_afz(Scalar x);
Scalar round_nearest_even(Scalar x);
Scalar is_finite(Scalar x);
Scalar add(Scalar a, Scalar b);
Scalar subtract(Scalar a, Scalar b);
Scalar multiply(Scalar a, Scalar b);
Scalar divide(Scalar a, Scalar b);
Scalar maximum(Scalar a, Scalar b);  // NaN wins; +0 > -0
Scalar minimum(Scalar a, Scalar b);
Scalar clamp(Scalar low, Scalar x, Scalar high);
Scalar remainder(Scalar a, Scalar b);  // sign of the dividend; exact (roots.cc)
Scalar next_after(Scalar from, Scalar to);
Scalar reduce_precision(Scalar x, int exponent_bits, int mantissa_bits);

// Bits (arithmetic.cc).
Scalar and_(Scalar a, Scalar b);
Scalar or_(Scalar a, Scalar b);
Scalar xor_(Scalar a, Scalar b);
Scalar not_(Scalar x);
Scalar popcnt(Scalar x);
Scalar count_leading_zeros(Scalar x);
Scalar shift_left(Scalar a, Scalar b);
Scalar shift_right_arithmetic(Scalar a, Scalar b);
Scalar shift_right_logical(Scalar a, Scalar b);
Scalar bitcast_convert(Scalar x, DType to);  // same width

enum class Direction : uint8_t { kEq, kNe, kLt, kLe, kGt, kGe };
Scalar compare(Scalar a, Scalar b, Direction direction);
// -NaN < -inf < ... < -0 < +0 < ... < +inf < NaN; floats only.
Scalar compare_total_order(Scalar a, Scalar b, Direction direction);
Scalar compare(ScalarComplex a, ScalarComplex b,
               Direction direction);  // order: real part first, then imaginary

Scalar convert(Scalar x, DType to);  // to a real type
ScalarComplex convert_to_complex(Scalar x, DType part);
Scalar convert(ScalarComplex x, DType to);  // to a real type: the real part; to bool: either part is not 0
ScalarComplex convert_to_complex(ScalarComplex x, DType part);

// Elementary functions (exponential.cc, logarithm.cc, trigonometric.cc, roots.cc).
Scalar exponential(Scalar x);
Scalar exponential_minus_one(Scalar x);
Scalar exp2(Scalar x);
Scalar log(Scalar x);
Scalar log_plus_one(Scalar x);
Scalar logistic(Scalar x);
Scalar sine(Scalar x);
Scalar cosine(Scalar x);
Scalar tan(Scalar x);
Scalar asin(Scalar x);
Scalar acos(Scalar x);
Scalar atan(Scalar x);
Scalar atan2(Scalar y, Scalar x);
Scalar sinh(Scalar x);
Scalar cosh(Scalar x);
Scalar tanh(Scalar x);
Scalar asinh(Scalar x);
Scalar acosh(Scalar x);
Scalar atanh(Scalar x);
Scalar cbrt(Scalar x);
Scalar rsqrt(Scalar x);
// Floats: IEEE 754 pow. Integers: by squaring, wrapping; a negative exponent gives 0 unless x is 1 or -1.
Scalar power(Scalar x, Scalar y);
// Whether power takes a fraction of its code and time where its exponent is known to be this one: f32, f64.
bool is_quick_exponent(DType type, double y);
// power, for exponents that are not quick ones.
Scalar power_of_others(Scalar x, Scalar y);

// Special functions (special.cc, gamma.cc).
Scalar erf(Scalar x);
Scalar erfc(Scalar x);
Scalar erf_inv(Scalar x);
Scalar lgamma(Scalar x);  // log |gamma(x)|
Scalar digamma(Scalar x);

// In f64, for results that are rounded to f32 or a narrower type in the end, which an op with mantissa_bits
// of 23 or fewer stands for: good to about 2^-38 where f32 has the result; beyond it erfc may be 0.
Scalar short_exponential(Scalar x);
Scalar short_exponential_minus_one(Scalar x);
Scalar short_logistic(Scalar x);
Scalar short_log(Scalar x);
Scalar short_log_plus_one(Scalar x);
Scalar short_power(Scalar x, Scalar y);
Scalar short_erfc(Scalar x);
Scalar short_lgamma(Scalar x);
Scalar short_digamma(Scalar x);

// Complex functions (complex.cc). c64 is computed in f64 and rounded once per part.
Scalar abs(ScalarComplex z);
ScalarComplex negate(ScalarComplex z);
ScalarComplex sign(ScalarComplex z);
ScalarComplex square(ScalarComplex z);
ScalarComplex add(ScalarComplex a, ScalarComplex b);
ScalarComplex subtract(ScalarComplex a, ScalarComplex b);
ScalarComplex multiply(ScalarComplex a, ScalarComplex b);
ScalarComplex divide(ScalarComplex a, ScalarComplex b);
ScalarComplex maximum(ScalarComplex a, ScalarComplex b);
ScalarComplex minimum(ScalarComplex a, ScalarComplex b);
ScalarComplex power(ScalarComplex a, ScalarComplex b);
ScalarComplex exponential(ScalarComplex z);
ScalarComplex exponential_minus_one(ScalarComplex z);
ScalarComplex log(ScalarComplex z);
ScalarComplex log_plus_one(ScalarComplex z);
ScalarComplex logistic(ScalarComplex z);
ScalarComplex sqrt(ScalarComplex z);
ScalarComplex rsqrt(ScalarComplex z);
ScalarComplex sine(ScalarComplex z);
ScalarComplex cosine(ScalarComplex z);
ScalarComplex tan(ScalarComplex z);
ScalarComplex asin(ScalarComplex z);
ScalarComplex acos(ScalarComplex z);
ScalarComplex atan(ScalarComplex z);
ScalarComplex sinh(ScalarComplex z);
ScalarComplex cosh(ScalarComplex z);
ScalarComplex tanh(ScalarComplex z);
ScalarComplex asinh(ScalarComplex z);
ScalarComplex acosh(ScalarComplex z);
ScalarComplex atanh(ScalarComplex z);
ScalarComplex atan2(ScalarComplex y, ScalarComplex x);  // -i log((x + i y) / sqrt(x^2 + y^2))

ScalarComplex select(Scalar p, ScalarComplex a, ScalarComplex b);
ScalarComplex complex(Scalar re, Scalar im);
Scalar real(Scalar x);
Scalar real(ScalarComplex x);
Scalar imag(Scalar x);
Scalar imag(ScalarComplex x);

}  // namespace lamina::hlo::scalar

#endif  // LAMINA_HLO_SCALAR_MATH_H_
