#include "python/tree.h"

#include <string>

#include "python/number.h"
#include "python/tensor.h"

namespace py = pybind11;

namespace lamina::python {
namespace {

using lazy::Lazy;

constexpr int kMaxDepth = 64;  // deeper containers take the general way

// Writes the numerics mode, a container's structure and its arrays' types into a key, and its arrays into a
// list: exact tuples, lists and dicts with string keys, None, Tensors and numbers. False, perhaps with an
// exception, for anything else.
class Flattener {
 public:
  Flattener() : leaves_(py::reinterpret_steal<py::list>(PyList_New(0))) {
    if (const uint64_t mode = recording_mode()) open('m', mode);
  }

  bool add(PyObject* x, int depth = 0) {
    if (is_tensor(x)) return add_leaf(x);
    if (depth > kMaxDepth) return false;
    if (PyTuple_CheckExact(x)) {
      open('t', PyTuple_GET_SIZE(x));
      for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(x); ++i)
        if (!add(PyTuple_GET_ITEM(x, i), depth + 1)) return false;
      return true;
    }
    if (PyList_CheckExact(x)) {
      open('l', PyList_GET_SIZE(x));
      for (Py_ssize_t i = 0; i < PyList_GET_SIZE(x); ++i)
        if (!add(PyList_GET_ITEM(x, i), depth + 1)) return false;
      return true;
    }
    if (PyDict_CheckExact(x)) return add_dict(x, depth);
    if (x == Py_None) {
      key_.push_back('n');
      return true;
    }
    if (!is_plain_number(x)) return false;
    std::optional<Lazy> number = from_object(x);
    return number && add_leaf(to_object(*std::move(number)).ptr());
  }

  py::object result() const { return py::make_tuple(py::bytes(key_), leaves_); }

 private:
  void open(char kind, Py_ssize_t size) {
    key_.push_back(kind);
    word(static_cast<uint64_t>(size));
  }
  void word(uint64_t w) { key_.append(reinterpret_cast<const char*>(&w), sizeof w); }

  bool add_leaf(PyObject* tensor) {
    const Lazy& x = lazy_of(tensor);
    key_.push_back('x');
    word(reinterpret_cast<uintptr_t>(x.value.type()) | static_cast<uintptr_t>(x.weak));
    return PyList_Append(leaves_.ptr(), tensor) == 0;
  }

  bool add_dict(PyObject* x, int depth) {
    py::object keys = py::reinterpret_steal<py::object>(PyDict_Keys(x));
    if (!keys) return false;
    for (Py_ssize_t i = 0; i < PyList_GET_SIZE(keys.ptr()); ++i)
      if (!PyUnicode_CheckExact(PyList_GET_ITEM(keys.ptr(), i))) return false;
    if (PyList_Sort(keys.ptr()) != 0) return false;
    open('d', PyList_GET_SIZE(keys.ptr()));
    for (Py_ssize_t i = 0; i < PyList_GET_SIZE(keys.ptr()); ++i) {
      PyObject* name = PyList_GET_ITEM(keys.ptr(), i);
      Py_ssize_t size = 0;
      const char* text = PyUnicode_AsUTF8AndSize(name, &size);
      if (!text) return false;
      word(static_cast<uint64_t>(size));
      key_.append(text, size);
      PyObject* value = PyDict_GetItemWithError(x, name);
      if (!value || !add(value, depth + 1)) return false;
    }
    return true;
  }

  std::string key_;
  py::list leaves_;
};

// (key, leaves) of the arguments of a call; None if the general way is needed.
PyObject* tree_key(PyObject*, PyObject* const* args, Py_ssize_t n) {
  try {
    Flattener f;
    for (Py_ssize_t i = 0; i < n; ++i) {
      if (f.add(args[i])) continue;
      PyErr_Clear();  // the general way tells what is wrong
      Py_RETURN_NONE;
    }
    return f.result().release().ptr();
  } catch (...) {
    set_python_error();
    return nullptr;
  }
}

// The container of a structure's nodes, (type or None, metadata, arity) in preorder; None if it holds others
// than tuples, lists, dicts and None.
PyObject* tree_build(PyObject*, PyObject* const* args, Py_ssize_t n) {
  if (n != 2 || !PyTuple_Check(args[0]) || !PyList_Check(args[1])) {
    PyErr_SetString(PyExc_TypeError, "tree_build takes a tuple of nodes and a list of leaves");
    return nullptr;
  }
  try {
    std::vector<py::object> stack;
    Py_ssize_t next = PyList_GET_SIZE(args[1]);
    for (Py_ssize_t at = PyTuple_GET_SIZE(args[0]); at-- > 0;) {
      PyObject* node = PyTuple_GET_ITEM(args[0], at);
      PyObject* type = PyTuple_GET_ITEM(node, 0);
      if (type == Py_None) {
        if (next == 0) Py_RETURN_NONE;
        stack.push_back(py::reinterpret_borrow<py::object>(PyList_GET_ITEM(args[1], --next)));
        continue;
      }
      const Py_ssize_t arity = PyLong_AsSsize_t(PyTuple_GET_ITEM(node, 2));
      if (arity < 0 || arity > static_cast<Py_ssize_t>(stack.size())) Py_RETURN_NONE;
      auto take = [&] {
        py::object top = std::move(stack.back());
        stack.pop_back();
        return top;
      };
      py::object made;
      if (type == reinterpret_cast<PyObject*>(&PyTuple_Type)) {
        made = py::reinterpret_steal<py::object>(PyTuple_New(arity));
        for (Py_ssize_t i = 0; made && i < arity; ++i)
          PyTuple_SET_ITEM(made.ptr(), i, take().release().ptr());
      } else if (type == reinterpret_cast<PyObject*>(&PyList_Type)) {
        made = py::reinterpret_steal<py::object>(PyList_New(arity));
        for (Py_ssize_t i = 0; made && i < arity; ++i) PyList_SET_ITEM(made.ptr(), i, take().release().ptr());
      } else if (type == reinterpret_cast<PyObject*>(&PyDict_Type)) {
        PyObject* keys = PyTuple_GET_ITEM(node, 1);
        made = py::reinterpret_steal<py::object>(PyDict_New());
        for (Py_ssize_t i = 0; made && i < arity; ++i)
          if (PyDict_SetItem(made.ptr(), PyTuple_GET_ITEM(keys, i), take().ptr()) != 0)
            throw py::error_already_set();
      } else if (type == reinterpret_cast<PyObject*>(Py_TYPE(Py_None))) {
        made = py::none();
      } else {
        Py_RETURN_NONE;
      }
      if (!made) throw py::error_already_set();
      stack.push_back(std::move(made));
    }
    if (stack.size() != 1 || next != 0) Py_RETURN_NONE;
    return stack.back().release().ptr();
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
    if (reinterpret_cast<PyObject*>(Py_TYPE(x)) != type || depth > kMaxDepth) return false;
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

PyMethodDef methods[] = {
    {"tree_holds", reinterpret_cast<PyCFunction>(reinterpret_cast<void (*)()>(tree_holds)), METH_FASTCALL,
     "Whether a container has these nodes and these very leaves; false also for unusual containers."},
    {"tree_key", reinterpret_cast<PyCFunction>(reinterpret_cast<void (*)()>(tree_key)), METH_FASTCALL,
     "A key of containers' structures and their arrays' types, and the arrays; None for unusual ones."},
    {"tree_build", reinterpret_cast<PyCFunction>(reinterpret_cast<void (*)()>(tree_build)), METH_FASTCALL,
     "The container of a structure's nodes and its leaves; None for unusual ones."},
};

}  // namespace

void add_tree(py::module_& m) {
  for (PyMethodDef& method : methods)
    m.attr(method.ml_name) = py::reinterpret_steal<py::object>(PyCFunction_New(&method, nullptr));
}

}  // namespace lamina::python
