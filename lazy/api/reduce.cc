// Reductions, sorting and what is made of them.

#include "hlo/batching.h"
#include "hlo/op.h"
#include "hlo/regions.h"
#include "lamina/ops.h"
#include "lazy/api/variable.h"

namespace lamina {
namespace {

using detail::build;
using detail::lazy_of;
using detail::located;
using hlo::Attr;
using hlo::Builder;
using hlo::Dims;
using hlo::Op;
using hlo::Value;
using lazy::Lazy;

Value kept(Builder& b, const Value& reduced, const Dims& dims, const Dims& axes, bool keepdims) {
  if (!keepdims) return reduced;
  Dims out = dims;
  for (int64_t a : axes) out[a] = 1;
  return b.reshape(reduced, out);
}

// A sum or product in a type that is wide enough; half types are added up in float32.
Tensor accumulated(const TensorOrNumber& x, Op op, double init, const Axes& axes, bool keepdims,
                   const char* what) {
  return build(x, [&](Builder& b) {
    const Lazy v = lazy_of(x);
    const Dims over = detail::canonical_axes(axes, v.value.rank(), what);
    int64_t count = 1;
    for (int64_t d : over) count *= v.value.dims()[d];
    return detail::computed(b, v, [&](const Value& u) {
      const hlo::DType result = lazy::sum_type(u.dtype(), count),
                       inner = hlo::is_storage_float(result) ? hlo::DType::kF32 : result;
      const Value sum = b.reduce(b.convert(u, inner), op, b.scalar(inner, init), over);
      return kept(b, b.convert(sum, result), u.dims(), over, keepdims);
    });
  });
}

// Long sums are an op, other combinations one step of a scan per slice along the axis. Sums and products have
// the types of whole ones.
Tensor running(const TensorOrNumber& x, Op op, int64_t axis, bool reverse, const char* what) {
  return build(x, [&](Builder& b) {
    const Lazy v = lazy_of(x);
    if (v.value.rank() == 0)
      detail::fail(ErrorKind::kValue, str_cat(what, ": needs an array of at least one dimension"));
    const bool ordered = op == Op::maximum || op == Op::minimum;
    if (ordered && hlo::is_complex(v.value.dtype()))
      detail::fail(ErrorKind::kType, str_cat(what, ": complex numbers have no order"));
    const int64_t along = detail::canonical_axis(axis, v.value.rank(), what);
    Dims forth{along}, back;
    for (int64_t d = 0; d < v.value.rank(); ++d)
      if (d != along) forth.push_back(d);
    for (int64_t d = 0; d < v.value.rank(); ++d)
      back.push_back(std::find(forth.begin(), forth.end(), d) - forth.begin());
    return detail::computed(b, v, [&](const Value& u) {
      const hlo::DType result = ordered ? u.dtype() : lazy::sum_type(u.dtype(), u.dims()[along]),
                       inner = hlo::is_storage_float(result) ? hlo::DType::kF32 : result;
      if (op == Op::add && u.dims()[along] > lazy::kSumsInTurn)
        return b.convert(b.cumsum(b.convert(u, inner), along, reverse), result);
      const Value slices = b.transpose(b.convert(u, inner), forth);
      lazy::check(b.status());
      const Dims slice(slices.dims().begin() + 1, slices.dims().end());
      const hlo::Type* type = lazy::check(hlo::array_type(inner, slice));
      const hlo::Type* both[] = {type, type};
      const hlo::ComputationPtr body =
          lazy::check(hlo::record_region(both, [op](Builder& r, std::span<const Value> p) {
            const Value total = r.make(op, {{p[0], p[1]}});
            return hlo::Values{total, total};
          }));
      // -0 + x is x, of either zero too.
      const Value neutral = ordered              ? hlo::extreme(b, inner, op == Op::minimum)
                            : op == Op::multiply ? b.scalar(inner, 1)
                                                 : b.scalar(inner, -0.0);
      const Value start = b.broadcast_scalar(neutral, slice);
      const hlo::Values out = b.scan(body, {{start}}, {{slices}}, slices.dims()[0], reverse);
      return b.convert(b.transpose(out[1], back), result);
    });
  });
}

Tensor extremum(const TensorOrNumber& x, Op op, const Axes& axes, bool keepdims, const char* what) {
  return build(x, [&](Builder& b) {
    const Lazy v = lazy_of(x);
    const Dims over = detail::canonical_axes(axes, v.value.rank(), what);
    for (int64_t a : over)
      if (v.value.dims()[a] == 0)
        detail::fail(ErrorKind::kValue,
                     str_cat(what, ": axis ", a, " of ", detail::describe(v), " is empty"));
    if (hlo::is_complex(v.value.dtype()))
      detail::fail(ErrorKind::kType, str_cat(what, ": complex numbers have no order"));
    return detail::computed(b, v, [&](const Value& u) {
      const Value init = hlo::extreme(b, u.dtype(), op == Op::minimum);
      return kept(b, b.reduce(u, op, init, over), u.dims(), over, keepdims);
    });
  });
}

Tensor logical(const TensorOrNumber& x, Op op, bool init, const Axes& axes, bool keepdims, const char* what) {
  return build(x, [&](Builder& b) {
    const Lazy operand = lazy_of(x);
    const Dims over = detail::canonical_axes(axes, operand.value.rank(), what);
    return detail::strong(detail::computed(b, operand, [&](Value v) {
      if (!hlo::is_bool(v.dtype())) v = b.compare(v, b.zeros_like(v), "NE");
      return kept(b, b.reduce(v, op, b.scalar_int(hlo::DType::kBool, init), over), v.dims(), over, keepdims);
    }));
  });
}

int64_t count_of(const Tensor& x, const Axes& axes, const char* what) {
  int64_t n = 1;
  for (int64_t a : detail::canonical_axes(axes, x.ndim(), what)) n *= x.shape()[a];
  return n;
}

// Floats, with half types as float32; the second is the result's type.
std::pair<Tensor, lamina::DType> widened(const TensorOrNumber& x) {
  Tensor v = build(x, [&](Builder& b) { return detail::inexact(b, lazy_of(x)); });
  const lamina::DType result = v.dtype();
  if (hlo::is_storage_float(detail::to_hlo(result))) v = v.astype(lamina::DType::float32);
  return {v, result};
}
Tensor narrowed(const Tensor& x, lamina::DType to) { return x.dtype() == to ? x : x.astype(to); }

// The maximum along axes, constant for derivatives, 0 where it is not finite.
Tensor safe_top(const Tensor& x, const Axes& axes) {
  const Tensor top = stop_gradient(max(stop_gradient(x), axes, true));
  return where(isfinite(top), top, 0);
}

Value is_nan(Builder& b, const Value& x) { return b.compare(x, x, "NE"); }

Tensor arg_extremum(const TensorOrNumber& x, int64_t axis, bool largest, const char* what) {
  return build(x, [&](Builder& b) {
    const Lazy operand = lazy_of(x);
    Value v = b.stop_gradient(operand.wide ? operand.wide : operand.value);
    const int64_t along = detail::canonical_axis(axis, v.rank(), what);
    if (v.dims()[along] == 0) detail::fail(ErrorKind::kValue, str_cat(what, ": axis ", along, " is empty"));
    if (hlo::is_bool(v.dtype())) v = b.convert(v, hlo::DType::kU8);
    const hlo::DType t = v.dtype();
    // (value, index) pairs: the better value wins, NaN best of all, then the lower index.
    const hlo::Type* types[] = {hlo::scalar_type(t), hlo::scalar_type(hlo::DType::kS32), hlo::scalar_type(t),
                                hlo::scalar_type(hlo::DType::kS32)};
    const hlo::ComputationPtr body =
        lazy::check(hlo::record_region(types, [&](Builder& r, std::span<const Value> p) {
          Value wins = r.compare(p[0], p[2], largest ? "GT" : "LT"), tie = r.compare(p[0], p[2], "EQ");
          if (hlo::is_float(t)) {
            const Value x_nan = is_nan(r, p[0]), y_nan = is_nan(r, p[2]);
            wins = r.or_(wins, r.and_(x_nan, r.not_(y_nan)));
            tie = r.or_(tie, r.and_(x_nan, y_nan));
          }
          const Value first = r.or_(wins, r.and_(tie, r.compare(p[1], p[3], "LT")));
          return hlo::Values{r.select(first, p[0], p[2]), r.select(first, p[1], p[3])};
        }));
    const Value places = b.iota(hlo::DType::kS32, v.dims(), along);
    const Value start = hlo::extreme(b, t, !largest);
    return Lazy{b.reduce({{v, places}}, {{start, b.scalar_int(hlo::DType::kS32, 0)}}, body, Dims{along})[1],
                false};
  });
}

Tensor sorted(const TensorOrNumber& x, int64_t axis, bool places, const char* what) {
  return build(x, [&](Builder& b) {
    const Lazy v = lazy_of(x);
    if (v.value.rank() == 0)
      detail::fail(ErrorKind::kValue, str_cat(what, ": needs an array of at least one dimension"));
    const int64_t along = detail::canonical_axis(axis, v.value.rank(), what);
    if (hlo::is_complex(v.value.dtype()))
      detail::fail(ErrorKind::kType, str_cat(what, ": complex numbers have no order"));
    const Lazy out = detail::computed(b, v, [&](const Value& u) {
      const hlo::DType t = u.dtype();
      std::vector<Value> operands{u};
      std::vector<const hlo::Type*> types(2, hlo::scalar_type(t));
      if (places) {
        operands.push_back(b.iota(hlo::DType::kS32, u.dims(), along));
        types.insert(types.end(), 2, hlo::scalar_type(hlo::DType::kS32));
      }
      const hlo::ComputationPtr body =
          lazy::check(hlo::record_region(types, [&](Builder& r, std::span<const Value> p) {
            Value less = r.compare(p[0], p[1], "LT");
            if (hlo::is_float(t)) less = r.or_(less, r.and_(is_nan(r, p[1]), r.not_(is_nan(r, p[0]))));
            return hlo::Values{less};
          }));
      return b.make_multi(
          Op::sort, operands,
          hlo::intern_attrs({{Attr::dimension, along}, {Attr::is_stable, true}, {Attr::body, body}}))[places];
    });
    return places ? detail::strong(out) : out;
  });
}

}  // namespace

Tensor sum(TensorOrNumber x, const Axes& axes, bool keepdims) {
  return accumulated(x, Op::add, 0, axes, keepdims, "sum");
}
Tensor prod(TensorOrNumber x, const Axes& axes, bool keepdims) {
  return accumulated(x, Op::multiply, 1, axes, keepdims, "prod");
}
Tensor mean(TensorOrNumber x, const Axes& axes, bool keepdims) {
  return located(x.where(), [&] {
    const auto [v, result] = widened(x);
    return narrowed(sum(v, axes, keepdims) / static_cast<double>(count_of(v, axes, "mean")), result);
  });
}
Tensor var(TensorOrNumber x, const Axes& axes, bool keepdims) {
  return located(x.where(), [&] {
    const auto [v, result] = widened(x);
    const Tensor centred = v - mean(v, axes, true);
    const bool complex = v.dtype() == lamina::DType::complex64 || v.dtype() == lamina::DType::complex128;
    const Tensor squares = complex ? square(real(centred)) + square(imag(centred)) : square(centred);
    const Tensor total = sum(squares, axes, keepdims) / static_cast<double>(count_of(v, axes, "var"));
    return complex ? total : narrowed(total, result);
  });
}
Tensor max(TensorOrNumber x, const Axes& axes, bool keepdims) {
  return extremum(x, Op::maximum, axes, keepdims, "max");
}
Tensor min(TensorOrNumber x, const Axes& axes, bool keepdims) {
  return extremum(x, Op::minimum, axes, keepdims, "min");
}
Tensor all(TensorOrNumber x, const Axes& axes, bool keepdims) {
  return logical(x, Op::and_, true, axes, keepdims, "all");
}
Tensor any(TensorOrNumber x, const Axes& axes, bool keepdims) {
  return logical(x, Op::or_, false, axes, keepdims, "any");
}

Tensor logsumexp(TensorOrNumber x, const Axes& axes, bool keepdims) {
  return located(x.where(), [&] {
    const auto [v, result] = widened(x);
    const Tensor top = safe_top(v, axes), total = log(sum(exp(v - top), axes, true)) + top;
    if (keepdims) return narrowed(total, result);
    Axes over;
    for (int64_t a : detail::canonical_axes(axes, v.ndim(), "logsumexp")) over.push_back(a);
    return narrowed(over.empty() ? total : squeeze(total, over), result);
  });
}
Tensor softmax(TensorOrNumber x, int64_t axis) {
  return located(x.where(), [&] {
    const auto [v, result] = widened(x);
    const Tensor terms = exp(v - stop_gradient(max(stop_gradient(v), {axis}, true)));
    return narrowed(terms / sum(terms, {axis}, true), result);
  });
}
Tensor log_softmax(TensorOrNumber x, int64_t axis) {
  return located(x.where(), [&] {
    const auto [v, result] = widened(x);
    const Tensor shifted = v - stop_gradient(max(stop_gradient(v), {axis}, true));
    return narrowed(shifted - log(sum(exp(shifted), {axis}, true)), result);
  });
}
Tensor argmax(TensorOrNumber x, int64_t axis) { return arg_extremum(x, axis, true, "argmax"); }
Tensor argmin(TensorOrNumber x, int64_t axis) { return arg_extremum(x, axis, false, "argmin"); }
Tensor cumsum(TensorOrNumber x, int64_t axis, bool reverse) {
  return running(x, Op::add, axis, reverse, "cumsum");
}
Tensor cumprod(TensorOrNumber x, int64_t axis, bool reverse) {
  return running(x, Op::multiply, axis, reverse, "cumprod");
}
Tensor cummax(TensorOrNumber x, int64_t axis, bool reverse) {
  return running(x, Op::maximum, axis, reverse, "cummax");
}
Tensor cummin(TensorOrNumber x, int64_t axis, bool reverse) {
  return running(x, Op::minimum, axis, reverse, "cummin");
}
Tensor sort(TensorOrNumber x, int64_t axis) { return sorted(x, axis, false, "sort"); }
Tensor argsort(TensorOrNumber x, int64_t axis) { return sorted(x, axis, true, "argsort"); }
Tensor one_hot(TensorOrNumber labels, int64_t classes) {
  return located(labels.where(), [&] {
    const Tensor wide = expand_dims(labels, -1);
    return (wide == arange(classes, wide.dtype())).astype(lamina::DType::float32);
  });
}

}  // namespace lamina
