// The f64 cores that the transcendental rules share, and arithmetic on unevaluated sums.
//
// Contract: handles are f64, in "single" functions f32. A `Sum` is hi + lo with |lo| about half an ulp of hi
// or less. "Narrow" functions are plain f64 arithmetic good to about 2^-45, meant for results of f32, f16 and
// bf16, which are rounded from them once; the other cores are good to about 2^-58, so that a result rounded
// from them is within 0.6 ulp of f64.
#ifndef LAMINA_HLO_SCALAR_ELEMENTARY_H_
#define LAMINA_HLO_SCALAR_ELEMENTARY_H_

#include <optional>

#include "hlo/scalar/math.h"
#include "hlo/scalar/tables.h"

namespace lamina::hlo::scalar {

inline constexpr double kLn2 = 0x1.62e42fefa39efp-1, kLn2Low = 0x1.abc9e3b39803fp-56;
// ln(2) to 41 bits, so that n * kLn2Top is exact, and the rest.
inline constexpr double kLn2Top = 0x1.62e42fefa3000p-1, kLn2Rest = 0x1.3de6af278ece6p-42;
inline constexpr double kLog2e = 0x1.71547652b82fep+0;
inline constexpr double kPi = 0x1.921fb54442d18p+1, kPiLow = 0x1.1a62633145c07p-53;

inline Scalar value(Sum a) { return a.hi + a.lo; }
inline Sum add_sums(Sum a, Sum b) {
  const Sum s = two_sum(a.hi, b.hi);
  return fast_two_sum(s.hi, s.lo + (a.lo + b.lo));
}
inline Sum add_number(Sum a, ScalarOrNumber b) {
  const Sum s = two_sum(a.hi, b.as(a.hi));
  return fast_two_sum(s.hi, s.lo + a.lo);
}
inline Sum multiply_sums(Sum a, Sum b) {
  const Sum p = two_product(a.hi, b.hi);
  return fast_two_sum(p.hi, fma(a.hi, b.lo, fma(a.lo, b.hi, p.lo)));
}
inline Sum divide_sums(Sum a, Sum b) {
  const Scalar inverse = 1 / b.hi, q = a.hi * inverse;
  const Scalar rest = fma(-q, b.hi, a.hi) + fma(-q, b.lo, a.lo);
  return fast_two_sum(q, rest * inverse);
}
inline Sum sqrt_sum(Sum a) {
  const Scalar s = sqrt(a.hi);
  return {s, (fma(-s, s, a.hi) + a.lo) / (s + s)};
}
// a - b, |a| >= |b|: without a sign to turn, which would take an instruction of its own.
inline Sum fast_difference(Scalar a, Scalar b) {
  const Scalar s = a - b;
  return {s, (a - s) - b};
}
inline Sum negate_sum(Sum a) { return {-a.hi, -a.lo}; }
inline Sum select_sum(Scalar p, Sum a, Sum b) { return {select(p, a.hi, b.hi), select(p, a.lo, b.lo)}; }
inline Sum scale_sum(Sum a, ScalarOrNumber factor) {
  return {a.hi * factor.as(a.hi), a.lo * factor.as(a.hi)};
}
inline Sum sum_constant(Scalar like, double hi, double lo) {
  return {constant(like, hi), constant(like, lo)};
}

// Adding this to x in f64, |x| < 2^50, rounds x to an integer, which the lowest bits of the sum hold.
inline constexpr double kRound = 0x1.8p52;

// x limited to [low, high]; NaN stays.
inline Scalar limit_above(Scalar x, double high) { return select(x > high, high, x); }
inline Scalar limit(Scalar x, double low, double high) {
  const Scalar below = limit_above(x, high);
  return select(below < low, low, below);
}

// 2^(bias - 1023) for a biased exponent in the lowest 12 bits of a u64, of which no others count.
Scalar from_biased(Scalar biased);
// 2^n for an integral n (f64), -1022 <= n <= 1023.
Scalar power_of_two(Scalar n);
// x * 2^n for an x near 1 and an integral n, |n| <= 2040.
Scalar scale_by_power(Scalar x, Scalar n);

// exp(x.hi + x.lo) for |x.lo| <= 2^-40; where |x.hi| > 1100, x.lo must be 0.
Scalar exp_of_sum(Sum x);

// exp(x) = (sum) * 2^n; `reduced` and `tail` give exp(reduced) - 1 = reduced + tail where n == 0 and x.lo ==
// 0.
struct ExpParts {
  Sum sum;
  Scalar n, reduced, tail;
};
// |x| beyond 1100 counts as 1100.
ExpParts exp_parts(Sum x);
// exp(x) - 1 for -60 <= x <= 709.9 (limited to that).
Sum expm1_sum(Scalar x);

// In f32: x * per rounded to the integer n, and 2^(n + more), an exponent between -127 and 128. The sum of
// x * per and 1.5 * 2^23 + 127 + more holds the biased exponent in its lowest bits.
struct SinglePower {
  Scalar n, power;
};
inline SinglePower single_power(Scalar x, double per, int more = 0) {
  const double biased = 0x1.8p23 + 127 + more;
  const Scalar counted = fma(x, per, biased);
  return {counted - biased, bitcast(to_bits(counted) << 23, DType::kF32)};
}
// In f32: x rounded to a multiple of 1/(4 * per) whose numerator is n: the quarters n / 4, and n as
// Prim::scale takes it.
struct SplitPower {
  Scalar quarters, counted;
  Scalar place() const { return to_bits(counted); }  // n mod 4 in the lowest bits
};
SplitPower split_power(Scalar x, double per);
inline Scalar scale(Scalar size, const SplitPower& by) { return scale(size, by.counted); }

// In f32: exp(x + low) = (step + rest) * 2^..., for |x| <= 110 and a `low` of a few units of x's last place;
// 1 <= step < 2, |rest| <= step / 11. Good to 2^-28.
struct SteppedExp {
  Scalar step, rest;
  SplitPower power;
};
SteppedExp stepped_exp(Scalar x, std::optional<Scalar> low = {});

// x^y, f32 or f64, for a y of which `is_half_power` holds, rounded from nearly twice its digits; `any` is x^y
// where that could overflow on the way.
Scalar half_power(Scalar x, Scalar y, Scalar any);
// Whether y is a multiple of 1/2 and |y| <= 2.
Scalar is_half_power(Scalar y);

// log(v) + more * log(2) for a positive normal v.hi.
Sum log_sum(Sum v, ScalarOrNumber more = 0.0);
// log(1 + w) for w > -1 and |w| >= 2^-28.
Sum log1p_sum(Sum w);

// r and quadrant (u64, any multiple of 4 added) with |x| = quadrant * pi/2 + r, |r| <= pi/4; x finite.
struct Reduced {
  Sum r;
  Scalar quadrant;
};
Reduced reduce_quarter_turns(Scalar magnitude);
Sum sin_sum(Sum r);
Sum cos_sum(Sum r);
// sin(pi * x) and cos(pi * x) for 0 <= x <= 1/2... any finite x: reduced exactly.
Sum sin_pi_sum(Scalar x);
Sum cos_pi_sum(Scalar x);

Scalar exp_narrow(Scalar x);
Scalar log_narrow(Scalar x);  // of a positive normal number
Scalar log1p_narrow(Scalar x);

// In f32: 1/d for 1 <= d <= 2 within a few ulps, `guess` being a polynomial for it: one step of third order
// makes an error of 2^-9 one of 2^-27. IEEE's division is dear on GPUs, where each is a call.
inline Scalar single_inverse(Scalar d, std::span<const double> guess) {
  const Scalar q = polynomial(d, guess), rest = fma(-d, q, 1);
  return fma(fma(rest, rest, rest), q, q);
}

// In f32: a / b for 1 <= b.hi <= 2, within 0.5 ulp and the errors of a and b.
inline Scalar single_quotient(Sum a, Sum b, std::span<const double> guess) {
  const Scalar inverse = single_inverse(b.hi, guess), q = a.hi * inverse;
  return fma(fma(-q, b.hi, a.hi) + fma(-q, b.lo, a.lo), inverse, q);
}

// In f32: the piece of 0 <= a <= top. The function at a is value + t * slope, t = a - center.
struct Piece {
  Scalar center, value, t, slope;
};
Piece piece_at(const Pieces& pieces, Scalar a);
// The odd function that `pieces` cuts up, at x (NaN stays).
Scalar odd_piecewise(const Pieces& pieces, Scalar x);

// angle of the point (x, y), both finite parts given as magnitudes: atan(y / x) in [0, pi/2].
Sum atan_ratio(Sum y, Sum x);

// Runs `narrow` in f64 for f32, f16 and bf16 and rounds once; `wide` for f64.
template <typename W, typename N>
Scalar by_width(W wide, N narrow, Scalar x) {
  return x.type() == DType::kF64 ? wide(x) : via_f64(narrow, x);
}

// For f16 and bf16: runs the form of x's type in f32 and rounds once. Such forms use f32 alone, and
// polynomials whose last digits are chosen so that every one of the 65,536 results is the nearest one.
template <typename H, typename B>
Scalar by_half(H of_f16, B of_bf16, Scalar x) {
  const Scalar wide = convert_to(x, DType::kF32);
  return convert_to(x.type() == DType::kF16 ? of_f16(wide) : of_bf16(wide), x.type());
}

}  // namespace lamina::hlo::scalar

#endif  // LAMINA_HLO_SCALAR_ELEMENTARY_H_
