// Loops and branches of Python functions over lists of tensors.
#ifndef LAMINA_PYTHON_CONTROL_H_
#define LAMINA_PYTHON_CONTROL_H_

#include <pybind11/pybind11.h>

namespace lamina::python {

void add_control(pybind11::module_& module);

}  // namespace lamina::python

#endif  // LAMINA_PYTHON_CONTROL_H_
