// What is promised of the bits of what is recorded, and the element types that nothing else decides.
#ifndef LAMINA_NUMERICS_H_
#define LAMINA_NUMERICS_H_

#include <cstdint>
#include <optional>
#include <source_location>

#include "lamina/dtype.h"

#pragma GCC visibility push(default)
namespace lamina {

enum class Numerics : uint8_t {
  kSame,  // the default: bits depend on the program alone, not on machine, threads, tier or batch
  kFast,  // products and convolutions may be summed in the order of a library (oneDNN)
};

// Operations recorded on this thread while it lives have these numerics; derivatives have those of what they
// are derivatives of. A jitted function is traced once for each. Scopes nest.
class NumericsScope {
 public:
  explicit NumericsScope(Numerics numerics);
  ~NumericsScope();
  NumericsScope(const NumericsScope&) = delete;
  NumericsScope& operator=(const NumericsScope&) = delete;

 private:
  uint8_t saved_;
};

// The element types of C++ numbers on their own, of what is made without one (zeros, arange, linspace) and of
// quotients, means and functions of integers: a float of at least 16 bits, whose complex type follows it, and
// an integer of at least 8. Absent ones stay.
struct DefaultTypes {
  std::optional<DType> floating = {}, integer = {};
};

// The default types of this thread while it lives; float32 and int32 outside of all. Tensors keep their
// types, and numbers beside them take those. A jitted function is traced once for each pair. Scopes nest.
//   DefaultTypesScope doubles({.floating = DType::float64});
// Throws lamina::Error (kType) for types of another kind.
class DefaultTypesScope {
 public:
  explicit DefaultTypesScope(DefaultTypes types,
                             std::source_location where = std::source_location::current());
  ~DefaultTypesScope();
  DefaultTypesScope(const DefaultTypesScope&) = delete;
  DefaultTypesScope& operator=(const DefaultTypesScope&) = delete;

 private:
  DType floating_, integer_;  // before
};

}  // namespace lamina
#pragma GCC visibility pop

#endif  // LAMINA_NUMERICS_H_
