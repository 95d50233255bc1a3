// What weak references refer to, in the form of every version of Python that there is.
#ifndef LAMINA_PYTHON_WEAK_H_
#define LAMINA_PYTHON_WEAK_H_

#include <pybind11/pybind11.h>

namespace lamina::python {

// The object of a weak reference, held; null, without an exception, once it is gone.
inline PyObject* referent(PyObject* weak) {
  PyObject* found = nullptr;
#if PY_VERSION_HEX >= 0x030D0000
  if (PyWeakref_GetRef(weak, &found) < 0) PyErr_Clear();
#else
  found = PyWeakref_GetObject(weak);
  if (!found) PyErr_Clear();
  if (found == Py_None) found = nullptr;
  Py_XINCREF(found);
#endif
  return found;
}

// Whether a weak reference is to this object.
inline bool refers_to(PyObject* weak, PyObject* object) {
  PyObject* const found = referent(weak);
  Py_XDECREF(found);
  return found && found == object;
}

}  // namespace lamina::python

#endif  // LAMINA_PYTHON_WEAK_H_
