// Fatal checks of what only a bug in this library can break (user errors are absl::Status).
#ifndef LAMINA_HLO_SCALAR_CHECK_H_
#define LAMINA_HLO_SCALAR_CHECK_H_

#include <cstdio>
#include <cstdlib>
#include <string>

namespace lamina::hlo {

[[noreturn]] inline void scalar_check_failed(const std::string& message) {
  std::fprintf(stderr, "lamina: internal error in a scalar rule: %s\n", message.c_str());
  std::abort();
}

// `message` is evaluated only when the check fails.
#define LAMINA_SCALAR_CHECK(condition, message)                    \
  do {                                                             \
    if (!(condition)) ::lamina::hlo::scalar_check_failed(message); \
  } while (false)

}  // namespace lamina::hlo

#endif  // LAMINA_HLO_SCALAR_CHECK_H_
