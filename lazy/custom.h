// Derivatives and batched forms that users define for functions over flat lists of lazy arrays, in C++ and
// Python.
//
// Contract: a call of the function becomes a `call` node that names its rule (hlo/custom_rule.h). The rule's
// functions run when a transform reaches that node, any number of times, also inside the body of a loop that
// is being transformed; arrays that they use from outside are constants there. A value of a trace that both
// the function and its rule use from outside (a lane of a vmap around the call) is the call's operand to
// both.
#ifndef LAMINA_LAZY_CUSTOM_H_
#define LAMINA_LAZY_CUSTOM_H_

#include <atomic>
#include <memory>
#include <vector>

#include "hlo/custom_rule.h"
#include "lazy/transforms.h"

namespace lamina::lazy {

// A rule by functions of the user's. Only the first `arguments` operands are the function's own: the others
// are what its body captured, which has no derivative.
class FunctionRule : public hlo::CustomRule {
 public:
  FunctionRule(Kind kind, size_t arguments, bool symbolic_zeros = false)
      : kind_(kind), symbolic_zeros_(symbolic_zeros), arguments_(arguments) {}
  Kind kind() const final { return kind_; }
  bool symbolic_zeros() const final { return symbolic_zeros_; }
  size_t arguments() const final { return arguments_; }
  // That of hlo::register_custom_rule, once it is registered; 0 before.
  int64_t id() const { return id_; }
  void registered(int64_t id) { id_ = id; }
  hlo::JvpResult jvp(hlo::Builder& b, std::span<const Value> operands, std::span<const Value> tangents) final;
  hlo::Values transpose(hlo::Builder& b, std::span<const Value> operands, std::span<const bool> linear,
                        std::span<const Value> cotangents) final;
  hlo::BatchResult batch(hlo::Builder& b, std::span<const Value> operands, std::span<const bool> batched,
                         int64_t size) final;
  Forward forward(hlo::Builder& b, std::span<const Value> operands, std::span<const bool> perturbed) final;
  hlo::Values backward(hlo::Builder& b, const Form& form, std::span<const Value> residuals,
                       std::span<const Value> cotangents) final;

 protected:
  // The user's functions, on the function's own operands; a null value stands for none.
  virtual hlo::JvpResult run_jvp(std::span<const Value> operands, std::span<const Value> tangents) = 0;
  // For those that have a transpose.
  virtual hlo::Values run_transpose(std::span<const Value>, std::span<const Value>) { return {}; }
  // For those that have a batched form.
  virtual hlo::BatchResult run_batch(std::span<const Value>, std::span<const bool>, int64_t) { return {}; }
  virtual Forward run_forward(std::span<const Value> operands, std::span<const bool> perturbed) = 0;
  virtual hlo::Values run_backward(const Form& form, std::span<const Value> residuals,
                                   std::span<const Value> cotangents) = 0;

 private:
  Kind kind_;
  bool symbolic_zeros_;
  size_t arguments_;
  std::atomic<int64_t> id_ = 0;
};

// Owns a rule together with the recorded calls that name it.
class RuleHandle {
 public:
  explicit RuleHandle(std::shared_ptr<FunctionRule> rule)
      : rule_(std::move(rule)), id_(hlo::register_custom_rule(rule_)) {
    rule_->registered(id_);
  }
  ~RuleHandle() { hlo::release_custom_rule(id_); }
  RuleHandle(const RuleHandle&) = delete;
  RuleHandle& operator=(const RuleHandle&) = delete;
  int64_t id() const { return id_; }
  FunctionRule& rule() const { return *rule_; }

 private:
  std::shared_ptr<FunctionRule> rule_;
  int64_t id_;
};

// What a transform hands to a rule: no type among it is that of a number.
std::vector<Lazy> lazy_values(std::span<const Value> values);

// Outputs of f as a call with the rule of this id. Values of open traces that f uses from outside are
// its operands; a derivative by them is an error, when it is taken.
std::vector<Lazy> call_with_rule(const FlatFunction& f, std::vector<Lazy> args, int64_t rule);

}  // namespace lamina::lazy

#endif  // LAMINA_LAZY_CUSTOM_H_
