#include "lazy/custom.h"

#include <algorithm>
#include <array>

#include "hlo/hash_map.h"
#include "hlo/strings.h"
#include "lazy/scopes.h"

namespace lamina::lazy {
namespace {

using hlo::Values;

Values joined(std::span<const Value> a, std::span<const Value> b) {
  Values out(a.begin(), a.end());
  out.insert(out.end(), b.begin(), b.end());
  return out;
}

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
        for (size_t i = 0; i < n->operands().size(); ++i) {
          operands.push_back(made.at(n->operand(i).node())[n->operand(i).index()]);
          changed |= !(operands.back() == n->operand_value(i));
        }
        if (n->data() && n->stamp() == 0 && !n->type()->is_tuple()) {
          const jit::ArrayPtr array = jit::array_of(Value(n));
          results.push_back(b.constant(hlo::Literal::copy_of(n->type(), array->host())));
        } else if (changed && !n->data()) {
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

// Numbers in a rule are constants, since it may run while a loop's body is being transformed.
ScopeGuard constants() { return ScopeGuard(Scope::kJit, 0); }

}  // namespace

hlo::JvpResult FunctionRule::jvp(hlo::Builder& b, std::span<const Value> x, std::span<const Value> t) {
  const ScopeGuard scope = constants();
  hlo::JvpResult out = run_jvp(x.first(arguments_), t.first(arguments_));
  if (in_closed_program(x)) close_over_arrays(b, joined(x, t), std::array{&out.primals, &out.tangents});
  return out;
}

Values FunctionRule::transpose(hlo::Builder& b, std::span<const Value> x, std::span<const bool>,
                               std::span<const Value> cotangents) {
  const ScopeGuard scope = constants();
  Values out = run_transpose(x.first(arguments_), cotangents);
  Values inputs = joined(x, cotangents);
  inputs.erase(std::remove(inputs.begin(), inputs.end(), Value()), inputs.end());
  if (in_closed_program(inputs)) close_over_arrays(b, inputs, std::array{&out});
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
  if (in_closed_program(x)) close_over_arrays(b, x, std::array{&out.results});
  return out;
}

hlo::CustomRule::Forward FunctionRule::forward(hlo::Builder& b, std::span<const Value> x) {
  const ScopeGuard scope = constants();
  captured_ = x.size() - arguments_;
  Forward out = run_forward(x.first(arguments_));
  if (in_closed_program(x)) close_over_arrays(b, x, std::array{&out.results, &out.residuals});
  return out;
}

Values FunctionRule::backward(hlo::Builder& b, std::span<const Value> residuals,
                              std::span<const Value> cotangents) {
  const ScopeGuard scope = constants();
  Values out = run_backward(residuals, cotangents);
  const Values inputs = joined(residuals, cotangents);
  if (in_closed_program(inputs)) close_over_arrays(b, inputs, std::array{&out});
  out.resize(out.size() + captured_);
  return out;
}

std::vector<Lazy> call_with_rule(const FlatFunction& f, std::vector<Lazy> args, const RuleHandle& rule) {
  hlo::Builder b;
  std::vector<Typed> types, result_types;
  for (const Lazy& a : args) types.push_back({a.value.type(), a.weak});
  const size_t own = args.size();
  const hlo::ComputationPtr body = region(f, types, &args, &result_types, false);
  for (const Scope& s : open_scopes())
    for (size_t i = own; s.kind == Scope::kDerivative && i < args.size(); ++i)
      if (args[i].value.node()->stamp() >= s.stamp && hlo::is_inexact(args[i].value.dtype()))
        throw Error(ErrorKind::kType, str_cat("a function with a custom derivative uses ",
                                              hlo::to_string(*args[i].value.type()),
                                              " from outside that is being differentiated; its rule "
                                              "cannot see it: pass it as an argument"));
  Values values;
  for (const Lazy& a : args) values.push_back(a.value);
  const Values results = hlo::custom_call_with_rule(b, rule.id(), body, values);
  check(b.status());
  std::vector<Lazy> out;
  for (size_t i = 0; i < results.size(); ++i) out.push_back({results[i], result_types[i].weak});
  return out;
}

}  // namespace lamina::lazy
