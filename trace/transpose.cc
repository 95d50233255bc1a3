#include "trace/transpose.h"

#include "trace/check.h"
#include "trace/graph_transforms.h"
#include "trace/jvp.h"

namespace lamina::trace {

using hlo::Value;

absl::StatusOr<std::vector<Value>> backward(std::span<const Value> outputs, std::span<const Value> inputs,
                                            std::span<const Value> cotangents) {
  if (absl::Status s = check_ends("backward", outputs, inputs); !s.ok()) return s;
  if (absl::Status s = check_types("backward: cotangent", cotangents, outputs); !s.ok()) return s;
  hlo::Builder b;
  hlo::Values back = transpose_graph(b, outputs, inputs, cotangents);
  if (!b.ok()) return b.status();
  return to_vector(back);
}

absl::StatusOr<Linearized> linearize_fresh(std::span<const Value> outputs, std::span<const Value> inputs) {
  hlo::GraphLock lock;
  if (absl::Status s = check_ends("linearize", outputs, inputs); !s.ok()) return s;
  Linearized out;
  for (const Value& v : inputs)
    out.tangent_inputs.push_back(has_tangent(v.type()) ? hlo::make_parameter(v.type()) : Value());
  absl::StatusOr<JvpOut> derived = linearize(outputs, inputs, out.tangent_inputs);
  if (!derived.ok()) return derived.status();
  out.primals = std::move(derived->primals);
  out.tangents = std::move(derived->tangents);
  return out;
}

absl::StatusOr<std::vector<Value>> pull_back(const Linearized& linear, std::span<const Value> cotangents) {
  hlo::GraphLock lock;
  if (absl::Status s = check_types("vjp: cotangent", cotangents, linear.primals); !s.ok()) return s;
  std::vector<Value> outputs, cts, inputs;
  for (size_t i = 0; i < linear.tangents.size(); ++i)
    if (linear.tangents[i] && cotangents[i]) {
      outputs.push_back(linear.tangents[i]);
      cts.push_back(cotangents[i]);
    }
  for (const Value& v : linear.tangent_inputs)
    if (v) inputs.push_back(v);
  absl::StatusOr<std::vector<Value>> back = backward(outputs, inputs, cts);
  if (!back.ok()) return back.status();
  std::vector<Value> out;
  size_t next = 0;
  for (const Value& v : linear.tangent_inputs) out.push_back(v ? (*back)[next++] : Value());
  return out;
}

absl::StatusOr<VjpOut> vjp(std::span<const Value> outputs, std::span<const Value> inputs,
                           std::span<const Value> output_cotangents) {
  hlo::GraphLock lock;
  absl::StatusOr<Linearized> linear = linearize_fresh(outputs, inputs);
  if (!linear.ok()) return linear.status();
  absl::StatusOr<std::vector<Value>> back = pull_back(*linear, output_cotangents);
  if (!back.ok()) return back.status();
  return VjpOut{std::move(linear->primals), *std::move(back)};
}

}  // namespace lamina::trace
