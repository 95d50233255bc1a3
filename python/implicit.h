// Python functions that are defined by an equation.
#ifndef LAMINA_PYTHON_IMPLICIT_H_
#define LAMINA_PYTHON_IMPLICIT_H_

#include <pybind11/pybind11.h>

namespace lamina::python {

void add_implicit(pybind11::module_& module);

}  // namespace lamina::python

#endif  // LAMINA_PYTHON_IMPLICIT_H_
