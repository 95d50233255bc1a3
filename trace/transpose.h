// Transposes of linear graphs, and reverse mode: linearize, then transpose.
#ifndef LAMINA_TRACE_TRANSPOSE_H_
#define LAMINA_TRACE_TRANSPOSE_H_

#include <span>

#include "absl/status/statusor.h"
#include "hlo/graph.h"

namespace lamina::trace {

// Cotangents of `inputs` (distinct parameters or identity nodes) for those of `outputs`, which must be linear
// in the inputs; null stands for zero on both sides. Sums are made in one fixed order. An op that is not
// linear is refused with its name.
absl::StatusOr<std::vector<hlo::Value>> backward(std::span<const hlo::Value> outputs,
                                                 std::span<const hlo::Value> inputs,
                                                 std::span<const hlo::Value> cotangents);

struct VjpOut {
  std::vector<hlo::Value> primals;     // the outputs, with residuals beside them where an op was split
  std::vector<hlo::Value> cotangents;  // of the inputs; null: none (integers, or no dependence)
};
// Reverse-mode derivative: cotangents of the inputs for `output_cotangents` (null: zero). Nothing of the
// result depends on anything but what the outputs and the given cotangents depend on.
absl::StatusOr<VjpOut> vjp(std::span<const hlo::Value> outputs, std::span<const hlo::Value> inputs,
                           std::span<const hlo::Value> output_cotangents);

// vjp in two steps, for callers that get their cotangents later.
struct Linearized {
  std::vector<hlo::Value> primals;
  std::vector<hlo::Value> tangents;  // linear in tangent_inputs; null: none
  std::vector<hlo::Value>
      tangent_inputs;  // fresh parameters, one per input; null for inputs that have no tangent
};
absl::StatusOr<Linearized> linearize_fresh(std::span<const hlo::Value> outputs,
                                           std::span<const hlo::Value> inputs);
// Cotangents of the inputs of a linearized graph.
absl::StatusOr<std::vector<hlo::Value>> pull_back(const Linearized& linear,
                                                  std::span<const hlo::Value> cotangents);

}  // namespace lamina::trace

#endif  // LAMINA_TRACE_TRANSPOSE_H_
