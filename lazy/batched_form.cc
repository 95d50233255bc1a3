#include "lazy/batched_form.h"

#include <algorithm>
#include <optional>

namespace lamina::lazy {
namespace {

// The form's function as a call with the rule of this id, or with one like it where that is gone.
std::vector<Lazy> call_with_form(const std::shared_ptr<BatchedForm>& form, int64_t id, std::vector<Lazy> x) {
  const FlatFunction run = [&](const std::vector<Lazy>& p) { return form->run(p); };
  const hlo::RuleOwner kept(id);
  if (hlo::find_custom_rule(id)) return call_with_rule(run, std::move(x), id);
  const RuleHandle fresh(std::make_shared<BatchedFormRule>(x.size(), form));
  return call_with_rule(run, std::move(x), fresh.id());
}

FlatFunction calls_of(std::shared_ptr<BatchedForm> form, int64_t id) {
  return [form = std::move(form), id](const std::vector<Lazy>& x) { return call_with_form(form, id, x); };
}

// (arguments, tangents) -> tangents of the results, of a function with a form.
class DerivativeForm final : public BatchedForm {
 public:
  // `id` is that of the function's rule.
  DerivativeForm(const std::shared_ptr<BatchedForm>& of, int64_t id) : of_(of), id_(id) {}

  std::vector<Lazy> run(const std::vector<Lazy>& both) override {
    const auto middle = both.begin() + static_cast<ptrdiff_t>(both.size() / 2);
    return jvp([&](const std::vector<Lazy>& x) { return of()->run(x); }, {both.begin(), middle},
               {middle, both.end()})
        .tangents;
  }

  Lanes lanes(int64_t size, const std::vector<bool>& batched, const std::vector<Lazy>& both,
              const FlatFunction&) override {
    const size_t n = both.size() / 2;
    std::vector<Lazy> x(both.begin(), both.begin() + static_cast<ptrdiff_t>(n));
    std::vector<Lazy> t(both.begin() + static_cast<ptrdiff_t>(n), both.end());
    std::vector<bool> marks(batched.begin(), batched.begin() + static_cast<ptrdiff_t>(n));
    std::vector<bool> moving(batched.begin() + static_cast<ptrdiff_t>(n), batched.end());
    Lanes out;
    const FlatFunction again = calls_of(of(), id_);
    const FlatFunction values = [&](const std::vector<Lazy>& p) {
      Lanes made = of()->lanes(size, marks, p, again);
      out.batched = std::move(made.batched);
      return std::move(made.results);
    };
    if (std::find(marks.begin(), marks.end(), true) == marks.end()) {  // one point, and a tangent per lane
      out.results = vmap([&](const std::vector<Lazy>& along) { return jvp(values, x, along).tangents; }, t,
                         moving, size);
      out.batched.assign(out.results.size(), true);
      return out;
    }
    hlo::Builder b;
    for (size_t i = 0; i < n; ++i) {
      if (marks[i] == moving[i]) continue;
      Lazy& one = marks[i] ? t[i] : x[i];
      one = {hlo::with_batch(b, one.value, false, size), false};
      marks[i] = true;
    }
    check(b.status());
    out.results = jvp(values, x, t).tangents;
    return out;
  }

 private:
  std::shared_ptr<BatchedForm> of() const { return std::shared_ptr<BatchedForm>(of_); }
  std::weak_ptr<BatchedForm> of_;  // the rule's, of which this one's is made
  int64_t id_;
};

}  // namespace

FlatFunction BatchedFormRule::again() const { return calls_of(form_, id()); }

hlo::JvpResult BatchedFormRule::run_jvp(std::span<const Value> x, std::span<const Value> t) {
  hlo::Builder b;
  std::vector<Lazy> both = lazy_values(x);
  for (size_t i = 0; i < x.size(); ++i) both.push_back({t[i] ? t[i] : b.zeros_like(x[i]), false});
  check(b.status());
  const auto derivative = std::make_shared<DerivativeForm>(form_, id());
  const int64_t made = hlo::derived_custom_rule(
      id(), "derivative", [&] { return std::make_shared<BatchedFormRule>(2 * arguments(), derivative); });
  if (const std::shared_ptr<hlo::CustomRule> rule = hlo::find_custom_rule(made))
    static_cast<BatchedFormRule&>(*rule).registered(made);
  hlo::JvpResult out;
  for (Lazy& d : call_with_form(derivative, made, std::move(both)))
    out.tangents.push_back(hlo::is_inexact(d.value.dtype()) ? std::move(d.value) : Value());
  return out;
}

hlo::BatchResult BatchedFormRule::run_batch(std::span<const Value> x, std::span<const bool> batched,
                                            int64_t size) {
  const BatchedForm::Lanes made =
      form_->lanes(size, std::vector<bool>(batched.begin(), batched.end()), lazy_values(x), again());
  hlo::BatchResult out;
  for (const Lazy& y : made.results) out.results.push_back(y.value);
  out.batched.assign(made.batched.begin(), made.batched.end());
  return out;
}

}  // namespace lamina::lazy
