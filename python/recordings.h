// What a function of the library recorded, recorded again without running it.
//
// Contract: for functions in Python that make one Tensor, and whose ops depend on nothing but the types of
// their Tensors, the default element types, the numerics mode and their other arguments: they read no values,
// check none, warn of nothing and have no effects. A function runs the first two times that it meets
// arguments of some kind, where the second time tells what it records; arguments besides Tensors that are
// part of the kind are None, booleans, integers, strings and types (each by itself, not by its text), and
// tuples and lists of those and of Tensors. Under the interpreter lock.
#ifndef LAMINA_PYTHON_RECORDINGS_H_
#define LAMINA_PYTHON_RECORDINGS_H_

#include <pybind11/pybind11.h>

#include <memory>
#include <span>
#include <vector>

#include "hlo/graph.h"
#include "hlo/hash_map.h"
#include "lazy/lazy.h"

namespace lamina::python {

// Calls of all such functions that Python did not run.
int64_t replayed_calls();

class Recordings {
 public:
  // `function` is borrowed, and lives longer. `of_elements`: all numbers among its arguments, too, are
  // operands, whose values are no part of the kind.
  Recordings(PyObject* function, bool of_elements) : function_(function), of_elements_(of_elements) {}

  // A new Tensor; null without an exception where the function has to run, and with one where it failed.
  PyObject* call(PyObject* const* args, size_t count, PyObject* names);

 private:
  using Key = std::vector<uint64_t>;
  class Arguments;
  // A result of a step; the first steps are parameters.
  struct Place {
    uint32_t step, index;
  };
  struct Step {
    hlo::Op op;
    const hlo::Attrs* attrs;  // counted
    size_t first_operand, num_operands;
  };
  // No nodes are kept: one that is made of constants would be found by whatever records the same, and keep
  // the value that it gets there.
  struct Recording {
    Recording() = default;
    Recording(Recording&& other) = default;
    ~Recording() {
      for (const Step& s : steps) s.attrs->release();
    }

    bool usable = false;
    std::vector<hlo::Value> captured;  // operands behind the parameters
    std::vector<Step> steps;
    std::vector<Place> operands;  // of all steps, one after the other
    Place result = {};
    std::vector<pybind11::object> held;  // what the key names by its address
  };

  Recording record(PyObject* const* args, size_t count, PyObject* names, const Arguments& read) const;
  static pybind11::object substituted(const Arguments& read, PyObject* o, std::span<const lazy::Lazy>& rest);
  static PyObject* replay(const Recording& recording, const Arguments& read);

  PyObject* function_;
  const bool of_elements_;
  HashMap<Key, std::shared_ptr<const Recording>> known_;  // null: met once
};

}  // namespace lamina::python

#endif  // LAMINA_PYTHON_RECORDINGS_H_
