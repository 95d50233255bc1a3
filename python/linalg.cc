#include "python/linalg.h"

#include <pybind11/stl.h>

#include "hlo/linalg/calls.h"
#include "hlo/linalg/linalg.h"
#include "lazy/lazy.h"
#include "python/location.h"
#include "python/tensor.h"

namespace py = pybind11;

namespace lamina::python {
namespace {

using hlo::Builder;
using hlo::Value;
using hlo::Values;
using lazy::Lazy;
namespace linalg = hlo::linalg;

// Records what `f` makes of the operands' values; results are not weak.
template <typename F>
py::list recorded(const py::sequence& operands, F&& f) {
  UserLocation location;
  hlo::GraphLock lock;
  Builder b;
  Values values;
  for (const Lazy& o : from_sequence(operands)) values.push_back(o.value);
  const Values results = f(b, values);
  lazy::check(b.status());
  lazy::note_recorded();
  py::list out;
  for (const Value& r : results) out.append(to_object({r, false}));
  return out;
}

Values compose(Builder& b, const std::string& name, const Values& x, int64_t limit) {
  if (name == "cholesky" && x.size() == 1) return {linalg::cholesky(b, x[0])};
  if (name == "solve" && x.size() == 2) return {linalg::solve(b, x[0], x[1])};
  if (name == "inverse" && x.size() == 1) return {linalg::inverse(b, x[0])};
  if (name == "determinant" && x.size() == 1) return {linalg::determinant(b, x[0])};
  if (name == "log_determinant" && x.size() == 1) {
    const linalg::SignAndLog d = linalg::log_determinant(b, x[0]);
    return {d.sign, d.log};
  }
  if (name == "expm" && x.size() == 1) return {linalg::expm(b, x[0], limit)};
  if (name == "pinv" && x.size() == 2) return {linalg::pinv(b, x[0], x[1], false)};
  if (name == "pinv_hermitian" && x.size() == 2) return {linalg::pinv(b, x[0], x[1], true)};
  throw py::value_error("there is no matrix function '" + name + "' of " + std::to_string(x.size()) +
                        " operands");
}

}  // namespace

void add_linalg(py::module_& m) {
  m.def(
      "linalg",
      [](const std::string& name, const py::sequence& operands, int64_t limit) {
        return recorded(operands, [&](Builder& b, const Values& x) { return compose(b, name, x, limit); });
      },
      py::arg("name"), py::arg("operands"), py::arg("limit") = 0,
      "Records a function of matrices of one element type and batch; returns its results as a list. `limit` "
      "is "
      "the most squarings of expm.");
  m.def(
      "matrix_routine",
      [](const std::string& name, const py::sequence& operands, bool full) {
        if (!linalg::find_routine(name)) throw py::value_error("there is no routine '" + name + "'");
        return recorded(operands,
                        [&](Builder& b, const Values& x) { return linalg::call(b, name, x, full); });
      },
      py::arg("name"), py::arg("operands"), py::arg("full") = false,
      "Records a host routine; returns its results as a list.");
  m.def(
      "matrix_qr",
      [](const py::sequence& operands, bool full) {
        return recorded(operands, [&](Builder& b, const Values& x) {
          const linalg::Qr f = linalg::qr(b, x[0], full);
          return Values{f.q, f.r};
        });
      },
      "Records [q, r] of one operand.");
  m.def(
      "triangular_solve",
      [](const py::sequence& operands, bool left, bool lower, bool unit, bool transposed, bool conjugated) {
        return recorded(operands, [&](Builder& b, const Values& x) {
          const linalg::Transpose op = !transposed  ? linalg::Transpose::kNo
                                       : conjugated ? linalg::Transpose::kAdjoint
                                                    : linalg::Transpose::kTranspose;
          return Values{linalg::triangular_solve(b, x[0], x[1], left, lower, unit, op)};
        });
      },
      "Records the solution with a triangle.");
  m.def(
      "fft",
      [](const py::sequence& operands, const std::string& kind, const hlo::Dims& length) {
        return recorded(operands, [&](Builder& b, const Values& x) {
          return Values{linalg::fft(b, x[0], kind, length)};
        });
      },
      "Records a Fourier transform over the last dimensions.");
  m.def(
      "fft_along",
      [](const py::sequence& operands, const std::string& kind, int64_t n, int64_t axis) {
        return recorded(operands, [&](Builder& b, const Values& x) {
          return Values{linalg::fft_along(b, x[0], kind, n, axis)};
        });
      },
      "Records a Fourier transform to or from n numbers along an axis of the operand.");
}

}  // namespace lamina::python
