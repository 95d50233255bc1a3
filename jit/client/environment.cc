#include "jit/client/environment.h"

#include <charconv>
#include <cstdlib>
#include <string_view>

namespace lamina::jit {

std::optional<int> count_in_environment(const char* variable, int most) {
  const char* const set = std::getenv(variable);
  const std::string_view text = set ? set : "";
  int count = 0;
  const auto [stopped, error] = std::from_chars(text.data(), text.data() + text.size(), count);
  const bool is_number = error == std::errc() && stopped == text.data() + text.size();
  if (!is_number || count < 1 || count > most) return std::nullopt;
  return count;
}

}  // namespace lamina::jit
