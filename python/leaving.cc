#include "python/leaving.h"

#include <cmath>
#include <complex>
#include <optional>

#include "lazy/delivery.h"
#include "lazy/placement.h"
#include "lazy/scopes.h"
#include "python/location.h"
#include "python/tensor.h"

namespace py = pybind11;

namespace lamina::python {
namespace {

using hlo::DType;

// Makes Python's number of an element; null where the type is not one that has it.
using FromElement = PyObject* (*)(const void* element);

template <typename T>
PyObject* integer_of(const void* element) {
  const T v = *static_cast<const T*>(element);
  if constexpr (std::is_signed_v<T>)
    return PyLong_FromLongLong(v);
  else
    return PyLong_FromUnsignedLongLong(v);
}
template <typename T>
PyObject* real_of(const void* element) {
  return PyFloat_FromDouble(*static_cast<const T*>(element));
}
template <typename T>
PyObject* complex_of(const void* element) {
  const auto z = *static_cast<const std::complex<T>*>(element);
  return PyComplex_FromDoubles(z.real(), z.imag());
}
PyObject* truth_of(const void* element) {
  return PyBool_FromLong(*static_cast<const uint8_t*>(element) != 0);
}

FromElement from_element(DType t) {
  switch (t) {
    case DType::kBool:
      return truth_of;
    case DType::kS8:
      return integer_of<int8_t>;
    case DType::kS16:
      return integer_of<int16_t>;
    case DType::kS32:
      return integer_of<int32_t>;
    case DType::kS64:
      return integer_of<int64_t>;
    case DType::kU8:
      return integer_of<uint8_t>;
    case DType::kU16:
      return integer_of<uint16_t>;
    case DType::kU32:
      return integer_of<uint32_t>;
    case DType::kU64:
      return integer_of<uint64_t>;
    case DType::kF32:
      return real_of<float>;
    case DType::kF64:
      return real_of<double>;
    case DType::kC64:
      return complex_of<float>;
    case DType::kC128:
      return complex_of<double>;
    default:
      return nullptr;
  }
}

// The array of a value that no transform of any thread has a part in; null elsewhere. Throws where it cannot
// be computed.
jit::ArrayPtr plain_array(PyObject* tensor) {
  const hlo::Value value = lazy_of(tensor).value;
  if (value.node()->stamp() != 0 || reads_wait() || !lazy::nothing_open()) return {};
  if (jit::ArrayPtr known = jit::array_of(value)) return known;
  UserLocation location;
  return lazy::array(value);
}

// f(the element, how it becomes a number) of a Tensor with one element.
template <typename F>
PyObject* of_element(PyObject* tensor, F f) {
  try {
    const hlo::Type* type = lazy_of(tensor).value.type();
    const FromElement from = type->num_elements == 1 ? from_element(type->dtype) : nullptr;
    if (!from) return nullptr;
    const jit::ArrayPtr array = plain_array(tensor);
    return array ? f(lazy::host_bytes(*array), from, type) : nullptr;
  } catch (...) {
    set_python_error();
    return nullptr;
  }
}

// Nested lists of the elements along dimensions `at` and on.
PyObject* nested(const hlo::Dims& dims, size_t at, const std::byte*& next, int64_t width, FromElement from) {
  if (at == dims.size()) {
    PyObject* const number = from(next);
    next += width;
    return number;
  }
  PyObject* const out = PyList_New(dims[at]);
  for (int64_t i = 0; out && i < dims[at]; ++i) {
    PyObject* const item = nested(dims, at + 1, next, width, from);
    if (!item) {
      Py_DECREF(out);
      return nullptr;
    }
    PyList_SET_ITEM(out, i, item);
  }
  return out;
}

}  // namespace

PyObject* item_of(PyObject* tensor) {
  return of_element(tensor, [](const void* x, FromElement from, const hlo::Type*) { return from(x); });
}

PyObject* float_of(PyObject* tensor) {
  return of_element(tensor, [](const void* x, FromElement from, const hlo::Type* t) -> PyObject* {
    if (t->dtype == DType::kF32 || t->dtype == DType::kF64) return from(x);
    if (hlo::is_complex(t->dtype)) return nullptr;
    PyObject* const number = from(x);
    PyObject* const out = number ? PyNumber_Float(number) : nullptr;
    Py_XDECREF(number);
    return out;
  });
}

PyObject* int_of(PyObject* tensor) {
  return of_element(tensor, [](const void* x, FromElement from, const hlo::Type* t) -> PyObject* {
    if (hlo::is_complex(t->dtype)) return nullptr;
    PyObject* const number = from(x);
    PyObject* const out = number ? PyNumber_Long(number) : nullptr;
    Py_XDECREF(number);
    if (!out) PyErr_Clear();  // of NaN or infinity: the general way tells it
    return out;
  });
}

PyObject* index_of(PyObject* tensor) {
  return of_element(tensor, [](const void* x, FromElement from, const hlo::Type* t) -> PyObject* {
    return hlo::is_integer(t->dtype) && t->rank() == 0 ? from(x) : nullptr;
  });
}

PyObject* bool_of(PyObject* tensor) {
  return of_element(tensor, [](const void* x, FromElement from, const hlo::Type*) -> PyObject* {
    PyObject* const number = from(x);
    const int truth = number ? PyObject_IsTrue(number) : -1;
    Py_XDECREF(number);
    return truth < 0 ? nullptr : PyBool_FromLong(truth);
  });
}

PyObject* list_of(PyObject* tensor) {
  try {
    const hlo::Type* type = lazy_of(tensor).value.type();
    const FromElement from = from_element(type->dtype);
    if (!from) return nullptr;
    const jit::ArrayPtr array = plain_array(tensor);
    if (!array) return nullptr;
    const auto* next = lazy::host_bytes(*array);
    return nested(type->dims, 0, next, hlo::byte_size(type->dtype), from);
  } catch (...) {
    set_python_error();
    return nullptr;
  }
}

bool computed_now(PyObject* tensor) {
  try {
    if (!plain_array(tensor)) return false;
    lazy::wait_for(std::span(&lazy_of(tensor).value, 1));
    return true;
  } catch (...) {
    set_python_error();
    return false;
  }
}

}  // namespace lamina::python
