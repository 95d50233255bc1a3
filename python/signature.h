// The arguments of a call of a jitted function, compared with those of an earlier one without Python code in
// between.
//
// Contract: python/lamina/tree.py and _jit.py say what the structure and the type of arguments are; a
// signature is made of arguments that went that way, and matches only what would come to the same there. It
// knows exact tuples, lists, dicts with strings or integers as keys, named tuples, None, Tensors, numbers and
// NumPy arrays; and static values.
#ifndef LAMINA_PYTHON_SIGNATURE_H_
#define LAMINA_PYTHON_SIGNATURE_H_

#include <pybind11/pybind11.h>

#include <cstdint>
#include <optional>
#include <vector>

#include "absl/container/inlined_vector.h"
#include "lazy/lazy.h"

namespace lamina::python {

// Arguments as the vectorcall protocol gives them.
struct CallArguments {
  PyObject* const* given;  // positional ones, then those of the names
  Py_ssize_t positional;
  PyObject* names;  // a tuple, or null

  Py_ssize_t named() const { return names ? PyTuple_GET_SIZE(names) : 0; }
};

// The array arguments of a call, in the order of the structure's leaves: a Tensor or a Python number each.
class CallLeaves {
 public:
  CallLeaves() = default;
  CallLeaves(const CallLeaves&) = delete;
  CallLeaves& operator=(const CallLeaves&) = delete;
  ~CallLeaves() { reset(0); }

  void reset(size_t size);
  void set(size_t i, PyObject* borrowed) { Py_XSETREF(leaves_[i], Py_NewRef(borrowed)); }
  PyObject* operator[](size_t i) const { return leaves_[i]; }
  size_t size() const { return leaves_.size(); }
  // A Tensor of a NumPy array or scalar, made once for each; borrowed. Null, without an exception, if it
  // cannot be.
  PyObject* converted(PyObject* array);
  // The hash of a static value, asked for once; -1, with an exception, if it has none.
  Py_hash_t hash(PyObject* value);

 private:
  absl::InlinedVector<PyObject*, 8> leaves_;
  std::vector<std::pair<PyObject*, pybind11::object>> converted_;
  std::vector<std::pair<PyObject*, Py_hash_t>> hashes_;
};

// How many classes the user has made containers (python: tree.register).
Py_ssize_t registered_classes();

// Whether two static values are one: equal, of one type, numbers to the bit, and so for the items of tuples.
// Unknown where the user's code must be asked.
enum class SameStatic { kNo, kYes, kUnknown };
SameStatic same_static_now(PyObject* a, PyObject* b);
// Asks it. -1 with an exception.
int same_static(PyObject* a, PyObject* b);

class Signature {
 public:
  // Of the arguments (args, kwargs) whose structure, without the static ones, has the nodes of a TreeDef of
  // (args, kwargs). Empty if it holds what is not known here.
  static std::optional<Signature> of(PyObject* args, PyObject* kwargs, PyObject* nodes, PyObject* is_static);

  // Whether a call has these arguments; its leaves. Runs no code of the user; `ask` is then true where static
  // values were not compared for that reason: see asked.
  bool match(const CallArguments& call, uint64_t mode, CallLeaves& leaves, bool* ask) const;
  // Compares them. An exception that this raises is dropped: false, and the general way raises it again.
  bool asked(const CallArguments& call, CallLeaves& leaves) const;

  int traverse(visitproc visit, void* arg) const;

 private:
  enum class Kind : uint8_t {
    kTensor,
    kFloat,
    kInt,
    kBool,
    kComplex,
    kArray,
    kNone,
    kTuple,
    kList,
    kDict,
    kNamed
  };
  struct Node {
    Kind kind;
    uint32_t size = 0;           // of a container
    uint32_t first = 0;          // of a container: of its children, in children_; of a leaf: its number
    uintptr_t word = 0;          // of a leaf: its type and whether that is weak; of a dict: which of dicts_
    pybind11::object type = {};  // of a named tuple or array
  };
  struct Dict {
    std::vector<pybind11::object> keys;      // in the order of the leaves
    std::vector<pybind11::object> inserted;  // in the order that the dict had, and which of keys each is
    std::vector<uint32_t> places;
  };
  struct Argument {
    pybind11::object name;   // null for a positional one
    pybind11::object value;  // of a static one
    Py_hash_t hash = 0;      // of that
    uint32_t node = 0;       // of another
  };
  class Maker;

  bool match_node(const Node& node, PyObject* x, CallLeaves& leaves) const;
  bool match_child(const Node& node, PyObject* x, CallLeaves& leaves) const;
  bool match_dict(const Node& node, PyObject* x, CallLeaves& leaves) const;
  PyObject* given(const CallArguments& call, size_t argument) const;

  std::vector<Node> nodes_;
  std::vector<uint32_t> children_;
  std::vector<Dict> dicts_;
  std::vector<Argument> arguments_;  // positional ones, then named ones
  Py_ssize_t positional_ = 0;
  size_t leaves_ = 0;
  uint64_t mode_ = 0;
  Py_ssize_t registered_ = 0;  // classes that were containers when it was made
};

}  // namespace lamina::python

#endif  // LAMINA_PYTHON_SIGNATURE_H_
