// Shared by the tests of the C++ API: elements of tensors, and the errors that calls throw.
#ifndef LAMINA_TESTS_LAZY_API_TESTING_H_
#define LAMINA_TESTS_LAZY_API_TESTING_H_

#include <catch2/catch.hpp>
#include <optional>
#include <string>
#include <vector>

#include "lamina/lamina.h"

namespace lamina::testing {

using Floats = std::vector<float>;
using Doubles = std::vector<double>;

inline Floats floats(const Tensor& t) { return t.astype(DType::float32).to_host<float>(); }
inline Doubles doubles(const Tensor& t) { return t.astype(DType::float64).to_host<double>(); }

// The message of the Error that f throws, which must be of `kind` where one is given.
template <typename F>
std::string error_of(F&& f, std::optional<ErrorKind> kind = std::nullopt) {
  try {
    f();
  } catch (const Error& e) {
    if (kind) CHECK(e.kind() == *kind);
    return e.what();
  }
  return "nothing was thrown";
}

inline bool contains(const std::string& text, const std::string& part) {
  const bool found = text.find(part) != std::string::npos;
  if (!found) UNSCOPED_INFO(text);
  return found;
}

}  // namespace lamina::testing

#endif  // LAMINA_TESTS_LAZY_API_TESTING_H_
