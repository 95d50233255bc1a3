// The scalar rules: what every elementwise op computes, as functions over `Scalar` handles.
//
// Contract: total on every input; operands of a binary function have one type. f32, f64, f16 and bf16 are accepted
// wherever floats are, `ScalarComplex` (parts f32 or f64) where an overload takes it. A 16-bit float result is the
// correctly rounded one for every unary function. Names are those of StableHLO and CHLO; where C++ reserves the word
// (and, or, xor, not) an underscore follows.
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
Scalar remainder(Scalar a, Scalar b);  // sign of the dividend; exact (remainder.cc)
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
Scalar compare(ScalarComplex a, ScalarComplex b, Direction direction);  // order: real part first, then imaginary

Scalar convert(Scalar x, DType to);                // to a real type
ScalarComplex convert_to_complex(Scalar x, DType part);
Scalar convert(ScalarComplex x, DType to);         // to a real type: the real part; to bool: either part is not 0
ScalarComplex convert_to_complex(ScalarComplex x, DType part);

ScalarComplex select(Scalar p, ScalarComplex a, ScalarComplex b);
ScalarComplex complex(Scalar re, Scalar im);
Scalar real(Scalar x);
Scalar real(ScalarComplex x);
Scalar imag(Scalar x);
Scalar imag(ScalarComplex x);

}  // namespace lamina::hlo::scalar

#endif  // LAMINA_HLO_SCALAR_MATH_H_
