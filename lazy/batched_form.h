// Functions with a form of their own under vmap, over flat lists of lazy arrays, in C++ and Python.
//
// Contract: a call of the function is one with this rule (lazy/custom.h); in lanes it is what the form gives.
// Forward derivatives of such a call are calls with a form too, which is the derivative of this one, and
// those of lanes are the form's. Reverse ones are made from the function alone. A form runs when a transform
// reaches a call, any number of times.
#ifndef LAMINA_LAZY_BATCHED_FORM_H_
#define LAMINA_LAZY_BATCHED_FORM_H_

#include <memory>
#include <vector>

#include "lazy/custom.h"

namespace lamina::lazy {

class BatchedForm {
 public:
  virtual ~BatchedForm() = default;
  // The function.
  virtual std::vector<Lazy> run(const std::vector<Lazy>& x) = 0;
  // It over `size` lanes. They are along axis 0 of the arguments that are `batched`, and of the results that
  // are said to be. `again` is the function, as a call that has this form.
  struct Lanes {
    std::vector<Lazy> results;
    std::vector<bool> batched;
  };
  virtual Lanes lanes(int64_t size, const std::vector<bool>& batched, const std::vector<Lazy>& x,
                      const FlatFunction& again) = 0;
};

class BatchedFormRule final : public FunctionRule {
 public:
  BatchedFormRule(size_t arguments, std::shared_ptr<BatchedForm> form)
      : FunctionRule(Kind::kJvp, arguments), form_(std::move(form)) {}
  bool has_batch() const override { return true; }

 protected:
  hlo::JvpResult run_jvp(std::span<const Value> x, std::span<const Value> t) override;
  hlo::BatchResult run_batch(std::span<const Value> x, std::span<const bool> batched, int64_t size) override;
  Forward run_forward(std::span<const Value>, std::span<const bool>) override { return {}; }
  hlo::Values run_backward(const Form&, std::span<const Value>, std::span<const Value>) override {
    return {};
  }

 private:
  FlatFunction again() const;
  std::shared_ptr<BatchedForm> form_;
};

}  // namespace lamina::lazy

#endif  // LAMINA_LAZY_BATCHED_FORM_H_
