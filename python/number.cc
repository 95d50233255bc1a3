#include "python/number.h"

#include <cmath>
#include <complex>
#include <string_view>

#include "hlo/builder.h"
#include "hlo/half.h"
#include "python/hooks.h"
#include "python/tensor.h"

namespace lamina::python {

namespace py = pybind11;

using hlo::DType;
using lazy::Lazy;

namespace {

// A free number of a function being traced (python: _observed.Observed): its place is taken by a parameter.
bool is_observed(PyObject* o) {
  static PyObject* type = nullptr;
  if (!type) type = hook("observed");
  return reinterpret_cast<PyObject*>(Py_TYPE(o)) == type;
}

std::optional<hlo::Value> observed_value(PyObject* o, DType dtype) {
  const py::object tensor = py::reinterpret_steal<py::object>(PyObject_GetAttrString(o, "tensor"));
  if (!tensor) return std::nullopt;
  const hlo::Value exact = lazy_of(tensor.ptr()).value;
  if (hlo::is_integer(dtype) &&
      !(exact.dtype() == DType::kS32 && hlo::is_signed(dtype) && hlo::bit_width(dtype) >= 32)) {
    // Whether it fits depends on its value, by which the trace is then guarded.
    const py::object value = py::reinterpret_steal<py::object>(PyObject_CallMethod(o, "use", nullptr));
    return value ? number_value(value.ptr(), dtype) : std::nullopt;
  }
  hlo::Builder b;
  hlo::Value v = b.convert(exact, dtype);
  lazy::check(b.status());
  return v;
}

template <typename T>
hlo::Value number_of(DType dtype, T x) {
  return lazy::number(dtype, &x);
}

// In a float type of 16 bits or more, rounded once; none in other types, for which there are general ways.
std::optional<hlo::Value> float_number(DType dtype, double x) {
  switch (dtype) {
    case DType::kF64:
      return number_of(dtype, x);
    case DType::kF32:
      return number_of(dtype, static_cast<float>(x));
    case DType::kF16:
      return number_of(dtype, hlo::to_f16(hlo::to_f32_odd(x)));
    case DType::kBF16:
      return number_of(dtype, hlo::to_bf16(hlo::to_f32_odd(x)));
    default:
      return std::nullopt;
  }
}

}  // namespace

namespace {

// Type of NumPy's scalars; null while nobody has imported NumPy.
PyTypeObject* numpy_scalar() {
  static PyTypeObject* type = nullptr;
  if (type) return type;
  static PyObject* const name = PyUnicode_InternFromString("numpy");
  PyObject* const module = PyDict_GetItem(PyImport_GetModuleDict(), name);
  PyObject* const generic = module ? PyObject_GetAttrString(module, "generic") : nullptr;
  if (!generic) PyErr_Clear();
  type = reinterpret_cast<PyTypeObject*>(generic);
  return type;
}

bool is_exact_number(PyObject* o) {
  return PyFloat_CheckExact(o) || PyLong_CheckExact(o) || PyBool_Check(o) || PyComplex_CheckExact(o) ||
         is_observed(o);
}

// The kind of a NumPy scalar as a letter of its dtype.kind; 0 if it is no number.
char numpy_kind(PyObject* o) {
  const py::object dtype = py::reinterpret_steal<py::object>(PyObject_GetAttrString(o, "dtype"));
  if (!dtype) throw py::error_already_set();
  const char kind = py::str(dtype.attr("kind")).cast<std::string>()[0];
  if (std::string_view("biufc").find(kind) != std::string_view::npos) return kind;
  // Types of the package ml_dtypes.
  const std::optional<DType> own = hlo::parse_dtype(py::str(dtype.attr("name")).cast<std::string>());
  return !own ? '\0' : hlo::is_integer(*own) ? 'i' : 'f';
}

}  // namespace

bool is_numpy_scalar(PyObject* o) {
  PyTypeObject* const scalar = numpy_scalar();
  return scalar && PyObject_TypeCheck(o, scalar);
}

bool is_plain_number(PyObject* o) {
  if (is_exact_number(o) || PyFloat_Check(o) || PyLong_Check(o) || PyComplex_Check(o)) return true;
  return is_numpy_scalar(o) && numpy_kind(o) != '\0';
}

py::object plain_number(PyObject* o) {
  if (is_exact_number(o)) return py::reinterpret_borrow<py::object>(o);
  char kind = PyFloat_Check(o) ? 'f' : PyLong_Check(o) ? 'i' : PyComplex_Check(o) ? 'c' : '\0';
  if (!kind && is_numpy_scalar(o)) kind = numpy_kind(o);
  PyObject* out = nullptr;
  switch (kind) {
    case 'b':
      out = PyBool_FromLong(PyObject_IsTrue(o));
      break;
    case 'i':
    case 'u':
      out = PyNumber_Long(o);
      break;
    case 'f':
      out = PyNumber_Float(o);
      break;
    case 'c':
      out = PyObject_CallOneArg(reinterpret_cast<PyObject*>(&PyComplex_Type), o);
      break;
    default:
      return {};
  }
  if (!out) throw py::error_already_set();
  return py::reinterpret_steal<py::object>(out);
}

DType default_dtype(PyObject* o) {
  const lazy::DefaultTypes& defaults = lazy::default_types();
  if (is_observed(o)) {
    PyObject* tensor = PyObject_GetAttrString(o, "tensor");
    const bool is_float = tensor && lazy_of(tensor).value.dtype() == DType::kF64;
    Py_XDECREF(tensor);
    return is_float ? defaults.floating : defaults.integer;
  }
  if (PyBool_Check(o)) return DType::kBool;
  if (PyLong_Check(o)) {
    int overflow = 0;
    const long long v = PyLong_AsLongLongAndOverflow(o, &overflow);
    const int spare = 64 - hlo::bit_width(defaults.integer);
    return overflow == 0 && v == (v << spare) >> spare ? defaults.integer : DType::kS64;
  }
  return PyComplex_Check(o) ? defaults.complex() : defaults.floating;
}

hlo::Value element_for(PyObject* number, DType dtype) {
  if (is_tensor(number)) {
    const Lazy& x = lazy_of(number);
    return x.value.rank() == 0 && x.value.dtype() == dtype ? x.value : hlo::Value();
  }
  const bool fits = PyFloat_CheckExact(number)  ? hlo::is_float(dtype)
                    : PyLong_CheckExact(number) ? hlo::is_float(dtype) || hlo::is_integer(dtype)
                                                : PyBool_Check(number) && dtype == DType::kBool;
  if (!fits) return {};
  const std::optional<hlo::Value> element = number_value(number, dtype);
  if (!element) PyErr_Clear();
  return element.value_or(hlo::Value());
}

std::optional<Lazy> number_lazy(PyObject* o) {
  const DType dtype = default_dtype(o), widest = lazy::wide_type(dtype);
  std::optional<hlo::Value> value = number_value(o, dtype);
  if (!value || PyBool_Check(o)) return value ? std::optional(Lazy{*value, false}) : std::nullopt;
  if (widest == dtype) return Lazy{*value, true};
  std::optional<hlo::Value> wide = number_value(o, widest);
  if (!wide) return std::nullopt;
  return Lazy{*value, true, *wide};
}

std::optional<hlo::Value> number_value(PyObject* o, DType dtype) {
  if (is_observed(o)) return observed_value(o, dtype);
  if (PyComplex_Check(o)) {
    const std::complex<double> z(PyComplex_RealAsDouble(o), PyComplex_ImagAsDouble(o));
    if (!hlo::is_complex(dtype)) {
      PyErr_Format(PyExc_TypeError,
                   "the complex number %R does not fit the element type %s: take its real part", o,
                   std::string(hlo::info(dtype).numpy_name).c_str());
      return std::nullopt;
    }
    if (dtype == DType::kC128) return lazy::number(dtype, &z);
    const std::complex<float> n(z);
    return lazy::number(DType::kC64, &n);
  }
  if (PyLong_Check(o)) {
    int overflow = 0;
    const long long v = PyLong_AsLongLongAndOverflow(o, &overflow);
    if (overflow == 0) {
      const double exact = dtype == DType::kF64 ? static_cast<double>(v) : hlo::to_f64_odd(int64_t{v});
      if (std::optional<hlo::Value> x = float_number(dtype, exact)) return x;
      if (dtype == DType::kS64) return number_of(dtype, int64_t{v});
      if (dtype == DType::kS32 && v == static_cast<int32_t>(v))
        return number_of(dtype, static_cast<int32_t>(v));
      const hlo::LiteralPtr literal = hlo::Literal::scalar_int(dtype, v);
      if (hlo::is_integer(dtype) && (literal->int_at(0) != v || (v < 0 && hlo::is_unsigned(dtype)))) {
        PyErr_Format(PyExc_OverflowError, "the Python integer %R does not fit the element type %s", o,
                     std::string(hlo::info(dtype).numpy_name).c_str());
        return std::nullopt;
      }
      return lazy::number(dtype, literal->data());
    }
    if (dtype == DType::kU64 && overflow > 0) {  // of more than 63 bits
      const unsigned long long u = PyLong_AsUnsignedLongLong(o);
      if (PyErr_Occurred()) return std::nullopt;
      return lazy::number(dtype, &u);
    }
    if (hlo::is_integer(dtype)) {
      PyErr_Format(PyExc_OverflowError, "the Python integer %R does not fit 64 bits", o);
      return std::nullopt;
    }
  }
  const double d = PyFloat_AsDouble(o);
  if (d == -1.0 && PyErr_Occurred()) return std::nullopt;
  if (std::optional<hlo::Value> x = float_number(dtype, d)) return x;
  const hlo::LiteralPtr literal = hlo::Literal::scalar(dtype, d);
  if (hlo::is_integer(dtype) && !(std::abs(literal->double_at(0) - std::trunc(d)) < 1)) {
    PyErr_Format(PyExc_OverflowError, "the Python float %R does not fit the element type %s", o,
                 std::string(hlo::info(dtype).numpy_name).c_str());
    return std::nullopt;
  }
  return lazy::number(dtype, literal->data());
}

}  // namespace lamina::python
