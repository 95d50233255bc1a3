#include "trace/jvp.h"

#include "trace/check.h"
#include "trace/graph_transforms.h"

namespace lamina::trace {

using hlo::Value;

namespace {

absl::StatusOr<JvpOut> derive(std::span<const Value> outputs, std::span<const Value> inputs,
                              std::span<const Value> input_tangents, JvpMode mode) {
  if (absl::Status s = check_ends("jvp", outputs, inputs); !s.ok()) return s;
  if (absl::Status s = check_types("jvp: tangent", input_tangents, inputs); !s.ok()) return s;
  hlo::Builder b;
  JvpGraph graph = jvp_graph(b, outputs, inputs, input_tangents, mode);
  if (!b.ok()) return b.status();
  return JvpOut{to_vector(graph.primals), to_vector(graph.tangents)};
}

}  // namespace

absl::StatusOr<JvpOut> jvp(std::span<const Value> outputs, std::span<const Value> inputs,
                           std::span<const Value> input_tangents) {
  return derive(outputs, inputs, input_tangents, JvpMode::kForward);
}

absl::StatusOr<JvpOut> linearize(std::span<const Value> outputs, std::span<const Value> inputs,
                                 std::span<const Value> input_tangents) {
  return derive(outputs, inputs, input_tangents, JvpMode::kLinearize);
}

}  // namespace lamina::trace
