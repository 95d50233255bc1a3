// Derivatives of graphs that were derived before.
//
// Contract: a derivative is found by the content of the forward graph, node for node, and is then one call of
// a closed program: gradients outside of all transforms cost a walk of what the function recorded, not a
// derivation. What holds more than its graph shows (custom rules, which run Python; values that the function
// took from its arguments) is derived each time. All functions are called under the graph lock.
#ifndef LAMINA_LAZY_DERIVATIVE_MEMO_H_
#define LAMINA_LAZY_DERIVATIVE_MEMO_H_

#include <cstdint>
#include <optional>
#include <vector>

#include "hlo/computation.h"

namespace lamina::lazy {

void forget_derivatives();

// A forward graph between `points`, opaque copies of the arguments with at least `stamp`, and `outputs`.
class ForwardGraph {
 public:
  ForwardGraph(std::span<const hlo::Value> points, std::span<const hlo::Value> outputs, uint32_t stamp);

  // The results of the derivative on these arguments, if it is known; `wanted` has what it gave when it was
  // derived: outputs, then gradients, some of them null.
  std::optional<std::vector<hlo::Value>> found(std::span<const hlo::Value> arguments) const;
  // Remembers `derived`, made of the points, as the derivative, and gives it as a call on these arguments; as
  // it is where it cannot be remembered.
  std::vector<hlo::Value> remembered(std::vector<hlo::Value> derived,
                                     std::span<const hlo::Value> arguments) const;

 private:
  std::span<const hlo::Value> points_, outputs_;
  uint32_t stamp_;
  bool of_content_ = false;  // whether the key says all
  std::vector<uint64_t> key_;
  std::vector<hlo::Value> leaves_;
};

}  // namespace lamina::lazy

#endif  // LAMINA_LAZY_DERIVATIVE_MEMO_H_
