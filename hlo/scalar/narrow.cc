#include "hlo/scalar/narrow.h"

#include <array>
#include <bit>

#include "hlo/scalar/check.h"
#include "hlo/scalar/ops.h"

namespace lamina::hlo::scalar {
namespace {

constexpr int64_t kInfinity32 = 0x7f800000, kNan32 = 0x7fc00000;

Scalar shift_up(Scalar x, int by) { return x << by; }
Scalar shift_down(Scalar x, int by) { return record(Prim::shr_logical, x.type(), x, constant(x, by)); }
Scalar power_of_two_f32(Scalar like, int exponent) {
  return like.recorder()->constant_bits(DType::kF32, static_cast<uint64_t>(exponent + 127) << 23);
}

// --- floats ---

Scalar decode_scale(Scalar code) {
  const Scalar bits = select(code == 0, 0x400000, shift_up(code, 23));
  return bitcast(select(code == 255, kNan32, bits), DType::kF32);
}

// `x` of a narrow float type in f32.
Scalar decode(Scalar x) {
  const FloatFormat f = float_format(x.type());
  const int magnitude_bits = bit_width(x.type()) - 1;
  const Scalar code = convert_to(bitcast(x, DType::kU8), DType::kS32);
  if (f.specials == FloatSpecials::kScale) return decode_scale(code);
  const int64_t ones = (int64_t{1} << magnitude_bits) - 1;
  const Scalar magnitude = code & ones, sign = shift_up(shift_down(code, magnitude_bits), 31);
  const Scalar moved = shift_up(magnitude, 23 - f.mantissa);
  const Scalar least = power_of_two_f32(code, 1 - f.bias - f.mantissa);
  const Scalar subnormal = bitcast(convert_to(magnitude, DType::kF32) * least, DType::kS32);
  Scalar bits =
      select(magnitude < (1 << f.mantissa), subnormal, moved + (int64_t{127 - f.bias} << 23)) | sign;
  switch (f.specials) {
    case FloatSpecials::kIeee: {
      const int64_t infinity = ones >> f.mantissa << f.mantissa;
      const Scalar special = select(magnitude == infinity, kInfinity32, constant(code, kNan32)) | sign;
      bits = select(magnitude >= infinity, special, bits);
      break;
    }
    case FloatSpecials::kNan:
      bits = select(magnitude == ones, sign | kNan32, bits);
      break;
    case FloatSpecials::kNanMinusZero:
      bits = select(code == ones + 1, kNan32, bits);
      break;
    default:
      break;
  }
  return bitcast(bits, DType::kF32);
}

Scalar encode_scale(Scalar bits, Scalar magnitude) {
  const Scalar normal = shift_down(magnitude + 0x400000, 23);
  // The two least scales are 0x400000 and 0x800000, and what lies between goes to the nearer one.
  const Scalar small = convert_to(magnitude >= 0x600000, DType::kS32);
  const Scalar code = select(magnitude < 0x800000, small, normal);
  return select((bits <= 0) | (magnitude >= 0x7f400000), 255, code);
}

// `x` of type f32 in a narrow float type.
Scalar encode(Scalar x, DType to) {
  const FloatFormat f = float_format(to);
  const int magnitude_bits = bit_width(to) - 1;
  const Scalar bits = bitcast(x, DType::kS32);
  const Scalar magnitude = bits & 0x7fffffff;
  if (f.specials == FloatSpecials::kScale)
    return bitcast(convert_to(encode_scale(bits, magnitude), DType::kU8), to);
  const int64_t ones = (int64_t{1} << magnitude_bits) - 1;
  const Scalar sign = shift_up(shift_down(bits, 31), magnitude_bits);
  // Below the least normal number: the sum with a power of two whose last bit is the least subnormal rounds.
  const int aligned_exponent = 24 - f.bias - f.mantissa;
  const Scalar aligned = bitcast(magnitude, DType::kF32) + power_of_two_f32(bits, aligned_exponent);
  const Scalar subnormal = bitcast(aligned, DType::kS32) - (int64_t{aligned_exponent + 127} << 23);
  const int dropped = 23 - f.mantissa;
  const Scalar odd = shift_down(magnitude, dropped) & 1;
  const int64_t rebias = int64_t{127 - f.bias} << 23, half = int64_t{1} << (dropped - 1);
  const Scalar normal = shift_down(magnitude + (half - 1 - rebias) + odd, dropped);
  Scalar code = select(magnitude < (int64_t{128 - f.bias} << 23), subnormal, normal);
  const Scalar nan = magnitude > kInfinity32;
  switch (f.specials) {
    case FloatSpecials::kIeee: {
      const int64_t infinity = ones >> f.mantissa << f.mantissa;
      code = select(code < infinity, code, infinity);
      code = select(nan, infinity | (int64_t{1} << (f.mantissa - 1)), code) | sign;
      break;
    }
    case FloatSpecials::kNan:
      code = select(code < ones, code, ones) | sign;
      break;
    case FloatSpecials::kNanMinusZero:
      code = select(code > ones, ones + 1, select(code == 0, 0, code | sign));
      break;
    default:
      code = select(nan, ones + 1, select(code < ones, code, ones) | sign);
      break;
  }
  return bitcast(convert_to(code, DType::kU8), to);
}

// A u64 as a double whose last bit is 1 if that is inexact, so that a later rounding is the only one that
// counts.
Scalar to_f64_odd(Scalar x) {
  const Scalar low = constant_bits(x, 0x7ff);
  const Scalar sticky = select((x & low) != 0, 0x800, constant(x, 0));
  return convert_to(select(shift_down(x, 53) != 0, (x & ~low) | sticky, x), DType::kF64);
}

// An f32 that rounds to a narrow float as `x` does.
Scalar to_f32_odd(Scalar x) {
  const DType from = x.type();
  if (is_narrow(from) || is_bool(from) || from == DType::kF32 || byte_size(from) <= 2)
    return convert_to(x, DType::kF32);
  if (from == DType::kU64) return to_f32_odd(to_f64_odd(x));
  if (from == DType::kS64) {
    const Scalar negative = x < 0;
    const Scalar magnitude = to_f64_odd(bitcast(select(negative, -x, x), DType::kU64));
    return to_f32_odd(select(negative, -magnitude, magnitude));
  }
  if (from != DType::kF64) return to_f32_odd(convert_to(x, DType::kF64));
  const Scalar nearest = convert_to(x, DType::kF32);
  const Scalar back = convert_to(nearest, DType::kF64);
  const Scalar bits = bitcast(nearest, DType::kS32);
  const Scalar away = record(Prim::abs, DType::kF64, back) > record(Prim::abs, DType::kF64, x);
  const Scalar odd = select(away, bits - 1, bits) | 1;
  return bitcast(select((back == x) | is_nan(x), bits, odd), DType::kF32);
}

// --- integers ---

// The low bits of a byte as an integer of type `to`.
Scalar wrap(Scalar byte, DType to) {
  const int64_t values = int64_t{1} << bit_width(to);
  const Scalar bits = convert_to(byte, DType::kU8) & (values - 1);
  if (is_unsigned(to)) return bitcast(bits, to);
  const int64_t sign = values / 2;
  return bitcast((bits ^ sign) - sign, to);
}

Scalar saturate(Scalar x, DType to) {
  const int64_t values = int64_t{1} << bit_width(to);
  const int64_t high = is_signed(to) ? values / 2 - 1 : values - 1, low = is_signed(to) ? -values / 2 : 0;
  const Scalar byte = convert_to(x, storage_type(to));
  const Scalar below = select(byte > high, high, byte);
  return bitcast(select(below < low, low, below), to);
}

Scalar convert_narrow(Scalar x, DType to) {
  const DType from = x.type();
  if (is_narrow_float(from)) return convert_to(decode(x), to);
  if (is_narrow_float(to)) return encode(to_f32_odd(x), to);
  if (is_narrow_integer(from)) return convert_to(bitcast(x, storage_type(from)), to);
  if (is_float(from)) return saturate(x, to);
  return wrap(convert_to(x, DType::kU8), to);
}

Scalar integer_prim(Prim prim, DType result, std::span<const Scalar> operands) {
  const DType type = operands[0].type(), storage = storage_type(type);
  std::array<Scalar, 2> byte;
  for (size_t i = 0; i < operands.size(); ++i) byte[i] = bitcast(operands[i], storage);
  const std::span<const Scalar> bytes = std::span(byte).first(operands.size());
  ScalarRecorder& recorder = *operands[0].recorder();
  switch (prim) {
    case Prim::eq:
    case Prim::ne:
    case Prim::lt:
    case Prim::le:
      return recorder.emit(prim, result, bytes);
    case Prim::popcount:
      return wrap(record(prim, DType::kU8, narrow_bits(operands[0])), type);
    case Prim::count_leading_zeros:
      return wrap(record(prim, DType::kU8, narrow_bits(operands[0])) - (8 - bit_width(type)), type);
    case Prim::shr_logical:
      return wrap(record(prim, DType::kU8, narrow_bits(operands[0]), bitcast(byte[1], DType::kU8)), type);
    case Prim::shr_arithmetic: {
      const int spare = 8 - bit_width(type);
      const Scalar high = bitcast(narrow_bits(operands[0]), DType::kS8) << spare;
      const Scalar value = record(prim, DType::kS8, high, constant(high, spare));
      return wrap(bitcast(record(prim, DType::kS8, value, bitcast(byte[1], DType::kS8)), DType::kU8), type);
    }
    default:
      return wrap(bitcast(recorder.emit(prim, storage, bytes), DType::kU8), type);
  }
}

}  // namespace

Scalar narrow_bits(Scalar x) { return bitcast(x, DType::kU8) & ((int64_t{1} << bit_width(x.type())) - 1); }

Scalar narrow_from_bits(Scalar byte, DType to) {
  if (is_integer(to)) return wrap(bitcast(byte, DType::kU8), to);
  return bitcast(bitcast(byte, DType::kU8) & ((int64_t{1} << bit_width(to)) - 1), to);
}

Scalar record_narrow(Prim prim, DType result, std::span<const Scalar> operands) {
  if (prim == Prim::convert) return convert_narrow(operands[0], result);
  LAMINA_SCALAR_CHECK(is_narrow_integer(operands[0].type()) && operands.size() <= 2,
                      "narrow floats have no arithmetic of their own");
  return integer_prim(prim, result, operands);
}

}  // namespace lamina::hlo::scalar
