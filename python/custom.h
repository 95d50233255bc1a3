// Derivative rules written in Python.
#ifndef LAMINA_PYTHON_CUSTOM_H_
#define LAMINA_PYTHON_CUSTOM_H_

#include <pybind11/pybind11.h>

namespace lamina::python {

void add_custom(pybind11::module_& module);

}  // namespace lamina::python

#endif  // LAMINA_PYTHON_CUSTOM_H_
