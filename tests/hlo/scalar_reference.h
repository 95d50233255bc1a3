// The unary functions with references in 113-bit arithmetic and the error bounds that the tests
// hold them to, in units in the last place.
#ifndef LAMINA_TESTS_HLO_SCALAR_REFERENCE_H_
#define LAMINA_TESTS_HLO_SCALAR_REFERENCE_H_

#include "hlo/scalar/math.h"
#include "tests/hlo/quad.h"

namespace lamina::hlo::scalar::testing {

inline Quad logistic_reference(Quad x) { return 1 / (1 + expq(-x)); }
inline Quad rsqrt_reference(Quad x) { return 1 / sqrtq(x); }
inline Quad erf_inv_reference(Quad y) {
  const Quad a = fabsq(y);
  if (!(a <= 1)) return nanq("");
  if (a == 1) return y * static_cast<Quad>(INFINITY);
  if (a == 0) return y;
  const Quad two_over_root_pi = 2 / sqrtq(acosq(-1));
  // Newton's method on log(erfc(x)) = log(1 - a): convex in the tail, quadratic near the root.
  Quad x = a < 0.9 ? a : sqrtq(-logq(1 - a));
  for (int i = 0; i < 60; ++i) {
    const Quad slope = two_over_root_pi * expq(-x * x);
    const Quad step = a < 0.5 ? (erfq(x) - a) / slope : -erfcq(x) * (logq(erfcq(x)) - logq(1 - a)) / slope;
    x -= step;
    if (fabsq(step) <= fabsq(x) * 1e-30) break;
  }
  return y < 0 ? -x : x;
}
inline Quad digamma_reference(Quad x) {
  if (isnanq(x) || (x < 0 && floorq(x) == x)) return nanq("");
  if (x == 0) return -1 / x;
  const Quad pi = acosq(-1);
  if (x < 0) return digamma_reference(-x) - 1 / x - pi / tanq(pi * (x - rintq(x)));
  Quad shift = 0;
  while (x < 30) shift += 1 / x, x += 1;
  static constexpr int kBernoulli[][2] = {{1, 12},        {-1, 120},      {1, 252}, {-1, 240},
                                          {1, 132},       {-691, 32760},  {1, 12},  {-3617, 8160},
                                          {43867, 14364}, {-174611, 6600}};
  Quad sum = 0;
  const Quad u = 1 / (x * x);
  for (int i = 9; i >= 0; --i) sum = (sum + static_cast<Quad>(kBernoulli[i][0]) / kBernoulli[i][1]) * u;
  return logq(x) - 1 / (2 * x) - sum - shift;
}
inline Quad negate_reference(Quad x) { return -x; }
inline Quad square_reference(Quad x) { return x * x; }

struct UnaryCase {
  const char* name;
  Scalar (*rule)(Scalar);
  Quad (*reference)(Quad);
  double bound64, bound32;
  double low, high;  // where most samples go
};

inline constexpr UnaryCase kUnaryCases[] = {
    // exp, exp2 and logistic: below 0.7 where the f32 result is normal; a subnormal one is rounded twice.
    {"exponential", exponential, expq, 0.77, 0.79, -30, 30},
    {"exp2", exp2, exp2q, 0.6, 0.79, -30, 30},
    {"exponential_minus_one", exponential_minus_one, expm1q, 0.85, 0.75, -3, 3},
    {"log", log, logq, 0.6, 0.67, 0, 3},
    {"log_plus_one", log_plus_one, log1pq, 0.6, 0.67, -1, 2},
    {"logistic", logistic, logistic_reference, 0.75, 0.79, -30, 30},
    {"sine", sine, sinq, 0.75, 0.75, -20, 20},
    {"cosine", cosine, cosq, 0.75, 0.75, -20, 20},
    {"tan", tan, tanq, 0.85, 0.501, -20, 20},
    {"asin", asin, asinq, 0.75, 0.501, -1, 1},
    {"acos", acos, acosq, 0.75, 0.501, -1, 1},
    {"atan", atan, atanq, 0.8, 0.501, -4, 4},
    {"sinh", sinh, sinhq, 0.75, 0.501, -3, 3},
    {"cosh", cosh, coshq, 0.75, 0.501, -3, 3},
    {"tanh", tanh, tanhq, 0.75, 0.75, -4, 4},
    {"asinh", asinh, asinhq, 0.75, 0.501, -4, 4},
    {"acosh", acosh, acoshq, 0.75, 0.501, 1, 4},
    {"atanh", atanh, atanhq, 0.75, 0.501, -1, 1},
    {"cbrt", cbrt, cbrtq, 0.62, 0.501, -8, 8},
    {"rsqrt", rsqrt, rsqrt_reference, 0.6, 0.501, 0, 8},
    {"sqrt", sqrt, sqrtq, 0.5, 0.5, 0, 8},
    {"erf", erf, erfq, 0.85, 0.75, -4, 4},
    {"erfc", erfc, erfcq, 1.0, 0.79, -4, 12},
    {"erf_inv", erf_inv, erf_inv_reference, 1.0, 0.501, -1, 1},
    {"lgamma", lgamma, lgammaq, 1.0, 0.501, 0, 12},
    {"digamma", digamma, digamma_reference, 1.0, 0.501, 0, 12},
    {"square", square, square_reference, 0.5, 0.5, -8, 8},
    {"negate", negate, negate_reference, 0, 0, -8, 8},
    {"floor", floor, floorq, 0, 0, -8, 8},
    {"ceil", ceil, ceilq, 0, 0, -8, 8},
    {"round_nearest_even", round_nearest_even, rintq, 0, 0, -8, 8},
    {"round_nearest_afz", round_nearest_afz, roundq, 0, 0, -8, 8},
    {"abs", abs, fabsq, 0, 0, -8, 8},
};

// |y - expected| in units in the last place of `expected` in a format of `digits` digits and least exponent
// `low`; 0 where both are NaN or the same infinity, infinity where only one is.
inline double ulp_distance(double y, Quad expected, int digits, int low, double largest) {
  if (isnanq(expected)) return std::isnan(y) ? 0 : INFINITY;
  int e = 0;
  (void)frexpq(expected, &e);
  if (isinfq(expected) || fabsq(expected) > static_cast<Quad>(largest)) {
    if (std::isinf(y) && (y > 0) == (expected > 0)) return 0;
    if (isinfq(expected)) return INFINITY;
  }
  if (std::isnan(y)) return INFINITY;
  const Quad unit = ldexpq(1, (e > low ? e : low) - digits);
  if (std::isinf(y)) {
    // The value beyond the largest, as if the exponent range went on.
    return static_cast<double>(fabsq((y > 0 ? 1 : -1) * (static_cast<Quad>(largest) + unit) - expected) /
                               unit);
  }
  return static_cast<double>(fabsq(static_cast<Quad>(y) - expected) / unit);
}
inline double ulps64(double y, Quad expected) {
  return ulp_distance(y, expected, 53, -1021, std::numeric_limits<double>::max());
}
inline double ulps32(float y, Quad expected) {
  return ulp_distance(y, expected, 24, -125, std::numeric_limits<float>::max());
}

}  // namespace lamina::hlo::scalar::testing

#endif  // LAMINA_TESTS_HLO_SCALAR_REFERENCE_H_
