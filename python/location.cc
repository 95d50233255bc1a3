#include "python/location.h"

#include <array>
#include <cstring>

#include "hlo/hash_map.h"
#include "hlo/strings.h"
#include "lamina/error.h"
#include "python/hooks.h"

namespace py = pybind11;

namespace lamina::python {
namespace {

// Whether a code object is the library's own, by its file.
bool is_library_code(PyCodeObject* code) {
  static auto* known = new HashMap<PyObject*, bool>;
  auto [it, inserted] = known->try_emplace(code->co_filename, false);
  if (inserted) {
    Py_INCREF(code->co_filename);
    const char* name = PyUnicode_AsUTF8(code->co_filename);
    PyObject* prefix = hook("package_path");
    const char* path = prefix ? PyUnicode_AsUTF8(prefix) : nullptr;
    it->second = name && path && std::strncmp(name, path, std::strlen(path)) == 0;
  }
  return it->second;
}

// Places seen lately, so that a line is looked up once: a table of this size forgets the older of two places
// that meet. The interpreter lock guards it.
struct Places {
  static constexpr size_t kSize = 4096;
  struct Entry {
    PyCodeObject* code = nullptr;  // held
    int position = 0;
    bool library = false;
    hlo::LocationId id = 0;
  };
  std::array<Entry, kSize> entries;

  static const Entry& find(PyCodeObject* code, PyFrameObject* frame) {
    static auto* places = new Places;
    const int position = position_of(frame);
    const uint64_t h =
        (reinterpret_cast<uint64_t>(code) + static_cast<uint64_t>(position)) * 0x9E3779B97F4A7C15u;
    Entry& e = places->entries[h >> 52];
    if (e.code == code && e.position == position) return e;
    hlo::LocationId id = 0;
    const bool library = is_library_code(code);
    if (!library) {
      const char* file = PyUnicode_AsUTF8(code->co_filename);
      const char* function = PyUnicode_AsUTF8(code->co_name);
      id = hlo::intern_location(file ? file : "?", PyFrame_GetLineNumber(frame), function ? function : "");
    }
    PyCodeObject* const forgotten = e.code;
    Py_INCREF(code);
    e = {code, position, library, id};
    Py_XDECREF(forgotten);
    return e;
  }
};
static_assert(Places::kSize == size_t{1} << (64 - 52));

}  // namespace

int position_of(PyFrameObject* frame) {
#if PY_VERSION_HEX >= 0x030B0000
  return PyFrame_GetLasti(frame);
#else
  return PyFrame_GetLineNumber(frame);
#endif
}

hlo::LocationId user_location() {
  PyFrameObject* frame = PyEval_GetFrame();
  Py_XINCREF(frame);
  hlo::LocationId found = 0;
  while (frame) {
    PyCodeObject* code = PyFrame_GetCode(frame);
    const Places::Entry& place = Places::find(code, frame);
    Py_DECREF(code);
    PyFrameObject* back = nullptr;
    if (place.library)
      back = PyFrame_GetBack(frame);
    else
      found = place.id;
    Py_DECREF(frame);
    frame = back;
  }
  return found;
}

namespace {

void translate_exception() {
  try {
    throw;
  } catch (py::error_already_set& e) {
    e.restore();
  } catch (const Error& e) {
    PyObject* type = PyExc_RuntimeError;
    switch (e.kind()) {
      case ErrorKind::kValue:
        type = PyExc_ValueError;
        break;
      case ErrorKind::kType:
        type = PyExc_TypeError;
        break;
      case ErrorKind::kIndex:
        type = PyExc_IndexError;
        break;
      case ErrorKind::kNotImplemented:
        type = PyExc_NotImplementedError;
        break;
      case ErrorKind::kMemory:
        type = PyExc_MemoryError;
        break;
      case ErrorKind::kCancelled:
        if (PyErr_Occurred()) return;  // what the signal handler raised
        type = PyExc_KeyboardInterrupt;
        break;
      case ErrorKind::kFloatingPoint:
        type = PyExc_FloatingPointError;
        break;
      case ErrorKind::kRuntime:
        break;
    }
    std::string text = e.what();
    const hlo::Location at = hlo::location(user_location());
    if (!at.file.empty()) {
      text += str_cat("\n  ", at.file, ":", at.line);
      try {
        const std::string source =
            py::str(py::module_::import("linecache").attr("getline")(at.file, at.line).attr("strip")());
        if (!source.empty()) text += ": " + source;
      } catch (py::error_already_set&) {
        // The source is not to be had; the line number stands.
      }
    }
    PyErr_SetString(type, text.c_str());
  } catch (const std::bad_alloc&) {
    PyErr_NoMemory();
  } catch (const std::exception& e) {
    PyErr_SetString(PyExc_RuntimeError, e.what());
  }
}

}  // namespace

void set_python_error() {
  try {
    translate_exception();
  } catch (...) {  // no memory for the message
    PyErr_NoMemory();
  }
}

}  // namespace lamina::python
