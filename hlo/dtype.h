// Element types of arrays and what is true of each.
//
// Contract: `DType` values are stable and appear in cache keys. Quantized types are not here. Floats below 32
// bits are storage types: arithmetic on them is f32 arithmetic followed by one rounding. Elements of fewer
// than eight bits take a byte each: integers extended by their sign or zeros, floats by zeros.
#ifndef LAMINA_HLO_DTYPE_H_
#define LAMINA_HLO_DTYPE_H_

#include <complex>
#include <cstdint>
#include <optional>
#include <string_view>

namespace lamina::hlo {

enum class DType : uint8_t {
  kBool,
  kS8,
  kS16,
  kS32,
  kS64,
  kU8,
  kU16,
  kU32,
  kU64,
  kF16,
  kBF16,
  kF32,
  kF64,
  kC64,
  kC128,
  kS2,
  kS4,
  kU2,
  kU4,
  kF4E2M1FN,
  kF6E2M3FN,
  kF6E3M2FN,
  kF8E3M4,
  kF8E4M3,
  kF8E4M3FN,
  kF8E4M3FNUZ,
  kF8E4M3B11FNUZ,
  kF8E5M2,
  kF8E5M2FNUZ,
  kF8E8M0FNU,
};
inline constexpr int kNumDTypes = 30;

enum class DTypeKind : uint8_t { kBool, kSigned, kUnsigned, kFloat, kComplex };

// What a float's patterns mean beyond finite numbers.
enum class FloatSpecials : uint8_t {
  kIeee,          // the largest exponent holds infinity and NaNs
  kNan,           // no infinity; all ones below the sign is NaN
  kNanMinusZero,  // no infinity, no -0: its pattern is the one NaN
  kNone,          // finite numbers only
  kScale,         // no sign, no zero, no infinity; all ones is NaN
};

// A float's layout: bits of exponent and mantissa; a normal number is 2^(exponent - bias) * 1.mantissa.
struct FloatFormat {
  uint8_t exponent;
  uint8_t mantissa;
  int16_t bias;
  FloatSpecials specials;
};

// One row per element type: text name (HLO spelling), NumPy (and ml_dtypes) name, MLIR spelling, kind, bytes
// per element, bits of the value, layout of a float.
struct DTypeInfo {
  std::string_view name;
  std::string_view numpy_name;
  std::string_view mlir_name;
  DTypeKind kind;
  uint8_t bytes;
  uint8_t bits;
  FloatFormat format = {};
};

inline constexpr DTypeInfo kDTypeInfo[kNumDTypes] = {
    {"pred", "bool", "i1", DTypeKind::kBool, 1, 1},
    {"s8", "int8", "i8", DTypeKind::kSigned, 1, 8},
    {"s16", "int16", "i16", DTypeKind::kSigned, 2, 16},
    {"s32", "int32", "i32", DTypeKind::kSigned, 4, 32},
    {"s64", "int64", "i64", DTypeKind::kSigned, 8, 64},
    {"u8", "uint8", "ui8", DTypeKind::kUnsigned, 1, 8},
    {"u16", "uint16", "ui16", DTypeKind::kUnsigned, 2, 16},
    {"u32", "uint32", "ui32", DTypeKind::kUnsigned, 4, 32},
    {"u64", "uint64", "ui64", DTypeKind::kUnsigned, 8, 64},
    {"f16", "float16", "f16", DTypeKind::kFloat, 2, 16, {5, 10, 15, FloatSpecials::kIeee}},
    {"bf16", "bfloat16", "bf16", DTypeKind::kFloat, 2, 16, {8, 7, 127, FloatSpecials::kIeee}},
    {"f32", "float32", "f32", DTypeKind::kFloat, 4, 32, {8, 23, 127, FloatSpecials::kIeee}},
    {"f64", "float64", "f64", DTypeKind::kFloat, 8, 64, {11, 52, 1023, FloatSpecials::kIeee}},
    {"c64", "complex64", "complex<f32>", DTypeKind::kComplex, 8, 64},
    {"c128", "complex128", "complex<f64>", DTypeKind::kComplex, 16, 128},
    {"s2", "int2", "i2", DTypeKind::kSigned, 1, 2},
    {"s4", "int4", "i4", DTypeKind::kSigned, 1, 4},
    {"u2", "uint2", "ui2", DTypeKind::kUnsigned, 1, 2},
    {"u4", "uint4", "ui4", DTypeKind::kUnsigned, 1, 4},
    {"f4e2m1fn", "float4_e2m1fn", "f4E2M1FN", DTypeKind::kFloat, 1, 4, {2, 1, 1, FloatSpecials::kNone}},
    {"f6e2m3fn", "float6_e2m3fn", "f6E2M3FN", DTypeKind::kFloat, 1, 6, {2, 3, 1, FloatSpecials::kNone}},
    {"f6e3m2fn", "float6_e3m2fn", "f6E3M2FN", DTypeKind::kFloat, 1, 6, {3, 2, 3, FloatSpecials::kNone}},
    {"f8e3m4", "float8_e3m4", "f8E3M4", DTypeKind::kFloat, 1, 8, {3, 4, 3, FloatSpecials::kIeee}},
    {"f8e4m3", "float8_e4m3", "f8E4M3", DTypeKind::kFloat, 1, 8, {4, 3, 7, FloatSpecials::kIeee}},
    {"f8e4m3fn", "float8_e4m3fn", "f8E4M3FN", DTypeKind::kFloat, 1, 8, {4, 3, 7, FloatSpecials::kNan}},
    {"f8e4m3fnuz",
     "float8_e4m3fnuz",
     "f8E4M3FNUZ",
     DTypeKind::kFloat,
     1,
     8,
     {4, 3, 8, FloatSpecials::kNanMinusZero}},
    {"f8e4m3b11fnuz",
     "float8_e4m3b11fnuz",
     "f8E4M3B11FNUZ",
     DTypeKind::kFloat,
     1,
     8,
     {4, 3, 11, FloatSpecials::kNanMinusZero}},
    {"f8e5m2", "float8_e5m2", "f8E5M2", DTypeKind::kFloat, 1, 8, {5, 2, 15, FloatSpecials::kIeee}},
    {"f8e5m2fnuz",
     "float8_e5m2fnuz",
     "f8E5M2FNUZ",
     DTypeKind::kFloat,
     1,
     8,
     {5, 2, 16, FloatSpecials::kNanMinusZero}},
    {"f8e8m0fnu", "float8_e8m0fnu", "f8E8M0FNU", DTypeKind::kFloat, 1, 8, {8, 0, 127, FloatSpecials::kScale}},
};

constexpr const DTypeInfo& info(DType t) { return kDTypeInfo[static_cast<int>(t)]; }
constexpr int64_t byte_size(DType t) { return info(t).bytes; }
constexpr int bit_width(DType t) { return info(t).bits; }
constexpr bool is_bool(DType t) { return info(t).kind == DTypeKind::kBool; }
constexpr bool is_signed(DType t) { return info(t).kind == DTypeKind::kSigned; }
constexpr bool is_unsigned(DType t) { return info(t).kind == DTypeKind::kUnsigned; }
constexpr bool is_integer(DType t) { return is_signed(t) || is_unsigned(t); }
constexpr bool is_float(DType t) { return info(t).kind == DTypeKind::kFloat; }
constexpr bool is_complex(DType t) { return info(t).kind == DTypeKind::kComplex; }
constexpr bool is_inexact(DType t) { return is_float(t) || is_complex(t); }
// Floats whose arithmetic happens in f32: f16, bf16 and those of one byte.
constexpr bool is_storage_float(DType t) { return is_float(t) && byte_size(t) < 4; }
// Integers below eight bits and floats of one byte: types that machines do not have. Scalar programs only
// hold and bitcast them; what happens to them is written over the integers in their bytes.
constexpr bool is_narrow(DType t) { return t > DType::kC128; }
constexpr bool is_narrow_float(DType t) { return is_narrow(t) && is_float(t); }
constexpr bool is_narrow_integer(DType t) { return is_narrow(t) && is_integer(t); }
constexpr const FloatFormat& float_format(DType t) { return info(t).format; }

// The real type of a complex type's parts; any other type is its own part type.
constexpr DType part_type(DType t) {
  return t == DType::kC64 ? DType::kF32 : t == DType::kC128 ? DType::kF64 : t;
}
// The integer type that holds an element of a narrow type in memory; any other type holds its own.
constexpr DType storage_type(DType t) { return !is_narrow(t) ? t : is_signed(t) ? DType::kS8 : DType::kU8; }
// Values per element in memory: 2 for complex (interleaved real, imaginary), else 1.
constexpr int num_parts(DType t) { return is_complex(t) ? 2 : 1; }

// The unsigned integer type as wide as `t` (bool and floats of six bits give u8); undefined for complex
// types.
constexpr DType bits_type(DType t) {
  switch (bit_width(t)) {
    case 2:
      return DType::kU2;
    case 4:
      return DType::kU4;
    case 16:
      return DType::kU16;
    case 32:
      return DType::kU32;
    case 64:
      return DType::kU64;
    default:
      return DType::kU8;
  }
}

inline std::optional<DType> parse_dtype(std::string_view name) {
  for (int i = 0; i < kNumDTypes; ++i)
    if (kDTypeInfo[i].name == name || kDTypeInfo[i].numpy_name == name) return static_cast<DType>(i);
  return std::nullopt;
}

}  // namespace lamina::hlo

#endif  // LAMINA_HLO_DTYPE_H_
