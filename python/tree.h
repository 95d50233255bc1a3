// The usual containers flattened and built without Python code in between.
#ifndef LAMINA_PYTHON_TREE_H_
#define LAMINA_PYTHON_TREE_H_

#include <pybind11/pybind11.h>

namespace lamina::python {

void add_tree(pybind11::module_& module);

}  // namespace lamina::python

#endif  // LAMINA_PYTHON_TREE_H_
