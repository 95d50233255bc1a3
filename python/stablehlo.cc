#include "python/stablehlo.h"

#include <pybind11/stl.h>

#include "hlo/builder.h"
#include "hlo/evaluator.h"
#include "hlo/passes/pass.h"
#include "hlo/stablehlo/reader.h"
#include "hlo/stablehlo/writer.h"
#include "hlo/xla_text/reader.h"
#include "hlo/xla_text/writer.h"
#include "jit/client/array.h"
#include "lazy/lazy.h"
#include "lazy/placement.h"
#include "lazy/transforms.h"
#include "python/tensor.h"

namespace py = pybind11;

namespace lamina::python {
namespace {

using hlo::stablehlo::Module;

using TypeSpec = std::pair<std::string, hlo::Dims>;

// Errors of the text are errors of its value.
template <typename T>
T check_text(absl::StatusOr<T> value) {
  if (value.ok()) return *std::move(value);
  const std::string message(value.status().message());
  if (value.status().code() == absl::StatusCode::kUnimplemented) {
    PyErr_SetString(PyExc_NotImplementedError, message.c_str());
    throw py::error_already_set();
  }
  throw py::value_error(message);
}

py::list argument_types(const Module& module, const std::string& function) {
  py::list out;
  for (const Module::Function& f : module.functions())
    if (f.name == function)
      for (const auto& a : f.arguments)
        out.append(py::make_tuple(std::string(hlo::info(a.dtype).numpy_name), a.dims));
  return out;
}

std::shared_ptr<lazy::Program> program(const Module& module, const std::string& function,
                                       const std::vector<TypeSpec>& specs) {
  std::vector<const hlo::Type*> types;
  for (const auto& [dtype, shape] : specs) types.push_back(type_of(dtype, shape));
  hlo::stablehlo::Program made = check_text(module.program(function, types));
  if (!made.checks.empty())
    throw py::value_error(made.checks[0].where + ": checks are run by lamina-run, not by a call");
  return lazy::Program::of(std::move(made.computation), function, "stablehlo");
}

// The program with its captured values as constants, and numbers in the types that users see.
hlo::ComputationPtr closed(const lazy::Program& program) {
  const hlo::ComputationPtr& open = program.computation();
  bool as_seen = true;
  for (size_t i = 0; i < program.arguments().size(); ++i)
    as_seen &= program.arguments()[i].type == open->parameters()[i].type();
  for (size_t i = 0; i < program.results().size(); ++i)
    as_seen &= program.results()[i].type == open->roots()[i].type();
  if (as_seen && program.captured().empty()) return open;
  lazy::force(program.captured());
  hlo::GraphLock lock;
  const hlo::FloorScope floor(hlo::fresh_stamp());
  hlo::Builder b;
  hlo::Values parameters, arguments;
  for (const lazy::Typed& t : program.arguments()) {
    parameters.push_back(hlo::make_parameter(t.type));
    arguments.push_back(b.convert(parameters.back(), open->parameters()[arguments.size()].type()->dtype));
  }
  for (const hlo::Value& v : program.captured())
    arguments.push_back(b.constant(hlo::Literal::copy_of(v.type(), lazy::host_bytes(*jit::array_of(v)))));
  hlo::Values roots = hlo::inline_computation(b, *open, arguments);
  // Behind the results may be a token, which keeps the effects.
  for (size_t i = 0; i < program.results().size(); ++i)
    roots[i] = b.convert(roots[i], program.results()[i].type->dtype);
  lazy::check(b.status());
  hlo::ComputationPtr made = lazy::check(hlo::Computation::make(parameters, roots));
  // What was widened only to be rounded again need not be.
  return as_seen ? made : lazy::check(hlo::simplify_arithmetic(made));
}

// The program by the definition of every op, without kernels.
py::list evaluated(const lazy::Program& program, const py::sequence& args) {
  std::vector<hlo::Value> values;
  for (const lazy::Lazy& l : from_sequence(args)) values.push_back(l.value);
  std::vector<hlo::LiteralPtr> arguments, results;
  {
    py::gil_scoped_release release;
    lazy::force(values);
    for (const hlo::Value& v : values)
      arguments.push_back(hlo::Literal::copy_of(v.type(), lazy::host_bytes(*jit::array_of(v))));
    results = lazy::check(hlo::evaluate(*closed(program), arguments));
  }
  std::vector<lazy::Lazy> out;
  results.resize(program.results().size());  // not the token
  for (const hlo::LiteralPtr& r : results)
    out.push_back({lazy::from_host(r->dtype(), r->dims(), r->data()), false});
  return to_list(std::move(out));
}

}  // namespace

void add_stablehlo(py::module_& m) {
  py::class_<Module>(m, "StableHloModule")
      .def(py::init([](std::string text) { return check_text(Module::parse(std::move(text))); }))
      .def("entry", [](const Module& module) { return check_text(module.entry()); })
      .def("functions",
           [](const Module& module) {
             std::vector<std::string> names;
             for (const Module::Function& f : module.functions()) names.push_back(f.name);
             return names;
           })
      .def("argument_types", &argument_types)
      .def("program", &program);
  m.def("xla_hlo_module", [](std::string text) { return check_text(hlo::xla_text::parse(std::move(text))); });
  m.def("evaluate", &evaluated);
  m.def("stablehlo_text", [](const lazy::Program& p, const std::string& name, bool locations) {
    return check_text(hlo::stablehlo::write(*closed(p), {.module = name, .locations = locations}));
  });
  m.def("xla_hlo_text", [](const lazy::Program& p, const std::string& name, bool locations) {
    return check_text(hlo::xla_text::write(*closed(p), {.module = name, .locations = locations}));
  });
}

}  // namespace lamina::python
