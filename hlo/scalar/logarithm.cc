// log and its family: log, log_plus_one, asinh, acosh, atanh, power.
#include "hlo/scalar/coefficients.h"
#include "hlo/scalar/elementary.h"

namespace lamina::hlo::scalar {
namespace {

using namespace coefficients;

constexpr double kLn2Top = 0x1.62e42fefa3000p-1, kLn2Rest = 0x1.3de6af278ece6p-42;
constexpr uint64_t kSqrtHalfBits = 0x3fe6a09e667f3bcd;

// v = m * 2^k with m in [sqrt(1/2), sqrt(2)); v positive and normal.
struct Split {
  Scalar m, k;
};
Split split(Scalar v) {
  const Scalar bits = to_bits(v);
  const Scalar shifted = bits + constant_bits(bits, 0x3ff0000000000000u - kSqrtHalfBits);
  const Scalar fraction = shifted & constant_bits(bits, 0x000fffffffffffffu);
  const Scalar exponent = bitcast((shifted >> 52) | constant_bits(bits, 0x4330000000000000u), DType::kF64);
  return {bitcast(fraction + constant_bits(bits, kSqrtHalfBits), DType::kF64), exponent - (0x1p52 + 1023)};
}

// s = f / (2 + f), so that log(1 + f) = log((1 + s) / (1 - s)).
Sum half_ratio(Sum f) {
  const Sum two = fast_two_sum(constant(f.hi, 2), f.hi);
  return divide_sums(f, fast_two_sum(two.hi, two.lo + f.lo));
}

// k * log(2) + big + rest, |big| < |k * log(2)| unless k == 0.
Sum add_exponent(Scalar k, Scalar big, Scalar rest) {
  const Sum s = fast_two_sum(k * kLn2Top, big);
  return fast_two_sum(s.hi, s.lo + fma(k, kLn2Rest, rest));
}

// Special values of a logarithm of x: `result` holds for positive finite x.
Scalar with_log_specials(Scalar x, Scalar result) {
  const Scalar inf = infinity_like(x);
  const Scalar upper = select(x == inf, x, result);
  return select(x > 0, upper, select(x == 0, -inf, nan_like(x)));
}

Scalar log_f64(Scalar x) {
  const Scalar tiny = x < 0x1p-1022;
  const Sum r = log_sum({select(tiny, x * 0x1p54, x), constant(x, 0)}, select(tiny, -54, constant(x, 0)));
  return with_log_specials(x, value(r));
}

// All in f32, so that a vector holds twice as many; log(1+f) = f - f^2/2 + f^3 Q(f), the first terms
// compensated.
Scalar log_f32(Scalar x) {
  const Scalar tiny = x < 0x1p-126;
  const Scalar bits = to_bits(select(tiny, x * 0x1p23, x));
  const Scalar shifted = bits + constant_bits(bits, 0x3f800000u - 0x3f3504f3u);
  const Scalar m =
      bitcast((shifted & constant_bits(bits, 0x007fffffu)) + constant_bits(bits, 0x3f3504f3u), DType::kF32);
  const Scalar exponent = convert_to(bitcast(shifted >> 23, DType::kS32), DType::kF32);
  const Scalar k = exponent - select(tiny, 127 + 23, constant(x, 127));
  const Scalar f = m - 1;
  const Sum square = two_product(f, f);
  const Sum bent = fast_two_sum(f, -0.5 * square.hi);
  const Scalar cubic = fma(square.hi * f, polynomial(f, kLogSingle), bent.lo);
  const Scalar rest = fma(square.lo, -0.5, fma(k, 0x1.7f7d1cp-20, cubic));
  const Sum sum = fast_two_sum(k * 0x1.62e4p-1, bent.hi);
  return with_log_specials(x, sum.hi + (sum.lo + rest));
}

Scalar log1p_f64(Scalar x) {
  const Sum v = two_sum(constant(x, 1), x);
  const Scalar r = value(log_sum(v));
  const Scalar finite = select(abs(x) < 0x1p-54, x, r);
  return select(x == 0, x, with_log_specials(select(x == infinity_like(x), x, 1 + x), finite));
}

Scalar narrow_log1p_of(Scalar f, Scalar k) {
  const Scalar s = f / (f + 2), z = s * s;
  return fma(k, kLn2, fma(s * z, polynomial(z, kLogNarrow), s + s));
}

Scalar asinh_f64(Scalar x) {
  const Scalar a = abs(x), b = limit(a, 0x1p-28, 0x1p28);
  const Sum square = two_product(b, b);
  const Sum root = sqrt_sum(add_number(square, 1));
  const Sum w = add_number(divide_sums(square, add_number(root, 1)), b);
  const Scalar large = value(log_sum({select(a < 1, 1, a), constant(x, 0)}, 1.0));
  const Scalar r = select(a < 0x1p-28, a, select(a > 0x1p28, large, value(log1p_sum(w))));
  return with_sign_of(select(a < infinity_like(a), r, a), x);
}

Scalar acosh_f64(Scalar x) {
  const Scalar t = limit(x, 1, 0x1p28) - 1;
  const Sum sum = two_sum(constant(t, 2), t);
  const Sum root = sqrt_sum(multiply_sums({t, constant(t, 0)}, sum));
  const Scalar r = value(log1p_sum(add_number(root, t)));
  const Scalar large = value(log_sum({select(x > 1, x, constant(x, 1)), constant(x, 0)}, 1.0));
  const Scalar at_one = select(x == 1, 0, select(x < infinity_like(x), select(x > 0x1p28, large, r), x));
  return select(x < 1, nan_like(x), at_one);
}

Scalar atanh_f64(Scalar x) {
  const Scalar a = abs(x), b = limit(a, 0x1p-28, 0x1.fffffffffffffp-1);
  const Sum w = divide_sums({2 * b, constant(x, 0)}, fast_two_sum(constant(b, 1), -b));
  const Scalar r = select(a < 0x1p-28, a, 0.5 * value(log1p_sum(w)));
  const Scalar edge = select(a == 1, infinity_like(x), select(a > 1, nan_like(x), r));
  return with_sign_of(select(is_nan(x), x, edge), x);
}

// IEEE 754 special cases of pow around `magnitude` = |x|^y.
Scalar with_pow_specials(Scalar x, Scalar y, Scalar magnitude) {
  const Scalar inf = infinity_like(x), a = abs(x), one = constant(x, 1), zero = constant(x, 0);
  const Scalar integral = trunc(y) == y;
  const Scalar half = y * 0.5;
  const Scalar odd = integral & (trunc(half) != half) & (abs(y) < inf);
  const Scalar negative_exponent = y < 0;
  Scalar r = magnitude;
  r = select(a == 0, select(negative_exponent, inf, zero), r);
  r = select(a == inf, select(negative_exponent, zero, inf), r);
  // y infinite: by whether |x| is below, at or above 1.
  r = select(abs(y) == inf, select(a == 1, one, select((a < 1) ^ negative_exponent, zero, inf)), r);
  const Scalar negative = (to_bits(x) & sign_mask(to_bits(x))) != constant_bits(to_bits(x), 0);
  r = select(negative & odd, -r, r);
  r = select((x < 0) & (a < inf) & ~integral, nan_like(x), r);
  r = select(is_nan(x) | is_nan(y), nan_like(x), r);
  return select((x == 1) | (y == 0), one, r);
}

Scalar pow_f64(Scalar x, Scalar y0) {
  const Scalar a = abs(x), tiny = a < 0x1p-1022, usable = (a > 0) & (a < infinity_like(a));
  const Scalar v = select(usable, select(tiny, a * 0x1p54, a), constant(a, 1));
  const Sum log = log_sum_precise(v, select(tiny, -54, constant(a, 0)));
  // |y| beyond 2^64 gives the same overflow, underflow or 1, and its product stays finite.
  const Scalar y = limit(y0, -0x1p66, 0x1p66);
  const Sum p = two_product(log.hi, y);
  const ExpParts e = exp_parts({p.hi, select(abs(p.hi) < 1100, fma(log.lo, y, p.lo), constant(a, 0))});
  return with_pow_specials(x, y0, scale_by_power(value(e.sum), e.n));
}

Scalar pow_narrow(Scalar x, Scalar y) {
  const Scalar p = exp_narrow(log_narrow(abs(x)) * limit(y, -0x1p66, 0x1p66));
  // Powers of short numbers often lie halfway between two results. Rounded to 41 digits first (T. Dekker's
  // split) they do so exactly, freed of the errors above.
  const Scalar c = p * 0x1.001p12;
  return with_pow_specials(x, y, select(p < 0x1p900, c - (c - p), p));
}

Scalar pow_integer(Scalar x, Scalar y) {
  // A negative exponent gives 1 / x^n truncated: 0 unless |x| is 1, where the sign of n does not matter.
  const int bits = bit_width(x.type());
  Scalar result = constant(x, 1), base = x;
  for (int i = 0; i < bits; ++i) {
    const Scalar bit = (y >> i) & 1;
    result = select(bit != 0, result * base, result);
    if (i + 1 < bits) base = base * base;
  }
  if (is_unsigned(x.type())) return result;
  const Scalar unit = (x == 1) | (x == -1);
  return select((y < 0) & ~unit, 0, result);
}

}  // namespace

Sum log_sum(Sum v, ScalarOrNumber more) {
  const Split p = split(v.hi);
  const Scalar low = v.lo * power_of_two(limit(-p.k, -1022, 1022));
  const Sum s = half_ratio(two_sum(p.m - 1, low));
  const Scalar z = s.hi * s.hi;
  return add_exponent(p.k + more.as(p.k), s.hi + s.hi, fma(s.hi * z, polynomial(z, kLog), s.lo + s.lo));
}

Sum log_sum_precise(Scalar v, ScalarOrNumber more) {
  const Split p = split(v);
  const Sum s = half_ratio({p.m - 1, constant(v, 0)});
  const Sum z = multiply_sums(s, s);
  // 2/3 + 2/5 z as a sum; the terms from z^2 on in f64.
  Sum c = multiply_sums(z, sum_constant(v, 0x1.999999999999ap-2, -0x1.999999999999ap-56));
  c = add_sums(sum_constant(v, 0x1.5555555555555p-1, 0x1.5555555555555p-55), c);
  c = add_number(c, z.hi * z.hi * polynomial(z.hi, kLogTail));
  const Sum tail = multiply_sums(multiply_sums(s, z), c);
  const Sum log = add_sums({s.hi + s.hi, s.lo + s.lo}, tail);
  const Scalar k = p.k + more.as(p.k);
  const Sum exponent = fast_two_sum(k * kLn2Top, constant(k, 0));
  const Sum rest = two_product(k, constant(k, kLn2Rest));
  const Sum low = {rest.hi, fma(k, constant(k, 0x1.f97b57a079a19p-103), rest.lo)};
  return add_sums(add_sums(exponent, low), log);
}

Sum log1p_sum(Sum w) {
  const Sum v = two_sum(constant(w.hi, 1), w.hi);
  return log_sum(fast_two_sum(v.hi, v.lo + w.lo));
}

Scalar log_narrow(Scalar x) {
  const Split p = split(x);
  return with_log_specials(x, narrow_log1p_of(p.m - 1, p.k));
}

Scalar log1p_narrow(Scalar x) {
  // Below 1/4 the fraction is x itself; above, 1 + x loses nothing that f32 could show.
  const Scalar v = x + 1;
  const Split p = split(v);
  const Scalar near = abs(x) < 0.25;
  const Scalar r = narrow_log1p_of(select(near, x, p.m - 1), select(near, 0, p.k));
  return select(x == 0, x, with_log_specials(v, r));
}

Scalar log(Scalar x) { return x.type() == DType::kF32 ? log_f32(x) : by_width(log_f64, log_narrow, x); }
Scalar log_plus_one(Scalar x) { return by_width(log1p_f64, log1p_narrow, x); }
Scalar asinh(Scalar x) { return via_f64(asinh_f64, x); }
Scalar acosh(Scalar x) { return via_f64(acosh_f64, x); }
Scalar atanh(Scalar x) { return via_f64(atanh_f64, x); }

Scalar power(Scalar x, Scalar y) {
  if (is_bool(x.type())) return x | ~y;
  if (!is_float(x.type())) return pow_integer(x, y);
  return x.type() == DType::kF64 ? pow_f64(x, y) : via_f64(pow_narrow, x, y);
}

}  // namespace lamina::hlo::scalar
