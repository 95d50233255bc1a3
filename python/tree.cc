#include "python/tree.h"

#include <utility>
#include <vector>

#include "absl/cleanup/cleanup.h"
#include "absl/container/inlined_vector.h"
#include "python/hooks.h"
#include "python/location.h"

namespace py = pybind11;

namespace lamina::python {

std::optional<Structure> Structure::of(PyObject* nodes) {
  Structure made;
  struct Open {
    Node node;
    size_t missing;  // children
  };
  std::vector<Open> open;
  size_t pending = 0;  // leaves after the last container
  for (Py_ssize_t at = 0; at < PyTuple_GET_SIZE(nodes); ++at) {
    PyObject* const node = PyTuple_GET_ITEM(nodes, at);
    PyObject* const type = PyTuple_GET_ITEM(node, 0);
    const auto is = [type](PyTypeObject& t) { return type == reinterpret_cast<PyObject*>(&t); };
    Node n{Kind::kNone, PyLong_AsSize_t(PyTuple_GET_ITEM(node, 2))};
    if (type == Py_None) {
      ++made.leaves_;
      ++pending;
      if (!open.empty()) --open.back().missing;
    } else {
      if (is(PyTuple_Type)) {
        n.kind = Kind::kTuple;
      } else if (is(PyList_Type)) {
        n.kind = Kind::kList;
      } else if (is(PyDict_Type)) {
        n.kind = Kind::kDict;
        py::dict keys;
        for (const py::handle& key : py::reinterpret_borrow<py::tuple>(PyTuple_GET_ITEM(node, 1)))
          keys[key] = py::none();
        n.of = std::move(keys);
        PyObject* key = nullptr;
        for (Py_ssize_t place = 0; PyDict_Next(n.of.ptr(), &place, &key, nullptr);) n.keys.push_back(key);
      } else if (PyType_FastSubclass(reinterpret_cast<PyTypeObject*>(type), Py_TPFLAGS_TUPLE_SUBCLASS) &&
                 PyDict_Contains(hook("containers"), type) == 0) {
        n.kind = Kind::kNamed;
        n.of = py::reinterpret_borrow<py::object>(type);
      } else if (!is(*Py_TYPE(Py_None))) {
        return std::nullopt;
      }
      const size_t arity = n.arity;
      open.push_back({std::move(n), arity});
    }
    while (!open.empty() && open.back().missing == 0) {
      Node whole = std::move(open.back().node);
      open.pop_back();
      if (!open.empty()) --open.back().missing;
      whole.leaves = std::exchange(pending, 0);
      made.nodes_.push_back(std::move(whole));
    }
  }
  return made;
}

namespace {

PyObject* made(PyObject* o) {
  if (!o) throw py::error_already_set();
  return o;
}

// A dict with the `keys` of another and values, which are stolen.
PyObject* filled(PyObject* other, const std::vector<PyObject*>& keys, PyObject** values) {
  auto out = py::reinterpret_steal<py::object>(made(PyDict_Copy(other)));  // its table has the size it needs
  for (PyObject* key : keys) {
    if (PyDict_SetItem(out.ptr(), key, *values) != 0) throw py::error_already_set();
    Py_DECREF(std::exchange(*values++, nullptr));
  }
  return out.release().ptr();
}

}  // namespace

// The container of children, which are stolen.
PyObject* Structure::packed(const Node& node, PyObject** children) {
  const auto size = static_cast<Py_ssize_t>(node.arity);
  PyObject* out = nullptr;
  switch (node.kind) {
    case Kind::kTuple:
      out = made(PyTuple_New(size));
      for (Py_ssize_t i = 0; i < size; ++i) PyTuple_SET_ITEM(out, i, std::exchange(children[i], nullptr));
      return out;
    case Kind::kList:
      out = made(PyList_New(size));
      for (Py_ssize_t i = 0; i < size; ++i) PyList_SET_ITEM(out, i, std::exchange(children[i], nullptr));
      return out;
    case Kind::kDict:
      return filled(node.of.ptr(), node.keys, children);
    case Kind::kNamed:
      out = made(PyObject_Vectorcall(node.of.ptr(), children, node.arity, nullptr));
      for (Py_ssize_t i = 0; i < size; ++i) Py_DECREF(std::exchange(children[i], nullptr));
      return out;
    case Kind::kNone:
      break;
  }
  return Py_NewRef(Py_None);
}

py::object Structure::build(PyObject** leaves) const {
  if (is_leaf()) return py::reinterpret_steal<py::object>(std::exchange(*leaves, nullptr));
  absl::InlinedVector<PyObject*, 16> stack;  // held
  const absl::Cleanup drop = [&] {
    for (PyObject* o : stack) Py_XDECREF(o);
  };
  for (const Node& n : nodes_) {
    // Leaves alone are taken from where they are.
    const bool flat = n.leaves >= n.arity;
    for (size_t i = flat ? n.arity : 0; i < n.leaves; ++i) stack.push_back(std::exchange(*leaves++, nullptr));
    if (flat) {
      stack.push_back(packed(n, leaves));
      leaves += n.arity;
    } else {
      PyObject* const out = packed(n, stack.data() + (stack.size() - n.arity));
      stack.resize(stack.size() - n.arity);
      stack.push_back(out);
    }
  }
  return py::reinterpret_steal<py::object>(std::exchange(stack.back(), nullptr));
}

int Structure::traverse(visitproc visit, void* arg) const {
  for (const Node& n : nodes_) Py_VISIT(n.of.ptr());
  return 0;
}

namespace {

// The container of a structure's nodes, (type or None, metadata, arity) in preorder; None if it holds others
// than tuples, lists, dicts, named tuples and None.
PyObject* tree_build(PyObject*, PyObject* const* args, Py_ssize_t n) {
  if (n != 2 || !PyTuple_Check(args[0]) || !PyList_Check(args[1])) {
    PyErr_SetString(PyExc_TypeError, "tree_build takes a tuple of nodes and a list of leaves");
    return nullptr;
  }
  try {
    const std::optional<Structure> structure = Structure::of(args[0]);
    if (!structure || structure->leaves() != static_cast<size_t>(PyList_GET_SIZE(args[1]))) Py_RETURN_NONE;
    std::vector<PyObject*> leaves;
    for (const py::handle& leaf : py::reinterpret_borrow<py::list>(args[1]))
      leaves.push_back(Py_NewRef(leaf.ptr()));
    const absl::Cleanup drop = [&] {
      for (PyObject* left : leaves) Py_XDECREF(left);
    };
    return structure->build(leaves.data()).release().ptr();
  } catch (...) {
    set_python_error();
    return nullptr;
  }
}

// Walks a container along a structure's nodes.
class Comparison {
 public:
  Comparison(PyObject* nodes, PyObject* leaves) : nodes_(nodes), leaves_(leaves) {}

  bool same(PyObject* x, int depth = 0) {
    PyObject* node = PyTuple_GET_ITEM(nodes_, at_++);
    PyObject* type = PyTuple_GET_ITEM(node, 0);
    if (type == Py_None) return x == PyList_GET_ITEM(leaves_, leaf_++);
    if (reinterpret_cast<PyObject*>(Py_TYPE(x)) != type || depth > kMaxContainerDepth) return false;
    if (x == Py_None) return true;
    const Py_ssize_t arity = PyLong_AsSsize_t(PyTuple_GET_ITEM(node, 2));
    const bool dict = PyDict_CheckExact(x);
    if (!dict && !PyTuple_CheckExact(x) && !PyList_CheckExact(x)) return false;
    if (arity != PyObject_Size(x)) return false;
    for (Py_ssize_t i = 0; i < arity; ++i) {
      PyObject* item = dict ? PyDict_GetItem(x, PyTuple_GET_ITEM(PyTuple_GET_ITEM(node, 1), i))
                       : PyTuple_CheckExact(x) ? PyTuple_GET_ITEM(x, i)
                                               : PyList_GET_ITEM(x, i);
      if (!item || !same(item, depth + 1)) return false;
    }
    return true;
  }

 private:
  PyObject *nodes_, *leaves_;
  Py_ssize_t at_ = 0, leaf_ = 0;
};

// Whether a container has these nodes and these very leaves; false also for unusual containers.
PyObject* tree_holds(PyObject*, PyObject* const* args, Py_ssize_t n) {
  if (n != 3 || !PyTuple_Check(args[0]) || !PyList_Check(args[1])) {
    PyErr_SetString(PyExc_TypeError, "tree_holds takes a tuple of nodes, a list of leaves and a container");
    return nullptr;
  }
  return PyBool_FromLong(Comparison(args[0], args[1]).same(args[2]));
}

// Containers in containers; deeper ones are taken to hold themselves.
constexpr size_t kMaxNesting = 1'000'000;

// Takes containers apart; `children_of` (python: lamina.tree.tree_children) tells of the unusual ones.
class Flattening {
 public:
  // `nodes` may be null: they are not made then.
  Flattening(PyObject* plain, PyObject* children_of, PyObject* is_leaf, PyObject* leaves, PyObject* nodes)
      : plain_(plain), children_of_(children_of), is_leaf_(is_leaf), leaves_(leaves), nodes_(nodes) {}

  // Throws what the user's code raises.
  void run(PyObject* tree) {
    visit(py::reinterpret_borrow<py::object>(tree));
    while (!open_.empty()) {
      Level& top = open_.back();
      if (top.next == PyList_GET_SIZE(top.children.ptr())) {
        open_.pop_back();
        continue;
      }
      visit(py::reinterpret_borrow<py::object>(PyList_GET_ITEM(top.children.ptr(), top.next++)));
    }
  }

 private:
  struct Level {
    py::object children;  // a list of its own
    Py_ssize_t next = 0;
  };

  static py::object made(PyObject* o) {
    if (!o) throw py::error_already_set();
    return py::reinterpret_steal<py::object>(o);
  }

  void visit(const py::object& x) {
    if (is_leaf_ != Py_None) {
      const int ends = PyObject_IsTrue(made(PyObject_CallOneArg(is_leaf_, x.ptr())).ptr());
      if (ends < 0) throw py::error_already_set();
      if (ends) return leaf(x);
    }
    if (PyTuple_CheckExact(x.ptr()) || PyList_CheckExact(x.ptr()))
      return enter(x, py::none(), made(PySequence_List(x.ptr())));
    if (PyDict_CheckExact(x.ptr())) return enter_dict(x);
    if (x.is_none()) return enter(x, py::none(), py::list());
    const int plain = PySet_Contains(plain_, reinterpret_cast<PyObject*>(Py_TYPE(x.ptr())));
    if (plain < 0) throw py::error_already_set();
    if (plain) return leaf(x);
    const py::object found = made(PyObject_CallOneArg(children_of_, x.ptr()));
    if (found.is_none()) return leaf(x);
    enter(x, found[py::int_(1)], found[py::int_(0)]);
  }

  void enter_dict(const py::object& x) {
    py::object keys = made(PyDict_Keys(x.ptr()));
    if (PyList_Sort(keys.ptr()) != 0) {
      if (!PyErr_ExceptionMatches(PyExc_TypeError)) throw py::error_already_set();
      PyErr_Clear();
      keys = made(PyDict_Keys(x.ptr()));
    }
    const Py_ssize_t n = PyList_GET_SIZE(keys.ptr());
    py::object children = made(PyList_New(n));
    for (Py_ssize_t i = 0; i < n; ++i) {
      PyObject* const key = PyList_GET_ITEM(keys.ptr(), i);
      PyObject* const item = PyDict_GetItemWithError(x.ptr(), key);
      if (!item && !PyErr_Occurred()) PyErr_SetObject(PyExc_KeyError, key);
      if (!item) throw py::error_already_set();
      PyList_SET_ITEM(children.ptr(), i, Py_NewRef(item));
    }
    enter(x, nodes_ ? made(PyList_AsTuple(keys.ptr())) : py::none(), std::move(children));
  }

  void leaf(const py::object& x) {
    if (nodes_) {
      if (!leaf_node_) leaf_node_ = py::make_tuple(py::none(), py::none(), 0);
      add(nodes_, leaf_node_);
    }
    add(leaves_, x);
  }

  void enter(const py::object& x, const py::object& meta, py::object children) {
    const Py_ssize_t n = PyList_GET_SIZE(children.ptr());
    if (nodes_)
      add(nodes_, py::make_tuple(py::handle(reinterpret_cast<PyObject*>(Py_TYPE(x.ptr()))), meta, n));
    if (open_.size() >= kMaxNesting) {
      PyErr_Format(PyExc_RecursionError,
                   "a %s holds itself, or containers lie more than %zu deep in each other",
                   Py_TYPE(x.ptr())->tp_name, kMaxNesting);
      throw py::error_already_set();
    }
    if (n) open_.push_back({std::move(children)});
  }

  static void add(PyObject* list, const py::object& x) {
    if (PyList_Append(list, x.ptr()) != 0) throw py::error_already_set();
  }

  PyObject *plain_, *children_of_, *is_leaf_, *leaves_, *nodes_;  // borrowed
  py::object leaf_node_;
  std::vector<Level> open_;
};

// tree_flatten(tree, plain, children_of, is_leaf, with_nodes): the list of leaves; with the list of nodes, a
// pair.
PyObject* tree_flatten(PyObject*, PyObject* const* args, Py_ssize_t n) {
  if (n != 5 || !PyAnySet_Check(args[1])) {
    PyErr_SetString(PyExc_TypeError,
                    "tree_flatten takes a container, a set of types, two functions and a bool");
    return nullptr;
  }
  try {
    py::list leaves;
    if (args[4] != Py_True) {
      Flattening(args[1], args[2], args[3], leaves.ptr(), nullptr).run(args[0]);
      return leaves.release().ptr();
    }
    py::list nodes;
    Flattening(args[1], args[2], args[3], leaves.ptr(), nodes.ptr()).run(args[0]);
    return py::make_tuple(leaves, nodes).release().ptr();
  } catch (...) {
    set_python_error();
    return nullptr;
  }
}

PyMethodDef tree_methods[] = {
    {"tree_flatten", reinterpret_cast<PyCFunction>(reinterpret_cast<void (*)()>(tree_flatten)), METH_FASTCALL,
     "The leaves of a container in order, and its nodes in preorder where they are asked for."},
    {"tree_holds", reinterpret_cast<PyCFunction>(reinterpret_cast<void (*)()>(tree_holds)), METH_FASTCALL,
     "Whether a container has these nodes and these very leaves; false also for unusual containers."},
    {"tree_build", reinterpret_cast<PyCFunction>(reinterpret_cast<void (*)()>(tree_build)), METH_FASTCALL,
     "The container of a structure's nodes and its leaves; None for unusual ones."},
};

}  // namespace

void add_tree(py::module_& m) {
  for (PyMethodDef& method : tree_methods)
    m.attr(method.ml_name) = py::reinterpret_steal<py::object>(PyCFunction_New(&method, nullptr));
}

}  // namespace lamina::python
