#include "python/signature.h"

#include <cstring>

#include "hlo/hash_map.h"
#include "python/hooks.h"
#include "python/number.h"
#include "python/tensor.h"
#include "python/tree.h"

namespace py = pybind11;

namespace lamina::python {
namespace {

using lazy::Lazy;

// Classes that the user made containers of; they are never taken back.
PyObject* registry() { return hook("containers"); }

// An integer that is of the default type on its own, as default_dtype says.
bool is_default_integer(PyObject* o) { return default_dtype(o) == lazy::default_types().integer; }

bool same_bits(double a, double b) { return std::memcmp(&a, &b, sizeof a) == 0; }

// NumPy's arrays and scalars, by their exact types: what is done to them runs no code of the user.
bool is_numpy(PyTypeObject* type) {
  return std::strncmp(type->tp_name, "numpy.", 6) == 0 && !(type->tp_flags & Py_TPFLAGS_HEAPTYPE);
}

}  // namespace

Py_ssize_t registered_classes() {
  PyObject* const classes = registry();
  return classes ? PyDict_GET_SIZE(classes) : 0;
}

void CallLeaves::reset(size_t size) {
  for (PyObject* leaf : leaves_) Py_XDECREF(leaf);
  leaves_.assign(size, nullptr);
}

PyObject* CallLeaves::converted(PyObject* array) {
  for (const auto& [from, tensor] : converted_)
    if (from == array) return tensor.ptr();
  std::optional<Lazy> lazy;
  try {
    lazy = from_object(array);
  } catch (py::error_already_set&) {  // the general way tells what is wrong
  }
  PyErr_Clear();
  if (!lazy) return nullptr;
  converted_.emplace_back(array, to_object(*std::move(lazy)));
  return converted_.back().second.ptr();
}

Py_hash_t CallLeaves::hash(PyObject* value) {
  for (const auto& [of, hash] : hashes_)
    if (of == value) return hash;
  const Py_hash_t hash = PyObject_Hash(value);
  if (hash != -1) hashes_.emplace_back(value, hash);
  return hash;
}

SameStatic same_static_now(PyObject* a, PyObject* b) {
  if (Py_TYPE(a) != Py_TYPE(b)) return SameStatic::kNo;
  const auto told = [](bool same) { return same ? SameStatic::kYes : SameStatic::kNo; };
  if (PyFloat_CheckExact(a)) return told(same_bits(PyFloat_AS_DOUBLE(a), PyFloat_AS_DOUBLE(b)));
  if (PyComplex_CheckExact(a))
    return told(same_bits(PyComplex_RealAsDouble(a), PyComplex_RealAsDouble(b)) &&
                same_bits(PyComplex_ImagAsDouble(a), PyComplex_ImagAsDouble(b)));
  if (PyUnicode_CheckExact(a) || PyLong_CheckExact(a) || PyBool_Check(a) || PyBytes_CheckExact(a) ||
      a == Py_None || PyFunction_Check(a) || PyCFunction_CheckExact(a))
    return told(a == b || PyObject_RichCompareBool(a, b, Py_EQ) == 1);
  if (PyTuple_CheckExact(a)) {
    const Py_ssize_t n = PyTuple_GET_SIZE(a);
    SameStatic all = told(n == PyTuple_GET_SIZE(b));
    if (Py_EnterRecursiveCall("")) {
      PyErr_Clear();
      return SameStatic::kUnknown;
    }
    for (Py_ssize_t i = 0; i < n && all != SameStatic::kNo; ++i) {
      const SameStatic one = same_static_now(PyTuple_GET_ITEM(a, i), PyTuple_GET_ITEM(b, i));
      if (one != SameStatic::kYes) all = one;
    }
    Py_LeaveRecursiveCall();
    return all;
  }
  return SameStatic::kUnknown;
}

int same_static(PyObject* a, PyObject* b) {
  if (Py_TYPE(a) != Py_TYPE(b)) return 0;
  if (!PyTuple_CheckExact(a)) {
    const SameStatic now = same_static_now(a, b);
    return now == SameStatic::kUnknown ? PyObject_RichCompareBool(a, b, Py_EQ) : now == SameStatic::kYes;
  }
  const Py_ssize_t n = PyTuple_GET_SIZE(a);
  if (n != PyTuple_GET_SIZE(b)) return 0;
  if (Py_EnterRecursiveCall(" in the comparison of static arguments")) return -1;
  int same = 1;
  for (Py_ssize_t i = 0; i < n && same == 1; ++i)
    same = same_static(PyTuple_GET_ITEM(a, i), PyTuple_GET_ITEM(b, i));
  Py_LeaveRecursiveCall();
  return same;
}

// --- making one ---

class Signature::Maker {
 public:
  Maker(Signature& made, PyObject* nodes) : made_(made), nodes_(nodes) {}

  // The next node of the structure, which holds what `x` holds; its number, or -1.
  int64_t add(PyObject* x, int depth = 0) {
    if (at_ >= PyTuple_GET_SIZE(nodes_) || depth > kMaxContainerDepth) return -1;
    PyObject* const node = PyTuple_GET_ITEM(nodes_, at_++);
    PyObject* const type = PyTuple_GET_ITEM(node, 0);
    if (type == Py_None) return add_leaf(x);
    if (type != reinterpret_cast<PyObject*>(Py_TYPE(x))) return -1;
    if (x == Py_None) return put({Kind::kNone});
    const Py_ssize_t arity = PyLong_AsSsize_t(PyTuple_GET_ITEM(node, 2));
    if (PyDict_CheckExact(x)) return add_dict(x, PyTuple_GET_ITEM(node, 1), depth);
    const Kind kind = PyTuple_CheckExact(x)  ? Kind::kTuple
                      : PyList_CheckExact(x) ? Kind::kList
                                             : Kind::kNamed;
    if (kind == Kind::kNamed && (!PyTuple_Check(x) || !registry() || PyDict_Contains(registry(), type) != 0))
      return -1;
    if (arity != Py_SIZE(x)) return -1;
    return add_container({kind, static_cast<uint32_t>(arity), 0, 0,
                          kind == Kind::kNamed ? py::reinterpret_borrow<py::object>(type) : py::object()},
                         depth, [&](Py_ssize_t i) {
                           return PyList_Check(x) ? PyList_GET_ITEM(x, i) : PyTuple_GET_ITEM(x, i);
                         });
  }

  // Passes over a node that is known: that of the arguments, of the positional ones, or of the named ones.
  PyObject* skip() { return at_ < PyTuple_GET_SIZE(nodes_) ? PyTuple_GET_ITEM(nodes_, at_++) : nullptr; }
  bool at_end() const { return at_ == PyTuple_GET_SIZE(nodes_); }

 private:
  int64_t put(Node node) {
    made_.nodes_.push_back(std::move(node));
    return static_cast<int64_t>(made_.nodes_.size()) - 1;
  }

  template <typename Item>
  int64_t add_container(Node node, int depth, Item item) {
    const uint32_t n = node.size, first = static_cast<uint32_t>(made_.children_.size());
    node.first = first;
    const int64_t number = put(std::move(node));
    made_.children_.resize(first + n);
    for (uint32_t i = 0; i < n; ++i) {
      PyObject* const child = item(i);
      const int64_t at = child ? add(child, depth + 1) : -1;
      if (at < 0) return -1;
      made_.children_[first + i] = static_cast<uint32_t>(at);
    }
    return number;
  }

  int64_t add_dict(PyObject* x, PyObject* keys, int depth) {
    if (!PyTuple_CheckExact(keys) || PyTuple_GET_SIZE(keys) != PyDict_GET_SIZE(x)) return -1;
    const auto n = static_cast<uint32_t>(PyTuple_GET_SIZE(keys));
    Dict dict;
    HashMap<PyObject*, uint32_t> places;
    for (uint32_t i = 0; i < n; ++i) {
      PyObject* const key = PyTuple_GET_ITEM(keys, i);
      // Others may be equal to ones of another type, or be asked whether they are.
      if (Py_TYPE(key) != Py_TYPE(PyTuple_GET_ITEM(keys, 0))) return -1;
      if (!PyUnicode_CheckExact(key) && !PyLong_CheckExact(key)) return -1;
      dict.keys.push_back(py::reinterpret_borrow<py::object>(key));
      places[key] = i;
    }
    PyObject *key = nullptr, *value = nullptr;
    for (Py_ssize_t at = 0; PyDict_Next(x, &at, &key, &value);) {
      const auto place = places.find(key);
      if (place == places.end()) return -1;
      dict.inserted.push_back(py::reinterpret_borrow<py::object>(key));
      dict.places.push_back(place->second);
    }
    const size_t number = made_.dicts_.size();
    made_.dicts_.push_back(std::move(dict));
    return add_container({Kind::kDict, n, 0, number, {}}, depth,
                         [&](Py_ssize_t i) { return PyDict_GetItemWithError(x, PyTuple_GET_ITEM(keys, i)); });
  }

  int64_t add_leaf(PyObject* x) {
    Node leaf{Kind::kTensor};
    leaf.first = static_cast<uint32_t>(made_.leaves_++);
    if (is_tensor(x)) {
      leaf.word = type_word(lazy_of(x));
    } else if (PyFloat_CheckExact(x)) {
      leaf.kind = Kind::kFloat;
    } else if (PyBool_Check(x)) {
      leaf.kind = Kind::kBool;
    } else if (PyLong_CheckExact(x)) {
      if (!is_default_integer(x)) return -1;
      leaf.kind = Kind::kInt;
    } else if (PyComplex_CheckExact(x)) {
      leaf.kind = Kind::kComplex;
    } else if (is_numpy(Py_TYPE(x))) {
      const std::optional<Lazy> lazy = from_object(x);
      if (!lazy) return -1;
      leaf.kind = Kind::kArray;
      leaf.word = type_word(*lazy);
      leaf.type = py::reinterpret_borrow<py::object>(reinterpret_cast<PyObject*>(Py_TYPE(x)));
    } else {
      return -1;
    }
    return put(std::move(leaf));
  }

  Signature& made_;
  PyObject* nodes_;
  Py_ssize_t at_ = 0;
};

std::optional<Signature> Signature::of(PyObject* args, PyObject* kwargs, PyObject* nodes,
                                       PyObject* is_static) {
  Signature made;
  made.mode_ = recording_mode();
  made.registered_ = registered_classes();
  made.positional_ = PyTuple_GET_SIZE(args);
  Maker maker(made, nodes);
  maker.skip();
  maker.skip();
  const auto add = [&](PyObject* name, PyObject* x, bool fixed) {
    Argument argument;
    argument.name = py::reinterpret_borrow<py::object>(name);
    if (fixed) {
      argument.hash = PyObject_Hash(x);
      if (argument.hash == -1) return false;
      argument.value = py::reinterpret_borrow<py::object>(x);
    } else {
      const int64_t node = maker.add(x);
      if (node < 0) return false;
      argument.node = static_cast<uint32_t>(node);
    }
    made.arguments_.push_back(std::move(argument));
    return true;
  };
  const auto fixed = [&](PyObject* key) { return PySet_Contains(is_static, key) == 1; };
  for (Py_ssize_t i = 0; i < made.positional_; ++i) {
    const py::int_ place(i);
    if (!add(nullptr, PyTuple_GET_ITEM(args, i), fixed(place.ptr()))) return std::nullopt;
  }
  PyObject* const named = maker.skip();
  if (!named) return std::nullopt;
  PyObject* const names = PyTuple_GET_ITEM(named, 1);
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(names); ++i) {
    PyObject* const name = PyTuple_GET_ITEM(names, i);
    PyObject* const x = PyDict_GetItemWithError(kwargs, name);
    if (!x || !add(name, x, false)) return std::nullopt;
  }
  PyObject *key = nullptr, *value = nullptr;
  for (Py_ssize_t at = 0; PyDict_Next(kwargs, &at, &key, &value);)
    if (fixed(key) && !add(key, value, true)) return std::nullopt;
  if (!maker.at_end() ||
      made.arguments_.size() != static_cast<size_t>(made.positional_ + PyDict_GET_SIZE(kwargs)))
    return std::nullopt;
  return made;
}

// --- comparing ---

PyObject* Signature::given(const CallArguments& call, size_t argument) const {
  if (argument < static_cast<size_t>(positional_)) return call.given[argument];
  PyObject* const name = arguments_[argument].name.ptr();
  const Py_ssize_t n = call.named();
  // Most calls give the names in one order, as the very objects.
  for (Py_ssize_t i = 0; i < n; ++i)
    if (PyTuple_GET_ITEM(call.names, i) == name) return call.given[call.positional + i];
  for (Py_ssize_t i = 0; i < n; ++i) {
    PyObject* const other = PyTuple_GET_ITEM(call.names, i);
    if (PyUnicode_CheckExact(other) && PyUnicode_Compare(other, name) == 0)
      return call.given[call.positional + i];
  }
  return nullptr;
}

bool Signature::match(const CallArguments& call, uint64_t mode, CallLeaves& leaves, bool* ask) const {
  *ask = false;
  if (call.positional != positional_ || mode != mode_ ||
      call.positional + call.named() != static_cast<Py_ssize_t>(arguments_.size()))
    return false;
  leaves.reset(leaves_);
  for (size_t i = 0; i < arguments_.size(); ++i) {
    const Argument& argument = arguments_[i];
    PyObject* const x = given(call, i);
    if (!x) return false;
    if (!argument.value) {
      if (!match_node(nodes_[argument.node], x, leaves)) return false;
      continue;
    }
    const SameStatic same = same_static_now(argument.value.ptr(), x);
    if (same == SameStatic::kNo) return false;
    *ask |= same == SameStatic::kUnknown;
  }
  return registered_ == registered_classes();
}

bool Signature::asked(const CallArguments& call, CallLeaves& leaves) const {
  for (size_t i = 0; i < arguments_.size(); ++i) {
    const Argument& argument = arguments_[i];
    if (!argument.value) continue;
    PyObject* const x = given(call, i);
    if (leaves.hash(x) != argument.hash || same_static(argument.value.ptr(), x) != 1) {
      PyErr_Clear();  // the general way raises it again
      return false;
    }
  }
  return true;
}

// A child of a container: most are Tensors, looked at without a call.
inline bool Signature::match_child(const Node& node, PyObject* x, CallLeaves& leaves) const {
  if (node.kind != Kind::kTensor) return match_node(node, x, leaves);
  if (!is_tensor(x) || type_word(lazy_of(x)) != node.word) return false;
  leaves.set(node.first, x);
  return true;
}

bool Signature::match_node(const Node& node, PyObject* x, CallLeaves& leaves) const {
  const auto match_items = [&](PyObject* const* items) {
    const uint32_t* const child = children_.data() + node.first;
    for (uint32_t i = 0; i < node.size; ++i)
      if (!match_child(nodes_[child[i]], items[i], leaves)) return false;
    return true;
  };
  const auto leaf = [&](bool fits) {
    if (fits) leaves.set(node.first, x);
    return fits;
  };
  switch (node.kind) {
    case Kind::kTensor:
      return match_child(node, x, leaves);
    case Kind::kFloat:
      return leaf(PyFloat_CheckExact(x));
    case Kind::kInt:
      return leaf(PyLong_CheckExact(x) && is_default_integer(x));
    case Kind::kBool:
      return leaf(PyBool_Check(x));
    case Kind::kComplex:
      return leaf(PyComplex_CheckExact(x));
    case Kind::kArray: {
      if (reinterpret_cast<PyObject*>(Py_TYPE(x)) != node.type.ptr()) return false;
      PyObject* const tensor = leaves.converted(x);
      if (!tensor || type_word(lazy_of(tensor)) != node.word) return false;
      leaves.set(node.first, tensor);
      return true;
    }
    case Kind::kNone:
      return x == Py_None;
    case Kind::kTuple:
      return PyTuple_CheckExact(x) && PyTuple_GET_SIZE(x) == node.size &&
             match_items(&PyTuple_GET_ITEM(x, 0));
    case Kind::kNamed:
      return reinterpret_cast<PyObject*>(Py_TYPE(x)) == node.type.ptr() && PyTuple_GET_SIZE(x) == node.size &&
             match_items(&PyTuple_GET_ITEM(x, 0));
    case Kind::kList:
      return PyList_CheckExact(x) && PyList_GET_SIZE(x) == node.size &&
             match_items(reinterpret_cast<PyListObject*>(x)->ob_item);
    case Kind::kDict:
      return PyDict_CheckExact(x) && PyDict_GET_SIZE(x) == node.size && match_dict(node, x, leaves);
  }
  return false;
}

bool Signature::match_dict(const Node& node, PyObject* x, CallLeaves& leaves) const {
  const Dict& dict = dicts_[node.word];
  const uint32_t* const child = children_.data() + node.first;
  PyObject *key = nullptr, *value = nullptr;
  Py_ssize_t at = 0;
  uint32_t i = 0;
  // Most dicts were filled in one order, with the very objects as keys.
  for (; PyDict_Next(x, &at, &key, &value) && key == dict.inserted[i].ptr(); ++i)
    if (!match_child(nodes_[child[dict.places[i]]], value, leaves)) return false;
  if (i == node.size) return true;
  for (uint32_t k = 0; k < node.size; ++k) {
    value = PyDict_GetItemWithError(x, dict.keys[k].ptr());
    if (!value || !match_child(nodes_[child[k]], value, leaves)) return false;
  }
  return true;
}

int Signature::traverse(visitproc visit, void* arg) const {
  for (const Node& n : nodes_) Py_VISIT(n.type.ptr());
  for (const Argument& a : arguments_) {
    Py_VISIT(a.name.ptr());
    Py_VISIT(a.value.ptr());
  }
  for (const Dict& d : dicts_)
    for (size_t i = 0; i < d.keys.size(); ++i) {
      Py_VISIT(d.keys[i].ptr());
      Py_VISIT(d.inserted[i].ptr());
    }
  return 0;
}

}  // namespace lamina::python
