#include "python/regions.h"

#include <pybind11/functional.h>
#include <pybind11/stl.h>

#include <span>
#include <utility>

#include "lazy/control.h"
#include "python/location.h"
#include "python/tensor.h"

namespace py = pybind11;

namespace lamina::python {

using lazy::Lazy;

std::vector<lazy::Typed> typed(const std::vector<TypeSpec>& specs) {
  std::vector<lazy::Typed> types;
  for (const auto& [dtype, shape, weak] : specs) types.push_back({type_of(dtype, shape), weak});
  return types;
}

namespace {

py::list type_list(std::span<const lazy::Typed> types) {
  py::list out;
  for (const lazy::Typed& t : types)
    out.append(py::make_tuple(std::string(hlo::info(t.type->dtype).numpy_name), t.type->dims));
  return out;
}

}  // namespace

void add_regions(py::module_& m) {
  py::class_<Region>(m, "Region")
      .def_property_readonly("captured", [](const Region& r) { return to_list(r.captured); })
      .def_property_readonly("result_weak",
                             [](const Region& r) {
                               std::vector<bool> weak;
                               for (const lazy::Typed& t : r.results) weak.push_back(t.weak);
                               return weak;
                             })
      .def_property_readonly("result_types", [](const Region& r) { return type_list(r.results); });
  m.def(
      "region",
      [](const py::function& f, const std::vector<TypeSpec>& specs, bool carriers) {
        Region r;
        r.computation = lazy::region(flat(f), typed(specs), &r.captured, &r.results, carriers);
        return r;
      },
      py::arg("f"), py::arg("specs"), py::arg("carriers") = false,
      "A region of f on parameters of types (dtype, shape, weak); with `carriers` weak ones go in and out "
      "unrounded.");
  m.def(
      "call_region",
      [](const Region& region, const py::sequence& operands) {
        UserLocation location;
        return to_list(lazy::call_region(region.computation, from_sequence(operands), region.results));
      },
      "The results of a region with carriers on operands of its types, as one call.");
  m.def(
      "inlined",
      [](const Region& region, const py::sequence& operands) {
        UserLocation location;
        return to_list(lazy::inline_region(region.computation, from_sequence(operands), region.results));
      },
      "The results of a region with carriers on operands of its types, its ops recorded one by one: each "
      "result depends "
      "on what it is computed from only.");
  m.def(
      "recursive_call",
      [](int64_t function, const py::sequence& operands, const std::vector<TypeSpec>& specs) {
        UserLocation location;
        return to_list(lazy::recursive_call(function, from_sequence(operands), typed(specs)));
      },
      "A call, within its own region, of a function that will be one of a recursion: of its arguments, the "
      "error so "
      "far and captured values; it gives results of these types, the last of which is the error.");
  m.def(
      "recursion",
      [](const std::vector<std::tuple<int64_t, const Region*, size_t>>& functions,
         const py::sequence& operands, int64_t deepest, int64_t too_deep) {
        UserLocation location;
        std::vector<trace::RecursiveFunction> given;
        for (const auto& [number, region, arguments] : functions)
          given.push_back({number, region->computation, arguments});
        return to_list(lazy::recursion(given, from_sequence(operands), std::get<1>(functions.at(0))->results,
                                       deepest, too_deep));
      },
      "The first of recursive functions (number, region, how many arguments) on its arguments and captured "
      "values.");
}

}  // namespace lamina::python
