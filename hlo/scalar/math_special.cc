// Error functions, gamma functions, remainder.
//
// erf and erfc: polynomials interpolating erf(x)/x in x^2 on [0, 1] and erfc(x) exp(x^2) (1 + 2x) in (x-4)/(x+4) on
// [1, 28] at Chebyshev nodes. Gamma functions: upward recurrence, then the asymptotic series (Abramowitz and Stegun,
// 6.1.41 and 6.3.18), and reflection.
#include <cmath>
#include <limits>

#include "hlo/scalar/math.h"
#include "hlo/scalar/ops.h"

namespace lamina::hlo::scalar {
namespace {

constexpr double kInf = std::numeric_limits<double>::infinity();
constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();
constexpr double kPi = 0x1.921fb54442d18p+1;

constexpr double kErfSmall[] = {
    0x1.20dd750429b6dp+0,   -0x1.812746b0379e7p-2,  0x1.ce2f21a042bdep-4,   -0x1.b82ce312889bap-6,
    0x1.565bcd0e6502dp-8,   -0x1.c02db3feeb579p-11, 0x1.f9a326c233146p-14,  -0x1.f4d2561aeafd4p-17,
    0x1.b9e6509b9867dp-20,  -0x1.5f6d925a0bc7ap-23, 0x1.fc4356498c2d9p-27,  -0x1.4e607b41a6416p-30,
    0x1.7f072188e194dp-34,  -0x1.29b9f1b3df556p-38};
constexpr double kErfcTail[] = {
    0x1.3ba5916e9fd7fp+0,   -0x1.1df1ad154a28ep-3,  0x1.f7f5df66fd7bfp-7,   0x1.16ecefcfa5396p-4,
    -0x1.9ddb23c3e911fp-4,  0x1.7fee004e12534p-4,   -0x1.0fb06dfe48782p-4,  0x1.3079edf682f6ep-5,
    -0x1.0962388558389p-6,  0x1.49c67285f384cp-8,   -0x1.8d4a997d8de46p-11, -0x1.a1df2506bdf89p-13,
    0x1.3be030ee16a5bp-13,  -0x1.995960b43b19cp-16, -0x1.7880ff55e4ebap-17, 0x1.7f2b150bb3127p-18,
    0x1.3824786b8c970p-22,  -0x1.bb50760f21d92p-21, 0x1.54fae7aa70483p-24,  0x1.dcf985b902205p-24,
    -0x1.8483061a6dcdap-26, -0x1.06c8d5fcfd59bp-26, 0x1.3c86ef63f5a5ep-28,  0x1.f17225ae0d890p-30,
    -0x1.a528e8f832f6dp-31};

// erfc for x >= 1.
Scalar erfc_tail(Scalar x) {
  const Scalar a = choose(x > 28.0, 28.0, x);
  // exp(-a^2) with the square split exactly.
  const Scalar square = a * a;
  const Scalar e = exp64(Pair{-square, -fma(a, a, -square)});
  const Scalar t = (a - 4.0) / (a + 4.0);
  return e * polynomial(t, kErfcTail) / fma(a, 2.0, 1.0);
}

}  // namespace

Scalar erf64(Scalar x) {
  const Scalar a = magnitude(x);
  const Scalar value = choose(a < 1.0, a * polynomial(a * a, kErfSmall), 1.0 - erfc_tail(a));
  return choose(is_nan(x) | (x == 0.0), x, copy_sign(value, x));
}

Scalar erfc64(Scalar x) {
  const Scalar a = magnitude(x);
  const Scalar inner = x * polynomial(x * x, kErfSmall);
  const Scalar tail = erfc_tail(a);
  return choose(is_nan(x), x, choose(a < 1.0, 1.0 - inner, choose(x < 0.0, 2.0 - tail, tail)));
}

// Starts from Winitzki's approximation and takes three Halley steps on erfc, which is exact near 1.
Scalar erf_inv64(Scalar x) {
  const Scalar a = magnitude(x);
  const Scalar log = log1p_64(-(a * a));
  const Scalar b = 0.5 * log + 4.330746750799873;
  Scalar y = square_root(square_root(b * b - log * 6.802721088435375) - b);
  for (int i = 0; i < 3; ++i) {
    const Scalar error = choose(a < 0.5, erf64(y) - a, (1.0 - a) - erfc64(y));
    const Scalar slope = 1.1283791670955126 * exp64(-(y * y));
    const Scalar step = error / slope;
    y = y - step / fma(y, step, 1.0);
  }
  const Scalar value = choose(a == 1.0, kInf, choose(a < 1.0, y, kNaN));
  return choose(x == 0.0, x, copy_sign(value, x));
}

Scalar lgamma64(Scalar x) {
  const Scalar reflected = x < 0.5;
  const Scalar z0 = choose(reflected, 1.0 - x, x);
  // Up to at least 8 by the recurrence, collecting the product.
  Scalar z = z0, product = constant_like(x, 1);
  for (int i = 0; i < 8; ++i) {
    const Scalar small = z < 8.0;
    product = choose(small, product * z, product);
    z = choose(small, z + 1.0, z);
  }
  static constexpr double kSeries[] = {1.0 / 12, -1.0 / 360, 1.0 / 1260, -1.0 / 1680, 1.0 / 1188,
                                       -691.0 / 360360, 1.0 / 156, -3617.0 / 122400};
  const Scalar inverse = 1.0 / z;
  const Scalar series = inverse * polynomial(inverse * inverse, kSeries);
  const Scalar log = log64(z);
  const Scalar stirling = (z - 0.5) * (log - 1.0) + (series + (0.9189385332046728 - 0.5));
  const Scalar upper = stirling - log64(product);
  // log(pi / |sin(pi x)|) - lgamma(1 - x); sin by the distance to the nearest integer.
  const Scalar distance = magnitude(x - round_even(x));
  const Scalar reflection = log64(kPi / sin64(distance * kPi)) - upper;
  const Scalar value = choose(reflected, choose(magnitude(x) < 0x1p-60, -log64(magnitude(x)), reflection), upper);
  const Scalar pole = (x <= 0.0) & (truncate(x) == x);
  const Scalar infinite = pole | (magnitude(x) == kInf);
  return choose(is_nan(x), x, choose(infinite, kInf, value));
}

Scalar digamma64(Scalar x) {
  const Scalar reflected = x < 0.5;
  Scalar z = choose(reflected, 1.0 - x, x), sum = constant_like(x, 0);
  for (int i = 0; i < 10; ++i) {
    const Scalar small = z < 10.0;
    sum = choose(small, sum + 1.0 / z, sum);
    z = choose(small, z + 1.0, z);
  }
  static constexpr double kSeries[] = {1.0 / 12, -1.0 / 120, 1.0 / 252, -1.0 / 240, 1.0 / 132, -691.0 / 32760, 1.0 / 12};
  const Scalar inverse2 = 1.0 / (z * z);
  const Scalar upper = (log64(z) - 0.5 / z - inverse2 * polynomial(inverse2, kSeries)) - sum;
  const Scalar offset = x - round_even(x);
  const Scalar value = choose(reflected, upper - kPi / tan64(offset * kPi), upper);
  const Scalar pole = (x <= 0.0) & (truncate(x) == x);
  const Scalar at_pole = choose(x == 0.0, copy_sign(constant_like(x, kInf), -x), kNaN);
  return choose(x == kInf, x, choose(x == -kInf, kNaN, choose(pole, at_pole, value)));
}

// Subtracts multiples of y 2^(50 j), j falling: each quotient has at most 51 bits, so each step is exact.
Scalar fmod64(Scalar x, Scalar y, bool f32_range) {
  Scalar r = magnitude(x);
  const Scalar b = magnitude(y);
  for (int j = f32_range ? 6 : 42; j >= 0; --j) {
    Scalar d = b;
    for (int left = 50 * j; left > 0; left -= 1000) d = d * std::ldexp(1.0, std::min(left, 1000));
    const Scalar q = truncate(r / d);
    Scalar next = fma(-q, d, r);
    next = choose(next < 0.0, next + d, next);  // the quotient was rounded up to the next integer
    r = choose(d <= r, next, r);
  }
  const Scalar value = choose(y == kInf, magnitude(x), choose(y == -kInf, magnitude(x), r));
  const Scalar bad = is_nan(x) | is_nan(y) | (magnitude(x) == kInf) | (y == 0.0);
  return choose(bad, kNaN, copy_sign(value, x));
}

}  // namespace lamina::hlo::scalar
