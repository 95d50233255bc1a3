// Python numbers as lazy arrays: weak, in the default type of their kind unless they stand beside an array.
#ifndef LAMINA_PYTHON_NUMBER_H_
#define LAMINA_PYTHON_NUMBER_H_

#include <pybind11/pybind11.h>

#include <optional>

#include "lazy/lazy.h"

namespace lamina::python {

// A number whose element type is not decided: one of Python's, of its subclasses, or a NumPy scalar.
bool is_plain_number(PyObject* o);
// A scalar of NumPy: a number, or a time, text or record.
bool is_numpy_scalar(PyObject* o);
// As one of Python's own types (or one observed while a function is traced); null for anything else.
pybind11::object plain_number(PyObject* o);

// Of what plain_number gives:
// The element type on its own; weak unless it is a bool.
hlo::DType default_dtype(PyObject* o);
// As an element of `dtype`, converted once. Empty, with an OverflowError, if it does not fit.
std::optional<hlo::Value> number_value(PyObject* o, hlo::DType dtype);
// A number (of Python's own types, or a Tensor of no dimensions) as an element of that type, where it would
// be taken too by what is written in Python; null, without an exception, elsewhere.
hlo::Value element_for(PyObject* number, hlo::DType dtype);
// On its own, with all its bits. Empty, with an OverflowError, if it does not fit 64 bits.
std::optional<lazy::Lazy> number_lazy(PyObject* o);

}  // namespace lamina::python

#endif  // LAMINA_PYTHON_NUMBER_H_
