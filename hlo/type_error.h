// Errors that lie in the element types of operands. They are invalid arguments with a mark, by which the API
// raises TypeError (lamina::ErrorKind::kType) where it raises ValueError for shapes and values.
#ifndef LAMINA_HLO_TYPE_ERROR_H_
#define LAMINA_HLO_TYPE_ERROR_H_

#include <string_view>

#include "absl/status/status.h"
#include "absl/strings/cord.h"
#include "hlo/strings.h"

namespace lamina::hlo {

namespace internal {
inline constexpr absl::string_view kTypeErrorMark = "lamina/element types";
}

template <typename... Args>
absl::Status type_error(const Args&... args) {
  absl::Status status = absl::InvalidArgumentError(str_cat(args...));
  status.SetPayload(internal::kTypeErrorMark, absl::Cord());
  return status;
}

inline bool is_type_error(const absl::Status& status) {
  return status.GetPayload(internal::kTypeErrorMark).has_value();
}

// The same error in other words.
inline absl::Status reworded(const absl::Status& status, std::string_view message) {
  return is_type_error(status) ? type_error(message) : absl::Status(status.code(), str_cat(message));
}

}  // namespace lamina::hlo

#endif  // LAMINA_HLO_TYPE_ERROR_H_
