#include "python/reads.h"

#include <utility>
#include <vector>

#include "absl/container/inlined_vector.h"
#include "python/content.h"
#include "python/jitted.h"
#include "python/tensor.h"
#include "python/traversed.h"
#include "python/weak.h"

namespace py = pybind11;

namespace lamina::python {
namespace {

// How a read is reached, and what must hold of what it finds; the numbers are those of python: _read_set.
enum Access { kObject, kWeak, kCell, kAttribute, kItem, kSame, kContext };
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
  kAlias,
  kOneValue,
  kPresent
};
constexpr Py_ssize_t kFields = 5;  // access, number of the read it starts from, holder or key, test, expected

// What is there now, held; null, without an exception, if nothing is.
PyObject* reach(Access access, PyObject* from, PyObject* key) {
  switch (access) {
    case kObject:
      return Py_NewRef(key);
    case kWeak:
      return referent(key);
    case kCell:
      return Py_XNewRef(PyCell_GET(key));
    case kSame:
      return Py_XNewRef(from);
    case kContext: {
      PyObject* value = nullptr;
      if (from && PyContextVar_CheckExact(from) && PyContextVar_Get(from, nullptr, &value) < 0) PyErr_Clear();
      return value;
    }
    case kAttribute:
    case kItem: {
      if (!from) return nullptr;
      PyObject* o = nullptr;
      if (access == kAttribute) {
        // Asked of every function that was called, at each call of what called it: without a look-up by name.
        if (PyFunction_Check(from) && PyUnicode_CompareWithASCIIString(key, "__code__") == 0)
          return Py_NewRef(PyFunction_GET_CODE(from));
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

// Whether it is a bound method, the user's or a jitted one, and of what.
bool is_method(PyObject* o, PyObject* function, PyObject* self) {
  if (PyMethod_Check(o)) return PyMethod_GET_FUNCTION(o) == function && PyMethod_GET_SELF(o) == self;
  return is_bound_jit(o, function, self);
}

}  // namespace

// One read: by which way, and what must hold of what it finds. Strong references.
struct Guards::Row {
  Access access;
  Test test;
  int from;
  int taken;  // which of takes_, or -1
  PyObject* key;
  PyObject* expected;
};

// A read whose value is a parameter: where it lies among the tensors, and who is told.
struct Guards::Take {
  int row;
  Py_ssize_t tensor;  // -1: nowhere, nothing was computed with it
  PyObject* read;
  PyObject* number;  // null: the value is a Tensor
};

class Guards::Rows {
 public:
  Rows() = default;
  Rows(const Rows&) = delete;
  Rows& operator=(const Rows&) = delete;
  ~Rows() {
    for (Row& r : rows) {
      Py_XDECREF(r.key);
      Py_XDECREF(r.expected);
    }
    for (Take& t : takes) {
      Py_XDECREF(t.read);
      Py_XDECREF(t.number);
    }
  }
  std::vector<Row> rows;
  std::vector<Take> takes;
};

namespace {

// The objects found so far, each held.
class Found {
 public:
  ~Found() {
    for (PyObject* item : items_) Py_XDECREF(item);
  }
  PyObject* operator[](size_t i) const { return items_[i]; }
  void push(PyObject* held) { items_.push_back(held); }

 private:
  absl::InlinedVector<PyObject*, 16> items_;
};

// Two Tensors that hold the same value, as a copy does until one of them is written to.
bool is_one_value(PyObject* a, PyObject* b) {
  return a && b && is_tensor(a) && is_tensor(b) && lazy_of(a).value == lazy_of(b).value;
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
      return refers_to(expected, now);
    case kLength:
      return PyObject_Size(now) == PyLong_AsSsize_t(expected);
    case kKeys:
      return same_keys(now, expected);
    case kMethod:
      return is_method(now, expected, from);
    case kContent:
      return has_content(now, {PyBytes_AS_STRING(expected), static_cast<size_t>(PyBytes_GET_SIZE(expected))});
    case kReadOnly:
      return is_read_only(now);
    case kAlias:
      return now == found[static_cast<size_t>(PyLong_AsSsize_t(expected))];
    case kPresent:
      return true;
    case kOneValue:
      return is_one_value(now, found[static_cast<size_t>(PyLong_AsSsize_t(expected))]);
    default:
      return false;
  }
}

// A number as the array that its parameter takes; null where it is none (python: _observed.is_number).
py::object number_leaf(PyObject* number) {
  if (PyFloat_CheckExact(number)) {
    const double d = PyFloat_AS_DOUBLE(number);
    return to_object({lazy::from_host(hlo::DType::kF64, {}, &d), false});
  }
  int overflow = 0;
  const long long v = PyLong_AsLongLongAndOverflow(number, &overflow);
  if (overflow != 0 || v != static_cast<int32_t>(v)) return {};
  const auto i = static_cast<int32_t>(v);
  return to_object({lazy::from_host(hlo::DType::kS32, {}, &i), false});
}

bool is_kind_of_number(PyObject* o) { return PyFloat_CheckExact(o) || PyLong_CheckExact(o); }

bool set_slot(PyObject* o, const char* name, PyObject* value) {
  return PyObject_SetAttrString(o, name, value) == 0;
}

}  // namespace

Guards::Guards() : rows_(std::make_shared<Rows>()), tensors_(0) {}

// Evaluates the rows in order; for each that does not hold `failed` says whether to go on.
template <typename Found, typename Failed>
bool Guards::evaluate(const Rows& all, Found& found, Failed failed) {
  for (size_t i = 0; i < all.rows.size(); ++i) {
    const Row& row = all.rows[i];
    PyObject* from = row.access >= kAttribute ? found[static_cast<size_t>(row.from)] : nullptr;
    PyObject* now = reach(row.access, from, row.key);
    found.push(now);
    if (holds(row.test, now, from, row.expected, found)) continue;
    PyErr_Clear();  // what cannot be compared has changed
    if (!failed(static_cast<int>(i), now)) return false;
  }
  return true;
}

void Guards::set(const py::tuple& rows, const py::tuple& tensors, const py::tuple& takes) {
  auto made = std::make_shared<Rows>();
  const Py_ssize_t n = PyTuple_GET_SIZE(rows.ptr()) / kFields;
  made->rows.reserve(static_cast<size_t>(n));
  for (Py_ssize_t i = 0; i < n; ++i) {
    PyObject* const* f = &PyTuple_GET_ITEM(rows.ptr(), i * kFields);
    made->rows.push_back({static_cast<Access>(PyLong_AsLong(f[0])), static_cast<Test>(PyLong_AsLong(f[3])),
                          static_cast<int>(PyLong_AsLong(f[1])), -1, Py_NewRef(f[2]), Py_NewRef(f[4])});
  }
  made->takes.reserve(takes.size());
  for (const py::handle& t : takes) {
    const auto take = py::reinterpret_borrow<py::tuple>(t);
    const int row = take[0].cast<int>();
    made->rows.at(static_cast<size_t>(row)).taken = static_cast<int>(made->takes.size());
    py::object read = take[2], number = take[3];
    made->takes.push_back({row, take[1].cast<Py_ssize_t>(), read.release().ptr(),
                           number.is_none() ? nullptr : number.release().ptr()});
  }
  rows_ = std::move(made);
  tensors_ = tensors;
}

bool Guards::hold() const {
  const std::shared_ptr<Rows> rows = rows_;
  Found found;
  return evaluate(*rows, found, [](int, PyObject*) { return false; });
}

py::tuple Guards::now(const py::object& missing) const {
  const std::shared_ptr<Rows> rows = rows_;
  Found found;
  py::list failed, now;
  evaluate(*rows, found, [&](int i, PyObject*) {
    failed.append(i);
    return true;
  });
  for (size_t i = 0; i < rows->rows.size(); ++i)
    now.append(found[i] ? py::handle(found[i]) : py::handle(missing));
  return py::make_tuple(now, failed);
}

bool Guards::serve() {
  if (rows_->rows.empty()) return true;
  const std::shared_ptr<Rows> rows =
      rows_;  // what is read may run the user's code, which may come here again
  Found found;
  absl::InlinedVector<std::pair<Take*, PyObject*>, 4> changed;
  const bool served = evaluate(*rows, found, [&](int i, PyObject* now) {
    const int taken = rows->rows[static_cast<size_t>(i)].taken;
    if (taken < 0 || !now) return false;
    Take& take = rows->takes[static_cast<size_t>(taken)];
    PyObject* const before = rows->rows[static_cast<size_t>(i)].expected;
    if (Py_TYPE(now) != Py_TYPE(before)) return false;
    if (take.number ? !is_kind_of_number(now) : type_word(lazy_of(now)) != type_word(lazy_of(before)))
      return false;
    changed.emplace_back(&take, now);
    return true;
  });
  if (!served || rows != rows_) return false;
  return changed.empty() || take(*rows, changed);
}

bool Guards::take(Rows& rows, std::span<const std::pair<Take*, PyObject*>> changed) {
  absl::InlinedVector<py::object, 4> leaves;
  for (const auto& [take, now] : changed) {
    leaves.push_back(take->number ? number_leaf(now) : py::reinterpret_borrow<py::object>(now));
    if (!leaves.back()) return false;
  }
  py::tuple tensors(tensors_.size());
  for (size_t i = 0; i < tensors_.size(); ++i) tensors[i] = tensors_[i];
  for (size_t i = 0; i < changed.size(); ++i) {
    const auto& [take, now] = changed[i];
    if (take->tensor >= 0) tensors[static_cast<size_t>(take->tensor)] = leaves[i];
    bool told = set_slot(take->read, "expected", now);
    if (take->number)
      told =
          told && set_slot(take->number, "value", now) && set_slot(take->number, "_tensor", leaves[i].ptr());
    if (!told) throw py::error_already_set();
    Py_INCREF(now);
    Py_SETREF(rows.rows[static_cast<size_t>(take->row)].expected, now);
  }
  tensors_ = std::move(tensors);
  return true;
}

int Guards::traverse(visitproc visit, void* arg) const {
  for (const Row& r : rows_->rows) {
    Py_VISIT(r.key);
    Py_VISIT(r.expected);
  }
  for (const Take& t : rows_->takes) {
    Py_VISIT(t.read);
    Py_VISIT(t.number);
  }
  Py_VISIT(tensors_.ptr());
  return 0;
}

void Guards::clear() {
  rows_ = std::make_shared<Rows>();
  tensors_ = py::tuple(0);
}

void add_reads(py::module_& m) {
  py::class_<Guards>(m, "Guards", traversed<Guards>())
      .def(py::init<>())
      .def("set", &Guards::set,
           "Rows of five fields each, the hidden arguments, and (row, hidden argument or -1, read, number or "
           "None) of the reads whose values are parameters.")
      .def("hold", &Guards::hold, "Whether all reads find what they found when the rows were set.")
      .def("now", &Guards::now,
           "What the reads find now, and the numbers of those that do not hold; takes what stands for "
           "nothing.")
      .def_property_readonly("tensors", &Guards::tensors);
  m.def(
      "content_of", [](py::handle array) { return content_of(array.ptr()); },
      "Bytes that tell the content of an array apart from any other; None if it shows no memory.");
  m.def(
      "is_one_value", [](py::handle a, py::handle b) { return is_one_value(a.ptr(), b.ptr()); },
      "Whether two Tensors hold the same value, as a copy does until one of them is written to.");
  m.def(
      "is_read_only", [](py::handle array) { return is_read_only(array.ptr()); },
      "Whether an array shows memory that cannot be written through it.");
}

}  // namespace lamina::python
