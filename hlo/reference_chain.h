// The four-line sum of reference_dot.h, over any two sequences of elements.
#ifndef LAMINA_HLO_REFERENCE_CHAIN_H_
#define LAMINA_HLO_REFERENCE_CHAIN_H_

#include <cmath>
#include <complex>
#include <cstdint>
#include <type_traits>

#include "hlo/dtype.h"
#include "hlo/half.h"
#include "hlo/reference_dot.h"

namespace lamina::hlo {

template <typename T>
struct IsComplex : std::false_type {};
template <typename P>
struct IsComplex<std::complex<P>> : std::true_type {};

// One more term of a chain; the first is a product.
template <typename T>
T chain_term(T x, T y, T acc, bool first) {
  if constexpr (std::is_floating_point_v<T>) {
    return first ? x * y : std::fma(x, y, acc);
  } else if constexpr (IsComplex<T>::value) {
    using P = typename T::value_type;
    const P re = chain_term<P>(x.real(), y.real(), acc.real(), first);
    const P im = chain_term<P>(x.real(), y.imag(), acc.imag(), first);
    return {std::fma(-x.imag(), y.imag(), re), std::fma(x.imag(), y.real(), im)};
  } else {
    return static_cast<T>(static_cast<uint64_t>(x) * static_cast<uint64_t>(y) + static_cast<uint64_t>(acc));
  }
}

// x(k) and y(k) give the elements.
template <typename T, typename X, typename Y>
T reference_chain(int64_t n, X x, Y y) {
  T total{};
  for (int64_t k0 = 0; k0 < n; k0 += kDotBlock) {
    T block{};
    for (int64_t k = k0; k < n && k < k0 + kDotBlock; ++k) block = chain_term<T>(x(k), y(k), block, k == k0);
    total = k0 == 0 ? block : static_cast<T>(total + block);
  }
  return total;
}

// Element number `i` of memory of type `t` as a T (float for halves; integers extended).
template <typename T>
T load_as(DType t, const void* p, int64_t i) {
  if constexpr (IsComplex<T>::value || std::is_same_v<T, double>) {
    return static_cast<const T*>(p)[i];
  } else if constexpr (std::is_same_v<T, float>) {
    if (t == DType::kF16) return to_f32(static_cast<const F16*>(p)[i]);
    if (t == DType::kBF16) return to_f32(static_cast<const BF16*>(p)[i]);
    return static_cast<const float*>(p)[i];
  } else {
    switch (t) {
      case DType::kS8:
        return static_cast<T>(static_cast<const int8_t*>(p)[i]);
      case DType::kS16:
        return static_cast<T>(static_cast<const int16_t*>(p)[i]);
      case DType::kS32:
        return static_cast<T>(static_cast<const int32_t*>(p)[i]);
      case DType::kU8:
        return static_cast<T>(static_cast<const uint8_t*>(p)[i]);
      case DType::kU16:
        return static_cast<T>(static_cast<const uint16_t*>(p)[i]);
      case DType::kU32:
        return static_cast<T>(static_cast<const uint32_t*>(p)[i]);
      default:
        return static_cast<T>(static_cast<const uint64_t*>(p)[i]);
    }
  }
}

template <typename T>
void store_as(DType t, void* p, int64_t i, T value) {
  if constexpr (std::is_same_v<T, float>) {
    if (t == DType::kF16) {
      static_cast<F16*>(p)[i] = to_f16(value);
      return;
    }
    if (t == DType::kBF16) {
      static_cast<BF16*>(p)[i] = to_bf16(value);
      return;
    }
  }
  static_cast<T*>(p)[i] = value;
}

// Calls f.template operator()<T>() with the type that a dot giving `out` accumulates in.
template <typename F>
void with_dot_accumulator(DType out, F f) {
  switch (out) {
    case DType::kF16:
    case DType::kBF16:
    case DType::kF32:
      return f.template operator()<float>();
    case DType::kF64:
      return f.template operator()<double>();
    case DType::kC64:
      return f.template operator()<std::complex<float>>();
    case DType::kC128:
      return f.template operator()<std::complex<double>>();
    default:
      break;
  }
  switch (byte_size(out)) {
    case 1:
      return f.template operator()<uint8_t>();
    case 2:
      return f.template operator()<uint16_t>();
    case 4:
      return f.template operator()<uint32_t>();
    default:
      return f.template operator()<uint64_t>();
  }
}

}  // namespace lamina::hlo

#endif  // LAMINA_HLO_REFERENCE_CHAIN_H_
