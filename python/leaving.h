// Values of Tensors that leave as Python's numbers and lists, where nothing is in their way.
//
// Contract: python/lamina/_tensor.py defines these conversions and takes every unusual one: of a value that a
// transform is open on or that was given up, of several elements where one is needed, of element types that
// Python has no number for, with indices that wait to be checked. What is here gives the same.
#ifndef LAMINA_PYTHON_LEAVING_H_
#define LAMINA_PYTHON_LEAVING_H_

#include <pybind11/pybind11.h>

namespace lamina::python {

// Each is a new reference; null without an exception where the general way is needed.
PyObject* float_of(PyObject* tensor);
PyObject* int_of(PyObject* tensor);
PyObject* index_of(PyObject* tensor);
PyObject* bool_of(PyObject* tensor);
PyObject* item_of(PyObject* tensor);
PyObject* list_of(PyObject* tensor);
// Whether the value has been computed by this.
bool computed_now(PyObject* tensor);

}  // namespace lamina::python

#endif  // LAMINA_PYTHON_LEAVING_H_
