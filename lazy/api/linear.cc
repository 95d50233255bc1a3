// Products: matmul, einsum, convolution.
#include <algorithm>

#include "hlo/op.h"
#include "lamina/ops.h"
#include "lazy/api/variable.h"

namespace lamina {
namespace {

using detail::build;
using detail::lazy_of;
using hlo::Builder;
using hlo::Dims;
using hlo::Value;
using lazy::Lazy;

Value dot(Builder& b, const Value& x, const Value& y, const hlo::DotDims& dims) {
  if (!hlo::is_bool(x.dtype())) return b.dot_general(x, y, dims);
  const Value out = b.dot_general(b.convert(x, hlo::DType::kS32), b.convert(y, hlo::DType::kS32), dims);
  return b.compare(out, b.zeros_like(out), "NE");
}

// One operand of einsum: a value and the label of each dimension.
struct Term {
  Value value;
  std::string labels;
};

// Sums over the labels that nobody else needs.
void sum_unneeded(Builder& b, Term& t, const std::string& needed) {
  Dims over;
  std::string left;
  for (size_t i = 0; i < t.labels.size(); ++i) {
    if (needed.find(t.labels[i]) == std::string::npos)
      over.push_back(static_cast<int64_t>(i));
    else
      left += t.labels[i];
  }
  if (over.empty()) return;
  t = {b.reduce(t.value, hlo::Op::add, b.scalar(t.value.dtype(), 0), over), left};
}

Term contract(Builder& b, Term x, Term y, const std::string& needed) {
  sum_unneeded(b, x, needed + y.labels);
  sum_unneeded(b, y, needed + x.labels);
  hlo::DotDims d;
  std::string batch, rest;
  for (size_t i = 0; i < x.labels.size(); ++i) {
    const size_t j = y.labels.find(x.labels[i]);
    if (j == std::string::npos) {
      rest += x.labels[i];
    } else if (needed.find(x.labels[i]) != std::string::npos) {
      d.lhs_batch.push_back(static_cast<int64_t>(i));
      d.rhs_batch.push_back(static_cast<int64_t>(j));
      batch += x.labels[i];
    } else {
      d.lhs_contract.push_back(static_cast<int64_t>(i));
      d.rhs_contract.push_back(static_cast<int64_t>(j));
    }
  }
  for (char c : y.labels)
    if (x.labels.find(c) == std::string::npos) rest += c;
  return {dot(b, x.value, y.value, d), batch + rest};
}

}  // namespace

Tensor matmul(TensorOrNumber x, TensorOrNumber y) {
  return build(x, [&](Builder& b) {
    const std::vector<Lazy> v = detail::promoted(b, {&x, &y});
    const Value &l = v[0].value, &r = v[1].value;
    if (l.rank() == 0 || r.rank() == 0)
      detail::fail(ErrorKind::kValue,
                   str_cat("matmul needs at least one dimension, not ", detail::describe(v[0]), " and ",
                           detail::describe(v[1]), "; use *"));
    const int64_t inner = r.rank() > 1 ? r.rank() - 2 : 0;
    if (l.dims().back() != r.dims()[inner])
      detail::fail(ErrorKind::kValue,
                   str_cat("matmul: ", detail::describe(v[0]), " @ ", detail::describe(v[1]), ": ",
                           l.dims().back(), " != ", r.dims()[inner],
                           " (last dimension of the first, dimension ", inner, " of the second)"));
    hlo::DotDims d;
    if (r.rank() <= 2 || l.rank() == 1) {
      d.lhs_contract = {l.rank() - 1};
      d.rhs_contract = {inner};
      return detail::computed(b, v, [&](std::span<const Value> u) { return dot(b, u[0], u[1], d); });
    }
    const Dims leads[] = {Dims(l.dims().begin(), l.dims().end() - 2),
                          Dims(r.dims().begin(), r.dims().end() - 2)};
    const Dims lead = lazy::broadcast_shapes(leads, "matmul");
    auto spread = [&](const Value& t) {
      Dims dims = lead;
      dims.insert(dims.end(), t.dims().end() - 2, t.dims().end());
      return lazy::broadcast_to(b, t, dims);
    };
    const int64_t n = static_cast<int64_t>(lead.size());
    for (int64_t i = 0; i < n; ++i) {
      d.lhs_batch.push_back(i);
      d.rhs_batch.push_back(i);
    }
    d.lhs_contract = {n + 1};
    d.rhs_contract = {n};
    return detail::computed(b, v,
                            [&](std::span<const Value> u) { return dot(b, spread(u[0]), spread(u[1]), d); });
  });
}

Tensor dot(TensorOrNumber x, TensorOrNumber y) {
  const auto rank = [](const TensorOrNumber& o) { return o.number() ? 0 : o.tensor().ndim(); };
  if (rank(x) == 0 || rank(y) == 0) return x * y;
  return build(x, [&](Builder& b) {
    const std::vector<Lazy> v = detail::promoted(b, {&x, &y});
    const Value &l = v[0].value, &r = v[1].value;
    const int64_t inner = std::max<int64_t>(r.rank() - 2, 0);
    if (l.dims().back() != r.dims()[inner])
      detail::fail(ErrorKind::kValue,
                   str_cat("dot: ", detail::describe(v[0]), " and ", detail::describe(v[1]), ": ",
                           l.dims().back(), " != ", r.dims()[inner],
                           " (last dimension of the first, dimension ", inner, " of the second)"));
    hlo::DotDims d;
    d.lhs_contract = {l.rank() - 1};
    d.rhs_contract = {inner};
    return detail::computed(b, v, [&](std::span<const Value> u) { return dot(b, u[0], u[1], d); });
  });
}

Tensor einsum(const std::string& equation, const std::vector<Tensor>& operands, std::source_location where) {
  return build({Tensor(), where}, [&](Builder& b) {
    const size_t arrow = equation.find("->");
    if (arrow == std::string::npos)
      detail::fail(ErrorKind::kValue,
                   str_cat("einsum: \"", equation, "\" needs its result, as in \"ij,jk->ik\""));
    const std::string result = equation.substr(arrow + 2);
    std::vector<std::string> labels{""};
    for (char c : equation.substr(0, arrow)) {
      if (c == ',')
        labels.emplace_back();
      else
        labels.back() += c;
    }
    if (labels.size() != operands.size() || operands.empty())
      detail::fail(ErrorKind::kValue,
                   str_cat("einsum: \"", equation, "\" names ", static_cast<int64_t>(labels.size()),
                           " operands, but there are ", static_cast<int64_t>(operands.size())));
    std::vector<Lazy> v;
    for (const Tensor& t : operands) v.push_back(lazy_of(t));
    lazy::promote_operands(b, v);
    std::string seen;
    std::vector<int64_t> sizes;
    for (size_t k = 0; k < labels.size(); ++k) {
      if (static_cast<int64_t>(labels[k].size()) != v[k].value.rank())
        detail::fail(ErrorKind::kValue,
                     str_cat("einsum: \"", labels[k], "\" does not fit ", detail::describe(v[k])));
      for (size_t i = 0; i < labels[k].size(); ++i) {
        const char c = labels[k][i];
        if (c < 'A' || c > 'z' || (c > 'Z' && c < 'a'))
          detail::fail(ErrorKind::kNotImplemented,
                       str_cat("einsum: labels are letters, not '", std::string(1, c), "'"));
        if (labels[k].find(c) != i)
          detail::fail(ErrorKind::kNotImplemented,
                       str_cat("einsum: \"", labels[k], "\" names a dimension twice"));
        const size_t known = seen.find(c);
        if (known == std::string::npos) {
          seen += c;
          sizes.push_back(v[k].value.dims()[i]);
        } else if (sizes[known] != v[k].value.dims()[i]) {
          detail::fail(ErrorKind::kValue, str_cat("einsum: '", std::string(1, c), "' is ", sizes[known],
                                                  " and ", v[k].value.dims()[i]));
        }
      }
    }
    for (size_t i = 0; i < result.size(); ++i)
      if (seen.find(result[i]) == std::string::npos || result.find(result[i]) != i)
        detail::fail(ErrorKind::kValue, str_cat("einsum: the result \"", result, "\" names '",
                                                std::string(1, result[i]), "' wrongly"));
    return detail::computed(b, v, [&](std::span<const Value> u) {
      Term term{u[0], labels[0]};
      for (size_t k = 1; k < u.size(); ++k) {
        std::string needed = result;
        for (size_t later = k + 1; later < u.size(); ++later) needed += labels[later];
        term = contract(b, std::move(term), {u[k], labels[k]}, needed);
      }
      sum_unneeded(b, term, result);
      Dims order;
      for (char c : result) order.push_back(static_cast<int64_t>(term.labels.find(c)));
      return b.transpose(term.value, order);
    });
  });
}

Tensor conv(TensorOrNumber images, TensorOrNumber kernels, const Convolution& options) {
  return build(images, [&](Builder& b) {
    const std::vector<Lazy> v = detail::promoted(b, {&images, &kernels});
    const int64_t rank = v[0].value.rank(), spatial = rank - 2;
    if (rank < 2 || v[1].value.rank() != rank)
      detail::fail(ErrorKind::kValue,
                   str_cat("conv: images ", detail::describe(v[0]), " and kernels ", detail::describe(v[1]),
                           " need the same number of dimensions, at least 2"));
    hlo::ConvDims c;
    c.kernel_input_feature = 1;
    c.kernel_output_feature = 0;
    c.feature_groups = options.groups;
    auto fits = [&](size_t n, const char* what) {
      if (n != 0 && static_cast<int64_t>(n) != spatial)
        detail::fail(ErrorKind::kValue, str_cat("conv: ", static_cast<int64_t>(n), " ", what, " for ",
                                                spatial, " spatial dimensions"));
    };
    fits(options.strides.size(), "strides");
    fits(options.dilation.size(), "dilations");
    fits(options.padding.size(), "paddings");
    for (int64_t i = 0; i < spatial; ++i) {
      c.input_spatial.push_back(2 + i);
      c.kernel_spatial.push_back(2 + i);
      c.output_spatial.push_back(2 + i);
      c.window_strides.push_back(options.strides.empty() ? 1 : options.strides[i]);
      c.rhs_dilation.push_back(options.dilation.empty() ? 1 : options.dilation[i]);
      c.lhs_dilation.push_back(1);
      c.padding.push_back(options.padding.empty() ? 0 : options.padding[i].first);
      c.padding.push_back(options.padding.empty() ? 0 : options.padding[i].second);
    }
    return detail::computed(b, v, [&](std::span<const Value> u) { return b.convolution(u[0], u[1], c); });
  });
}

}  // namespace lamina
