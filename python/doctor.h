// What `python -m lamina doctor` tells of the machine.
#ifndef LAMINA_PYTHON_DOCTOR_H_
#define LAMINA_PYTHON_DOCTOR_H_

#include <pybind11/pybind11.h>

namespace lamina::python {

void add_doctor(pybind11::module_& m);

}  // namespace lamina::python

#endif  // LAMINA_PYTHON_DOCTOR_H_
