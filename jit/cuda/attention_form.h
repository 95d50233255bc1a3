// Attention as a subgraph: softmax(scale * Q K^T + bias) V, as programs spell it, and how its arrays lie.
#ifndef LAMINA_JIT_CUDA_ATTENTION_FORM_H_
#define LAMINA_JIT_CUDA_ATTENTION_FORM_H_

#include <array>
#include <cstdint>
#include <optional>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/statusor.h"
#include "hlo/computation.h"
#include "hlo/graph.h"

namespace lamina::jit::cuda {

struct AttentionForm {
  // By [batch, heads, queries or keys, features], a bias by [batch, heads, queries, keys], in elements. What
  // is broadcast has an extent of 1. Features, and the keys of a bias, lie side by side.
  struct Array {
    std::array<int64_t, 4> dims, strides;
    bool operator==(const Array&) const = default;
  };

  hlo::DType type;  // of queries, keys, values and the result
  Array query, key, value, result;
  std::optional<Array> bias = std::nullopt;
  hlo::DType bias_type = hlo::DType::kF32;
  // What products are multiplied by, or divided where that is an operand.
  float scale = 1;
  bool has_scale_operand = false, divides = false;
  // What scores of keys behind the query's own place become.
  std::optional<float> causal = std::nullopt;
  bool is_fast = false;

  bool operator==(const AttentionForm&) const = default;
  double multiplications() const {
    const auto& [b, h, q, d] = query.dims;
    return static_cast<double>(b) * static_cast<double>(h) * static_cast<double>(q) *
           static_cast<double>(key.dims[2]) * static_cast<double>(d + value.dims[3]);
  }
};

struct FoundAttention {
  AttentionForm form;
  hlo::Value result;
  hlo::Values operands;  // queries, keys, values, then the bias and the scale, where there are
};

// All in a computation whose scores nothing else reads. In `same` numerics those that leave out no rounding
// and add none, but that of the probabilities to the type of the values.
std::vector<FoundAttention> find_attentions(const hlo::Computation& computation);

// The program where those that are wanted are one node each: a call, whose body is the subgraph.
absl::StatusOr<hlo::ComputationPtr> with_attention_calls(
    const hlo::ComputationPtr& program, absl::FunctionRef<bool(const AttentionForm&)> is_wanted);
// Of such a call; none of other nodes.
std::optional<AttentionForm> attention_form(const hlo::Node& node);

}  // namespace lamina::jit::cuda

#endif  // LAMINA_JIT_CUDA_ATTENTION_FORM_H_
