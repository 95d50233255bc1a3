#include "python/reads.h"

#include <array>
#include <vector>

#include "python/content.h"
#include "python/location.h"

namespace py = pybind11;

namespace lamina::python {
namespace {

// How a read is reached, and what must hold of what it finds; the numbers are those of python: _read_set.
enum Access { kObject, kWeak, kCell, kAttribute, kItem, kSame };
enum Test {
  kAny,
  kIs,
  kType,
  kEqual,
  kIsWeak,
  kLength,
  kKeys,
  kAbsent,
  kMethod,
  kContent,
  kReadOnly,
  kAlias
};
constexpr Py_ssize_t kFields = 5;  // access, number of the read it starts from, holder or key, test, expected
constexpr size_t kInline = 64;

// The objects found so far, each held.
class Found {
 public:
  explicit Found(size_t n) {
    if (n > kInline) many_.resize(n);
    items_ = n > kInline ? many_.data() : few_.data();
  }
  ~Found() {
    for (size_t i = 0; i < size_; ++i) Py_XDECREF(items_[i]);
  }
  Found(const Found&) = delete;
  Found& operator=(const Found&) = delete;
  PyObject* operator[](size_t i) const { return items_[i]; }
  void push(PyObject* held) { items_[size_++] = held; }

 private:
  std::array<PyObject*, kInline> few_;
  std::vector<PyObject*> many_;
  PyObject** items_ = nullptr;
  size_t size_ = 0;
};

// What is there now, held; null, without an exception, if nothing is.
PyObject* reach(Access access, PyObject* from, PyObject* key) {
  switch (access) {
    case kObject:
      return Py_NewRef(key);
    case kWeak: {
      PyObject* o = PyWeakref_GetObject(key);
      return o == Py_None ? nullptr : Py_XNewRef(o);
    }
    case kCell:
      return Py_XNewRef(PyCell_GET(key));
    case kSame:
      return Py_XNewRef(from);
    case kAttribute:
    case kItem: {
      if (!from) return nullptr;
      PyObject* o = nullptr;
      if (access == kAttribute) {
        o = PyObject_GetAttr(from, key);
      } else if (PyDict_Check(from)) {
        o = Py_XNewRef(PyDict_GetItemWithError(from, key));
      } else if (PyLong_Check(key)) {
        o = PySequence_GetItem(from, PyLong_AsSsize_t(key));
      }
      if (!o) PyErr_Clear();
      return o;
    }
  }
  return nullptr;
}

bool same_keys(PyObject* dict, PyObject* expected) {
  if (!PyDict_Check(dict) || PyDict_GET_SIZE(dict) != PyTuple_GET_SIZE(expected)) return false;
  PyObject* key = nullptr;
  Py_ssize_t at = 0;
  for (Py_ssize_t i = 0; PyDict_Next(dict, &at, &key, nullptr); ++i) {
    PyObject* wanted = PyTuple_GET_ITEM(expected, i);
    if (key != wanted && PyObject_RichCompareBool(key, wanted, Py_EQ) != 1) return false;
  }
  return true;
}

bool holds(Test test, PyObject* now, PyObject* from, PyObject* expected, const Found& found) {
  if (test == kAny) return true;
  if (test == kAbsent) return !now;
  if (!now) return false;
  switch (test) {
    case kIs:
      return now == expected;
    case kType:
      return reinterpret_cast<PyObject*>(Py_TYPE(now)) == expected;
    case kEqual:
      return now == expected ||
             (Py_TYPE(now) == Py_TYPE(expected) && PyObject_RichCompareBool(now, expected, Py_EQ) == 1);
    case kIsWeak:
      return PyWeakref_GetObject(expected) == now;
    case kLength:
      return PyObject_Size(now) == PyLong_AsSsize_t(expected);
    case kKeys:
      return same_keys(now, expected);
    case kMethod:
      return PyMethod_Check(now) && PyMethod_GET_FUNCTION(now) == expected && PyMethod_GET_SELF(now) == from;
    case kContent:
      return has_content(now, {PyBytes_AS_STRING(expected), static_cast<size_t>(PyBytes_GET_SIZE(expected))});
    case kReadOnly:
      return is_read_only(now);
    case kAlias:
      return now == found[static_cast<size_t>(PyLong_AsSsize_t(expected))];
    default:
      return false;
  }
}

// Evaluates the rows in order; for each that does not hold `failed` says whether to go on.
template <typename Failed>
bool evaluate(PyObject* reads, Found& found, Failed failed) {
  const Py_ssize_t n = PyTuple_GET_SIZE(reads) / kFields;
  for (Py_ssize_t i = 0; i < n; ++i) {
    PyObject* const* row = &PyTuple_GET_ITEM(reads, i * kFields);
    const auto access = static_cast<Access>(PyLong_AsLong(row[0]));
    PyObject* from = access >= kAttribute ? found[static_cast<size_t>(PyLong_AsSsize_t(row[1]))] : nullptr;
    PyObject* now = reach(access, from, row[2]);
    found.push(now);
    if (holds(static_cast<Test>(PyLong_AsLong(row[3])), now, from, row[4], found)) continue;
    PyErr_Clear();  // what cannot be compared has changed
    if (!failed(i)) return false;
  }
  return true;
}

size_t rows_of(PyObject* reads) { return static_cast<size_t>(PyTuple_GET_SIZE(reads) / kFields); }

PyObject* reads_hold(PyObject*, PyObject* reads) {
  Found found(rows_of(reads));
  return PyBool_FromLong(evaluate(reads, found, [](Py_ssize_t) { return false; }));
}

PyObject* reads_now(PyObject*, PyObject* const* args, Py_ssize_t n) {
  if (n != 2 || !PyTuple_Check(args[0])) {
    PyErr_SetString(PyExc_TypeError, "reads_now takes a tuple of rows and what stands for nothing");
    return nullptr;
  }
  Found found(rows_of(args[0]));
  try {
    py::list failed, now;
    evaluate(args[0], found, [&](Py_ssize_t i) {
      failed.append(i);
      return true;
    });
    for (size_t i = 0; i < rows_of(args[0]); ++i) now.append(py::handle(found[i] ? found[i] : args[1]));
    return py::make_tuple(now, failed).release().ptr();
  } catch (...) {
    set_python_error();
    return nullptr;
  }
}

PyMethodDef methods[] = {
    {"reads_hold", reads_hold, METH_O,
     "Whether all reads of a flat tuple of rows find what they found when it was made."},
    {"reads_now", reinterpret_cast<PyCFunction>(reinterpret_cast<void (*)()>(reads_now)), METH_FASTCALL,
     "What the reads of a flat tuple of rows find now, and the numbers of those that do not hold."},
};

}  // namespace

void add_reads(py::module_& m) {
  for (PyMethodDef& method : methods)
    m.attr(method.ml_name) = py::reinterpret_steal<py::object>(PyCFunction_New(&method, nullptr));
  m.def(
      "content_of", [](py::handle array) { return content_of(array.ptr()); },
      "Bytes that tell the content of an array apart from any other; None if it shows no memory.");
  m.def(
      "is_read_only", [](py::handle array) { return is_read_only(array.ptr()); },
      "Whether an array shows memory that cannot be written through it.");
}

}  // namespace lamina::python
