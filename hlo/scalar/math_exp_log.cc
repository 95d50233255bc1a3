// Exponentials, logarithms, powers and what is made of them.
//
// exp: Cody-Waite reduction to |r| <= ln2/2 and a Taylor polynomial. log: the atanh series in s = f/(2 + f) with the
// error-free combination of Tang, "Table-driven implementation of the logarithm function", TOMS 16 (1990), without
// the tables. pow: the same series carried in pairs (Dekker arithmetic on fma).
#include <cmath>
#include <limits>

#include "hlo/scalar/math.h"
#include "hlo/scalar/ops.h"

namespace lamina::hlo::scalar {
namespace {

constexpr double kLn2Hi = 0x1.62e42feep-1, kLn2Lo = 0x1.a39ef35793c76p-33;
constexpr double kLn2 = 0x1.62e42fefa39efp-1, kLn2Tail = 0x1.abc9e3b39803fp-56;
constexpr double kLog2E = 0x1.71547652b82fep+0;
constexpr double kInf = std::numeric_limits<double>::infinity();
constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();

// (e^r - 1 - r) / r^2 by Taylor, for |r| <= 0.35.
Scalar exp_tail(Scalar r, bool precise) {
  static const std::vector<double> coefficients = [] {
    std::vector<double> c;
    double factorial = 1;
    for (int n = 2; n <= 14; ++n) {
      factorial *= n;
      c.push_back(1 / factorial);
    }
    return c;
  }();
  return polynomial(r, std::span(coefficients).first(precise ? 12 : 7));
}

// 2^k for integral k within the normal range, k a float.
Scalar power_of_two(Scalar k) {
  const Scalar i = convert_to(DType::kS64, k);
  return bitcast_to(DType::kF64, shl(i + bits_like(i, 1023), bits_like(i, 52)));
}

// x * 2^k for |k| <= 2200, rounding once unless the result is subnormal.
Scalar scale(Scalar x, Scalar k) {
  const Scalar half = truncate(k * 0.5);
  return x * power_of_two(half) * power_of_two(k - half);
}

struct Reduced {
  Scalar k, r, tail;
};
Reduced reduce_exp(Scalar x) {
  const Scalar k = round_even(x * kLog2E);
  const Scalar a = fma(k, -kLn2Hi, x);
  const Scalar b = k * kLn2Lo;
  const Scalar r = a - b;
  return {k, r, (a - r) - b};
}

Pair two_sum(Scalar a, Scalar b) {
  const Scalar s = a + b, t = s - a;
  return {s, (a - (s - t)) + (b - t)};
}
Pair fast_two_sum(Scalar a, Scalar b) {
  const Scalar s = a + b;
  return {s, b - (s - a)};
}
Pair two_product(Scalar a, Scalar b) {
  const Scalar p = a * b;
  return {p, fma(a, b, -p)};
}
Pair multiply(Pair a, Pair b) {
  const Pair p = two_product(a.hi, b.hi);
  return fast_two_sum(p.hi, fma(a.hi, b.lo, fma(a.lo, b.hi, p.lo)));
}
Pair add(Pair a, Pair b) {
  const Pair s = two_sum(a.hi, b.hi);
  return fast_two_sum(s.hi, s.lo + (a.lo + b.lo));
}

struct Decomposed {
  Scalar exponent, mantissa;  // x = mantissa * 2^exponent, mantissa in [sqrt(1/2), sqrt(2))
};
Decomposed decompose(Scalar x) {
  const Scalar tiny = x < 0x1p-1022;
  const Scalar u = bitcast_to(DType::kS64, choose(tiny, x * 0x1p54, x));
  // Adding the distance of sqrt(1/2) to 1 moves mantissas from there on to the next exponent.
  const Scalar moved = u + bits_like(u, 0x3FF0000000000000 - 0x3FE6A09E667F3BCD);
  const Scalar e = shr_arithmetic(moved, bits_like(u, 52)) - bits_like(u, 1023);
  const Scalar m = u - shl(e, bits_like(u, 52));
  return {convert_to(DType::kF64, e) - choose(tiny, constant_like(x, 54), 0.0), bitcast_to(DType::kF64, m)};
}

// 2 (atanh(s) - s) / s^3 = 2/3 + 2/5 s^2 + ..., |s| <= 0.1716.
Scalar log_tail(Scalar s2, bool precise) {
  static const std::vector<double> coefficients = [] {
    std::vector<double> c;
    for (int k = 1; k <= 12; ++k) c.push_back(2.0 / (2 * k + 1));
    return c;
  }();
  return polynomial(s2, std::span(coefficients).first(precise ? 11 : 6));
}

// The same without its first term, divided by s^2: 2/5 + 2/7 s^2 + ...
Scalar log_tail_rest(Scalar s2) {
  static const std::vector<double> coefficients = [] {
    std::vector<double> c;
    for (int k = 2; k <= 12; ++k) c.push_back(2.0 / (2 * k + 1));
    return c;
  }();
  return polynomial(s2, coefficients);
}

// log(1 + f) + k ln2 with an error term `c` added, f in [-0.3, 0.42].
Scalar log_of(Scalar f, Scalar k, Scalar c, bool precise) {
  const Scalar s = f / (f + 2.0), s2 = s * s;
  const Scalar half_square = 0.5 * f * f;
  const Scalar rest = s * (half_square + s2 * log_tail(s2, precise));
  return k * kLn2Hi - ((half_square - (rest + (k * kLn2Lo + c))) - f);
}

Scalar log_edges(Scalar x, Scalar value) {
  value = choose(x == kInf, x, value);
  value = choose(x == 0.0, -kInf, value);
  return choose(x >= 0.0, value, kNaN);
}

}  // namespace

Scalar exp64(Scalar x, bool precise) {
  const Scalar low = choose(x < -760.0, -760.0, x);
  const Scalar bounded = choose(low > 720.0, 720.0, low);
  const Reduced d = reduce_exp(bounded);
  const Scalar p = d.r + (d.tail + d.r * d.r * exp_tail(d.r, precise));
  return scale(p + 1.0, d.k);
}

Scalar exp64(Pair x) {
  const Scalar low = choose(x.hi < -760.0, -760.0, x.hi);
  const Scalar bounded = choose(low > 720.0, 720.0, low);
  const Reduced d = reduce_exp(bounded);
  const Scalar tail = d.tail + choose(bounded == x.hi, x.lo, 0.0);
  const Scalar q = d.r * d.r * exp_tail(d.r, true);
  const Pair sum = fast_two_sum(constant_like(d.r, 1), d.r);
  return scale(sum.hi + (sum.lo + fma(tail, d.r, tail) + q), d.k);
}

Scalar exp2_64(Scalar x, bool precise) {
  const Scalar low = choose(x < -1100.0, -1100.0, x);
  const Scalar bounded = choose(low > 1030.0, 1030.0, low);
  const Scalar k = round_even(bounded);
  const Scalar f = bounded - k;
  const Pair r = fast_two_sum(f * kLn2, fma(f, kLn2, -(f * kLn2)) + f * kLn2Tail);
  const Scalar p = r.hi + (r.lo + r.hi * r.hi * exp_tail(r.hi, precise));
  return scale(p + 1.0, k);
}

Scalar expm1_64(Scalar x, bool precise) {
  const Scalar low = choose(x < -50.0, -50.0, x);
  const Scalar bounded = choose(low > 720.0, 720.0, low);
  const Reduced d = reduce_exp(bounded);
  const Scalar q = d.tail + d.r * d.r * exp_tail(d.r, precise);
  // e^x - 1 = 2^k ((1 - 2^-k) + (r + q)); at k = 0 the first term vanishes and nothing is lost.
  const Scalar whole = 1.0 - power_of_two(choose(d.k > 1000.0, -1000.0, -d.k));
  const Pair sum = two_sum(whole, d.r);
  const Scalar big = scale(sum.hi + (sum.lo + q), d.k);
  const Scalar value = choose(d.k == 0.0, d.r + q, big);
  return choose(x == 0.0, x, value);
}

Scalar log64(Scalar x, bool precise) {
  const Decomposed d = decompose(x);
  return log_edges(x, log_of(d.mantissa - 1.0, d.exponent, constant_like(x, 0), precise));
}

Scalar log1p_64(Scalar x, bool precise) {
  const Scalar u = x + 1.0;
  // What the sum lost, relative to u.
  const Scalar lost = choose(x >= 1.0, 1.0 - (u - x), x - (u - 1.0));
  const Scalar correction = choose(u < 0x1p60, lost / u, 0.0);
  const Decomposed d = decompose(u);
  const Scalar near = (x > -0.29) & (x < 0.41);
  const Scalar zero = constant_like(x, 0);
  const Scalar value = choose(near, log_of(x, zero, zero, precise),
                              log_of(d.mantissa - 1.0, d.exponent, correction, precise));
  const Scalar edged = log_edges(u, value);
  return choose(magnitude(x) < 0x1p-54, x, edged);
}

Scalar pow64(Scalar x, Scalar y, bool precise) {
  const Scalar ax = magnitude(x);
  Scalar value;
  if (precise) {
    // log|x| as a pair: s = f / (2 + f), log = k ln2 + 2 s + s^3 (2/3 + ...).
    const Decomposed d = decompose(ax);
    const Scalar f = d.mantissa - 1.0;
    const Pair den = fast_two_sum(constant_like(f, 2), f);
    const Scalar s_hi = f / den.hi;
    const Scalar s_lo = (fma(-s_hi, den.hi, f) - s_hi * den.lo) / den.hi;
    const Pair s = fast_two_sum(s_hi, s_lo);
    const Pair s2 = multiply(s, s);
    const Pair third{constant_like(f, 0x1.5555555555555p-1), constant_like(f, 0x1.5555555555555p-55)};
    const Pair cubic = multiply(multiply(s, s2), add(third, {s2.hi * log_tail_rest(s2.hi), constant_like(f, 0)}));
    const Pair twice{s.hi * 2.0, s.lo * 2.0};
    const Pair ln2{constant_like(f, kLn2), constant_like(f, kLn2Tail)};
    const Pair log = add(multiply({d.exponent, constant_like(f, 0)}, ln2), add(twice, cubic));
    const Pair product = two_product(log.hi, y);
    const Scalar big = magnitude(product.hi) < 0x1p900;
    value = exp64(Pair{product.hi, choose(big, product.lo + log.lo * y, 0.0)});
  } else {
    value = exp64(log64(ax) * y);
  }
  const Scalar ay = magnitude(y);
  const Scalar whole = (truncate(y) == y) | (ay >= 0x1p53);
  const Scalar half = y * 0.5;
  const Scalar odd = whole & (truncate(half) != half) & (ay < 0x1p53);
  // Zero and infinite bases by the sign of y; infinite y by |x| against 1.
  const Scalar up = (y < 0.0) == (ax < 1.0);
  const Scalar extreme = (ax == 0.0) | (ax == kInf) | (ay == kInf);
  const Scalar limit = choose(up, constant_like(x, kInf), 0.0);
  value = choose(extreme, limit, value);
  const Scalar negative = sign_bit(x);
  value = choose(negative & odd, -value, value);
  value = choose(negative & ~whole & (x != 0.0) & (ax != kInf), kNaN, value);
  value = choose((ax == 1.0) & (ay == kInf), 1.0, value);
  value = choose(is_nan(x) | is_nan(y), kNaN, value);
  return choose((x == 1.0) | (y == 0.0), 1.0, value);
}

Scalar logistic64(Scalar x, bool precise) {
  const Scalar e = exp64(-magnitude(x), precise);
  return choose(x < 0.0, e, 1.0) / (e + 1.0);
}

Scalar tanh64(Scalar x, bool precise) {
  const Scalar a = magnitude(x);
  const Scalar t = expm1_64(2.0 * choose(a > 30.0, 30.0, a), precise);
  const Scalar value = choose(a < 0.5, t / (t + 2.0), 1.0 - 2.0 / (t + 2.0));
  return choose(x == 0.0, x, copy_sign(value, x));
}

Scalar sinh64(Scalar x) {
  const Scalar a = magnitude(x);
  const Scalar t = expm1_64(a);
  const Scalar half = exp64(a * 0.5);
  const Scalar value = choose(a > 700.0, 0.5 * half * half, 0.5 * (t + t / (t + 1.0)));
  return choose(x == 0.0, x, copy_sign(value, x));
}

Scalar cosh64(Scalar x) {
  const Scalar a = magnitude(x);
  const Scalar e = exp64(a), half = exp64(a * 0.5);
  return choose(a > 700.0, 0.5 * half * half, 0.5 * e + 0.5 / e);
}

Scalar asinh64(Scalar x) {
  const Scalar a = magnitude(x), a2 = a * a;
  const Scalar value = choose(a > 0x1p28, log64(a) + kLn2, log1p_64(a + a2 / (square_root(a2 + 1.0) + 1.0)));
  return choose(x == 0.0, x, copy_sign(value, x));
}

Scalar acosh64(Scalar x) {
  const Scalar t = x - 1.0;
  const Scalar value = choose(x > 0x1p28, log64(x) + kLn2, log1p_64(t + square_root(2.0 * t + t * t)));
  return choose(x >= 1.0, value, kNaN);
}

Scalar atanh64(Scalar x) {
  const Scalar a = magnitude(x);
  const Scalar value = 0.5 * log1p_64(2.0 * a / (1.0 - a));
  const Scalar edged = choose(a == 1.0, kInf, choose(a < 1.0, value, kNaN));
  return choose(x == 0.0, x, copy_sign(edged, x));
}

Scalar cbrt64(Scalar x) {
  const Scalar a = magnitude(x);
  const Scalar tiny = a < 0x1p-1022;
  const Scalar n = choose(tiny, a * 0x1p54, a);
  // A third of the exponent gives 5 bits; each Newton step doubles them.
  const Scalar u = bitcast_to(DType::kU64, n);
  const Scalar three = bits_like(u, 3);
  Scalar t = bitcast_to(DType::kF64, u / three + bits_like(u, 0x2A9F7893782DA1CE));
  for (int i = 0; i < 4; ++i) {
    const Scalar t2 = t * t;
    t = t - fma(t2, t, -n) / (3.0 * t2);
  }
  const Pair t2 = two_product(t, t);
  t = t - (fma(t2.hi, t, -n) + t2.lo * t) / (3.0 * t2.hi);
  const Scalar value = choose(tiny, t * 0x1p-18, t);
  return choose((a == 0.0) | (a == kInf) | is_nan(x), x, copy_sign(value, x));
}

}  // namespace lamina::hlo::scalar
