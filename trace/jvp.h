// Forward derivatives of recorded graphs.
#ifndef LAMINA_TRACE_JVP_H_
#define LAMINA_TRACE_JVP_H_

#include <span>

#include "absl/status/statusor.h"
#include "hlo/graph.h"

namespace lamina::trace {

struct JvpOut {
  std::vector<hlo::Value>
      primals;  // the outputs, re-recorded where an op computes them together with its tangents
  std::vector<hlo::Value> tangents;  // of the outputs; null: none
};

// Derivative of `outputs` along `input_tangents` at `inputs`: distinct parameters or identity nodes below the
// outputs. A null input tangent means none; a tangent has the input's type. Only nodes that depend on an
// input with a tangent are visited. Integer and bool values have no tangents.
absl::StatusOr<JvpOut> jvp(std::span<const hlo::Value> outputs, std::span<const hlo::Value> inputs,
                           std::span<const hlo::Value> input_tangents);

// As jvp, with primal results that do not depend on the tangents and tangents made by linear ops only: the
// form that can be transposed, or evaluated many times for one point.
absl::StatusOr<JvpOut> linearize(std::span<const hlo::Value> outputs, std::span<const hlo::Value> inputs,
                                 std::span<const hlo::Value> input_tangents);

}  // namespace lamina::trace

#endif  // LAMINA_TRACE_JVP_H_
