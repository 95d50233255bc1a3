// sine, cosine, tan with full range reduction; asin, acos, atan, atan2.
#include <vector>

#include "hlo/scalar/coefficients.h"
#include "hlo/scalar/elementary.h"

namespace lamina::hlo::scalar {
namespace {

using namespace coefficients;

constexpr double kHalfPi = kPi / 2, kHalfPiLow = kPiLow / 2;
constexpr double kQuarterPi = kPi / 4, kQuarterPiLow = kPiLow / 4;

// 2/pi: 64 zero bits and then its binary digits.
constexpr uint64_t kTwoOverPi[] = {
    0,
    0xa2f9836e4e441529,
    0xfc2757d1f534ddc0,
    0xdb6295993c439041,
    0xfe5163abdebbc561,
    0xb7246e3a424dd2e0,
    0x06492eea09d1921c,
    0xfe1deb1cb129a73e,
    0xe88235f52ebb4484,
    0xe99c7026b45f7e41,
    0x3991d639835339f4,
    0x9c845f8bbdf9283b,
    0x1ff897ffde05980f,
    0xef2f118b5a0a6d1f,
    0x6d367ecf27cb09b7,
    0x4f463f669e5fea2d,
    0x7527bac7ebe5f17b,
    0x3d0739f78a5292ea,
    0x6bfb5fb11f8d5d08,
    0x56033046fc7b6bab,
};

struct Mantissa {
  Scalar m;      // x = m * 2^e
  Scalar digit;  // e - 2 + 64: the digits of kTwoOverPi before it contribute whole turns only
};
Mantissa mantissa_of(Scalar x) {
  const Scalar bits = to_bits(x);
  const Scalar m =
      (bits & constant_bits(bits, 0x000fffffffffffffu)) | constant_bits(bits, 0x0010000000000000u);
  return {m, (bits >> 52) - (1075 - 62)};
}

// `count` consecutive 64-bit groups of the digits of 2/pi, from bit `digit` on, digit < 64 * positions.
std::vector<Scalar> digits_from(Scalar digit, int positions, int count) {
  std::vector<Scalar> words;
  for (int i = 0; i < positions + count; ++i)
    words.push_back(constant_bits(digit, i < 20 ? kTwoOverPi[i] : 0));
  const Scalar index = digit >> 6, shift = digit & 63, back = 64 - shift;
  int reach = 1;
  while (reach < positions) reach *= 2;
  for (reach /= 2; reach >= 1; reach /= 2) {
    const Scalar skip = (index & reach) != 0;
    const size_t needed = static_cast<size_t>(count) + static_cast<size_t>(reach);
    std::vector<Scalar> next;
    for (size_t i = 0; i < needed && i < words.size(); ++i) {
      const size_t other = i + reach < words.size() ? i + reach : words.size() - 1;
      next.push_back(select(skip, words[other], words[i]));
    }
    words = next;
  }
  std::vector<Scalar> result;
  for (int i = 0; i < count; ++i) result.push_back((words[i] << shift) | (words[i + 1] >> back));
  return result;
}

struct Turned {
  Scalar high, low;  // |distance| from the nearest quarter turn, in 2^-128 turns
  Scalar below;      // the distance is negative
  Scalar quadrant;
};
Turned nearest_quarter(Scalar high, Scalar low) {
  const Scalar quadrant = (high + constant_bits(high, uint64_t{1} << 61)) >> 62;
  const Scalar rest = high - (quadrant << 62);
  const Scalar mask = 0 - (rest >> 63);
  return {rest ^ mask, low ^ mask, mask != 0, quadrant};
}

Scalar negate_if(Scalar p, Scalar x) { return select(p, -x, x); }
Sum negate_if(Scalar p, Sum x) { return {negate_if(p, x.hi), negate_if(p, x.lo)}; }
// x, negated where `sign` is negative.
Scalar with_sign_times(Scalar x, Scalar sign) {
  const Scalar bits = to_bits(sign);
  return bitcast(to_bits(x) ^ (bits & sign_mask(bits)), x.type());
}
Scalar has_bit(Scalar bits, int bit) { return (bits & (1 << bit)) != 0; }

Scalar sin_narrow(Scalar r) { return fma(r * (r * r), polynomial(r * r, kSinNarrow), r); }
Scalar cos_narrow(Scalar r) {
  const Scalar z = r * r;
  return fma(z * z, polynomial(z, kCosNarrow), fma(z, -0.5, 1));
}

// The sine of the angle that was reduced, and `turn` quarter turns more. Sine and cosine of r are made in one
// go, as base + (weight * polynomial + rest), where only the coefficients differ between elements.
Scalar sine_of(const Reduced& reduced, int turn) {
  const Scalar r = reduced.r.hi, low = reduced.r.lo, quadrant = reduced.quadrant + turn;
  const Scalar cosine = has_bit(quadrant, 0), z = r * r, half = z * 0.5;
  Scalar p = select(cosine, constant(r, kCos[5]), kSinShort[5]);
  for (int i = 4; i >= 0; --i) p = fma(p, z, select(cosine, constant(r, kCos[i]), kSinShort[i]));
  const Sum top = fast_difference(constant(r, 1), half);
  const Scalar cosine_rest = fma(-r, low, fma(fma(r, r, -z), -0.5, top.lo));
  const Scalar rest = select(cosine, cosine_rest, fma(-low, half, low));
  const Scalar size = select(cosine, top.hi, r) + fma(select(cosine, z, r) * z, p, rest);
  const Scalar sign = (quadrant << 62) & sign_mask(quadrant);
  return bitcast(to_bits(size) ^ sign, DType::kF64);
}

// The usual reduction subtracts multiples of pi/2 (pi) whose count is rounded to an integer by adding 1.5 *
// 2^52, which leaves the count in the lowest bits of the sum. It serves up to these magnitudes; greater ones,
// infinities and NaN take the digits of 2/pi, seldom.
constexpr double kUsual = 0x1p27, kUsualNarrow = 0x1p30;
Scalar is_unusual(Scalar magnitude, double most) { return ~(magnitude <= most); }

// 1/(2 pi) in parts of 28 bits: all that reaches the fraction of a product with a value of f32.
constexpr double kInverseTurnParts[] = {0x1.45f306cp-3,   0x1.c9c882ap-31, 0x1.4fe13a8p-61, 0x1.f47d4dp-88,
                                        0x1.bb81b6cp-115, 0x1.4acc9ep-145, 0x1.0e4107cp-172};

// The first step is exact: its result is below 1 and a multiple of the last digit of pi/2 and of that of x.
// With what the second loses to rounding, r is right to 2^-56 of itself unless x is nearer than 2^-44 x to a
// multiple of pi/2, where the second is no smaller than the first (the reduction of Cody and Waite, Software
// Manual for the Elementary Functions, 1980, with a fused step in place of short parts).
constexpr double kNearest = 0x1p-44;
Reduced usual_quarter_turns(Scalar x) {
  const Scalar counted = fma(x, 2 / kPi, kRound), k = counted - kRound;
  const Scalar first = fma(k, -kHalfPi, x), r = fma(k, -kHalfPiLow, first);
  return {{r, fma(k, -kHalfPiLow, first - r)}, to_bits(counted)};
}

// x in turns, plus `offset`, without whole turns, for a value of f32 of any size: its 24 bits times each part
// of the digits are exact. Infinities and NaN give NaN.
Sum far_turns(Scalar x, double offset) {
  Sum turns{constant(x, offset), constant(x, 0)};
  for (double digits : kInverseTurnParts) {
    const Scalar product = x * digits;
    const Sum sum = two_sum(turns.hi, product - round_even(product));
    turns = {sum.hi, turns.lo + sum.lo};
  }
  return turns;
}

Reduced unusual_quarter_turns_narrow(Scalar x) {
  const Sum t = far_turns(x, 0);
  const Scalar k = round_even(t.hi * 4);
  return {{(fma(k, -0.25, t.hi) + t.lo) * (2 * kPi), constant(x, 0)}, to_bits(k + kRound)};
}

Reduced usual_quarter_turns_narrow(Scalar x) {
  const Scalar counted = fma(x, 2 / kPi, kRound), k = counted - kRound;
  return {{fma(-k, kHalfPiLow, fma(-k, kHalfPi, x)), constant(x, 0)}, to_bits(counted)};
}

// f of the reduced magnitude; NaN for infinities.
template <typename F>
Scalar with_usual_reduction(Scalar a, F f) {
  const Reduced usual = usual_quarter_turns(a);
  const Scalar rare = ~((a <= kUsual) & (a * kNearest <= abs(usual.r.hi)));
  const Scalar full = select(a < infinity_like(a), f(reduce_quarter_turns(a)), nan_like(a));
  return select_rare(rare, full, f(usual));
}

Scalar sine_f64(Scalar x) {
  const Scalar of_size = with_usual_reduction(abs(x), [](const Reduced& a) { return sine_of(a, 0); });
  return with_sign_times(of_size, x);
}
Scalar cosine_f64(Scalar x) {
  return with_usual_reduction(abs(x), [](const Reduced& a) { return sine_of(a, 1); });
}

// The sine of a magnitude of f32, f16 or bf16 of any size, in f64 and reduced by half turns, whose sign goes
// to what is left. `turn` 1: the cosine.
Scalar unusual_sine(Scalar magnitude, int turn) {
  const auto far = [=](Scalar v) {
    const Sum t = far_turns(v, 0.25 * turn);
    const Scalar k = round_even(t.hi + t.hi), size = (fma(k, -0.5, t.hi) + t.lo) * (2 * kPi);
    const Scalar r = bitcast(to_bits(size) ^ (to_bits(k + kRound) << 63), DType::kF64), z = r * r;
    return fma(r * z, polynomial(z, kSinHalfTurn), r);
  };
  return via_f64(far, magnitude);
}

// f32, in f32, from quarter turns. The first step of the reduction is exact, for it leaves a
// multiple of the last digit of pi/2 or of that of x that is below 1; what the second step rounds off is
// kept. The second takes less than 2^-7 in units of 2^-31, of which the first left a multiple if k is not 0:
// that makes their sum exact in the short form, whichever is larger.
constexpr double kUsualSingle = 0x1p17, kHalfPiLowSingle = -0x1.777a5cp-25,
                 kHalfPiRestSingle = -0x1.ee59dap-50;
Scalar usual_sine_f32(Scalar a, int turn) {
  constexpr double kRoundSingle = 0x1.8p23;
  const Scalar count = fma(a, 2 / kPi, kRoundSingle), k = count - kRoundSingle;
  const Sum second = two_product(k, constant(k, -kHalfPiLowSingle));
  const Sum sum = fast_two_sum(fma(k, -kHalfPi, a), second.hi);
  const Scalar r = sum.hi, low = sum.lo + fma(k, -kHalfPiRestSingle, second.lo);  // sum.lo comes late
  const Scalar quadrant = to_bits(count) + turn, z = r * r, half = z * 0.5;
  const Scalar is_cosine = has_bit(quadrant, 0);
  // Sine and cosine are made in one go, as in sine_of. What 1 - half rounds off comes last.
  static_assert(std::size(kSinSingle) == 4 && std::size(kCosSingle) == 3);
  Scalar p = select(is_cosine, constant(r, 0), kSinSingle[3]);
  for (int i = 2; i >= 0; --i) p = fma(p, z, select(is_cosine, constant(r, kCosSingle[i]), kSinSingle[i]));
  const Sum top = fast_difference(constant(r, 1), half);
  const Scalar less = select(is_cosine, fma(r, r, -z) * -0.5, low);
  const Scalar late = fma(-low, select(is_cosine, r, half), less);
  const Scalar rest = select(is_cosine, late + top.lo, late);
  const Scalar size = select(is_cosine, top.hi, r) + fma(select(is_cosine, z, r) * z, p, rest);
  return bitcast(to_bits(size) ^ ((quadrant << 30) & sign_mask(quadrant)), DType::kF32);
}
Scalar sine_f32(Scalar a, int turn) {
  return select_rare(is_unusual(a, kUsualSingle), unusual_sine(a, turn), usual_sine_f32(a, turn));
}

// f16 and bf16, in f32, from half turns, whose sign goes to what is left. The first step is exact, for it
// leaves a multiple of the last digit of pi that is below 2. It serves all of f16, and of bf16 magnitudes up
// to kUsualHalf.
constexpr double kUsualHalf = 0x1p20, kPiLowSingle = -0x1.777a5cp-24;
Scalar half_turn_sine_half(Scalar a, int turn, std::span<const double> c) {
  constexpr double kRoundSingle = 0x1.8p23;
  const Scalar count = turn == 0 ? fma(a, 1 / kPi, kRoundSingle) : fma(a, 1 / kPi, -0.5) + kRoundSingle;
  const Scalar k = turn == 0 ? count - kRoundSingle : count - kRoundSingle + 0.5;
  const Scalar size = fma(k, -kPiLowSingle, fma(k, -kPi, a));
  const Scalar odd = (turn == 0 ? to_bits(count) : ~to_bits(count)) << 31;
  const Scalar r = bitcast(to_bits(size) ^ odd, DType::kF32), z = r * r;
  return fma(r * z, polynomial(z, c), r);
}
Scalar half_turn_sine_bf16(Scalar a, int turn) {
  return select_rare(is_unusual(a, kUsualHalf), unusual_sine(a, turn),
                     half_turn_sine_half(a, turn, kSinBf16));
}
Scalar sine_bf16(Scalar x) { return with_sign_times(half_turn_sine_bf16(abs(x), 0), x); }
Scalar cosine_bf16(Scalar x) { return half_turn_sine_bf16(abs(x), 1); }
Scalar sine_f16(Scalar x) {
  const Scalar a = abs(x), s = half_turn_sine_half(a, 0, kSinF16);
  // One result is nearer to the middle of two numbers than f32 can tell.
  return with_sign_times(select(a == 0x1.accp-3, 0x1.a9cp-3, s), x);
}
Scalar cosine_f16(Scalar x) { return half_turn_sine_half(abs(x), 1, kCosF16); }

Scalar tan_f64(Scalar x) {
  const Scalar of_size = with_usual_reduction(abs(x), [](const Reduced& a) {
    const Sum s = sin_sum(a.r), c = cos_sum(a.r);
    const Scalar odd = has_bit(a.quadrant, 0);
    return negate_if(odd, value(divide_sums(select_sum(odd, c, s), select_sum(odd, s, c))));
  });
  return select(abs(x) < 0x1p-30, x, with_sign_times(of_size, x));
}
Scalar tan_narrow(Scalar x) {
  const auto tangent = [&](const Reduced& a) {
    const Scalar s = sin_narrow(a.r.hi), c = cos_narrow(a.r.hi), odd = has_bit(a.quadrant, 0);
    const Scalar t = select(odd, c, s) / select(odd, s, c);
    return select(x == 0, x, select(abs(x) < infinity_like(x), negate_if(odd ^ (x < 0), t), nan_like(x)));
  };
  const Scalar a = abs(x);
  return select_rare(is_unusual(a, kUsualNarrow), tangent(unusual_quarter_turns_narrow(a)),
                     tangent(usual_quarter_turns_narrow(a)));
}

struct ArcParts {
  Sum small;  // asin(x) where |x| <= 1/2
  Sum large;  // acos(|x|) where |x| >= 1/2
  Scalar is_small;
};
ArcParts arc_parts(Scalar x) {
  const Scalar a = abs(x), is_small = a <= 0.5;
  const Scalar half_rest = (1 - a) * 0.5;
  const Scalar z = select(is_small, x * x, half_rest), p = polynomial(z, kAsin) * z;
  const Sum root = sqrt_sum({select(half_rest > 0, half_rest, constant(x, 1)), constant(x, 0)});
  const Scalar hi = select(half_rest > 0, root.hi, sqrt(half_rest));
  const Sum large =
      scale_sum(fast_two_sum(hi, fma(hi, p, select(half_rest > 0, root.lo, constant(x, 0)))), 2.0);
  return {fast_two_sum(x, x * p), large, is_small};
}

Scalar asin_f64(Scalar x) {
  const ArcParts p = arc_parts(x);
  const Scalar large = value(add_sums(sum_constant(x, kHalfPi, kHalfPiLow), negate_sum(p.large)));
  return select(abs(x) < 0x1p-30, x, select(p.is_small, value(p.small), with_sign_of(large, x)));
}

Scalar acos_f64(Scalar x) {
  const ArcParts p = arc_parts(x);
  const Scalar middle = value(add_sums(sum_constant(x, kHalfPi, kHalfPiLow), negate_sum(p.small)));
  const Scalar left = value(add_sums(sum_constant(x, kPi, kPiLow), negate_sum(p.large)));
  return select(p.is_small, middle, select(x < 0, left, value(p.large)));
}

Scalar atan_f64(Scalar x) {
  const Scalar a = limit(abs(x), 0, 0x1p60);
  const Scalar r = value(atan_ratio({a, constant(x, 0)}, {constant(x, 1), constant(x, 0)}));
  return select(abs(x) < 0x1p-30, x, with_sign_of(r, x));
}

Scalar atan2_f64(Scalar y, Scalar x) {
  const Scalar inf = infinity_like(x), zero = constant(x, 0), one = constant(x, 1);
  const Scalar y_inf = abs(y) == inf, x_inf = abs(x) == inf, any_inf = y_inf | x_inf;
  const Scalar a = select(any_inf, select(y_inf, one, zero), abs(y));
  const Scalar b = select(any_inf, select(x_inf, one, zero), abs(x));
  const Sum right = atan_ratio({a, zero}, {b, zero});
  const Sum left = add_sums(sum_constant(x, kPi, kPiLow), negate_sum(right));
  const Scalar bits = to_bits(x);
  const Scalar is_left = (bits & sign_mask(bits)) != constant_bits(bits, 0);
  const Scalar r = with_sign_of(value(select_sum(is_left, left, right)), y);
  return select(is_nan(x) | is_nan(y), nan_like(x), r);
}

}  // namespace

Reduced reduce_quarter_turns(Scalar x) {
  const Mantissa p = mantissa_of(x);
  const Scalar small = x < kQuarterPi;
  // Beneath pi/4 (digit < 9) the result is not used; the mask only keeps the table index in range.
  const std::vector<Scalar> f = digits_from(p.digit & 2047, 17, 3);
  // m times the 192 digits, modulo one turn, without the lowest 64 bits.
  const Scalar middle = p.m * f[1], carried = middle + mul_high(p.m, f[2]);
  const Scalar carry = convert_to(carried < middle, DType::kU64);
  const Turned t = nearest_quarter(p.m * f[0] + mul_high(p.m, f[1]) + carry, carried);
  const Scalar zeros = clz(t.high);
  const Scalar top = (t.high << zeros) | (t.low >> (64 - zeros)), rest = t.low << zeros;
  const Scalar hi = convert_to(top >> 11, DType::kF64);
  const Scalar lo = convert_to(((top << 53) | (rest >> 11)) >> 1, DType::kF64) * 0x1p-63;
  // Quarter turns per unit of hi.
  const Scalar unit = from_biased((1023 - 51) - zeros);
  const Scalar high_part = hi * kHalfPi;
  const Scalar low_part = fma(hi, kHalfPi, -high_part) + fma(hi, kHalfPiLow, lo * kHalfPi);
  const Sum r = scale_sum(negate_if(t.below, fast_two_sum(high_part, low_part)), unit);
  const Scalar zero = constant(x, 0);
  return {select_sum(small, {x, zero}, r), select(small, constant(t.quadrant, 0), t.quadrant)};
}

Sum sin_sum(Sum r) {
  const Scalar z = r.hi * r.hi;
  const Scalar tail = fma(r.hi * z, polynomial(z, kSin), fma(r.lo * z, -0.5, r.lo));
  return fast_two_sum(r.hi, tail);
}

Sum cos_sum(Sum r) {
  const Scalar z = r.hi * r.hi, z_low = fma(r.hi, r.hi, -z);
  const Sum top = fast_two_sum(constant(z, 1), -0.5 * z);
  const Scalar tail = fma(z * z, polynomial(z, kCos), -fma(r.hi, r.lo, 0.5 * z_low));
  return fast_two_sum(top.hi, top.lo + tail);
}

namespace {
struct HalfTurns {
  Sum r;
  Scalar quadrant;
};
HalfTurns reduce_pi(Scalar x) {
  const Scalar n = round_even(x + x), f = fma(n, -0.5, x);
  const Sum p = two_product(f, constant(f, kPi));
  const Scalar count = convert_to(fma(round_even(n * 0.25), -4, n), DType::kS64);
  return {fast_two_sum(p.hi, fma(f, kPiLow, p.lo)), bitcast(count, DType::kU64)};
}
}  // namespace

Sum sin_pi_sum(Scalar x) {
  const HalfTurns t = reduce_pi(x);
  return negate_if(has_bit(t.quadrant, 1), select_sum(has_bit(t.quadrant, 0), cos_sum(t.r), sin_sum(t.r)));
}
Sum cos_pi_sum(Scalar x) {
  const HalfTurns t = reduce_pi(x);
  const Scalar quadrant = t.quadrant + 1;
  return negate_if(has_bit(quadrant, 1), select_sum(has_bit(quadrant, 0), cos_sum(t.r), sin_sum(t.r)));
}

Sum atan_ratio(Sum y, Sum x) {
  const Scalar zero = constant(y.hi, 0), one = constant(y.hi, 1);
  const Scalar swap = x.hi < y.hi;
  const Scalar large = select(swap, y.hi, x.hi), small = select(swap, x.hi, y.hi);
  // Bring the larger near 1, so that nothing overflows and only a hopeless smaller one underflows.
  const Scalar field = to_bits(large) >> 52;
  const Scalar scale = from_biased(2046 - select(field > 2045, constant(field, 2045), field));
  const Scalar b = select(large == 0, one, large * scale), a = small * scale;
  const Scalar upper = a > b * 0.41421356237309503;
  const Sum difference = two_sum(a, -b), sum = two_sum(a, b);
  const Sum t = divide_sums(select_sum(upper, difference, {a, zero}), select_sum(upper, sum, {b, zero}));
  const Scalar z = t.hi * t.hi;
  const Sum low = fast_two_sum(t.hi, fma(t.hi * z, polynomial(z, kAtan), fma(-t.lo, z, t.lo)));
  const Sum angle = select_sum(upper, add_sums(sum_constant(zero, kQuarterPi, kQuarterPiLow), low), low);
  return select_sum(swap, add_sums(sum_constant(zero, kHalfPi, kHalfPiLow), negate_sum(angle)), angle);
}

Scalar sine(Scalar x) {
  if (is_storage_float(x.type())) return by_half(sine_f16, sine_bf16, x);
  return x.type() == DType::kF32 ? with_sign_times(sine_f32(abs(x), 0), x) : sine_f64(x);
}
Scalar cosine(Scalar x) {
  if (is_storage_float(x.type())) return by_half(cosine_f16, cosine_bf16, x);
  return x.type() == DType::kF32 ? sine_f32(abs(x), 1) : cosine_f64(x);
}
Scalar tan(Scalar x) { return by_width(tan_f64, tan_narrow, x); }
Scalar asin(Scalar x) { return via_f64(asin_f64, x); }
Scalar acos(Scalar x) { return via_f64(acos_f64, x); }
Scalar atan(Scalar x) { return via_f64(atan_f64, x); }
Scalar atan2(Scalar y, Scalar x) { return via_f64(atan2_f64, y, x); }

}  // namespace lamina::hlo::scalar
