// Joining text and numbers. Debian builds Abseil for C++14, whose string_view is not std::string_view: these
// two take both.
#ifndef LAMINA_HLO_STRINGS_H_
#define LAMINA_HLO_STRINGS_H_

#include <string>
#include <string_view>
#include <type_traits>

#include "absl/strings/str_cat.h"

namespace lamina {

namespace internal {
template <typename T>
decltype(auto) printable(const T& x) {
  if constexpr (std::is_same_v<T, std::string_view>)
    return absl::string_view(x.data(), x.size());
  else
    return (x);
}
}  // namespace internal

template <typename... Args>
std::string str_cat(const Args&... args) {
  return absl::StrCat(internal::printable(args)...);
}

template <typename... Args>
void str_append(std::string* out, const Args&... args) {
  absl::StrAppend(out, internal::printable(args)...);
}

}  // namespace lamina

#endif  // LAMINA_HLO_STRINGS_H_
