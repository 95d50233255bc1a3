// Whether a function is linear, told from what was recorded of it.
#ifndef LAMINA_TRACE_LINEARITY_H_
#define LAMINA_TRACE_LINEARITY_H_

#include <span>

#include "absl/status/status.h"
#include "hlo/graph.h"

namespace lamina::trace {

// InvalidArgument that names the first operation for which `outputs` are not linear in `inputs`: its
// derivative depends on them, or is zero though it does. Constants added on the way are no objection. Outputs
// without a tangent are not looked at.
absl::Status check_linear(std::span<const hlo::Value> outputs, std::span<const hlo::Value> inputs);

}  // namespace lamina::trace

#endif  // LAMINA_TRACE_LINEARITY_H_
