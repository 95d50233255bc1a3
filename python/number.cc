#include "python/number.h"

#include <complex>

#include "hlo/builder.h"
#include "python/hooks.h"
#include "python/tensor.h"

namespace lamina::python {

using hlo::DType;

namespace {

// A free number of a function being traced (python: _read_set.Observed): its place is taken by a parameter.
bool is_observed(PyObject* o) {
  static PyObject* type = nullptr;
  if (!type) type = hook("observed");
  return reinterpret_cast<PyObject*>(Py_TYPE(o)) == type;
}

std::optional<hlo::Value> observed_value(PyObject* o, DType dtype) {
  PyObject* tensor = PyObject_GetAttrString(o, "tensor");
  if (!tensor) return std::nullopt;
  const hlo::Value exact = lazy_of(tensor).value;
  Py_DECREF(tensor);
  hlo::Builder b;
  hlo::Value v = b.convert(exact, dtype);
  lazy::check(b.status());
  return v;
}

template <typename T>
hlo::Value number_of(DType dtype, T x) {
  return lazy::number(dtype, &x);
}

}  // namespace

bool is_plain_number(PyObject* o) {
  return is_observed(o) || PyFloat_CheckExact(o) || PyLong_CheckExact(o) || PyBool_Check(o) ||
         PyComplex_CheckExact(o);
}

DType default_dtype(PyObject* o) {
  if (is_observed(o)) {
    PyObject* tensor = PyObject_GetAttrString(o, "tensor");
    const bool is_float = tensor && lazy_of(tensor).value.dtype() == DType::kF64;
    Py_XDECREF(tensor);
    return is_float ? DType::kF32 : DType::kS32;
  }
  if (PyBool_Check(o)) return DType::kBool;
  if (PyLong_Check(o)) {
    int overflow = 0;
    const long long v = PyLong_AsLongLongAndOverflow(o, &overflow);
    return overflow == 0 && v >= INT32_MIN && v <= INT32_MAX ? DType::kS32 : DType::kS64;
  }
  return PyComplex_Check(o) ? DType::kC64 : DType::kF32;
}

std::optional<hlo::Value> number_value(PyObject* o, DType dtype) {
  if (is_observed(o)) return observed_value(o, dtype);
  if (PyComplex_Check(o)) {
    const std::complex<double> z(PyComplex_RealAsDouble(o), PyComplex_ImagAsDouble(o));
    if (dtype == DType::kC128) return lazy::number(dtype, &z);
    const std::complex<float> n(z);
    return lazy::number(DType::kC64, &n);
  }
  if (PyLong_Check(o)) {
    int overflow = 0;
    const long long v = PyLong_AsLongLongAndOverflow(o, &overflow);
    if (overflow == 0) {
      if (dtype == DType::kF32) return number_of(dtype, static_cast<float>(v));
      const hlo::LiteralPtr literal = hlo::Literal::scalar_int(dtype, v);
      if (hlo::is_integer(dtype) && literal->int_at(0) != v) {
        PyErr_Format(PyExc_OverflowError, "the Python integer %R does not fit the element type %s", o,
                     std::string(hlo::info(dtype).numpy_name).c_str());
        return std::nullopt;
      }
      return lazy::number(dtype, literal->data());
    }
    if (dtype == DType::kU64 && overflow > 0) {
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
  if (dtype == DType::kF32) return number_of(dtype, static_cast<float>(d));
  return lazy::number(dtype, hlo::Literal::scalar(dtype, d)->data());
}

}  // namespace lamina::python
