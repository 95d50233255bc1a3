// Numbers that the environment sets.
#ifndef LAMINA_JIT_CLIENT_ENVIRONMENT_H_
#define LAMINA_JIT_CLIENT_ENVIRONMENT_H_

#include <optional>

namespace lamina::jit {

// The whole number from 1 to `most` that the variable holds; none where it is not set or holds anything else.
std::optional<int> count_in_environment(const char* variable, int most);

}  // namespace lamina::jit

#endif  // LAMINA_JIT_CLIENT_ENVIRONMENT_H_
