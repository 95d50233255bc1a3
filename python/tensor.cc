#include "python/tensor.h"

#include <structmember.h>

#include <cstring>

#include "absl/container/flat_hash_map.h"
#include "hlo/builder.h"
#include "hlo/location.h"
#include "hlo/op.h"
#include "hlo/strings.h"
#include "lazy/scopes.h"

namespace py = pybind11;

namespace lamina::python {

using hlo::Attr;
using hlo::DType;
using hlo::Op;
using lazy::Lazy;

namespace {

PyTypeObject* tensor_type = nullptr;
// Python functions for what is written in Python; set once by the package.
PyObject* hooks = nullptr;

void explain_error(PyObject* a, PyObject* b);

PyObject* call_hook(const char* name, PyObject* a, PyObject* b = nullptr, PyObject* c = nullptr) {
  PyObject* f = hooks ? PyDict_GetItemString(hooks, name) : nullptr;
  if (!f) {
    PyErr_Format(PyExc_RuntimeError, "lamina is not fully imported: %s is missing", name);
    return nullptr;
  }
  PyObject* result = PyObject_CallFunctionObjArgs(f, a, b, c, nullptr);
  if (!result) explain_error(a, b);
  return result;
}

// Tells the error that is set in the user's terms: the expression, its operands and where they were made.
// Frames of the library are left out of the traceback.
void explain_error(PyObject* a, PyObject* b) {
  PyObject *type, *value, *trace;
  PyErr_Fetch(&type, &value, &trace);
  PyErr_NormalizeException(&type, &value, &trace);
  const bool ours = type == PyExc_ValueError || type == PyExc_TypeError || type == PyExc_IndexError;
  PyObject* explain = ours && hooks ? PyDict_GetItemString(hooks, "explain") : nullptr;
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

// --- numbers ---

// A free number of a function being traced (python: _read_set.Observed): its place is taken by a parameter.
bool is_observed(PyObject* o) {
  static PyObject* type = nullptr;
  if (!type) {
    type = hooks ? PyDict_GetItemString(hooks, "observed") : nullptr;
    if (!type) return false;
  }
  return reinterpret_cast<PyObject*>(Py_TYPE(o)) == type;
}

std::optional<hlo::Value> observed_value(PyObject* o, DType dtype) {
  PyObject* tensor = PyObject_GetAttrString(o, "tensor");
  if (!tensor) return std::nullopt;
  const hlo::Value exact = lazy_of(tensor).value;
  Py_DECREF(tensor);
  hlo::Builder b;
  hlo::Value v = b.convert(exact, dtype);
  lazy::check(b.status());
  return v;
}

// A number of Python's own; NumPy's float64 is a Python float too, but keeps its own type.
bool is_plain_number(PyObject* o) {
  return is_observed(o) || PyFloat_CheckExact(o) || PyLong_CheckExact(o) || PyBool_Check(o) ||
         PyComplex_CheckExact(o);
}

// The element type a Python number has on its own; weak unless it is a bool.
DType default_dtype(PyObject* o) {
  if (is_observed(o)) {
    PyObject* tensor = PyObject_GetAttrString(o, "tensor");
    const bool is_float = tensor && lazy_of(tensor).value.dtype() == DType::kF64;
    Py_XDECREF(tensor);
    return is_float ? DType::kF32 : DType::kS32;
  }
  if (PyBool_Check(o)) return DType::kBool;
  if (PyLong_Check(o)) {
    int overflow = 0;
    const long long v = PyLong_AsLongLongAndOverflow(o, &overflow);
    return overflow == 0 && v >= INT32_MIN && v <= INT32_MAX ? DType::kS32 : DType::kS64;
  }
  return PyComplex_Check(o) ? DType::kC64 : DType::kF32;
}

// The number as an element of `dtype`, converted once.
std::optional<hlo::Value> number_value(PyObject* o, DType dtype) {
  if (is_observed(o)) return observed_value(o, dtype);
  hlo::LiteralPtr literal;
  if (PyComplex_Check(o)) {
    const std::complex<double> z(PyComplex_RealAsDouble(o), PyComplex_ImagAsDouble(o));
    if (dtype == DType::kC128) return lazy::number(dtype, &z);
    const std::complex<float> n(z);
    return lazy::number(DType::kC64, &n);
  }
  if (PyLong_Check(o)) {
    int overflow = 0;
    const long long v = PyLong_AsLongLongAndOverflow(o, &overflow);
    if (overflow == 0) {
      literal = hlo::Literal::scalar_int(dtype, v);
      if (hlo::is_integer(dtype) && literal->int_at(0) != v) {
        PyErr_Format(PyExc_OverflowError, "the Python integer %R does not fit the element type %s", o,
                     std::string(hlo::info(dtype).numpy_name).c_str());
        return std::nullopt;
      }
      return lazy::number(dtype, literal->data());
    }
    if (dtype == DType::kU64 && overflow > 0) {
      const unsigned long long u = PyLong_AsUnsignedLongLong(o);
      if (PyErr_Occurred()) return std::nullopt;
      return lazy::number(dtype, &u);
    }
    if (hlo::is_integer(dtype)) {
      PyErr_Format(PyExc_OverflowError, "the Python integer %R does not fit 64 bits", o);
      return std::nullopt;
    }
  }
  const double d = PyFloat_AsDouble(o);
  if (d == -1.0 && PyErr_Occurred()) return std::nullopt;
  literal = hlo::Literal::scalar(dtype, d);
  return lazy::number(dtype, literal->data());
}

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
    case DType::kBF16:
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

// A copy of an object with the buffer protocol.
std::optional<Lazy> from_buffer(PyObject* o) {
  Py_buffer view;
  if (PyObject_GetBuffer(o, &view, PyBUF_FORMAT | PyBUF_STRIDES) != 0) {
    PyErr_Clear();
    return std::nullopt;
  }
  std::optional<Lazy> out;
  if (const std::optional<DType> dtype = dtype_of_format(view.format, view.itemsize)) {
    std::vector<char> dense(std::max<Py_ssize_t>(view.len, 1));
    if (PyBuffer_ToContiguous(dense.data(), &view, view.len, 'C') == 0) {
      const hlo::Dims dims(view.shape, view.shape + view.ndim);
      PyBuffer_Release(&view);
      return Lazy{lazy::from_host(*dtype, dims, dense.data()), false};
    }
    PyErr_Clear();
  }
  PyBuffer_Release(&view);
  return out;
}

// --- slots ---

template <typename F>
PyObject* guarded(F&& f) {
  try {
    UserLocation location;
    return f();
  } catch (...) {
    set_python_error();
    return nullptr;
  }
}

bool binary_operands(PyObject* a, PyObject* b, std::vector<Lazy>& out) {
  PyObject* const operands[] = {a, b};
  return promoted_operands(operands, out);
}

PyObject* binary(Op op, PyObject* a, PyObject* b, const hlo::Attrs* attrs = hlo::no_attrs()) {
  PyObject* result = guarded([&]() -> PyObject* {
    std::vector<Lazy> operands;
    if (!binary_operands(a, b, operands)) {
      if (PyErr_Occurred()) return nullptr;
      Py_RETURN_NOTIMPLEMENTED;
    }
    return make_tensor(lazy::elementwise(op, std::move(operands), attrs));
  });
  if (!result) explain_error(a, b);
  return result;
}

template <Op op>
PyObject* binary_slot(PyObject* a, PyObject* b) {
  return binary(op, a, b);
}
template <Op op>
PyObject* unary_slot(PyObject* a) {
  return guarded([&] { return make_tensor(lazy::elementwise(op, {lazy_of(a)})); });
}

// Slots whose meaning is written in Python.
#define LAMINA_HOOK2(slot, name) \
  PyObject* slot(PyObject* a, PyObject* b) { return call_hook(name, a, b); }
LAMINA_HOOK2(true_divide_slot, "true_divide")
LAMINA_HOOK2(floor_divide_slot, "floor_divide")
LAMINA_HOOK2(remainder_slot, "remainder")
LAMINA_HOOK2(divmod_slot, "divmod")
LAMINA_HOOK2(matmul_slot, "matmul")
LAMINA_HOOK2(subscript_slot, "getitem")
#undef LAMINA_HOOK2
PyObject* power_slot(PyObject* a, PyObject* b, PyObject*) { return call_hook("power", a, b); }
PyObject* repr_slot(PyObject* a) { return call_hook("repr", a); }
PyObject* iter_slot(PyObject* a) { return call_hook("iter", a); }
PyObject* float_slot(PyObject* a) { return call_hook("float", a); }
PyObject* int_slot(PyObject* a) { return call_hook("int", a); }
PyObject* index_slot(PyObject* a) { return call_hook("index", a); }
int bool_slot(PyObject* a) {
  PyObject* r = call_hook("bool", a);
  if (!r) return -1;
  const int out = PyObject_IsTrue(r);
  Py_DECREF(r);
  return out;
}
int assign_slot(PyObject* a, PyObject* key, PyObject* value) {
  if (!value) {
    PyErr_SetString(PyExc_TypeError, "elements of a Tensor cannot be deleted");
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

PyObject* compare_slot(PyObject* a, PyObject* b, int op) {
  static const hlo::Attrs* directions[6] = {};
  if (!directions[0])
    for (const auto& [code, name] :
         {std::pair{Py_LT, "LT"}, {Py_LE, "LE"}, {Py_EQ, "EQ"}, {Py_NE, "NE"}, {Py_GT, "GT"}, {Py_GE, "GE"}})
      directions[code] = hlo::intern_attrs({{Attr::direction, std::string(name)}});
  return binary(Op::compare, a, b, directions[op]);
}

void dealloc_slot(PyObject* self) {
  auto* t = reinterpret_cast<TensorObject*>(self);
  if (t->weakrefs) PyObject_ClearWeakRefs(self);
  delete t->cell;
  PyTypeObject* type = Py_TYPE(self);
  type->tp_free(self);
  Py_DECREF(type);
}

PyObject* get_shape(PyObject* self, void*) {
  const hlo::Dims& dims = lazy_of(self).value.dims();
  PyObject* out = PyTuple_New(static_cast<Py_ssize_t>(dims.size()));
  for (size_t i = 0; i < dims.size(); ++i) PyTuple_SET_ITEM(out, i, PyLong_FromLongLong(dims[i]));
  return out;
}
PyObject* get_dtype(PyObject* self, void*) {
  const std::string_view name = hlo::info(lazy_of(self).value.dtype()).numpy_name;
  PyObject* text = PyUnicode_FromStringAndSize(name.data(), static_cast<Py_ssize_t>(name.size()));
  PyObject* out = call_hook("dtype", text);
  Py_DECREF(text);
  return out;
}
PyObject* get_ndim(PyObject* self, void*) { return PyLong_FromLongLong(lazy_of(self).value.rank()); }
PyObject* get_size(PyObject* self, void*) {
  return PyLong_FromLongLong(lazy_of(self).value.type()->num_elements);
}
PyObject* get_weak(PyObject* self, void*) { return PyBool_FromLong(lazy_of(self).weak); }

// --- buffers: read-only, pinning the array ---

struct Export {
  jit::ArrayPtr array;
  std::vector<Py_ssize_t> shape, strides;
};

int get_buffer(PyObject* self, Py_buffer* view, int flags) {
  if (flags & PyBUF_WRITABLE) {
    PyErr_SetString(PyExc_BufferError, "a Tensor's memory is read-only");
    view->obj = nullptr;
    return -1;
  }
  try {
    auto e = std::make_unique<Export>();
    const hlo::Value value = lazy_of(self).value;
    e->array = lazy::array(value);
    const hlo::Dims strides = hlo::row_major_strides(value.dims());
    const int64_t width = hlo::byte_size(value.dtype());
    for (size_t i = 0; i < strides.size(); ++i) {
      e->shape.push_back(value.dims()[i]);
      e->strides.push_back(strides[i] * width);
    }
    view->buf = e->array->data();
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
    view->obj = nullptr;
    return -1;
  }
}
void release_buffer(PyObject*, Py_buffer* view) { delete static_cast<Export*>(view->internal); }

PyGetSetDef getters[] = {
    {"shape", get_shape, nullptr, "Sizes of the dimensions, a tuple of ints.", nullptr},
    {"dtype", get_dtype, nullptr, "Element type.", nullptr},
    {"ndim", get_ndim, nullptr, "Number of dimensions.", nullptr},
    {"size", get_size, nullptr, "Number of elements.", nullptr},
    {"weak_type", get_weak, nullptr, "Whether the element type yields to other operands'.", nullptr},
    {nullptr, nullptr, nullptr, nullptr, nullptr}};
PyMemberDef members[] = {
    {"__weaklistoffset__", T_PYSSIZET, offsetof(TensorObject, weakrefs), READONLY, nullptr},
    {nullptr, 0, 0, 0, nullptr}};

PyType_Slot slots[] = {
    {Py_tp_doc, const_cast<char*>("An array whose value is computed when it is first needed.")},
    {Py_tp_dealloc, reinterpret_cast<void*>(dealloc_slot)},
    {Py_tp_getset, getters},
    {Py_tp_members, members},
    {Py_tp_repr, reinterpret_cast<void*>(repr_slot)},
    {Py_tp_iter, reinterpret_cast<void*>(iter_slot)},
    {Py_tp_richcompare, reinterpret_cast<void*>(compare_slot)},
    {Py_tp_hash, reinterpret_cast<void*>(PyObject_HashNotImplemented)},
    {Py_nb_add, reinterpret_cast<void*>(binary_slot<Op::add>)},
    {Py_nb_subtract, reinterpret_cast<void*>(binary_slot<Op::subtract>)},
    {Py_nb_multiply, reinterpret_cast<void*>(binary_slot<Op::multiply>)},
    {Py_nb_true_divide, reinterpret_cast<void*>(true_divide_slot)},
    {Py_nb_floor_divide, reinterpret_cast<void*>(floor_divide_slot)},
    {Py_nb_remainder, reinterpret_cast<void*>(remainder_slot)},
    {Py_nb_divmod, reinterpret_cast<void*>(divmod_slot)},
    {Py_nb_power, reinterpret_cast<void*>(power_slot)},
    {Py_nb_matrix_multiply, reinterpret_cast<void*>(matmul_slot)},
    {Py_nb_negative, reinterpret_cast<void*>(unary_slot<Op::negate>)},
    {Py_nb_absolute, reinterpret_cast<void*>(unary_slot<Op::abs>)},
    {Py_nb_invert, reinterpret_cast<void*>(unary_slot<Op::not_>)},
    {Py_nb_and, reinterpret_cast<void*>(binary_slot<Op::and_>)},
    {Py_nb_or, reinterpret_cast<void*>(binary_slot<Op::or_>)},
    {Py_nb_xor, reinterpret_cast<void*>(binary_slot<Op::xor_>)},
    {Py_nb_lshift, reinterpret_cast<void*>(binary_slot<Op::shift_left>)},
    {Py_nb_rshift, reinterpret_cast<void*>(binary_slot<Op::shift_right_arithmetic>)},
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
      "set_hooks", [](const py::dict& d) { hooks = d.inc_ref().ptr(); },
      "Gives the functions that the Tensor type calls for what is written in Python.");
}

bool is_tensor(PyObject* object) { return Py_TYPE(object) == tensor_type; }
const Lazy& lazy_of(PyObject* tensor) { return reinterpret_cast<TensorObject*>(tensor)->cell->get(); }

PyObject* make_tensor(Lazy lazy) {
  auto* t = PyObject_New(TensorObject, tensor_type);
  if (!t) throw std::bad_alloc();
  t->weakrefs = nullptr;
  t->cell = new lazy::Cell(std::move(lazy));
  return reinterpret_cast<PyObject*>(t);
}

py::object to_object(Lazy lazy) { return py::reinterpret_steal<py::object>(make_tensor(std::move(lazy))); }

std::optional<Lazy> from_object(PyObject* o) {
  if (is_tensor(o)) return lazy_of(o);
  if (is_plain_number(o)) {
    std::optional<hlo::Value> v = number_value(o, default_dtype(o));
    if (!v) return std::nullopt;
    return Lazy{*v, !PyBool_Check(o)};
  }
  if (PyObject_CheckBuffer(o) && !PyBytes_Check(o) && !PyByteArray_Check(o)) return from_buffer(o);
  return std::nullopt;
}

bool promoted_operands(std::span<PyObject* const> objects, std::vector<Lazy>& out) {
  out.assign(objects.size(), Lazy{});
  std::optional<lazy::PromotedType> type;
  auto join = [&](DType dtype, bool weak) {
    type = type ? lazy::promote(type->dtype, type->weak, dtype, weak) : lazy::PromotedType{dtype, weak};
  };
  for (size_t i = 0; i < objects.size(); ++i) {
    PyObject* o = objects[i];
    if (is_plain_number(o)) {
      join(default_dtype(o), !PyBool_Check(o));
      continue;
    }
    std::optional<Lazy> x = from_object(o);
    if (!x) return false;
    join(x->value.dtype(), x->weak);
    out[i] = *std::move(x);
  }
  for (size_t i = 0; i < objects.size(); ++i) {
    if (out[i].value) continue;
    std::optional<hlo::Value> n = number_value(objects[i], type->dtype);
    if (!n) return false;
    out[i] = {*n, type->weak};
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

lazy::FlatFunction flat(const py::function& f) {
  return [f](const std::vector<Lazy>& args) {
    std::vector<Lazy> copies = args;
    return from_sequence(f(to_list(std::move(copies))).cast<py::sequence>());
  };
}

// --- locations and errors ---

namespace {

// Code objects seen, and whether they are the library's own.
bool is_library_code(PyCodeObject* code) {
  static auto* known = new absl::flat_hash_map<PyObject*, bool>;
  auto [it, inserted] = known->try_emplace(code->co_filename, false);
  if (inserted) {
    Py_INCREF(code->co_filename);
    const char* name = PyUnicode_AsUTF8(code->co_filename);
    PyObject* prefix = hooks ? PyDict_GetItemString(hooks, "package_path") : nullptr;
    const char* path = prefix ? PyUnicode_AsUTF8(prefix) : nullptr;
    it->second = name && path && std::strncmp(name, path, std::strlen(path)) == 0;
  }
  return it->second;
}

}  // namespace

hlo::LocationId user_location() {
  PyFrameObject* frame = PyEval_GetFrame();
  Py_XINCREF(frame);
  while (frame) {
    PyCodeObject* code = PyFrame_GetCode(frame);
    const bool library = is_library_code(code);
    if (!library) {
      const int line = PyFrame_GetLineNumber(frame);
      const char* file = PyUnicode_AsUTF8(code->co_filename);
      // The table is asked once per place.
      static auto* ids = new absl::flat_hash_map<std::pair<PyObject*, int>, hlo::LocationId>;
      auto [it, inserted] = ids->try_emplace({reinterpret_cast<PyObject*>(code->co_filename), line}, 0);
      if (inserted) {
        Py_INCREF(code->co_filename);
        it->second = hlo::intern_location(file ? file : "?", line, PyUnicode_AsUTF8(code->co_name));
      }
      Py_DECREF(code);
      Py_DECREF(frame);
      return it->second;
    }
    Py_DECREF(code);
    PyFrameObject* back = PyFrame_GetBack(frame);
    Py_DECREF(frame);
    frame = back;
  }
  return 0;
}

UserLocation::UserLocation() : saved_(hlo::record_state().location) {
  hlo::record_state().location = user_location();
}
UserLocation::~UserLocation() { hlo::record_state().location = saved_; }

void set_python_error() {
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

}  // namespace lamina::python
