#include "trace/vmap.h"

#include "trace/check.h"
#include "trace/graph_transforms.h"

namespace lamina::trace {

using hlo::Value;

absl::StatusOr<VmapOut> vmap_lazily(std::span<const Value> outputs, std::span<const Value> inputs,
                                    std::span<const Value> values, std::span<const bool> batched,
                                    int64_t size, LaneStrategy strategy) {
  if (absl::Status s = check_ends("vmap", outputs, inputs); !s.ok()) return s;
  if (size < 0) return absl::InvalidArgumentError(str_cat("vmap: the batch size ", size, " is negative"));
  if (values.size() != inputs.size() || batched.size() != inputs.size())
    return absl::InvalidArgumentError(str_cat("vmap: ", inputs.size(), " inputs, ", values.size(),
                                              " values and ", batched.size(), " flags were given"));
  for (size_t i = 0; i < inputs.size(); ++i) {
    if (!values[i]) return absl::InvalidArgumentError(str_cat("vmap: value ", i, " is missing"));
    if (!inputs[i].type()->is_array() && batched[i])
      return absl::InvalidArgumentError(str_cat("vmap: input ", i, " is not an array and cannot be batched"));
    const hlo::Type* want = inputs[i].type();
    if (batched[i]) {
      absl::StatusOr<const hlo::Type*> type = hlo::array_type(want->dtype, hlo::prepend(size, want->dims));
      if (!type.ok()) return type.status();
      want = *type;
    }
    if (values[i].type() != want)
      return absl::InvalidArgumentError(str_cat("vmap: value ", i, " has type ",
                                                hlo::to_string(*values[i].type()), " where ",
                                                hlo::to_string(*want), " is needed"));
  }
  hlo::Builder b;
  const LaneStrategyScope scope(strategy);
  hlo::BatchResult r = batch_graph(b, outputs, inputs, values, batched, size);
  if (!b.ok()) return b.status();
  return VmapOut{to_vector(r.results), std::vector<bool>(r.batched.begin(), r.batched.end())};
}

absl::StatusOr<std::vector<Value>> vmap(std::span<const Value> outputs, std::span<const Value> inputs,
                                        std::span<const Value> values, std::span<const bool> batched,
                                        int64_t size) {
  absl::StatusOr<VmapOut> out = vmap_lazily(outputs, inputs, values, batched, size);
  if (!out.ok()) return out.status();
  hlo::Builder b;
  for (size_t i = 0; i < out->results.size(); ++i)
    out->results[i] = hlo::with_batch(b, out->results[i], out->batched[i], size);
  if (!b.ok()) return b.status();
  return std::move(out->results);
}

absl::StatusOr<std::vector<Value>> substitute(std::span<const Value> outputs, std::span<const Value> inputs,
                                              std::span<const Value> values) {
  if (absl::Status s = check_ends("substitute", outputs, inputs); !s.ok()) return s;
  if (absl::Status s = check_types("substitute: value", values, inputs); !s.ok()) return s;
  for (size_t i = 0; i < values.size(); ++i)
    if (!values[i]) return absl::InvalidArgumentError(str_cat("substitute: value ", i, " is missing"));
  hlo::Builder b;
  hlo::Values out = substitute_graph(b, outputs, inputs, values);
  if (!b.ok()) return b.status();
  return to_vector(out);
}

}  // namespace lamina::trace
