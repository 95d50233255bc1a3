// Tensor: an array that records what is done with it and computes when a value is needed.
//
// Contract: dense row-major arrays of any rank. Operations record and return at once; reading (`to_host`,
// `item`, printing, `eval`) computes everything recorded so far that is still held, fused and compiled.
// Copies of a Tensor name the same variable: `set` through one is seen by all; `x += y` is `x = x + y` for
// that copy alone. Numbers of C++ are weak: beside a tensor they take its element type (float32 + 2.0 is
// float32), alone they are int32 or float32, or what a DefaultTypesScope says. So is what is made of numbers
// alone; both keep all their bits until they meet a type: sqrt(Tensor(2.0)) * x is exact for a float64 x.
// Errors throw lamina::Error, whose text names shapes, element types and the caller's file and line. Tensors
// may be used from any thread; one Tensor object is used by one thread at a time.
#ifndef LAMINA_TENSOR_H_
#define LAMINA_TENSOR_H_

#include <initializer_list>
#include <iosfwd>
#include <optional>
#include <source_location>
#include <span>
#include <string>
#include <variant>
#include <vector>

#include "lamina/counted.h"
#include "lamina/dtype.h"
#include "lamina/error.h"

#pragma GCC visibility push(default)
namespace lamina {

using Shape = std::vector<int64_t>;
// Dimensions, negative ones counted from the end.
using Axes = std::vector<int64_t>;

namespace detail {
// A C++ number, unrounded until it meets an element type.
struct Number {
  template <Element T>
  explicit Number(T value) : dtype(dtype_of<T>) {
    if constexpr (std::is_integral_v<T>) {
      integer = static_cast<int64_t>(value);
      re = static_cast<double>(value);
    } else if constexpr (std::is_floating_point_v<T>) {
      re = static_cast<double>(value);
    } else {
      re = static_cast<double>(value.real());
      im = static_cast<double>(value.imag());
    }
  }
  DType dtype;
  double re = 0, im = 0;
  int64_t integer = 0;
};
}  // namespace detail

class Tensor;
class Index;
class TensorOrNumber;
struct Slice;

class Tensor {
 public:
  using Where = std::source_location;

  // Names nothing: any use but assignment throws.
  Tensor() = default;
  // A 0-d tensor of a number, weakly typed.
  template <Element T>
  Tensor(T number, Where where = Where::current())  // NOLINT: implicit on purpose
      : Tensor(number_tensor(detail::Number(number), where)) {}

  // Copies `data`, shape.product() elements in row-major order.
  template <Element T>
  static Tensor from_host(std::span<const T> data, const Shape& shape, Where where = Where::current()) {
    return copy_of(dtype_of<T>, shape, data.data(), data.size(), where);
  }
  // Shares memory instead: it must not change while the tensor or a result that needs it lives;
  // release(context) (if not null) is called when nobody needs it any more, on any thread.
  static Tensor alias(DType dtype, const Shape& shape, void* data, void (*release)(void* context) = nullptr,
                      void* context = nullptr, Where where = Where::current());

  bool defined() const { return static_cast<bool>(variable_); }
  const Shape& shape() const;
  DType dtype() const;
  int64_t ndim() const { return static_cast<int64_t>(shape().size()); }
  int64_t size() const;  // number of elements
  bool weakly_typed() const;

  // Waits for the value.
  const Tensor& eval() const;
  // Whether the value is known without further computation.
  bool is_ready() const;
  // The same tensor on a device, to stay there (lamina/device.h). Throws kValue where there is no such
  // device, kNotImplemented for what an open transform depends on.
  Tensor on(std::string_view device, Where where = Where::current()) const;
  // The name of the device that the value lies on, or will be computed on.
  std::string device() const;
  // Copies the elements out, row-major. The element type must be T's: convert with `astype`.
  template <Element T>
  std::vector<T> to_host(Where where = Where::current()) const {
    std::vector<T> out(static_cast<size_t>(size()));
    if constexpr (std::is_same_v<T, bool>) {
      std::vector<unsigned char> bytes(out.size());
      copy_out(dtype_of<T>, bytes.data(), where);
      for (size_t i = 0; i < out.size(); ++i) out[i] = bytes[i] != 0;
    } else {
      copy_out(dtype_of<T>, out.data(), where);
    }
    return out;
  }
  // The only element, converted.
  template <Element T = double>
  T item(Where where = Where::current()) const {
    T out;
    copy_item(dtype_of<T>, &out, where);
    return out;
  }
  // Whether the only element is not zero; so `if (x > 0)` works outside traces.
  explicit operator bool() const { return item<bool>(); }
  std::string to_string() const;

  Tensor astype(DType dtype, Where where = Where::current()) const;
  Tensor reshape(const Shape& shape, Where where = Where::current()) const;              // one size may be -1
  Tensor transpose(const Axes& permutation = {}, Where where = Where::current()) const;  // {}: reversed
  Tensor T(Where where = Where::current()) const { return transpose({}, where); }
  Tensor flatten(Where where = Where::current()) const { return reshape({-1}, where); }

  // Elements by integers, slices, ellipsis, new axes and integer tensors (neighbours broadcast together), or
  // by one boolean tensor of the leading dimensions: the slices where it holds, for whose number it is read,
  // so not inside jit or vmap; updates need no reading. Integers are checked; elements of index tensors
  // beyond the ends count as the ends, negative ones count from the end.
  Tensor operator[](std::initializer_list<Index> index) const;
  Tensor operator[](const Index& index) const;
  Tensor at(const std::vector<Index>& index, Where where = Where::current()) const;
  // A tensor with some elements replaced, or added to; `value` broadcasts. Where positions repeat, replacing
  // keeps one of the values and adding adds all.
  Tensor updated(const std::vector<Index>& index, const Tensor& value, Where where = Where::current()) const;
  Tensor added(const std::vector<Index>& index, const Tensor& value, Where where = Where::current()) const;
  // The same in place: the variable names the new value, for every copy of this Tensor. Inside a transform
  // only variables made in it can be written.
  void set(const std::vector<Index>& index, const Tensor& value, Where where = Where::current());

  Tensor& operator+=(const TensorOrNumber& other);
  Tensor& operator-=(const TensorOrNumber& other);
  Tensor& operator*=(const TensorOrNumber& other);
  Tensor& operator/=(const TensorOrNumber& other);

  // The library's side.
  explicit Tensor(detail::Ref<detail::Counted> variable) : variable_(std::move(variable)) {}
  const detail::Ref<detail::Counted>& variable() const { return variable_; }
  // `count` elements in row-major order.
  static Tensor copy_of(DType dtype, const Shape& shape, const void* data, size_t count, Where where);

 private:
  static Tensor number_tensor(const detail::Number& number, Where where);
  void copy_out(DType dtype, void* to, Where where) const;
  void copy_item(DType dtype, void* to, Where where) const;

  detail::Ref<detail::Counted> variable_;
};

// start:stop:step, as in Python; absent ends are the array's.
struct Slice {
  std::optional<int64_t> start, stop, step;
};
struct Ellipsis {};
struct NewAxis {};
inline constexpr Ellipsis ellipsis{};
inline constexpr NewAxis newaxis{};

// One item of an index, and the place of the call.
class Index {
 public:
  using Where = std::source_location;
  Index(int i, Where where = Where::current())  // NOLINT: implicit
      : item_(static_cast<int64_t>(i)), where_(where) {}
  Index(int64_t i, Where where = Where::current()) : item_(i), where_(where) {}            // NOLINT
  Index(Slice s, Where where = Where::current()) : item_(s), where_(where) {}              // NOLINT
  Index(Ellipsis e, Where where = Where::current()) : item_(e), where_(where) {}           // NOLINT
  Index(NewAxis n, Where where = Where::current()) : item_(n), where_(where) {}            // NOLINT
  Index(Tensor t, Where where = Where::current()) : item_(std::move(t)), where_(where) {}  // NOLINT
  const std::variant<int64_t, Slice, Ellipsis, NewAxis, Tensor>& item() const { return item_; }
  const Where& where() const { return where_; }

 private:
  std::variant<int64_t, Slice, Ellipsis, NewAxis, Tensor> item_;
  Where where_;
};

// An argument of an operation, and the place of the call.
class TensorOrNumber {
 public:
  using Where = std::source_location;
  TensorOrNumber(const Tensor& tensor, Where where = Where::current())  // NOLINT: implicit
      : tensor_(tensor), where_(where) {}
  template <Element T>
  TensorOrNumber(T number, Where where = Where::current())  // NOLINT: implicit
      : number_(detail::Number(number)), where_(where) {}
  const Tensor& tensor() const { return tensor_; }  // names nothing for a number
  const std::optional<detail::Number>& number() const { return number_; }
  const Where& where() const { return where_; }

 private:
  Tensor tensor_;
  std::optional<detail::Number> number_;
  Where where_;
};

// NumPy's text, cut in the middle where it is long.
std::ostream& operator<<(std::ostream& out, const Tensor& tensor);

}  // namespace lamina

#pragma GCC visibility pop

#endif  // LAMINA_TENSOR_H_
