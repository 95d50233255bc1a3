// exp and its family: exponential, exp2, exponential_minus_one, logistic, tanh, sinh, cosh.
#include "hlo/scalar/coefficients.h"
#include "hlo/scalar/elementary.h"

namespace lamina::hlo::scalar {
namespace {

using namespace coefficients;

// exp(r) for |r| <= ln(2)/2 as a sum; n is left for the caller.
ExpParts finish_exp(Sum r, Scalar n) {
  const Scalar tail = fma(r.hi * r.hi, polynomial(r.hi, kExp), fma(r.hi, r.lo, r.lo));
  const Sum one = fast_two_sum(constant(n, 1), r.hi);
  return {fast_two_sum(one.hi, one.lo + tail), n, r.hi, tail};
}

// x - n ln(2) for an integral n, |n| <= 1100, as a sum.
Sum without_ln2(Sum x, Scalar n) { return fast_two_sum(fma(n, -kLn2Top, x.hi), fma(n, -kLn2Rest, x.lo)); }

// exp(r) - 1 - r.hi for |r| <= ln(2)/2.
Scalar exp_rest(Sum r) {
  const Scalar z = r.hi * r.hi;
  return fma(z, polynomial_by_halves(r.hi, z, kExpShort), fma(r.hi, r.lo, r.lo));
}

// exp(r) - 1 for |r| <= ln(2)/2, to 2^-50.
Scalar short_expm1_near(Scalar r) {
  const Scalar z = r * r;
  return fma(z, polynomial_by_halves(r, z, kExpNarrow), r);
}

// What Prim::scale adds to the eighths of exponents of f64.
constexpr double kBothExponents = kRound + 8 * 2 * 1023;

// exp(x + low) = (step + step * q + less) * 2^..., x limited to where that is neither 0 nor infinite: n / 8
// is next to x / ln(2), the step 2^(n mod 8 / 8) is looked up, `less` is what it lost to rounding, and 1 + q
// = exp(r) for |r| <= ln(2)/16. All of x and of n * ln(2) / 8 that is no smaller than r's last digit goes
// without a rounding.
struct EighthPower {
  Scalar counted, r;
  Scalar times(Scalar q) const {
    const Scalar place = to_bits(counted), step = lookup(place, kExpStepsDouble);
    return scale(step + fma(step, q, lookup(place, kExpStepsDouble + 1)), counted);
  }
};
EighthPower eighth_power(Scalar x0, std::optional<Scalar> low = {}) {
  const Scalar x = limit(x0, -746, 710), counted = fma(x, 8 * kLog2e, kBothExponents);
  const Scalar n = fma(counted, 0.125, -kBothExponents / 8), top = fma(n, -kLn2Top, x);
  return {counted, low ? top + fma(n, -kLn2Rest, *low) : fma(n, -kLn2Rest, top)};
}

// The rules of f32 below use f32 alone, so that a vector holds twice as many and no GPU is slow at it; what
// the last steps lose to rounding is carried along.

// ln(2) to 15 bits, so that its product with n is exact, and the rest.
constexpr double kLn2TopSingle = 0x1.62e4p-1, kLn2RestSingle = 0x1.7f7d1cp-20;

// The factor 2^(n mod 4 / 4) is looked up; `rest` is what the other adds to 1.
SteppedExp with_step(const SplitPower& power, Scalar rest) {
  const Scalar step = lookup(power.place(), kExpSteps);
  return {step, fma(step, rest, lookup(power.place(), kExpSteps + 1)), power};
}

Scalar exponential_f32(Scalar x) {
  const SteppedExp e = stepped_exp(limit(x, -110, 100));
  return scale(e.step + e.rest, e.power);
}

Scalar exp2_f32(Scalar x0) {
  const Scalar x = limit(x0, -152, 130);
  const SplitPower power = split_power(x, 1);
  const Scalar r = x - power.quarters;
  const SteppedExp e = with_step(power, r * polynomial(r, kExp2Step));
  return scale(e.step + e.rest, power);
}

// exp(x) = (1 + reduced + tail) * 2^n.
struct SingleExpParts {
  Scalar reduced, tail;
};
// exp(x - n ln(2)) - 1 where that counts by itself. The square in the tail is exact: twice the tail may be a
// quarter of a result.
SingleExpParts single_expm1_parts(Scalar x, Scalar n) {
  const Sum r = fast_two_sum(fma(n, -kLn2TopSingle, x), n * -kLn2RestSingle);
  const Scalar cubic = polynomial(r.hi, std::span(kExpm1Single).subspan(1));
  return {r.hi, fma(r.hi * 0.5, r.hi, fma(r.hi * r.hi * r.hi, cubic, r.lo))};
}

// With half of 2^n, which stays finite where the result does.
Scalar expm1_f32(Scalar x0) {
  const Scalar x = limit(x0, -20, 89);
  const auto [n, half] = single_power(x, kLog2e, -1);
  const SingleExpParts e = single_expm1_parts(x, n);
  const Scalar less = half - 0.5, lost = (half - less) - 0.5;
  const Sum sum = fast_two_sum(less, half * e.reduced);
  const Scalar r = sum.hi + (fma(half, e.tail, sum.lo) + lost);
  return select(abs(x0) < 0x1p-26, x0, r + r);
}

// e^-|x| and 1 make both sides: 1 / (1 + e) and e / (1 + e).
Scalar logistic_f32(Scalar x) {
  const Scalar a = limit_above(abs(x), 104), negative = x < 0;
  const SteppedExp steps = stepped_exp(-a);
  const SplitPower& power = steps.power;
  const Sum e = fast_two_sum(steps.step, steps.rest);
  const Sum bottom = fast_two_sum(constant(a, 1), scale(e.hi, power));
  const Sum top = select_sum(negative, e, sum_constant(a, 1, 0));
  const Scalar q = single_quotient(top, {bottom.hi, bottom.lo + scale(e.lo, power)}, kInverse);
  return select(negative, scale(q, power), q);
}

Scalar exp2_f64(Scalar x0) {
  const Scalar x = limit(x0, -1100, 1100);
  const Scalar n = round_even(x), f = x - n;
  const Sum p = two_product(f, constant(f, kLn2));
  const ExpParts e = finish_exp(fast_two_sum(p.hi, fma(f, kLn2Low, p.lo)), n);
  return scale_by_power(value(e.sum), n);
}

// tanh(t / 2) is ((1 - u) + q) / ((1 + u) + q), where exp(t) = 2^n (1 + q) and u = 2^-n; from kTanhTop on it
// is 1.
constexpr double kTanhTop = 40;
struct InverseScale {
  Scalar n, u;
};
InverseScale inverse_scale(Scalar twice) {
  const Scalar counted = fma(twice, -kLog2e, kRound + 1023);
  return {(kRound + 1023) - counted, from_biased(to_bits(counted))};
}
// From kTanhFar on 1 -+ u has lost digits, and 1 - 2u / bottom is the better form.
constexpr double kTanhFar = 36;
Scalar tanh_of_half(Scalar twice, bool is_far) {
  const auto [n, u] = inverse_scale(twice);
  const Sum r = without_ln2({twice, constant(twice, 0)}, n), q = fast_two_sum(r.hi, exp_rest(r));
  const Sum bottom = fast_two_sum(1 + u, q.hi);
  const Scalar inverse = 1 / bottom.hi;
  if (is_far) return fma(u * inverse, -2, 1);
  const Sum top = fast_two_sum(1 - u, q.hi);
  const Scalar ratio = top.hi * inverse;
  const Scalar rest = fma(-ratio, bottom.hi, top.hi) + fma(-ratio, bottom.lo + q.lo, top.lo + q.lo);
  return fma(rest, inverse, ratio);
}
Scalar tanh_f64(Scalar x) {
  const Scalar a = abs(x), twice = a + a, far = tanh_of_half(limit_above(twice, kTanhTop), true);
  return with_sign_of(select_rare(twice > kTanhFar, far, tanh_of_half(twice, false)), x);
}
Scalar logistic_f64(Scalar x) {
  const ExpParts e = exp_parts({-abs(x), constant(x, 0)});
  const Scalar one = constant(x, 1), zero = constant(x, 0);
  const Scalar scale = power_of_two(select(e.n < -1000, -1000, e.n));
  const Sum small = scale_sum(e.sum, scale);
  const Sum denominator = add_number(small, one);
  const Scalar negative = x < 0;
  const Scalar q = value(divide_sums(select_sum(negative, e.sum, {one, zero}), denominator));
  return select(negative, scale_by_power(q, e.n), q);
}
// f16 and bf16, in f32.

// In bf16 of half the argument, and squared: so a power of two stays normal where the result does not.
Scalar exp_bf16(Scalar x0) {
  const Scalar x = limit(x0, -94, 90);
  const auto [n, power] = single_power(x, kLog2e / 2);
  const Scalar root = polynomial(fma(n, -2 * kLn2, x), kExpBf16) * power;
  return root * root;
}
Scalar exp_f16(Scalar x0) {
  const Scalar x = limit(x0, -18, 12);
  const auto [n, power] = single_power(x, kLog2e);
  const Scalar e = polynomial(fma(n, -kLn2, x), kExpF16) * power;
  // One result is nearer to the middle of two numbers than f32 can tell.
  return select(x == 0x1.de4p-8, 0x1.01cp+0, e);
}

Scalar exp2_bf16(Scalar x0) {
  const Scalar x = limit(x0, -140, 130);
  const auto [n, power] = single_power(x, 0.5);
  const Scalar root = polynomial(fma(n, -2, x), kExp2Bf16) * power;
  return root * root;
}
Scalar exp2_f16(Scalar x0) {
  const Scalar x = limit(x0, -30, 18);
  const auto [n, power] = single_power(x, 1);
  return select(x == 0x1.714p-11, 0x1.004p+0, polynomial(x - n, kExp2F16) * power);  // as exp_f16
}

// Half of 2^n: so it stays finite where the result does.
Scalar expm1_half(Scalar x0, double low, double high) {
  const Scalar x = limit(x0, low, high);
  const auto [n, half] = single_power(x, kLog2e, -1);
  const Scalar r = fma(n, -kLn2, x);
  const Scalar e = fma(r * polynomial(r, kExpm1Half), half, half - 0.5);
  return with_sign_of(e + e, x0);
}

// e^-|x| and 1 make both sides: 1 / (1 + e) and e / (1 + e). In bf16 the root of e serves, as in exp_bf16.
Scalar logistic_bf16(Scalar x) {
  const Scalar a = limit_above(abs(x), 94);
  const auto [n, power] = single_power(a, -kLog2e / 2);
  const Scalar root = polynomial(fma(n, 2 * kLn2, a), kLogisticBf16) * power;
  const Scalar side = select(x < 0, root, 1);
  return single_inverse(fma(root, root, 1), kInverseShort) * side * side;
}
Scalar logistic_f16(Scalar x) {
  const Scalar a = limit_above(abs(x), 18);
  const auto [n, power] = single_power(a, -kLog2e);
  const Scalar e = polynomial(fma(n, kLn2, a), kLogisticF16) * power;
  return single_inverse(e + 1, kInverse) * select(x < 0, e, 1);
}

// An odd polynomial with its middle between 0 and where the result rounds to 1.
Scalar tanh_bf16(Scalar x) {
  constexpr double kOne = 3.53125;
  const Scalar a = limit_above(abs(x), kOne);
  return with_sign_of(a * polynomial(fma(a, a, -kOne * kOne / 2), kTanhBf16), x);
}
// (1 - e^-2a) / (1 + e^-2a).
Scalar tanh_f16(Scalar x) {
  const Scalar a = limit_above(abs(x), 6);
  const auto [n, power] = single_power(a, -2 * kLog2e);
  const Scalar r = fma(n, kLn2 / 2, a);
  const Scalar top = fma(r * polynomial(r, kTanhF16), power, 1 - power);
  return with_sign_of(top * single_inverse(2 - top, kInverse), x);
}

// exp(x) = 2^n (cosh(r) + sinh(r)), and exp(-x) beside it without a division or lost digits.
struct HyperbolicParts {
  Scalar even, odd, sum, difference;  // cosh(r), sinh(r), (2^n + 2^-n) / 2, (2^n - 2^-n) / 2
};
HyperbolicParts hyperbolic_parts(Scalar a) {
  const Scalar n = round_even(a * kLog2e), r = fma(n, constant(n, -kLn2), a), z = r * r;
  const Scalar up = power_of_two(n - 1), down = power_of_two(-1 - n);
  return {fma(z, polynomial(z, kCoshNarrow), 1), fma(r * z, polynomial(z, kSinhNarrow), r), up + down,
          up - down};
}
Scalar sinh_narrow(Scalar x) {
  const HyperbolicParts p = hyperbolic_parts(limit_above(abs(x), 120));
  return with_sign_of(fma(p.difference, p.even, p.sum * p.odd), x);
}
Scalar cosh_narrow(Scalar x) {
  const HyperbolicParts p = hyperbolic_parts(limit_above(abs(x), 120));
  return fma(p.sum, p.even, p.difference * p.odd);
}

Scalar sinh_f64(Scalar x) {
  const Scalar a = abs(x);
  const Sum e = expm1_sum(limit(a, 0, 40));
  const Scalar small = value(scale_sum(add_sums(e, divide_sums(e, add_number(e, 1))), 0.5));
  const ExpParts large = exp_parts({a, constant(x, 0)});
  return with_sign_of(
      select(a > 30, scale_by_power(value(large.sum), large.n - 1), select(a < 0x1p-28, a, small)), x);
}
Scalar cosh_f64(Scalar x) {
  const Scalar a = abs(x);
  const ExpParts e = exp_parts({a, constant(x, 0)});
  const Sum sum = scale_sum(e.sum, power_of_two(limit(e.n, 0, 60)));
  const Sum inverse = divide_sums({constant(x, 1), constant(x, 0)}, sum);
  const Scalar small = value(scale_sum(add_sums(sum, inverse), 0.5));
  return select(a > 30, scale_by_power(value(e.sum), e.n - 1), small);
}

}  // namespace

Scalar from_biased(Scalar biased) { return bitcast(biased << 52, DType::kF64); }

Scalar power_of_two(Scalar n) {
  // The low bits of 1.5 * 2^52 + (n + 1023) hold the biased exponent.
  const Scalar biased = n + (0x1.8p52 + 1023);
  return bitcast(to_bits(biased) << constant_bits(to_bits(biased), 52), DType::kF64);
}

SplitPower split_power(Scalar x, double per) {
  constexpr double kBoth = 0x1.8p23 + 4 * 254;
  const Scalar counted = fma(x, 4 * per, kBoth);
  return {fma(counted, 0.25, -kBoth / 4), counted};
}

SteppedExp stepped_exp(Scalar x, std::optional<Scalar> low) {
  // ln(2) to 12 bits, so that its product with the quarters is exact, and the rest.
  constexpr double kTop = 0x1.62ep-1, kRest = 0x1.0bfbe8p-15;
  const SplitPower power = split_power(x, kLog2e);
  const Scalar top = fma(power.quarters, -kTop, x);
  const Scalar r = fma(power.quarters, -kRest, low ? top + *low : top);
  return with_step(power, fma(r * r, polynomial(r, kExpStep), r));
}

Piece piece_at(const Pieces& pieces, Scalar a) {
  const Scalar place = to_bits(fma(a, pieces.unit, 1)) >> (23 - pieces.digits);
  const auto row = [&](uint64_t k) { return lookup(place, pieces.first + k); };
  const Scalar center = row(0), t = a - center;
  Scalar slope = row(pieces.tables - 1);
  for (uint64_t k = pieces.tables - 2; k >= 2; --k) slope = fma(slope, t, row(k));
  return {center, row(1), t, slope};
}

Scalar odd_piecewise(const Pieces& pieces, Scalar x) {
  const Scalar a = limit_above(abs(x), pieces.top);
  const Piece p = piece_at(pieces, a);
  const Scalar about_zero = bitcast(p.center, DType::kS32) < 0;
  return with_sign_of(fma(p.t, p.slope, select(about_zero, a, p.value)), x);
}

Scalar scale_by_power(Scalar x, Scalar n) { return scale(x, fma(n, 8, kBothExponents)); }

ExpParts exp_parts(Sum x) {
  const Scalar hi = limit(x.hi, -1100, 1100);
  const Scalar n = round_even(hi * kLog2e);
  const Scalar r = fma(n, constant(n, -kLn2Top), hi);
  return finish_exp(fast_two_sum(r, fma(n, constant(n, -kLn2Rest), x.lo)), n);
}

Sum expm1_sum(Scalar x) {
  const ExpParts e = exp_parts({limit(x, -60, 709.9), constant(x, 0)});
  const Scalar scale = power_of_two(e.n - 1);
  const Sum whole = scale_sum(add_number(scale_sum(e.sum, scale), -0.5), 2.0);
  return select_sum(e.n == 0, fast_two_sum(e.reduced, e.tail), whole);
}

Scalar exp_narrow(Scalar x0) {
  const Scalar x = limit(x0, -120, 120), n = round_even(x * kLog2e), r = fma(n, constant(n, -kLn2), x);
  return (fma(r * r, polynomial(r, kExpNarrow), r) + 1) * power_of_two(n);
}

Scalar exp_of_sum(Sum x) {
  const EighthPower power = eighth_power(x.hi, x.lo);
  const Scalar r = power.r, z = r * r;
  return power.times(fma(z, polynomial_by_halves(r, z, kExpEighth), r));
}

Scalar short_exponential(Scalar x) {
  const EighthPower power = eighth_power(x);
  return power.times(fma(power.r * power.r, polynomial(power.r, kExpEighthShort), power.r));
}

// With half of 2^n, which stays finite where the result does.
Scalar short_exponential_minus_one(Scalar x0) {
  constexpr double kHalf = kRound + 1022;
  const Scalar x = limit(x0, -60, 709.9), counted = fma(x, kLog2e, kHalf);
  const Scalar half = from_biased(to_bits(counted));
  const Scalar r = fma(short_expm1_near(fma(counted - kHalf, -kLn2, x)), half, half - 0.5);
  return select(x0 == 0, x0, r + r);
}

Scalar short_logistic(Scalar x) {
  const Scalar e = short_exponential(-abs(x)), inverse = 1 / (e + 1);
  return select(x < 0, e * inverse, inverse);
}

Scalar exponential(Scalar x) {
  if (is_storage_float(x.type())) return by_half(exp_f16, exp_bf16, x);
  return x.type() == DType::kF32 ? exponential_f32(x) : exp_of_sum({x, constant(x, 0)});
}
Scalar exp2(Scalar x) {
  if (is_storage_float(x.type())) return by_half(exp2_f16, exp2_bf16, x);
  return x.type() == DType::kF32 ? exp2_f32(x) : exp2_f64(x);
}
Scalar exponential_minus_one(Scalar x) {
  if (is_storage_float(x.type()))
    return by_half([](Scalar v) { return expm1_half(v, -20, 13); },
                   [](Scalar v) { return expm1_half(v, -12, 89); }, x);
  return x.type() == DType::kF32 ? expm1_f32(x) : select(x == 0, x, value(expm1_sum(x)));
}
Scalar logistic(Scalar x) {
  if (is_storage_float(x.type())) return by_half(logistic_f16, logistic_bf16, x);
  return x.type() == DType::kF32 ? logistic_f32(x) : logistic_f64(x);
}
Scalar tanh(Scalar x) {
  if (is_storage_float(x.type())) return by_half(tanh_f16, tanh_bf16, x);
  return x.type() == DType::kF32 ? odd_piecewise(kTanhPieces, x) : tanh_f64(x);
}
Scalar sinh(Scalar x) { return by_width(sinh_f64, sinh_narrow, x); }
Scalar cosh(Scalar x) { return by_width(cosh_f64, cosh_narrow, x); }

}  // namespace lamina::hlo::scalar
