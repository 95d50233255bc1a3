// Element types of tensors.
#ifndef LAMINA_DTYPE_H_
#define LAMINA_DTYPE_H_

#include <cstdint>
#include <type_traits>

#pragma GCC visibility push(default)
namespace lamina {

enum class DType : uint8_t {
  boolean,
  int8,
  int16,
  int32,
  int64,
  uint8,
  uint16,
  uint32,
  uint64,
  float16,
  bfloat16,
  float32,
  float64,
  complex64,
  complex128,
  // Below eight bits a byte per element.
  int2,
  int4,
  uint2,
  uint4,
  float4_e2m1fn,
  float6_e2m3fn,
  float6_e3m2fn,
  float8_e3m4,
  float8_e4m3,
  float8_e4m3fn,
  float8_e4m3fnuz,
  float8_e4m3b11fnuz,
  float8_e5m2,
  float8_e5m2fnuz,
  float8_e8m0fnu
};

// As in NumPy: "float32", "bool", ...
const char* name(DType dtype);
// Bytes of one element.
int64_t size_of(DType dtype);

namespace detail {
template <typename T>
struct DTypeOf;
template <typename T>
requires std::is_integral_v<T>
struct DTypeOf<T> {
  static constexpr int kLog = sizeof(T) == 1 ? 0 : sizeof(T) == 2 ? 1 : sizeof(T) == 4 ? 2 : 3;
  static constexpr DType value =
      std::is_same_v<T, bool>
          ? DType::boolean
          : static_cast<DType>(static_cast<int>(std::is_signed_v<T> ? DType::int8 : DType::uint8) + kLog);
};
template <>
struct DTypeOf<float> {
  static constexpr DType value = DType::float32;
};
template <>
struct DTypeOf<double> {
  static constexpr DType value = DType::float64;
};
}  // namespace detail

// C++ types that have an element type: bool, integers, float, double, and with lamina/complex.h std::complex
// of both.
template <typename T>
concept Element = requires {
  detail::DTypeOf<T>::value;
};

// The element type of a C++ type.
template <Element T>
inline constexpr DType dtype_of = detail::DTypeOf<T>::value;

}  // namespace lamina

#pragma GCC visibility pop

#endif  // LAMINA_DTYPE_H_
