#include "trace/checkpoint.h"

#include "trace/check.h"
#include "trace/graph_transforms.h"

namespace lamina::trace {

using hlo::Value;
using hlo::Values;

namespace {

// A rule for a call whose operands are its arguments and, behind them, captured values.
class RuleOfArguments : public hlo::CustomRule {
 public:
  RuleOfArguments(std::shared_ptr<hlo::CustomRule> inner, size_t arguments, size_t captured)
      : inner_(std::move(inner)), arguments_(arguments), captured_(captured) {}

  Kind kind() const override { return inner_->kind(); }
  bool symbolic_zeros() const override { return inner_->symbolic_zeros(); }
  hlo::JvpResult jvp(hlo::Builder& b, std::span<const Value> operands,
                     std::span<const Value> tangents) override {
    return inner_->jvp(b, operands.first(arguments_), tangents.first(arguments_));
  }
  Forward forward(hlo::Builder& b, std::span<const Value> operands,
                  std::span<const bool> perturbed) override {
    return inner_->forward(b, operands.first(arguments_), perturbed.first(arguments_));
  }
  Values backward(hlo::Builder& b, const Form& form, std::span<const Value> residuals,
                  std::span<const Value> cotangents) override {
    Values out = inner_->backward(b, form, residuals, cotangents);
    if (out.size() == arguments_) out.resize(arguments_ + captured_);
    return out;
  }

 private:
  std::shared_ptr<hlo::CustomRule> inner_;
  size_t arguments_, captured_;
};

// The closed graph, and the operands of a call of it.
struct Closed {
  hlo::ComputationPtr body;
  Values operands;
  size_t captured;
};

absl::StatusOr<Closed> close_for_call(std::string_view what, std::span<const Value> outputs,
                                      std::span<const Value> inputs, std::span<const Value> arguments) {
  if (absl::Status s = check_ends(what, outputs, inputs); !s.ok()) return s;
  if (absl::Status s = check_types(what, arguments, inputs); !s.ok()) return s;
  for (size_t i = 0; i < arguments.size(); ++i)
    if (!arguments[i]) return absl::InvalidArgumentError(str_cat(what, ": argument ", i, " is missing"));
  absl::StatusOr<ClosedGraph> closed = close_graph(outputs, inputs);
  if (!closed.ok()) return closed.status();
  Closed out{closed->body, Values(arguments.begin(), arguments.end()), closed->captured.size()};
  for (Value& v : closed->captured) out.operands.push_back(std::move(v));
  return out;
}

}  // namespace

absl::StatusOr<hlo::ComputationPtr> close_over(std::span<const Value> outputs, std::span<const Value> inputs,
                                               std::vector<Value>* captured) {
  if (absl::Status s = check_ends("close_over", outputs, inputs); !s.ok()) return s;
  absl::StatusOr<ClosedGraph> closed = close_graph(outputs, inputs);
  if (!closed.ok()) return closed.status();
  for (Value& v : closed->captured) captured->push_back(std::move(v));
  return closed->body;
}

absl::StatusOr<std::vector<Value>> checkpoint(std::span<const Value> outputs, std::span<const Value> inputs,
                                              std::span<const Value> arguments, int64_t policy,
                                              hlo::Dims shared) {
  hlo::GraphLock lock;
  absl::StatusOr<Closed> closed = close_for_call("checkpoint", outputs, inputs, arguments);
  if (!closed.ok()) return closed.status();
  hlo::Builder b;
  if (!shared.empty())
    for (size_t i = arguments.size(); i < closed->operands.size(); ++i)
      shared.push_back(static_cast<int64_t>(i));
  std::vector<hlo::Attrs::Entry> attrs{{hlo::Attr::body, closed->body}, {hlo::Attr::instance, int64_t{1}}};
  if (policy != 0) attrs.emplace_back(hlo::Attr::rule, policy);
  attrs.emplace_back(hlo::Attr::shared_operands, std::move(shared));
  const Values out = b.make_multi(hlo::Op::call, closed->operands, hlo::intern_attrs(std::move(attrs)));
  if (!b.ok()) return b.status();
  return to_vector(out);
}

absl::StatusOr<std::vector<Value>> composite(std::span<const Value> outputs, std::span<const Value> inputs,
                                             std::span<const Value> arguments, std::string name,
                                             int64_t version, std::string attributes) {
  hlo::GraphLock lock;
  absl::StatusOr<Closed> closed = close_for_call("composite", outputs, inputs, arguments);
  if (!closed.ok()) return closed.status();
  hlo::Builder b;
  const Values out =
      b.make_multi(hlo::Op::call, closed->operands,
                   hlo::intern_attrs({{hlo::Attr::body, closed->body},
                                      {hlo::Attr::call_target_name, std::move(name)},
                                      {hlo::Attr::index, version},
                                      {hlo::Attr::composite_attributes, std::move(attributes)}}));
  if (!b.ok()) return b.status();
  return to_vector(out);
}

absl::StatusOr<std::vector<Value>> call_with_rule(std::span<const Value> outputs,
                                                  std::span<const Value> inputs,
                                                  std::span<const Value> arguments,
                                                  std::shared_ptr<hlo::CustomRule> rule) {
  hlo::GraphLock lock;
  absl::StatusOr<Closed> closed = close_for_call("custom rule", outputs, inputs, arguments);
  if (!closed.ok()) return closed.status();
  if (closed->captured > 0)
    rule = std::make_shared<RuleOfArguments>(std::move(rule), arguments.size(), closed->captured);
  hlo::Builder b;
  const int64_t id = hlo::register_custom_rule(std::move(rule));
  const Values out = hlo::custom_call_with_rule(b, id, closed->body, closed->operands);
  hlo::release_custom_rule(id);  // the call has it
  if (!b.ok()) return b.status();
  return to_vector(out);
}

}  // namespace lamina::trace
