#include "jit/cuda/user_line.h"

#include "hlo/location.h"
#include "hlo/op.h"
#include "hlo/strings.h"

namespace lamina::jit::cuda {

absl::Status UserLine::add_to(absl::Status status) const {
  if (status.ok() || absl::IsUnavailable(status)) return status;
  const hlo::Location at = hlo::location(location_);
  std::string text = str_cat(status.message(), ", in ", hlo::op_def(op_).name);
  if (!at.file.empty()) str_append(&text, " at ", at.file, ":", at.line);
  return absl::Status(status.code(), text);
}

}  // namespace lamina::jit::cuda
