#include "python/stopped.h"

#include <utility>

#include "python/location.h"

namespace py = pybind11;

namespace lamina::python {
namespace {

struct Stopped {
  PyObject* tensor = nullptr;  // not counted, nor is the frame: compared only
  PyFrameObject* frame = nullptr;
  int position = 0;
  py::object exception;
};
Stopped& stopped() {
  static auto* kept = new Stopped;
  return *kept;
}

}  // namespace

void note_stopped(PyObject* tensor) {
  const Stopped forgotten = std::exchange(stopped(), {});
  if (!PyErr_Occurred()) return;
  PyObject *type, *value, *trace;
  PyErr_Fetch(&type, &value, &trace);
  PyErr_NormalizeException(&type, &value, &trace);
  if (trace) PyException_SetTraceback(value, trace);
  PyFrameObject* const frame = PyEval_GetFrame();
  stopped() = {tensor, frame, frame ? position_of(frame) : 0, py::reinterpret_borrow<py::object>(value)};
  PyErr_Restore(type, value, trace);
}

void add_stopped(py::module_& m) {
  m.def(
      "raise_stopped",
      [](const py::object& tensor) {
        const Stopped kept = std::exchange(stopped(), {});
        PyFrameObject* const here = PyEval_GetFrame();
        const auto caller = py::reinterpret_steal<py::object>(
            reinterpret_cast<PyObject*>(here ? PyFrame_GetBack(here) : nullptr));
        auto* const frame = reinterpret_cast<PyFrameObject*>(caller.ptr());
        if (!kept.exception || kept.tensor != tensor.ptr() || !frame || kept.frame != frame ||
            kept.position != position_of(frame))
          return;
        PyErr_SetObject(reinterpret_cast<PyObject*>(Py_TYPE(kept.exception.ptr())), kept.exception.ptr());
        throw py::error_already_set();
      },
      "Called by __array__: raises what stopped the computation of this Tensor when its buffer was asked for "
      "at the "
      "same place.");
}

}  // namespace lamina::python
