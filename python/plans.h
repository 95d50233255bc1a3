// Plan files, for lamina.plans.
#ifndef LAMINA_PYTHON_PLANS_H_
#define LAMINA_PYTHON_PLANS_H_

#include <pybind11/pybind11.h>

namespace lamina::python {

void add_plans(pybind11::module_& m);

}  // namespace lamina::python

#endif  // LAMINA_PYTHON_PLANS_H_
