#include "hlo/passes/region.h"

#include "hlo/nodes.h"
#include "hlo/printer.h"
#include "hlo/regions.h"

namespace lamina::hlo {

Values substitute(Builder& b, const Computation& region, const Substitution& replaced) {
  HashMap<const Node*, Values> made;
  auto value = [&](Operand o) {
    const auto it = replaced.find(o.bits());
    if (it != replaced.end()) return it->second;
    const auto done = made.find(o.node());
    return done == made.end() ? Value(o) : done->second[o.index()];
  };
  Values operands;
  for (Node* n : region.nodes()) {
    if (n->op() == Op::parameter) continue;
    operands.clear();
    for (Operand o : n->operands()) operands.push_back(value(o));
    NodeScope scope(*n);
    made[n] = results_of(b, *n, operands);
    if (!b.ok()) return Values(region.roots().size());
  }
  Values roots;
  for (const Value& r : region.roots()) roots.push_back(value(r.operand()));
  return roots;
}

Values expand(Builder& b, const Computation& region, std::span<const Value> arguments) {
  Substitution replaced;
  for (size_t i = 0; i < arguments.size(); ++i)
    replaced.emplace(region.parameters()[i].operand().bits(), arguments[i]);
  return substitute(b, region, replaced);
}

ComputationPtr make_region(Builder& b, std::span<const Value> parameters, std::span<const Value> roots) {
  if (!b.ok()) return nullptr;
  absl::StatusOr<ComputationPtr> made = Computation::make(parameters, roots);
  if (made.ok()) return *std::move(made);
  b.fail(made.status());
  return nullptr;
}

absl::StatusOr<ComputationPtr> rewrite_inside_out(
    const ComputationPtr& computation, Remade* remade,
    const std::function<absl::StatusOr<ComputationPtr>(const Computation&)>& rewrite) {
  for (const Computation* region : regions_of(*computation)) {
    absl::StatusOr<ComputationPtr> made = rewrite(*region);
    if (!made.ok()) return made;
    if (*made) remade->emplace(region, *std::move(made));
  }
  absl::StatusOr<ComputationPtr> made = rewrite(*computation);
  return made.ok() && !*made ? computation : made;
}

const Attrs* with_remade(const Attrs& attrs, const Remade& remade) {
  return with_regions(attrs, [&](const Computation& c) {
    const auto it = remade.find(&c);
    return it == remade.end() ? ComputationPtr() : it->second;
  });
}

}  // namespace lamina::hlo
