// Control flow of C++ callables.
#include "lazy/control.h"

#include <algorithm>

#include "lamina/ops.h"
#include "lazy/api/flat.h"
#include "trace/rules/loops.h"

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

static_assert(checkpoint_sqrt == trace::kRootOfSteps);

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
