// Operations on tensors, with NumPy's names, broadcasting and JAX's promotion of element types.
//
// Contract: operands may be tensors or numbers. Shapes that do not broadcast, axes that do not exist and
// element types that an operation is not defined for throw lamina::Error with all of them in words. Floats
// are needed where the name says so mathematically: 64-bit integers are converted to float64
// first, others to float32.
#ifndef LAMINA_OPS_H_
#define LAMINA_OPS_H_

#include "lamina/tensor.h"

#pragma GCC visibility push(default)
namespace lamina {

// --- making tensors; where no element type is given, the default float, of arange the default integer
// (DefaultTypesScope in lamina/numerics.h) ---

Tensor zeros(const Shape& shape, std::optional<DType> dtype = {},
             std::source_location where = std::source_location::current());
Tensor ones(const Shape& shape, std::optional<DType> dtype = {},
            std::source_location where = std::source_location::current());
Tensor full(const Shape& shape, TensorOrNumber value);
Tensor zeros_like(TensorOrNumber x);
Tensor ones_like(TensorOrNumber x);
// start, start + step, ... before stop.
Tensor arange(int64_t stop, std::optional<DType> dtype = {},
              std::source_location where = std::source_location::current());
Tensor arange(int64_t start, int64_t stop, int64_t step = 1, std::optional<DType> dtype = {},
              std::source_location where = std::source_location::current());
// `count` evenly spaced numbers from start to stop, both included; in the default float.
Tensor linspace(double start, double stop, int64_t count,
                std::source_location where = std::source_location::current());
Tensor eye(int64_t n, std::optional<DType> dtype = {},
           std::source_location where = std::source_location::current());

// Of nested lists: array({1.f, 2.f}), array({{1, 2}, {3, 4}}). The element type is the C++ type's.
template <Element T>
Tensor array(std::initializer_list<T> row, std::source_location where = std::source_location::current()) {
  return Tensor::copy_of(dtype_of<T>, {static_cast<int64_t>(row.size())}, row.begin(), row.size(), where);
}
template <Element T>
Tensor array(std::initializer_list<std::initializer_list<T>> rows,
             std::source_location where = std::source_location::current()) {
  const size_t columns = rows.size() ? rows.begin()->size() : 0, count = rows.size() * columns;
  std::vector<unsigned char> bytes(count * sizeof(T));
  unsigned char* to = bytes.data();
  for (const auto& row : rows) {
    if (row.size() != columns) throw Error(ErrorKind::kValue, "array: the rows have different lengths");
    if (columns > 0) __builtin_memcpy(to, row.begin(), columns * sizeof(T));
    to += columns * sizeof(T);
  }
  return Tensor::copy_of(dtype_of<T>, {static_cast<int64_t>(rows.size()), static_cast<int64_t>(columns)},
                         bytes.data(), count, where);
}
template <Element T>
requires(!std::is_same_v<T, bool>) Tensor
    array(const std::vector<T>& data, const Shape& shape = {-1},
          std::source_location where = std::source_location::current()) {
  return Tensor::copy_of(dtype_of<T>, {static_cast<int64_t>(data.size())}, data.data(), data.size(), where)
      .reshape(shape, where);
}

// --- elementwise ---

#define LAMINA_BINARY_OPERATOR(symbol) Tensor operator symbol(TensorOrNumber x, TensorOrNumber y);
LAMINA_BINARY_OPERATOR(+)
LAMINA_BINARY_OPERATOR(-)
LAMINA_BINARY_OPERATOR(*)
LAMINA_BINARY_OPERATOR(/)  // of integers: a float; see floor_divide
LAMINA_BINARY_OPERATOR(%)  // as remainder
LAMINA_BINARY_OPERATOR(&)
LAMINA_BINARY_OPERATOR(|)
LAMINA_BINARY_OPERATOR(^)
LAMINA_BINARY_OPERATOR(==)  // comparisons give booleans, element by element
LAMINA_BINARY_OPERATOR(!=)
LAMINA_BINARY_OPERATOR(<)
LAMINA_BINARY_OPERATOR(<=)
LAMINA_BINARY_OPERATOR(>)
LAMINA_BINARY_OPERATOR(>=)
#undef LAMINA_BINARY_OPERATOR
Tensor operator-(TensorOrNumber x);
Tensor operator~(TensorOrNumber x);

// `a || b`, `a && b` and `!a` would ask for truth values, silently cut what is recorded into pieces and
// choose for all elements at once. Write a | b, a & b, ~a for elements, and x.item<bool>() where one truth
// value is meant.
template <typename A, typename B>
concept OneIsATensor =
    std::is_same_v<std::remove_cvref_t<A>, Tensor> || std::is_same_v<std::remove_cvref_t<B>, Tensor>;
template <typename A, typename B>
requires OneIsATensor<A, B>
void operator||(const A& use_bitwise_or, const B&) = delete;
template <typename A, typename B>
requires OneIsATensor<A, B>
void operator&&(const A& use_bitwise_and, const B&) = delete;
void operator!(const Tensor& use_bitwise_not) = delete;

// Names of one operand: LAMINA_UNARY_FUNCTIONS(row) calls row(name) for each.
#define LAMINA_UNARY_FUNCTIONS(row)                                                                       \
  row(abs) row(arccos) row(arccosh) row(arcsin) row(arcsinh) row(arctan) row(arctanh) row(cbrt) row(ceil) \
      row(cos) row(cosh) row(digamma) row(erf) row(erfc) row(erf_inv) row(exp) row(expm1) row(floor)      \
          row(lgamma) row(log) row(log1p) row(round) row(rsqrt) row(sigmoid) row(sign) row(sin) row(sinh) \
              row(sqrt) row(square) row(tan) row(tanh) row(isfinite) row(isnan) row(isinf) row(real)      \
                  row(imag) row(relu) row(softplus) row(silu) row(gelu) row(stop_gradient)
#define LAMINA_DECLARE(name) Tensor name(TensorOrNumber x);
LAMINA_UNARY_FUNCTIONS(LAMINA_DECLARE)
#undef LAMINA_DECLARE

Tensor maximum(TensorOrNumber x, TensorOrNumber y);  // NaN if either is
Tensor minimum(TensorOrNumber x, TensorOrNumber y);
Tensor pow(TensorOrNumber x, TensorOrNumber y);
namespace detail {
Tensor integer_power(const TensorOrNumber& x, int64_t exponent);
}
// A C++ integer as exponent is done by multiplications. A template, so that no 0.5 becomes an integer.
template <typename I>
requires std::is_integral_v<I> Tensor pow(TensorOrNumber x, I exponent) {
  return detail::integer_power(x, static_cast<int64_t>(exponent));
}
Tensor arctan2(TensorOrNumber y, TensorOrNumber x);
Tensor floor_divide(TensorOrNumber x, TensorOrNumber y);
Tensor remainder(TensorOrNumber x, TensorOrNumber y);  // the sign of y, as Python's %
Tensor where(TensorOrNumber condition, TensorOrNumber x, TensorOrNumber y);
// Element by element the case of the number `which`, an integer limited to the cases or a boolean of two.
Tensor select_n(TensorOrNumber which, const std::vector<Tensor>& cases);
Tensor clip(TensorOrNumber x, TensorOrNumber low, TensorOrNumber high);

// --- shapes ---

Tensor broadcast_to(TensorOrNumber x, const Shape& shape);
Tensor expand_dims(TensorOrNumber x, int64_t axis);
Tensor squeeze(TensorOrNumber x, const Axes& axes = {});  // {}: every axis of size 1
Tensor concatenate(const std::vector<Tensor>& parts, int64_t axis = 0,
                   std::source_location where = std::source_location::current());
Tensor stack(const std::vector<Tensor>& parts, int64_t axis = 0,
             std::source_location where = std::source_location::current());
// {before, after} per axis, filled with `value`.
Tensor pad(TensorOrNumber x, const std::vector<std::pair<int64_t, int64_t>>& widths, double value = 0);
Tensor flip(TensorOrNumber x, const Axes& axes = {});
// Elements moved on by `shift` places along each of `axes`, those beyond the end to the front; {}: in
// row-major order.
Tensor roll(TensorOrNumber x, int64_t shift, const Axes& axes = {});
// The slices of x at `indices`, an integer tensor of any shape, in place of the axis; negative ones count
// from the end, those out of range take the nearest slice.
Tensor take(TensorOrNumber x, TensorOrNumber indices, int64_t axis);

// --- reductions: over `axes` ({}: all), in one fixed order whatever the shape of the rest ---

Tensor sum(TensorOrNumber x, const Axes& axes = {},
           bool keepdims = false);  // of integers: 64 bits; of booleans: int32
Tensor prod(TensorOrNumber x, const Axes& axes = {}, bool keepdims = false);
Tensor mean(TensorOrNumber x, const Axes& axes = {}, bool keepdims = false);
Tensor var(TensorOrNumber x, const Axes& axes = {}, bool keepdims = false);
Tensor max(TensorOrNumber x, const Axes& axes = {}, bool keepdims = false);
Tensor min(TensorOrNumber x, const Axes& axes = {}, bool keepdims = false);
Tensor all(TensorOrNumber x, const Axes& axes = {}, bool keepdims = false);
Tensor any(TensorOrNumber x, const Axes& axes = {}, bool keepdims = false);
Tensor logsumexp(TensorOrNumber x, const Axes& axes = {}, bool keepdims = false);
Tensor softmax(TensorOrNumber x, int64_t axis = -1);
Tensor log_softmax(TensorOrNumber x, int64_t axis = -1);
// Position of the first largest (smallest) element, int32; NaN counts as such.
Tensor argmax(TensorOrNumber x, int64_t axis = -1);
Tensor argmin(TensorOrNumber x, int64_t axis = -1);
// Running sums, products and extrema along an axis, from its first element on, or from its last with
// `reverse`; types as for sum, prod, max and min.
Tensor cumsum(TensorOrNumber x, int64_t axis, bool reverse = false);
Tensor cumprod(TensorOrNumber x, int64_t axis, bool reverse = false);
Tensor cummax(TensorOrNumber x, int64_t axis, bool reverse = false);
Tensor cummin(TensorOrNumber x, int64_t axis, bool reverse = false);
// log of the running sum of exp, of floats.
Tensor cumlogsumexp(TensorOrNumber x, int64_t axis, bool reverse = false);
// Stable, NaN last.
Tensor sort(TensorOrNumber x, int64_t axis = -1);
Tensor argsort(TensorOrNumber x, int64_t axis = -1);
// 1 where the last axis' number equals the label, float32[..., classes].
Tensor one_hot(TensorOrNumber labels, int64_t classes);

// --- products ---

// Of the last two dimensions, the others broadcast; 1-d operands are a row and a column.
Tensor matmul(TensorOrNumber x, TensorOrNumber y);
// NumPy's dot: of the last dimension of x and the last but one (of a 1-d y: the only) of y, all others kept;
// the product where either is a number.
Tensor dot(TensorOrNumber x, TensorOrNumber y);
// Einstein's summation over one or two operands, with an explicit result: "bij,bjk->bik".
Tensor einsum(const std::string& equation, const std::vector<Tensor>& operands,
              std::source_location where = std::source_location::current());
// images [N, C, spatial...], kernels [O, C / groups, spatial...] -> [N, O, spatial...]; padding {before,
// after} per spatial dimension, absent lists mean 1 (strides, dilation) and 0 (padding).
struct Convolution {
  std::vector<int64_t> strides = {}, dilation = {};
  std::vector<std::pair<int64_t, int64_t>> padding = {};
  int64_t groups = 1;
};
Tensor conv(TensorOrNumber images, TensorOrNumber kernels, const Convolution& options = {});

}  // namespace lamina

#pragma GCC visibility pop

#endif  // LAMINA_OPS_H_
