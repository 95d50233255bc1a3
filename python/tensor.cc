#include "python/tensor.h"

#include <structmember.h>

#include <algorithm>
#include <array>
#include <new>
#include <utility>

#include "hlo/literal.h"
#include "lazy/axes.h"
#include "lazy/elements.h"
#include "lazy/escape.h"
#include "lazy/placement.h"
#include "lazy/scopes.h"
#include "python/elementwise.h"
#include "python/hooks.h"
#include "python/indexing.h"
#include "python/leaving.h"
#include "python/number.h"
#include "python/stopped.h"

namespace py = pybind11;

namespace lamina::python {

using hlo::Attr;
using hlo::DType;
using hlo::Op;
using lazy::Lazy;

namespace {

PyTypeObject* tensor_type = nullptr;
thread_local bool checks_waiting = false;

std::optional<DType> dtype_of_format(const char* format, Py_ssize_t itemsize) {
  if (!format) return DType::kU8;
  if (*format == '<' || *format == '=' || *format == '@') ++format;
  if (format[0] == 'Z')
    return format[1] == 'f' ? DType::kC64 : format[1] == 'd' ? std::optional(DType::kC128) : std::nullopt;
  if (format[0] != '\0' && format[1] != '\0') return std::nullopt;
  switch (*format) {
    case '?':
      return DType::kBool;
    case 'e':
      return DType::kF16;
    case 'f':
      return DType::kF32;
    case 'd':
      return DType::kF64;
    case 'b':
    case 'h':
    case 'i':
    case 'l':
    case 'q':
      return itemsize == 1   ? DType::kS8
             : itemsize == 2 ? DType::kS16
             : itemsize == 4 ? DType::kS32
                             : DType::kS64;
    case 'B':
    case 'H':
    case 'I':
    case 'L':
    case 'Q':
      return itemsize == 1   ? DType::kU8
             : itemsize == 2 ? DType::kU16
             : itemsize == 4 ? DType::kU32
                             : DType::kU64;
    default:
      return std::nullopt;
  }
}

// Types that buffers have no format for.
bool is_foreign(DType t) { return t == DType::kBF16 || hlo::is_narrow(t); }

const char* format_of(DType t) {
  switch (t) {
    case DType::kBool:
      return "?";
    case DType::kS8:
      return "b";
    case DType::kS16:
      return "h";
    case DType::kS32:
      return "i";
    case DType::kS64:
      return "q";
    case DType::kU8:
      return "B";
    case DType::kU16:
      return "H";
    case DType::kU32:
      return "I";
    case DType::kU64:
      return "Q";
    case DType::kF16:
      return "e";
    case DType::kF32:
      return "f";
    case DType::kF64:
      return "d";
    case DType::kC64:
      return "Zf";
    default:
      return "Zd";
  }
}

// Whether it is a numpy.ma.MaskedArray, whose buffer shows the elements that are masked too.
bool is_masked(PyObject* o) {
  for (const PyTypeObject* t = Py_TYPE(o); t != nullptr; t = t->tp_base)
    if (std::string_view(t->tp_name) == "MaskedArray") return true;
  return false;
}

// A copy of an object with the buffer protocol.
std::optional<Lazy> from_buffer(PyObject* o) {
  if (is_masked(o)) return std::nullopt;
  Py_buffer view;
  if (PyObject_GetBuffer(o, &view, PyBUF_FORMAT | PyBUF_STRIDES) != 0) {
    PyErr_Clear();
    return std::nullopt;
  }
  const std::unique_ptr<Py_buffer, decltype(&PyBuffer_Release)> held(&view, &PyBuffer_Release);
  const std::optional<DType> dtype = dtype_of_format(view.format, view.itemsize);
  if (!dtype) return std::nullopt;
  std::vector<char> dense(std::max<Py_ssize_t>(view.len, 1));
  if (PyBuffer_ToContiguous(dense.data(), &view, view.len, 'C') != 0) {
    PyErr_Clear();
    return std::nullopt;
  }
  return Lazy{lazy::from_host(*dtype, hlo::Dims(view.shape, view.shape + view.ndim), dense.data()), false};
}

}  // namespace

// --- views: Tensors never share elements, but a write that NumPy would show in another Tensor is refused ---

struct ViewNode {
  int64_t holders = 1;  // its Tensor and the views made of it
  bool alive = true;    // whether its Tensor is
  ViewNode* of = nullptr;
};

namespace {

void let_go(ViewNode* node) {
  while (node && --node->holders == 0) {
    ViewNode* const of = node->of;
    delete node;
    node = of;
  }
}
void leave_view(TensorObject* t) {
  if (!t->view) return;
  t->view->alive = false;
  let_go(std::exchange(t->view, nullptr));
}
// The nearest ancestor whose Tensor is alive; the dead ones in between are forgotten.
ViewNode* living_ancestor(ViewNode* node) {
  while (node->of && !node->of->alive) {
    ViewNode* const dead = node->of;
    node->of = dead->of;
    if (node->of) ++node->of->holders;
    let_go(dead);
  }
  return node->of;
}
void mark_view(TensorObject* t, TensorObject* viewed) {
  leave_view(t);
  if (!viewed->view) viewed->view = new ViewNode;
  living_ancestor(viewed->view);
  t->view = new ViewNode{.of = viewed->view};
  ++viewed->view->holders;
}

PyObject* own_tensor(PyObject* tensor, PyObject* viewed) {
  auto own = py::reinterpret_steal<py::object>(tensor);
  if (Py_REFCNT(tensor) > 1) own = to_object(lazy_of(tensor));
  auto* t = reinterpret_cast<TensorObject*>(own.ptr());
  if (viewed)
    mark_view(t, reinterpret_cast<TensorObject*>(viewed));
  else
    leave_view(t);
  return own.release().ptr();
}

// Whether indexing by the key takes copies in NumPy too: an array, list or mask is among it.
bool takes_copy(PyObject* key) {
  if (PyTuple_Check(key)) {
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(key); ++i)
      if (takes_copy(PyTuple_GET_ITEM(key, i))) return true;
    return false;
  }
  if (PyLong_CheckExact(key) || PySlice_Check(key) || key == Py_None || key == Py_Ellipsis) return false;
  if (is_tensor(key)) return lazy_of(key).value.rank() > 0 || lazy_of(key).value.dtype() == DType::kBool;
  if (PyBool_Check(key) || !PyIndex_Check(key)) return true;
  PyObject* const shape = PyObject_GetAttrString(key, "shape");  // of a NumPy array or scalar
  PyErr_Clear();
  const bool array = shape && PyTuple_Check(shape) && PyTuple_GET_SIZE(shape) > 0;
  Py_XDECREF(shape);
  return array;
}

// --- slots ---

// Slots whose meaning is written in Python.
// Elements without a sign are their own absolute values.
PyObject* abs_slot(PyObject* a) {
  const hlo::DTypeKind kind = hlo::info(lazy_of(a).value.dtype()).kind;
  const bool has_sign = kind != hlo::DTypeKind::kUnsigned && kind != hlo::DTypeKind::kBool;
  return has_sign ? unary_slot<Op::abs>(a) : PyNumber_Positive(a);
}
#define LAMINA_HOOK2(slot, name) \
  PyObject* slot(PyObject* a, PyObject* b) { return call_hook(name, a, b); }
LAMINA_HOOK2(floor_divide_slot, "floor_divide")
LAMINA_HOOK2(remainder_slot, "remainder")
LAMINA_HOOK2(divmod_slot, "divmod")
LAMINA_HOOK2(matmul_slot, "matmul")
#undef LAMINA_HOOK2
PyObject* repr_slot(PyObject* a) { return call_hook("repr", a); }
PyObject* iter_slot(PyObject* a) { return call_hook("iter", a); }
// The quick way of a conversion, and else the one that is written in Python.
PyObject* left(PyObject* (*quick)(PyObject*), const char* name, PyObject* a) {
  const ProfiledEntry profiled;
  PyObject* const out = quick(a);
  if (out) return out;
  if (!PyErr_Occurred()) return call_hook(name, a);
  explain_error(a, nullptr);
  return nullptr;
}
PyObject* float_slot(PyObject* a) { return left(float_of, "float", a); }
PyObject* int_slot(PyObject* a) { return left(int_of, "int", a); }
PyObject* index_slot(PyObject* a) { return left(index_of, "index", a); }
PyObject* item_method(PyObject* a, PyObject* const* args, Py_ssize_t count) {
  if (count == 0) return left(item_of, "item", a);
  const auto at = py::reinterpret_steal<py::object>(count == 1 ? Py_NewRef(args[0]) : PyTuple_New(count));
  if (!at) return nullptr;
  for (Py_ssize_t i = 0; count > 1 && i < count; ++i) PyTuple_SET_ITEM(at.ptr(), i, Py_NewRef(args[i]));
  return call_hook("item_at", a, at.ptr());
}
PyObject* list_method(PyObject* a, PyObject*) { return left(list_of, "tolist", a); }
PyObject* block_method(PyObject* a, PyObject*) {
  return left([](PyObject* x) { return computed_now(x) ? Py_NewRef(x) : nullptr; }, "block_until_ready", a);
}
int bool_slot(PyObject* a) {
  PyObject* const r = left(bool_of, "bool", a);
  if (!r) return -1;
  const int out = PyObject_IsTrue(r);
  Py_DECREF(r);
  return out;
}
PyObject* subscript_slot(PyObject* a, PyObject* key) {
  try {
    UserLocation location;
    if (std::optional<Lazy> read = read_basic(lazy_of(a), key))
      return unshared(make_tensor(*std::move(read)), a);
  } catch (...) {
    set_python_error();
    return nullptr;
  }
  return unshared(call_hook("getitem", a, key), takes_copy(key) ? nullptr : a);
}
// x[i] = number, where no program is needed for it.
bool assigned_at_once(PyObject* a, PyObject* key, PyObject* value) {
  auto* const t = reinterpret_cast<TensorObject*>(a);
  const hlo::Value& x = lazy_of(a).value;
  const std::optional<Run> run = run_of(key, x.dims());
  if (!run || !lazy::nothing_open() || views_living(a)) return false;
  const hlo::Value element = element_for(value, x.dtype());
  if (!element) return false;
  UserLocation location;
  if (!lazy::write_elements(t->cell, run->first, run->count, element)) return false;
  t->written = true;
  return true;
}

int assign_slot(PyObject* a, PyObject* key, PyObject* value) {
  if (!value) {
    PyErr_SetString(PyExc_TypeError, "elements of a Tensor cannot be deleted");
    return -1;
  }
  try {
    if (assigned_at_once(a, key, value)) return 0;
  } catch (...) {
    set_python_error();
    return -1;
  }
  PyObject* r = call_hook("setitem", a, key, value);
  if (!r) return -1;
  Py_DECREF(r);
  return 0;
}
Py_ssize_t length_slot(PyObject* a) {
  const Lazy& x = lazy_of(a);
  if (x.value.rank() == 0) {
    PyErr_SetString(PyExc_TypeError, "len() of a 0-d Tensor");
    return -1;
  }
  return x.value.dims()[0];
}

// Memory of Tensors that are gone, as CPython keeps some for its floats. The interpreter lock guards it.
struct SpareTensors {
  static constexpr size_t kMost = 256;
  std::array<TensorObject*, kMost> spare;
  size_t count = 0;
} spare_tensors;

void dealloc_slot(PyObject* self) {
  auto* t = reinterpret_cast<TensorObject*>(self);
  if (t->weakrefs) PyObject_ClearWeakRefs(self);
  leave_view(t);
  {
    const ProfiledEntry profiled(jit::Doing::kFree);
    t->cell.~Cell();
  }
  PyTypeObject* type = Py_TYPE(self);
  if (spare_tensors.count < SpareTensors::kMost)
    spare_tensors.spare[spare_tensors.count++] = t;
  else
    type->tp_free(self);
  Py_DECREF(type);
}

PyObject* get_shape(PyObject* self, void*) {
  const hlo::Dims& dims = lazy_of(self).value.dims();
  PyObject* out = PyTuple_New(static_cast<Py_ssize_t>(dims.size()));
  for (size_t i = 0; out && i < dims.size(); ++i) {
    PyObject* const size = PyLong_FromLongLong(dims[i]);
    if (size)
      PyTuple_SET_ITEM(out, i, size);
    else
      Py_CLEAR(out);
  }
  return out;
}
PyObject* get_dtype(PyObject* self, void*) {
  const std::string_view name = hlo::info(lazy_of(self).value.dtype()).numpy_name;
  PyObject* text = PyUnicode_FromStringAndSize(name.data(), static_cast<Py_ssize_t>(name.size()));
  PyObject* out = text ? call_hook("dtype", text) : nullptr;
  Py_XDECREF(text);
  return out;
}
PyObject* get_ndim(PyObject* self, void*) { return PyLong_FromLongLong(lazy_of(self).value.rank()); }
PyObject* get_size(PyObject* self, void*) {
  return PyLong_FromLongLong(lazy_of(self).value.type()->num_elements);
}
PyObject* get_weak(PyObject* self, void*) { return PyBool_FromLong(lazy_of(self).weak); }

// --- buffers: read-only, pinning the array ---

struct BufferExport {
  jit::ArrayPtr array;
  std::vector<Py_ssize_t> shape, strides;
};

int get_buffer(PyObject* self, Py_buffer* view, int flags) {
  if (flags & PyBUF_WRITABLE) {
    PyErr_SetString(PyExc_BufferError, "a Tensor's memory is read-only");
    view->obj = nullptr;
    return -1;
  }
  // NumPy then asks for __array__, which gives the type of ml_dtypes.
  if (flags & PyBUF_FORMAT && is_foreign(lazy_of(self).value.dtype())) {
    PyErr_Format(PyExc_BufferError,
                 "buffers have no format for elements of type %s: use the Tensor's numpy()",
                 std::string(hlo::info(lazy_of(self).value.dtype()).numpy_name).c_str());
    view->obj = nullptr;
    return -1;
  }
  const hlo::Value value = lazy_of(self).value;
  note_stopped(self);
  if (!may_leave(self, true)) {
    // What is wrong with the program __array__ finds, and explains, again.
    if (!PyErr_ExceptionMatches(PyExc_IndexError) && !PyErr_ExceptionMatches(PyExc_TypeError))
      note_stopped(self);
    view->obj = nullptr;
    return -1;
  }
  try {
    auto e = std::make_unique<BufferExport>();
    e->array = lazy::array(value);
    const hlo::Dims strides = hlo::row_major_strides(value.dims());
    const int64_t width = hlo::byte_size(value.dtype());
    for (size_t i = 0; i < strides.size(); ++i) {
      e->shape.push_back(value.dims()[i]);
      e->strides.push_back(strides[i] * width);
    }
    view->buf = const_cast<std::byte*>(lazy::host_bytes(*e->array));  // read only
    view->len = value.type()->bytes();
    view->itemsize = width;
    view->readonly = 1;
    view->ndim = static_cast<int>(value.rank());
    view->format = flags & PyBUF_FORMAT ? const_cast<char*>(format_of(value.dtype())) : nullptr;
    view->shape = e->shape.data();
    view->strides = e->strides.data();
    view->suboffsets = nullptr;
    view->internal = e.release();
    view->obj = Py_NewRef(self);
    return 0;
  } catch (...) {
    set_python_error();
    if (lazy::forceable(value)) note_stopped(self);
    view->obj = nullptr;
    return -1;
  }
}
void release_buffer(PyObject*, Py_buffer* view) { delete static_cast<BufferExport*>(view->internal); }

PyGetSetDef getters[] = {
    {"shape", get_shape, nullptr, "Sizes of the dimensions, a tuple of ints.", nullptr},
    {"dtype", get_dtype, nullptr, "Element type.", nullptr},
    {"ndim", get_ndim, nullptr, "Number of dimensions.", nullptr},
    {"size", get_size, nullptr, "Number of elements.", nullptr},
    {"weak_type", get_weak, nullptr, "Whether the element type yields to other operands'.", nullptr},
    {nullptr, nullptr, nullptr, nullptr, nullptr}};
PyMethodDef tensor_methods[] = {
    {"item", reinterpret_cast<PyCFunction>(reinterpret_cast<void (*)()>(item_method)), METH_FASTCALL,
     "An element as a Python number: the only one, or that at an index into the elements in their order, or "
     "at one "
     "index per dimension. ValueError where there are several and no index."},
    {"tolist", list_method, METH_NOARGS,
     "The elements as Python numbers in nested lists; a number where ndim is 0."},
    {"block_until_ready", block_method, METH_NOARGS, "Computes the value now; returns the Tensor."},
    {nullptr, nullptr, 0, nullptr}};
PyMemberDef members[] = {
    {"__weaklistoffset__", T_PYSSIZET, offsetof(TensorObject, weakrefs), READONLY, nullptr},
    {nullptr, 0, 0, 0, nullptr}};

PyType_Slot slots[] = {
    {Py_tp_doc, const_cast<char*>("An array whose value is computed when it is first needed.")},
    {Py_tp_dealloc, reinterpret_cast<void*>(dealloc_slot)},
    {Py_tp_getset, getters},
    {Py_tp_methods, tensor_methods},
    {Py_tp_members, members},
    {Py_tp_repr, reinterpret_cast<void*>(repr_slot)},
    {Py_tp_iter, reinterpret_cast<void*>(iter_slot)},
    {Py_tp_richcompare, reinterpret_cast<void*>(compare_slot)},
    {Py_tp_hash, reinterpret_cast<void*>(PyObject_HashNotImplemented)},
    {Py_nb_add, reinterpret_cast<void*>(binary_slot<Op::add>)},
    {Py_nb_subtract, reinterpret_cast<void*>(binary_slot<Op::subtract>)},
    {Py_nb_multiply, reinterpret_cast<void*>(multiply_slot)},
    {Py_nb_true_divide, reinterpret_cast<void*>(true_divide_slot)},
    {Py_nb_floor_divide, reinterpret_cast<void*>(floor_divide_slot)},
    {Py_nb_remainder, reinterpret_cast<void*>(remainder_slot)},
    {Py_nb_divmod, reinterpret_cast<void*>(divmod_slot)},
    {Py_nb_power, reinterpret_cast<void*>(power_slot)},
    {Py_nb_matrix_multiply, reinterpret_cast<void*>(matmul_slot)},
    {Py_nb_negative, reinterpret_cast<void*>(unary_slot<Op::negate>)},
    {Py_nb_absolute, reinterpret_cast<void*>(abs_slot)},
    {Py_nb_invert, reinterpret_cast<void*>(unary_slot<Op::not_>)},
    {Py_nb_and, reinterpret_cast<void*>(binary_slot<Op::and_>)},
    {Py_nb_or, reinterpret_cast<void*>(binary_slot<Op::or_>)},
    {Py_nb_xor, reinterpret_cast<void*>(binary_slot<Op::xor_>)},
    {Py_nb_lshift, reinterpret_cast<void*>(binary_slot<Op::shift_left>)},
    {Py_nb_rshift, reinterpret_cast<void*>(right_shift_slot)},
    {Py_nb_bool, reinterpret_cast<void*>(bool_slot)},
    {Py_nb_float, reinterpret_cast<void*>(float_slot)},
    {Py_nb_int, reinterpret_cast<void*>(int_slot)},
    {Py_nb_index, reinterpret_cast<void*>(index_slot)},
    {Py_mp_length, reinterpret_cast<void*>(length_slot)},
    {Py_mp_subscript, reinterpret_cast<void*>(subscript_slot)},
    {Py_mp_ass_subscript, reinterpret_cast<void*>(assign_slot)},
    {Py_bf_getbuffer, reinterpret_cast<void*>(get_buffer)},
    {Py_bf_releasebuffer, reinterpret_cast<void*>(release_buffer)},
    {0, nullptr}};
PyType_Spec spec = {"lamina.Tensor", sizeof(TensorObject), 0,
                    Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION, slots};

}  // namespace

void add_tensor_type(py::module_& module) {
  PyObject* type = PyType_FromSpec(&spec);
  if (!type) throw py::error_already_set();
  tensor_type = reinterpret_cast<PyTypeObject*>(type);
  module.attr("Tensor") = py::reinterpret_borrow<py::object>(type);
  module.def(
      "note_checks", [](bool waiting) { checks_waiting = waiting; },
      "Whether something is to be checked before the next read on this thread.");
  module.def("set_hooks", set_hooks,
             "Gives the functions that the Tensor type calls for what is written in Python.");
}

bool is_tensor(PyObject* object) { return Py_TYPE(object) == tensor_type; }

namespace {
constinit thread_local WatchedReads* innermost_watch = nullptr;
}

WatchedReads::WatchedReads(const py::list& tensors) : around_(innermost_watch) {
  watched_.reserve(tensors.size());
  for (const py::handle& x : tensors) {
    watched_.push_back({py::reinterpret_borrow<py::object>(x)});
    ++reinterpret_cast<TensorObject*>(x.ptr())->watches;
  }
  innermost_watch = this;
}

py::list WatchedReads::read() const {
  py::list out;
  for (const Watched& w : watched_)
    if (w.read) out.append(w.tensor);
  return out;
}

void WatchedReads::end() {
  WatchedReads** at = &innermost_watch;
  while (*at && *at != this) at = &(*at)->around_;
  if (!*at) return;  // ended before
  *at = around_;
  for (const Watched& w : watched_) --reinterpret_cast<TensorObject*>(w.tensor.ptr())->watches;
}

void note_watched_read(PyObject* tensor) {
  for (WatchedReads* watch = innermost_watch; watch; watch = watch->around_)
    for (WatchedReads::Watched& w : watch->watched_)
      if (w.tensor.ptr() == tensor) w.read = true;
}

PyObject* make_tensor(Lazy&& lazy) { return make_tensor(std::move(lazy), lazy::innermost_stamp()); }

PyObject* make_tensor(Lazy&& lazy, uint32_t made_in) {
  TensorObject* t = spare_tensors.count > 0
                        ? spare_tensors.spare[--spare_tensors.count]
                        : static_cast<TensorObject*>(PyObject_Malloc(sizeof(TensorObject)));
  if (!t) throw std::bad_alloc();
  PyObject_Init(reinterpret_cast<PyObject*>(t), tensor_type);
  t->weakrefs = nullptr;
  t->view = nullptr;
  t->made_in = made_in;
  t->written = false;
  t->watches = 0;
  try {
    new (&t->cell) lazy::Cell(std::move(lazy));
  } catch (...) {
    PyObject_Free(t);
    Py_DECREF(tensor_type);
    throw;
  }
  return reinterpret_cast<PyObject*>(t);
}

PyObject* unshared(PyObject* result, PyObject* viewed) {
  if (!result) return nullptr;
  if (is_tensor(result)) {
    try {
      return own_tensor(result, viewed);
    } catch (...) {
      set_python_error();
      return nullptr;
    }
  }
  const bool tuple = PyTuple_Check(result);
  if (!tuple && !PyList_CheckExact(result)) return result;
  PyObject** items = tuple ? reinterpret_cast<PyTupleObject*>(result)->ob_item
                           : reinterpret_cast<PyListObject*>(result)->ob_item;
  const Py_ssize_t n = Py_SIZE(result);
  if (Py_REFCNT(result) > 1) {  // the container is somebody else's: one of its own
    if ((tuple && !PyTuple_CheckExact(result)) || !std::any_of(items, items + n, is_tensor)) return result;
    PyObject* own = PySequence_List(result);
    if (own && tuple) {
      PyObject* const list = own;
      own = PyList_AsTuple(list);
      Py_DECREF(list);
    }
    Py_DECREF(result);
    return unshared(own, viewed);
  }
  for (Py_ssize_t i = 0; i < n; ++i) {
    items[i] = unshared(items[i], viewed);
    if (!items[i]) {
      Py_DECREF(result);
      return nullptr;
    }
  }
  return result;
}

bool may_leave(PyObject* tensor, bool may_hide_error) {
  if (checks_waiting) {
    PyObject* const done = call_hook("before_read", may_hide_error ? Py_True : Py_False);
    if (!done) return false;
    Py_DECREF(done);
  }
  if (lazy::inside_jit()) {
    PyObject* const noted = call_hook("taken", tensor);
    if (!noted) return false;
    Py_DECREF(noted);
  }
  if (!lazy::differentiated(lazy_of(tensor).value)) return true;
  Py_XDECREF(call_hook("escape", tensor));
  return false;
}

bool reads_wait() { return checks_waiting; }

bool views_living(PyObject* tensor) {
  ViewNode* const node = reinterpret_cast<TensorObject*>(tensor)->view;
  return node && living_ancestor(node);
}

py::object to_object(Lazy lazy) { return py::reinterpret_steal<py::object>(make_tensor(std::move(lazy))); }

std::optional<Lazy> from_object(PyObject* o) {
  if (is_tensor(o)) return lazy_of(o);
  if (const py::object number = plain_number(o)) return number_lazy(number.ptr());
  if (is_numpy_scalar(o)) return std::nullopt;  // a time gives a buffer of its bytes
  if (PyObject_CheckBuffer(o) && !PyBytes_Check(o) && !PyByteArray_Check(o)) return from_buffer(o);
  static PyObject* const protocol = PyUnicode_InternFromString("__jax_array__");
  if (PyType_Check(o) || !PyObject_HasAttr(o, protocol)) return std::nullopt;
  const auto array = py::reinterpret_steal<py::object>(PyObject_CallMethodNoArgs(o, protocol));
  return array ? from_object(array.ptr()) : std::nullopt;
}

bool promoted_operands(std::span<PyObject* const> objects, std::span<Lazy> made, std::span<const Lazy*> out) {
  std::optional<lazy::PromotedType> type;
  auto join = [&](DType dtype, bool weak) {
    type = type ? lazy::promote(type->dtype, type->weak, dtype, weak) : lazy::PromotedType{dtype, weak};
  };
  absl::InlinedVector<py::object, 3> numbers(objects.size());
  bool undecided = true;  // whether all that is no number has its bits still
  for (size_t i = 0; i < objects.size(); ++i) {
    PyObject* o = objects[i];
    out[i] = &made[i];
    if (is_tensor(o)) {
      out[i] = &lazy_of(o);
    } else if ((numbers[i] = plain_number(o))) {
      join(default_dtype(numbers[i].ptr()), !PyBool_Check(numbers[i].ptr()));
      continue;
    } else {
      std::optional<Lazy> x = from_object(o);
      if (!x) return false;
      made[i] = *std::move(x);
    }
    undecided = undecided && out[i]->weak && lazy::wide_of(*out[i]);
    join(out[i]->value.dtype(), out[i]->weak);
  }
  for (size_t i = 0; i < objects.size(); ++i) {
    if (!numbers[i]) continue;
    std::optional<hlo::Value> n = number_value(numbers[i].ptr(), type->dtype);
    if (!n) return false;
    made[i] = {*std::move(n), type->weak};
    if (!type->weak || !undecided || lazy::wide_type(type->dtype) == type->dtype) continue;
    if (!(n = number_value(numbers[i].ptr(), lazy::wide_type(type->dtype)))) return false;
    made[i].wide = *std::move(n);
  }
  return true;
}

std::vector<Lazy> from_sequence(const py::sequence& objects) {
  std::vector<Lazy> out;
  for (const py::handle& o : objects) {
    std::optional<Lazy> x = from_object(o.ptr());
    if (!x) {
      if (PyErr_Occurred()) throw py::error_already_set();
      throw py::type_error("a Tensor, number or array is needed, not " +
                           std::string(py::str(py::type::of(o))));
    }
    out.push_back(*std::move(x));
  }
  return out;
}

std::vector<hlo::Value> hidden_values(const py::handle& tensors) {
  hlo::GraphLock lock;
  hlo::Builder b;
  std::vector<hlo::Value> out;
  for (const py::handle& t : tensors) {
    const Lazy& x = lazy_of(t.ptr());
    out.push_back(x.value);
    out.push_back(x.weak ? lazy::carrier(b, x) : hlo::Value());
  }
  lazy::check(b.status());
  return out;
}

py::list to_list(std::vector<Lazy> lazies) {
  py::list out;
  for (Lazy& l : lazies) {
    if (l.value)
      out.append(to_object(std::move(l)));
    else
      out.append(py::none());
  }
  return out;
}

hlo::DType dtype_of(const std::string& name) {
  const std::optional<hlo::DType> dtype = hlo::parse_dtype(name);
  if (!dtype) throw py::type_error("'" + name + "' is not an element type that lamina knows");
  return *dtype;
}

const hlo::Type* type_of(const std::string& dtype, const hlo::Dims& shape) {
  return lazy::check(hlo::array_type(dtype_of(dtype), shape));
}

uint64_t recording_mode() {
  return hlo::record_state().mode | static_cast<uint64_t>(lazy::default_types().key()) << 8 |
         lazy::axes_key() << 32;
}

lazy::FlatFunction flat(const py::function& f) {
  return [f](const std::vector<Lazy>& args) {
    std::vector<Lazy> copies = args;
    return from_sequence(f(to_list(std::move(copies))).cast<py::sequence>());
  };
}

}  // namespace lamina::python
