// What belongs to Python and is let go of by the library, on any thread and at any time.
#ifndef LAMINA_PYTHON_INTERPRETER_H_
#define LAMINA_PYTHON_INTERPRETER_H_

#include <pybind11/pybind11.h>

namespace lamina::python {

// f() with the interpreter's lock. Not where the interpreter has ended, as at a process's exit, when threads
// let go of what they kept: nothing of Python can be touched any more.
template <typename F>
void while_python_lives(F f) {
  if (!Py_IsInitialized()) return;
  const pybind11::gil_scoped_acquire gil;
  f();
}

}  // namespace lamina::python

#endif  // LAMINA_PYTHON_INTERPRETER_H_
