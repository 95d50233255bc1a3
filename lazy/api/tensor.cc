// Tensor itself: making, reading, printing, writing.
#include "lamina/tensor.h"

#include <cmath>
#include <cstring>
#include <ostream>

#include "hlo/literal.h"
#include "lamina/ops.h"
#include "lazy/api/variable.h"
#include "lazy/delivery.h"
#include "lazy/escape.h"
#include "lazy/placement.h"
#include "lazy/scopes.h"

namespace lamina {

using detail::lazy_of;
using detail::located;
using detail::tensor_of;
using detail::to_hlo;
using lazy::Lazy;

Tensor Tensor::number_tensor(const detail::Number& number, Where where) {
  return located(where, [&] { return tensor_of(detail::weak_number(number)); });
}

Tensor Tensor::copy_of(DType dtype, const Shape& shape, const void* data, size_t count, Where where) {
  return located(where, [&] {
    const hlo::Dims dims = detail::dims_of(shape, "from_host");
    const hlo::Type* type = lazy::check(hlo::array_type(to_hlo(dtype), dims));
    if (static_cast<uint64_t>(type->num_elements) != count)
      detail::fail(ErrorKind::kValue,
                   str_cat("from_host: the shape ", hlo::dims_to_string(dims), " has ", type->num_elements,
                           " elements, the data ", static_cast<int64_t>(count)));
    return tensor_of(lazy::from_host(to_hlo(dtype), dims, data));
  });
}

Tensor Tensor::alias(DType dtype, const Shape& shape, void* data, void (*release)(void*), void* context,
                     Where where) {
  return located(where, [&] {
    std::function<void()> let_go;
    if (release) let_go = [release, context] { release(context); };
    return tensor_of(
        lazy::from_foreign(to_hlo(dtype), detail::dims_of(shape, "alias"), data, std::move(let_go)));
  });
}

const Shape& Tensor::shape() const {
  lazy_of(*this);
  return static_cast<const detail::Variable&>(*variable_).shape;
}
DType Tensor::dtype() const { return detail::from_hlo(lazy_of(*this).value.dtype()); }
int64_t Tensor::size() const { return lazy_of(*this).value.type()->num_elements; }
bool Tensor::weakly_typed() const { return lazy_of(*this).weak; }

const Tensor& Tensor::eval() const {
  lazy::wait_for(std::span(&lazy_of(*this).value, 1));
  return *this;
}
bool Tensor::is_ready() const { return lazy::is_ready(lazy_of(*this).value); }

void Tensor::copy_out(DType dtype, void* to, Where where) const {
  located(where, [&] {
    const hlo::Value value = lazy_of(*this).value;
    if (value.dtype() != to_hlo(dtype))
      detail::fail(ErrorKind::kType, str_cat("to_host: the elements are ", name(this->dtype()), ", not ",
                                             name(dtype), "; convert with astype"));
    lazy::check_may_leave(value, "to_host");
    const jit::ArrayPtr array = lazy::array(value);
    if (value.type()->bytes() > 0)
      std::memcpy(to, lazy::host_bytes(*array), static_cast<size_t>(value.type()->bytes()));
    return 0;
  });
}

void Tensor::copy_item(DType dtype, void* to, Where where) const {
  located(where, [&] {
    if (size() != 1)
      detail::fail(ErrorKind::kValue,
                   str_cat("item: the tensor has shape ", hlo::dims_to_string(lazy_of(*this).value.dims()),
                           ", so it is no single number"));
    const Tensor one = astype(dtype, where);
    lazy::check_may_leave(lazy_of(one).value, "item");
    std::memcpy(to, lazy::host_bytes(*lazy::array(lazy_of(one).value)), static_cast<size_t>(size_of(dtype)));
    return 0;
  });
}

Tensor Tensor::astype(DType dtype, Where where) const {
  return detail::build({*this, where}, [&](hlo::Builder& b) {
    return Lazy{lazy::converted(b, lazy_of(*this), to_hlo(dtype)), false};
  });
}

Tensor Tensor::reshape(const Shape& shape, Where where) const {
  return detail::build({*this, where}, [&](hlo::Builder& b) {
    const Lazy& x = lazy_of(*this);
    hlo::Dims dims(shape.begin(), shape.end());
    int64_t known = 1, open = -1;
    for (size_t i = 0; i < dims.size(); ++i) {
      if (dims[i] == -1 && open < 0) {
        open = static_cast<int64_t>(i);
      } else if (dims[i] < 0 || __builtin_mul_overflow(known, dims[i], &known)) {
        detail::fail(ErrorKind::kValue, str_cat("reshape: ", hlo::dims_to_string(dims), " is no shape"));
      }
    }
    if (open >= 0) dims[open] = known > 0 ? size() / known : 0;
    int64_t total = known;
    if (open >= 0 && __builtin_mul_overflow(known, dims[open], &total)) total = -1;
    if (total != size())
      detail::fail(ErrorKind::kValue, str_cat("reshape: ", detail::describe(x), " has ", size(),
                                              " elements, which do not fit the shape ",
                                              hlo::dims_to_string(hlo::Dims(shape.begin(), shape.end()))));
    return detail::computed(b, x, [&](const hlo::Value& v) { return b.reshape(v, dims); });
  });
}

Tensor Tensor::transpose(const Axes& permutation, Where where) const {
  return detail::build({*this, where}, [&](hlo::Builder& b) {
    const Lazy& x = lazy_of(*this);
    const int64_t rank = x.value.rank();
    hlo::Dims order;
    for (int64_t axis : permutation) order.push_back(detail::canonical_axis(axis, rank, "transpose"));
    for (int64_t i = rank; permutation.empty() && i-- > 0;) order.push_back(i);
    if (static_cast<int64_t>(order.size()) != rank ||
        static_cast<int64_t>(
            detail::canonical_axes({order.begin(), order.end()}, rank, "transpose").size()) != rank)
      detail::fail(ErrorKind::kValue,
                   str_cat("transpose: ", hlo::dims_to_string(order), " does not order the ", rank, " axes"));
    return detail::computed(b, x, [&](const hlo::Value& v) { return b.transpose(v, order); });
  });
}

void Tensor::set(const std::vector<Index>& index, const Tensor& value, Where where) {
  const Tensor after = updated(index, value, where);
  located(where, [&] {
    const uint32_t innermost = lazy::open_scopes().empty() ? 0 : lazy::open_scopes().back().stamp;
    auto& variable = static_cast<detail::Variable&>(*variable_);
    if (innermost != variable.made_in)
      detail::fail(
          ErrorKind::kValue,
          "set: the tensor was made outside of the transform that is open here, whose function may run any "
          "number of times; use `updated` and return the new tensor");
    variable.cell.set(lazy_of(after));
    return 0;
  });
}

Tensor& Tensor::operator+=(const TensorOrNumber& other) {
  return *this = TensorOrNumber(*this, other.where()) + other;
}
Tensor& Tensor::operator-=(const TensorOrNumber& other) {
  return *this = TensorOrNumber(*this, other.where()) - other;
}
Tensor& Tensor::operator*=(const TensorOrNumber& other) {
  return *this = TensorOrNumber(*this, other.where()) * other;
}
Tensor& Tensor::operator/=(const TensorOrNumber& other) {
  return *this = TensorOrNumber(*this, other.where()) / other;
}

// --- printing ---

namespace {

constexpr int64_t kShownWhole = 1000, kEdge = 3;

std::string element_text(const hlo::Literal& x, int64_t i) {
  const hlo::DType t = x.dtype();
  if (hlo::is_bool(t)) return x.int_at(i) ? "true" : "false";
  if (hlo::is_integer(t))
    return t == hlo::DType::kU64 ? str_cat(static_cast<uint64_t>(x.int_at(i))) : str_cat(x.int_at(i));
  char text[40];
  auto number = [&](double v) {
    std::snprintf(text, sizeof text, "%.*g", hlo::part_type(t) == hlo::DType::kF64 ? 8 : 6, v);
    std::string s = text;
    if (s.find_first_of(".einf") == std::string::npos) s += ".";
    return s;
  };
  if (!hlo::is_complex(t)) return number(x.double_at(i));
  // Interleaved parts.
  double parts[2];
  for (int k = 0; k < 2; ++k) {
    const std::byte* at = x.element(i) + k * hlo::byte_size(hlo::part_type(t));
    if (t == hlo::DType::kC64) {
      float f;
      std::memcpy(&f, at, sizeof f);
      parts[k] = f;
    } else {
      std::memcpy(&parts[k], at, sizeof parts[k]);
    }
  }
  const std::string im = number(parts[1]);
  return str_cat(number(parts[0]), im[0] == '-' ? "" : "+", im, "j");
}

struct Printer {
  const hlo::Literal& data;
  const hlo::Dims& dims;
  size_t indent;  // of what goes before the first line
  bool cut;
  size_t width = 0;
  std::string text;

  // Calls for every index along `axis` that is shown; -1 stands for the gap.
  template <typename F>
  void each(size_t axis, F&& f) {
    const int64_t n = dims[axis];
    for (int64_t i = 0; i < n; ++i) {
      if (cut && n > 2 * kEdge && i == kEdge) {
        f(-1);
        i = n - kEdge;
      }
      f(i);
    }
  }
  void measure(size_t axis, int64_t offset) {
    if (axis == dims.size()) {
      width = std::max(width, element_text(data, offset).size());
      return;
    }
    each(axis, [&](int64_t i) {
      if (i >= 0) measure(axis + 1, offset * dims[axis] + i);
    });
  }
  void print(size_t axis, int64_t offset) {
    if (axis == dims.size()) {
      const std::string s = element_text(data, offset);
      text.append(width - s.size(), ' ');
      text += s;
      return;
    }
    text += '[';
    bool first = true;
    each(axis, [&](int64_t i) {
      if (!first) {
        text += ',';
        if (axis + 1 < dims.size()) {
          text.append(dims.size() - 1 - axis, '\n');
          text.append(indent + axis + 1, ' ');
        } else {
          text += ' ';
        }
      }
      first = false;
      if (i < 0)
        text += "...";
      else
        print(axis + 1, offset * dims[axis] + i);
    });
    text += ']';
  }
};

}  // namespace

std::string detail::elements_text(const Tensor& tensor, size_t indent) {
  const Lazy& x = lazy_of(tensor);
  const jit::ArrayPtr array = lazy::array(x.value);
  const hlo::LiteralPtr literal = hlo::Literal::copy_of(x.value.type(), lazy::host_bytes(*array));
  Printer printer{*literal, x.value.dims(), indent, tensor.size() > kShownWhole, 0, {}};
  printer.measure(0, 0);
  printer.print(0, 0);
  return printer.text;
}

std::string Tensor::to_string() const {
  const Lazy& x = lazy_of(*this);
  if (!lazy::forceable(x.value)) return str_cat("<traced ", detail::describe(x), ">");
  constexpr std::string_view kStart = "Tensor(";
  const std::string text = detail::elements_text(*this, kStart.size());
  std::string shape;
  if (size() > kShownWhole || size() == 0) shape = str_cat(", shape=", hlo::dims_to_string(x.value.dims()));
  if (lazy::differentiated(x.value))
    return str_cat("<differentiated ", detail::describe(x), " = ", text, ">");
  return str_cat(kStart, text, shape, ", dtype=", name(dtype()), ")");
}

std::ostream& operator<<(std::ostream& out, const Tensor& tensor) { return out << tensor.to_string(); }

}  // namespace lamina
