// Calls of jitted functions that a finished trace serves, without Python code of the library in between.
//
// Contract: python/lamina/_jit.py defines what a call means, and takes every call that is unusual: one inside
// a transform or under checks, of a signature or with reads that are new, of a function that branches on
// values or writes to its arguments. It tells what it found (`remember`), and later calls like it are served
// here, with the same results. All under the interpreter lock; a served call may run the user's code where it
// asks for what the function reads.
#ifndef LAMINA_PYTHON_JITTED_H_
#define LAMINA_PYTHON_JITTED_H_

#include <pybind11/pybind11.h>

#include <cstdint>

namespace lamina::python {

// Whether it is the jitted function `function` as a method of `self`.
bool is_bound_jit(PyObject* object, PyObject* function, PyObject* self);
// Whether any scope is open, in the whole process, under which calls are checked (python: _checks).
bool calls_are_checked();
// Calls served so far; of them those whose operands all had their values where the program ran.
int64_t direct_calls();
int64_t ready_calls();

void add_jitted(pybind11::module_& module);

}  // namespace lamina::python

#endif  // LAMINA_PYTHON_JITTED_H_
