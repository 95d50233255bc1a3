// What a jitted function read besides its arguments: whether it is still so, asked at each call.
#ifndef LAMINA_PYTHON_READS_H_
#define LAMINA_PYTHON_READS_H_

#include <pybind11/pybind11.h>

#include <memory>
#include <span>
#include <utility>

namespace lamina::python {

// The reads of one variant of a jitted function (python: _read_set.ReadSet, which makes the rows): how each
// value is reached, what must hold of it, and the hidden arguments that calls take. Asking may run the user's
// code.
class Guards {
 public:
  Guards();
  void set(const pybind11::tuple& rows, const pybind11::tuple& tensors, const pybind11::tuple& takes);
  bool hold() const;
  // As hold, but where only values of parameters have changed these are taken, the hidden arguments and the
  // objects of python: _read_set told; what needs more, as numbers that Python computes of others, is false.
  bool serve();
  // (what each read finds or `missing`, the numbers of those that do not hold)
  pybind11::tuple now(const pybind11::object& missing) const;
  const pybind11::tuple& tensors() const { return tensors_; }

  int traverse(visitproc visit, void* arg) const;
  void clear();

 private:
  struct Row;
  struct Take;
  class Rows;
  template <typename Found, typename Failed>
  static bool evaluate(const Rows& all, Found& found, Failed failed);
  bool take(Rows& rows, std::span<const std::pair<Take*, PyObject*>> changed);

  std::shared_ptr<Rows> rows_;
  pybind11::tuple tensors_;
};

void add_reads(pybind11::module_& m);

}  // namespace lamina::python

#endif  // LAMINA_PYTHON_READS_H_
