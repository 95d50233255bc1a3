#include "jit/cuda/subgraph_call.h"

#include <algorithm>
#include <string>
#include <utility>

#include "hlo/builder.h"
#include "hlo/graph_copy.h"
#include "hlo/nodes.h"
#include "hlo/passes/pass.h"
#include "hlo/passes/region.h"
#include "hlo/printer.h"
#include "hlo/regions.h"

namespace lamina::jit::cuda {
namespace {

using hlo::Attr;
using hlo::Node;
using hlo::Op;
using hlo::Operand;
using hlo::Value;

// Records a subgraph again, of parameters in place of its operands.
class BodyCopy {
 public:
  BodyCopy(hlo::Builder& b, const Invariants& invariants) : b_(b), invariants_(invariants) {}

  void put(Operand of, Value parameter) { made_.emplace(of.bits(), std::move(parameter)); }
  // The pattern bounds how deep that goes.
  Value operator()(Operand o) {
    if (const auto it = made_.find(o.bits()); it != made_.end()) return it->second;
    const Value outer = outermost(invariants_, Value(o));
    const Node& n = *outer.node();
    hlo::Values operands;
    for (Operand operand : n.operands()) operands.push_back((*this)(operand));
    const hlo::NodeScope scope(n);
    Value out = b_.ok() ? hlo::result_of(b_, n, operands) : Value();
    made_.emplace(o.bits(), out);
    return out;
  }

 private:
  hlo::Builder& b_;
  const Invariants& invariants_;
  HashMap<uint64_t, Value> made_;
};

Value subgraph_call(hlo::Builder& b, std::string_view target, const Subgraph& of,
                    const Invariants& invariants, std::span<const Value> operands) {
  BodyCopy copy(b, invariants);
  hlo::Values parameters;
  for (const Value& o : of.operands) {
    parameters.push_back(hlo::make_parameter(o.type()));
    copy.put(o.operand(), parameters.back());
  }
  const Value result = copy(of.result.operand());
  if (!b.ok()) return {};
  absl::StatusOr<hlo::ComputationPtr> body = hlo::Computation::make(parameters, {{result}});
  if (!body.ok()) return b.fail(body.status());
  const hlo::NodeScope scope(*of.result.node());
  return b.make(Op::custom_call, operands,
                hlo::intern_attrs({{Attr::call_target_name, std::string(target)},
                                   {Attr::result_types, std::vector<const hlo::Type*>{of.result.type()}},
                                   {Attr::body, *std::move(body)}}));
}

// By what they end with.
using Wanted = HashMap<const Node*, const Subgraph*>;

// Null where nothing changes.
absl::StatusOr<hlo::ComputationPtr> with_calls(const hlo::Computation& c, const hlo::Remade& remade,
                                               std::string_view target, const Wanted& wanted,
                                               const Invariants& invariants) {
  const auto changes = [&](const Node* n) {
    return hlo::with_remade(n->attrs(), remade) != &n->attrs() || wanted.contains(n);
  };
  if (std::ranges::none_of(c.nodes(), changes)) return hlo::ComputationPtr();
  hlo::Builder b;
  hlo::GraphCopy copy(c.parameters(), c.parameters());
  const bool made = copy.extend(b, c.nodes(), [&](const Node& n, std::span<const Value> operands) {
    const hlo::NodeScope scope(n);
    if (const auto it = wanted.find(&n); it != wanted.end())
      return hlo::Values{subgraph_call(b, target, *it->second, invariants, copy(it->second->operands))};
    const hlo::Attrs* const attrs = hlo::with_remade(n.attrs(), remade);
    return attrs != &n.attrs() ? b.make_multi(n.op(), operands, attrs) : hlo::results_of(b, n, operands);
  });
  if (!made) return b.status();
  return hlo::Computation::make(c.parameters(), copy(c.roots()));
}

}  // namespace

Users users_of(const hlo::Computation& computation) {
  Users out;
  for (const Value& root : computation.roots()) out[root.node()].push_back(nullptr);
  for (const Node* n : computation.nodes())
    for (Operand o : n->operands()) out[o.node()].push_back(n);
  return out;
}

bool are_read_only_here(std::span<const Node* const> nodes, const Node* result, const Users& users) {
  return std::ranges::all_of(nodes, [&](const Node* n) {
    const auto it = users.find(n);
    return n == result || (it != users.end() && std::ranges::all_of(it->second, [&](const Node* user) {
                             return std::ranges::find(nodes, user) != nodes.end();
                           }));
  });
}

Invariants invariants_of(const hlo::ComputationPtr& program) {
  std::vector<const hlo::Computation*> all = hlo::regions_of(*program);
  all.push_back(program.get());
  HashMap<const hlo::Computation*, std::vector<const Node*>> loops;
  for (const hlo::Computation* c : all)
    for (const Node* n : c->nodes())
      if (hlo::is_loop_op(n->op())) loops[n->attrs().computation(Attr::body).get()].push_back(n);
  Invariants out;
  for (const auto& [body, of] : loops)
    for (size_t i = 0; of.size() == 1 && i < hlo::num_carried(*of[0]); ++i)
      if (body->roots()[i] == body->parameters()[i])
        out.emplace(body->parameters()[i].node(), of[0]->operand_value(i));
  return out;
}

Value outermost(const Invariants& invariants, Value v) {
  for (auto it = invariants.find(v.node()); it != invariants.end(); it = invariants.find(v.node()))
    v = it->second;
  return v;
}

absl::StatusOr<hlo::ComputationPtr> with_subgraph_calls(const hlo::ComputationPtr& program,
                                                        std::string_view target,
                                                        std::span<const Subgraph> subgraphs,
                                                        const Invariants& invariants) {
  if (subgraphs.empty()) return program;
  Wanted wanted;
  for (const Subgraph& s : subgraphs) wanted.emplace(s.result.node(), &s);
  absl::StatusOr<hlo::ComputationPtr> out;
  {
    const hlo::GraphLock lock;
    hlo::Remade remade;
    out = hlo::rewrite_inside_out(program, &remade, [&](const hlo::Computation& c) {
      return with_calls(c, remade, target, wanted, invariants);
    });
  }
  // What loops carried for them alone, as masks.
  return out.ok() ? hlo::drop_unused(*out) : out;
}

const hlo::Computation* subgraph_of(const Node& node, std::string_view target) {
  return node.op() == Op::custom_call && node.attrs().string(Attr::call_target_name) == target &&
                 node.attrs().has(Attr::body)
             ? node.attrs().computation(Attr::body).get()
             : nullptr;
}

}  // namespace lamina::jit::cuda
