#include "python/hooks.h"

namespace lamina::python {
namespace {
PyObject* all_hooks = nullptr;
}  // namespace

void set_hooks(const pybind11::dict& hooks) { all_hooks = hooks.inc_ref().ptr(); }

PyObject* hook(const char* name) { return all_hooks ? PyDict_GetItemString(all_hooks, name) : nullptr; }

PyObject* call_hook(const char* name, PyObject* a, PyObject* b, PyObject* c) {
  PyObject* const key = PyUnicode_FromString(name);
  if (!key) return nullptr;
  PyObject* f = all_hooks ? PyDict_GetItemWithError(all_hooks, key) : nullptr;
  Py_DECREF(key);
  if (!f && PyErr_Occurred()) return nullptr;
  if (!f) {
    PyErr_Format(PyExc_RuntimeError, "lamina is not fully imported: %s is missing", name);
    return nullptr;
  }
  PyObject* result = PyObject_CallFunctionObjArgs(f, a, b, c, nullptr);
  if (!result) explain_error(a, b);
  return result;
}

void explain_error(PyObject* a, PyObject* b) {
  PyObject *type, *value, *trace;
  PyErr_Fetch(&type, &value, &trace);
  PyErr_NormalizeException(&type, &value, &trace);
  const bool ours = type == PyExc_ValueError || type == PyExc_TypeError || type == PyExc_IndexError;
  PyObject* explain = ours ? hook("explain") : nullptr;
  PyObject* message = explain ? PyObject_Str(value) : nullptr;
  PyObject* told = message ? PyObject_CallFunctionObjArgs(explain, message, a, b, nullptr) : nullptr;
  Py_XDECREF(message);
  if (!told) {
    PyErr_Clear();
    PyErr_Restore(type, value, trace);
    return;
  }
  PyErr_SetObject(type, told);
  Py_DECREF(told);
  Py_XDECREF(type);
  Py_XDECREF(value);
  Py_XDECREF(trace);
}

}  // namespace lamina::python
