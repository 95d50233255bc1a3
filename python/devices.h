// Devices, for lamina._devices.
#ifndef LAMINA_PYTHON_DEVICES_H_
#define LAMINA_PYTHON_DEVICES_H_

#include <pybind11/pybind11.h>

namespace lamina::python {

void add_devices(pybind11::module_& m);

}  // namespace lamina::python

#endif  // LAMINA_PYTHON_DEVICES_H_
