#include "trace/kept.h"

#include <algorithm>

#include "hlo/custom_call.h"
#include "hlo/graph_copy.h"
#include "hlo/hash_map.h"
#include "hlo/passes/pass.h"
#include "trace/rules/scan.h"

namespace lamina::trace {
namespace {

bool saves_nothing(const Node& n) {
  return n.op() == Op::identity || n.op() == Op::constant || n.op() == Op::broadcast_in_dim ||
         n.op() == Op::reshape;
}

// A list of nodes, operands before what uses them, cut in two: `known` makes everything and what is kept,
// `linear` what its roots need, with parameters for what is kept.
class Cut {
 public:
  Cut(Builder& b, const Policy& policy, std::span<Node* const> nodes, Ops parameters)
      : b_(b), policy_(policy), nodes_(nodes), known_(parameters, parameters), linear_(known_) {
    for (const Value& p : parameters) dependent_.insert(p.node());
    std::vector<Node*> asked;
    for (Node* n : nodes) {
      const auto depends = [&](const Operand& o) { return dependent_.contains(o.node()); };
      if (dependent_.contains(n) || !std::any_of(n->operands().begin(), n->operands().end(), depends))
        continue;
      dependent_.insert(n);
      if (n->num_results() == 1 && !saves_nothing(*n)) asked.push_back(n);
    }
    asked_ = std::move(asked);
  }

  // Nodes that depend on these are none of the known part.
  void set_unknown(Ops from) {
    for (const Value& v : from) unknown_.insert(v.node());
    for (Node* n : nodes_)
      for (const Operand& o : n->operands())
        if (unknown_.contains(o.node())) unknown_.insert(n);
    std::erase_if(asked_, [&](Node* n) { return unknown_.contains(n); });
  }

  void ask() {
    if (asked_.empty()) return;
    std::vector<bool> marks = policy_.keeps(asked_);
    if (policy_.names_decide()) {
      HashMap<const Node*, bool> by_name;
      for (size_t i = 0; i < asked_.size(); ++i)
        if (given_name(*asked_[i])) by_name[asked_[i]->operand(0).node()] = marks.at(i);
      for (size_t i = 0; i < asked_.size(); ++i)
        if (const auto named = by_name.find(asked_[i]); named != by_name.end()) marks[i] = named->second;
    }
    for (size_t i = 0; i < asked_.size(); ++i)
      if (marks.at(i)) kept_nodes_.insert(asked_[i]);
  }

  // The linear part is to give these values too.
  void need(const Value& root) { needed_.insert(root.operand().bits()); }
  void spread_needs() {
    for (auto it = nodes_.rbegin(); it != nodes_.rend(); ++it) {
      Node* n = *it;
      if (kept_nodes_.contains(n) || !any_needed(*n)) continue;
      for (const Operand& o : n->operands()) needed_.insert(o.bits());
    }
  }
  bool is_needed(const Value& v) const { return needed_.contains(v.operand().bits()); }

  void run() {
    for (Node* n : nodes_) {
      if (!b_.ok()) return;
      if (n->op() == Op::parameter) continue;
      const NodeScope scope(*n);
      if (unknown_.contains(n)) {
        if (any_needed(*n)) linear_.put(n, again(*n, linear_));
      } else if (kept_nodes_.contains(n)) {
        known_.put(n, again(*n, known_));
        if (any_needed(*n)) linear_.put(n, {keep(known_(Value(n).operand()))});
      } else if (!dependent_.contains(n) || !any_needed(*n) || !cut_inside(*n)) {
        known_.put(n, again(*n, known_));
        if (any_needed(*n)) linear_.put(n, again(*n, linear_));
      }
    }
  }

  Values known(Ops roots) const { return known_(roots); }
  Values linear(Ops roots) const { return linear_(roots); }
  const Values& kept() const { return kept_; }              // made by the known part
  const Values& parameters() const { return parameters_; }  // what stands for them in the linear one

 private:
  bool any_needed(const Node& n) const {
    for (uint32_t i = 0; i < n.num_results(); ++i)
      if (needed_.contains(Value(const_cast<Node*>(&n), i).operand().bits())) return true;
    return false;
  }
  Values operands(const Node& n, const GraphCopy& copy) const {
    Values out;
    for (const Operand& o : n.operands()) out.push_back(copy(o));
    return out;
  }
  Values again(const Node& n, const GraphCopy& copy) { return results_of(b_, n, operands(n, copy)); }
  Value keep(const Value& made) {
    kept_.push_back(made);
    parameters_.push_back(make_parameter(made.type()));
    return parameters_.back();
  }

  // False where nothing inside is kept.
  bool cut_inside(const Node& n) {
    if (n.op() == Op::scan) return cut_scan(n);
    if (n.op() == Op::case_) return cut_case(n);
    return false;
  }

  bool cut_scan(const Node& n) {
    const Computation& body = *n.attrs().computation(Attr::body);
    const auto carries = static_cast<size_t>(n.attrs().integer(Attr::num_carry));
    const int64_t length = n.attrs().integer(Attr::length);
    const bool reverse = n.attrs().flag(Attr::reverse);
    Builder own;
    Cut inner(own, policy_, body.nodes(), body.parameters());
    inner.ask();
    const Ops roots = body.roots(), parameters = body.parameters();
    Mask live(roots.size(), false);
    for (size_t i = 0; i < roots.size(); ++i) live[i] = is_needed(Value(const_cast<Node*>(&n), i));
    while (true) {
      for (size_t i = 0; i < roots.size(); ++i)
        if (live[i]) inner.need(roots[i]);
      inner.spread_needs();
      bool stable = true;
      for (size_t i = 0; i < carries; ++i)
        if (!live[i] && inner.is_needed(parameters[i])) {
          live[i] = true;
          stable = false;
        }
      if (stable) break;
    }
    inner.run();
    if (!own.ok()) {
      b_.fail(own.status());
      return true;
    }
    if (inner.kept().empty()) return false;
    absl::StatusOr<ComputationPtr> made =
        Computation::make(parameters, joined(inner.known(roots), inner.kept()));
    if (!get_or_fail(b_, made)) return true;
    const Values x = operands(n, known_), y = operands(n, linear_);
    const Values all = b_.scan(*made, Ops(x).first(carries), Ops(x).subspan(carries), length, reverse);
    if (!b_.ok()) return true;
    known_.put(&n, Values(all.begin(), all.begin() + static_cast<ptrdiff_t>(roots.size())));
    Values stacked;
    for (size_t i = roots.size(); i < all.size(); ++i) stacked.push_back(keep(all[i]));
    // What a step gives as it was kept is the stack.
    const Values found = inner.linear(roots);
    const auto kept_at = [&](const Value& v) {
      const Values& p = inner.parameters();
      return static_cast<size_t>(std::find(p.begin(), p.end(), v) - p.begin());
    };
    Values results(roots.size()), inner_parameters, inner_roots, init, xs;
    std::vector<size_t> from;
    for (size_t i = 0; i < parameters.size(); ++i) {
      if (i < carries ? !live[i] : !inner.is_needed(parameters[i])) continue;
      inner_parameters.push_back(parameters[i]);
      (i < carries ? init : xs).push_back(y[i]);
    }
    for (size_t i = 0; i < roots.size(); ++i) {
      if (!live[i]) continue;
      if (const size_t k = kept_at(found[i]); i >= carries && k < stacked.size()) {
        results[i] = stacked[k];
        continue;
      }
      inner_roots.push_back(found[i]);
      from.push_back(i);
    }
    if (!from.empty()) {
      made = Computation::make(joined(inner_parameters, inner.parameters()), inner_roots);
      if (!get_or_fail(b_, made)) return true;
      const Values again = b_.scan(*made, init, joined(xs, stacked), length, reverse);
      for (size_t i = 0; b_.ok() && i < from.size(); ++i) results[from[i]] = again[i];
    }
    linear_.put(&n, std::move(results));
    return true;
  }

  // Branches share slots by type for what they keep; one leaves zeros in those that it does not use.
  bool cut_case(const Node& n) {
    const std::vector<ComputationPtr>& branches = n.attrs().computations(Attr::branches);
    Builder own;
    std::vector<Cut> cuts;
    std::vector<const Type*> slots;
    std::vector<std::vector<size_t>> slot_of;
    for (const ComputationPtr& branch : branches) {
      Cut& inner = cuts.emplace_back(own, policy_, branch->nodes(), branch->parameters());
      inner.ask();
      for (size_t i = 0; i < branch->roots().size(); ++i)
        if (is_needed(Value(const_cast<Node*>(&n), i))) inner.need(branch->roots()[i]);
      inner.spread_needs();
      inner.run();
      if (!own.ok()) {
        b_.fail(own.status());
        return true;
      }
      std::vector<bool> taken(slots.size(), false);
      slot_of.emplace_back();
      for (const Value& v : inner.kept()) {
        size_t k = 0;
        while (k < slots.size() && (taken[k] || slots[k] != v.type())) ++k;
        if (k == slots.size()) {
          slots.push_back(v.type());
          taken.push_back(false);
        }
        taken[k] = true;
        slot_of.back().push_back(k);
      }
    }
    if (slots.empty()) return false;
    std::vector<ComputationPtr> known, linear;
    std::vector<size_t> from;
    for (uint32_t i = 0; i < n.num_results(); ++i)
      if (is_needed(Value(const_cast<Node*>(&n), i))) from.push_back(i);
    for (size_t j = 0; j < branches.size(); ++j) {
      const Ops roots = branches[j]->roots(), parameters = branches[j]->parameters();
      Values kept(slots.size()), given(slots.size());
      for (size_t i = 0; i < slot_of[j].size(); ++i) {
        kept[slot_of[j][i]] = cuts[j].kept()[i];
        given[slot_of[j][i]] = cuts[j].parameters()[i];
      }
      for (size_t k = 0; k < slots.size(); ++k) {
        if (!kept[k]) kept[k] = b_.zeros(slots[k]);
        if (!given[k]) given[k] = make_parameter(slots[k]);
      }
      if (!b_.ok()) return true;
      absl::StatusOr<ComputationPtr> made = Computation::make(parameters, joined(cuts[j].known(roots), kept));
      if (!get_or_fail(b_, made)) return true;
      known.push_back(*std::move(made));
      const Values found = cuts[j].linear(roots);
      Values wanted;
      for (const size_t i : from) wanted.push_back(found[i]);
      made = Computation::make(joined(parameters, given), wanted);
      if (!get_or_fail(b_, made)) return true;
      linear.push_back(*std::move(made));
    }
    const Values x = operands(n, known_), y = operands(n, linear_);
    const Values all = b_.conditional(x[0], known, Ops(x).subspan(1));
    if (!b_.ok()) return true;
    known_.put(&n, Values(all.begin(), all.begin() + static_cast<ptrdiff_t>(n.num_results())));
    Values given;
    for (size_t i = n.num_results(); i < all.size(); ++i) given.push_back(keep(all[i]));
    const Values again = b_.conditional(y[0], linear, joined(Ops(y).subspan(1), given));
    Values results(n.num_results());
    for (size_t i = 0; b_.ok() && i < from.size(); ++i) results[from[i]] = again[i];
    linear_.put(&n, std::move(results));
    return true;
  }

  Builder& b_;
  const Policy& policy_;
  std::span<Node* const> nodes_;
  GraphCopy known_, linear_;
  HashSet<const Node*> dependent_, unknown_, kept_nodes_;
  std::vector<Node*> asked_;
  HashSet<uint64_t> needed_;
  Values kept_, parameters_;
};

}  // namespace

std::shared_ptr<const Policy> policy_of(const Node& node) {
  if (!node.attrs().has(Attr::instance) || !node.attrs().has(Attr::rule)) return nullptr;
  return std::dynamic_pointer_cast<const Policy>(find_custom_rule(node.attrs().integer(Attr::rule)));
}

absl::StatusOr<KeptSplit> split_by_policy(const ComputationPtr& derived, size_t operands, size_t results,
                                          const Policy& policy) {
  GraphLock lock;
  const absl::StatusOr<ComputationPtr> flat = inline_calls(derived);
  if (!flat.ok()) return flat.status();
  const Ops parameters = (*flat)->parameters(), roots = (*flat)->roots();
  Builder b;
  Cut cut(b, policy, (*flat)->nodes(), parameters);
  cut.set_unknown(parameters.subspan(operands));
  cut.ask();
  for (const Value& tangent : roots.subspan(results)) cut.need(tangent);
  cut.spread_needs();
  cut.run();
  if (!b.ok()) return b.status();
  absl::StatusOr<ComputationPtr> known =
      Computation::make(parameters.first(operands), joined(cut.known(roots.first(results)), cut.kept()));
  if (!known.ok()) return known.status();
  KeptSplit out{*std::move(known), nullptr, {}};
  const Values linear_roots = cut.linear(roots.subspan(results));
  HashSet<const Node*> read;
  for (const Value& v : linear_roots) read.insert(v.node());
  for (const Node* n : postorder(linear_roots))
    for (const Operand& o : n->operands()) read.insert(o.node());
  Values taken;
  for (size_t i = 0; i < operands; ++i) {
    out.operands.push_back(read.contains(parameters[i].node()));
    if (out.operands.back()) taken.push_back(parameters[i]);
  }
  absl::StatusOr<ComputationPtr> linear =
      Computation::make(joined(joined(taken, cut.parameters()), parameters.subspan(operands)), linear_roots);
  if (!linear.ok()) return linear.status();
  out.linear = *std::move(linear);
  return out;
}

}  // namespace lamina::trace
