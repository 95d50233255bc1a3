// erf, erfc and the inverse of erf.
#include "hlo/scalar/coefficients.h"
#include "hlo/scalar/elementary.h"

namespace lamina::hlo::scalar {
namespace {

using namespace coefficients;

constexpr double kTwoOverRootPi = 0x1.20dd750429b6dp+0, kTwoOverRootPiLow = 0x1.1ae3a914fed80p-56;
constexpr double kErfcxLow = 0x1.a17e08fec4ae1p-55;  // of kErfcx[0]
constexpr double kSwitch = 0.5;                      // between the two approximations

// erf(x) for |x| <= 0.5.
Sum erf_near(Scalar x) {
  const Scalar z = x * x;
  const Sum p = two_product(x, constant(x, kTwoOverRootPi));
  const Scalar tail = fma(x, fma(z, polynomial(z, kErf), kTwoOverRootPiLow), p.lo);
  return fast_two_sum(p.hi, tail);
}

// erfc(x) = sum * 2^n for 0.5 <= x <= 27.5.
struct Scaled {
  Sum sum;
  Scalar n;
};
Scaled erfc_far(Scalar x) {
  const Scalar t = (x - 3) / (x + 3);
  const Scalar rest = polynomial(t, std::span(kErfcx).subspan(1));
  const Sum g = fast_two_sum(constant(x, kErfcx[0]), fma(t, rest, kErfcxLow));
  const Sum square = two_product(x, x);
  const ExpParts e = exp_parts(negate_sum(square));
  return {divide_sums(multiply_sums(e.sum, g), two_sum(constant(x, 1), x + x)), e.n};
}

Scalar erf_f64(Scalar x) {
  const Scalar a = abs(x);
  const Scaled far = erfc_far(limit(a, kSwitch, 6.5));
  const Scalar tail = value(add_number(negate_sum(scale_sum(far.sum, power_of_two(far.n))), 1));
  return with_sign_of(select(a < kSwitch, value(erf_near(a)), tail), x);
}

Scalar erfc_f64(Scalar x) {
  const Scalar a = abs(x);
  const Scaled far = erfc_far(limit(a, kSwitch, 27.5));
  const Scalar right = scale_by_power(value(far.sum), far.n);
  const Sum scaled = scale_sum(far.sum, power_of_two(limit(far.n, -1000, 0)));
  const Scalar left = value(add_number(negate_sum(scaled), 2));
  const Scalar near = value(add_number(negate_sum(erf_near(limit(x, -kSwitch, kSwitch))), 1));
  return select(a < kSwitch, near,
                select(x < 0, left, select(a <= 27.5, right, select(is_nan(x), x, constant(x, 0)))));
}

// erfc(a) for a >= 0; 0 in every type narrower than f64 beyond 10.1.
Scalar erfc_right_narrow(Scalar a0) {
  const Scalar a = limit(a0, 0, 10.1);
  const Scalar weight = a + a + 1, inverse = 1 / ((a + 3) * weight);
  const Scalar scaled = polynomial((a - 3) * weight * inverse, kErfcxNarrow) * ((a + 3) * inverse);
  return select(a0 > 10.1, constant(a, 0), scaled * exp_narrow(-(a * a)));
}
// f16 and bf16, in f32: an odd polynomial with its middle between 0 and `one`, where the result rounds to 1.
Scalar erf_half(Scalar x, double one, std::span<const double> c) {
  const Scalar a = limit_above(abs(x), one);
  return with_sign_of(a * polynomial(fma(a, a, -one * one / 2), c), x);
}
Scalar erfc_narrow(Scalar x) {
  const Scalar right = erfc_right_narrow(abs(x));
  return select(x < 0, 2 - right, right);
}

// exp(-a^2) and what it is to be multiplied with, both with what they lose to rounding.
Scalar erfc_f32(Scalar x) {
  const Scalar a = limit_above(abs(x), kScaledErfcPieces.top);
  const Sum square = two_product(a, a);
  const SteppedExp steps = stepped_exp(-square.hi, -square.lo);
  const Piece p = piece_at(kScaledErfcPieces, a);
  const Scalar hi = fma(p.t, p.slope, p.value);
  const Sum e = fast_two_sum(steps.step, steps.rest), scaled = {hi, fma(p.t, p.slope, p.value - hi)};
  const Sum product = two_product(e.hi, scaled.hi);
  const Scalar low = product.lo + fma(e.hi, scaled.lo, e.lo * scaled.hi);
  const Scalar power = scale(constant(x, 1), steps.power);
  const Sum left = fast_two_sum(constant(x, 2), -(product.hi * power));
  return select(x < 0, left.hi + (left.lo - low * power), scale(product.hi + low, steps.power));
}

// The inverse of erf at 0 <= y <= 1 for larger |y|; NaN stays.
Scalar with_erf_inv_edges(Scalar y, Scalar a, Scalar inside) {
  const Scalar edge = select(a == 1, infinity_like(y), select(a > 1, nan_like(y), inside));
  return with_sign_of(select(is_nan(y), y, edge), y);
}

Scalar erf_inv_narrow(Scalar y) {
  const Scalar a = abs(y), b = limit(a, 0, 1 - 0x1p-24);
  const Scalar w = -log_narrow((1 - b) * (1 + b));
  const Scalar tail = polynomial(sqrt(w) - 3, kErfInvTailNarrow);
  return with_erf_inv_edges(y, a, b * select_rare(w > 5, tail, polynomial(w - 2.5, kErfInvCentralNarrow)));
}

Scalar erf_inv_f64(Scalar y) {
  const Scalar a = abs(y), b = limit(a, 0, 0x1.fffffffffffffp-1);
  // A first guess good to 2^-25, then one step of Halley's method on erf or, in the tail, on erfc.
  const Scalar w = -log_narrow((1 - b) * (1 + b)), tail = sqrt(w);
  const Scalar guess =
      b * select(w < 5, polynomial(w - 2.5, kErfInvCentral), polynomial(tail - 4, kErfInvTail));
  const Scalar is_near = guess < kSwitch;
  const Scaled far = erfc_far(limit(guess, kSwitch, 27));
  const Sum far_sum = scale_sum(far.sum, power_of_two(far.n));
  const Scalar near_residual = value(add_number(erf_near(limit(guess, 0, kSwitch)), -b));
  const Scalar far_residual = value(add_number(negate_sum(far_sum), 1 - b));
  const ExpParts e = exp_parts(two_product(guess, guess));
  const Scalar step = select(is_near, near_residual, far_residual) *
                      (value(e.sum) * power_of_two(limit(e.n, -1000, 1000)) * (1 / kTwoOverRootPi));
  const Scalar x = guess - step / fma(guess, step, 1);
  // Near 0 the residual would underflow: sqrt(pi)/2 y with its low part.
  const Scalar scaled = a * 0x1p200;
  const Scalar tiny =
      fma(scaled, constant(a, 0x1.c5bf891b4ef6bp-1), scaled * -0x1.618f13eb7ca89p-55) * 0x1p-200;
  return with_erf_inv_edges(y, a, select(a < 0x1p-28, tiny, x));
}

}  // namespace

Scalar erf(Scalar x) {
  if (is_storage_float(x.type()))
    return by_half([](Scalar v) { return erf_half(v, 2.625, kErfF16); },
                   [](Scalar v) { return erf_half(v, 2.25, kErfBf16); }, x);
  return x.type() == DType::kF32 ? odd_piecewise(kErfPieces, x) : erf_f64(x);
}
Scalar erfc(Scalar x) { return x.type() == DType::kF32 ? erfc_f32(x) : by_width(erfc_f64, erfc_narrow, x); }
Scalar short_erfc(Scalar x) { return erfc_narrow(x); }
Scalar erf_inv(Scalar x) { return by_width(erf_inv_f64, erf_inv_narrow, x); }

}  // namespace lamina::hlo::scalar
