// Functions and objects of the Python half that the binding calls, by name.
//
// Contract: the package gives them once when it is imported (`set_hooks`); all of this needs the interpreter
// lock.
#ifndef LAMINA_PYTHON_HOOKS_H_
#define LAMINA_PYTHON_HOOKS_H_

#include <pybind11/pybind11.h>

namespace lamina::python {

void set_hooks(const pybind11::dict& hooks);
// Borrowed; null, without an exception, if there is none.
PyObject* hook(const char* name);
// Calls a hook with up to three arguments; null with an exception, told in the user's terms.
PyObject* call_hook(const char* name, PyObject* a, PyObject* b = nullptr, PyObject* c = nullptr);
// Tells the error that is set in the user's terms: the expression, its operands and where they were made.
// Frames of the library are left out of the traceback.
void explain_error(PyObject* a, PyObject* b);

}  // namespace lamina::python

#endif  // LAMINA_PYTHON_HOOKS_H_
