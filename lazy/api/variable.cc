#include "lazy/api/variable.h"

#include <algorithm>
#include <cmath>
#include <complex>

#include "hlo/dtype.h"
#include "hlo/literal.h"
#include "hlo/narrow.h"
#include "lazy/location_text.h"
#include "lazy/scopes.h"

namespace lamina {
namespace {

using enum hlo::DType;
#define LAMINA_SAME(name, internal) \
  static_assert(static_cast<int>(DType::name) == static_cast<int>(internal));
LAMINA_SAME(boolean, kBool)
LAMINA_SAME(int8, kS8)
LAMINA_SAME(int16, kS16)
LAMINA_SAME(int32, kS32)
LAMINA_SAME(int64, kS64)
LAMINA_SAME(uint8, kU8)
LAMINA_SAME(uint16, kU16)
LAMINA_SAME(uint32, kU32)
LAMINA_SAME(uint64, kU64)
LAMINA_SAME(float16, kF16)
LAMINA_SAME(bfloat16, kBF16)
LAMINA_SAME(float32, kF32)
LAMINA_SAME(float64, kF64)
LAMINA_SAME(complex64, kC64)
LAMINA_SAME(complex128, kC128)
LAMINA_SAME(int2, kS2)
LAMINA_SAME(int4, kS4)
LAMINA_SAME(uint2, kU2)
LAMINA_SAME(uint4, kU4)
LAMINA_SAME(float4_e2m1fn, kF4E2M1FN)
LAMINA_SAME(float6_e2m3fn, kF6E2M3FN)
LAMINA_SAME(float6_e3m2fn, kF6E3M2FN)
LAMINA_SAME(float8_e3m4, kF8E3M4)
LAMINA_SAME(float8_e4m3, kF8E4M3)
LAMINA_SAME(float8_e4m3fn, kF8E4M3FN)
LAMINA_SAME(float8_e4m3fnuz, kF8E4M3FNUZ)
LAMINA_SAME(float8_e4m3b11fnuz, kF8E4M3B11FNUZ)
LAMINA_SAME(float8_e5m2, kF8E5M2)
LAMINA_SAME(float8_e5m2fnuz, kF8E5M2FNUZ)
LAMINA_SAME(float8_e8m0fnu, kF8E8M0FNU)
#undef LAMINA_SAME

}  // namespace

const char* name(DType dtype) { return hlo::info(detail::to_hlo(dtype)).numpy_name.data(); }
int64_t size_of(DType dtype) { return hlo::byte_size(detail::to_hlo(dtype)); }

namespace detail {

Variable::Variable(lazy::Lazy value)
    : cell(std::move(value)), made_in(lazy::open_scopes().empty() ? 0 : lazy::open_scopes().back().stamp) {
  const hlo::Dims& dims = cell.get().value.dims();
  shape.assign(dims.begin(), dims.end());
}

const lazy::Lazy& lazy_of(const Tensor& tensor) {
  if (!tensor.defined())
    throw Error(ErrorKind::kValue, "a Tensor was used that names no value: assign one first");
  return static_cast<const Variable&>(*tensor.variable()).cell.get();
}

hlo::DType default_type(const Number& number) {
  const hlo::DType own = to_hlo(number.dtype);
  if (hlo::is_bool(own)) return own;
  const lazy::DefaultTypes& defaults = lazy::default_types();
  if (hlo::is_complex(own)) return defaults.complex();
  if (hlo::is_float(own)) return defaults.floating;
  if (own == hlo::DType::kU64 && number.integer < 0) return own;
  const hlo::LiteralPtr literal = hlo::Literal::scalar_int(defaults.integer, number.integer);
  return literal->int_at(0) == number.integer ? defaults.integer : hlo::DType::kS64;
}

lazy::Lazy number_value(const Number& number, hlo::DType dtype) {
  const bool weak = number.dtype != DType::boolean;
  if (hlo::is_complex(dtype)) {
    const std::complex<double> wide(number.re, number.im);
    const std::complex<float> narrow(wide);
    const bool is_wide = dtype == hlo::DType::kC128;
    return {lazy::number(dtype, is_wide ? static_cast<const void*>(&wide) : &narrow), weak};
  }
  const hlo::LiteralPtr literal = hlo::is_integer(dtype) || hlo::is_bool(dtype)
                                      ? hlo::Literal::scalar_int(dtype, number.integer)
                                      : hlo::Literal::scalar(dtype, number.re);
  if (hlo::is_integer(dtype) && literal->int_at(0) != number.integer)
    fail(ErrorKind::kValue, str_cat("the number ", number.integer, " does not fit the element type ",
                                    hlo::info(dtype).numpy_name));
  return {lazy::number(dtype, literal->data()), weak};
}

lazy::Lazy weak_number(const Number& number) {
  const hlo::DType dtype = default_type(number), widest = lazy::wide_type(dtype);
  lazy::Lazy out = number_value(number, dtype);
  if (out.weak && widest != dtype) out.wide = number_value(number, widest).value;
  return out;
}

lazy::Lazy lazy_of(const TensorOrNumber& operand) {
  if (!operand.number()) return lazy_of(operand.tensor());
  return weak_number(*operand.number());
}

std::vector<lazy::Lazy> promoted(hlo::Builder& b, std::initializer_list<const TensorOrNumber*> operands) {
  lazy::PromotedType type{};
  bool first = true;
  for (const TensorOrNumber* o : operands) {
    const bool is_number = o->number().has_value();
    const hlo::DType own = is_number ? default_type(*o->number()) : lazy_of(o->tensor()).value.dtype();
    const bool weak = is_number ? o->number()->dtype != DType::boolean : lazy_of(o->tensor()).weak;
    type = first ? lazy::PromotedType{own, weak} : lazy::promote(type.dtype, type.weak, own, weak);
    first = false;
  }
  std::vector<lazy::Lazy> out;
  for (const TensorOrNumber* o : operands) {
    if (type.weak)
      out.push_back(lazy::recast(b, lazy_of(*o), type.dtype));
    else if (o->number())
      out.push_back(number_value(*o->number(), type.dtype));
    else
      out.push_back({lazy::converted(b, lazy_of(o->tensor()), type.dtype), false});
    out.back().weak = type.weak;
  }
  return out;
}

Tensor tensor_of(lazy::Lazy value) { return Tensor(Ref<Counted>(new Variable(std::move(value)))); }

void fail(ErrorKind kind, const std::string& message) { throw Error(kind, message); }

bool& serving() {
  thread_local bool now = false;
  return now;
}

std::string describe(const lazy::Lazy& x) {
  return str_cat(hlo::info(x.value.dtype()).numpy_name, hlo::dims_to_string(x.value.dims()));
}

int64_t canonical_axis(int64_t axis, int64_t rank, const char* what) {
  if (axis < -rank || axis >= rank)
    fail(ErrorKind::kIndex,
         str_cat(what, ": axis ", axis, " does not exist in an array of ", rank, " dimensions"));
  return axis < 0 ? axis + rank : axis;
}

hlo::Dims canonical_axes(const Axes& axes, int64_t rank, const char* what) {
  hlo::Dims out;
  if (axes.empty()) {
    for (int64_t i = 0; i < rank; ++i) out.push_back(i);
    return out;
  }
  for (int64_t axis : axes) out.push_back(canonical_axis(axis, rank, what));
  std::sort(out.begin(), out.end());
  for (size_t i = 1; i < out.size(); ++i)
    if (out[i] == out[i - 1]) fail(ErrorKind::kValue, str_cat(what, ": axis ", out[i], " is named twice"));
  return out;
}

hlo::Dims dims_of(const Shape& shape, const char* what) {
  for (int64_t d : shape)
    if (d < 0) fail(ErrorKind::kValue, str_cat(what, ": sizes cannot be negative, as ", d, " is"));
  return hlo::Dims(shape.begin(), shape.end());
}

lazy::Lazy inexact(hlo::Builder& b, lazy::Lazy x) {
  return lazy::recast(b, x, lazy::inexact_type(x.value.dtype()));
}

std::vector<lazy::Lazy> same_shape(hlo::Builder& b, std::vector<lazy::Lazy> operands, bool promote,
                                   const char* what) {
  if (promote) lazy::promote_operands(b, operands);
  std::vector<hlo::Dims> shapes;
  for (const lazy::Lazy& o : operands) shapes.push_back(o.value.dims());
  const hlo::Dims dims = lazy::broadcast_shapes(shapes, what);
  for (lazy::Lazy& o : operands) {
    o.value = lazy::broadcast_to(b, o.value, dims);
    o.wide = lazy::broadcast_to(b, o.wide, dims);
  }
  return operands;
}

}  // namespace detail
}  // namespace lamina
