// Sine, cosine, tangent and their inverses.
//
// Reduction by pi/2: three-part Cody-Waite in pairs below 2^30, above it the product with 192 bits of 2/pi chosen by
// the exponent (Payne and Hanek, "Radian reduction for trigonometric functions", SIGNUM 18 (1983)). Kernels are
// Taylor polynomials on |r| <= pi/4 with the tail of r carried along.
#include <limits>

#include "hlo/scalar/math.h"
#include "hlo/scalar/ops.h"

namespace lamina::hlo::scalar {
namespace {

constexpr double kPio2[3] = {0x1.921fb54442d18p+0, 0x1.1a62633145c07p-54, -0x1.f1976b7ed8fbcp-110};
constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();

// 2/pi in binary, after 64 zero bits.
constexpr uint64_t kTwoOverPi[] = {
    0,
    0xA2F9836E4E441529, 0xFC2757D1F534DDC0, 0xDB6295993C439041, 0xFE5163ABDEBBC561, 0xB7246E3A424DD2E0,
    0x06492EEA09D1921C, 0xFE1DEB1CB129A73E, 0xE88235F52EBB4484, 0xE99C7026B45F7E41, 0x3991D639835339F4,
    0x9C845F8BBDF9283B, 0x1FF897FFDE05980F, 0xEF2F118B5A0A6D1F, 0x6D367ECF27CB09B7, 0x4F463F669E5FEA2D,
    0x7527BAC7EBE5F17B, 0x3D0739F78A5292EA, 0x6BFB5FB11F8D5D08, 0x56033046FC7B6BAB};

Pair two_difference(Scalar a, Scalar b) {
  const Scalar s = a - b, t = s - a;
  return {s, (a - (s - t)) - (b + t)};
}
Pair fast_two_sum(Scalar a, Scalar b) {
  const Scalar s = a + b;
  return {s, b - (s - a)};
}

struct Reduced {
  Scalar quadrant;  // s64, the low two bits count
  Pair r;
};

Reduced reduce_moderate(Scalar x) {
  const Scalar k = round_even(x * 0x1.45f306dc9c883p-1);
  const Scalar p = k * kPio2[0];
  const Pair first = two_difference(x - p, fma(k, kPio2[0], -p));
  const Scalar q = k * kPio2[1];
  const Pair second = two_difference(first.hi, q);
  const Scalar tail = (first.lo + second.lo) - fma(k, kPio2[1], -q) - k * kPio2[2];
  return {convert_to(DType::kS64, k), fast_two_sum(second.hi, tail)};
}

// For |x| >= 2^30. With x = m 2^e and m an integer, bits of 2/pi above 2^(1-e) contribute multiples of 4; 192 bits
// from there on leave an error below 2^-137.
Reduced reduce_huge(Scalar x) {
  const Scalar u = bitcast_to(DType::kU64, magnitude(x));
  auto word = [&](uint64_t v) { return bits_like(u, v); };
  const Scalar exponent = shr_logical(u, word(52));
  const Scalar m = (u & word((uint64_t{1} << 52) - 1)) | word(uint64_t{1} << 52);
  // First bit, counted from 1 behind the point, is e - 1 = exponent - 1076; the table has 64 zeros before it.
  const Scalar first = exponent - word(1076 - 63);
  const Scalar index = shr_logical(first, word(6)), shift = first & word(63);
  Scalar w[4];
  for (int i = 0; i < 4; ++i) {
    w[i] = word(0);
    for (uint64_t j = 0; j < 17; ++j)
      if (j + i < std::size(kTwoOverPi)) w[i] = choose(index == word(j), word(kTwoOverPi[j + i]), w[i]);
  }
  Scalar c[3];  // high word first
  for (int i = 0; i < 3; ++i) c[i] = shl(w[i], shift) | shr_logical(w[i + 1], word(64) - shift);
  const Scalar p0 = m * c[2];
  const Scalar h0 = mul_high(m, c[2]);
  const Scalar l1 = m * c[1], p1 = l1 + h0;
  const Scalar carry = choose(p1 < l1, word(1), word(0));
  const Scalar p2 = m * c[0] + mul_high(m, c[1]) + carry;
  // p2:p1:p0 is x 2/pi mod 4 in units of 2^-190.
  const Scalar fraction = shl(p2, word(2)) | shr_logical(p1, word(62));
  const Scalar below = shl(p1, word(2)) | shr_logical(p0, word(62));
  const Scalar quadrant = shr_logical(p2, word(62)) + shr_logical(fraction, word(63));
  const Scalar f = bitcast_to(DType::kS64, fraction);
  const Scalar low_mask = bits_like(f, 0xFFFFFFFF);
  const Scalar top = convert_to(DType::kF64, f - (f & low_mask)) * 0x1p-64;
  const Scalar middle = convert_to(DType::kF64, f & low_mask) * 0x1p-64;
  const Scalar bottom = convert_to(DType::kF64, below) * 0x1p-128;
  const Pair a = fast_two_sum(top, middle);
  const Pair b = fast_two_sum(a.hi, a.lo + bottom);
  const Scalar r = b.hi * kPio2[0];
  const Scalar tail = fma(b.hi, kPio2[0], -r) + (b.hi * kPio2[1] + b.lo * kPio2[0]);
  const Pair sum = fast_two_sum(r, tail);
  const Scalar negative = x < 0.0;
  const Scalar q = bitcast_to(DType::kS64, quadrant);
  return {choose(negative, -q, q), {choose(negative, -sum.hi, sum.hi), choose(negative, -sum.lo, sum.lo)}};
}

Reduced reduce(Scalar x) {
  const Reduced near = reduce_moderate(x), far = reduce_huge(x);
  const Scalar huge = magnitude(x) >= 0x1p30;
  return {choose(huge, far.quadrant, near.quadrant),
          {choose(huge, far.r.hi, near.r.hi), choose(huge, far.r.lo, near.r.lo)}};
}

// Taylor coefficients of odd (first = 3) or even (first = 4) order, alternating from `sign`.
std::vector<double> taylor(int first, double sign, int count) {
  std::vector<double> c;
  double factorial = 1;
  int n = 1;
  for (int i = 0; i < count; ++i, sign = -sign) {
    for (; n <= first + 2 * i; ++n) factorial *= n;
    c.push_back(sign / factorial);
  }
  return c;
}

Scalar sin_kernel(Pair r, bool precise) {
  static const std::vector<double> c = taylor(3, -1, 8);
  const Scalar z = r.hi * r.hi;
  const Scalar p = polynomial(z, std::span(c).first(precise ? 8 : 5));
  return r.hi + (r.lo * (1.0 - 0.5 * z) + r.hi * z * p);
}

Scalar cos_kernel(Pair r, bool precise) {
  static const std::vector<double> c = taylor(4, 1, 8);
  const Scalar z = r.hi * r.hi, half = 0.5 * z, w = 1.0 - half;
  const Scalar p = polynomial(z, std::span(c).first(precise ? 8 : 5));
  return w + (((1.0 - w) - half) + (z * z * p - r.hi * r.lo));
}

Scalar bit(Scalar q, uint64_t mask) { return (q & bits_like(q, mask)) != bits_like(q, 0); }

Scalar finite_or_nan(Scalar x, Scalar value) {
  return choose(magnitude(x) < std::numeric_limits<double>::infinity(), value, kNaN);
}

// atan on [0, inf) in pairs of constants: four ranges with breakpoints 7/16, 11/16, 19/16, 39/16.
Scalar atan_positive(Scalar a) {
  struct Range {
    double from, centre, hi, lo;
  };
  static constexpr Range kRanges[] = {{7.0 / 16, 0.5, 0x1.dac670561bb4fp-2, 0x1.a2b7f222f65e2p-56},
                                      {11.0 / 16, 1.0, 0x1.921fb54442d18p-1, 0x1.1a62633145c07p-55},
                                      {19.0 / 16, 1.5, 0x1.f730bd281f69bp-1, 0x1.007887af0cbbdp-56}};
  Scalar t = a, hi = constant_like(a, 0), lo = constant_like(a, 0);
  for (const Range& r : kRanges) {
    const Scalar in = a >= r.from;
    t = choose(in, (a - r.centre) / fma(a, r.centre, 1.0), t);
    hi = choose(in, r.hi, hi);
    lo = choose(in, r.lo, lo);
  }
  const Scalar far = a >= 39.0 / 16;
  t = choose(far, -1.0 / a, t);
  hi = choose(far, kPio2[0], hi);
  lo = choose(far, kPio2[1], lo);
  static const std::vector<double> c = [] {
    std::vector<double> v;
    for (int k = 1; k <= 22; ++k) v.push_back((k % 2 ? -1.0 : 1.0) / (2 * k + 1));
    return v;
  }();
  const Scalar z = t * t;
  return hi + (t + (lo + t * z * polynomial(z, c)));
}

}  // namespace

Scalar sin64(Scalar x, bool precise) {
  const Reduced d = reduce(x);
  const Scalar s = choose(bit(d.quadrant, 1), cos_kernel(d.r, precise), sin_kernel(d.r, precise));
  return choose(x == 0.0, x, finite_or_nan(x, choose(bit(d.quadrant, 2), -s, s)));
}

Scalar cos64(Scalar x, bool precise) {
  const Reduced d = reduce(x);
  const Scalar c = choose(bit(d.quadrant, 1), sin_kernel(d.r, precise), cos_kernel(d.r, precise));
  return finite_or_nan(x, choose(bit(d.quadrant + bits_like(d.quadrant, 1), 2), -c, c));
}

Scalar tan64(Scalar x) {
  const Reduced d = reduce(x);
  const Scalar s = sin_kernel(d.r, true), c = cos_kernel(d.r, true);
  const Scalar odd = bit(d.quadrant, 1);
  return choose(x == 0.0, x, finite_or_nan(x, choose(odd, -c, s) / choose(odd, s, c)));
}

Scalar atan64(Scalar x) { return choose(x == 0.0, x, copy_sign(atan_positive(magnitude(x)), x)); }

Scalar atan2_64(Scalar y, Scalar x) {
  constexpr double kInf = std::numeric_limits<double>::infinity();
  const Scalar ay = magnitude(y), ax = magnitude(x);
  const Scalar both_infinite = (ay == kInf) & (ax == kInf), both_zero = (ay == 0.0) & (ax == 0.0);
  const Scalar ratio = choose(both_infinite, 1.0, choose(both_zero, 0.0, ay / ax));
  const Scalar a = atan_positive(ratio);
  const Scalar value = choose(sign_bit(x), 0x1.921fb54442d18p+1 - (a - 0x1.1a62633145c07p-53), a);
  return choose(is_nan(x) | is_nan(y), kNaN, copy_sign(value, y));
}

Scalar asin64(Scalar x) {
  const Scalar value = atan2_64(x, square_root((1.0 - x) * (x + 1.0)));
  return choose(x == 0.0, x, choose(magnitude(x) <= 1.0, value, kNaN));
}

Scalar acos64(Scalar x) {
  const Scalar value = atan2_64(square_root((1.0 - x) * (x + 1.0)), x);
  return choose(magnitude(x) <= 1.0, value, kNaN);
}

}  // namespace lamina::hlo::scalar
