#include "python/plans.h"

#include <pybind11/stl.h>

#include "jit/program/listing.h"
#include "lazy/plan_file.h"
#include "python/tensor.h"

namespace py = pybind11;

namespace lamina::python {
namespace {

py::bytes plan_bytes(lazy::Program& program, const py::tuple& hidden, std::string name, std::string structure,
                     std::vector<std::string> paths, std::vector<std::string> result_paths,
                     const std::vector<size_t>& given_up) {
  lazy::PlanNotes notes{std::move(name), std::move(structure), std::move(paths), std::move(result_paths), {}};
  notes.given_up.resize(program.arguments().size());
  for (const size_t i : given_up) notes.given_up.at(i) = true;
  return lazy::plan_bytes(program, hidden_values(hidden), notes);
}

// (element type, shape, path, whether given up) of each argument.
py::list arguments(const lazy::LoadedPlan& plan) {
  py::list out;
  for (const jit::PlanFile::Port& p : plan.file.arguments)
    out.append(
        py::make_tuple(std::string(hlo::info(p.type->dtype).numpy_name), p.type->dims, p.path, p.given_up));
  return out;
}

}  // namespace

void add_plans(py::module_& m) {
  m.def("plan_bytes", &plan_bytes);
  py::class_<lazy::LoadedPlan>(m, "LoadedPlan")
      .def(py::init([](const py::bytes& bytes) { return lazy::load_plan(std::string_view(bytes)); }))
      .def_property_readonly("program", [](const lazy::LoadedPlan& p) { return p.program; })
      .def_property_readonly("name", [](const lazy::LoadedPlan& p) { return p.file.name; })
      .def_property_readonly("structure", [](const lazy::LoadedPlan& p) { return p.file.structure; })
      .def_property_readonly("arguments", &arguments)
      .def_property_readonly("num_results", [](const lazy::LoadedPlan& p) { return p.file.results.size(); })
      .def_readonly("text", &lazy::LoadedPlan::text)
      .def_readonly("slow", &lazy::LoadedPlan::slow)
      .def(
          "listing",
          [](const lazy::LoadedPlan& p, const std::string& stage) {
            return lazy::check(jit::listing(*p.program->compile()->executable, stage));
          },
          "A stage of its executable as text (jit/program/listing.h).");
}

}  // namespace lamina::python
