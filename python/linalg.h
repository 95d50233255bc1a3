// Linear algebra and Fourier transforms, for lamina.lax.linalg and lamina.lax.fft.
#ifndef LAMINA_PYTHON_LINALG_H_
#define LAMINA_PYTHON_LINALG_H_

#include <pybind11/pybind11.h>

namespace lamina::python {

void add_linalg(pybind11::module_& m);

}  // namespace lamina::python

#endif  // LAMINA_PYTHON_LINALG_H_
