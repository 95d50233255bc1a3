// Errors that lie in the element types of operands, for which absl has no code: the API raises TypeError
// (lamina::ErrorKind::kType) where it raises ValueError for shapes and values.
#ifndef LAMINA_HLO_TYPE_ERROR_H_
#define LAMINA_HLO_TYPE_ERROR_H_

#include "absl/status/status.h"
#include "hlo/strings.h"

namespace lamina::hlo {

inline constexpr absl::StatusCode kTypeErrorCode = absl::StatusCode::kAborted;

template <typename... Args>
absl::Status type_error(const Args&... args) {
  return absl::Status(kTypeErrorCode, str_cat(args...));
}

}  // namespace lamina::hlo

#endif  // LAMINA_HLO_TYPE_ERROR_H_
