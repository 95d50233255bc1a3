// What is promised of the bits of what is recorded.
#ifndef LAMINA_NUMERICS_H_
#define LAMINA_NUMERICS_H_

#include <cstdint>

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

}  // namespace lamina
#pragma GCC visibility pop

#endif  // LAMINA_NUMERICS_H_
