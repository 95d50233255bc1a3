// std::complex as an element type.
#ifndef LAMINA_COMPLEX_H_
#define LAMINA_COMPLEX_H_

#include <complex>

#include "lamina/dtype.h"

namespace lamina::detail {
template <>
struct DTypeOf<std::complex<float>> {
  static constexpr DType value = DType::complex64;
};
template <>
struct DTypeOf<std::complex<double>> {
  static constexpr DType value = DType::complex128;
};
}  // namespace lamina::detail

#endif  // LAMINA_COMPLEX_H_
