// Python numbers as lazy arrays: weak, in the default type of their kind unless they stand beside an array.
#ifndef LAMINA_PYTHON_NUMBER_H_
#define LAMINA_PYTHON_NUMBER_H_

#include <pybind11/pybind11.h>

#include <optional>

#include "lazy/lazy.h"

namespace lamina::python {

// A number of Python's own; NumPy's float64 is a Python float too, but keeps its own type.
bool is_plain_number(PyObject* o);
// The element type a plain number has on its own; weak unless it is a bool.
hlo::DType default_dtype(PyObject* o);
// A plain number as an element of `dtype`, converted once. Empty, with an OverflowError, if it does not fit.
std::optional<hlo::Value> number_value(PyObject* o, hlo::DType dtype);

}  // namespace lamina::python

#endif  // LAMINA_PYTHON_NUMBER_H_
