// What a status becomes at the border of the API: an exception of the kind that a programmer expects.
#include "hlo/type_error.h"
#include "lazy/lazy.h"

namespace lamina::lazy {

void throw_status(const absl::Status& status) {
  const std::string message(status.message());
  switch (status.code()) {
    case absl::StatusCode::kInvalidArgument:
      throw Error(ErrorKind::kValue, message);
    case hlo::kTypeErrorCode:
      throw Error(ErrorKind::kType, message);
    case absl::StatusCode::kOutOfRange:
      throw Error(ErrorKind::kIndex, message);
    case absl::StatusCode::kUnimplemented:
      throw Error(ErrorKind::kNotImplemented, message);
    case absl::StatusCode::kResourceExhausted:
      throw Error(ErrorKind::kMemory, message);
    case absl::StatusCode::kCancelled:
      throw Error(ErrorKind::kCancelled, message);
    default:
      throw Error(ErrorKind::kRuntime, message);
  }
}

}  // namespace lamina::lazy
