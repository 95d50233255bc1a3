// A graph recorded again, node by node, with other nodes in place of some: the one way to do so.
//
// Contract: nodes come with their operands before them (Computation::nodes, postorder). What is recorded in
// place of a node, in which numerics mode and under which location, is the caller's matter.
#ifndef LAMINA_HLO_GRAPH_COPY_H_
#define LAMINA_HLO_GRAPH_COPY_H_

#include <span>
#include <utility>

#include "hlo/builder.h"
#include "hlo/hash_map.h"

namespace lamina::hlo {

class GraphCopy {
 public:
  GraphCopy() = default;
  // values[i] stands for of[i], the only result of its node: a parameter, most often.
  GraphCopy(std::span<const Value> of, std::span<const Value> values) {
    for (size_t i = 0; i < of.size(); ++i) put(of[i].node(), {values[i]});
  }

  void put(const Node* node, Values results) { made_[node] = std::move(results); }
  bool has(const Node* node) const { return made_.contains(node); }

  // What stands for the value; the value itself where nothing does.
  Value operator()(Operand o) const {
    const auto it = made_.find(o.node());
    return it == made_.end() ? Value(o) : it->second[o.index()];
  }
  Values operator()(std::span<const Value> values) const {
    Values out;
    for (const Value& v : values) out.push_back((*this)(v.operand()));
    return out;
  }

  // For every node that nothing stands for yet: make(node, operands) -> Values. False at the builder's first
  // error.
  template <typename F>
  bool extend(const Builder& b, std::span<Node* const> nodes, F&& make) {
    Values operands;
    for (const Node* n : nodes) {
      if (has(n)) continue;
      operands.clear();
      for (Operand o : n->operands()) operands.push_back((*this)(o));
      Values results = make(*n, std::span<const Value>(operands));
      if (!b.ok()) return false;
      put(n, std::move(results));
    }
    return true;
  }

 private:
  HashMap<const Node*, Values> made_;
};

}  // namespace lamina::hlo

#endif  // LAMINA_HLO_GRAPH_COPY_H_
