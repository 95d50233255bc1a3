#include "python/content.h"
#define XXH_INLINE_ALL
#include <xxhash.h>

#include <cstring>
#include <optional>
#include <vector>

namespace py = pybind11;

namespace lamina::python {
namespace {

// The memory of an array while this lives; no `buffer()` if it shows none.
class Memory {
 public:
  explicit Memory(PyObject* array) {
    if (get(array)) return;
    PyErr_Clear();
    if (!PyObject_HasAttrString(array, "__array__")) return;
    array_ = owned(PyObject_CallMethod(array, "__array__", nullptr));
    if (array_ && get_as_bytes()) return;
    PyErr_Clear();
  }
  ~Memory() {
    if (held_) PyBuffer_Release(&view_);
  }
  Memory(const Memory&) = delete;
  Memory& operator=(const Memory&) = delete;

  const Py_buffer* buffer() const { return held_ ? &view_ : nullptr; }

 private:
  bool get(PyObject* array) {
    held_ = PyObject_CheckBuffer(array) && PyObject_GetBuffer(array, &view_, PyBUF_STRIDED_RO) == 0;
    return held_;
  }
  // Of an element type that buffers do not know, the same memory as opaque bytes. Not of objects made for
  // this view.
  bool get_as_bytes() {
    const py::object type = owned(PyObject_GetAttrString(array_.ptr(), "dtype"));
    const py::object objects = owned(type ? PyObject_GetAttrString(type.ptr(), "hasobject") : nullptr);
    const py::object size = owned(
        objects && objects.is(py::bool_(false)) ? PyObject_GetAttrString(type.ptr(), "itemsize") : nullptr);
    const py::object name = owned(size ? PyUnicode_FromFormat("V%S", size.ptr()) : nullptr);
    if (name) array_ = owned(PyObject_CallMethod(array_.ptr(), "view", "O", name.ptr()));
    return name && array_ && get(array_.ptr());
  }
  static py::object owned(PyObject* o) { return py::reinterpret_steal<py::object>(o); }

  py::object array_;
  Py_buffer view_{};
  bool held_ = false;
};

std::optional<XXH128_canonical_t> hash_of(const Py_buffer& b) {
  const XXH64_hash_t shape = XXH3_64bits_withSeed(b.shape, static_cast<size_t>(b.ndim) * sizeof(*b.shape),
                                                  static_cast<XXH64_hash_t>(b.itemsize));
  const size_t bytes = static_cast<size_t>(b.len);
  XXH128_canonical_t out;
  if (PyBuffer_IsContiguous(&b, 'C')) {
    XXH128_canonicalFromHash(&out, XXH3_128bits_withSeed(b.buf, bytes, shape));
    return out;
  }
  std::vector<char> gathered(bytes);
  if (PyBuffer_ToContiguous(gathered.data(), const_cast<Py_buffer*>(&b), b.len, 'C') != 0) {
    PyErr_Clear();
    return std::nullopt;
  }
  XXH128_canonicalFromHash(&out, XXH3_128bits_withSeed(gathered.data(), bytes, shape));
  return out;
}

std::optional<XXH128_canonical_t> hash_of(PyObject* array) {
  const Memory memory(array);
  return memory.buffer() ? hash_of(*memory.buffer()) : std::nullopt;
}

}  // namespace

py::object content_of(PyObject* array) {
  const std::optional<XXH128_canonical_t> hash = hash_of(array);
  if (!hash) return py::none();
  return py::bytes(reinterpret_cast<const char*>(hash->digest), sizeof hash->digest);
}

bool has_content(PyObject* array, std::string_view content) try {
  const std::optional<XXH128_canonical_t> hash = hash_of(array);
  return hash && content.size() == sizeof hash->digest &&
         std::memcmp(hash->digest, content.data(), content.size()) == 0;
} catch (...) {
  PyErr_Clear();
  return false;
}

bool is_read_only(PyObject* array) {
  const Memory memory(array);
  return memory.buffer() && memory.buffer()->readonly != 0;
}

}  // namespace lamina::python
