// Host callbacks in Python, their order, checks, and the named axes of vmap.
#ifndef LAMINA_PYTHON_EFFECTS_H_
#define LAMINA_PYTHON_EFFECTS_H_

#include <pybind11/pybind11.h>

namespace lamina::python {

void add_effects(pybind11::module_& module);

}  // namespace lamina::python

#endif  // LAMINA_PYTHON_EFFECTS_H_
