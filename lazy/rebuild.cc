#include "lazy/rebuild.h"

#include "hlo/graph_copy.h"
#include "hlo/nodes.h"

namespace lamina::lazy {

using hlo::Computation;
using hlo::Node;
using hlo::Op;
using hlo::Operand;
using hlo::Value;
using hlo::Values;

namespace {

bool is_made(const Node& n, void* copy) { return static_cast<hlo::GraphCopy*>(copy)->has(&n); }

absl::StatusOr<hlo::ComputationPtr> rebuild(std::span<const Value> roots, hlo::GraphCopy& copy,
                                            std::span<const Value> parameters) {
  hlo::Builder b;
  const bool made =
      copy.extend(b, hlo::postorder(roots, is_made, &copy), [&](const Node& n, std::span<const Value> x) {
        const hlo::NodeScope as(n);
        return b.remake(n, x);
      });
  if (!made) return b.status();
  return Computation::make(parameters, copy(roots));
}

// A parameter for each result of the node, which stand for it.
void put_parameters(const Node& n, hlo::GraphCopy& copy, std::vector<Value>& parameters) {
  Values results;
  for (uint32_t i = 0; i < n.num_results(); ++i) results.push_back(hlo::make_parameter(n.result_type(i)));
  parameters.insert(parameters.end(), results.begin(), results.end());
  copy.put(&n, std::move(results));
}

}  // namespace

absl::StatusOr<hlo::ComputationPtr> rebuild_with_parameters(std::span<const Value> roots,
                                                            std::span<const Value> leaves) {
  hlo::GraphLock lock;
  // Nodes without parameters are made anew too: the values in `roots` are about to become leaves.
  hlo::FloorScope floor(hlo::fresh_stamp());
  hlo::GraphCopy copy;
  std::vector<Value> parameters;
  for (const Value& leaf : leaves) put_parameters(*leaf.node(), copy, parameters);
  return rebuild(roots, copy, parameters);
}

absl::StatusOr<hlo::ComputationPtr> close_at_floor(std::span<const Value> outputs,
                                                   std::span<const Value> inputs, uint32_t floor,
                                                   std::vector<Value>* captured) {
  hlo::GraphLock lock;
  hlo::FloorScope anew(hlo::fresh_stamp());
  std::vector<Value> parameters;
  for (const Value& input : inputs) parameters.push_back(hlo::make_parameter(input.type()));
  hlo::GraphCopy copy(inputs, parameters);
  struct Context {
    const hlo::GraphCopy* copy;
    uint32_t floor;
    uint16_t session;
  } context{&copy, floor, hlo::session_number()};
  auto outside = [](const Node& n, void* c) {
    const auto* ctx = static_cast<Context*>(c);
    if (ctx->copy->has(&n) || n.data() != nullptr || n.op() == Op::parameter) return true;
    // Of another thread: a constant here, unless it was made of values of this one's traces.
    const bool foreign = n.session() != ctx->session && !n.shared();
    return (n.stamp() < ctx->floor || foreign) && n.op() != Op::constant;
  };
  for (Node* n : hlo::postorder(outputs, outside, &context)) {
    if (!outside(*n, &context) || copy.has(n)) continue;
    for (uint32_t i = 0; i < n->num_results(); ++i) captured->push_back(Value(n, i));
    put_parameters(*n, copy, parameters);
  }
  return rebuild(outputs, copy, parameters);
}

}  // namespace lamina::lazy
