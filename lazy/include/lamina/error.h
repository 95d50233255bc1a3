// The exception of the C++ API.
#ifndef LAMINA_ERROR_H_
#define LAMINA_ERROR_H_

#include <stdexcept>
#include <string>

namespace lamina {

enum class ErrorKind {
  kValue,
  kType,
  kIndex,
  kNotImplemented,
  kMemory,
  kCancelled,
  kFloatingPoint,
  kRuntime
};

// What went wrong, in words, with shapes and element types; `kind()` maps to Python's built-in exceptions.
class __attribute__((visibility("default"))) Error : public std::runtime_error {
 public:
  Error(ErrorKind kind, const std::string& message) : std::runtime_error(message), kind_(kind) {}
  ErrorKind kind() const { return kind_; }

 private:
  ErrorKind kind_;
};

}  // namespace lamina

#endif  // LAMINA_ERROR_H_
