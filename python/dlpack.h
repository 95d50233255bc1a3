// Arrays shared with other libraries without a copy: DLPack, and what CUDA's array interface needs.
#ifndef LAMINA_PYTHON_DLPACK_H_
#define LAMINA_PYTHON_DLPACK_H_

#include <pybind11/pybind11.h>

namespace lamina::python {

void add_dlpack(pybind11::module_& module);

}  // namespace lamina::python

#endif  // LAMINA_PYTHON_DLPACK_H_
