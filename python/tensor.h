// The Tensor type on the CPython API: number slots, subscripts and buffers without pybind11 in between.
#ifndef LAMINA_PYTHON_TENSOR_H_
#define LAMINA_PYTHON_TENSOR_H_

#include <pybind11/pybind11.h>

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "absl/types/span.h"
#include "lazy/lazy.h"
#include "lazy/transforms.h"
#include "python/location.h"

namespace lamina::python {

// A Tensor object among those that NumPy would let share memory with it.
struct ViewNode;

struct TensorObject {
  PyObject_HEAD lazy::Cell cell;
  PyObject* weakrefs;
  ViewNode* view;    // null while nothing was viewed of it and it is no view
  uint32_t made_in;  // the stamp of the innermost scope that was open
  bool written;      // whether x[...] = v gave it another value
  uint16_t watches;  // of WatchedReads, on any thread
};

// Adds the type to the module. Its remaining methods are attached in Python.
void add_tensor_type(pybind11::module_& module);

bool is_tensor(PyObject* object);
void note_watched_read(PyObject* tensor);
inline const lazy::Lazy& lazy_of(PyObject* tensor) {
  auto* t = reinterpret_cast<TensorObject*>(tensor);
  if (t->watches != 0) [[unlikely]]
    note_watched_read(tensor);
  return t->cell.get();
}

// Which of these Tensors the thread that made this reads until the end. The innermost watch is made last and
// ended first; what it sees, those around it have seen.
class WatchedReads {
 public:
  explicit WatchedReads(const pybind11::list& tensors);
  ~WatchedReads() { end(); }
  WatchedReads(const WatchedReads&) = delete;
  WatchedReads& operator=(const WatchedReads&) = delete;
  pybind11::list read() const;
  void end();

 private:
  friend void note_watched_read(PyObject* tensor);
  struct Watched {
    pybind11::object tensor;
    bool read = false;
  };
  std::vector<Watched> watched_;
  WatchedReads* around_ = nullptr;
};
// New references. `made_in`: the stamp of the innermost scope that is open.
PyObject* make_tensor(lazy::Lazy&& lazy, uint32_t made_in);
PyObject* make_tensor(lazy::Lazy&& lazy);
pybind11::object to_object(lazy::Lazy lazy);

// `result` (stolen) of a public function: a Tensor that somebody else holds too, itself or in a tuple, list
// or dict, is replaced by one of its own with the same value, so that writing to one never writes to the
// other. With `viewed`, the results are marked as what NumPy would return as views of that Tensor; else as
// copies.
PyObject* unshared(PyObject* result, PyObject* viewed = nullptr);
// Whether the value may leave as memory: false with an exception where an open derivative depends on it, or
// an index was out of range. `may_hide_error`: the caller may be one that asks again by other means.
bool may_leave(PyObject* tensor, bool may_hide_error = false);
// Whether something is to be checked before the next read on this thread (python: _bounds).
bool reads_wait();
// Whether a Tensor is alive that NumPy would let `tensor` be a view of.
bool views_living(PyObject* tensor);

// A Tensor, a Python number, a NumPy array or scalar, or what `__jax_array__` gives of those: as a lazy
// array. Empty for anything else; with an exception set where that method raised.
std::optional<lazy::Lazy> from_object(PyObject* object);
// As from_object for each, but plain Python numbers are made with the element type that all promote to, so
// that nothing is rounded twice. Of each object `out` has the array: its own if it is a Tensor, else the
// element of `made`, null before, at its place. False, with or without an exception set, if one cannot be
// taken.
bool promoted_operands(std::span<PyObject* const> objects, std::span<lazy::Lazy> made,
                       std::span<const lazy::Lazy*> out);
// By its name ("float32") and shape; both throw where there is no such type.
hlo::DType dtype_of(const std::string& name);
const hlo::Type* type_of(const std::string& dtype, const hlo::Dims& shape);
// What a compiled program depends on of an argument: its type, and whether that is weak.
inline uintptr_t type_word(const lazy::Lazy& x) {
  return reinterpret_cast<uintptr_t>(x.value.type()) | static_cast<uintptr_t>(x.weak);
}
// The values of hidden arguments, a tuple or list of Tensors: rounded, then unrounded ones (null of those
// that have none), since a program may have captured either.
std::vector<hlo::Value> hidden_values(const pybind11::handle& tensors);
std::vector<lazy::Lazy> from_sequence(const pybind11::sequence& objects);
pybind11::list to_list(std::vector<lazy::Lazy> lazies);
// What a trace depends on besides its arguments: numerics and default types, 0 for the usual ones.
uint64_t recording_mode();
// A Python function over lists of tensors as the core's flat function.
lazy::FlatFunction flat(const pybind11::function& f);

}  // namespace lamina::python

#endif  // LAMINA_PYTHON_TENSOR_H_
