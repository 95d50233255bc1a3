// Recorded programs as Python containers, for readers of them (lamina._traces).
#ifndef LAMINA_PYTHON_EQUATIONS_H_
#define LAMINA_PYTHON_EQUATIONS_H_

#include <pybind11/pybind11.h>

namespace lamina::python {

void add_equations(pybind11::module_& module);

}  // namespace lamina::python

#endif  // LAMINA_PYTHON_EQUATIONS_H_
