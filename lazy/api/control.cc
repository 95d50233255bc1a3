// Control flow and custom derivatives of C++ callables.
#include "lazy/control.h"

#include <algorithm>

#include "lamina/ops.h"
#include "lazy/api/flat.h"
#include "lazy/custom.h"
#include "lazy/scopes.h"

namespace lamina::detail {
namespace {

lazy::LeafName name_of(const LeafNames& names) {
  return [&names](size_t k) { return names.at(k); };
}
lazy::Named named(const FlatFunction& f, std::string name) { return {inner(f), std::move(name)}; }

}  // namespace

std::vector<Tensor> flat_scan(const FlatFunction& step, const std::vector<Tensor>& carry,
                              const std::vector<Tensor>& items, const LeafNames& carry_names,
                              const LeafNames& item_names, std::optional<int64_t> length, bool reverse,
                              std::source_location where) {
  return located(where, [&] {
    return tensors(lazy::scan({"scan", name_of(carry_names)}, named(step, "the body"), lazies(carry),
                              lazies(items), name_of(item_names), length, reverse));
  });
}

std::vector<Tensor> flat_map(const FlatFunction& f, const std::vector<Tensor>& items,
                             const LeafNames& item_names, std::optional<int64_t> batch,
                             std::source_location where) {
  return located(where, [&] {
    if (items.empty()) fail(ErrorKind::kValue, "map needs xs that hold a tensor");
    const auto over_rows = [&](const std::vector<lazy::Lazy>& rows, lazy::FlatFunction of_row) {
      return lazy::scan({"map", {}}, {std::move(of_row), "the function"}, {}, rows, name_of(item_names), {},
                        false);
    };
    if (!batch) return tensors(over_rows(lazies(items), inner(f)));
    const lazy::FlatFunction lanes = [&](const std::vector<lazy::Lazy>& rows) {
      const std::vector<bool> all(rows.size(), true);
      return lazy::vmap(inner(f), rows, all, rows[0].value.dims()[0]);
    };
    return tensors(lazy::in_batches(
        "map", [&](const std::vector<lazy::Lazy>& batches) { return over_rows(batches, lanes); }, lanes,
        lazies(items), name_of(item_names), *batch));
  });
}

std::vector<Tensor> flat_while(const FlatFunction& test, const FlatFunction& body,
                               const std::vector<Tensor>& carry, const LeafNames& carry_names,
                               std::optional<int64_t> checkpoint, std::source_location where) {
  return located(where, [&] {
    return tensors(lazy::while_loop({"while_loop", name_of(carry_names)}, named(test, "the condition"),
                                    named(body, "the body"), lazies(carry), checkpoint));
  });
}

std::vector<Tensor> flat_fori(const FlatBounds& bounds, const FlatFunction& body,
                              const std::vector<Tensor>& carry, const LeafNames& carry_names,
                              std::optional<int64_t> checkpoint, std::source_location where) {
  return located(where, [&] {
    const lazy::ControlNames names{"fori_loop", name_of(carry_names)};
    const lazy::Named step = named(body, "the body");
    if (bounds.known)
      return tensors(
          lazy::fori_loop(names, step, bounds.known->first, bounds.known->second, lazies(carry), checkpoint));
    return tensors(lazy::fori_loop(names, step, lazy_of(bounds.lower), lazy_of(bounds.upper), lazies(carry),
                                   checkpoint));
  });
}

namespace {

Tensor part(const Tensor& x, int64_t start, int64_t stop, int64_t step) {
  return x.at({Slice{start, stop, step}});
}
std::vector<Tensor> parts(const std::vector<Tensor>& xs, int64_t start, int64_t stop, int64_t step) {
  std::vector<Tensor> out;
  for (const Tensor& x : xs) out.push_back(part(x, start, stop, step));
  return out;
}

// Elements of `even` and `odd` in turns.
Tensor alternating(const Tensor& even, const Tensor& odd) {
  const int64_t n = odd.shape()[0];
  Shape joined = odd.shape();
  joined[0] = 2 * n;
  const Tensor pairs = stack({part(even, 0, n, 1), odd}, 1).reshape(joined);
  return even.shape()[0] == n ? pairs : concatenate({pairs, part(even, n, n + 1, 1)}, 0);
}

std::vector<Tensor> prefixes(const FlatFunction& combine, const std::vector<Tensor>& xs) {
  const int64_t n = xs[0].shape()[0];
  if (n < 2) return xs;
  const auto combined = [&](std::vector<Tensor> a, const std::vector<Tensor>& b) {
    a.insert(a.end(), b.begin(), b.end());
    return combine(a);
  };
  // Of pairs, which are the prefixes of odd length less one; the others are these with one more.
  const std::vector<Tensor> odd = prefixes(combine, combined(parts(xs, 0, n - 1, 2), parts(xs, 1, n, 2)));
  std::vector<Tensor> even = parts(xs, 0, 1, 1);
  if (n > 2) {
    const int64_t more = (n - 1) / 2;
    const std::vector<Tensor> rest = combined(parts(odd, 0, more, 1), parts(xs, 2, n, 2));
    for (size_t i = 0; i < even.size(); ++i) even[i] = concatenate({even[i], rest[i]}, 0);
  }
  std::vector<Tensor> out;
  for (size_t i = 0; i < xs.size(); ++i) out.push_back(alternating(even[i], odd[i]));
  return out;
}

}  // namespace

std::vector<Tensor> flat_associative_scan(const FlatFunction& combine, const std::vector<Tensor>& items,
                                          const LeafNames& item_names, bool reverse,
                                          std::source_location where) {
  return located(where, [&] {
    for (size_t i = 0; i < items.size(); ++i)
      if (items[i].shape().empty() || items[i].shape()[0] != items[0].shape()[0])
        fail(ErrorKind::kValue,
             str_cat("associative_scan needs tensors of one length along dimension 0, but elems",
                     item_names[i], " has shape ", hlo::dims_to_string(items[i].shape())));
    if (items.empty()) return items;
    std::vector<Tensor> out = items;
    const auto turned = [&] {
      if (reverse)
        for (Tensor& x : out) x = flip(x, {0});
    };
    turned();
    out = prefixes(combine, out);
    turned();
    return out;
  });
}

std::vector<Tensor> flat_branches(bool is_cond, const TensorOrNumber& index,
                                  const std::vector<FlatFunction>& branches,
                                  const std::vector<Tensor>& operands, const LeafNames& result_names) {
  return located(index.where(), [&] {
    if (is_cond)
      return tensors(lazy::cond({"cond", name_of(result_names)}, lazy_of(index),
                                named(branches[1], "the true branch"), named(branches[0], "the false branch"),
                                lazies(operands)));
    std::vector<lazy::Named> functions;
    for (const FlatFunction& f : branches)
      functions.push_back(named(f, str_cat("branch ", static_cast<int64_t>(functions.size()))));
    return tensors(lazy::switch_case({"switch_case", name_of(result_names)}, lazy_of(index), functions,
                                     lazies(operands)));
  });
}

namespace {

// Rules run in the middle of transforms: what they call is the user's code.
class ApiRule final : public lazy::FunctionRule {
 public:
  ApiRule(Kind kind, std::vector<const hlo::Type*> arguments, FlatFunction first, FlatFunction second,
          Ref<Box<size_t>> results)
      : FunctionRule(kind, arguments.size()),
        arguments_(std::move(arguments)),
        first_(std::move(first)),
        second_(std::move(second)),
        results_(std::move(results)) {}

 protected:
  hlo::JvpResult run_jvp(std::span<const hlo::Value> x, std::span<const hlo::Value> t) override {
    std::vector<lazy::Lazy> both = values_of(x);
    hlo::Builder b;
    for (size_t i = 0; i < t.size(); ++i) both.push_back({t[i] ? t[i] : b.zeros_like(x[i]), false});
    const std::vector<lazy::Lazy> out = run(first_, std::move(both));
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
  Forward run_forward(std::span<const hlo::Value> x, std::span<const bool>) override {
    const std::vector<lazy::Lazy> out = run(first_, values_of(x));
    Forward result;
    for (const lazy::Lazy& y : out)
      (result.results.size() < results_->value ? result.results : result.residuals).push_back(y.value);
    return result;
  }
  hlo::Values run_backward(std::span<const hlo::Value> residuals,
                           std::span<const hlo::Value> cotangents) override {
    std::vector<lazy::Lazy> both = values_of(residuals);
    for (const hlo::Value& c : cotangents) both.push_back({c, false});
    const std::vector<lazy::Lazy> out = run(second_, std::move(both));
    hlo::Builder b;
    hlo::Values result(arguments_.size());
    for (size_t i = 0; i < result.size(); ++i)
      if (i < out.size() && out[i].value && hlo::is_inexact(arguments_[i]->dtype))
        result[i] = fitted(b, out[i], arguments_[i], "cotangent");
    lazy::check(b.status());
    return result;
  }

 private:
  static std::vector<lazy::Lazy> values_of(std::span<const hlo::Value> values) {
    std::vector<lazy::Lazy> out;
    for (const hlo::Value& v : values) out.push_back({v, false});
    return out;
  }
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

  std::vector<const hlo::Type*> arguments_;
  FlatFunction first_, second_;
  Ref<Box<size_t>> results_;
};

struct CountedRule final : Counted {
  explicit CountedRule(std::shared_ptr<ApiRule> rule) : handle(std::move(rule)) {}
  lazy::RuleHandle handle;
};

std::vector<const hlo::Type*> types_of(const std::vector<Tensor>& like) {
  std::vector<const hlo::Type*> out;
  for (const Tensor& t : like) out.push_back(lazy_of(t).value.type());
  return out;
}

}  // namespace

FlatRule FlatRule::of_jvp(FlatFunction rule, const std::vector<Tensor>& like) {
  FlatRule out;
  out.rule_ = Ref<Counted>(new CountedRule(std::make_shared<ApiRule>(
      hlo::CustomRule::Kind::kJvp, types_of(like), std::move(rule), FlatFunction(), Ref<Box<size_t>>())));
  return out;
}
FlatRule FlatRule::of_vjp(FlatFunction forward, FlatFunction backward, Ref<Box<size_t>> results,
                          const std::vector<Tensor>& like) {
  FlatRule out;
  out.rule_ = Ref<Counted>(new CountedRule(
      std::make_shared<ApiRule>(hlo::CustomRule::Kind::kVjp, types_of(like), std::move(forward),
                                std::move(backward), std::move(results))));
  return out;
}
std::vector<Tensor> FlatRule::call(const FlatFunction& f, const std::vector<Tensor>& arguments,
                                   std::source_location where) const {
  // Outside of all transforms nobody asks for a derivative.
  if (lazy::open_scopes().empty()) return f(arguments);
  return located(where, [&] {
    return tensors(
        lazy::call_with_rule(inner(f), lazies(arguments), static_cast<const CountedRule&>(*rule_).handle));
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

namespace lamina {
namespace {

// log(exp(a) + exp(b)), with its derivative also where both are the same infinity.
Tensor log_add_exp(const Tensor& a, const Tensor& b) {
  const Tensor apart = where(a == b, zeros_like(a), a - b);
  return maximum(a, b) + log1p(exp(-abs(apart)));
}

}  // namespace

Tensor cumlogsumexp(TensorOrNumber x, int64_t axis, bool reverse) {
  return detail::located(x.where(), [&] {
    const Tensor given = x.number() ? Tensor(detail::tensor_of(detail::lazy_of(x))) : x.tensor();
    if (given.ndim() == 0)
      detail::fail(ErrorKind::kValue, "cumlogsumexp: needs an array of at least one dimension");
    const int64_t along = detail::canonical_axis(axis, given.ndim(), "cumlogsumexp");
    hlo::Builder b;
    Axes order;
    for (int64_t d = 0; d < given.ndim(); ++d) order.push_back(d);
    std::swap(order[0], order[static_cast<size_t>(along)]);
    const Tensor first = detail::tensor_of(detail::inexact(b, detail::lazy_of(given))).transpose(order);
    lazy::check(b.status());
    const detail::FlatFunction combine = [](const std::vector<Tensor>& p) {
      return std::vector<Tensor>{log_add_exp(p.at(0), p.at(1))};
    };
    return detail::flat_associative_scan(combine, {first}, {""}, reverse, x.where())[0].transpose(order);
  });
}

Tensor select_n(TensorOrNumber which, const std::vector<Tensor>& cases) {
  return detail::located(which.where(), [&] {
    const Tensor index = detail::tensor_of(detail::lazy_of(which));
    const bool truth = index.dtype() == DType::boolean;
    if (cases.empty()) detail::fail(ErrorKind::kValue, "select_n needs at least one case");
    if (truth && cases.size() > 2)
      detail::fail(ErrorKind::kType, str_cat("select_n with booleans takes at most two cases, not ",
                                             static_cast<int64_t>(cases.size())));
    if (!truth && !hlo::is_integer(detail::to_hlo(index.dtype())))
      detail::fail(ErrorKind::kType, str_cat("select_n needs integers or booleans to choose by, not ",
                                             detail::describe(detail::lazy_of(index))));
    Tensor out = cases[0];
    for (size_t i = 1; i < cases.size(); ++i)
      out = where(truth ? index : index >= static_cast<int64_t>(i), cases[i], out);
    return out;
  });
}

}  // namespace lamina
