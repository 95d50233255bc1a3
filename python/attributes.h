// Operations and their attributes, named from Python.
//
// Contract: what is wrong raises. OverflowError for integers beyond 64 bits, TypeError for attributes that
// the operation does not have, lacks or that are of another kind, ValueError for names of no operation.
#ifndef LAMINA_PYTHON_ATTRIBUTES_H_
#define LAMINA_PYTHON_ATTRIBUTES_H_

#include <pybind11/pybind11.h>

#include <string>

#include "hlo/op.h"

namespace lamina::python {

const hlo::OpDef& op_of(const std::string& name);
const hlo::Attrs* attrs_of(const hlo::OpDef& def, const pybind11::kwargs& kwargs);

}  // namespace lamina::python

#endif  // LAMINA_PYTHON_ATTRIBUTES_H_
