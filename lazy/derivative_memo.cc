#include "lazy/derivative_memo.h"

#include <algorithm>

#include "hlo/builder.h"
#include "hlo/hash_map.h"
#include "hlo/once.h"
#include "lazy/lazy.h"
#include "lazy/rebuild.h"

namespace lamina::lazy {
namespace {

using hlo::Node;
using hlo::Value;

// Beyond so many derivatives all are forgotten.
constexpr size_t kMostKept = 1024;
// So many operations besides the function's may wait to be computed beneath it. Where more do, as in a loop
// that nothing reads a value of, the graph is another one each time.
constexpr ptrdiff_t kMostWaiting = 256;

struct Derivative {
  hlo::ComputationPtr forward;  // keeps what the key's numbers stand for
  hlo::ComputationPtr program;  // of the points and the forward graph's leaves; null: derived each time
  std::vector<bool> there;      // which of the outputs and gradients it gives
};

HashMap<std::vector<uint64_t>, Derivative>& known() {
  static constinit hlo::Once<HashMap<std::vector<uint64_t>, Derivative>> all;
  return all.get();
}

bool has_rule(const hlo::Computation& computation);
bool has_rule(const Node& n) {
  for (const auto& [attr, value] : n.attrs().entries()) {
    if (attr == hlo::Attr::rule) return true;
    if (const auto* body = std::get_if<hlo::ComputationPtr>(&value); body && *body && has_rule(**body))
      return true;
    if (const auto* bodies = std::get_if<std::vector<hlo::ComputationPtr>>(&value))
      for (const hlo::ComputationPtr& body : *bodies)
        if (body && has_rule(*body)) return true;
  }
  return false;
}
bool has_rule(const hlo::Computation& computation) {
  return std::any_of(computation.nodes().begin(), computation.nodes().end(),
                     [](const Node* n) { return has_rule(*n); });
}

std::vector<Value> called(const Derivative& d, std::span<const Value> arguments,
                          std::span<const Value> leaves) {
  std::vector<Value> operands(arguments.begin(), arguments.end());
  operands.insert(operands.end(), leaves.begin(), leaves.end());
  hlo::Builder b;
  hlo::Values results = b.call(d.program, operands);
  check(b.status());
  std::vector<Value> out;
  size_t next = 0;
  for (const bool there : d.there) out.push_back(there ? std::move(results[next++]) : Value());
  return out;
}

}  // namespace

void forget_derivatives() {
  hlo::GraphLock lock;
  known().clear();
}

ForwardGraph::ForwardGraph(std::span<const Value> points, std::span<const Value> outputs, uint32_t stamp)
    : points_(points), outputs_(outputs), stamp_(stamp) {
  std::vector<Node*> nodes;
  absl::StatusOr<std::vector<uint64_t>> key = hlo::encode_graph(points, outputs, &leaves_, &nodes);
  if (!key.ok()) return;
  key_ = *std::move(key);
  // A value that the function took from its arguments would be a constant here. One that still has its op, as
  // a node of a computation does, may be found again where the derivative makes the same: as a leaf it would
  // be a parameter there, too.
  const bool known = std::all_of(leaves_.begin(), leaves_.end(), [&](const Value& leaf) {
    const Node& n = *leaf.node();
    return n.op() == hlo::Op::leaf && n.data() != nullptr && n.stamp() < stamp_ && n.num_results() == 1;
  });
  const auto waits = [&](const Node* n) { return n->stamp() < stamp_ && n->data() == nullptr; };
  of_content_ = known && std::count_if(nodes.begin(), nodes.end(), waits) <= kMostWaiting &&
                std::none_of(nodes.begin(), nodes.end(), [](const Node* n) { return has_rule(*n); });
}

std::optional<std::vector<Value>> ForwardGraph::found(std::span<const Value> arguments) const {
  if (!of_content_) return std::nullopt;
  const auto it = known().find(key_);
  if (it == known().end() || !it->second.program) return std::nullopt;
  return called(it->second, arguments, leaves_);
}

std::vector<Value> ForwardGraph::remembered(std::vector<Value> derived,
                                            std::span<const Value> arguments) const {
  if (!of_content_ || known().contains(key_)) return derived;
  Derivative d;
  std::vector<Value> inputs(points_.begin(), points_.end()), others, roots;
  inputs.insert(inputs.end(), leaves_.begin(), leaves_.end());
  for (const Value& v : derived) {
    d.there.push_back(static_cast<bool>(v));
    if (v) roots.push_back(v);
  }
  d.forward = check(close_at_floor(outputs_, inputs, 0, &others));
  if (others.empty()) {
    d.program = check(close_at_floor(roots, inputs, 0, &others));
    if (!others.empty()) d.program = nullptr;  // arrays that were made on the way
  }
  if (known().size() >= kMostKept) known().clear();
  const Derivative& kept = known().emplace(key_, std::move(d)).first->second;
  return kept.program ? called(kept, arguments, leaves_) : std::move(derived);
}

}  // namespace lamina::lazy
