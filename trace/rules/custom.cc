// Calls with a custom rule.
//
// Linearizing a function with a custom vjp runs its forward pass and stands a custom_call in for the
// tangents: an operation (residuals..., tangents...) -> tangents that exists to be transposed, which runs the
// backward pass. It has a rule and no target: evaluating it is an error in words and not a wrong number.
#include "trace/rules/custom.h"

#include <algorithm>
#include <ranges>

#include "hlo/custom_rule.h"
#include "hlo/type_error.h"
#include "trace/lanes.h"
#include "trace/rules/loop_guard.h"

namespace lamina::trace {
namespace {

constexpr std::string_view kLinearTarget = "lamina.custom_vjp.linear";

std::shared_ptr<CustomRule> rule_of(Builder& b, const Node& node) {
  std::shared_ptr<CustomRule> rule = find_custom_rule(node.attrs().integer(Attr::rule));
  if (!rule)
    b.fail(absl::NotFoundError("the custom derivative rule of a call is gone: its function was deleted"));
  return rule;
}

// Errors in words where a callback returned too few values or values of a wrong type.
bool check_returned(Builder& b, std::string_view what, Ops values, std::span<const Type* const> types,
                    bool may_be_null) {
  if (!b.ok()) return false;
  if (values.size() != types.size()) {
    b.fail(absl::InvalidArgumentError(str_cat("a custom rule returned ", values.size(), " ", what, " where ",
                                              types.size(), " are needed")));
    return false;
  }
  for (size_t i = 0; i < values.size(); ++i) {
    if (!values[i] && may_be_null) continue;
    if (values[i] && values[i].type() == types[i]) continue;
    b.fail(absl::InvalidArgumentError(str_cat("a custom rule returned for ", what, " ", i, " ",
                                              values[i] ? to_string(*values[i].type()) : "nothing", " where ",
                                              to_string(*types[i]), " is needed")));
    return false;
  }
  return true;
}

std::vector<const Type*> result_types(const Node& node) {
  std::vector<const Type*> out;
  for (uint32_t i = 0; i < node.num_results(); ++i) out.push_back(node.result_type(i));
  return out;
}

// Of what a batch makes of the rule: lanes, how they go apart, and the function.
std::string batched_key(const Node& node, int64_t size) {
  return str_cat(size, "/", static_cast<int>(lane_strategy()), "/",
                 reinterpret_cast<uintptr_t>(node.attrs().computation(Attr::body).get()));
}

// The stand-in of a function that `body` is like.
Values record_linear(Builder& b, Ops operands, int64_t rule, size_t residuals, const ComputationPtr& body) {
  std::vector<const Type*> types;
  for (const Type* type : body->result_types())
    if (has_tangent(type)) types.push_back(type);
  return b.make_multi(Op::custom_call, operands,
                      intern_attrs({{Attr::call_target_name, std::string(kLinearTarget)},
                                    {Attr::result_types, std::move(types)},
                                    {Attr::rule, rule},
                                    {Attr::index, static_cast<int64_t>(residuals)},
                                    {Attr::body, body}}));
}

// What all lanes along axis 0 hold, where `with_batch` put one value there; null otherwise.
Value of_every_lane(const Value& v) {
  const Node& node = *v.node();
  if (node.op() != Op::broadcast_in_dim) return {};
  const Value x(node.operand(0));
  if (!std::ranges::equal(x.dims(), std::span(v.dims()).subspan(1))) return {};
  const Dims& places = node.attrs().ints(Attr::broadcast_dimensions);
  for (size_t i = 0; i < places.size(); ++i)
    if (places[i] != static_cast<int64_t>(i) + 1) return {};
  return x;
}

// Cotangents of all operands from what `backward` of a rule gave: what a body captured has none.
void add_captured(const CustomRule& rule, Values& cotangents, size_t operands) {
  if (cotangents.size() == rule.arguments()) cotangents.resize(operands);
}

// A rule after one of its forward passes. Owned by what stands for the linear part of that pass.
class RuleOfPass : public CustomRule {
 public:
  RuleOfPass(int64_t id, std::shared_ptr<CustomRule> rule, Form form)
      : owner_(id), rule_(std::move(rule)), form_(std::move(form)) {}
  Kind kind() const override { return rule_->kind(); }
  bool symbolic_zeros() const override { return rule_->symbolic_zeros(); }
  size_t arguments() const override { return rule_->arguments(); }
  Values backward(Builder& b, const Form&, Ops residuals, Ops cotangents) override {
    return rule_->backward(b, form_, residuals, cotangents);
  }

 private:
  RuleOwner owner_;
  std::shared_ptr<CustomRule> rule_;
  Form form_;
};

// What is made of a rule (derived_custom_rule), which is there as long as this is named.
class Derived : public CustomRule {
 public:
  explicit Derived(const std::shared_ptr<CustomRule>& inner) : inner_(inner) {}
  Kind kind() const override { return inner()->kind(); }
  bool symbolic_zeros() const override { return inner()->symbolic_zeros(); }
  size_t arguments() const override { return inner()->arguments(); }

 protected:
  std::shared_ptr<CustomRule> inner() const { return std::shared_ptr<CustomRule>(inner_); }

 private:
  std::weak_ptr<CustomRule> inner_;
};

// A rule of a batched function: the rule itself, recorded for one lane and batched.
class BatchedRule : public Derived {
 public:
  BatchedRule(const std::shared_ptr<CustomRule>& inner, ComputationPtr body, Marks operands, Marks results,
              int64_t size)
      : Derived(inner),
        operand_marks_(operands.begin(), operands.end()),
        result_marks_(results.begin(), results.end()),
        size_(size),
        strategy_(lane_strategy()),
        body_(std::move(body)),
        operand_types_(body_->parameter_types()),
        result_types_(body_->result_types()) {}

  JvpResult jvp(Builder& b, Ops operands, Ops tangents) override {
    Values parameters, inner_tangents, values;
    Mask marks;
    for (size_t i = 0; i < operands.size(); ++i) add(parameters, values, marks, operands[i], i);
    const size_t n = parameters.size();
    for (size_t i = 0; i < operands.size(); ++i) {
      inner_tangents.push_back(Value());
      if (!tangents[i]) continue;
      add(parameters, values, marks, tangents[i], i);
      inner_tangents.back() = parameters.back();
    }
    JvpResult one = inner()->jvp(b, Ops(parameters).first(n), inner_tangents);
    JvpResult out;
    if (!check_returned(b, "tangents", one.tangents, result_types_, true)) return out;
    if (!one.primals.empty() && !check_returned(b, "results", one.primals, result_types_, false)) return out;
    Values flat = one.primals;
    for (const Value& t : one.tangents)
      if (t) flat.push_back(t);
    const BatchResult r = lanes_of(b, flat, parameters, values, marks);
    if (!b.ok()) return out;
    size_t next = 0;
    auto take = [&](size_t i) {
      const Value v =
          result_marks_[i] ? with_batch(b, r.results[next], r.batched[next], size_) : r.results[next];
      ++next;
      return v;
    };
    for (size_t i = 0; i < one.primals.size(); ++i) out.primals.push_back(take(i));
    for (size_t i = 0; i < one.tangents.size(); ++i)
      out.tangents.push_back(one.tangents[i] ? take(i) : Value());
    return out;
  }

  bool has_transpose() const override { return inner()->has_transpose(); }
  Values transpose(Builder& b, Ops operands, Marks linear, Ops cotangents) override {
    Values parameters, inner_operands(operands.size()), inner_cts(cotangents.size()), values;
    Mask marks;
    for (size_t i = 0; i < operands.size(); ++i) {
      if (linear[i]) continue;
      add(parameters, values, marks, operands[i], i);
      inner_operands[i] = parameters.back();
    }
    add_cotangents(parameters, values, marks, cotangents, inner_cts);
    return batched_cotangents(b, inner()->transpose(b, inner_operands, linear, inner_cts), parameters, values,
                              marks);
  }

  Forward forward(Builder& b, Ops operands, Marks perturbed) override {
    Values parameters, values;
    Mask marks;
    for (size_t i = 0; i < operands.size(); ++i) add(parameters, values, marks, operands[i], i);
    const Forward one = inner()->forward(b, parameters, perturbed);
    Forward out{{}, {}, one.form};
    if (!check_returned(b, "results", one.results, result_types_, false)) return out;
    const BatchResult r = lanes_of(b, joined(one.results, one.residuals), parameters, values, marks);
    if (!b.ok()) return out;
    for (size_t i = 0; i < r.results.size(); ++i) {
      const bool residual = i >= one.results.size();
      const bool wanted = residual || result_marks_[i];
      (residual ? out.residuals : out.results)
          .push_back(wanted ? with_batch(b, r.results[i], r.batched[i], size_) : r.results[i]);
    }
    return out;
  }

  Values backward(Builder& b, const Form& form, Ops residuals, Ops cotangents) override {
    Values parameters, values, kept, inner_cts(cotangents.size());
    Mask marks;
    for (const Value& v : residuals) {
      if (const Value one = of_every_lane(v)) {  // a known one, as a number is, stays known
        kept.push_back(one);
        continue;
      }
      const Dims& dims = v.dims();
      kept.push_back(make_parameter(array_type_or_die(v.dtype(), std::span(dims).subspan(1))));
      parameters.push_back(kept.back());
      values.push_back(v);
      marks.push_back(true);
    }
    add_cotangents(parameters, values, marks, cotangents, inner_cts);
    Values one = inner()->backward(b, form, kept, inner_cts);
    add_captured(*this, one, operand_types_.size());
    return batched_cotangents(b, one, parameters, values, marks);
  }

 private:
  // What the rule recorded for one lane, batched as its function was.
  BatchResult lanes_of(Builder& b, Ops outputs, Ops parameters, Ops values, Marks marks) const {
    const LaneStrategyScope scope(strategy_);
    return batch_graph(b, outputs, parameters, values, marks, size_);
  }
  void add_cotangents(Values& parameters, Values& values, Mask& marks, Ops cotangents, Values& inner) const {
    for (size_t i = 0; i < cotangents.size(); ++i) {
      if (!cotangents[i]) continue;
      parameters.push_back(inner[i] = make_parameter(result_types_[i]));
      values.push_back(cotangents[i]);
      marks.push_back(result_marks_[i]);
    }
  }
  // The cotangents of all operands from those of one lane, summed over the lanes where an operand has none.
  Values batched_cotangents(Builder& b, const Values& one, Ops parameters, Ops values, Marks marks) const {
    Values out(operand_types_.size());
    if (!check_returned(b, "cotangents", one, operand_types_, true)) return out;
    Values flat;
    for (const Value& v : one)
      if (v) flat.push_back(v);
    const BatchResult r = lanes_of(b, flat, parameters, values, marks);
    if (!b.ok()) return out;
    size_t next = 0;
    for (size_t i = 0; i < one.size(); ++i) {
      if (!one[i]) continue;
      const Value v = with_batch(b, r.results[next], r.batched[next], size_);
      ++next;
      out[i] = operand_marks_[i] ? v : b.reduce_sum(v, {{0}});
    }
    return out;
  }
  void add(Values& parameters, Values& values, Mask& marks, const Value& value, size_t i) const {
    parameters.push_back(make_parameter(operand_types_[i]));
    values.push_back(value);
    marks.push_back(operand_marks_[i]);
  }

  Mask operand_marks_, result_marks_;
  int64_t size_;
  LaneStrategy strategy_;
  ComputationPtr body_;  // its address is part of the rule's key
  std::vector<const Type*> operand_types_, result_types_;
};

// A rule whose loops need a flag, the call's last operand: what the rule records, guarded.
class GuardedRule : public Derived {
 public:
  GuardedRule(const std::shared_ptr<CustomRule>& inner, ComputationPtr body)
      : Derived(inner), body_(std::move(body)) {}

  bool has_transpose() const override { return inner()->has_transpose(); }
  // What the user batches is the user's: it sees no flag.
  bool has_batch() const override { return inner()->has_batch(); }
  BatchResult batch(Builder& b, Ops operands, Marks batched, int64_t size) override {
    const size_t n = operands.size() - 1;
    return inner()->batch(b, operands.first(n), batched.first(n), size);
  }

  JvpResult jvp(Builder& b, Ops operands, Ops tangents) override {
    const size_t n = operands.size() - 1;
    Recording r(operands.first(n));
    const Values inner_tangents = r.add(tangents.first(n));
    JvpResult out = inner()->jvp(b, Ops(r.parameters).first(n), inner_tangents);
    r.finish(b, {&out.primals, &out.tangents}, operands[n]);
    return out;
  }
  Values transpose(Builder& b, Ops operands, Marks linear, Ops cotangents) override {
    const size_t n = operands.size() - 1;
    Recording r({});
    const Values x = r.add(operands.first(n)), cts = r.add(cotangents);
    Values out = inner()->transpose(b, x, linear.first(n), cts);
    r.finish(b, {&out}, operands[n]);
    out.resize(n + 1);
    return out;
  }
  Forward forward(Builder& b, Ops operands, Marks perturbed) override {
    const size_t n = operands.size() - 1;
    Recording r(operands.first(n));
    Forward out = inner()->forward(b, r.parameters, perturbed.first(n));
    r.finish(b, {&out.results, &out.residuals}, operands[n]);
    out.residuals.push_back(operands[n]);
    return out;
  }
  Values backward(Builder& b, const Form& form, Ops residuals, Ops cotangents) override {
    const size_t n = residuals.size() - 1;
    Recording r(residuals.first(n));
    const Values cts = r.add(cotangents);
    Values out = inner()->backward(b, form, Ops(r.parameters).first(n), cts);
    add_captured(*this, out, body_->parameters().size() - 1);
    r.finish(b, {&out}, residuals[n]);
    out.push_back(Value());
    return out;
  }

 private:
  // Parameters in the place of values, and what is recorded on them put back on the values.
  struct Recording {
    Values parameters, values;
    explicit Recording(Ops given) { add(given); }
    // Parameters for those that are there.
    Values add(Ops given) {
      Values out;
      for (const Value& v : given) {
        out.push_back(v ? make_parameter(v.type()) : Value());
        if (!v) continue;
        parameters.push_back(out.back());
        values.push_back(v);
      }
      return out;
    }
    void finish(Builder& b, std::initializer_list<Values*> lists, const Value& active) {
      if (!b.ok()) return;
      Values flat;
      for (const Values* list : lists)
        for (const Value& v : *list)
          if (v) flat.push_back(v);
      absl::StatusOr<ClosedGraph> closed = close_graph(flat, parameters);
      if (!get_or_fail(b, closed)) return;
      const Values done = guarded_graph(b, *closed->body, joined(values, closed->captured), active);
      size_t next = 0;
      for (Values* list : lists)
        for (Value& v : *list)
          if (v) v = done[next++];
    }
  };

  ComputationPtr body_;  // its address is part of the rule's key
};

}  // namespace

JvpResult custom_rule_jvp(Builder& b, const Node& call, Ops x, Ops t, JvpMode mode) {
  JvpResult out;
  out.tangents.resize(call.num_results());
  const std::shared_ptr<CustomRule> rule = rule_of(b, call);
  if (!rule) return out;
  Values tangents;
  Mask perturbed;
  const bool null_is_zero = rule->symbolic_zeros() && rule->kind() == CustomRule::Kind::kJvp;
  for (size_t i = 0; i < x.size(); ++i) {
    const bool differentiable = has_tangent(x[i].type()), own = i < rule->arguments();
    if (!own && differentiable && t[i]) {
      b.fail(type_error(str_cat("a function with a custom derivative uses ", to_string(*x[i].type()),
                                " from outside that is being differentiated; its rule cannot see it: pass it "
                                "as an argument")));
      return out;
    }
    perturbed.push_back(differentiable && t[i]);
    tangents.push_back(!differentiable ? Value() : null_is_zero ? t[i] : or_zeros(b, t[i], x[i]));
  }
  const std::vector<const Type*> types = result_types(call);
  if (rule->kind() == CustomRule::Kind::kJvp) {
    JvpResult r = rule->jvp(b, x, tangents);
    if (!check_returned(b, "tangents", r.tangents, types, true)) return out;
    if (!r.primals.empty() && !check_returned(b, "results", r.primals, types, false)) return out;
    return r;
  }
  if (mode == JvpMode::kForward) {
    b.fail(type_error(
        "a function with a custom vjp has no forward-mode derivative (jvp); give it a custom jvp instead"));
    return out;
  }
  CustomRule::Forward f = rule->forward(b, x, perturbed);
  if (!check_returned(b, "results", f.results, types, false)) return out;
  Values operands = f.residuals;
  for (const Value& v : tangents)
    if (v) operands.push_back(v);
  if (std::none_of(types.begin(), types.end(), has_tangent)) return {out.tangents, f.results};
  int64_t id = call.attrs().integer(Attr::rule);
  if (f.form) id = register_custom_rule(std::make_shared<RuleOfPass>(id, rule, f.form));
  const Values linear =
      record_linear(b, operands, id, f.residuals.size(), call.attrs().computation(Attr::body));
  if (f.form) release_custom_rule(id);  // the linear part has it
  if (!b.ok()) return out;
  size_t next = 0;
  for (size_t i = 0; i < types.size(); ++i)
    if (has_tangent(types[i])) out.tangents[i] = linear[next++];
  out.primals = f.results;
  return out;
}

bool has_custom_transpose(const Node& call) {
  if (!has_custom_rule(call)) return false;
  const std::shared_ptr<CustomRule> rule = find_custom_rule(call.attrs().integer(Attr::rule));
  return rule && rule->has_transpose();
}

Values custom_rule_transpose(Builder& b, const Node& call, Ops x, Marks linear, Ops ct) {
  Values out(x.size()), operands(x.begin(), x.end()), cts;
  const std::shared_ptr<CustomRule> rule = rule_of(b, call);
  if (!rule) return out;
  std::vector<const Type*> types;
  for (size_t i = 0; i < x.size(); ++i) {
    types.push_back(call.operand_type(i));
    if (linear[i]) operands[i] = Value();
  }
  for (uint32_t i = 0; i < call.num_results(); ++i) {
    const Type* type = call.result_type(i);
    cts.push_back(!has_tangent(type) ? Value() : ct[i] ? ct[i] : b.zeros(type));
  }
  Values back = rule->transpose(b, operands, linear, cts);
  if (!check_returned(b, "cotangents", back, types, true)) return out;
  for (size_t i = 0; i < x.size(); ++i)
    if (linear[i]) out[i] = back[i];
  return out;
}

JvpResult custom_vjp_linear_jvp(Builder& b, const Node& node, Ops x, Ops t) {
  JvpResult out{Values(node.num_results()), {}};
  Values operands(x.begin(), x.end());
  for (size_t i = 0; i < x.size(); ++i) {
    if (static_cast<int64_t>(i) >= node.attrs().integer(Attr::index)) {
      operands[i] = or_zeros(b, t[i], x[i]);
    } else if (t[i]) {
      b.fail(absl::UnimplementedError(
          "what linearize gives of a function with a custom vjp has no derivative by the point where it was "
          "linearized: take that of vjp or grad, or give the function a custom jvp"));
      return out;
    }
  }
  out.tangents = b.remake(node, operands);
  return out;
}

BatchResult custom_vjp_linear_batch(Builder& b, const Node& node, Ops x, Marks batched, int64_t size) {
  BatchResult out = all_batched(Values(node.num_results()));
  const std::shared_ptr<CustomRule> rule = rule_of(b, node);
  if (!rule) return out;
  const ComputationPtr& body = node.attrs().computation(Attr::body);
  const auto lanes = [&](const std::vector<const Type*>& types) {
    std::vector<const Type*> wide;
    for (const Type* type : types) wide.push_back(batched_type(type, size));
    return wide;
  };
  // Only its types are looked at.
  const absl::StatusOr<ComputationPtr> like =
      record_region(lanes(body->parameter_types()), [&](Builder& in, Ops) {
        Values results;
        for (const Type* type : lanes(body->result_types())) results.push_back(in.zeros(type));
        return results;
      });
  if (!get_or_fail(b, like)) return out;
  const int64_t id =
      derived_custom_rule(node.attrs().integer(Attr::rule), str_cat("linear/", batched_key(node, size)), [&] {
        return std::make_shared<BatchedRule>(rule, body, Mask(body->parameters().size(), true),
                                             Mask(body->roots().size(), true), size);
      });
  Values operands;
  for (size_t i = 0; i < x.size(); ++i) operands.push_back(with_batch(b, x[i], batched[i], size));
  out.results = record_linear(b, operands, id, static_cast<size_t>(node.attrs().integer(Attr::index)), *like);
  return out;
}

Values custom_vjp_transpose(Builder& b, const Node& node, Ops x, Marks linear, Ops ct) {
  Values out(x.size());
  const int64_t residuals = node.attrs().integer(Attr::index);
  if (node.attrs().integer(Attr::rule) == 0) {
    b.fail(absl::InvalidArgumentError(str_cat("cannot transpose custom_call '",
                                              node.attrs().string(Attr::call_target_name),
                                              "': give the function a custom derivative")));
    return out;
  }
  const std::shared_ptr<CustomRule> rule = rule_of(b, node);
  if (!rule) return out;
  for (int64_t i = 0; i < residuals; ++i)
    if (linear[i]) {
      b.fail(absl::InvalidArgumentError("cannot transpose a custom vjp whose residuals are linear"));
      return out;
    }
  const Computation& body = *node.attrs().computation(Attr::body);
  Values cts;
  uint32_t next_result = 0;
  for (const Type* type : body.result_types()) {
    if (!has_tangent(type)) {
      cts.push_back(Value());
      continue;
    }
    const bool there = ct[next_result] || rule->symbolic_zeros();
    cts.push_back(there ? ct[next_result] : b.zeros(type));
    ++next_result;
  }
  Values back = rule->backward(b, nullptr, x.first(residuals), cts);
  const std::vector<const Type*> types = body.parameter_types();
  add_captured(*rule, back, types.size());
  if (!check_returned(b, "cotangents", back, types, true)) return out;
  size_t next = residuals;
  for (size_t i = 0; i < types.size(); ++i)
    if (has_tangent(types[i])) out[next++] = back[i];
  return out;
}

namespace {

BatchResult batched_by_rule(Builder& b, CustomRule& rule, const Node& call, Ops x, Marks batched,
                            int64_t size) {
  BatchResult out = rule.batch(b, x, batched, size);
  if (!b.ok()) return all_batched(Values(call.num_results()));
  std::vector<const Type*> types = result_types(call);
  for (size_t i = 0; i < std::min(types.size(), out.batched.size()); ++i) {
    if (!out.batched[i]) continue;
    Dims dims = types[i]->dims;
    dims.insert(dims.begin(), size);
    types[i] = array_type_or_die(types[i]->dtype, dims);
  }
  if (!check_returned(b, "results of a batch", out.results, types, false))
    return all_batched(Values(call.num_results()));
  return out;
}

}  // namespace

Values custom_rule_guarded(Builder& b, const Node& call, const ComputationPtr& body, Ops x) {
  const std::shared_ptr<CustomRule> rule = rule_of(b, call);
  if (!rule) return Values(call.num_results());
  const std::string key = str_cat("guarded/", reinterpret_cast<uintptr_t>(body.get()));
  const int64_t id = derived_custom_rule(call.attrs().integer(Attr::rule), key,
                                         [&] { return std::make_shared<GuardedRule>(rule, body); });
  return custom_call_with_rule(b, id, body, x);
}

BatchResult custom_rule_batch(Builder& b, const Node& call, Ops x, Marks batched, int64_t size) {
  BatchResult out = all_batched(Values(call.num_results()));
  const std::shared_ptr<CustomRule> rule = rule_of(b, call);
  if (!rule) return out;
  if (rule->has_batch()) return batched_by_rule(b, *rule, call, x, batched, size);
  // A result that is the same in every lane may have a tangent per lane. Where collectives make it one, its
  // cotangent is the sum over the lanes, as it is of what they exchange.
  bool differs = false;
  for (size_t i = 0; i < x.size(); ++i) differs |= batched[i] && has_tangent(x[i].type());
  if (rule->kind() == CustomRule::Kind::kVjp && exchanges(call)) differs = false;
  Mask per_lane;
  for (const Type* type : result_types(call)) per_lane.push_back(differs && has_tangent(type));
  const absl::StatusOr<BatchComputation> body =
      batch_computation(*call.attrs().computation(Attr::body), batched, per_lane, size);
  if (!get_or_fail(b, body)) return out;
  std::string key = batched_key(call, size);
  for (bool marked : batched) key.push_back(marked ? 'b' : '.');
  const int64_t id = derived_custom_rule(call.attrs().integer(Attr::rule), key, [&] {
    return std::make_shared<BatchedRule>(rule, call.attrs().computation(Attr::body), batched, body->results,
                                         size);
  });
  out.results = custom_call_with_rule(b, id, body->body, x);
  out.batched.assign(body->results.begin(), body->results.end());
  return out;
}

}  // namespace lamina::trace
