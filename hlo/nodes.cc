#include "hlo/nodes.h"

#include <algorithm>

#include "hlo/op.h"
#include "hlo/printer.h"
#include "hlo/regions.h"

namespace lamina::hlo {

Values results_of(Builder& b, const Node& node, std::span<const Value> operands) {
  bool own = operands.size() == node.operands().size();
  for (size_t i = 0; own && i < operands.size(); ++i) own = operands[i].operand() == node.operand(i);
  if (!own) return b.remake(node, operands);
  Values results;
  for (uint32_t i = 0; i < node.num_results(); ++i) results.push_back(value_of(node, i));
  return results;
}

Value result_of(Builder& b, const Node& node, std::span<const Value> operands) {
  return results_of(b, node, operands)[0];
}

std::vector<const Type*> types_of(std::span<const Value> values) {
  std::vector<const Type*> out;
  for (const Value& v : values) out.push_back(v.type());
  return out;
}

bool anywhere(const Node& node, bool (*test)(const Node&)) {
  if (test(node)) return true;
  bool found = false;
  for_each_region(node.attrs(), [&](const ComputationPtr& r) { found = found || anywhere(*r, test); });
  return found;
}

bool anywhere(const Computation& computation, bool (*test)(const Node&)) {
  const auto among = [&](const std::vector<Node*>& nodes) {
    return std::any_of(nodes.begin(), nodes.end(), [&](const Node* n) { return test(*n); });
  };
  if (among(computation.nodes())) return true;
  const std::vector<const Computation*> regions = regions_of(computation);
  return std::any_of(regions.begin(), regions.end(), [&](const Computation* c) { return among(c->nodes()); });
}

bool made_by_few(std::span<const Operand> values, size_t few, bool (*test)(const Node&)) {
  std::vector<const Node*> nodes;
  const auto add = [&](std::span<const Operand> operands) {
    for (Operand o : operands)
      if (std::find(nodes.begin(), nodes.end(), o.node()) == nodes.end()) nodes.push_back(o.node());
  };
  add(values);
  for (size_t at = 0; at < nodes.size(); ++at) {
    if (nodes.size() > few || !test(*nodes[at])) return false;
    add(nodes[at]->operands());
  }
  return true;
}

bool passes_on(const Node& node) {
  return node.def().family == OpFamily::kStructure || node.def().family == OpFamily::kShape;
}

bool is_effect(const Node& node) {
  return node.op() == Op::custom_call && node.attrs().flag(Attr::has_side_effect);
}

}  // namespace lamina::hlo
