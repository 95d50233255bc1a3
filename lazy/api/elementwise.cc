// Making tensors, and elementwise operations.
#include <cmath>

#include "hlo/op.h"
#include "lamina/ops.h"
#include "lazy/api/variable.h"

namespace lamina {

using detail::build;
using detail::lazy_of;
using detail::located;
using detail::tensor_of;
using detail::to_hlo;
using hlo::Builder;
using hlo::Op;
using hlo::Value;
using lazy::Lazy;

namespace {

const hlo::Type* type_of(DType dtype, const Shape& shape, const char* what) {
  return lazy::check(hlo::array_type(to_hlo(dtype), detail::dims_of(shape, what)));
}

DType or_float(std::optional<DType> dtype) {
  return dtype.value_or(detail::from_hlo(lazy::default_types().floating));
}
DType or_integer(std::optional<DType> dtype) {
  return dtype.value_or(detail::from_hlo(lazy::default_types().integer));
}

Tensor filled(const Shape& shape, std::optional<DType> dtype, double value, const char* what,
              const std::source_location& where) {
  return build({Tensor(), where}, [&](Builder& b) {
    return Lazy{b.full(type_of(or_float(dtype), shape, what), value), false};
  });
}

// Operands in one type and shape, then `body`.
template <typename F>
Tensor binary(const TensorOrNumber& x, const TensorOrNumber& y, const char* what, F&& body) {
  return build(x, [&](Builder& b) {
    const std::vector<Lazy> v = detail::same_shape(b, detail::promoted(b, {&x, &y}), false, what);
    return detail::computed(b, v, [&](std::span<const Value> u) { return body(b, u[0], u[1]); });
  });
}
Tensor binary_op(Op op, const TensorOrNumber& x, const TensorOrNumber& y) {
  return binary(x, y, hlo::op_def(op).name.data(), [op](Builder& b, const Value& u, const Value& v) {
    return b.make(op, {{u, v}});
  });
}
Tensor comparison(const char* direction, const TensorOrNumber& x, const TensorOrNumber& y) {
  return build(x, [&](Builder& b) {
    const std::vector<Lazy> v = detail::same_shape(b, detail::promoted(b, {&x, &y}), false, "compare");
    return detail::strong(
        detail::computed(b, v, [&](std::span<const Value> u) { return b.compare(u[0], u[1], direction); }));
  });
}

template <typename F>
Tensor unary(const TensorOrNumber& x, F&& body) {
  return build(x, [&](Builder& b) {
    return detail::computed(b, lazy_of(x), [&](const Value& v) { return body(b, v); });
  });
}
Tensor unary_op(Op op, const TensorOrNumber& x) {
  return unary(x, [op](Builder& b, const Value& v) { return b.make(op, {{v}}); });
}
// Of functions that are defined for floats (and complex numbers): others become float32.
Tensor float_op(Op op, const TensorOrNumber& x) {
  return unary(x, [op](Builder& b, const Value& v) { return b.make(op, {{detail::inexact(b, v)}}); });
}

Value compared(Builder& b, const Value& x, double with, const char* direction) {
  return b.compare(x, b.full_like(x, with), direction);
}

}  // namespace

// --- making ---

Tensor zeros(const Shape& shape, std::optional<DType> dtype, std::source_location where) {
  return filled(shape, dtype, 0, "zeros", where);
}
Tensor ones(const Shape& shape, std::optional<DType> dtype, std::source_location where) {
  return filled(shape, dtype, 1, "ones", where);
}
Tensor full(const Shape& shape, TensorOrNumber value) {
  return build(value, [&](Builder& b) {
    const hlo::Dims dims = detail::dims_of(shape, "full");
    return detail::computed(b, lazy_of(value),
                            [&](const Value& x) { return lazy::broadcast_to(b, x, dims); });
  });
}
Tensor zeros_like(TensorOrNumber x) {
  return unary(x, [](Builder& b, const Value& v) { return b.zeros_like(v); });
}
Tensor ones_like(TensorOrNumber x) {
  return unary(x, [](Builder& b, const Value& v) { return b.full_like(v, 1); });
}
Tensor arange(int64_t stop, std::optional<DType> dtype, std::source_location where) {
  return arange(0, stop, 1, dtype, where);
}
Tensor arange(int64_t start, int64_t stop, int64_t step, std::optional<DType> dtype,
              std::source_location where) {
  return build({Tensor(), where}, [&](Builder& b) {
    if (step == 0) detail::fail(ErrorKind::kValue, "arange: the step must not be 0");
    // Differences of 64-bit numbers need one more bit.
    const __int128 span = static_cast<__int128>(stop) - start;
    const __int128 count =
        step > 0 ? (span + step - 1) / step : (-span - step - 1) / -static_cast<__int128>(step);
    const int64_t n = count <= 0 ? 0 : static_cast<int64_t>(std::min<__int128>(count, INT64_MAX));
    const hlo::Type* wide = type_of(DType::int64, {n}, "arange");
    Value v = b.iota(hlo::DType::kS64, wide->dims, 0);
    v = b.add(b.multiply(v, b.broadcast_scalar(b.scalar_int(hlo::DType::kS64, step), wide->dims)),
              b.broadcast_scalar(b.scalar_int(hlo::DType::kS64, start), wide->dims));
    return Lazy{b.convert(v, to_hlo(or_integer(dtype))), false};
  });
}
Tensor linspace(double start, double stop, int64_t count, std::source_location where) {
  return build({Tensor(), where}, [&](Builder& b) {
    const hlo::Type* type = type_of(DType::float64, {count}, "linspace");
    const double step = count > 1 ? (stop - start) / static_cast<double>(count - 1) : 0;
    const Value i = b.iota(hlo::DType::kF64, type->dims, 0);
    Value v = b.add(b.multiply(i, b.full(type, step)), b.full(type, start));
    if (count > 1)
      v = b.select(b.compare(i, b.full(type, static_cast<double>(count - 1)), "EQ"), b.full(type, stop), v);
    return Lazy{b.convert(v, lazy::default_types().floating), false};
  });
}
Tensor eye(int64_t n, std::optional<DType> dtype, std::source_location where) {
  return build({Tensor(), where}, [&](Builder& b) {
    const hlo::Type* type = type_of(DType::int64, {n, n}, "eye");
    const Value same =
        b.compare(b.iota(hlo::DType::kS64, type->dims, 0), b.iota(hlo::DType::kS64, type->dims, 1), "EQ");
    return Lazy{b.convert(same, to_hlo(or_float(dtype))), false};
  });
}

// --- operators ---

Tensor operator+(TensorOrNumber x, TensorOrNumber y) { return binary_op(Op::add, x, y); }
Tensor operator-(TensorOrNumber x, TensorOrNumber y) { return binary_op(Op::subtract, x, y); }
Tensor operator*(TensorOrNumber x, TensorOrNumber y) { return binary_op(Op::multiply, x, y); }
Tensor operator/(TensorOrNumber x, TensorOrNumber y) {
  return binary(x, y, "divide", [](Builder& b, const Value& u, const Value& v) {
    return b.divide(detail::inexact(b, u), detail::inexact(b, v));
  });
}
Tensor operator%(TensorOrNumber x, TensorOrNumber y) { return remainder(x, y); }
Tensor operator&(TensorOrNumber x, TensorOrNumber y) { return binary_op(Op::and_, x, y); }
Tensor operator|(TensorOrNumber x, TensorOrNumber y) { return binary_op(Op::or_, x, y); }
Tensor operator^(TensorOrNumber x, TensorOrNumber y) { return binary_op(Op::xor_, x, y); }
Tensor operator==(TensorOrNumber x, TensorOrNumber y) { return comparison("EQ", x, y); }
Tensor operator!=(TensorOrNumber x, TensorOrNumber y) { return comparison("NE", x, y); }
Tensor operator<(TensorOrNumber x, TensorOrNumber y) { return comparison("LT", x, y); }
Tensor operator<=(TensorOrNumber x, TensorOrNumber y) { return comparison("LE", x, y); }
Tensor operator>(TensorOrNumber x, TensorOrNumber y) { return comparison("GT", x, y); }
Tensor operator>=(TensorOrNumber x, TensorOrNumber y) { return comparison("GE", x, y); }
Tensor operator-(TensorOrNumber x) { return unary_op(Op::negate, x); }
Tensor operator~(TensorOrNumber x) { return unary_op(Op::not_, x); }

// --- functions of one operand ---

#define LAMINA_FLOAT(name, op) \
  Tensor name(TensorOrNumber x) { return float_op(Op::op, x); }
#define LAMINA_PLAIN(name, op) \
  Tensor name(TensorOrNumber x) { return unary_op(Op::op, x); }
LAMINA_PLAIN(abs, abs)
LAMINA_FLOAT(arccos, acos)
LAMINA_FLOAT(arccosh, acosh)
LAMINA_FLOAT(arcsin, asin)
LAMINA_FLOAT(arcsinh, asinh)
LAMINA_FLOAT(arctan, atan)
LAMINA_FLOAT(arctanh, atanh)
LAMINA_FLOAT(cbrt, cbrt)
LAMINA_FLOAT(ceil, ceil)
LAMINA_FLOAT(cos, cosine)
LAMINA_FLOAT(cosh, cosh)
LAMINA_FLOAT(digamma, digamma)
LAMINA_FLOAT(erf, erf)
LAMINA_FLOAT(erfc, erfc)
LAMINA_FLOAT(erf_inv, erf_inv)
LAMINA_FLOAT(exp, exponential)
LAMINA_FLOAT(expm1, exponential_minus_one)
LAMINA_FLOAT(floor, floor)
LAMINA_FLOAT(lgamma, lgamma)
LAMINA_FLOAT(log, log)
LAMINA_FLOAT(log1p, log_plus_one)
LAMINA_FLOAT(round, round_nearest_even)
LAMINA_FLOAT(rsqrt, rsqrt)
LAMINA_FLOAT(sigmoid, logistic)
LAMINA_PLAIN(sign, sign)
LAMINA_FLOAT(sin, sine)
LAMINA_FLOAT(sinh, sinh)
LAMINA_FLOAT(sqrt, sqrt)
LAMINA_FLOAT(tan, tan)
LAMINA_FLOAT(tanh, tanh)
LAMINA_PLAIN(stop_gradient, stop_gradient)
#undef LAMINA_FLOAT
#undef LAMINA_PLAIN

Tensor square(TensorOrNumber x) {
  return unary(x, [](Builder& b, const Value& v) { return b.multiply(v, v); });
}
Tensor real(TensorOrNumber x) {
  return unary(x, [](Builder& b, const Value& v) { return hlo::is_complex(v.dtype()) ? b.real(v) : v; });
}
Tensor imag(TensorOrNumber x) {
  return unary(
      x, [](Builder& b, const Value& v) { return hlo::is_complex(v.dtype()) ? b.imag(v) : b.zeros_like(v); });
}

namespace {
// A condition on the elements; of complex ones, on both parts.
template <typename F>
Tensor condition(const TensorOrNumber& x, const char* join, F&& of_part) {
  return build(x, [&](Builder& b) {
    return detail::strong(detail::computed(b, lazy_of(x), [&](const Value& operand) {
      const Value v = detail::inexact(b, operand);
      if (!hlo::is_complex(v.dtype())) return of_part(b, v);
      const Value re = of_part(b, b.real(v)), im = of_part(b, b.imag(v));
      return *join == '&' ? b.and_(re, im) : b.or_(re, im);
    }));
  });
}
}  // namespace

Tensor isfinite(TensorOrNumber x) {
  return condition(x, "&", [](Builder& b, const Value& v) { return b.is_finite(v); });
}
Tensor isnan(TensorOrNumber x) {
  return condition(x, "|", [](Builder& b, const Value& v) { return b.compare(v, v, "NE"); });
}
Tensor isinf(TensorOrNumber x) {
  return condition(x, "|", [](Builder& b, const Value& v) {
    // Infinity may be no value of a narrow type.
    const Value wide = hlo::is_narrow_float(v.dtype()) ? b.convert(v, hlo::DType::kF32) : v;
    return compared(b, b.abs(wide), INFINITY, "EQ");
  });
}

Tensor relu(TensorOrNumber x) {
  // The gradient at 0 is 0.
  return unary(
      x, [](Builder& b, const Value& v) { return b.select(compared(b, v, 0, "GT"), v, b.zeros_like(v)); });
}
Tensor softplus(TensorOrNumber x) {
  // Both choices are one function, so that derivatives are right at the tie too.
  return located(x.where(), [&] {
    const Tensor positive = x > 0;
    return where(positive, x, 0) + log1p(exp(where(positive, -x, x)));
  });
}
Tensor silu(TensorOrNumber x) {
  return located(x.where(), [&] { return x * sigmoid(x); });
}
Tensor gelu(TensorOrNumber x) {
  return located(x.where(),
                 [&] { return 0.5 * x * (1 + tanh(0.7978845608028654 * (x + 0.044715 * pow(x, 3)))); });
}

// --- functions of several ---

Tensor maximum(TensorOrNumber x, TensorOrNumber y) { return binary_op(Op::maximum, x, y); }
Tensor minimum(TensorOrNumber x, TensorOrNumber y) { return binary_op(Op::minimum, x, y); }
Tensor pow(TensorOrNumber x, TensorOrNumber y) { return binary_op(Op::power, x, y); }
Tensor detail::integer_power(const TensorOrNumber& x, int64_t exponent) {
  return located(x.where(), [&] {
    const Lazy v = lazy_of(x);
    if (exponent < 0 && hlo::is_integer(v.value.dtype()))
      fail(ErrorKind::kValue,
           "pow: integers to negative integer powers are not allowed; convert to float first");
    Tensor result, base = tensor_of(v);
    for (uint64_t n = exponent < 0 ? 0 - static_cast<uint64_t>(exponent) : static_cast<uint64_t>(exponent);
         n > 0; n >>= 1) {
      if (n & 1) result = result.defined() ? result * base : base;
      if (n > 1) base = base * base;
    }
    if (!result.defined()) return ones_like(x);
    return exponent < 0 ? 1 / result : result;
  });
}
Tensor arctan2(TensorOrNumber y, TensorOrNumber x) {
  return binary(y, x, "arctan2", [](Builder& b, const Value& u, const Value& v) {
    return b.atan2(detail::inexact(b, u), detail::inexact(b, v));
  });
}

namespace {
struct Quotient {
  Value divided, rest, crosses;  // truncated quotient; its remainder; where the floor lies one lower
};
Quotient divide_truncated(Builder& b, const Value& u, const Value& v) {
  const Value zero = b.zeros_like(u), rest = b.remainder(u, v);
  Value crosses = b.compare(rest, zero, "NE");
  if (!hlo::is_unsigned(u.dtype()))
    crosses = b.and_(crosses, b.xor_(b.compare(rest, zero, "LT"), b.compare(v, zero, "LT")));
  else
    crosses = b.compare(zero, zero, "NE");
  return {b.divide(u, v), rest, crosses};
}
}  // namespace

Tensor floor_divide(TensorOrNumber x, TensorOrNumber y) {
  return binary(x, y, "floor_divide", [](Builder& b, const Value& u, const Value& v) {
    const Quotient q = divide_truncated(b, u, v);
    const Value one = b.full_like(u, 1);
    if (hlo::is_integer(u.dtype())) return b.select(q.crosses, b.subtract(q.divided, one), q.divided);
    // From the remainder, so that quotient * y + remainder gives x back.
    Value r = b.divide(b.subtract(u, q.rest), v);
    r = b.make(Op::round_nearest_even, {{b.select(q.crosses, b.subtract(r, one), r)}});
    r = b.select(compared(b, r, 0, "EQ"), b.floor(q.divided), r);  // a zero has the quotient's sign
    return b.select(compared(b, v, 0, "EQ"), q.divided, r);
  });
}
Tensor remainder(TensorOrNumber x, TensorOrNumber y) {
  return binary(x, y, "remainder", [](Builder& b, const Value& u, const Value& v) {
    const Quotient q = divide_truncated(b, u, v);
    const Value rest = b.select(q.crosses, b.add(q.rest, v), q.rest), zero = b.zeros_like(rest);
    if (hlo::is_integer(rest.dtype())) return rest;
    // Sums, not constants, give zeros y's sign: they have the derivative of the rest.
    const Value down = b.negate(b.subtract(zero, rest)), up = b.add(rest, zero);
    return b.select(compared(b, v, 0, "LT"), down, up);
  });
}
Tensor where(TensorOrNumber condition, TensorOrNumber x, TensorOrNumber y) {
  return build(condition, [&](Builder& b) {
    std::vector<Lazy> v = detail::promoted(b, {&x, &y});
    v.push_back(detail::strong(detail::computed(b, lazy_of(condition), [&](const Value& p) {
      return hlo::is_bool(p.dtype()) ? p : compared(b, p, 0, "NE");
    })));
    v = detail::same_shape(b, std::move(v), false, "where");
    const Value held = v.back().value;
    v.pop_back();
    return detail::computed(b, v, [&](std::span<const Value> u) { return b.select(held, u[0], u[1]); });
  });
}
Tensor clip(TensorOrNumber x, TensorOrNumber low, TensorOrNumber high) {
  return located(x.where(), [&] { return minimum(maximum(x, low), high); });
}

}  // namespace lamina
