// Classes of C++ that hold Python objects, for the collector of cycles.
#ifndef LAMINA_PYTHON_TRAVERSED_H_
#define LAMINA_PYTHON_TRAVERSED_H_

#include <pybind11/pybind11.h>

namespace lamina::python {

// The T of an instance; null while it is being made.
template <typename T>
T* held_by(PyObject* self) {
  auto* instance = reinterpret_cast<pybind11::detail::instance*>(self);
  return static_cast<T*>(instance->get_value_and_holder().value_ptr());
}

// For py::class_<T>, of a T with `int traverse(visitproc, void*) const` and `void clear()`.
template <typename T>
pybind11::custom_type_setup traversed() {
  return pybind11::custom_type_setup([](PyHeapTypeObject* heap_type) {
    PyTypeObject& type = heap_type->ht_type;
    type.tp_flags |= Py_TPFLAGS_HAVE_GC;
    type.tp_traverse = [](PyObject* self, visitproc visit, void* arg) {
      Py_VISIT(Py_TYPE(self));
      const T* held = held_by<T>(self);
      return held ? held->traverse(visit, arg) : 0;
    };
    type.tp_clear = [](PyObject* self) {
      if (T* held = held_by<T>(self)) held->clear();
      return 0;
    };
  });
}

}  // namespace lamina::python

#endif  // LAMINA_PYTHON_TRAVERSED_H_
