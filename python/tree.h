// The usual containers built and compared without Python code in between.
#ifndef LAMINA_PYTHON_TREE_H_
#define LAMINA_PYTHON_TREE_H_

#include <pybind11/pybind11.h>

#include <cstdint>
#include <optional>
#include <vector>

namespace lamina::python {

// Deeper containers take the general way.
inline constexpr int kMaxContainerDepth = 64;

// A container's structure, as the nodes of a TreeDef tell it (python: lamina.tree).
class Structure {
 public:
  // Empty if it holds others than tuples, lists, dicts, named tuples and None.
  static std::optional<Structure> of(PyObject* nodes);

  size_t leaves() const { return leaves_; }
  bool is_leaf() const { return nodes_.empty(); }
  // The container with these leaves(), which are stolen: null afterwards. Throws what a class raises.
  pybind11::object build(PyObject** leaves) const;

  int traverse(visitproc visit, void* arg) const;

 private:
  enum class Kind : uint8_t { kTuple, kList, kDict, kNamed, kNone };
  struct Node {  // a container
    Kind kind;
    size_t arity;
    size_t leaves = 0;                 // that come after the container before it
    pybind11::object of = {};          // a dict with these keys, a named tuple's class
    std::vector<PyObject*> keys = {};  // of the dict, in its order, borrowed of it
  };
  static PyObject* packed(const Node& node, PyObject** children);

  std::vector<Node> nodes_;  // in postorder
  size_t leaves_ = 0;
};

void add_tree(pybind11::module_& module);

}  // namespace lamina::python

#endif  // LAMINA_PYTHON_TREE_H_
