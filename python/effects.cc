#include "python/effects.h"

#include <pybind11/functional.h>
#include <pybind11/stl.h>

#include <cstring>

#include "hlo/custom_call.h"
#include "hlo/hash_map.h"
#include "hlo/passes/checks.h"
#include "hlo/strings.h"
#include "lazy/axes.h"
#include "lazy/checkify.h"
#include "lazy/effects.h"
#include "lazy/nan_check.h"
#include "lazy/placement.h"
#include "lazy/raised.h"
#include "lazy/scopes.h"
#include "lazy/transforms.h"
#include "python/interpreter.h"
#include "python/location.h"
#include "python/tensor.h"

namespace py = pybind11;

namespace lamina::python {
namespace {

using hlo::Attr;
using lazy::Lazy;

// Functions in the middle of programs, by the number in their operand. The interpreter's lock guards it.
HashMap<uint64_t, py::function>& callbacks() {
  static auto* const table = new HashMap<uint64_t, py::function>;
  return *table;
}

py::tuple type_pair(const hlo::Type& t) {
  return py::make_tuple(std::string(hlo::info(t.dtype).numpy_name), t.dims);
}

// Runs the function that the first operand stands for.
absl::Status call_python(std::span<const hlo::LiteralPtr> in,
                         std::span<const std::shared_ptr<hlo::Literal>> out) {
  py::gil_scoped_acquire gil;
  py::list args;
  const auto it = callbacks().find(static_cast<uint64_t>(in[0]->int_at(0)));
  if (it == callbacks().end()) return absl::NotFoundError("a host callback was deleted before its program");
  const py::function function = it->second;
  // What it computes is no part of what is being recorded around the run.
  const lazy::ScopesSuspended scopes(0, 0);
  const lazy::AxesScope axes({});
  const lazy::TokenScope effects{hlo::Value()};
  for (const hlo::LiteralPtr& l : in.subspan(1))
    args.append(to_object({lazy::from_host(l->dtype(), l->dims(), l->data()), false}));
  py::list types;
  for (const auto& l : out) types.append(type_pair(*l->type()));
  py::object returned;
  try {
    returned = function(args, types);
  } catch (py::error_already_set& e) {
    if (e.matches(PyExc_Exception)) throw;
    e.restore();  // an interrupt, say: it stops what runs, and stays set as a signal handler's does
    return absl::CancelledError("a host callback was interrupted");
  }
  const std::vector<Lazy> results = from_sequence(returned.cast<py::sequence>());
  if (results.size() != out.size())
    return absl::InvalidArgumentError("the callback returned another number of arrays than declared");
  for (size_t i = 0; i < out.size(); ++i) {
    if (results[i].value.type() != out[i]->type())
      return absl::InvalidArgumentError(str_cat("the callback returned ",
                                                hlo::to_string(*results[i].value.type()), " where ",
                                                hlo::to_string(*out[i]->type()), " was declared"));
    const jit::ArrayPtr array = lazy::array(results[i].value);
    if (out[i]->bytes() > 0) std::memcpy(out[i]->data(), lazy::host_bytes(*array), out[i]->bytes());
  }
  return absl::OkStatus();
}

void add_callbacks(py::module_& m) {
  m.def(
      "callback_operand",
      [](py::function f) {
        // Its number in a buffer that takes it out of the table.
        static uint64_t last = 0;
        auto owned = std::make_unique<uint64_t>(++last);
        callbacks().try_emplace(*owned, std::move(f));
        uint64_t* const number = owned.release();
        const auto release = [number] {
          while_python_lives([number] {
            const auto it = callbacks().find(*number);
            const py::function dropped = std::move(it->second);
            callbacks().erase(it);
            delete number;
          });
        };
        return to_object({lazy::from_foreign(hlo::DType::kU64, {}, number, release), false});
      },
      "A scalar that stands for a Python function: the first operand of a custom_call of 'python'. The "
      "function gets the other operands as a list and the results' (dtype, shape), and returns a list; it "
      "runs on the thread that runs the program.");
  m.def(
      "effect",
      [](const py::sequence& operands, const std::vector<std::pair<std::string, hlo::Dims>>& results,
         int64_t check, const std::string& vmap_method) {
        UserLocation location;
        std::vector<const hlo::Type*> types{lazy::token_of_effects()};
        for (const auto& [dtype, shape] : results) types.push_back(type_of(dtype, shape));
        std::vector<hlo::Attrs::Entry> attrs{
            {Attr::call_target_name,
             check ? std::string(hlo::kCheckTarget) : std::string(hlo::kPythonTarget)},
            {Attr::has_side_effect, true},
            {Attr::result_types, std::move(types)}};
        if (check) attrs.emplace_back(Attr::index, check);
        if (!vmap_method.empty()) attrs.emplace_back(Attr::vmap_method, vmap_method);
        return to_list(lazy::record_effect(from_sequence(operands), hlo::intern_attrs(std::move(attrs))));
      },
      py::arg("operands"), py::arg("result_types"), py::arg("check") = 0, py::arg("vmap_method") = "",
      "Records a Python function (its callback_operand, then arrays) that runs for what it does, in program "
      "order. It gets a token before the arrays, and returns it before its results, (dtype, shape) each. "
      "With a number it is a user's check of its first array, which `checked` takes for its own.");
  m.def(
      "last_token",
      [] {
        return to_object({lazy::last_token(), false});
      },
      "What orders an effect behind those before it: a program of effects takes it and gives the next one.");
  m.def(
      "note_effects", [](const py::object& token) { lazy::note_effects(lazy_of(token.ptr()).value); },
      "Effects were recorded that began from last_token and gave this one: they run now, or wait.");
  m.def("note_check", lazy::note_check,
        "What is recorded next is a callback that raises, and a barrier in which results wait for it.");
  m.def("run_effects", lazy::run_effects, "Runs the effects that wait, where nothing unknown is open.");
  for (const std::string_view target : {hlo::kPythonTarget, hlo::kCheckTarget, hlo::kFailedTarget}) {
    const absl::Status registered = hlo::register_custom_call(std::string(target), call_python);
    if (registered.code() != absl::StatusCode::kAlreadyExists) lazy::check(registered);
  }
}

}  // namespace

void add_effects(py::module_& m) {
  add_callbacks(m);
  m.def(
      "set_nan_checks", [](bool on) { return std::exchange(lazy::nan_checks(), on); },
      "Whether this thread looks for NaN in what programs give; how it was.");
  m.def(
      "bound_axes",
      [] {
        py::list out;
        for (const lazy::BoundAxis& a : lazy::bound_axes()) out.append(py::make_tuple(a.name, a.size));
        return out;
      },
      "(name, size) of the named axes of open vmaps, outermost first.");
  m.def(
      "lane",
      [](const std::string& name) -> py::object {
        const lazy::BoundAxis* axis = lazy::find_axis(name);
        if (!axis) return py::none();
        return py::make_tuple(axis->size, to_object({axis->lane, false}));
      },
      "(size, lane) of the innermost axis of this name; None if there is none.");
  m.def(
      "checked",
      [](const py::function& f, const py::sequence& args, bool user, bool nan, bool division,
         const std::function<int64_t(std::string, std::string)>& number) {
        UserLocation location;
        std::vector<Lazy> out = lazy::checked(flat(f), from_sequence(args), {user, nan, division, number});
        const Lazy failed = out.back();
        out.pop_back();
        return py::make_tuple(to_list(std::move(out)), to_object(failed));
      },
      "(results of f, number of the first check that failed, or 0); see lazy/checkify.h.");
}

}  // namespace lamina::python
