#include "python/implicit.h"

#include <pybind11/stl.h>

#include "lazy/implicit.h"
#include "python/interpreter.h"
#include "python/tensor.h"

namespace py = pybind11;

namespace lamina::python {
namespace {

// A function, and what messages call it.
using NamedFunction = std::pair<py::function, std::string>;

// A rule may keep it, and lets go of it on any thread.
class KeptFunction {
 public:
  explicit KeptFunction(py::function f) : f_(std::move(f)) {}
  KeptFunction(const KeptFunction&) = delete;
  KeptFunction& operator=(const KeptFunction&) = delete;
  ~KeptFunction() {
    while_python_lives([&] { f_ = py::object(); });
    f_.release();
  }
  const py::object& get() const { return f_; }

 private:
  py::object f_;
};

lazy::Solver solver(const NamedFunction& given) {
  return {
      [kept = std::make_shared<KeptFunction>(given.first)](const lazy::FlatFunction& f,
                                                           const std::vector<lazy::Lazy>& x) {
        py::gil_scoped_acquire gil;
        const py::cpp_function called([f](const py::sequence& p) { return to_list(f(from_sequence(p))); });
        return from_sequence(kept->get()(called, to_list(x)).cast<py::sequence>());
      },
      given.second};
}

}  // namespace

void add_implicit(py::module_& m) {
  m.def(
      "custom_linear_solve",
      [](const NamedFunction& matvec, const py::sequence& b, const NamedFunction& solve,
         const std::optional<NamedFunction>& transpose_solve, bool symmetric) {
        UserLocation location;
        std::optional<lazy::Solver> transposed;
        if (transpose_solve) transposed = solver(*transpose_solve);
        return to_list(lazy::custom_linear_solve({flat(matvec.first), matvec.second}, from_sequence(b),
                                                 solver(solve), transposed, symmetric));
      },
      "The solution, then the further results of the solver; solvers are functions (matvec, b) -> those.");
  m.def(
      "custom_root",
      [](const NamedFunction& f, const py::sequence& guess, const NamedFunction& solve,
         const NamedFunction& tangent_solve) {
        UserLocation location;
        return to_list(lazy::custom_root({flat(f.first), f.second}, from_sequence(guess), solver(solve),
                                         solver(tangent_solve)));
      },
      "The root, then the further results of the solver; solvers are functions (f, guess) -> those, and "
      "(derivative of f, y) -> v.");
}

}  // namespace lamina::python
