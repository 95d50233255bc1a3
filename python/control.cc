#include "python/control.h"

#include <pybind11/stl.h>

#include "lazy/control.h"
#include "lazy/lazy.h"
#include "python/tensor.h"
#include "trace/rules/loops.h"

namespace py = pybind11;

namespace lamina::python {
namespace {

// A function over lists of tensors, and its name.
using Function = std::pair<py::function, std::string>;

lazy::Named named(const Function& f) { return {flat(f.first), f.second}; }
lazy::LeafName leaf_name(const py::function& f) {
  return [f](size_t k) { return f(k).cast<std::string>(); };
}
lazy::ControlNames names(std::string what, const py::function& leaf) {
  return {std::move(what), leaf_name(leaf)};
}
int64_t known(const py::handle& bound) {
  const int64_t value = PyLong_AsLongLong(bound.ptr());
  if (value == -1 && PyErr_Occurred()) throw py::error_already_set();
  return value;
}

}  // namespace

void add_control(py::module_& m) {
  m.def("scan",
        [](std::string what, const Function& step, const py::sequence& carry, const py::sequence& items,
           std::optional<int64_t> length, bool reverse, const py::function& leaf, const py::function& item) {
          UserLocation location;
          return to_list(lazy::scan(names(std::move(what), leaf), named(step), from_sequence(carry),
                                    from_sequence(items), leaf_name(item), length, reverse));
        });
  m.def(
      "in_batches",
      [](const std::string& what, const py::function& scanned, const py::function& batched,
         const py::sequence& items, const py::function& item, int64_t batch) {
        UserLocation location;
        return to_list(lazy::in_batches(what, flat(scanned), flat(batched), from_sequence(items),
                                        leaf_name(item), batch));
      },
      "What a function of rows gives, some rows at a time: by `scanned`, of [batches, batch, ...], and for "
      "the "
      "rows that are left by `batched`.");
  m.attr("CHECKPOINT_SQRT") = trace::kRootOfSteps;
  m.attr("SUMS_IN_TURN") = lazy::kSumsInTurn;
  m.def("while_loop",
        [](std::string what, const Function& test, const Function& body, const py::sequence& carry,
           const py::function& leaf, std::optional<int64_t> checkpoint) {
          UserLocation location;
          return to_list(lazy::while_loop(names(std::move(what), leaf), named(test), named(body),
                                          from_sequence(carry), checkpoint));
        });
  m.def(
      "fori_loop",
      [](std::string what, const Function& body, const py::object& lower, const py::object& upper,
         const py::sequence& carry, const py::function& leaf, std::optional<int64_t> checkpoint) {
        UserLocation location;
        const lazy::ControlNames control = names(std::move(what), leaf);
        if (is_tensor(lower.ptr()))
          return to_list(lazy::fori_loop(control, named(body), lazy_of(lower.ptr()), lazy_of(upper.ptr()),
                                         from_sequence(carry), checkpoint));
        return to_list(lazy::fori_loop(control, named(body), known(lower), known(upper), from_sequence(carry),
                                       checkpoint));
      },
      "Of bounds that are both integers or both tensors.");
  m.def("switch_case", [](std::string what, const py::object& index, const std::vector<Function>& branches,
                          const py::sequence& operands, const py::function& leaf) {
    UserLocation location;
    std::vector<lazy::Named> functions;
    for (const Function& f : branches) functions.push_back(named(f));
    return to_list(lazy::switch_case(names(std::move(what), leaf), lazy_of(index.ptr()), functions,
                                     from_sequence(operands)));
  });
  m.def(
      "cond",
      [](std::string what, const py::object& predicate, const std::vector<Function>& branches,
         const py::sequence& operands, const py::function& leaf) {
        UserLocation location;
        return to_list(lazy::cond(names(std::move(what), leaf), lazy_of(predicate.ptr()),
                                  named(branches.at(1)), named(branches.at(0)), from_sequence(operands)));
      },
      "Of two branches: the first where the condition is false.");
}

}  // namespace lamina::python
