// Complex rules over pairs of f32 or f64.
#include <utility>

#include "hlo/scalar/elementary.h"

namespace lamina::hlo::scalar {
namespace {

// As with_sign_of, where `sign` may be a NaN beside a result that is none; it counts as positive.
Scalar with_sign_of_number(Scalar magnitude, Scalar sign) {
  return with_sign_of(magnitude, canonical_nan(sign));
}

// Runs `f` on parts in f64: for c64 nothing overflows there, and each part is rounded once.
template <typename F, typename... Z>
auto in_f64(F f, ScalarComplex z, Z... rest) {
  const DType part = z.re.type();
  const auto r = f(convert_to_complex(z, DType::kF64), convert_to_complex(rest, DType::kF64)...);
  if constexpr (std::is_same_v<std::remove_const_t<decltype(r)>, Scalar>)
    return convert_to(r, part);
  else
    return convert_to_complex(r, part);
}

Scalar is_inf(Scalar x) { return abs(x) == infinity_like(x); }
Scalar is_zero(ScalarComplex z) { return (z.re == 0) & (z.im == 0); }

// A power of two near the larger part, so that parts times `inverse` lie in [1, 4) or below.
struct Scale {
  Scalar up, inverse;
};
Scale scale_of(ScalarComplex z) {
  const Scalar field = to_bits(maximum(abs(z.re), abs(z.im))) >> 52;
  const Scalar low = select(field < 23, 23, field);
  const Scalar e = select(low > 2023, constant(field, 2023), low);
  return {bitcast(e << 52, DType::kF64), bitcast((2046 - e) << 52, DType::kF64)};
}

Scalar hypot_f64(ScalarComplex z) {
  const Scale s = scale_of(z);
  const Scalar a = z.re * s.inverse, b = z.im * s.inverse;
  const Sum square = add_sums(two_product(a, a), two_product(b, b));
  const Scalar root = value(sqrt_sum(select_sum(square.hi == 0, sum_constant(a, 1, 0), square)));
  const Scalar r = select(square.hi == 0, 0, root * s.up);
  return select(is_inf(z.re) | is_inf(z.im), infinity_like(a), r);
}

// a * b + c * d without cancellation error beyond rounding.
Scalar sum_of_products(Scalar a, Scalar b, Scalar c, Scalar d) {
  const Scalar p = c * d;
  return fma(a, b, p) + fma(c, d, -p);
}

ScalarComplex multiply_f64(ScalarComplex a, ScalarComplex b) {
  const Scalar re = sum_of_products(a.re, b.re, -a.im, b.im), im = sum_of_products(a.re, b.im, a.im, b.re);
  // An overflowing product makes the error term NaN; the plain formula then has the right infinities.
  const Scalar plain_re = a.re * b.re - a.im * b.im, plain_im = a.re * b.im + a.im * b.re;
  return {select(is_nan(re), plain_re, re), select(is_nan(im), plain_im, im)};
}

ScalarComplex divide_f64(ScalarComplex a, ScalarComplex b) {
  const Scale sa = scale_of(a), sb = scale_of(b);
  const ScalarComplex n{a.re * sa.inverse, a.im * sa.inverse}, d{b.re * sb.inverse, b.im * sb.inverse};
  const Scalar size = fma(d.re, d.re, d.im * d.im);
  const Scalar re = sum_of_products(n.re, d.re, n.im, d.im) / size,
               im = sum_of_products(n.im, d.re, -n.re, d.im) / size;
  ScalarComplex q{re * sb.inverse * sa.up, im * sb.inverse * sa.up};
  const Scalar inf = infinity_like(re), zero = constant(re, 0);
  // C Annex G: a zero divisor gives infinities, an infinite dividend stays infinite, an infinite divisor
  // gives zeros.
  const Scalar a_inf = is_inf(a.re) | is_inf(a.im), b_inf = is_inf(b.re) | is_inf(b.im);
  const Scalar b_finite = is_finite(b.re) & is_finite(b.im), a_finite = is_finite(a.re) & is_finite(a.im);
  const Scalar signed_inf = with_sign_of_number(inf, b.re);
  q = select(is_zero(b) & ~(is_nan(a.re) & is_nan(a.im)), {signed_inf * a.re, signed_inf * a.im}, q);
  const auto boxed = [&](ScalarComplex z) {
    return ScalarComplex{with_sign_of_number(convert_to(is_inf(z.re), DType::kF64), z.re),
                         with_sign_of_number(convert_to(is_inf(z.im), DType::kF64), z.im)};
  };
  const ScalarComplex ba = boxed(a), bb = boxed(b);
  q = select(a_inf & b_finite & ~is_zero(b),
             {inf * (ba.re * b.re + ba.im * b.im), inf * (ba.im * b.re - ba.re * b.im)}, q);
  return select(b_inf & a_finite,
                {zero * (a.re * bb.re + a.im * bb.im), zero * (a.im * bb.re - a.re * bb.im)}, q);
}

ScalarComplex exponential_f64(ScalarComplex z) {
  // exp(re) in two factors: it may overflow where exp(re) * cos(im) does not.
  const Scalar half = limit(z.re, -2000, 2000) * 0.5;
  const Scalar e = exponential(half), inf = infinity_like(half);
  const Scalar c = cosine(z.im), s = sine(z.im);
  const Scalar whole = exponential(z.re);
  const Scalar safe = abs(z.re) < 700;
  const auto times = [&](Scalar f) { return select(safe, whole * f, e * f * e); };
  ScalarComplex r{times(c), times(s)};
  r.im = select(z.im == 0, z.im, r.im);
  r.re = select(z.im == 0, whole, r.re);
  // exp(-inf + i*anything) is 0; exp(inf + i*nonfinite) is inf + i*NaN.
  const Scalar zero = constant(half, 0), im_finite = is_finite(z.im);
  r = select((z.re == -inf) & ~im_finite, {zero, zero}, r);
  return select((z.re == inf) & ~im_finite, {inf, nan_like(half)}, r);
}

ScalarComplex exponential_minus_one_f64(ScalarComplex z) {
  // exp(a) cos(b) - 1 = expm1(a) cos(b) - 2 sin(b/2)^2.
  const Scalar s = sine(z.im * 0.5), m = exponential_minus_one(z.re);
  const ScalarComplex e = exponential_f64(z);
  const Scalar re = fma(m, cosine(z.im), -2 * s * s);
  const Scalar plain = (z.re > 700) | ~is_finite(z.im);
  return {select(z.im == 0, m, select(plain, e.re - 1, re)), e.im};
}

// log |z| for finite z != 0, precise near |z| = 1.
Scalar log_abs(ScalarComplex z) {
  const Scale s = scale_of(z);
  const Scalar a = z.re * s.inverse, b = z.im * s.inverse;
  const Sum square = add_sums(two_product(a, a), two_product(b, b));
  const Scalar field = convert_to(bitcast(to_bits(s.up) >> 52, DType::kS64), DType::kF64) - 1023;
  const Scalar usable = square.hi >= 0x1p-1000;
  const Sum log = log_sum(select_sum(usable, square, sum_constant(a, 1, 0)), field + field);
  return select(usable, value(scale_sum(log, 0.5)), scalar::log(hypot_f64(z)));
}

ScalarComplex log_f64(ScalarComplex z) {
  const Scalar size = hypot_f64(z), inf = infinity_like(size);
  const Scalar regular = (size > 0) & is_finite(z.re) & is_finite(z.im);
  const Scalar re = select(regular, log_abs(z), log(size));
  return {select(is_inf(z.re) | is_inf(z.im), inf, re), atan2(z.im, z.re)};
}

ScalarComplex log_plus_one_f64(ScalarComplex z) {
  // |1 + z|^2 - 1 = 2 a + a^2 + b^2; small where z is, so log1p keeps the digits.
  const Scalar near = (abs(z.re) < 0.5) & (abs(z.im) < 0.5);
  const Scalar a = select(near, z.re, constant(z.re, 0.25)), b = select(near, z.im, constant(z.re, 0.25));
  const Sum squares = add_sums(two_product(a, a), two_product(b, b));
  const Scalar w = value(add_number(squares, 2 * a));
  const ScalarComplex shifted{z.re + 1, z.im};
  const ScalarComplex far = log_f64(shifted);
  return {select(near, 0.5 * log_plus_one(w), far.re), atan2(z.im, shifted.re)};
}

ScalarComplex sqrt_f64(ScalarComplex z) {
  const Scale s = scale_of(z);
  // Scaling by an even power of two: sqrt(z) = sqrt(z / 4^k) * 2^k.
  const Scalar e = to_bits(s.up) >> 52, odd = (e & 1) == 0;
  const Scalar k = select(odd, constant(e, 1), constant(e, 0));
  const Scalar up = e - k;  // odd biased exponent: an even power
  const Scalar inverse = bitcast((2046 - up) << 52, DType::kF64);
  const Scalar half_up = bitcast((((up - 1023) + 2046) >> 1) << 52, DType::kF64);
  const ScalarComplex v{z.re * inverse, z.im * inverse};
  const Scalar size = hypot_f64(v);
  const Scalar t = sqrt((abs(v.re) + size) * 0.5), inf = infinity_like(t);
  const Scalar other = select(t == 0, 0, abs(v.im) / (2 * t));
  const Scalar left = z.re < 0;
  ScalarComplex r{select(left, other, t) * half_up,
                  with_sign_of_number(select(left, t, other) * half_up, z.im)};
  r = select(is_zero(z), {constant(t, 0), z.im}, r);
  const Scalar nan = nan_like(t), zero = constant(t, 0);
  r = select(z.re == inf, {inf, select(is_nan(z.im), nan, with_sign_of_number(zero, z.im))}, r);
  r = select(z.re == -inf, {select(is_nan(z.im), nan, zero), with_sign_of_number(inf, z.im)}, r);
  return select(is_inf(z.im), {inf, z.im}, r);
}

ScalarComplex reciprocal(ScalarComplex z) {
  const Scalar one = constant(z.re, 1);
  return divide_f64({one, constant(z.re, 0)}, z);
}

ScalarComplex rsqrt_f64(ScalarComplex z) {
  const ScalarComplex r = reciprocal(sqrt_f64(z));
  const Scalar inf = infinity_like(z.re);
  return select(is_zero(z), {inf, nan_like(inf)}, r);
}

ScalarComplex sine_f64(ScalarComplex z) {
  // Beyond |im| = 700 cosh and sinh are exp / 2, taken in two factors.
  const Scalar c = cosine(z.re), s = sine(z.re), a = abs(z.im);
  const Scalar large = a > 700, e = exponential(limit(a, 0, 2000) * 0.5);
  const auto times = [&](Scalar f, Scalar h) { return select(large, e * (f * 0.5) * e, f * h); };
  ScalarComplex r{times(s, cosh(z.im)), with_sign_of_number(constant(a, 1), z.im) * times(c, sinh(a))};
  const Scalar one = constant(a, 1), zero = constant(a, 0), inf = infinity_like(a);
  r.re = select(z.re == 0, z.re, r.re);
  r.im = select(z.im == 0, with_sign_of_number(zero, z.im) * with_sign_of_number(one, c), r.im);
  r.im = select((a == inf) & is_nan(c), z.im, r.im);  // C Annex G: sinh(inf + i NaN) is inf + i NaN
  return r;
}

ScalarComplex cosine_f64(ScalarComplex z) {
  const Scalar c = cosine(z.re), s = sine(z.re), a = abs(z.im), one = constant(a, 1), zero = constant(a, 0);
  const Scalar large = a > 700, e = exponential(limit(a, 0, 2000) * 0.5);
  const auto times = [&](Scalar f, Scalar h) { return select(large, e * (f * 0.5) * e, f * h); };
  const Scalar signed_one = with_sign_of_number(one, z.im);
  Scalar im = -signed_one * times(s, sinh(a));
  im = select((z.re == 0) | (z.im == 0), -signed_one * with_sign_of_number(zero, s), im);
  // C Annex G: cosh(inf + i NaN) is inf + i NaN.
  return {select((a == infinity_like(a)) & is_nan(c), a, times(c, cosh(z.im))), im};
}

ScalarComplex tanh_f64(ScalarComplex z) {
  // tanh(a + ib) = (tanh(a) (1 + t^2) + i t / cosh(a)^2) / (1 + tanh(a)^2 t^2), t = tan(b); over sin and cos,
  // so that a pole of t does no harm.
  const Scalar a = limit(z.re, -350, 350);
  const Scalar sh = sinh(a), ch = cosh(a), s = sine(z.im), c = cosine(z.im);
  const Scalar d = fma(sh, sh, c * c);
  ScalarComplex r{sh * ch / d, s * c / d};
  const Scalar large = abs(z.re) > 22, e = exponential(-abs(z.re));
  r = select(large, {with_sign_of_number(constant(a, 1), z.re), 4 * s * c * e * e}, r);
  r.re = select(z.re == 0, z.re, r.re);
  r.im = select(z.im == 0, z.im, r.im);
  const Scalar zero = constant(a, 0), nan = nan_like(a);
  r = select(~is_finite(z.im) & (z.re != 0), {nan, nan}, r);
  return select(is_inf(z.re) & ~is_finite(z.im), {with_sign_of_number(constant(a, 1), z.re), zero}, r);
}

// f(i z) / i, which makes a hyperbolic function of a circular one and the other way round.
template <ScalarComplex (*f)(ScalarComplex)>
ScalarComplex turned(ScalarComplex z) {
  const ScalarComplex w = f({-z.im, z.re});
  return {w.im, -w.re};
}

ScalarComplex cosh_f64(ScalarComplex z) { return cosine_f64({-z.im, z.re}); }

// Beyond it 1 adds nothing to |z|^2.
Scalar is_large(ScalarComplex z) { return (abs(z.re) >= 0x1p28) | (abs(z.im) >= 0x1p28); }

// For z = x + i y in the first quadrant: both parts of asin(z), and the real part of acos(z). After T. Hull,
// T. Fairgrieve, P. Tang, "Implementing the complex arcsine and arccosine functions using exception handling"
// (1997): with r = |z + 1|, s = |z - 1| and a = (r + s) / 2, sin(re) = x / a and cosh(im) = a, where a - x
// and a - 1 are sums of positive terms. Powers of y are factors, so that they may underflow.
struct InverseSine {
  Scalar sine, cosine, im;
};
InverseSine inverse_sine(ScalarComplex z) {
  const Scalar large = is_large(z), x = select(large, 0.5, z.re), y = select(large, 0.5, z.im);
  const Scalar r = hypot_f64({x + 1, y}), s = hypot_f64({x - 1, y}), a = (r + s) * 0.5;
  const Scalar up = r + x + 1, down = s + abs(x - 1), left = x < 1;
  // sqrt(a^2 - x^2): a - x = (y^2 / up + down) / 2 on the left of 1, (y^2 / up + y^2 / down) / 2 on the
  // right.
  const Scalar sum = (a + x) * 0.5, y_up = y * y / up;
  const Scalar adjacent =
      select(x <= 1, sqrt(sum * (y_up + down)), y * sqrt(select(x <= 1, sum, sum / up + sum / down)));
  // a - 1 and sqrt(a^2 - 1).
  const Scalar g = (1 / up + 1 / down) * 0.5, above = (y_up + down) * 0.5;
  const Scalar a_minus_1 = select(left, y * (y * g), above);
  const Scalar root = select(left, y * sqrt(g * (a + 1)), sqrt(above * (a + 1)));
  const ScalarComplex log_z = log_f64(z);  // asin(z) is near -i log(2 i z) where z is large
  return {select(large, atan2(z.re, z.im), atan2(x, adjacent)),
          select(large, atan2(z.im, z.re), atan2(adjacent, x)),
          select(large, log_z.re + kLn2, log_plus_one(a_minus_1 + root))};
}
ScalarComplex magnitudes(ScalarComplex z) { return {abs(z.re), abs(z.im)}; }

ScalarComplex asin_f64(ScalarComplex z) {
  const InverseSine w = inverse_sine(magnitudes(z));
  return {select(z.re == 0, z.re, with_sign_of_number(w.sine, z.re)), with_sign_of_number(w.im, z.im)};
}

// acos(z) for any sign of the real part; the imaginary part's sign is left open.
ScalarComplex acos_magnitude(ScalarComplex z) {
  const InverseSine w = inverse_sine(magnitudes(z));
  const Scalar re = select(z.re < 0, (kPi - w.cosine) + kPiLow, w.cosine);
  return {select(z.re == 0, kPi / 2, re), w.im};
}
ScalarComplex acos_f64(ScalarComplex z) {
  const ScalarComplex w = acos_magnitude(z);
  return {w.re, with_sign_of_number(w.im, -z.im)};
}
ScalarComplex acosh_f64(ScalarComplex z) {
  const ScalarComplex w = acos_magnitude(z);
  return {w.im, with_sign_of_number(w.re, z.im)};
}

// W. Kahan, "Branch cuts for complex elementary functions" (1987):
// log1p(4 x / |1 - z|^2) / 4 + i atan2(2 y, (1 - x) (1 + x) - y^2) / 2 for x >= 0.
ScalarComplex atanh_f64(ScalarComplex z) {
  const Scalar large = is_large(z), zero = constant(z.re, 0);
  const Scalar x = select(large, 0.5, abs(z.re)), y = select(large, 0.5, abs(z.im));
  const Scalar left = 1 - x, square = fma(left, left, y * y);
  // Beside the pole y^2 underflows.
  const Scalar near = (x == 1) & (y < 0x1p-200);
  const Scalar re = select(near, (kLn2 - log(y)) * 0.5, log_plus_one(4 * x / square) * 0.25);
  const Scalar im = atan2(2 * y, fma(-y, y, left * (1 + x))) * 0.5;
  // 1 / z where z is large.
  const Scale s = scale_of(z);
  const Scalar u = abs(z.re) * s.inverse, v = z.im * s.inverse, any_inf = is_inf(z.re) | is_inf(z.im);
  const Scalar far_re = select(any_inf, zero, u / fma(u, u, v * v) * s.inverse);
  const Scalar unknown = is_nan(z.im) | (is_nan(z.re) & ~is_inf(z.im));
  const Scalar far_im = select(unknown, nan_like(zero), constant(zero, kPi / 2));
  return {select(z.re == 0, z.re, with_sign_of_number(select(large, far_re, re), z.re)),
          with_sign_of_number(select(large, far_im, im), z.im)};
}

// -i log((x + i y) / r) with r = sqrt(x^2 + y^2), as twice the angle whose tangent is y / (r + x) = (r - x) /
// y: the one of the two in which nothing cancels. r^2 is (x + i y) (x - i y), exact differences near its
// zeros.
ScalarComplex atan2_f64(ScalarComplex y, ScalarComplex x) {
  const ScalarComplex my = magnitudes(y), mx = magnitudes(x);
  const Scale s = scale_of({maximum(my.re, my.im), maximum(mx.re, mx.im)});
  const ScalarComplex v{y.re * s.inverse, y.im * s.inverse}, u{x.re * s.inverse, x.im * s.inverse};
  const ScalarComplex r = sqrt_f64(multiply_f64({u.re - v.im, u.im + v.re}, {u.re + v.im, u.im - v.re}));
  const ScalarComplex sum{r.re + u.re, r.im + u.im}, rest{r.re - u.re, r.im - u.im};
  const Scalar by_sum = fma(sum.re, sum.re, sum.im * sum.im) >= fma(rest.re, rest.re, rest.im * rest.im);
  const ScalarComplex half = turned<atanh_f64>(divide_f64(select(by_sum, v, rest), select(by_sum, sum, v)));
  return select(is_zero(x) & is_zero(y), y, {half.re * 2, half.im * 2});
}

ScalarComplex logistic_f64(ScalarComplex z) {
  // 1 / (1 + exp(-z)), or exp(z) / (1 + exp(z)) on the left, so that exp stays below 1.
  const Scalar left = z.re < 0;
  const ScalarComplex e = exponential_f64(select(left, z, {-z.re, -z.im}));
  const ScalarComplex one{constant(z.re, 1), constant(z.re, 0)};
  // 1 + exp(a) cos(b) = expm1(a) cos(b) + 2 cos(b/2)^2 keeps its digits near the poles.
  const Scalar a = -abs(z.re), c = cosine(z.im * 0.5);
  const Scalar re = fma(exponential_minus_one(a), cosine(z.im), 2 * c * c);
  return divide_f64(select(left, e, one), {select(is_finite(z.im), re, e.re + 1), e.im});
}

ScalarComplex power_f64(ScalarComplex a, ScalarComplex b) {
  const ScalarComplex p = exponential_f64(multiply_f64(b, log_f64(a)));
  const Scalar zero = constant(a.re, 0), one = constant(a.re, 1);
  const ScalarComplex at_zero = select(b.re > 0, {zero, zero}, {infinity_like(zero), nan_like(zero)});
  return select(is_zero(b), {one, zero}, select(is_zero(a), at_zero, p));
}

Scalar less(ScalarComplex a, ScalarComplex b) { return compare(a, b, Direction::kLt); }
Scalar has_nan(ScalarComplex z) { return is_nan(z.re) | is_nan(z.im); }

}  // namespace

Scalar abs(ScalarComplex z) {
  if (z.re.type() == DType::kF64) return hypot_f64(z);
  // Squares of f32 are exact in f64 and far from its ends.
  return in_f64(
      [](ScalarComplex v) {
        const Scalar inf = infinity_like(v.re), infinite = (abs(v.re) == inf) | (abs(v.im) == inf);
        return select(infinite, inf, sqrt(fma(v.re, v.re, v.im * v.im)));
      },
      z);
}
ScalarComplex negate(ScalarComplex z) { return {-z.re, -z.im}; }

ScalarComplex sign(ScalarComplex z) {
  return in_f64(
      [](ScalarComplex v) {
        const Scale s = scale_of(v);
        const ScalarComplex u{v.re * s.inverse, v.im * s.inverse};
        const Scalar size = hypot_f64(u);
        const Scalar zero = constant(v.re, 0);
        return select(is_zero(v), {zero, zero}, {u.re / size, u.im / size});
      },
      z);
}

ScalarComplex square(ScalarComplex z) { return multiply(z, z); }
ScalarComplex add(ScalarComplex a, ScalarComplex b) { return {a.re + b.re, a.im + b.im}; }
ScalarComplex subtract(ScalarComplex a, ScalarComplex b) { return {a.re - b.re, a.im - b.im}; }
ScalarComplex multiply(ScalarComplex a, ScalarComplex b) { return in_f64(multiply_f64, a, b); }
ScalarComplex divide(ScalarComplex a, ScalarComplex b) { return in_f64(divide_f64, a, b); }
ScalarComplex maximum(ScalarComplex a, ScalarComplex b) {
  return select(has_nan(a), a, select(has_nan(b), b, select(less(a, b), b, a)));
}
ScalarComplex minimum(ScalarComplex a, ScalarComplex b) {
  return select(has_nan(a), a, select(has_nan(b), b, select(less(b, a), b, a)));
}
ScalarComplex atan2(ScalarComplex y, ScalarComplex x) { return in_f64(atan2_f64, y, x); }
ScalarComplex power(ScalarComplex a, ScalarComplex b) { return in_f64(power_f64, a, b); }
ScalarComplex exponential(ScalarComplex z) { return in_f64(exponential_f64, z); }
ScalarComplex exponential_minus_one(ScalarComplex z) { return in_f64(exponential_minus_one_f64, z); }
ScalarComplex log(ScalarComplex z) { return in_f64(log_f64, z); }
ScalarComplex log_plus_one(ScalarComplex z) { return in_f64(log_plus_one_f64, z); }
ScalarComplex logistic(ScalarComplex z) { return in_f64(logistic_f64, z); }
ScalarComplex sqrt(ScalarComplex z) { return in_f64(sqrt_f64, z); }
ScalarComplex rsqrt(ScalarComplex z) { return in_f64(rsqrt_f64, z); }
ScalarComplex sine(ScalarComplex z) { return in_f64(sine_f64, z); }
ScalarComplex cosine(ScalarComplex z) { return in_f64(cosine_f64, z); }
ScalarComplex tan(ScalarComplex z) { return in_f64(turned<tanh_f64>, z); }
ScalarComplex tanh(ScalarComplex z) { return in_f64(tanh_f64, z); }
ScalarComplex asin(ScalarComplex z) { return in_f64(asin_f64, z); }
ScalarComplex acos(ScalarComplex z) { return in_f64(acos_f64, z); }
ScalarComplex atan(ScalarComplex z) { return in_f64(turned<atanh_f64>, z); }
ScalarComplex sinh(ScalarComplex z) { return in_f64(turned<sine_f64>, z); }
ScalarComplex cosh(ScalarComplex z) { return in_f64(cosh_f64, z); }
ScalarComplex asinh(ScalarComplex z) { return in_f64(turned<asin_f64>, z); }
ScalarComplex acosh(ScalarComplex z) { return in_f64(acosh_f64, z); }
ScalarComplex atanh(ScalarComplex z) { return in_f64(atanh_f64, z); }

}  // namespace lamina::hlo::scalar
