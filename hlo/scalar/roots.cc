// rsqrt, cbrt, powers of square roots and the exact float remainder.
#include <cmath>

#include "hlo/scalar/elementary.h"

namespace lamina::hlo::scalar {
namespace {

Scalar rsqrt_of(Scalar x) {
  const Scalar y = 1 / sqrt(x);
  const Sum p = two_product(x, y);
  const Scalar residual = fma(p.hi, -y, 1) - p.lo * y;
  const Scalar better = fma(y * 0.5, residual, y);
  return select((x > 0) & (x < infinity_like(x)), better, y);
}

Scalar cbrt_f64(Scalar x) {
  const Scalar a = abs(x), tiny = a < 0x1p-1022;
  const Scalar huge = a > 0x1p1000;  // twice the cube of the guess must not overflow
  const Scalar v = select(tiny, a * 0x1p54, select(huge, a * 0x1p-54, a));
  // A third of the exponent (and of the fraction) gives the root to 5 %; each step triples the digits.
  const Scalar top = convert_to(to_bits(v) >> 32, DType::kU32);
  const Scalar third = mul_high(top, constant_bits(top, 0x55555556u)) + constant_bits(top, 0x2a9f7893u);
  Scalar t = bitcast(convert_to(third, DType::kU64) << 32, DType::kF64);
  for (int i = 0; i < 3; ++i) {
    const Scalar cube = t * t * t;
    t = t - t * ((cube - v) / (2 * cube + v));
  }
  const Sum square = two_product(t, t), cube = two_product(square.hi, t);
  const Scalar residual = (v - cube.hi) - fma(square.lo, t, cube.lo);
  const Scalar root = t + residual / (3 * square.hi);
  const Scalar scaled = select(tiny, root * 0x1p-18, select(huge, root * 0x1p18, root));
  const Scalar finite = (a > 0) & (a < infinity_like(a));
  return select(finite, with_sign_of(scaled, x), x);
}

struct Integral {
  Scalar m, e;  // |x| = m * 2^(e - 1075), u64
};
Integral integral(Scalar x) {
  const Scalar bits = to_bits(abs(x)), field = bits >> 52;
  const Scalar fraction = bits & constant_bits(bits, 0x000fffffffffffffu);
  const Scalar normal = field != 0;
  return {select(normal, fraction | constant_bits(bits, 0x0010000000000000u), fraction),
          select(normal, field, 1)};
}

// a * b mod m for u64 a, b < m < 2^53. The quotient guessed in f64 is off by a few units; the second guess,
// of that small multiple, is off by one at most.
Scalar multiply_mod(Scalar a, Scalar b, Scalar m, Scalar inverse) {
  const Scalar fa = convert_to(a, DType::kF64), fb = convert_to(b, DType::kF64);
  const Scalar q = convert_to(trunc(fa * fb * inverse), DType::kU64);
  const Scalar sm = bitcast(m, DType::kS64);
  const Scalar guess = bitcast(a * b - q * m, DType::kS64);
  const Scalar more = convert_to(floor(convert_to(guess, DType::kF64) * inverse), DType::kS64);
  const Scalar r = guess - more * sm;
  const Scalar raised = select(r < 0, r + sm, r);
  return bitcast(select(raised >= sm, raised - sm, raised), DType::kU64);
}

// m * 2^k mod n, all u64, for m, n < 2^53, 0 < n and k < 2^11: the upper five bits of k by a shift, the
// others by squaring and doubling.
Scalar scaled_mod(Scalar m, Scalar k, Scalar n) {
  const Scalar inverse = 1 / convert_to(n, DType::kF64);
  Scalar r = (constant(m, 1) << (k >> 6)) % n;
  for (int i = 5; i >= 0; --i) {
    r = multiply_mod(r, r, n, inverse);
    const Scalar twice = r + r;
    r = select(((k >> i) & 1) != 0, select(twice >= n, twice - n, twice), r);
  }
  return multiply_mod(m % n, r, n, inverse);
}

Scalar remainder_f64(Scalar x, Scalar y) {
  const Integral a = integral(x), b = integral(y);
  // Where y has the larger exponent it is normal and larger than x, which is then the result.
  const Scalar keeps = abs(x) < abs(y);
  const Scalar n = select(b.m == 0, 1, b.m);
  const Scalar result = scaled_mod(a.m, select(keeps, 0, a.e - b.e), n);
  // result * 2^(b.e - 1075) in steps that stay exact: the growing one first.
  const Scalar half = b.e >> 1;
  const Scalar low = bitcast((half + 1022) << 52, DType::kF64),
               high = bitcast((b.e - half + 1023) << 52, DType::kF64);
  const Scalar scaled = convert_to(result, DType::kF64) * 0x1p-1074 * high * low;
  const Scalar r = select(keeps, x, with_sign_of(scaled, x));
  return select((abs(x) < infinity_like(x)) & (y != 0) & ~is_nan(y), r, nan_like(x));
}

// A quotient below 2^(digits of the type - 2) rounds to a number between the same two whole ones as it is,
// the upper one included; what then remains is exact, and |y| too small at worst.
Scalar remainder_of(Scalar x, Scalar y) {
  const Scalar a = abs(x), b = abs(y), q = a / b;
  const Scalar r = fma(-trunc(q), b, a), usual = with_sign_of(select(r < 0, r + b, r), x);
  const Scalar is_usual = (q < (x.type() == DType::kF64 ? 0x1p51 : 0x1p22)) & (b < infinity_like(b));
  return select_rare(~is_usual, via_f64(remainder_f64, x, y), usual);
}

}  // namespace

Scalar rsqrt(Scalar x) {
  return is_storage_float(x.type()) ? with_f32_arithmetic([](Scalar v) { return 1 / sqrt(v); }, x)
                                    : rsqrt_of(x);
}
Scalar cbrt(Scalar x) { return via_f64(cbrt_f64, x); }

// Adding `round` leaves multiples of 1/2; a larger exponent becomes one that is none.
Scalar is_half_power(Scalar y) {
  const Scalar size = limit_above(abs(y), 2.25);
  const double round = y.type() == DType::kF64 ? 0x1.8p51 : 0x1.8p22;
  return (size + round) - round == size;
}
bool is_quick_exponent(DType type, double y) {
  return (type == DType::kF32 || type == DType::kF64) && std::abs(y) <= 2 && std::trunc(2 * y) == 2 * y;
}

Scalar half_power(Scalar x, Scalar y, Scalar any) {
  const Scalar size = abs(y), is_root = size == 0.5, is_three_halves = size == 1.5, is_square = size == 2;
  const Scalar root = sqrt(x), rest = fma(-root, root, x);  // exact
  // hi + lo = x^size: of the root's error, rest / (2 root), as much as shows.
  const Scalar of_root = is_root | is_three_halves, factor = select(of_root, root, x);
  const Sum product = two_product(x, factor);
  const Scalar hi = select(is_three_halves | is_square, product.hi, factor);
  const Scalar lo =
      select(is_three_halves, fma(0.5 * root, rest, product.lo), select(is_square, product.lo, 0));
  const Scalar q = 1 / hi;
  const Scalar residual = fma(-hi, q, 1) - select(is_root, 0.5 * rest * q, lo) * q;
  const Scalar inverse = fma(q, residual, q);
  const Scalar positive = select(is_three_halves, hi + lo, hi);
  // Between these bounds no number above overflows, and those that are exact are no smaller than the least of
  // all.
  const bool wide = x.type() == DType::kF64;
  const Scalar base = select(of_root, x, abs(x));
  const auto within = [&](double least, double most) { return (base >= least) & (base <= most); };
  const Scalar usual =
      wide ? within(0x1p-300, 0x1p300) : select(is_square, within(0x1p-50, 0x1p62), within(0x1p-64, 0x1p80));
  const Scalar is_usual = select(y == 0.5, (x > 0) & (x < infinity_like(x)), usual);
  const Scalar of_usual = select_rare(~is_usual, any, select(y < 0, inverse, positive));
  return select(y == 0, 1, select((y == 1) | (y == 2), hi, of_usual));
}

Scalar remainder(Scalar a, Scalar b) {
  if (is_bool(a.type())) return a & ~b;
  if (!is_float(a.type())) return a % b;
  return with_f32_arithmetic(remainder_of, a, b);
}

}  // namespace lamina::hlo::scalar
