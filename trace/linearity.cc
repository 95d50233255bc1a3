#include "trace/linearity.h"

#include <algorithm>
#include <string>
#include <vector>

#include "hlo/hash_map.h"
#include "hlo/location.h"
#include "hlo/strings.h"
#include "trace/graph_transforms.h"
#include "trace/transpose.h"

namespace lamina::trace {
namespace {

bool is_marked(std::span<const bool> marks) {
  return std::any_of(marks.begin(), marks.end(), [](bool m) { return m; });
}

std::vector<Node*> between(std::span<const Value> outputs, std::span<const Value> inputs) {
  struct Stop {
    HashSet<const Node*> inputs;
    static bool at(const Node& n, void* context) { return static_cast<Stop*>(context)->inputs.contains(&n); }
  };
  Stop stop;
  for (const Value& v : inputs) stop.inputs.insert(v.node());
  return postorder(outputs, Stop::at, &stop);
}

absl::Status refused(const Node& n) {
  const Location at = location(n.location());
  return absl::InvalidArgumentError(
      str_cat(n.def().name, " of its argument is not linear",
              at.file.empty() ? std::string() : str_cat(" (recorded at ", at.file, ":", at.line, ")")));
}

// Whether the derivative of one operation at its `moving` operands is there and depends on none of them.
bool is_linear(Node& n, std::span<const bool> moving) {
  Values operands;
  std::vector<Value> points, results;
  for (uint32_t i = 0; i < n.operands().size(); ++i) {
    operands.push_back(moving[i] ? make_parameter(n.operand_type(i)) : Value(n.operand(i)));
    if (moving[i]) points.push_back(operands.back());
  }
  Builder b;
  for (const Value& v : b.remake(n, operands))
    if (v && has_tangent(v.type())) results.push_back(v);
  if (!b.ok() || results.empty()) return false;
  const absl::StatusOr<Linearized> linear = linearize_fresh(results, points);
  if (!linear.ok()) return false;
  std::vector<Value> tangents;
  for (size_t i = 0; i < results.size(); ++i) {
    if (!linear->tangents[i]) return false;
    tangents.push_back(linear->tangents[i]);
  }
  HashSet<const Node*> of_points;
  for (const Value& v : points) of_points.insert(v.node());
  for (const Node* t : between(tangents, linear->tangent_inputs))
    if (of_points.contains(t)) return false;
  return true;
}

absl::Status check_between(std::span<const Value> outputs, std::span<const Value> inputs);

absl::Status check_body(const Computation& body, std::span<const bool> moving) {
  std::vector<Value> inputs;
  for (size_t i = 0; i < body.parameters().size(); ++i)
    if (moving[i] && has_tangent(body.parameters()[i].type())) inputs.push_back(body.parameters()[i]);
  return check_between(body.roots(), inputs);
}

// Which results of a call, branch or loop depend on its moving operands, if its bodies are linear in those.
absl::StatusOr<Mask> through_bodies(const Node& n, std::span<const bool> operands) {
  Mask results(n.num_results(), false), moving(operands.begin(), operands.end());
  if (n.op() == Op::case_) {
    moving.erase(moving.begin());
    for (const ComputationPtr& branch : n.attrs().computations(Attr::branches)) {
      if (absl::Status s = check_body(*branch, moving); !s.ok()) return s;
      const Mask more = dependence(*branch, moving);
      for (size_t i = 0; i < results.size(); ++i) results[i] = results[i] || more[i];
    }
    return results;
  }
  const Computation& body = *n.attrs().computation(Attr::body);
  const size_t carried = n.op() == Op::while_ ? moving.size()
                         : n.op() == Op::scan ? static_cast<size_t>(n.attrs().integer(Attr::num_carry))
                                              : 0;
  for (bool changed = true; changed;) {
    changed = false;
    results = dependence(body, moving);
    for (size_t i = 0; i < carried; ++i)
      if (results[i] && !moving[i]) changed = moving[i] = true;
  }
  // A loop that ends by what it carries goes as often as that says.
  if (n.op() == Op::while_ && is_marked(dependence(*n.attrs().computation(Attr::cond), moving)))
    return refused(n);
  if (absl::Status s = check_body(body, moving); !s.ok()) return s;
  return results;
}

bool has_bodies(const Node& n) {
  switch (n.op()) {
    case Op::case_:
      return true;
    case Op::while_:
    case Op::scan:
    case Op::call:
      return n.attrs().computation(Attr::body)->parameters().size() == n.operands().size();
    default:
      return false;
  }
}

// Whether a node takes x itself for some lanes, and for the others, whose result nobody takes, x without its
// gradient.
bool is_beside(const Node& n, const Operand& x) {
  return n.op() == Op::select && std::any_of(n.operands().begin(), n.operands().end(), [&](const Operand& o) {
           return o.node() == x.node() && o.index() == x.index();
         });
}

// `outputs` without tangents are not looked at; inputs have tangents.
absl::Status check_between(std::span<const Value> outputs, std::span<const Value> inputs) {
  std::vector<Value> differentiated;
  for (const Value& v : outputs)
    if (has_tangent(v.type())) differentiated.push_back(v);
  HashMap<const Node*, Mask> moving;  // results of nodes
  for (const Value& v : inputs) {
    moving[v.node()].resize(v.node()->num_results(), false);
    moving[v.node()][v.index()] = true;
  }
  HashMap<const Node*, Operand> held;  // stopped gradients, and what of
  for (Node* n : between(differentiated, inputs)) {
    if (moving.contains(n)) continue;
    Mask operands;
    for (uint32_t i = 0; i < n->operands().size(); ++i) {
      const auto it = moving.find(n->operand(i).node());
      operands.push_back(it != moving.end() && it->second[n->operand(i).index()] &&
                         has_tangent(n->operand_type(i)));
    }
    for (const Operand& o : n->operands())
      if (const auto it = held.find(o.node()); it != held.end() && !is_beside(*n, it->second))
        return refused(*o.node());
    if (!is_marked(operands)) continue;
    if (n->op() == Op::stop_gradient) {
      held.emplace(n, n->operand(0));
      continue;
    }
    Mask results(n->num_results(), true);
    if (has_bodies(*n)) {
      absl::StatusOr<Mask> found = through_bodies(*n, operands);
      if (!found.ok()) return found.status();
      results = *std::move(found);
    } else if (!is_linear(*n, operands)) {
      return refused(*n);
    }
    moving.emplace(n, std::move(results));
  }
  for (const Value& v : differentiated)
    if (held.contains(v.node())) return refused(*v.node());
  return absl::OkStatus();
}

}  // namespace

absl::Status check_linear(std::span<const Value> outputs, std::span<const Value> inputs) {
  GraphLock lock;
  std::vector<Value> points;
  for (const Value& v : inputs)
    if (has_tangent(v.type())) points.push_back(v);
  return check_between(outputs, points);
}

}  // namespace lamina::trace
