// Element types of arrays and what is true of each.
//
// Contract: `DType` values are stable and appear in cache keys. Sub-byte and quantized types are not here.
// f16 and bf16 are storage types: arithmetic on them is f32 arithmetic followed by one rounding.
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
};
inline constexpr int kNumDTypes = 15;

enum class DTypeKind : uint8_t { kBool, kSigned, kUnsigned, kFloat, kComplex };

// One row per element type: text name (HLO spelling), NumPy name, kind, bytes per element.
struct DTypeInfo {
  std::string_view name;
  std::string_view numpy_name;
  DTypeKind kind;
  uint8_t bytes;
};

inline constexpr DTypeInfo kDTypeInfo[kNumDTypes] = {
    {"pred", "bool", DTypeKind::kBool, 1},           {"s8", "int8", DTypeKind::kSigned, 1},
    {"s16", "int16", DTypeKind::kSigned, 2},         {"s32", "int32", DTypeKind::kSigned, 4},
    {"s64", "int64", DTypeKind::kSigned, 8},         {"u8", "uint8", DTypeKind::kUnsigned, 1},
    {"u16", "uint16", DTypeKind::kUnsigned, 2},      {"u32", "uint32", DTypeKind::kUnsigned, 4},
    {"u64", "uint64", DTypeKind::kUnsigned, 8},      {"f16", "float16", DTypeKind::kFloat, 2},
    {"bf16", "bfloat16", DTypeKind::kFloat, 2},      {"f32", "float32", DTypeKind::kFloat, 4},
    {"f64", "float64", DTypeKind::kFloat, 8},        {"c64", "complex64", DTypeKind::kComplex, 8},
    {"c128", "complex128", DTypeKind::kComplex, 16},
};

constexpr const DTypeInfo& info(DType t) { return kDTypeInfo[static_cast<int>(t)]; }
constexpr int64_t byte_size(DType t) { return info(t).bytes; }
constexpr bool is_bool(DType t) { return info(t).kind == DTypeKind::kBool; }
constexpr bool is_signed(DType t) { return info(t).kind == DTypeKind::kSigned; }
constexpr bool is_unsigned(DType t) { return info(t).kind == DTypeKind::kUnsigned; }
constexpr bool is_integer(DType t) { return is_signed(t) || is_unsigned(t); }
constexpr bool is_float(DType t) { return info(t).kind == DTypeKind::kFloat; }
constexpr bool is_complex(DType t) { return info(t).kind == DTypeKind::kComplex; }
constexpr bool is_inexact(DType t) { return is_float(t) || is_complex(t); }
// f16 and bf16, whose arithmetic happens in f32.
constexpr bool is_half(DType t) { return t == DType::kF16 || t == DType::kBF16; }
constexpr int bit_width(DType t) { return is_bool(t) ? 1 : info(t).bytes * 8; }

// The real type of a complex type's parts; any other type is its own part type.
constexpr DType part_type(DType t) {
  return t == DType::kC64 ? DType::kF32 : t == DType::kC128 ? DType::kF64 : t;
}
// Values per element in memory: 2 for complex (interleaved real, imaginary), else 1.
constexpr int num_parts(DType t) { return is_complex(t) ? 2 : 1; }

// The unsigned integer type as wide as `t` (bool gives u8); undefined for complex types.
constexpr DType bits_type(DType t) {
  switch (info(t).bytes) {
    case 1:
      return DType::kU8;
    case 2:
      return DType::kU16;
    case 4:
      return DType::kU32;
    default:
      return DType::kU64;
  }
}

inline std::optional<DType> parse_dtype(std::string_view name) {
  for (int i = 0; i < kNumDTypes; ++i)
    if (kDTypeInfo[i].name == name || kDTypeInfo[i].numpy_name == name) return static_cast<DType>(i);
  return std::nullopt;
}

}  // namespace lamina::hlo

#endif  // LAMINA_HLO_DTYPE_H_
