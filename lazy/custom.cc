#include "lazy/custom.h"

#include <algorithm>
#include <iterator>

#include "hlo/hash_map.h"
#include "hlo/nodes.h"
#include "hlo/regions.h"
#include "hlo/strings.h"
#include "lazy/axes.h"
#include "lazy/effects.h"
#include "lazy/placement.h"
#include "lazy/scopes.h"
#include "trace/graph_transforms.h"
#include "trace/rules/effects.h"

namespace lamina::lazy {
namespace {

using hlo::Values;

Values joined(std::span<const Value> a, std::span<const Value> b) {
  Values out(a.begin(), a.end());
  out.insert(out.end(), b.begin(), b.end());
  return out;
}

bool there(const Value& v) { return static_cast<bool>(v); }

// Whether a parameter lies beneath that no open trace made: a loop's body or a closed program is being
// transformed, where arrays from outside are not to be had.
bool in_closed_program(std::span<const Value> values) {
  HashSet<const hlo::Node*> open;
  for (const lazy::Scope& s : lazy::open_scopes())
    for (const Value& p : s.parameters) open.insert(p.node());
  auto stop = [](const hlo::Node& n, void*) { return n.data() != nullptr && !n.closed(); };
  for (const hlo::Node* n : hlo::postorder(values, stop))
    if (n->op() == hlo::Op::parameter && !open.contains(n)) return true;
  return false;
}

// `outputs` with the arrays that a rule captured as constants. Nodes of `inputs` stay.
void close_over_arrays(hlo::Builder& b, std::span<const Value> inputs, std::span<Values* const> outputs) {
  HashMap<const hlo::Node*, Values> made;
  for (const Value& v : inputs)
    if (v)
      for (uint32_t i = 0; i < v.node()->num_results(); ++i) made[v.node()].push_back(Value(v.node(), i));
  auto stop = [](const hlo::Node& n, void* m) {
    return n.data() != nullptr || static_cast<decltype(made)*>(m)->contains(&n);
  };
  for (Values* list : outputs) {
    for (Value& root : *list) {
      if (!root) continue;
      for (hlo::Node* n : hlo::postorder(std::span(&root, 1), stop, &made)) {
        if (made.contains(n)) continue;
        Values results, operands;
        bool changed = false;
        // What has a value is not walked behind: it may have been computed while it was recorded.
        for (size_t i = 0; !n->data() && i < n->operands().size(); ++i) {
          operands.push_back(made.at(n->operand(i).node())[n->operand(i).index()]);
          changed |= !(operands.back() == n->operand_value(i));
        }
        if (n->data() && n->stamp() == 0 && !n->type()->is_tuple()) {
          const jit::ArrayPtr array = jit::array_of(Value(n));
          results.push_back(b.constant(hlo::Literal::copy_of(n->type(), host_bytes(*array))));
        } else if (changed) {
          results = b.remake(*n, operands);
          if (!b.ok()) return;
        } else {
          for (uint32_t i = 0; i < n->num_results(); ++i) results.push_back(Value(n, i));
        }
        made[n] = std::move(results);
      }
      root = made.at(root.node())[root.index()];
    }
  }
}

// A rule at one call. Its functions see the axes that were bound there: their lanes are operands behind the
// function's own, and residuals behind its own. A function with effects takes a token behind those, and gives
// one behind its results. Last come what the function captured and the
// parameters beneath that: what its rule makes of them is made of the operands, where those are others than
// at the call.
class RuleOfCall final : public hlo::CustomRule {
 public:
  RuleOfCall(int64_t inner, size_t arguments, std::vector<BoundAxis> axes, bool effects, Values captured,
             Values given)
      : inner_(hlo::find_custom_rule(inner)),
        owner_(inner),
        arguments_(arguments),
        axes_(std::move(axes)),
        effects_(effects),
        captured_(std::move(captured)),
        given_(std::move(given)) {
    for (BoundAxis& a : axes_) a.lane = Value();  // another one at each run
  }

  Kind kind() const override { return inner_->kind(); }
  bool symbolic_zeros() const override { return inner_->symbolic_zeros(); }
  size_t arguments() const override { return arguments_; }
  hlo::JvpResult jvp(hlo::Builder& b, std::span<const Value> x, std::span<const Value> t) override {
    const AxesScope bound = bind(x.subspan(arguments_));
    hlo::JvpResult out;
    if (effects_) {
      const TokenScope tokens(token_in(x));
      out = inner_->jvp(b, x, t);
      if (!out.primals.empty()) out.primals.push_back(tokens.token());
      out.tangents.push_back(Value());
    } else {
      out = inner_->jvp(b, x, t);
    }
    of_operands(b, {&out.primals, &out.tangents}, behind(x));
    return out;
  }
  bool has_transpose() const override { return inner_->has_transpose(); }
  Values transpose(hlo::Builder& b, std::span<const Value> x, std::span<const bool> linear,
                   std::span<const Value> cotangents) override {
    const AxesScope bound = bind(x.subspan(arguments_));
    Values out = inner_->transpose(b, x, linear, cotangents.first(cotangents.size() - (effects_ ? 1 : 0)));
    of_operands(b, {&out}, behind(x));
    return out;
  }
  bool has_batch() const override { return inner_->has_batch(); }
  // The axis of this batch is none that the rule could exchange values along.
  hlo::BatchResult batch(hlo::Builder& b, std::span<const Value> x, std::span<const bool> batched,
                         int64_t size) override {
    std::vector<BoundAxis> outer;
    absl::InlinedVector<bool, 8> marks(batched.begin(), batched.end());
    for (size_t i = 0; i < axes_.size(); ++i) {
      if (!batched[arguments_ + i]) outer.push_back({axes_[i].name, axes_[i].size, x[arguments_ + i]});
      marks[arguments_ + i] = false;
    }
    const AxesScope bound(std::move(outer));
    if (!effects_) return inner_->batch(b, x, marks, size);
    marks[arguments_ + axes_.size()] = false;
    const TokenScope tokens(trace::joined_token(b, token_in(x)));
    hlo::BatchResult out = inner_->batch(b, x, marks, size);
    out.results.push_back(tokens.token());
    out.batched.push_back(false);
    return out;
  }
  Forward forward(hlo::Builder& b, std::span<const Value> x, std::span<const bool> perturbed) override {
    const AxesScope bound = bind(x.subspan(arguments_));
    Forward out;
    if (effects_) {
      const TokenScope tokens(token_in(x));
      out = inner_->forward(b, x, perturbed);
      out.results.push_back(tokens.token());
    } else {
      out = inner_->forward(b, x, perturbed);
    }
    of_operands(b, {&out.results, &out.residuals}, behind(x));
    const std::span<const Value> lanes = x.subspan(arguments_, axes_.size());
    out.residuals.insert(out.residuals.end(), lanes.begin(), lanes.end());
    out.residuals.insert(out.residuals.end(), behind(x).begin(), behind(x).end());
    return out;
  }
  Values backward(hlo::Builder& b, const Form& form, std::span<const Value> residuals,
                  std::span<const Value> cotangents) override {
    const size_t own = residuals.size() - axes_.size() - captured_.size();
    const AxesScope bound = bind(residuals.subspan(own));
    Values out = inner_->backward(b, form, residuals.first(own),
                                  cotangents.first(cotangents.size() - (effects_ ? 1 : 0)));
    of_operands(b, {&out}, residuals.last(captured_.size()));
    return out;
  }

 private:
  AxesScope bind(std::span<const Value> lanes) const {
    std::vector<BoundAxis> axes = axes_;
    for (size_t i = 0; i < axes.size(); ++i) axes[i].lane = lanes[i];
    return AxesScope(std::move(axes));
  }
  const Value& token_in(std::span<const Value> x) const { return x[arguments_ + axes_.size()]; }
  std::span<const Value> behind(std::span<const Value> x) const { return x.last(captured_.size()); }
  // `lists` with `given` in the place of what was captured.
  void of_operands(hlo::Builder& b, std::initializer_list<Values*> lists,
                   std::span<const Value> given) const {
    Values from, to, made;
    for (size_t i = 0; i < captured_.size(); ++i) {
      if (given_[i] == given[i]) continue;
      from.push_back(captured_[i]);
      to.push_back(given[i]);
    }
    if (from.empty() || !b.ok()) return;
    for (const Values* list : lists)
      std::copy_if(list->begin(), list->end(), std::back_inserter(made), there);
    made = trace::substitute_graph(b, made, from, to);
    size_t next = 0;
    for (Values* list : lists)
      for (Value& v : *list)
        if (v) v = made[next++];
  }

  std::shared_ptr<hlo::CustomRule> inner_;
  hlo::RuleOwner owner_;
  size_t arguments_;
  std::vector<BoundAxis> axes_;
  bool effects_;
  Values captured_, given_;  // and what was its operand at the call
};

// Whether the value is of a jit or vmap trace that is open: when that has ended, another stands for it.
bool is_unbound(const hlo::Node& n) {
  for (const Scope& s : open_scopes())
    if (s.kind != Scope::kDerivative) return n.stamp() >= s.stamp;
  return false;
}

// Parameters of open jit and vmap traces that `values` are made of, but for themselves.
Values parameters_beneath(const Values& values) {
  Values out;
  auto stop = [](const hlo::Node& n, void*) { return n.data() != nullptr || !is_unbound(n); };
  for (hlo::Node* n : hlo::postorder(values, stop)) {
    const bool itself =
        std::any_of(values.begin(), values.end(), [&](const Value& v) { return v.node() == n; });
    if (n->op() == hlo::Op::parameter && is_unbound(*n) && !itself) out.emplace_back(n);
  }
  return out;
}

// Numbers in a rule are constants, since it may run while a loop's body is being transformed.
ScopeGuard constants() { return ScopeGuard(Scope::kJit, 0); }

// Runs a rule on `operands` and what goes with them. Its effects are the caller's, but where it becomes part
// of a closed program that has no token for them: there what the rule gives waits for them. Also closes over
// arrays there.
template <typename Run>
void run_rule(hlo::Builder& b, std::span<const Value> operands, std::span<const Value> others,
              std::vector<Values*> outputs, const Run& run) {
  Values x;
  std::copy_if(operands.begin(), operands.end(), std::back_inserter(x), there);
  if (!in_closed_program(x)) return run();
  std::copy_if(others.begin(), others.end(), std::back_inserter(x), there);
  if (waiting_token() && std::find(x.begin(), x.end(), waiting_token()) != x.end()) {
    run();
    Values token{waiting_token()};
    outputs.push_back(&token);
    close_over_arrays(b, x, outputs);
    waiting_token() = token[0];
    return;
  }
  const TokenScope tokens(b.scalar_int(DType::kS32, 0));
  run();
  if (tokens.any()) {
    // The first list that holds anything: results may wait, not for tangents.
    const auto list = std::find_if(outputs.begin(), outputs.end(),
                                   [&](Values* l) { return std::any_of(l->begin(), l->end(), there); });
    if (list == outputs.end()) {
      b.fail(absl::UnimplementedError(
          "a custom derivative rule has a host callback with effects and no result that "
          "could wait for them"));
      return;
    }
    Values held;
    std::copy_if((*list)->begin(), (*list)->end(), std::back_inserter(held), there);
    held.push_back(tokens.token());
    held = b.make_multi(hlo::Op::optimization_barrier, held, hlo::no_attrs());
    if (!b.ok()) return;
    size_t next = 0;
    for (Value& v : **list)
      if (v) v = held[next++];
  }
  close_over_arrays(b, x, outputs);
}

}  // namespace

hlo::JvpResult FunctionRule::jvp(hlo::Builder& b, std::span<const Value> x, std::span<const Value> t) {
  const ScopeGuard scope = constants();
  hlo::JvpResult out;
  run_rule(b, x, t, {&out.primals, &out.tangents},
           [&] { out = run_jvp(x.first(arguments_), t.first(arguments_)); });
  return out;
}

Values FunctionRule::transpose(hlo::Builder& b, std::span<const Value> x, std::span<const bool>,
                               std::span<const Value> cotangents) {
  const ScopeGuard scope = constants();
  Values out;
  run_rule(b, joined(x, cotangents), {}, {&out},
           [&] { out = run_transpose(x.first(arguments_), cotangents); });
  out.resize(x.size());
  return out;
}

hlo::BatchResult FunctionRule::batch(hlo::Builder& b, std::span<const Value> x, std::span<const bool> batched,
                                     int64_t size) {
  for (size_t i = arguments_; i < x.size(); ++i)
    if (batched[i])
      throw Error(ErrorKind::kType, str_cat("a function with a vmap rule uses ", hlo::to_string(*x[i].type()),
                                            " from outside that is being batched; its rule cannot see it: "
                                            "pass it as an argument"));
  const ScopeGuard scope = constants();
  hlo::BatchResult out = run_batch(x.first(arguments_), batched.first(arguments_), size);
  if (in_closed_program(x)) close_over_arrays(b, x, std::vector{&out.results});
  return out;
}

hlo::CustomRule::Forward FunctionRule::forward(hlo::Builder& b, std::span<const Value> x,
                                               std::span<const bool> perturbed) {
  const ScopeGuard scope = constants();
  Forward out;
  run_rule(b, x, {}, {&out.results, &out.residuals},
           [&] { out = run_forward(x.first(arguments_), perturbed.first(arguments_)); });
  return out;
}

Values FunctionRule::backward(hlo::Builder& b, const Form& form, std::span<const Value> residuals,
                              std::span<const Value> cotangents) {
  const ScopeGuard scope = constants();
  Values out;
  run_rule(b, joined(residuals, cotangents), {}, {&out},
           [&] { out = run_backward(form, residuals, cotangents); });
  return out;
}

std::vector<Lazy> lazy_values(std::span<const Value> values) {
  std::vector<Lazy> out;
  for (const Value& v : values) out.push_back({v, false});
  return out;
}

std::vector<Lazy> call_with_rule(const FlatFunction& f, std::vector<Lazy> args, int64_t rule) {
  hlo::Builder b;
  std::vector<Typed> types, result_types;
  const size_t own = args.size();
  const std::vector<BoundAxis>& axes = bound_axes();
  for (const BoundAxis& a : axes) args.push_back({a.lane, false});
  for (const Lazy& a : args) types.push_back({a.value.type(), a.weak});
  const FlatFunction of_own = [&](const std::vector<Lazy>& p) {
    return f({p.begin(), p.begin() + static_cast<ptrdiff_t>(own)});
  };
  bool effects = false;
  hlo::ComputationPtr body = region(of_own, types, &args, &result_types, false, &effects);
  // What follows the axes was captured.
  Values captured;
  for (size_t i = own + axes.size(); i < args.size(); ++i) captured.push_back(args[i].value);
  if (std::none_of(captured.begin(), captured.end(), [](const Value& v) { return is_unbound(*v.node()); }))
    captured.clear();
  const size_t direct = captured.size();
  for (Value& p : parameters_beneath(captured)) captured.push_back(std::move(p));
  Values values;
  for (const Lazy& a : args) values.push_back(a.value);
  if (effects) values.insert(values.begin() + static_cast<ptrdiff_t>(own + axes.size()), last_token());
  if (captured.size() > direct) {
    // The rule's own: no derivative goes this way.
    std::vector<const hlo::Type*> more;
    for (size_t i = direct; i < captured.size(); ++i) {
      more.push_back(captured[i].type());
      values.push_back(hlo::is_inexact(captured[i].dtype()) ? b.stop_gradient(captured[i]) : captured[i]);
    }
    check(b.status());
    body = check(hlo::with_parameters(*body, more));
  }
  const bool of_call = effects || !axes.empty() || !captured.empty();
  int64_t id = rule;
  if (of_call) {
    Values given(values.end() - static_cast<ptrdiff_t>(captured.size()), values.end());
    id = hlo::register_custom_rule(
        std::make_shared<RuleOfCall>(id, own, axes, effects, std::move(captured), std::move(given)));
  }
  const Values results = hlo::custom_call_with_rule(b, id, body, values);
  if (of_call) hlo::release_custom_rule(id);  // the call has it
  check(b.status());
  if (effects) waiting_token() = results.back();
  std::vector<Lazy> out;
  for (size_t i = 0; i < result_types.size(); ++i) out.push_back({results[i], result_types[i].weak});
  run_effects();
  return out;
}

}  // namespace lamina::lazy
