#include "hlo/scalar/rules.h"

#include <limits>

#include "hlo/scalar/math.h"
#include "hlo/scalar/ops.h"

namespace lamina::hlo {
namespace scalar {
namespace {

constexpr double kInf = std::numeric_limits<double>::infinity();
using Args = std::span<const RuleArg>;

RuleArg of(Scalar x) { return {x.type(), x, {}}; }

// Applies `f` to real operands; halves compute in f32 and round once.
template <typename F>
RuleArg in_f32(Args args, DType result, F f) {
  std::vector<Scalar> x;
  for (const RuleArg& a : args) x.push_back(is_half(a.dtype) ? convert_to(DType::kF32, a.re) : a.re);
  return of(convert_to(result, f(x)));
}

// Applies `f` to operands widened to f64 and rounds its result once.
template <typename F>
RuleArg in_f64(Args args, DType result, F f) {
  std::vector<Scalar> x;
  for (const RuleArg& a : args) x.push_back(convert_to(DType::kF64, a.re));
  return of(convert_to(result, f(x, args[0].dtype == DType::kF64)));
}

// Complex numbers compute in f64 parts when they are c64, so that each part is rounded once.
struct Complex {
  Scalar re, im;
};
Complex wide(const RuleArg& a) { return {convert_to(DType::kF64, a.re), convert_to(DType::kF64, a.im)}; }
RuleArg narrow(Complex z, DType dtype) {
  const DType part = part_type(dtype);
  return {dtype, convert_to(part, z.re), convert_to(part, z.im)};
}

Complex mul(Complex a, Complex b) { return {a.re * b.re - a.im * b.im, a.re * b.im + a.im * b.re}; }

// Smith, "Algorithm 116: complex division", CACM 5 (1962).
Complex div(Complex a, Complex b) {
  const Scalar swap = magnitude(b.re) < magnitude(b.im);
  const Scalar big = choose(swap, b.im, b.re), small = choose(swap, b.re, b.im);
  const Scalar r = small / big, d = fma(small, r, big);
  const Scalar re = choose(swap, fma(a.re, r, a.im), fma(a.im, r, a.re)) / d;
  const Scalar im = choose(swap, fma(a.im, r, -a.re), fma(-a.re, r, a.im)) / d;
  return {re, im};
}

Scalar hypotenuse(Complex z) {
  const Scalar a = magnitude(z.re), b = magnitude(z.im);
  const Scalar big = choose(a < b, b, a), small = choose(a < b, a, b);
  const Scalar r = small / big;
  const Scalar value = choose(big == 0.0, big, big * square_root(fma(r, r, 1.0)));
  return choose((a == kInf) | (b == kInf), kInf, choose(is_nan(a) | is_nan(b), a + b, value));
}

Complex exponential(Complex z) {
  const Scalar e = exp64(z.re);
  const Scalar real_only = z.im == 0.0;
  return {choose(real_only, e, e * cos64(z.im)), choose(real_only, z.im, e * sin64(z.im))};
}

Complex logarithm(Complex z) {
  // log|z| near the unit circle through log1p, so that nothing cancels.
  const Scalar a = magnitude(z.re), b = magnitude(z.im);
  const Scalar big = choose(a < b, b, a), small = choose(a < b, a, b);
  const Scalar near = 0.5 * log1p_64((big - 1.0) * (big + 1.0) + small * small);
  const Scalar h = hypotenuse(z);
  return {choose((h > 0.5) & (h < 2.0), near, log64(h)), atan2_64(z.im, z.re)};
}

Complex square_root_of(Complex z) {
  const Scalar h = hypotenuse(z);
  const Scalar a = magnitude(z.re);
  const Scalar t = square_root(0.5 * h + 0.5 * a);
  const Scalar other = choose(t == 0.0, t, magnitude(z.im) / (2.0 * t));
  const Scalar right = z.re >= 0.0;
  return {choose(right, t, other), copy_sign(choose(right, other, t), z.im)};
}

Complex sine_of(Complex z) { return {sin64(z.re) * cosh64(z.im), cos64(z.re) * sinh64(z.im)}; }
Complex cosine_of(Complex z) { return {cos64(z.re) * cosh64(z.im), -(sin64(z.re) * sinh64(z.im))}; }

Complex tanh_of(Complex z) {
  // (sinh 2x + i sin 2y) / (cosh 2x + cos 2y), with the limit for large x.
  const Scalar x2 = 2.0 * z.re, y2 = 2.0 * z.im;
  const Scalar d = cosh64(x2) + cos64(y2);
  const Scalar large = magnitude(z.re) > 20.0;
  const Scalar one = copy_sign(constant_like(z.re, 1), z.re);
  return {choose(large, one, sinh64(x2) / d), choose(large, 4.0 * sin64(y2) * 0.5 * exp64(-(2.0 * magnitude(z.re))), sin64(y2) / d)};
}

// Functions with a complex form.
template <typename R, typename C>
RuleArg real_or_complex(Args args, DType result, R real, C complex) {
  if (!is_complex(args[0].dtype)) return in_f64(args, result, real);
  return narrow(complex(wide(args[0])), result);
}

using Xs = const std::vector<Scalar>&;

}  // namespace

#define REAL64(name, expr) \
  RuleArg rule_##name(Args args, DType result) { return in_f64(args, result, [](Xs x, [[maybe_unused]] bool p) { return expr; }); }
REAL64(acos, acos64(x[0]))
REAL64(acosh, acosh64(x[0]))
REAL64(asin, asin64(x[0]))
REAL64(asinh, asinh64(x[0]))
REAL64(atan, atan64(x[0]))
REAL64(atanh, atanh64(x[0]))
REAL64(cbrt, cbrt64(x[0]))
REAL64(cosh, cosh64(x[0]))
REAL64(digamma, digamma64(x[0]))
REAL64(erf, erf64(x[0]))
REAL64(erf_inv, erf_inv64(x[0]))
REAL64(erfc, erfc64(x[0]))
REAL64(lgamma, lgamma64(x[0]))
REAL64(sinh, sinh64(x[0]))
REAL64(atan2, atan2_64(x[0], x[1]))
#undef REAL64

#define BOTH(name, expr, complex) \
  RuleArg rule_##name(Args args, DType result) { \
    return real_or_complex(args, result, [](Xs x, [[maybe_unused]] bool p) { return expr; }, [](Complex z) { return complex; }); \
  }
BOTH(exponential, exp64(x[0], p), exponential(z))
BOTH(log, log64(x[0], p), logarithm(z))
BOTH(log_plus_one, log1p_64(x[0], p), (logarithm({z.re + 1.0, z.im})))
BOTH(logistic, logistic64(x[0], p), (div({constant_like(z.re, 1), constant_like(z.re, 0)},
                                         [&] { Complex e = exponential({-z.re, -z.im}); return Complex{e.re + 1.0, e.im}; }())))
BOTH(sine, sin64(x[0], p), sine_of(z))
BOTH(cosine, cos64(x[0], p), cosine_of(z))
BOTH(tan, tan64(x[0]), div(sine_of(z), cosine_of(z)))
BOTH(tanh, tanh64(x[0], p), tanh_of(z))
BOTH(exponential_minus_one, expm1_64(x[0], p), ([&] {
       // e^x cos y - 1 = expm1(x) cos y - 2 sin(y/2)^2.
       const Scalar s = sin64(0.5 * z.im);
       return Complex{expm1_64(z.re) * cos64(z.im) - 2.0 * s * s, exp64(z.re) * sin64(z.im)};
     }()))
#undef BOTH

RuleArg rule_sqrt(Args args, DType result) {
  if (is_complex(args[0].dtype)) return narrow(square_root_of(wide(args[0])), result);
  return in_f32(args, result, [](Xs x) { return square_root(x[0]); });
}

RuleArg rule_rsqrt(Args args, DType result) {
  if (is_complex(args[0].dtype)) {
    const Complex z = wide(args[0]);
    return narrow(div({constant_like(z.re, 1), constant_like(z.re, 0)}, square_root_of(z)), result);
  }
  return in_f64(args, result, [](Xs x, bool) {
    // One Newton step on the residual 1 - x y^2 makes up for the two roundings.
    const Scalar y = 1.0 / square_root(x[0]);
    const Scalar y2 = y * y;
    const Scalar residual = fma(-x[0], y2, 1.0) - x[0] * fma(y, y, -y2);
    const Scalar better = fma(y * 0.5, residual, y);
    return choose((y == kInf) | (y == -kInf) | (y == 0.0), y, better);
  });
}

RuleArg rule_abs(Args args, DType result) {
  if (is_complex(args[0].dtype)) return of(convert_to(result, hypotenuse(wide(args[0]))));
  return in_f32(args, result, [](Xs x) { return magnitude(x[0]); });
}

#define ROUNDING(name, prim) \
  RuleArg rule_##name(Args args, DType result) { \
    return in_f32(args, result, [](Xs x) { return emit(Prim::prim, x[0].type(), {x[0]}); }); \
  }
ROUNDING(ceil, ceil)
ROUNDING(floor, floor)
ROUNDING(round_nearest_even, round_even)
ROUNDING(count_leading_zeros, count_leading_zeros)
ROUNDING(popcnt, popcount)
ROUNDING(not_, bit_not)
#undef ROUNDING

RuleArg rule_round_nearest_afz(Args args, DType result) {
  return in_f32(args, result, [](Xs x) {
    const Scalar t = truncate(x[0]);
    const Scalar away = copy_sign(constant_like(t, 1), x[0]);
    return copy_sign(choose(magnitude(x[0] - t) >= 0.5, t + away, t), x[0]);
  });
}

RuleArg rule_negate(Args args, DType result) {
  if (is_complex(args[0].dtype)) return {result, -args[0].re, -args[0].im};
  return in_f32(args, result, [](Xs x) { return -x[0]; });
}

RuleArg rule_sign(Args args, DType result) {
  if (is_complex(args[0].dtype)) {
    const Complex z = wide(args[0]);
    const Scalar h = hypotenuse(z), zero = h == 0.0;
    return narrow({choose(zero, z.re, z.re / h), choose(zero, z.im, z.im / h)}, result);
  }
  return in_f32(args, result, [](Xs x) {
    const Scalar v = x[0];
    if (is_float(v.type()))
      return choose((v == 0.0) | is_nan(v), v, copy_sign(constant_like(v, 1), v));
    const Scalar zero = bits_like(v, 0), one = bits_like(v, 1);
    return choose(v == zero, zero, choose(v < zero, -one, one));
  });
}

RuleArg rule_is_finite(Args args, DType) {
  return in_f32(args, DType::kBool, [](Xs x) { return magnitude(x[0]) < kInf; });
}

RuleArg rule_real(Args args, DType) { return of(args[0].re); }
RuleArg rule_imag(Args args, DType result) {
  return is_complex(args[0].dtype) ? of(args[0].im) : of(args[0].re.recorder()->constant_bits(result, 0));
}
RuleArg rule_complex(Args args, DType result) { return {result, args[0].re, args[1].re}; }

RuleArg rule_convert(Args args, DType result) {
  const DType part = part_type(result);
  // Complex to bool: either part is not zero.
  if (is_bool(result) && is_complex(args[0].dtype)) return of((args[0].re != 0.0) | (args[0].im != 0.0));
  RuleArg out{result, convert_to(part, args[0].re), {}};
  if (is_complex(result))
    out.im = is_complex(args[0].dtype) ? convert_to(part, args[0].im) : out.re.recorder()->constant_bits(part, 0);
  return out;
}

RuleArg rule_bitcast_convert(Args args, DType result) { return of(bitcast_to(result, args[0].re)); }

// --- two operands ---

RuleArg rule_add(Args args, DType result) {
  if (is_bool(result)) return of(args[0].re | args[1].re);
  if (is_complex(result)) return {result, args[0].re + args[1].re, args[0].im + args[1].im};
  return in_f32(args, result, [](Xs x) { return x[0] + x[1]; });
}

RuleArg rule_subtract(Args args, DType result) {
  if (is_complex(result)) return {result, args[0].re - args[1].re, args[0].im - args[1].im};
  return in_f32(args, result, [](Xs x) { return x[0] - x[1]; });
}

RuleArg rule_multiply(Args args, DType result) {
  if (is_bool(result)) return of(args[0].re & args[1].re);
  if (is_complex(result)) {
    const Complex z = mul({args[0].re, args[0].im}, {args[1].re, args[1].im});
    return {result, z.re, z.im};
  }
  return in_f32(args, result, [](Xs x) { return x[0] * x[1]; });
}

RuleArg rule_divide(Args args, DType result) {
  if (is_complex(result)) return narrow(div(wide(args[0]), wide(args[1])), result);
  return in_f32(args, result, [](Xs x) { return x[0] / x[1]; });
}

RuleArg rule_remainder(Args args, DType result) {
  if (!is_float(result)) return of(rem(args[0].re, args[1].re));
  return in_f64(args, result, [](Xs x, bool f64) { return fmod64(x[0], x[1], !f64); });
}

namespace {

// NaN wins; +0 is above -0; complex numbers in lexicographic order.
RuleArg extremum(Args args, DType result, bool maximum) {
  if (is_complex(result)) {
    const RuleArg &a = args[0], &b = args[1];
    const Scalar nan_a = is_nan(a.re) | is_nan(a.im), nan_b = is_nan(b.re) | is_nan(b.im);
    const Scalar less = (a.re < b.re) | ((a.re == b.re) & (a.im < b.im));
    const Scalar take_b = ~nan_a & (nan_b | (maximum ? less : ~less));
    return {result, choose(take_b, b.re, a.re), choose(take_b, b.im, a.im)};
  }
  return in_f32(args, result, [maximum](Xs x) {
    const Scalar a = x[0], b = x[1];
    const Scalar take_b = maximum ? a < b : b < a;
    Scalar value = choose(take_b, b, a);
    if (!is_float(a.type())) return value;
    const DType bits = bits_type(a.type());
    const Scalar ua = bitcast_to(bits, a), ub = bitcast_to(bits, b);
    const Scalar zeros = bitcast_to(a.type(), maximum ? ua & ub : ua | ub);  // equal numbers differ in sign only
    value = choose(a == b, zeros, value);
    return choose(is_nan(a), a, choose(is_nan(b), b, value));
  });
}

}  // namespace

RuleArg rule_maximum(Args args, DType result) { return extremum(args, result, true); }
RuleArg rule_minimum(Args args, DType result) { return extremum(args, result, false); }

RuleArg rule_and_(Args args, DType) { return of(args[0].re & args[1].re); }
RuleArg rule_or_(Args args, DType) { return of(args[0].re | args[1].re); }
RuleArg rule_xor_(Args args, DType) { return of(args[0].re ^ args[1].re); }
RuleArg rule_shift_left(Args args, DType) { return of(shl(args[0].re, args[1].re)); }
RuleArg rule_shift_right_arithmetic(Args args, DType) { return of(shr_arithmetic(args[0].re, args[1].re)); }
RuleArg rule_shift_right_logical(Args args, DType) { return of(shr_logical(args[0].re, args[1].re)); }

RuleArg rule_power(Args args, DType result) {
  if (is_complex(result)) {
    const Complex x = wide(args[0]), y = wide(args[1]);
    const Complex z = exponential(mul(y, logarithm(x)));
    const Scalar zero_power = (y.re == 0.0) & (y.im == 0.0), zero_base = (x.re == 0.0) & (x.im == 0.0);
    return narrow({choose(zero_power, 1.0, choose(zero_base, 0.0, z.re)),
                   choose(zero_power | zero_base, 0.0, z.im)}, result);
  }
  if (is_float(result)) return in_f64(args, result, [](Xs x, bool p) { return pow64(x[0], x[1], p); });
  // Squaring; a negative exponent gives 1/x^n: 1, +-1 or 0 (of 0: -1, as 1/0).
  const Scalar x = args[0].re, n = args[1].re;
  const Scalar zero = bits_like(x, 0), one = bits_like(x, 1);
  Scalar base = x, power = one;
  for (int i = 0; i < bit_width(result); ++i) {
    const Scalar bit = shr_logical(n, bits_like(n, i)) & one;
    power = choose(bit == zero, power, power * base);
    base = base * base;
  }
  if (!is_signed(result)) return of(power);
  const Scalar odd = (n & one) != zero;
  const Scalar inverse = choose(x == one, one, choose(x == -one, choose(odd, -one, one), choose(x == zero, -one, zero)));
  return of(choose(n < zero, inverse, power));
}

RuleArg rule_next_after(Args args, DType result) {
  const Scalar x = args[0].re, y = args[1].re;
  const DType bits = bits_type(result);
  const Scalar ux = bitcast_to(bits, x), uy = bitcast_to(bits, y);
  const DType wide_type = is_half(result) ? DType::kF32 : result;
  const Scalar fx = convert_to(wide_type, x), fy = convert_to(wide_type, y);
  const uint64_t top = uint64_t{1} << (bit_width(result) - 1);
  const Scalar one = bits_like(ux, 1);
  const Scalar toward_zero = (magnitude(fy) < magnitude(fx)) | (sign_bit(x) != sign_bit(y));
  const Scalar moved = choose(toward_zero, ux - one, ux + one);
  const Scalar from_zero = (uy & bits_like(uy, top)) | one;
  Scalar out = choose(fx == 0.0, from_zero, moved);
  out = choose(fx == fy, uy, out);
  out = choose(is_nan(fx), ux, choose(is_nan(fy), uy, out));
  return of(bitcast_to(result, out));
}

// --- three operands ---

RuleArg rule_clamp(Args args, DType result) {
  const RuleArg low[] = {args[1], args[0]};
  const RuleArg raised[] = {rule_maximum(low, result), args[2]};
  return rule_minimum(raised, result);
}

RuleArg rule_select(Args args, DType result) {
  RuleArg out{result, choose(args[0].re, args[1].re, args[2].re), {}};
  if (is_complex(result)) out.im = choose(args[0].re, args[1].im, args[2].im);
  return out;
}

}  // namespace scalar

namespace {

using namespace scalar;

struct Recording {
  ScalarRecorder recorder;
  std::vector<RuleArg> args;

  explicit Recording(std::span<const DType> operands) : recorder(parts(operands)) {
    int next = 0;
    for (DType t : operands) {
      RuleArg a{t, recorder.input(next++), {}};
      if (is_complex(t)) a.im = recorder.input(next++);
      args.push_back(a);
    }
  }
  ScalarProgram finish(const RuleArg& result) {
    const Scalar outputs[] = {result.re, result.im};
    return recorder.finish(std::span(outputs).first(num_parts(result.dtype)));
  }
  static std::vector<DType> parts(std::span<const DType> operands) {
    std::vector<DType> out;
    for (DType t : operands)
      for (int i = 0; i < num_parts(t); ++i) out.push_back(part_type(t));
    return out;
  }
};

Scalar compare(std::string_view direction, Scalar a, Scalar b) {
  if (direction == "EQ") return a == b;
  if (direction == "NE") return a != b;
  if (direction == "LT") return a < b;
  if (direction == "LE") return a <= b;
  if (direction == "GT") return a > b;
  return a >= b;
}

}  // namespace

ScalarProgram record_rule(ScalarRule rule, std::span<const DType> operands, DType result) {
  Recording r(operands);
  RuleArg out = rule(r.args, result);
  out.dtype = result;
  return r.finish(out);
}

ScalarProgram record_compare(std::string_view direction, bool total_order, std::span<const DType> operands,
                             DType result) {
  Recording r(operands);
  const RuleArg &a = r.args[0], &b = r.args[1];
  RuleArg out{result, {}, {}};
  if (is_complex(a.dtype)) {
    out.re = direction == "EQ" ? (a.re == b.re) & (a.im == b.im) : (a.re != b.re) | (a.im != b.im);
  } else if (total_order) {
    // Bits as signed integers, negative numbers mirrored, are in total order.
    auto key = [](Scalar x) {
      const DType bits = bits_type(x.type());
      const int width = bit_width(x.type());
      const DType s = width == 16 ? DType::kS16 : width == 32 ? DType::kS32 : DType::kS64;
      const Scalar i = bitcast_to(s, bitcast_to(bits, x));
      const Scalar mirror = shr_arithmetic(i, bits_like(i, width - 1)) & bits_like(i, (uint64_t{1} << (width - 1)) - 1);
      return i ^ mirror;
    };
    out.re = compare(direction, key(a.re), key(b.re));
  } else {
    auto plain = [](Scalar x) { return is_half(x.type()) ? convert_to(DType::kF32, x) : x; };
    out.re = compare(direction, plain(a.re), plain(b.re));
  }
  return r.finish(out);
}

ScalarProgram record_reduce_precision(int exponent_bits, int mantissa_bits, std::span<const DType> operands,
                                      DType result) {
  Recording r(operands);
  const Scalar x = r.args[0].re;
  const DType bits = bits_type(result);
  const int mantissa = result == DType::kF64 ? 52 : result == DType::kF32 ? 23 : result == DType::kF16 ? 10 : 7;
  const int width = bit_width(result), exponent = width - 1 - mantissa;
  Scalar u = bitcast_to(bits, x);
  auto word = [&](uint64_t v) { return bits_like(u, v); };
  const uint64_t top = uint64_t{1} << (width - 1);
  const uint64_t inf = ((uint64_t{1} << exponent) - 1) << mantissa;
  const Scalar sign = u & word(top), original = u;
  u = u & word(top - 1);
  if (mantissa_bits < mantissa) {
    const int drop = mantissa - mantissa_bits;
    const Scalar last = shr_logical(u, word(drop)) & word(1);
    u = (u + last + word((uint64_t{1} << (drop - 1)) - 1)) & word(~((uint64_t{1} << drop) - 1) & (top - 1));
  }
  if (exponent_bits < exponent) {
    const int64_t bias = (int64_t{1} << (exponent - 1)) - 1, reduced = (int64_t{1} << (exponent_bits - 1)) - 1;
    const uint64_t largest = static_cast<uint64_t>(bias + reduced) << mantissa | ((uint64_t{1} << mantissa) - 1);
    const uint64_t smallest = static_cast<uint64_t>(bias - reduced + 1) << mantissa;
    u = choose(word(largest) < u, word(inf), choose(u < word(smallest), word(0), u));
  }
  const Scalar nan = word(inf) < (original & word(top - 1));
  RuleArg out{result, bitcast_to(result, choose(nan, original, u | sign)), {}};
  return r.finish(out);
}

}  // namespace lamina::hlo
