// What stopped a computation whose result was asked for through the buffer protocol.
//
// NumPy asks for a buffer first and, where that raises for whatever reason, drops the exception and calls
// __array__, which would begin the work anew: Ctrl-C would be lost. So the exception is kept, and __array__
// raises it where it is called from the same place for the same Tensor. All under the interpreter lock.
#ifndef LAMINA_PYTHON_STOPPED_H_
#define LAMINA_PYTHON_STOPPED_H_

#include <pybind11/pybind11.h>

namespace lamina::python {

// Forgets what was kept; keeps the exception that is set now, if any, as that of `tensor`.
void note_stopped(PyObject* tensor);

void add_stopped(pybind11::module_& m);

}  // namespace lamina::python

#endif  // LAMINA_PYTHON_STOPPED_H_
