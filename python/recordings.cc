#include "python/recordings.h"

#include <optional>
#include <utility>

#include "absl/container/inlined_vector.h"
#include "hlo/builder.h"
#include "hlo/computation.h"
#include "lamina/error.h"
#include "lazy/transforms.h"
#include "python/location.h"
#include "python/number.h"
#include "python/tensor.h"

namespace py = pybind11;

namespace lamina::python {

using lazy::Lazy;

namespace {

int64_t replayed = 0;

constexpr size_t kMostKinds = 256;           // of one function: then it begins anew
constexpr size_t kMostSteps = 256;           // longer ones cost more than their Python code does
constexpr int64_t kMostCaptured = 64 << 10;  // bytes of the tables that a function makes

// What stands in a key before the words of an argument.
enum Tag : uint64_t {
  kATensor,
  kANumber,
  kANone,
  kAFalse,
  kATrue,
  kAnInteger,
  kAnObject,
  kAName,
  kATuple,
  kAList
};

}  // namespace

// A call's arguments: what is part of their kind, and the arrays.
class Recordings::Arguments {
 public:
  explicit Arguments(bool of_elements) : of_elements_(of_elements) {}

  // False for what may not be part of a kind.
  bool read(PyObject* const* args, size_t count, PyObject* names) {
    key.push_back(lazy::default_types().key());
    key.push_back(hlo::record_state().mode);  // of what is recorded in regions
    const size_t by_name = names ? static_cast<size_t>(PyTuple_GET_SIZE(names)) : 0;
    for (size_t i = 0; i < count + by_name; ++i) {
      if (i >= count) hold(kAName, PyTuple_GET_ITEM(names, static_cast<Py_ssize_t>(i - count)));
      if (!read(args[i])) return false;
    }
    return !has_number_ || (has_inexact_ && !has_other_);
  }
  // Whether it is an operand: a Tensor or, where all of them are elements, a number.
  bool is_operand(PyObject* o) const {
    return is_tensor(o) || (of_elements_ && (PyFloat_CheckExact(o) || PyLong_CheckExact(o)));
  }

  Key key;
  std::vector<py::object> operands;
  std::vector<PyObject*> named;  // in the key by their addresses

 private:
  void hold(Tag tag, PyObject* object) {
    key.push_back(tag);
    key.push_back(reinterpret_cast<uint64_t>(object));
    named.push_back(object);
  }

  bool read(PyObject* o) {
    if (is_tensor(o)) {
      const Lazy& x = lazy_of(o);
      if (!x.value || x.weak) return false;
      key.push_back(kATensor);
      key.push_back(reinterpret_cast<uint64_t>(x.value.type()));
      operands.push_back(py::reinterpret_borrow<py::object>(o));
      (hlo::is_inexact(x.value.dtype()) ? has_inexact_ : has_other_) = true;
    } else if (is_operand(o)) {
      int overflow = 0;
      if (PyLong_Check(o)) PyLong_AsLongLongAndOverflow(o, &overflow);
      if (overflow != 0) return false;
      key.push_back(kANumber);
      key.push_back(static_cast<uint64_t>(default_dtype(o)));
      operands.push_back(py::reinterpret_borrow<py::object>(o));
      has_number_ = true;
    } else if (o == Py_None) {
      key.push_back(kANone);
    } else if (PyBool_Check(o)) {
      key.push_back(o == Py_True ? kATrue : kAFalse);
    } else if (PyLong_CheckExact(o)) {
      int overflow = 0;
      key.push_back(kAnInteger);
      key.push_back(static_cast<uint64_t>(PyLong_AsLongLongAndOverflow(o, &overflow)));
      return overflow == 0;
    } else if (PyUnicode_Check(o) || PyType_Check(o)) {  // element types are strings and types
      hold(kAnObject, o);
    } else if (PyTuple_CheckExact(o) || PyList_CheckExact(o)) {
      key.push_back(PyTuple_CheckExact(o) ? kATuple : kAList);
      key.push_back(static_cast<uint64_t>(Py_SIZE(o)));
      if (key.size() > kMostSteps) return false;
      for (Py_ssize_t i = 0; i < Py_SIZE(o); ++i)
        if (!read(PySequence_Fast_GET_ITEM(o, i))) return false;
    } else {
      return false;
    }
    return true;
  }

  const bool of_elements_;
  // A number beside integers is looked at: it may not fit them.
  bool has_number_ = false, has_inexact_ = false, has_other_ = false;
};

// An argument with other Tensors in place of its operands, in order.
py::object Recordings::substituted(const Arguments& read, PyObject* o, std::span<const Lazy>& rest) {
  if (read.is_operand(o)) {
    py::object tensor = to_object(rest.front());
    rest = rest.subspan(1);
    return tensor;
  }
  const bool tuple = PyTuple_CheckExact(o);
  if (!tuple && !PyList_CheckExact(o)) return py::reinterpret_borrow<py::object>(o);
  py::list items;
  for (Py_ssize_t i = 0; i < Py_SIZE(o); ++i)
    items.append(substituted(read, PySequence_Fast_GET_ITEM(o, i), rest));
  return tuple ? py::object(py::tuple(items)) : items;
}

Recordings::Recording Recordings::record(PyObject* const* args, size_t count, PyObject* names,
                                         const Arguments& read) const {
  Recording made;
  for (PyObject* object : read.named) made.held.push_back(py::reinterpret_borrow<py::object>(object));
  const size_t all = count + (names ? static_cast<size_t>(PyTuple_GET_SIZE(names)) : 0);
  const lazy::FlatFunction run = [&](const std::vector<Lazy>& parameters) {
    std::span<const Lazy> rest(parameters);
    std::vector<py::object> owned;
    std::vector<PyObject*> given;
    for (size_t i = 0; i < all; ++i)
      given.push_back(owned.emplace_back(substituted(read, args[i], rest)).ptr());
    const auto result =
        py::reinterpret_steal<py::object>(PyObject_Vectorcall(function_, given.data(), count, names));
    if (!result) throw py::error_already_set();
    if (!is_tensor(result.ptr())) throw Error(ErrorKind::kType, "more than one Tensor");
    return std::vector<Lazy>{lazy_of(result.ptr())};
  };
  std::vector<lazy::Typed> types, results;
  for (const py::object& o : read.operands)
    if (is_tensor(o.ptr()))
      types.push_back({lazy_of(o.ptr()).value.type(), false});
    else
      types.push_back({hlo::scalar_type(default_dtype(o.ptr())), true});
  std::vector<Lazy> captured;
  hlo::ComputationPtr computation;
  try {
    computation = lazy::region(run, types, &captured, &results);
  } catch (py::error_already_set& e) {
    // It reads values, or refuses the arguments: its own matter, when it runs.
    if (!e.matches(PyExc_Exception)) throw;
    return made;
  } catch (const Error&) {
    return made;
  }
  const hlo::Computation& region = *computation;
  int64_t bytes = 0;
  for (const Lazy& c : captured) {
    if (!c.value.node()->data()) return made;
    bytes += c.value.type()->bytes();
    made.captured.push_back(c.value);
  }
  if (bytes > kMostCaptured || results.size() != 1 || results[0].weak || region.nodes().size() > kMostSteps)
    return made;
  HashMap<const hlo::Node*, uint32_t> number;
  for (const hlo::Value& p : region.parameters())
    number.try_emplace(p.node(), static_cast<uint32_t>(number.size()));
  const auto place = [&](hlo::Operand o) { return Place{number.find(o.node())->second, o.index()}; };
  for (const hlo::Node* n : region.nodes()) {
    if (number.contains(n)) continue;
    made.steps.push_back({n->op(), &n->attrs(), made.operands.size(), n->operands().size()});
    n->attrs().retain();
    for (const hlo::Operand o : n->operands()) made.operands.push_back(place(o));
    number.try_emplace(n, static_cast<uint32_t>(number.size()));
  }
  made.result = place(region.roots()[0].operand());
  made.usable = true;
  return made;
}

PyObject* Recordings::replay(const Recording& recording, const Arguments& read) {
  return guarded([&]() -> PyObject* {
    hlo::GraphLock lock;
    hlo::Builder b;
    absl::InlinedVector<hlo::Operand, 16> made;
    absl::InlinedVector<hlo::Value, 16> owned;
    absl::InlinedVector<hlo::Operand, 16> operands;
    for (const py::object& o : read.operands) {
      if (is_tensor(o.ptr())) {
        made.push_back(lazy_of(o.ptr()).value.operand());
        continue;
      }
      const std::optional<Lazy> number = number_lazy(o.ptr());
      if (!number) return nullptr;
      owned.push_back(lazy::carrier(b, *number));
      made.push_back(owned.back().operand());
    }
    for (const hlo::Value& c : recording.captured) made.push_back(c.operand());
    const auto at = [&](Place p) {
      const hlo::Operand o = made[p.step];
      return p.index == 0 ? o : hlo::Operand(o.node(), p.index);
    };
    for (const Step& step : recording.steps) {
      operands.clear();
      for (size_t i = 0; i < step.num_operands; ++i)
        operands.push_back(at(recording.operands[step.first_operand + i]));
      owned.push_back(b.record(step.op, operands, step.attrs));
      lazy::check(b.status());
      made.push_back(owned.back().operand());
    }
    PyObject* const result = make_tensor(Lazy{hlo::Value(at(recording.result)), false});
    ++replayed;
    for (size_t i = 0; i < recording.steps.size(); ++i) lazy::note_recorded();
    return result;
  });
}

int64_t replayed_calls() { return replayed; }

PyObject* Recordings::call(PyObject* const* args, size_t count, PyObject* names) {
  Arguments read(of_elements_);
  if (!read.read(args, count, names)) return nullptr;
  const auto it = known_.find(read.key);
  if (it == known_.end()) {
    if (known_.size() == kMostKinds) known_.clear();
    known_.try_emplace(std::move(read.key));
    return nullptr;
  }
  if (it->second) {
    // Held, as another thread may come in between and take it out of the table.
    const std::shared_ptr<const Recording> known = it->second;
    return known->usable ? replay(*known, read) : nullptr;
  }
  return guarded([&]() -> PyObject* {
    auto made = std::make_shared<const Recording>(record(args, count, names, read));
    known_[std::move(read.key)] = std::move(made);
    return nullptr;
  });
}

}  // namespace lamina::python
