// What a jitted function read besides its arguments: whether it is still so, asked at each call.
#ifndef LAMINA_PYTHON_READS_H_
#define LAMINA_PYTHON_READS_H_

#include <pybind11/pybind11.h>

namespace lamina::python {

void add_reads(pybind11::module_& m);

}  // namespace lamina::python

#endif  // LAMINA_PYTHON_READS_H_
