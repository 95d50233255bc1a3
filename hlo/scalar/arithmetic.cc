// Arithmetic, rounding, comparison, bits and conversion.
#include "hlo/scalar/math.h"
#include "hlo/scalar/narrow.h"

namespace lamina::hlo::scalar {
namespace {

// The other functions of f16 and bf16 here compute in f32 and are exact there or innocuous to round twice.
template <typename F, typename... S>
Scalar in_f32(F f, S... x) {
  return with_f32_arithmetic(f, x...);
}

// Integer order that agrees with the total order of floats.
Scalar total_order_key(Scalar x) {
  x = canonical_nan(is_narrow(x.type()) ? convert_to(x, DType::kF32) : x);
  const DType type = byte_size(x.type()) == 2   ? DType::kS16
                     : byte_size(x.type()) == 4 ? DType::kS32
                                                : DType::kS64;
  const Scalar bits = bitcast(x, type);
  const Scalar all_sign = bits >> (bit_width(type) - 1);
  return bits ^ record(Prim::shr_logical, type, all_sign, constant(bits, 1));
}

Scalar ordered(Scalar a, Scalar b, Direction direction) {
  switch (direction) {
    case Direction::kEq:
      return a == b;
    case Direction::kNe:
      return a != b;
    case Direction::kLt:
      return a < b;
    case Direction::kLe:
      return a <= b;
    case Direction::kGt:
      return b < a;
    default:
      return b <= a;
  }
}

}  // namespace

Scalar canonical_nan(Scalar x) {
  const DType type = x.type();
  if (!is_float(type) || float_format(type).specials == FloatSpecials::kNone) return x;
  const Scalar seen = is_storage_float(type) ? convert_to(x, DType::kF32) : x;
  return select(is_nan(seen), nan_like(x), x);
}

Scalar abs(Scalar x) {
  if (is_bool(x.type()) || is_unsigned(x.type())) return x;
  return in_f32([](Scalar v) { return record(Prim::abs, v.type(), v); }, x);
}

Scalar negate(Scalar x) {
  if (is_bool(x.type())) return x;
  return in_f32([](Scalar v) { return -v; }, x);
}

Scalar sign(Scalar x) {
  if (is_bool(x.type())) return x;
  if (is_unsigned(x.type())) return convert_to(x != 0, x.type());
  return in_f32([](Scalar v) { return select(v > 0, 1, select(v < 0, -1, v)); }, x);
}

Scalar square(Scalar x) { return multiply(x, x); }

Scalar sqrt(Scalar x) {
  return in_f32([](Scalar v) { return record(Prim::sqrt, v.type(), v); }, x);
}
Scalar floor(Scalar x) {
  return in_f32([](Scalar v) { return record(Prim::floor, v.type(), v); }, x);
}
Scalar ceil(Scalar x) {
  return in_f32([](Scalar v) { return record(Prim::ceil, v.type(), v); }, x);
}
Scalar round_nearest_even(Scalar x) { return in_f32(round_even, x); }

Scalar round_nearest_afz(Scalar x) {
  return in_f32(
      [](Scalar v) {
        const Scalar size = abs(v), whole = trunc(size);
        const Scalar away = select(size - whole >= 0.5, whole + 1, whole);
        return with_sign_of(select(whole == size, size, away), v);
      },
      x);
}

Scalar is_finite(Scalar x) {
  if (!is_float(x.type())) return bool_constant(x, true);
  return in_f32([](Scalar v) { return abs(v) < infinity_like(v); }, x);
}

Scalar add(Scalar a, Scalar b) {
  if (is_bool(a.type())) return a | b;
  return in_f32([](Scalar x, Scalar y) { return x + y; }, a, b);
}
Scalar subtract(Scalar a, Scalar b) {
  if (is_bool(a.type())) return a ^ b;
  return in_f32([](Scalar x, Scalar y) { return x - y; }, a, b);
}
Scalar multiply(Scalar a, Scalar b) {
  if (is_bool(a.type())) return a & b;
  return in_f32([](Scalar x, Scalar y) { return x * y; }, a, b);
}
Scalar divide(Scalar a, Scalar b) {
  if (is_bool(a.type())) return a & b;
  return in_f32([](Scalar x, Scalar y) { return x / y; }, a, b);
}

Scalar maximum(Scalar a, Scalar b) {
  if (is_bool(a.type())) return a | b;
  if (!is_float(a.type())) return select(a < b, b, a);
  return in_f32([](Scalar x, Scalar y) { return record(Prim::maximum, x.type(), x, y); }, a, b);
}

Scalar minimum(Scalar a, Scalar b) {
  if (is_bool(a.type())) return a & b;
  if (!is_float(a.type())) return select(b < a, b, a);
  return in_f32([](Scalar x, Scalar y) { return record(Prim::minimum, x.type(), x, y); }, a, b);
}

Scalar clamp(Scalar low, Scalar x, Scalar high) { return minimum(maximum(x, low), high); }

Scalar next_after(Scalar from, Scalar to) {
  const DType type = from.type();
  const bool half = is_storage_float(type);
  const Scalar a = half ? convert_to(from, DType::kF32) : from;
  const Scalar b = half ? convert_to(to, DType::kF32) : to;
  const Scalar bits = to_bits(from), sign = sign_mask(bits);
  const Scalar moved = select((a < b) == (a > 0), bits + 1, bits - 1);
  const Scalar smallest = (to_bits(to) & sign) | 1;
  const Scalar stepped = select(a == 0, smallest, moved);
  const Scalar result = select(a == b, to, bitcast(stepped, type));
  return select(is_nan(a) | is_nan(b), nan_like(from), result);
}

Scalar reduce_precision(Scalar x, int exponent_bits, int mantissa_bits) {
  const DType type = x.type();
  if (is_narrow(type))
    return convert_to(reduce_precision(convert_to(x, DType::kF32), exponent_bits, mantissa_bits), type);
  const FloatFormat from = float_format(type);
  const Scalar bits = to_bits(x);
  const Scalar sign = bits & sign_mask(bits);
  Scalar magnitude = bits ^ sign;
  const uint64_t infinity = ((uint64_t{1} << from.exponent) - 1) << from.mantissa;
  const Scalar is_number = magnitude <= constant_bits(bits, infinity);
  if (mantissa_bits < from.mantissa) {
    const int dropped = from.mantissa - mantissa_bits;
    const uint64_t mask = (uint64_t{1} << dropped) - 1;
    const Scalar last = (magnitude >> dropped) & 1;
    const Scalar rounded = (magnitude + (constant_bits(bits, mask >> 1) + last)) & ~constant_bits(bits, mask);
    magnitude = select(magnitude == constant_bits(bits, infinity), magnitude, rounded);
  }
  if (exponent_bits < from.exponent) {
    // Exponents outside the smaller range become infinity or zero: the reduced type has no subnormals.
    const int reduced = exponent_bits > 0 ? (1 << (exponent_bits - 1)) - 1 : 0;
    const Scalar exponent = magnitude >> from.mantissa;
    magnitude = select(exponent > (from.bias + reduced), constant_bits(bits, infinity), magnitude);
    magnitude = select(exponent <= (from.bias - reduced), constant_bits(bits, 0), magnitude);
  }
  return select(is_number, bitcast(magnitude | sign, type), x);
}

Scalar and_(Scalar a, Scalar b) { return a & b; }
Scalar or_(Scalar a, Scalar b) { return a | b; }
Scalar xor_(Scalar a, Scalar b) { return a ^ b; }
Scalar not_(Scalar x) { return ~x; }
Scalar popcnt(Scalar x) { return record(Prim::popcount, x.type(), x); }
Scalar count_leading_zeros(Scalar x) { return clz(x); }
Scalar shift_left(Scalar a, Scalar b) { return a << b; }
Scalar shift_right_arithmetic(Scalar a, Scalar b) { return record(Prim::shr_arithmetic, a.type(), a, b); }
Scalar shift_right_logical(Scalar a, Scalar b) { return record(Prim::shr_logical, a.type(), a, b); }

Scalar bitcast_convert(Scalar x, DType to) {
  if (x.type() == to) return x;
  x = canonical_nan(x);
  if (bit_width(to) < 8) return narrow_from_bits(x, to);
  return bitcast(x, to);
}

Scalar compare(Scalar a, Scalar b, Direction direction) {
  return with_f32_arithmetic([direction](Scalar x, Scalar y) { return ordered(x, y, direction); }, a, b);
}

Scalar compare_total_order(Scalar a, Scalar b, Direction direction) {
  return ordered(total_order_key(a), total_order_key(b), direction);
}

Scalar compare(ScalarComplex a, ScalarComplex b, Direction direction) {
  if (direction == Direction::kEq) return (a.re == b.re) & (a.im == b.im);
  if (direction == Direction::kNe) return (a.re != b.re) | (a.im != b.im);
  const Direction strict = direction == Direction::kLe   ? Direction::kLt
                           : direction == Direction::kGe ? Direction::kGt
                                                         : direction;
  return ordered(a.re, b.re, strict) | ((a.re == b.re) & ordered(a.im, b.im, direction));
}

Scalar convert(Scalar x, DType to) { return convert_to(x, to); }
ScalarComplex convert_to_complex(Scalar x, DType part) {
  const Scalar re = convert_to(x, part);
  return {re, constant(re, 0)};
}
Scalar convert(ScalarComplex x, DType to) {
  if (is_bool(to)) return (x.re != 0) | (x.im != 0);
  return convert_to(x.re, to);
}
ScalarComplex convert_to_complex(ScalarComplex x, DType part) {
  return {convert_to(x.re, part), convert_to(x.im, part)};
}

ScalarComplex select(Scalar p, ScalarComplex a, ScalarComplex b) {
  return {select(p, a.re, b.re), select(p, a.im, b.im)};
}
ScalarComplex complex(Scalar re, Scalar im) { return {re, im}; }
Scalar real(Scalar x) { return x; }
Scalar real(ScalarComplex x) { return x.re; }
Scalar imag(Scalar x) { return constant(x, 0); }
Scalar imag(ScalarComplex x) { return x.im; }

}  // namespace lamina::hlo::scalar
