// Nodes one at a time: what they are, and how they are recorded again.
#ifndef LAMINA_HLO_NODES_H_
#define LAMINA_HLO_NODES_H_

#include <span>
#include <vector>

#include "absl/status/statusor.h"
#include "hlo/builder.h"
#include "hlo/computation.h"
#include "hlo/graph.h"

namespace lamina::hlo {

// Nodes recorded while this lives take numerics mode and location of `node`.
class NodeScope {
 public:
  explicit NodeScope(const Node& node) : saved_(record_state()) {
    record_state().mode = node.mode();
    record_state().location = node.location();
  }
  ~NodeScope() { record_state() = saved_; }
  NodeScope(const NodeScope&) = delete;
  NodeScope& operator=(const NodeScope&) = delete;

 private:
  RecordState saved_;
};

inline Value value_of(const Node& node, uint32_t index = 0) { return Value(const_cast<Node*>(&node), index); }

// The results of `node`'s op on `operands`: the node itself if these are its own.
Values results_of(Builder& b, const Node& node, std::span<const Value> operands);
Value result_of(Builder& b, const Node& node, std::span<const Value> operands);

std::vector<const Type*> types_of(std::span<const Value> values);

// What was recorded aside, or null with the error in the builder.
template <typename T>
const T* get_or_fail(Builder& b, const absl::StatusOr<T>& value) {
  if (value.ok()) return &*value;
  b.fail(value.status());
  return nullptr;
}

// Whether the test holds for the node, or for one within its regions; for one of the computation's nodes, or
// of their regions.
bool anywhere(const Node& node, bool (*test)(const Node&));
bool anywhere(const Computation& computation, bool (*test)(const Node&));
// Whether the values are made by at most `few` nodes, parameters among them, and the test holds for each.
bool made_by_few(std::span<const Operand> values, size_t few, bool (*test)(const Node&));
// Whether the node's results are elements of its operands: it makes no number.
bool passes_on(const Node& node);
bool is_effect(const Node& node);  // a host callback with effects

}  // namespace lamina::hlo

#endif  // LAMINA_HLO_NODES_H_
