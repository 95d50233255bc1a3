#include "python/elementwise.h"

#include <structmember.h>

#include <array>
#include <string>

#include "hlo/builder.h"
#include "python/jitted.h"
#include "python/location.h"
#include "python/number.h"
#include "python/recordings.h"
#include "python/tensor.h"

namespace py = pybind11;

namespace lamina::python {

using hlo::Attr;
using hlo::DType;
using hlo::DTypeKind;
using hlo::Op;
using lazy::Lazy;

namespace {

constexpr size_t kMaxOperands = 3;
constexpr uint32_t bit(DTypeKind kind) { return 1u << static_cast<int>(kind); }
constexpr uint32_t kInexact = bit(DTypeKind::kFloat) | bit(DTypeKind::kComplex);
constexpr uint32_t kNumbers = kInexact | bit(DTypeKind::kSigned) | bit(DTypeKind::kUnsigned);

// Whether there is a Tensor, every Tensor is of one of `kinds`, and the rest are numbers, booleans left out.
bool takes(std::span<PyObject* const> operands, uint32_t kinds) {
  bool tensor = false;
  for (PyObject* o : operands) {
    if (is_tensor(o)) {
      if (!(kinds & bit(hlo::info(lazy_of(o).value.dtype()).kind))) return false;
      tensor = true;
    } else if (PyBool_Check(o) || !is_plain_number(o)) {
      return false;
    }
  }
  return tensor;
}

// x to a known integer power by repeated squaring.
Lazy integer_power(const Lazy& x, int64_t n) {
  hlo::Builder b;
  const hlo::Value carried = lazy::carrier(b, x);
  hlo::Value out, square = carried;
  for (uint64_t rest = n < 0 ? -static_cast<uint64_t>(n) : static_cast<uint64_t>(n); rest; rest >>= 1) {
    if (rest & 1) out = out ? b.multiply(out, square) : square;
    if (rest > 1) square = b.multiply(square, square);
  }
  if (!out) out = b.full_like(carried, 1);
  if (n < 0) out = b.divide(b.full_like(carried, 1), out);
  Lazy result = lazy::from_carrier(b, out, x.value.dtype(), x.weak);
  lazy::check(b.status());
  lazy::note_recorded();
  return result;
}

}  // namespace

PyObject* elementwise(Op op, std::span<PyObject* const> operands, const hlo::Attrs* attrs) {
  return guarded([&]() -> PyObject* {
    // One hold of the lock for all that is recorded and for the handle that is made.
    hlo::GraphLock lock;
    absl::InlinedVector<const Lazy*, kMaxOperands> arrays(operands.size());
    size_t tensors = 0;
    while (tensors < operands.size() && is_tensor(operands[tensors])) {
      arrays[tensors] = &lazy_of(operands[tensors]);
      ++tensors;
    }
    if (tensors == operands.size()) return make_tensor(lazy::elementwise(op, arrays, attrs));
    absl::InlinedVector<Lazy, kMaxOperands> made(operands.size());
    // A select's condition is not promoted with the others.
    const size_t apart = op == Op::select ? 1 : 0;
    const auto promoted = [&](size_t from, size_t n) {
      return promoted_operands(operands.subspan(from, n), std::span(made).subspan(from, n),
                               std::span(arrays).subspan(from, n));
    };
    if (!promoted(0, apart) || !promoted(apart, operands.size() - apart)) {
      if (PyErr_Occurred()) return nullptr;
      Py_RETURN_NOTIMPLEMENTED;
    }
    return make_tensor(lazy::elementwise(op, arrays, attrs));
  });
}

// --- slots of which Python has the general form ---

PyObject* true_divide_slot(PyObject* a, PyObject* b) {
  PyObject* const operands[] = {a, b};
  return takes(operands, kInexact) ? binary_slot<Op::divide>(a, b) : call_hook("true_divide", a, b);
}

// The top bit of an unsigned integer is no sign.
PyObject* right_shift_slot(PyObject* a, PyObject* b) {
  PyObject* const operands[] = {a, b};
  if (takes(operands, bit(DTypeKind::kSigned))) return binary_slot<Op::shift_right_arithmetic>(a, b);
  if (takes(operands, bit(DTypeKind::kUnsigned))) return binary_slot<Op::shift_right_logical>(a, b);
  return call_hook("right_shift", a, b);
}

PyObject* power_slot(PyObject* a, PyObject* b, PyObject* modulus) {
  if (modulus != Py_None) Py_RETURN_NOTIMPLEMENTED;
  PyObject* const operands[] = {a, b};
  constexpr int64_t kMostMultiplied = 1024;
  if (PyLong_CheckExact(b) && takes({{a}}, kNumbers)) {
    int overflow = 0;
    const int64_t n = PyLong_AsLongLongAndOverflow(b, &overflow);
    const bool inexact = takes({{a}}, kInexact);
    if (overflow == 0 && n <= kMostMultiplied && n >= (inexact ? -kMostMultiplied : 0))
      return guarded([&] {
        hlo::GraphLock lock;
        return make_tensor(integer_power(lazy_of(a), n));
      });
  } else if (takes(operands, bit(DTypeKind::kFloat)) && (is_tensor(b) || PyFloat_CheckExact(b)) &&
             !PyComplex_Check(a)) {
    return binary_slot<Op::power>(a, b);
  }
  return call_hook("power", a, b);
}

// Whether a class that is derived from list or tuple says itself what its products are, or with what it is
// equal.
bool multiplies(PyObject* o) {
  const PyNumberMethods* const numbers = Py_TYPE(o)->tp_as_number;
  return numbers && numbers->nb_multiply;
}
bool compares(PyObject* o) {
  return Py_TYPE(o)->tp_richcompare != (PyList_Check(o) ? PyList_Type : PyTuple_Type).tp_richcompare;
}

PyObject* multiply_slot(PyObject* a, PyObject* b) {
  PyObject* const result = binary_slot<Op::multiply>(a, b);
  if (result != Py_NotImplemented) return result;
  // Python would repeat the list, a Tensor of no dimensions being an index.
  for (PyObject* o : {a, b})
    if ((PyList_Check(o) || PyTuple_Check(o)) && !multiplies(o)) {
      Py_DECREF(result);
      PyErr_Format(PyExc_TypeError, "a Tensor is not multiplied by a %s: use lamina.numpy.asarray(%s)",
                   Py_TYPE(o)->tp_name, PyList_Check(o) ? "[...]" : "(...)");
      return nullptr;
    }
  return result;
}

PyObject* compare_slot(PyObject* a, PyObject* b, int op) {
  static const hlo::Attrs* directions[6] = {};
  if (!directions[0])
    for (const auto& [code, name] :
         {std::pair{Py_LT, "LT"}, {Py_LE, "LE"}, {Py_EQ, "EQ"}, {Py_NE, "NE"}, {Py_GT, "GT"}, {Py_GE, "GE"}})
      directions[code] = hlo::intern_attrs({{Attr::direction, std::string(name)}});
  PyObject* result = elementwise(Op::compare, {{a, b}}, directions[op]);
  if (!result) explain_error(a, b);
  // Python would compare the objects, and answer with one False or True.
  if (result == Py_NotImplemented && (op == Py_EQ || op == Py_NE) && (PyList_Check(b) || PyTuple_Check(b)) &&
      !compares(b)) {
    Py_DECREF(result);
    PyErr_Format(PyExc_TypeError, "a Tensor is not compared with a %s: use lamina.numpy.asarray(%s)",
                 Py_TYPE(b)->tp_name, PyList_Check(b) ? "[...]" : "(...)");
    return nullptr;
  }
  return result;
}

// --- functions of one op ---

namespace {

PyTypeObject* function_type = nullptr;

// What is kept of a function: nothing, or what it records, with numbers among its arguments as they are or as
// operands.
enum class Recorded : uint8_t { kNot, kTypes, kElements };

struct FunctionObject {
  PyObject_HEAD vectorcallfunc call;
  Op op;
  const hlo::Attrs* attrs;
  uint32_t kinds;
  PyObject* general;
  bool views;              // whether its results are views in NumPy
  Recordings* recordings;  // null: it runs at every call
  PyObject* dict;
  PyObject* weakrefs;
};

PyObject* call_function(PyObject* self, PyObject* const* args, size_t flags, PyObject* names) {
  auto* f = reinterpret_cast<FunctionObject*>(self);
  const std::span operands(args, PyVectorcall_NARGS(flags));
  if (!names && operands.size() == static_cast<size_t>(hlo::op_def(f->op).arity) &&
      takes(operands, f->kinds)) {
    PyObject* result = elementwise(f->op, operands, f->attrs);
    // The general form tells what is wrong.
    if (result || !(PyErr_ExceptionMatches(PyExc_ValueError) || PyErr_ExceptionMatches(PyExc_TypeError)))
      return result;
    PyErr_Clear();
  }
  PyObject* viewed = nullptr;
  const Py_ssize_t given = PyVectorcall_NARGS(flags) + (names ? PyTuple_GET_SIZE(names) : 0);
  for (Py_ssize_t i = 0; f->views && !viewed && i < given; ++i)
    if (is_tensor(args[i])) viewed = args[i];
  for (Py_ssize_t i = PyVectorcall_NARGS(flags); viewed && i < given; ++i)
    if (args[i] == Py_True && PyUnicode_CompareWithASCIIString(
                                  PyTuple_GET_ITEM(names, i - given + PyTuple_GET_SIZE(names)), "copy") == 0)
      viewed = nullptr;
  PyObject* result = nullptr;
  if (f->recordings && !calls_are_checked()) result = f->recordings->call(args, operands.size(), names);
  if (!result && !PyErr_Occurred()) result = PyObject_Vectorcall(f->general, args, flags, names);
  return unshared(result, viewed);
}

PyObject* new_function(Op op, const hlo::Attrs* attrs, uint32_t kinds, const py::function& general,
                       bool views, Recorded recorded) {
  auto* f = PyObject_New(FunctionObject, function_type);
  if (!f) throw py::error_already_set();
  f->call = call_function;
  f->op = op;
  f->attrs = attrs;
  f->kinds = kinds;
  f->general = general.inc_ref().ptr();
  f->views = views;
  f->recordings =
      recorded == Recorded::kNot ? nullptr : new Recordings(f->general, recorded == Recorded::kElements);
  f->dict = nullptr;
  f->weakrefs = nullptr;
  return reinterpret_cast<PyObject*>(f);
}

void dealloc_function(PyObject* self) {
  auto* f = reinterpret_cast<FunctionObject*>(self);
  if (f->weakrefs) PyObject_ClearWeakRefs(self);
  delete f->recordings;
  Py_CLEAR(f->general);
  Py_CLEAR(f->dict);
  PyTypeObject* type = Py_TYPE(self);
  type->tp_free(self);
  Py_DECREF(type);
}

PyObject* function_repr(PyObject* self) {
  PyObject* module = PyObject_GetAttrString(self, "__module__");
  PyObject* name = module ? PyObject_GetAttrString(self, "__qualname__") : nullptr;
  PyObject* text = name ? PyUnicode_FromFormat("<function %U.%U>", module, name) : nullptr;
  Py_XDECREF(module);
  Py_XDECREF(name);
  return text;
}
// Pickled and copied by name, as functions are.
PyObject* function_reduce(PyObject* self, PyObject*) { return PyObject_GetAttrString(self, "__qualname__"); }

}  // namespace

void add_elementwise_function(py::module_& module) {
  static PyMemberDef members[] = {
      {"__vectorcalloffset__", T_PYSSIZET, offsetof(FunctionObject, call), READONLY, nullptr},
      {"__dictoffset__", T_PYSSIZET, offsetof(FunctionObject, dict), READONLY, nullptr},
      {"__weaklistoffset__", T_PYSSIZET, offsetof(FunctionObject, weakrefs), READONLY, nullptr},
      {nullptr, 0, 0, 0, nullptr}};
  static PyMethodDef methods[] = {{"__reduce__", function_reduce, METH_NOARGS, nullptr},
                                  {nullptr, nullptr, 0, nullptr}};
  static PyGetSetDef getters[] = {
      {"__dict__", PyObject_GenericGetDict, PyObject_GenericSetDict, nullptr, nullptr},
      {nullptr, nullptr, nullptr, nullptr, nullptr}};
  static PyType_Slot slots[] = {{Py_tp_doc, const_cast<char*>("A function that records one elementwise op.")},
                                {Py_tp_dealloc, reinterpret_cast<void*>(dealloc_function)},
                                {Py_tp_call, reinterpret_cast<void*>(PyVectorcall_Call)},
                                {Py_tp_repr, reinterpret_cast<void*>(function_repr)},
                                {Py_tp_members, members},
                                {Py_tp_methods, methods},
                                {Py_tp_getset, getters},
                                {0, nullptr}};
  static PyType_Spec spec = {
      "lamina.ElementwiseFunction", sizeof(FunctionObject), 0,
      Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_VECTORCALL | Py_TPFLAGS_DISALLOW_INSTANTIATION, slots};
  PyObject* type = PyType_FromSpec(&spec);
  if (!type) throw py::error_already_set();
  function_type = reinterpret_cast<PyTypeObject*>(type);
  module.def(
      "elementwise_function",
      [](const std::string& name, const std::string& kinds, const py::function& general,
         const std::string& direction) {
        const std::optional<Op> op = hlo::parse_op(name);
        if (!op) throw py::value_error("there is no op '" + name + "'");
        uint32_t mask = 0;
        constexpr std::string_view kLetters = "biufc";
        for (char c : kinds) mask |= 1u << kLetters.find(c);
        const hlo::Attrs* attrs =
            direction.empty() ? hlo::no_attrs() : hlo::intern_attrs({{Attr::direction, direction}});
        return py::reinterpret_steal<py::object>(
            new_function(*op, attrs, mask, general, false, Recorded::kNot));
      },
      py::arg("op"), py::arg("kinds"), py::arg("general"), py::arg("direction") = "",
      "A function that records `op` on Tensors whose kinds (letters of NumPy's dtype.kind) are among "
      "`kinds`, "
      "and numbers; anything else goes to `general`.");
  module.def(
      "own_results",
      [](const py::function& f, bool views, bool recorded, bool of_elements) {
        const Recorded how = of_elements ? Recorded::kElements : recorded ? Recorded::kTypes : Recorded::kNot;
        return py::reinterpret_steal<py::object>(
            new_function(Op::identity, hlo::no_attrs(), 0, f, views, how));
      },
      py::arg("f"), py::arg("views"), py::arg("recorded") = false, py::arg("of_elements") = false,
      "`f`, whose results are Tensors that nobody else holds; `views`: NumPy would return views of the first "
      "Tensor among the arguments, so that writing to one while that Tensor lives raises; `recorded`: what "
      "it "
      "records is a matter of its arguments' types (python/recordings.h); `of_elements`: that, and all "
      "numbers "
      "among them are elements.");
}

}  // namespace lamina::python
