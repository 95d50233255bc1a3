// lgamma and digamma.
#include "hlo/scalar/coefficients.h"
#include "hlo/scalar/elementary.h"

namespace lamina::hlo::scalar {
namespace {

using namespace coefficients;

constexpr double kStirlingShift = 0x1.acfe390c97d69p-2,
                 kStirlingShiftLow = 0x1.3494bc9001442p-56;  // (log(2 pi) - 1) / 2
constexpr double kLogPi = 0x1.250d048e7a1bdp+0, kLogPiLow = 0x1.7abf2ad8d5088p-57;
constexpr double kLargest = 2.5563481638716905e305;                               // beyond, lgamma overflows
constexpr double kLgammaLow = -0x1.c16952fc810f7p-58;                             // of kLgamma[0]
constexpr double kDigammaLow = 0x1.8f8ba07282f39p-55;                             // of kDigamma[0]
constexpr double kRoot = 0x1.762d86356be3fp+0, kRootLow = 0x1.b86a722197829p-54;  // of digamma

// c[0] + low + x * (c[1] + x * (...)) as a sum: only the part from x^2 on is rounded to f64.
Sum polynomial_sum(Scalar x, std::span<const double> c, double low) {
  const Sum inner = two_sum(constant(x, c[1]), x * polynomial(x, c.subspan(2)));
  return add_sums(sum_constant(x, c[0], low), multiply_sums({x, constant(x, 0)}, inner));
}

// log(gamma(x)) for positive finite x.
Sum lgamma_positive(Scalar x) {
  const Scalar zero = constant(x, 0);
  const Scalar small = x < 0.5, below = x < 1.75, large = x >= 3, tiny = x < 0x1p-200;
  // Near 2 the polynomial times (x - 2); below 7/4 the recurrence leads to [2, 11/4): lgamma(x) = lgamma(x +
  // n) - log(x ... (x + n - 1)).
  const Scalar v = select(tiny, x * 0x1p200, x);
  const Sum product = multiply_sums({v, zero}, two_sum(constant(x, 1), select(small, x, zero)));
  const Sum argument = select_sum(large, {x, zero}, product);
  const Sum log = log_sum(argument, select(tiny, -200, zero));
  const Scalar z = select(small, x, select(below, x - 1, limit(x, 0, 3) - 2));
  const Sum polynomial_part = multiply_sums(polynomial_sum(z - 0.25, kLgamma, kLgammaLow), {z, zero});
  const Sum shifted = add_sums(polynomial_part, negate_sum(log));
  const Scalar b = select(large, x, constant(x, 3)), inverse = 1 / b;
  const Scalar correction = polynomial(inverse * inverse, kStirling) * inverse;
  // (x - 1/2) log(x) - x without an overflow before the result's: (x - 1/2) (log(x) - 1) - 1/2.
  Sum stirling = multiply_sums(two_sum(b, constant(b, -0.5)), add_number(log, -1));
  stirling = add_sums(stirling, sum_constant(x, kStirlingShift, kStirlingShiftLow));
  stirling = add_number(stirling, correction);
  return select_sum(large, stirling, select_sum(below, shifted, polynomial_part));
}

Scalar lgamma_f64(Scalar x) {
  const Scalar a = abs(x), inf = infinity_like(x);
  const Scalar b = select((a > 0) & (a <= kLargest), a, constant(x, 1));
  const Sum positive = lgamma_positive(b);
  // gamma(-a) = -pi / (a sin(pi a) gamma(a)).
  const Sum sine = sin_pi_sum(b);
  const Sum size = select_sum(sine.hi < 0, negate_sum(sine), sine);
  const Sum product = multiply_sums({select(b < 0x1p-200, 1, b), constant(x, 0)},
                                    select_sum(size.hi < 0x1p-200, sum_constant(x, 1, 0), size));
  const Sum reflected = add_sums(add_sums(sum_constant(x, kLogPi, kLogPiLow), negate_sum(log_sum(product))),
                                 negate_sum(positive));
  const Scalar pole = floor(a) == a;
  const Scalar left = select(pole, inf, select(a < 0x1p-60, value(positive), value(reflected)));
  const Scalar right = select(a > kLargest, inf, value(positive));
  const Scalar r = select_rare(x < 0, left, select(a == 0, inf, right));
  return select(is_nan(x), x, r);
}

// As lgamma_positive, in plain f64, for narrower types.
Scalar lgamma_positive_narrow(Scalar x) {
  const Scalar small = x < 0.5, below = x < 1.75, large = x >= 3;
  const Scalar log = log_narrow(select(small, fma(x, x, x), x));  // of x (x + 1) below 1/2
  const Scalar z = select(small, x, select(below, x - 1, limit_above(x, 3) - 2));
  const Scalar near = z * polynomial(z - 0.25, kLgammaNarrow);
  const Scalar b = select(large, x, constant(x, 3)), inverse = 1 / b;
  const Scalar correction = polynomial(inverse * inverse, kStirlingNarrow) * inverse;
  const Scalar stirling = fma(b - 0.5, log - 1, correction + kStirlingShift);
  return select(large, stirling, select(below, near - log, near));
}

Scalar lgamma_narrow(Scalar x) {
  const Scalar usual = (x >= 0x1p-1022) & (x < infinity_like(x));
  return select_rare(~usual, lgamma_f64(x), lgamma_positive_narrow(select(usual, x, constant(x, 1))));
}

// digamma for positive finite x.
Sum digamma_positive(Scalar x) {
  const Scalar zero = constant(x, 0), one = constant(x, 1);
  const Scalar large = x >= 2, below = x < 1;
  // (x - root) * polynomial on [1, 2); below 1, digamma(x) = digamma(x + 1) - 1 / x.
  const Sum base = two_sum(select(large, one, x), select(below, one, zero));
  const Sum distance = add_number(add_number(base, -kRoot), -kRootLow);
  const Sum middle = multiply_sums(distance, polynomial_sum(base.hi - 1.5, kDigamma, kDigammaLow));
  const Sum inverse = divide_sums({one, zero}, {x, zero});
  const Sum shifted = add_sums(middle, negate_sum(inverse));
  const Scalar b = select(large, x, constant(x, 2)), u = 1 / (b * b);
  const Sum log = log_sum({b, zero});
  const Sum half = divide_sums({constant(x, -0.5), zero}, {b, zero});
  const Sum asymptotic = add_number(add_sums(log, half), -u * polynomial(u, kDigammaLarge));
  return select_sum(large, asymptotic, select_sum(below, shifted, middle));
}

Scalar digamma_f64(Scalar x) {
  const Scalar a = abs(x), inf = infinity_like(x);
  const Scalar usable = (a > 0x1p-1000) & (a < 0x1p500);
  const Scalar b = select(usable, a, constant(x, 1));
  const Sum positive = digamma_positive(b);
  // digamma(-a) = digamma(a) + 1 / a + pi / tan(pi a).
  const Sum sine = sin_pi_sum(b), cosine = cos_pi_sum(b);
  const Sum cotangent = divide_sums(multiply_sums(cosine, sum_constant(x, kPi, kPiLow)),
                                    select_sum(sine.hi == 0, sum_constant(x, 1, 0), sine));
  const Sum inverse = divide_sums({constant(x, 1), constant(x, 0)}, {b, constant(x, 0)});
  const Sum reflected = add_sums(add_sums(positive, inverse), cotangent);
  const Scalar pole = floor(a) == a;
  const Scalar left = select(pole, nan_like(x), value(reflected));
  const Scalar near_zero = -1 / x;
  const Scalar right = select(a < 0x1p500, value(positive), log(a));
  const Scalar r = select(a < 0x1p-60, near_zero, select_rare(x < 0, left, right));
  return select(x == -inf, nan_like(x), select(is_nan(x), x, r));
}

// As digamma_positive, in plain f64, for narrower types.
Scalar digamma_positive_narrow(Scalar x) {
  const Scalar large = x >= 2, below = x < 1, inverse = 1 / x;
  const Scalar base = select(large, 1, x) + select(below, 1, constant(x, 0));
  const Scalar middle = (base - kRoot - kRootLow) * polynomial(base - 1.5, kDigammaNarrow);
  const Scalar half = select(large, inverse, constant(x, 0.5)), u = half * half;
  const Scalar log = log_narrow(select(large, x, constant(x, 2)));
  const Scalar asymptotic = (log - 0.5 * half) - u * polynomial(u, kDigammaLargeNarrow);
  return select(large, asymptotic, select(below, middle - inverse, middle));
}

Scalar digamma_narrow(Scalar x) {
  const Scalar usual = (x >= 0x1p-1022) & (x < infinity_like(x));
  return select_rare(~usual, digamma_f64(x), digamma_positive_narrow(select(usual, x, constant(x, 1))));
}

}  // namespace

Scalar lgamma(Scalar x) { return by_width(lgamma_f64, lgamma_narrow, x); }
Scalar short_lgamma(Scalar x) { return lgamma_narrow(x); }
Scalar digamma(Scalar x) { return by_width(digamma_f64, digamma_narrow, x); }
Scalar short_digamma(Scalar x) { return digamma_narrow(x); }

}  // namespace lamina::hlo::scalar
