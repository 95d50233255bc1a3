// StableHLO text in and out, for lamina.stablehlo.
#ifndef LAMINA_PYTHON_STABLEHLO_H_
#define LAMINA_PYTHON_STABLEHLO_H_

#include <pybind11/pybind11.h>

namespace lamina::python {

void add_stablehlo(pybind11::module_& m);

}  // namespace lamina::python

#endif  // LAMINA_PYTHON_STABLEHLO_H_
