// Rules that C++ callables have of their own: derivatives, and forms under vmap.
#include "lazy/custom.h"

#include <algorithm>

#include "lamina/flat_transforms.h"
#include "lazy/api/flat.h"
#include "lazy/batched_form.h"
#include "lazy/scopes.h"

namespace lamina::detail {
namespace {

// Rules run in the middle of transforms: what they call is the user's code.
class ApiRule final : public lazy::FunctionRule {
 public:
  // Forward derivatives.
  ApiRule(std::vector<const hlo::Type*> arguments, FlatFunction rule, bool symbolic_zeros)
      : FunctionRule(Kind::kJvp, arguments.size(), symbolic_zeros),
        arguments_(std::move(arguments)),
        rule_(std::move(rule)) {}
  // Reverse ones.
  ApiRule(std::vector<const hlo::Type*> arguments, FlatRule::Forward forward, FlatRule::Backward backward,
          bool symbolic_zeros)
      : FunctionRule(Kind::kVjp, arguments.size(), symbolic_zeros),
        arguments_(std::move(arguments)),
        forward_(std::move(forward)),
        backward_(std::move(backward)) {}

 protected:
  hlo::JvpResult run_jvp(std::span<const hlo::Value> x, std::span<const hlo::Value> t) override {
    std::vector<lazy::Lazy> both = lazy::lazy_values(x);
    hlo::Builder b;
    for (size_t i = 0; i < t.size(); ++i)
      both.push_back({t[i] || symbolic_zeros() ? t[i] : b.zeros_like(x[i]), false});
    const std::vector<lazy::Lazy> out = run(rule_, std::move(both));
    hlo::JvpResult result;
    const size_t n = out.size() / 2;
    for (size_t k = 0; k < n; ++k) {
      const hlo::Value& y = out[k].value;
      result.primals.push_back(y);
      result.tangents.push_back(hlo::is_inexact(y.dtype()) ? fitted(b, out[n + k], y.type(), "tangent")
                                                           : hlo::Value());
    }
    lazy::check(b.status());
    return result;
  }
  Forward run_forward(std::span<const hlo::Value> x, std::span<const bool> differentiated) override {
    const std::vector<bool> marks(differentiated.begin(), differentiated.end());
    const ServingScope users_code(false);
    const FlatPass pass = forward_(tensors(lazy::lazy_values(x)), marks);
    const auto form = std::make_shared<Seen>();
    form->pass = pass.form;
    Forward result{{}, {}, form};
    for (const Tensor& t : pass.results)
      result.results.push_back(t.defined() ? lazy_of(t).value : hlo::Value());
    for (const Tensor& t : pass.residuals) {
      form->kept.push_back(t.defined());
      if (t.defined()) result.residuals.push_back(lazy_of(t).value);
    }
    return result;
  }
  hlo::Values run_backward(const Form& form, std::span<const hlo::Value> residuals,
                           std::span<const hlo::Value> cotangents) override {
    const auto& seen = *static_cast<const Seen*>(form.get());
    const std::vector<lazy::Lazy> given = lazy::lazy_values(residuals);
    std::vector<lazy::Lazy> both;
    size_t next = 0;
    for (const bool kept : seen.kept) both.push_back(kept ? given[next++] : lazy::Lazy{});
    for (const hlo::Value& c : cotangents) both.push_back({c, false});
    const std::vector<lazy::Lazy> out =
        run([&](const std::vector<Tensor>& all) { return backward_(seen.pass, all); }, std::move(both));
    hlo::Builder b;
    hlo::Values result(arguments_.size());
    for (size_t i = 0; i < result.size(); ++i)
      if (i < out.size() && out[i].value && hlo::is_inexact(arguments_[i]->dtype))
        result[i] = fitted(b, out[i], arguments_[i], "cotangent");
    lazy::check(b.status());
    return result;
  }

 private:
  static std::vector<lazy::Lazy> run(const FlatFunction& f, std::vector<lazy::Lazy> x) {
    ServingScope users_code(false);
    std::vector<lazy::Lazy> out;
    for (const Tensor& t : f(tensors(std::move(x)))) out.push_back(t.defined() ? lazy_of(t) : lazy::Lazy{});
    return out;
  }
  static hlo::Value fitted(hlo::Builder& b, const lazy::Lazy& x, const hlo::Type* like, const char* what) {
    if (!x.value) return hlo::Value();
    if (x.value.dims() != like->dims)
      fail(ErrorKind::kValue,
           str_cat("a ", what, " from a custom rule has shape ", hlo::dims_to_string(x.value.dims()),
                   " where ", hlo::to_string(*like), " is needed"));
    return lazy::converted(b, x, like->dtype);
  }

  // What the backward function sees of a forward pass besides values; residuals may be Tensors that name
  // nothing.
  struct Seen {
    Ref<Counted> pass;
    std::vector<bool> kept;
  };
  std::vector<const hlo::Type*> arguments_;
  FlatFunction rule_;  // the forward derivative
  FlatRule::Forward forward_;
  FlatRule::Backward backward_;
};

// A function with a form of its own in lanes.
class ApiForm final : public lazy::BatchedForm {
 public:
  ApiForm(FlatFunction f, FlatLanes lanes, std::vector<size_t> tensors_of_arguments)
      : f_(std::move(f)), lanes_(std::move(lanes)), sizes_(std::move(tensors_of_arguments)) {}
  std::vector<lazy::Lazy> run(const std::vector<lazy::Lazy>& x) override { return inner(f_)(x); }
  Lanes lanes(int64_t size, const std::vector<bool>& batched, const std::vector<lazy::Lazy>& x,
              const lazy::FlatFunction& again) override {
    // An argument has lanes in all of its tensors, or in none.
    hlo::Builder b;
    std::vector<lazy::Lazy> whole = x;
    std::vector<bool> arguments;
    size_t first = 0;
    for (const size_t count : sizes_) {
      const auto begin = batched.begin() + static_cast<ptrdiff_t>(first);
      arguments.push_back(std::find(begin, begin + static_cast<ptrdiff_t>(count), true) !=
                          begin + static_cast<ptrdiff_t>(count));
      for (size_t i = first; i < first + count; ++i)
        if (arguments.back()) whole[i] = {hlo::with_batch(b, x[i].value, batched[i], size), false};
      first += count;
    }
    lazy::check(b.status());
    ServingScope users_code(false);
    const FlatFunction self = [&again](const std::vector<Tensor>& p) { return tensors(again(lazies(p))); };
    const auto [results, in_lanes] = lanes_(size, arguments, tensors(std::move(whole)), self);
    return {lazies(results), std::vector<bool>(results.size(), in_lanes)};
  }

 private:
  FlatFunction f_;
  FlatLanes lanes_;
  std::vector<size_t> sizes_;
};

struct CountedRule final : Counted {
  explicit CountedRule(std::shared_ptr<lazy::FunctionRule> rule) : handle(std::move(rule)) {}
  lazy::RuleHandle handle;
};

std::vector<const hlo::Type*> types_of(const std::vector<Tensor>& like) {
  std::vector<const hlo::Type*> out;
  for (const Tensor& t : like) out.push_back(lazy_of(t).value.type());
  return out;
}

}  // namespace

FlatRule FlatRule::of_jvp(FlatFunction rule, bool symbolic_zeros, const std::vector<Tensor>& like) {
  FlatRule out;
  out.rule_ = Ref<Counted>(
      new CountedRule(std::make_shared<ApiRule>(types_of(like), std::move(rule), symbolic_zeros)));
  return out;
}
FlatRule FlatRule::of_vjp(Forward forward, Backward backward, bool symbolic_zeros,
                          const std::vector<Tensor>& like) {
  FlatRule out;
  out.rule_ = Ref<Counted>(new CountedRule(
      std::make_shared<ApiRule>(types_of(like), std::move(forward), std::move(backward), symbolic_zeros)));
  return out;
}
FlatRule FlatRule::of_lanes(FlatFunction f, FlatLanes lanes, std::vector<size_t> tensors_of_arguments) {
  size_t count = 0;
  for (const size_t n : tensors_of_arguments) count += n;
  FlatRule out;
  out.rule_ = Ref<Counted>(new CountedRule(std::make_shared<lazy::BatchedFormRule>(
      count, std::make_shared<ApiForm>(std::move(f), std::move(lanes), std::move(tensors_of_arguments)))));
  return out;
}
FlatRule FlatRule::sequential(FlatFunction f, std::vector<size_t> tensors_of_arguments,
                              std::source_location where) {
  const FlatLanes one_by_one = [f, sizes = tensors_of_arguments, where](
                                   int64_t, const std::vector<bool>& batched, const std::vector<Tensor>& x,
                                   const FlatFunction& self) {
    std::vector<bool> marks;
    for (size_t k = 0; k < sizes.size(); ++k) marks.insert(marks.end(), sizes[k], batched[k]);
    std::vector<Tensor> rows;
    for (size_t i = 0; i < x.size(); ++i)
      if (marks[i]) rows.push_back(x[i]);
    if (rows.empty()) return std::pair(f(x), false);  // lanes of tangents at one point
    const FlatFunction lane = [&](const std::vector<Tensor>& own) {
      std::vector<Tensor> all = x;
      size_t next = 0;
      for (size_t i = 0; i < all.size(); ++i)
        if (marks[i]) all[i] = own[next++];
      return self(all);
    };
    return std::pair(flat_map(lane, rows, LeafNames(rows.size()), {}, where), true);
  };
  return of_lanes(std::move(f), one_by_one, std::move(tensors_of_arguments));
}
std::vector<Tensor> FlatRule::call(const FlatFunction& f, const std::vector<Tensor>& arguments,
                                   std::source_location where) const {
  // Outside of all transforms nobody asks for a derivative.
  if (lazy::open_scopes().empty()) return f(arguments);
  return located(where, [&] {
    return tensors(lazy::call_with_rule(inner(f), lazies(arguments),
                                        static_cast<const CountedRule&>(*rule_).handle.id()));
  });
}

std::vector<Tensor> decided(const std::vector<Tensor>& arguments) {
  std::vector<lazy::Lazy> all = lazies(arguments);
  const bool wide = std::any_of(all.begin(), all.end(), [](const lazy::Lazy& x) {
    return !x.weak && hlo::part_type(x.value.dtype()) == hlo::DType::kF64;
  });
  if (!wide) return arguments;
  hlo::Builder b;
  for (lazy::Lazy& x : all)
    if (x.weak && hlo::is_inexact(x.value.dtype())) x = lazy::recast(b, x, lazy::wide_type(x.value.dtype()));
  lazy::check(b.status());
  return tensors(std::move(all));
}

}  // namespace lamina::detail
