// Helpers for the tests of scalar rules: run a rule on arrays, and distances in units in the last place.
#ifndef LAMINA_TESTS_HLO_SCALAR_TESTING_H_
#define LAMINA_TESTS_HLO_SCALAR_TESTING_H_

#include <array>
#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>
#include <random>
#include <vector>

#include "hlo/scalar/adapters.h"

namespace lamina::hlo::scalar::testing {

template <typename T>
struct Native;
template <>
struct Native<int8_t> {
  static constexpr DType type = DType::kS8;
};
template <>
struct Native<int16_t> {
  static constexpr DType type = DType::kS16;
};
template <>
struct Native<int32_t> {
  static constexpr DType type = DType::kS32;
};
template <>
struct Native<int64_t> {
  static constexpr DType type = DType::kS64;
};
template <>
struct Native<uint8_t> {
  static constexpr DType type = DType::kU8;
};
template <>
struct Native<uint16_t> {
  static constexpr DType type = DType::kU16;
};
template <>
struct Native<uint32_t> {
  static constexpr DType type = DType::kU32;
};
template <>
struct Native<uint64_t> {
  static constexpr DType type = DType::kU64;
};
template <>
struct Native<float> {
  static constexpr DType type = DType::kF32;
};
template <>
struct Native<double> {
  static constexpr DType type = DType::kF64;
};

// `f` recorded for operands of the given types (part types) and one result.
template <typename F, typename... D>
ScalarProgram record_function(F f, D... types) {
  const std::array<DType, sizeof...(D)> inputs{types...};
  ScalarRecorder r(inputs);
  int i = 0;
  std::array<Scalar, sizeof...(D)> x{((void)types, r.input(i++))...};
  const Scalar y = std::apply(f, x);
  return r.finish(std::array{y});
}

// The rule's values at every x (and y, ...): arrays of native types; 16-bit floats travel as uint16_t with
// types given.
template <typename Out, typename... In>
std::vector<Out> run(const ScalarProgram& program, const std::vector<In>&... in) {
  const std::array<const void*, sizeof...(In)> inputs{in.data()...};
  const size_t n = std::get<0>(std::tie(in...)).size();
  std::vector<Out> out(n);
  const std::array<void*, 1> outputs{out.data()};
  interpret(program, inputs, outputs, static_cast<int64_t>(n));
  return out;
}

template <typename F, typename T, typename... Rest>
T eval(F f, T x, Rest... rest) {
  const ScalarProgram p = record_function(f, Native<T>::type, Native<Rest>::type...);
  return run<T>(p, std::vector<T>{x}, std::vector<Rest>{rest}...)[0];
}

}  // namespace lamina::hlo::scalar::testing

#endif  // LAMINA_TESTS_HLO_SCALAR_TESTING_H_
