// Elementwise ops called from Python: the number slots of the Tensor type, and functions of one op, on the
// CPython API without pybind11 in between.
#ifndef LAMINA_PYTHON_ELEMENTWISE_H_
#define LAMINA_PYTHON_ELEMENTWISE_H_

#include <pybind11/pybind11.h>

#include <span>

#include "hlo/op.h"
#include "lazy/lazy.h"
#include "python/hooks.h"

namespace lamina::python {

// Records an op on Tensors, numbers and arrays, with promotion and broadcasting. A new reference;
// NotImplemented if an operand is nothing of that kind; null with an exception.
PyObject* elementwise(hlo::Op op, std::span<PyObject* const> operands,
                      const hlo::Attrs* attrs = hlo::no_attrs());

template <hlo::Op op>
PyObject* unary_slot(PyObject* a) {
  return elementwise(op, {{a}});
}
template <hlo::Op op>
PyObject* binary_slot(PyObject* a, PyObject* b) {
  PyObject* result = elementwise(op, {{a, b}});
  if (!result) explain_error(a, b);
  return result;
}
PyObject* multiply_slot(PyObject* a, PyObject* b);
PyObject* true_divide_slot(PyObject* a, PyObject* b);
PyObject* right_shift_slot(PyObject* a, PyObject* b);
PyObject* power_slot(PyObject* a, PyObject* b, PyObject* modulus);
PyObject* compare_slot(PyObject* a, PyObject* b, int op);

// Adds the type of functions of one op.
void add_elementwise_function(pybind11::module_& module);

}  // namespace lamina::python

#endif  // LAMINA_PYTHON_ELEMENTWISE_H_
