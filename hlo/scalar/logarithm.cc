// log and its family: log, log_plus_one, asinh, acosh, atanh, power.
#include <optional>

#include "hlo/scalar/coefficients.h"
#include "hlo/scalar/elementary.h"

namespace lamina::hlo::scalar {
namespace {

using namespace coefficients;

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

// A positive normal v = m * 2^k with 21/32 <= m < 21/16: log(v) = k log(2) - log(c) + log(1 + f), where c is
// looked up and f = m c - 1 is exact, |f| <= 9/128. `base` is the first two: its hi is exact, for the parts
// are multiples of 2^-16 in f32 and of 2^-41 in f64, and it is 0 or greater than f.
struct LogSteps {
  Scalar f;
  Sum base;
};
struct SingleLogSteps : LogSteps {
  Scalar c, power;  // 2^k as a biased exponent in its place
};
// All in f32, so that a vector holds twice as many.
SingleLogSteps log_steps_f32(Scalar v, std::optional<Scalar> more = {}) {
  const Scalar bits = to_bits(v), shifted = bits - 0x3f280000;
  const Scalar power = shifted & constant_bits(bits, 0xff800000u), fraction = bits - power;
  const Scalar counted = convert_to(bitcast(shifted, DType::kS32) >> 23, DType::kF32);
  const Scalar k = more ? counted + *more : counted, place = shifted >> 20;
  const auto at_place = [&](uint64_t row) { return lookup(place, kLogSteps + row); };
  const Scalar c = at_place(0);
  return {{fma(bitcast(fraction, DType::kF32), c, -1),
           {fma(k, 0x1.62e4p-1, at_place(1)), fma(k, 0x1.7f7d1cp-20, at_place(2))}},
          c,
          power};
}
Scalar log_of_steps_f32(const LogSteps& s, std::optional<Scalar> low = {}) {
  const Sum sum = fast_two_sum(s.base.hi, s.f);
  const Scalar rest = s.base.lo + (low ? sum.lo + *low : sum.lo);
  return sum.hi + fma(s.f * s.f, polynomial(s.f, kLogStep), rest);
}

// `exponent_of_one` is kExponentOfOne + n for the logarithm of v 2^-n.
constexpr double kExponentOfOne = 0x1p52 + 1023;

// Where values were `tiny`, and multiplied by 2^54.
Scalar exponent_of_one(Scalar tiny) {
  const Scalar usual = tiny.recorder()->constant(DType::kF64, kExponentOfOne);
  return select(tiny, kExponentOfOne + 54, usual);
}

LogSteps log_steps_f64(Scalar v, ScalarOrNumber exponent_of_one) {
  const Scalar bits = to_bits(v),
               shifted = bits + constant_bits(bits, 0x3ff0000000000000u - 0x3fe5000000000000u);
  const Scalar exponent = bitcast((shifted >> 52) | constant_bits(bits, 0x4330000000000000u), DType::kF64);
  const Scalar fraction = shifted & constant_bits(bits, 0x000fffffffffffffu);
  const Scalar m = bitcast(fraction + constant_bits(bits, 0x3fe5000000000000u), DType::kF64);
  const Scalar k = exponent - exponent_of_one.as(v), place = shifted >> 49;
  const auto at_place = [&](uint64_t row) { return lookup(place, kLogStepsDouble + row); };
  return {fma(m, at_place(0), -1.0), {fma(k, kLn2Top, at_place(1)), fma(k, kLn2Rest, at_place(2))}};
}
// log(1 + f) = f - f^2/2 + f^3 (1/3 - ...): only the first two terms need more digits.
Scalar log_of_steps_f64(const LogSteps& s) {
  const Scalar square = s.f * s.f, bent = fma(square, -0.5, s.f), bent_low = fma(square, -0.5, s.f - bent);
  const Sum sum = fast_two_sum(s.base.hi, bent);
  return sum.hi + fma(square * s.f, polynomial(s.f, kLogCubicDouble), (sum.lo + s.base.lo) + bent_low);
}

// Bits whose sign tells whether x is below `least` or no less than `end`; both are positive. So one sign asks
// for several bounds at once, where comparisons would go through masks.
Scalar outside(Scalar x, double least, double end) {
  const Scalar bits = to_bits(x);
  return (bits - to_bits(constant(x, least))) | (to_bits(constant(x, end)) - 1 - bits);
}
Scalar has_sign(Scalar bits) { return (bits & sign_mask(bits)) != 0; }
constexpr double kInfinity = std::numeric_limits<double>::infinity();

Scalar log_f64(Scalar x) {
  const Scalar tiny = x < 0x1p-1022;
  const Scalar any = log_of_steps_f64(log_steps_f64(select(tiny, x * 0x1p54, x), exponent_of_one(tiny)));
  return select_rare(has_sign(outside(x, 0x1p-1022, kInfinity)), with_log_specials(x, any),
                     log_of_steps_f64(log_steps_f64(x, kExponentOfOne)));
}

Scalar log_f32(Scalar x) {
  const Scalar tiny = x < 0x1p-126;
  const Scalar any =
      log_of_steps_f32(log_steps_f32(select(tiny, x * 0x1p23, x), select(tiny, -23, constant(x, 0))));
  return select_rare(has_sign(outside(x, 0x1p-126, kInfinity)), with_log_specials(x, any),
                     log_of_steps_f32(log_steps_f32(x)));
}

Scalar log1p_f32(Scalar x) {
  const Sum v = two_sum(constant(x, 1), x);
  const SingleLogSteps s = log_steps_f32(v.hi);
  const Scalar inverse = bitcast(to_bits(constant(x, 1)) - s.power, DType::kF32);
  const Scalar lost = v.lo * (inverse * s.c);  // of f, so that of the logarithm it is lost / (1 + f), about
  const Scalar usual = select(x == 0, x, log_of_steps_f32(s, fma(-lost, s.f, lost)));
  return select_rare(has_sign(outside(v.hi, 0x1p-126, 0x1p126)), with_log_specials(v.hi, log_of_steps_f32(s)),
                     usual);
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

// log(1 + x) for a positive normal v = 1 + x. Below 1/4 the fraction is x itself; above, v loses nothing that
// f32 could show.
Scalar usual_log1p_narrow(Scalar x, Scalar v) {
  const Split p = split(v);
  const Scalar near = abs(x) < 0.25;
  return select(x == 0, x, narrow_log1p_of(select(near, x, p.m - 1), select(near, 0, p.k)));
}

// f16 and bf16, in f32: v = (1 + f) * 2^k, sqrt(1/2) <= 1 + f < sqrt(2), k in the exponent's place.
struct HalfSplit {
  Scalar f, exponent;
};
HalfSplit half_split(Scalar v) {
  const Scalar bits = to_bits(v);
  const Scalar exponent = (bits - 0x3f3504f3) & constant_bits(bits, 0xff800000u);
  return {bitcast(bits - exponent, DType::kF32) - 1, bitcast(exponent, DType::kS32)};
}
Scalar half_log_of(Scalar f, Scalar exponent, std::span<const double> c) {
  return fma(convert_to(exponent, DType::kF32), kLn2 * 0x1p-23, f * polynomial(f, c));
}
Scalar log_f16(Scalar x) {
  const auto [f, exponent] = half_split(x);
  return with_log_specials(x, half_log_of(f, exponent, kLogF16));
}
Scalar log_bf16(Scalar x) {
  const Scalar tiny = x < 0x1p-126;
  const auto [f, exponent] = half_split(select(tiny, x * 0x1p64, x));
  const Scalar shifted = exponent - select(tiny, 64 << 23, constant(exponent, 0));
  return with_log_specials(x, half_log_of(f, shifted, kLogBf16));
}
Scalar log1p_bf16(Scalar x) {
  const Scalar v = x + 1, near = abs(x) < 0.25;  // as log1p_narrow
  const auto [f, exponent] = half_split(v);
  const Scalar r = half_log_of(select(near, x, f), select(near, 0, exponent), kLogBf16);
  return select(x == 0, x, with_log_specials(v, r));
}

Scalar asinh_narrow(Scalar x) {
  const Scalar a = limit_above(abs(x), 0x1p128), square = a * a;
  const Scalar r = log1p_narrow(a + square / (sqrt(square + 1) + 1));
  return with_sign_of(select(abs(x) < infinity_like(x), r, abs(x)), x);
}
Scalar acosh_narrow(Scalar x) {
  const Scalar t = x - 1;
  return select(x < 1, nan_like(x), log1p_narrow(t + sqrt(t * (t + 2))));
}
Scalar atanh_narrow(Scalar x) {
  const Scalar a = abs(x), r = log1p_narrow((a + a) / (1 - a)) * 0.5;
  return with_sign_of(select(a > 1, nan_like(x), r), x);
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

// To about 2^-67; v and exponent_of_one as in log_steps_f64.
Sum log_sum_precise(Scalar v, ScalarOrNumber exponent_of_one) {
  const LogSteps steps = log_steps_f64(v, exponent_of_one);
  const Scalar f = steps.f;
  const Sum two = fast_two_sum(constant(f, 2), f);
  const Scalar inverse = 1 / two.hi, s = f * inverse, twice = s + s;
  const Scalar s_low = fma(-s, two.lo, fma(-s, two.hi, f)) * inverse;
  const Scalar z = s * s, z_low = fma(twice, s_low, fma(s, s, -z));
  // The logarithm of 1 + f is 2s + s (c z), c = 2/3 + 2/5 z + ...
  const Scalar tail = polynomial(z, kLogNearTail), c = fma(z, tail, 0x1.5555555555555p-1);
  const Scalar c_low = fma(z, tail, 0x1.5555555555555p-1 - c) + 0x1.5555555555555p-55;
  const Scalar t = z * c, t_low = fma(z_low, c, fma(z, c_low, fma(z, c, -t)));
  const Scalar v3 = s * t, v3_low = fma(s_low, t, fma(s, t_low, fma(s, t, -v3)));
  const Sum log = fast_two_sum(twice, v3), sum = fast_two_sum(steps.base.hi, log.hi);
  return fast_two_sum(sum.hi, sum.lo + ((fma(s_low, 2, v3_low) + log.lo) + steps.base.lo));
}

// |y| beyond this gives the same overflow, underflow or 1, and within it y log(x) stays finite.
constexpr double kPowTop = 0x1p66;

// v^y for a positive normal v and |y| <= kPowTop; exponent_of_one as in log_steps_f64.
Scalar pow_of_normal(Scalar v, ScalarOrNumber exponent_of_one, Scalar y) {
  const Sum log = log_sum_precise(v, exponent_of_one), p = two_product(log.hi, y);
  return exp_of_sum({p.hi, select(abs(p.hi) < 1100, fma(log.lo, y, p.lo), constant(v, 0))});
}

// Most powers have a positive base that is no less than `least` and a moderate exponent, or are those of 0
// that are 0: `usual` is for them, `any` for all. The bits of floats are in the order of their sizes, so that
// one sign tells whether some bound is passed, where several comparisons would go through masks.
Scalar with_usual_pow(Scalar x, Scalar y, double least, Scalar usual, Scalar any) {
  const Scalar of_x = to_bits(x), of_y = to_bits(y), zero = of_x == 0;
  const Scalar not_above_zero = (of_y - 1) | of_y;
  const Scalar too_large = to_bits(constant(y, kPowTop)) - to_bits(abs(y));
  const Scalar rare = select(zero, not_above_zero, outside(x, least, kInfinity)) | too_large;
  return select_rare(has_sign(rare), any, select(zero, 0, usual));
}

Scalar pow_f64(Scalar x, Scalar y) {
  const Scalar a = abs(x), tiny = a < 0x1p-1022, usable = (a > 0) & (a < infinity_like(a));
  const Scalar v = select(usable, select(tiny, a * 0x1p54, a), constant(a, 1));
  const Scalar size = pow_of_normal(v, exponent_of_one(usable & tiny), limit(y, -kPowTop, kPowTop));
  const Scalar usual = pow_of_normal(x, kExponentOfOne, y);
  return with_usual_pow(x, y, 0x1p-1022, usual, with_pow_specials(x, y, size));
}

// v^y for a positive v that is normal in f64.
Scalar pow_of_narrow(Scalar v, Scalar y) {
  const Split s = split(v);
  const Scalar p = exp_narrow(narrow_log1p_of(s.m - 1, s.k) * y);
  // Powers of short numbers often lie halfway between two results. Rounded to 41 digits first (T. Dekker's
  // split) they do so exactly, freed of the errors above.
  const Scalar c = p * 0x1.001p12;
  return c - (c - p);
}
Scalar pow_narrow(Scalar x, Scalar y) {
  const Scalar a = abs(x), usable = (a > 0) & (a < infinity_like(a));
  const Scalar v = select(usable, a, constant(a, 1));
  return with_pow_specials(x, y, pow_of_narrow(v, limit(y, -kPowTop, kPowTop)));
}
// v^y for a positive normal v, all in f32: the logarithm to 2^-33, its product with y as a sum.
Scalar pow_of_normal_f32(Scalar v, Scalar y) {
  const LogSteps s = log_steps_f32(v);
  const Sum square = two_product(s.f, s.f);
  const Sum linear = fast_two_sum(s.base.hi, s.f), log = fast_two_sum(linear.hi, -0.5 * square.hi);
  const Scalar cubic = square.hi * s.f;
  const Scalar low = fma(cubic, polynomial(s.f, kLogCubic), fma(square.lo, -0.5, s.base.lo));
  const Sum whole = fast_two_sum(log.hi, linear.lo + (log.lo + low));
  const Sum p = two_product(whole.hi, y);
  const Scalar limited = limit(p.hi, -110, 100);
  const Scalar rest = select(limited == p.hi, fma(whole.lo, y, p.lo), constant(v, 0));
  const SteppedExp e = stepped_exp(limited, rest);
  return scale(e.step + e.rest, e.power);
}
Scalar pow_f32(Scalar x, Scalar y) {
  return with_usual_pow(x, y, 0x1p-126, pow_of_normal_f32(x, y), via_f64(pow_narrow, x, y));
}

Scalar pow_integer(Scalar x, Scalar y) {
  // Larger exponents overflow unless |x| is 0 or 1.
  constexpr int kUsualBits = 6;
  const int bits = bit_width(x.type());
  Scalar result = constant(x, 1), base = x, usual = result;
  for (int i = 0; i < bits; ++i) {
    const Scalar bit = (y >> i) & 1;
    result = select(bit != 0, result * base, result);
    if (i + 1 == kUsualBits) usual = result;
    if (i + 1 < bits) base = base * base;
  }
  if (!is_unsigned(x.type())) {
    // A negative exponent gives 1 / x^n truncated: 0 unless |x| is 1, where the sign of n does not matter.
    const Scalar unit = (x == 1) | (x == -1);
    result = select((y < 0) & ~unit, 0, result);
  }
  return bits > kUsualBits ? select_rare((y >> kUsualBits) != 0, result, usual) : result;
}

}  // namespace

Sum log_sum(Sum v, ScalarOrNumber more) {
  const Split p = split(v.hi);
  const Scalar low = v.lo * power_of_two(limit(-p.k, -1022, 1022));
  const Sum s = half_ratio(two_sum(p.m - 1, low));
  const Scalar z = s.hi * s.hi;
  return add_exponent(p.k + more.as(p.k), s.hi + s.hi, fma(s.hi * z, polynomial(z, kLog), s.lo + s.lo));
}

Sum log1p_sum(Sum w) {
  const Sum v = two_sum(constant(w.hi, 1), w.hi);
  return log_sum(fast_two_sum(v.hi, v.lo + w.lo));
}

Scalar log_narrow(Scalar x) {
  const Split p = split(x);
  return narrow_log1p_of(p.m - 1, p.k);
}

Scalar log1p_narrow(Scalar x) {
  const Scalar v = x + 1;
  return with_log_specials(v, usual_log1p_narrow(x, v));
}

Scalar short_log(Scalar x) {
  const Scalar tiny = x < 0x1p-1022, zero = constant(x, 0);
  const Scalar any = log_narrow(select(tiny, x * 0x1p54, x)) - select(tiny, 54 * kLn2, zero);
  return select_rare(has_sign(outside(x, 0x1p-1022, kInfinity)), with_log_specials(x, any), log_narrow(x));
}

Scalar short_log_plus_one(Scalar x) {
  const Scalar v = x + 1, usual = usual_log1p_narrow(x, v);
  return select_rare(has_sign(outside(v, 0x1p-1022, kInfinity)), with_log_specials(v, usual), usual);
}

Scalar short_power(Scalar x, Scalar y) {
  const Split s = split(x);
  const Scalar usual = short_exponential(narrow_log1p_of(s.m - 1, s.k) * y);
  return with_usual_pow(x, y, 0x1p-1022, usual, pow_f64(x, y));
}

Scalar log(Scalar x) {
  if (is_storage_float(x.type())) return by_half(log_f16, log_bf16, x);
  return x.type() == DType::kF32 ? log_f32(x) : log_f64(x);
}
Scalar log_plus_one(Scalar x) {
  if (x.type() == DType::kBF16) return with_f32_arithmetic(log1p_bf16, x);
  if (x.type() == DType::kF32) return log1p_f32(x);
  return by_width(log1p_f64, log1p_narrow, x);
}
Scalar asinh(Scalar x) { return by_width(asinh_f64, asinh_narrow, x); }
Scalar acosh(Scalar x) { return by_width(acosh_f64, acosh_narrow, x); }
Scalar atanh(Scalar x) { return by_width(atanh_f64, atanh_narrow, x); }

Scalar power_of_others(Scalar x, Scalar y) {
  if (is_bool(x.type())) return x | ~y;
  if (!is_float(x.type())) return pow_integer(x, y);
  if (x.type() == DType::kF32) return pow_f32(x, y);
  return x.type() == DType::kF64 ? pow_f64(x, y) : via_f64(pow_narrow, x, y);
}

Scalar power(Scalar x, Scalar y) {
  const Scalar any = power_of_others(x, y);
  if (x.type() != DType::kF32 && x.type() != DType::kF64) return any;
  return select_rare(is_half_power(y), half_power(x, y, any), any);
}

}  // namespace lamina::hlo::scalar
