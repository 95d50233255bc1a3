#include "lazy/rebuild.h"

#include "hlo/builder.h"
#include "hlo/hash_map.h"

namespace lamina::lazy {

using hlo::Computation;
using hlo::Node;
using hlo::Op;
using hlo::Operand;
using hlo::Value;
using hlo::Values;

namespace {

using Made = HashMap<const Node*, Values>;

bool is_made(const Node& n, void* made) { return static_cast<Made*>(made)->contains(&n); }

absl::StatusOr<hlo::ComputationPtr> rebuild(std::span<const Value> roots, Made& made,
                                            std::span<const Value> parameters) {
  hlo::Builder b;
  Values operands;
  for (const Node* n : hlo::postorder(roots, is_made, &made)) {
    if (made.contains(n)) continue;
    operands.clear();
    for (Operand o : n->operands()) operands.push_back(made.at(o.node())[o.index()]);
    hlo::LocationScope location(n->location());
    made[n] = b.remake(*n, operands);
    if (!b.ok()) return b.status();
  }
  Values results;
  for (const Value& r : roots) results.push_back(made.at(r.node())[r.index()]);
  return Computation::make(parameters, results);
}

}  // namespace

absl::StatusOr<hlo::ComputationPtr> rebuild_with_parameters(std::span<const Value> roots,
                                                            std::span<const Value> leaves) {
  hlo::GraphLock lock;
  // Nodes without parameters are made anew too: the values in `roots` are about to become leaves.
  hlo::FloorScope floor(hlo::fresh_stamp());
  Made made;
  std::vector<Value> parameters;
  for (const Value& leaf : leaves) {
    Values& results = made[leaf.node()];
    for (uint32_t i = 0; i < leaf.node()->num_results(); ++i) {
      results.push_back(hlo::make_parameter(leaf.node()->result_type(i)));
      parameters.push_back(results.back());
    }
  }
  return rebuild(roots, made, parameters);
}

absl::StatusOr<hlo::ComputationPtr> close_at_floor(std::span<const Value> outputs,
                                                   std::span<const Value> inputs, uint32_t floor,
                                                   std::vector<Value>* captured) {
  hlo::GraphLock lock;
  hlo::FloorScope anew(hlo::fresh_stamp());
  Made made;
  std::vector<Value> parameters;
  for (const Value& input : inputs) {
    parameters.push_back(hlo::make_parameter(input.type()));
    made[input.node()] = {parameters.back()};
  }
  struct Context {
    Made* made;
    uint32_t floor;
    uint16_t session;
  } context{&made, floor, hlo::session_number()};
  auto outside = [](const Node& n, void* c) {
    const auto* ctx = static_cast<Context*>(c);
    if (ctx->made->contains(&n) || n.data() != nullptr || n.op() == Op::parameter) return true;
    // Of another thread: a constant here, unless it was made of values of this one's traces.
    const bool foreign = n.session() != ctx->session && !n.shared();
    return (n.stamp() < ctx->floor || foreign) && n.op() != Op::constant;
  };
  for (Node* n : hlo::postorder(outputs, outside, &context)) {
    if (!outside(*n, &context) || made.contains(n)) continue;
    Values& results = made[n];
    for (uint32_t i = 0; i < n->num_results(); ++i) {
      captured->push_back(Value(n, i));
      parameters.push_back(hlo::make_parameter(n->result_type(i)));
      results.push_back(parameters.back());
    }
  }
  return rebuild(outputs, made, parameters);
}

}  // namespace lamina::lazy
