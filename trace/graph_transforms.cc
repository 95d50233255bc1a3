#include "trace/graph_transforms.h"

#include <algorithm>

#include "hlo/hash_map.h"
#include "hlo/location.h"
#include "trace/lanes.h"
#include "trace/rules/effects.h"
#include "trace/rules/support.h"
#include "trace/transform_memo.h"

namespace lamina::trace {
namespace {

// Nodes between inputs and outputs in postorder; inputs are listed, nodes older than every input are not
// entered.
class Walk {
 public:
  Walk(std::span<const Value> outputs, std::span<const Value> inputs) {
    Stop stop;
    for (const Value& v : inputs) {
      stop.inputs.insert(v.node());
      stop.floor = std::min(stop.floor, v.node()->stamp());
    }
    order_ = postorder(outputs, Stop::at, &stop);
  }
  const std::vector<Node*>& order() const { return order_; }

 private:
  struct Stop {
    HashSet<const Node*> inputs;
    uint32_t floor = ~uint32_t{0};
    static bool at(const Node& n, void* context) {
      const Stop& s = *static_cast<Stop*>(context);
      return n.stamp() < s.floor || s.inputs.contains(&n);
    }
  };
  std::vector<Node*> order_;
};

// Gives the nodes of a walk that depend on its inputs a number each, inputs included.
class Dependents {
 public:
  Dependents(const Walk& walk, std::span<const Value> inputs, std::span<const bool> marked = {}) {
    for (size_t i = 0; i < inputs.size(); ++i)
      if (marked.empty() || marked[i]) number_.emplace(inputs[i].node(), number_.size());
    for (Node* n : walk.order()) {
      if (number_.contains(n)) continue;
      for (Operand o : n->operands())
        if (number_.contains(o.node())) {
          number_.emplace(n, number_.size());
          break;
        }
    }
  }
  bool contains(const Node* n) const { return number_.contains(n); }
  int64_t find(const Node* n) const {
    auto it = number_.find(n);
    return it == number_.end() ? -1 : it->second;
  }
  size_t size() const { return number_.size(); }

 private:
  HashMap<const Node*, int64_t> number_;
};

// Passes a rule's error on with the place where the node was recorded (the innermost one that is known).
void fail_at(Builder& b, const absl::Status& status, const Node& n) {
  constexpr std::string_view kMark = " recorded at ";
  const Location at = location(n.location());
  const std::string text(status.message());
  if (at.file.empty() || text.find(kMark) != std::string::npos) {
    b.fail(status);
    return;
  }
  b.fail(absl::Status(status.code(), str_cat(text, " (", n.def().name, kMark, at.file, ":", at.line, ")")));
}

}  // namespace

JvpGraph jvp_graph(Builder& b, std::span<const Value> outputs, std::span<const Value> inputs,
                   std::span<const Value> tangents, JvpMode mode) {
  GraphLock lock;
  struct Made {
    Values primals;  // empty: the node's own results
    Values tangents;
  };
  HashMap<const Node*, Made> made;
  for (size_t i = 0; i < inputs.size(); ++i)
    made[inputs[i].node()] = {{}, {has_tangent(inputs[i].type()) ? tangents[i] : Value()}};
  const Walk walk(outputs, inputs);
  Values operands, operand_tangents;
  for (Node* n : walk.order()) {
    if (made.contains(n)) continue;
    operands.clear();
    operand_tangents.clear();
    bool changed = false, moving = false;
    for (Operand o : n->operands()) {
      auto it = made.find(o.node());
      const Made* m = it == made.end() ? nullptr : &it->second;
      const bool replaced = m && !m->primals.empty();
      operands.push_back(replaced ? m->primals[o.index()] : Value(o));
      operand_tangents.push_back(m ? m->tangents[o.index()] : Value());
      changed |= replaced;
      moving |= static_cast<bool>(operand_tangents.back());
    }
    if (!changed && !moving) continue;
    NodeScope scope(*n);
    Made result;
    result.tangents.resize(n->num_results());
    const bool known = n->data() && !n->closed();
    if (moving) {
      const OpTransforms& of_op = transforms_of(n->op());
      const JvpRule rule = mode == JvpMode::kLinearize && of_op.linearize ? of_op.linearize : of_op.jvp;
      Builder own;
      const bool ran = known && !is_effect(*n) && anywhere(*n, is_effect);
      const Value again = ran ? without_effects(own, *n) : Value();
      JvpResult r = own.ok() ? rule(own, ran ? *again.node() : *n, operands, operand_tangents) : JvpResult{};
      if (!own.ok()) {
        fail_at(b, own.status(), *n);
        return {Values(outputs.size()), Values(outputs.size())};
      }
      result.primals = std::move(r.primals);
      for (uint32_t i = 0; i < n->num_results(); ++i)
        if (has_tangent(n->result_type(i))) result.tangents[i] = std::move(r.tangents[i]);
    }
    // An effect that has happened is not to happen again.
    const bool happened = known && anywhere(*n, is_effect);
    if (changed && result.primals.empty() && !happened) result.primals = results_of(b, *n, operands);
    if (!b.ok()) return {Values(outputs.size()), Values(outputs.size())};
    made.emplace(n, std::move(result));
  }
  JvpGraph out;
  for (const Value& v : outputs) {
    auto it = made.find(v.node());
    const Made* m = it == made.end() ? nullptr : &it->second;
    out.primals.push_back(m && !m->primals.empty() ? m->primals[v.index()] : v);
    out.tangents.push_back(m ? m->tangents[v.index()] : Value());
  }
  return out;
}

Values transpose_graph(Builder& b, std::span<const Value> outputs, std::span<const Value> inputs,
                       std::span<const Value> cotangents) {
  GraphLock lock;
  const Walk walk(outputs, inputs);
  const Dependents linear(walk, inputs);
  std::vector<Values> ct(linear.size());
  auto accumulate = [&](Node* n, uint32_t index, const Value& v) {
    const int64_t k = linear.find(n);
    if (k < 0 || !v) return;
    ct[k].resize(n->num_results());
    ct[k][index] = add_cotangents(b, ct[k][index], v);
  };
  for (size_t i = 0; i < outputs.size(); ++i)
    if (outputs[i]) accumulate(outputs[i].node(), outputs[i].index(), cotangents[i]);
  const size_t num_inputs = inputs.size();
  Values operands;
  Mask mask;
  for (auto it = walk.order().rbegin(); it != walk.order().rend(); ++it) {
    Node* n = *it;
    const int64_t k = linear.find(n);
    if (k < static_cast<int64_t>(num_inputs)) continue;
    // A user's backward rule runs for zeros too: what it gives need not be linear in them.
    const bool runs_rule = n->op() == Op::custom_call && n->attrs().integer(Attr::rule) != 0;
    if (ct[k].empty() && !runs_rule) continue;
    Values mine = std::move(ct[k]);
    mine.resize(n->num_results());
    operands.clear();
    mask.clear();
    for (Operand o : n->operands()) {
      operands.push_back(Value(o));
      mask.push_back(linear.contains(o.node()));
    }
    NodeScope scope(*n);
    const TransposeRule rule = transforms_of(n->op()).transpose;
    Builder own;
    Values back;
    if (rule)
      back = rule(own, *n, operands, mask, mine);
    else
      own.fail(
          absl::InvalidArgumentError(str_cat("cannot transpose ", n->def().name, " of ",
                                             to_string(*n->type()), ": it is not linear in its operands")));
    if (!own.ok()) {
      fail_at(b, own.status(), *n);
      return Values(num_inputs);
    }
    for (size_t i = 0; i < back.size(); ++i)
      if (mask[i]) accumulate(n->operand(i).node(), n->operand(i).index(), back[i]);
  }
  Values out(num_inputs);
  for (size_t i = 0; i < num_inputs; ++i) {
    const Values& own = ct[linear.find(inputs[i].node())];
    if (!own.empty()) out[i] = own[inputs[i].index()];
  }
  return out;
}

BatchResult batch_graph(Builder& b, std::span<const Value> outputs, std::span<const Value> inputs,
                        std::span<const Value> values, std::span<const bool> batched, int64_t size) {
  GraphLock lock;
  HashMap<const Node*, BatchResult> made;
  for (size_t i = 0; i < inputs.size(); ++i) {
    BatchResult& all = made[inputs[i].node()];
    for (uint32_t k = all.results.size(); k < inputs[i].node()->num_results(); ++k) {
      all.results.push_back(Value(inputs[i].node(), k));
      all.batched.push_back(false);
    }
    all.results[inputs[i].index()] = values[i];
    all.batched[inputs[i].index()] = batched[i];
  }
  const Walk walk(outputs, inputs);
  Values operands;
  Mask mask;
  BatchResult out;
  out.results.resize(outputs.size());
  out.batched.resize(outputs.size(), false);
  for (Node* n : walk.order()) {
    if (made.contains(n)) continue;
    operands.clear();
    mask.clear();
    bool changed = false, any_batched = false;
    for (Operand o : n->operands()) {
      auto it = made.find(o.node());
      const BatchResult* m = it == made.end() ? nullptr : &it->second;
      operands.push_back(m ? m->results[o.index()] : Value(o));
      mask.push_back(m && m->batched[o.index()]);
      changed |= m != nullptr;
      any_batched |= mask.back();
    }
    if (!changed) continue;
    NodeScope scope(*n);
    BatchResult result;
    Builder own;
    if (any_batched) {
      result = transforms_of(n->op()).batch(own, *n, operands, mask, size);
    } else {
      result.results = n->op() == Op::identity ? operands : own.remake(*n, operands);
      result.batched.assign(n->num_results(), false);
    }
    if (!own.ok()) {
      fail_at(b, own.status(), *n);
      return out;
    }
    made.emplace(n, std::move(result));
  }
  for (size_t i = 0; i < outputs.size(); ++i) {
    auto it = made.find(outputs[i].node());
    out.results[i] = it == made.end() ? outputs[i] : it->second.results[outputs[i].index()];
    out.batched[i] = it != made.end() && it->second.batched[outputs[i].index()];
  }
  return out;
}

Values substitute_graph(Builder& b, std::span<const Value> outputs, std::span<const Value> inputs,
                        std::span<const Value> values) {
  return batch_graph(b, outputs, inputs, values, Mask(inputs.size(), false), 0).results;
}

Mask dependence(const Computation& c, std::span<const bool> marked) {
  GraphLock lock;
  const Walk walk(c.roots(), c.parameters());
  const Dependents dependents(walk, c.parameters(), marked);
  Mask out;
  for (const Value& r : c.roots()) out.push_back(dependents.contains(r.node()));
  return out;
}

Values tangents_through(Builder& b, std::span<const Value> operands, std::span<const Value> tangents,
                        const std::function<Values(Builder&, std::span<const Value>)>& record) {
  GraphLock lock;
  Values parameters;
  for (const Value& v : operands) parameters.push_back(make_parameter(v.type()));
  const Values results = record(b, parameters);
  if (!b.ok()) return Values(results.size());
  const JvpGraph derived = jvp_graph(b, results, parameters, tangents, JvpMode::kForward);
  if (!b.ok()) return Values(results.size());
  // Absent tangents stay absent; the walk wants values, so they are left out of it.
  Values present, out(results.size());
  for (const Value& t : derived.tangents)
    if (t) present.push_back(t);
  present = substitute_graph(b, present, parameters, operands);
  size_t next = 0;
  for (size_t i = 0; i < results.size(); ++i)
    if (derived.tangents[i]) out[i] = present[next++];
  return out;
}

namespace {

// Made of constants by ops that copy them: cheaper to have in every computation than to pass in.
bool is_constant(const Node* n) {
  while (n->op() == Op::broadcast_in_dim || n->op() == Op::reshape) n = n->operand(0).node();
  return n->op() == Op::constant || n->op() == Op::iota;
}

}  // namespace

absl::StatusOr<ClosedGraph> close_graph(std::span<const Value> outputs, std::span<const Value> inputs) {
  GraphLock lock;
  const Walk walk(outputs, inputs);
  const Dependents inside(walk, inputs);
  ClosedGraph out;
  Values parameters, captured;
  HashMap<const Node*, Values> made;
  HashMap<uint64_t, Value> outside;
  for (const Value& v : inputs) {
    parameters.push_back(make_parameter(v.type()));
    made[v.node()] = {parameters.back()};
  }
  auto get = [&](Operand o) -> Value {
    if (auto it = made.find(o.node()); it != made.end()) return it->second[o.index()];
    if (is_constant(o.node())) return Value(o);
    Value& slot = outside[o.bits()];
    if (!slot) {
      slot = make_parameter(o.node()->result_type(o.index()));
      captured.push_back(slot);
      out.captured.push_back(Value(o));
    }
    return slot;
  };
  Builder b;
  for (Node* n : walk.order()) {
    if (!inside.contains(n) || made.contains(n)) continue;
    Values operands;
    for (Operand o : n->operands()) operands.push_back(get(o));
    NodeScope scope(*n);
    made[n] = b.remake(*n, operands);
    if (!b.ok()) return b.status();
  }
  Values roots;
  for (const Value& v : outputs) roots.push_back(get(v.operand()));
  parameters.insert(parameters.end(), captured.begin(), captured.end());
  absl::StatusOr<ComputationPtr> body = Computation::make(parameters, roots);
  if (!body.ok()) return body.status();
  out.body = *std::move(body);
  return out;
}

namespace {

absl::StatusOr<JvpComputation> make_jvp(const Computation& c, std::span<const bool> marked,
                                        std::span<const bool> forced, JvpMode mode) {
  GraphLock lock;
  Values parameters(c.parameters().begin(), c.parameters().end()), tangents(parameters.size());
  for (size_t i = 0; i < tangents.size(); ++i)
    if (marked[i]) parameters.push_back(tangents[i] = make_parameter(c.parameters()[i].type()));
  Builder b;
  JvpGraph derived = jvp_graph(b, c.roots(), c.parameters(), tangents, mode);
  JvpComputation out;
  Values roots = derived.primals;
  for (size_t i = 0; i < derived.tangents.size(); ++i) {
    Value t = derived.tangents[i];
    if (!t && forced[i]) t = b.zeros_like(derived.primals[i]);
    out.results.push_back(static_cast<bool>(t));
    if (t) roots.push_back(std::move(t));
  }
  if (!b.ok()) return b.status();
  absl::StatusOr<ComputationPtr> body = Computation::make(parameters, roots);
  if (!body.ok()) return body.status();
  out.body = *std::move(body);
  return out;
}

absl::StatusOr<ComputationPtr> make_transpose(const Computation& c, std::span<const bool> linear,
                                              std::span<const bool> results) {
  GraphLock lock;
  Values parameters, inputs, cotangents(c.roots().size());
  for (size_t i = 0; i < c.parameters().size(); ++i)
    (linear[i] ? inputs : parameters).push_back(c.parameters()[i]);
  for (size_t i = 0; i < cotangents.size(); ++i)
    if (results[i]) parameters.push_back(cotangents[i] = make_parameter(c.roots()[i].type()));
  Builder b;
  Values back = transpose_graph(b, c.roots(), inputs, cotangents);
  for (size_t i = 0; i < back.size(); ++i) back[i] = or_zeros(b, back[i], inputs[i]);
  if (!b.ok()) return b.status();
  return Computation::make(parameters, back);
}

absl::StatusOr<BatchComputation> make_batch(const Computation& c, std::span<const bool> marked,
                                            std::span<const bool> forced, int64_t size) {
  GraphLock lock;
  Values parameters;
  for (size_t i = 0; i < c.parameters().size(); ++i) {
    const Type* type = c.parameters()[i].type();
    parameters.push_back(marked[i] ? make_parameter(batched_type(type, size)) : c.parameters()[i]);
  }
  Builder b;
  BatchResult r = batch_graph(b, c.roots(), c.parameters(), parameters, marked, size);
  if (!b.ok()) return b.status();
  BatchComputation out;
  for (size_t i = 0; i < r.results.size(); ++i) {
    if (forced[i]) r.results[i] = with_batch(b, r.results[i], r.batched[i], size);
    out.results.push_back(forced[i] || r.batched[i]);
  }
  if (!b.ok()) return b.status();
  absl::StatusOr<ComputationPtr> body = Computation::make(parameters, r.results);
  if (!body.ok()) return body.status();
  out.body = *std::move(body);
  return out;
}

// Rebuilds the unknown part of a computation, collecting what it needs from the known part.
class Splitter {
 public:
  Splitter(const Computation& c, std::span<const bool> marked)
      : walk_(c.roots(), c.parameters()),
        unknown_(walk_, c.parameters(), marked),
        computed_(walk_, c.parameters()) {
    for (size_t i = 0; i < c.parameters().size(); ++i)
      if (marked[i]) made_[c.parameters()[i].node()] = {c.parameters()[i]};
  }

  bool is_unknown(const Value& v) const { return unknown_.contains(v.node()); }

  // All unknown nodes anew, in order.
  void rebuild(Builder& b) {
    for (Node* n : walk_.order()) {
      if (!unknown_.contains(n) || made_.contains(n)) continue;
      Values operands;
      for (Operand o : n->operands()) operands.push_back(get(b, Value(o)));
      NodeScope scope(*n);
      made_[n] = b.remake(*n, operands);
      if (!b.ok()) return;
    }
  }

  // `v` inside the unknown part.
  Value get(Builder& b, const Value& v) {
    if (auto it = made_.find(v.node()); it != made_.end()) return it->second[v.index()];
    if (!computed_.contains(v.node())) return v;  // made of constants only
    // A broadcast is made anew rather than kept: its operand is smaller.
    if (v.node()->op() == Op::broadcast_in_dim) {
      const Value from = get(b, v.node()->operand_value(0));
      return (made_[v.node()] = b.remake(*v.node(), {{from}}))[0];
    }
    auto [it, fresh] = residual_.try_emplace(v.operand().bits(), Value());
    if (fresh) {
      it->second = make_parameter(v.type());
      kept.push_back(v);
      parameters.push_back(it->second);
    }
    return it->second;
  }

  Values kept;        // residuals in the known part
  Values parameters;  // what stands for them in the unknown part

 private:
  Walk walk_;
  Dependents unknown_, computed_;
  HashMap<const Node*, Values> made_;
  HashMap<uint64_t, Value> residual_;
};

absl::StatusOr<SplitComputation> make_split(const Computation& c, std::span<const bool> marked,
                                            std::span<const bool> forced) {
  GraphLock lock;
  Splitter splitter(c, marked);
  Builder b;
  splitter.rebuild(b);
  if (!b.ok()) return b.status();
  SplitComputation out;
  Values known_roots, unknown_roots;
  for (size_t i = 0; i < c.roots().size(); ++i) {
    const Value& root = c.roots()[i];
    out.results.push_back(forced[i] || splitter.is_unknown(root));
    if (out.results.back())
      unknown_roots.push_back(splitter.get(b, root));
    else
      known_roots.push_back(root);
  }
  Values known_parameters;
  HashMap<const Node*, int64_t> position;
  for (size_t i = 0; i < c.parameters().size(); ++i)
    if (!marked[i]) {
      position.emplace(c.parameters()[i].node(), static_cast<int64_t>(known_parameters.size()));
      known_parameters.push_back(c.parameters()[i]);
    }
  for (const Value& v : splitter.kept) {
    auto it = position.find(v.node());
    out.residual_parameter.push_back(it == position.end() ? -1 : it->second);
    if (it == position.end()) known_roots.push_back(v);
  }
  Values parameters = splitter.parameters;
  for (size_t i = 0; i < c.parameters().size(); ++i)
    if (marked[i]) parameters.push_back(c.parameters()[i]);
  if (!b.ok()) return b.status();
  absl::StatusOr<ComputationPtr> known = Computation::make(known_parameters, known_roots);
  if (!known.ok()) return known.status();
  absl::StatusOr<ComputationPtr> unknown = Computation::make(parameters, unknown_roots);
  if (!unknown.ok()) return unknown.status();
  out.known = *std::move(known);
  out.unknown = *std::move(unknown);
  return out;
}

}  // namespace

absl::StatusOr<JvpComputation> jvp_computation(const Computation& c, std::span<const bool> marked,
                                               std::span<const bool> forced, JvpMode mode) {
  return remembered_as<JvpComputation>({&c}, option_text("jvp", {marked, forced}, static_cast<int64_t>(mode)),
                                       [&] { return make_jvp(c, marked, forced, mode); });
}

absl::StatusOr<ComputationPtr> transpose_computation(const Computation& c, std::span<const bool> linear,
                                                     std::span<const bool> results) {
  return remembered_as<ComputationPtr>({&c}, option_text("transpose", {linear, results}),
                                       [&] { return make_transpose(c, linear, results); });
}

absl::StatusOr<BatchComputation> batch_computation(const Computation& c, std::span<const bool> marked,
                                                   std::span<const bool> forced, int64_t size) {
  const std::string what = str_cat("batch ", static_cast<int>(lane_strategy()));
  return remembered_as<BatchComputation>({&c}, option_text(what, {marked, forced}, size),
                                         [&] { return make_batch(c, marked, forced, size); });
}

absl::StatusOr<SplitComputation> split_computation(const Computation& c, std::span<const bool> marked,
                                                   std::span<const bool> forced) {
  return remembered_as<SplitComputation>({&c}, option_text("split", {marked, forced}),
                                         [&] { return make_split(c, marked, forced); });
}

}  // namespace lamina::trace
