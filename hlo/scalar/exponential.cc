// exp and its family: exponential, exp2, exponential_minus_one, logistic, tanh, sinh, cosh.
#include "hlo/scalar/coefficients.h"
#include "hlo/scalar/elementary.h"

namespace lamina::hlo::scalar {
namespace {

using namespace coefficients;

// ln(2) to 41 bits, so that n * kLn2Top is exact, and the rest.
constexpr double kLn2Top = 0x1.62e42fefa3000p-1, kLn2Rest = 0x1.3de6af278ece6p-42;

// exp(r) for |r| <= ln(2)/2 as a sum; n is left for the caller.
ExpParts finish_exp(Sum r, Scalar n) {
  const Scalar tail = fma(r.hi * r.hi, polynomial(r.hi, kExp), fma(r.hi, r.lo, r.lo));
  const Sum one = fast_two_sum(constant(n, 1), r.hi);
  return {fast_two_sum(one.hi, one.lo + tail), n, r.hi, tail};
}

struct NarrowParts {
  Scalar n, expm1;  // exp(x) = (1 + expm1) * 2^n
};
NarrowParts narrow_parts(Scalar x) {
  const Scalar n = round_even(x * kLog2e);
  const Scalar r = fma(n, constant(n, -kLn2), x);
  return {n, fma(r * r, polynomial(r, kExpNarrow), r)};
}

// x * 2^n for an integral n, -200 <= n <= 200, and |x| near 1, so that only the second of the two products
// rounds.
Scalar scale_by_power_f32(Scalar x, Scalar n) {
  // The low bits of 1.5 * 2^23 + (n + 254) hold the sum of two biased exponents.
  const Scalar both = to_bits(n + (0x1.8p23 + 254));
  const auto power = [&](Scalar exponent) { return bitcast(exponent << 23, DType::kF32); };
  return x * power(both >> 1) * power((both + 1) >> 1);
}

// ln(2) to 15 bits, so that its product with n is exact, and the rest.
constexpr double kLn2TopSingle = 0x1.62e4p-1, kLn2RestSingle = 0x1.7f7d1cp-20;

// `low`: what is to be added to x - n ln(2) as `kLn2TopSingle` has it.
SingleExpParts single_exp_parts_of(Scalar x, Scalar n, Scalar low) {
  const Sum r = fast_two_sum(fma(n, -kLn2TopSingle, x), low);
  return {n, r.hi, fma(r.hi * r.hi, polynomial(r.hi, kExpSingle), r.lo)};
}

// All in f32, so that a vector holds twice as many; the last sum is compensated.
Scalar exponential_f32(Scalar x0) {
  const Scalar x = limit(x0, -110, 100);
  const Scalar n = round_even(x * kLog2e);
  const SingleExpParts e = single_exp_parts_of(x, n, n * -kLn2RestSingle);
  const Sum one = fast_two_sum(constant(x, 1), e.reduced);
  return scale_by_power_f32(one.hi + (one.lo + e.tail), n);
}

Scalar exp2_f64(Scalar x0) {
  const Scalar x = limit(x0, -1100, 1100);
  const Scalar n = round_even(x), f = x - n;
  const Sum p = two_product(f, constant(f, kLn2));
  const ExpParts e = finish_exp(fast_two_sum(p.hi, fma(f, kLn2Low, p.lo)), n);
  return scale_by_power(value(e.sum), n);
}

Scalar exp2_narrow(Scalar x0) {
  const Scalar x = limit(x0, -160, 160);
  const Scalar n = round_even(x), r = (x - n) * kLn2;
  return fma(r * r, polynomial(r, kExpNarrow), r + 1) * power_of_two(n);
}

Scalar tanh_f64(Scalar x) {
  const Sum e = expm1_sum(limit(2 * abs(x), 0, 60));
  return with_sign_of(value(divide_sums(e, add_number(e, 2))), x);
}
Scalar tanh_narrow(Scalar x) {
  const Scalar e = expm1_narrow(limit(2 * abs(x), 0, 60));
  return with_sign_of(e / (e + 2), x);
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
Scalar logistic_narrow(Scalar x) {
  const Scalar e = exp_narrow(-abs(x));
  return select(x < 0, e, constant(x, 1)) / (e + 1);
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

Scalar power_of_two(Scalar n) {
  // The low bits of 1.5 * 2^52 + (n + 1023) hold the biased exponent.
  const Scalar biased = n + (0x1.8p52 + 1023);
  return bitcast(to_bits(biased) << constant_bits(to_bits(biased), 52), DType::kF64);
}

Scalar single_power_of_two(Scalar n) {
  // The low bits of 1.5 * 2^23 + (n + 127) hold the biased exponent.
  return bitcast(to_bits(n + (0x1.8p23 + 127)) << 23, DType::kF32);
}

SingleExpParts single_exp_parts(Sum x) {
  const Scalar n = round_even(x.hi * kLog2e);
  return single_exp_parts_of(x.hi, n, fma(n, -kLn2RestSingle, x.lo));
}

Scalar scale_by_power(Scalar x, Scalar n) {
  const Scalar first = round_even(n * 0.5);
  return x * power_of_two(first) * power_of_two(n - first);
}

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
  const NarrowParts p = narrow_parts(limit(x0, -120, 120));
  return (p.expm1 + 1) * power_of_two(p.n);
}

Scalar expm1_narrow(Scalar x0) {
  const NarrowParts p = narrow_parts(limit(x0, -120, 120));
  const Scalar scale = power_of_two(p.n);
  return fma(p.expm1, scale, scale - 1);
}

Scalar exponential(Scalar x) {
  if (x.type() == DType::kF32) return exponential_f32(x);
  return by_width(
      [](Scalar v) {
        const ExpParts e = exp_parts({v, constant(v, 0)});
        return scale_by_power(value(e.sum), e.n);
      },
      exp_narrow, x);
}

Scalar exp2(Scalar x) { return by_width(exp2_f64, exp2_narrow, x); }

Scalar exponential_minus_one(Scalar x) {
  return by_width([](Scalar v) { return select(v == 0, v, value(expm1_sum(v))); },
                  [](Scalar v) { return select(v == 0, v, expm1_narrow(v)); }, x);
}

Scalar logistic(Scalar x) { return by_width(logistic_f64, logistic_narrow, x); }
Scalar tanh(Scalar x) { return by_width(tanh_f64, tanh_narrow, x); }
Scalar sinh(Scalar x) { return via_f64(sinh_f64, x); }
Scalar cosh(Scalar x) { return via_f64(cosh_f64, x); }

}  // namespace lamina::hlo::scalar
