#include "python/equations.h"

#include <pybind11/stl.h>

#include "hlo/computation.h"
#include "hlo/custom_call.h"
#include "hlo/custom_rule.h"
#include "hlo/hash_map.h"
#include "hlo/location.h"
#include "hlo/op.h"
#include "lazy/lazy.h"
#include "lazy/transforms.h"
#include "python/interpreter.h"
#include "python/tensor.h"
#include "trace/kept.h"

namespace py = pybind11;

namespace lamina::python {
namespace {

py::str dtype_name(hlo::DType dtype) { return std::string(hlo::info(dtype).numpy_name); }

// (element type, shape); None for what is no array.
py::object type_object(const hlo::Type* type) {
  if (type->is_tuple()) return py::none();
  return py::make_tuple(dtype_name(type->dtype), type->dims);
}

py::object program_of(const hlo::ComputationPtr& computation) {
  return py::cast(lazy::Program::of(computation, "", ""));
}

// "jvp" or "vjp", by what a custom rule defines.
py::object rule_name(int64_t id) {
  const std::shared_ptr<hlo::CustomRule> rule = hlo::find_custom_rule(id);
  return py::str(rule && rule->kind() == hlo::CustomRule::Kind::kJvp ? "jvp" : "vjp");
}

struct AttributeObject {
  py::object operator()(int64_t v) const { return py::int_(v); }
  py::object operator()(bool v) const { return py::bool_(v); }
  py::object operator()(const hlo::Dims& v) const { return py::tuple(py::cast(v)); }
  py::object operator()(const std::string& v) const { return py::str(v); }
  py::object operator()(hlo::DType v) const { return dtype_name(v); }
  py::object operator()(const hlo::LiteralPtr& v) const {
    return to_object({lazy::from_host(v->dtype(), v->dims(), v->data()), false});
  }
  py::object operator()(const hlo::ComputationPtr& v) const { return program_of(v); }
  py::object operator()(const std::vector<hlo::ComputationPtr>& v) const {
    py::list out;
    for (const hlo::ComputationPtr& c : v) out.append(program_of(c));
    return py::tuple(out);
  }
  py::object operator()(const std::vector<const hlo::Type*>& v) const {
    py::list out;
    for (const hlo::Type* t : v) out.append(type_object(t));
    return py::tuple(out);
  }
};

py::dict attributes(const hlo::Node& node) {
  py::dict out;
  for (const auto& [key, value] : node.attrs().entries()) {
    if (key == hlo::Attr::rule && node.attrs().has(hlo::Attr::instance)) continue;  // a policy
    out[py::str(std::string(hlo::attr_name(key)))] =
        key == hlo::Attr::rule ? rule_name(std::get<int64_t>(value))
                               : std::visit(AttributeObject(), static_cast<const hlo::AttrValue&>(value));
  }
  return out;
}

class PythonPolicy final : public trace::Policy {
 public:
  PythonPolicy(py::object choose, bool names_decide)
      : choose_(std::move(choose)), names_decide_(names_decide) {}
  ~PythonPolicy() override {
    while_python_lives([&] { choose_ = py::object(); });
    choose_.release();
  }
  bool names_decide() const override { return names_decide_; }
  std::vector<bool> keeps(std::span<hlo::Node* const> nodes) const override {
    py::gil_scoped_acquire gil;
    py::list described;
    for (hlo::Node* n : nodes) {
      py::list operands;
      for (size_t i = 0; i < n->operands().size(); ++i) operands.append(type_object(n->operand_type(i)));
      described.append(py::make_tuple(std::string(hlo::op_def(n->op()).name), operands, attributes(*n)));
    }
    return choose_(described).cast<std::vector<bool>>();
  }

 private:
  py::object choose_;
  bool names_decide_;
};

// A policy together with the recorded regions that name it.
class PolicyHandle {
 public:
  PolicyHandle(py::object choose, bool names_decide)
      : id_(hlo::register_custom_rule(std::make_shared<PythonPolicy>(std::move(choose), names_decide))) {}
  ~PolicyHandle() { hlo::release_custom_rule(id_); }
  PolicyHandle(const PolicyHandle&) = delete;
  PolicyHandle& operator=(const PolicyHandle&) = delete;
  int64_t id() const { return id_; }

 private:
  int64_t id_;
};

// (types of the parameters, equations, numbers of the results). Values are numbered: the parameters, then the
// results of equation after equation. An equation is (op, numbers of its operands, attributes, types of its
// results, file, line).
py::tuple equations(const lazy::Program& program) {
  const hlo::Computation& c = *program.computation();
  HashMap<const hlo::Node*, size_t> first;
  py::list parameters, made;
  size_t count = 0;
  for (const hlo::Value& p : c.parameters()) {
    first[p.node()] = count++;
    parameters.append(type_object(p.type()));
  }
  const auto number = [&](const hlo::Node* n, uint32_t result) { return first.at(n) + result; };
  for (const hlo::Node* n : c.nodes()) {
    if (first.contains(n)) continue;
    py::list operands, types;
    for (const hlo::Operand& o : n->operands()) operands.append(number(o.node(), o.index()));
    for (uint32_t i = 0; i < n->num_results(); ++i)
      types.append(type_object(hlo::Value(const_cast<hlo::Node*>(n), i).type()));
    first[n] = count;
    count += n->num_results();
    const hlo::Location at = hlo::location(n->location());
    made.append(py::make_tuple(std::string(hlo::op_def(n->op()).name), operands, attributes(*n), types,
                               at.file, at.line));
  }
  py::list results;
  for (const hlo::Value& r : c.roots()) results.append(number(r.node(), r.index()));
  return py::make_tuple(parameters, made, results);
}

}  // namespace

void add_equations(py::module_& m) {
  m.def("equations", &equations,
        "What a program computes: (types of the parameters, equations, numbers of the results).");
  using TypeSpec = std::tuple<std::string, hlo::Dims, bool>;  // dtype, shape, weak
  m.def(
      "traced",
      [](const py::function& f, const std::vector<TypeSpec>& specs) {
        std::vector<lazy::Typed> types, results;
        for (const auto& [dtype, shape, weak] : specs) types.push_back({type_of(dtype, shape), weak});
        std::vector<lazy::Lazy> captured;
        bool effects = false;
        hlo::ComputationPtr made = lazy::region(flat(f), types, &captured, &results, false, &effects);
        std::vector<bool> weak;
        for (const lazy::Typed& t : results) weak.push_back(t.weak);
        return py::make_tuple(program_of(made), to_list(std::move(captured)), weak, effects);
      },
      "(program, arrays from outside, which results are weak, whether it has effects) of f on parameters of "
      "types (dtype, shape, weak). The parameters are those, a token if there are effects, and those of the "
      "arrays; a token is also the last result then.");
  m.def(
      "checkpoint",
      [](const py::function& f, const py::sequence& args, const PolicyHandle* policy,
         const std::vector<bool>& shared) {
        return to_list(lazy::checkpoint(flat(f), from_sequence(args), policy ? policy->id() : 0, shared));
      },
      py::arg("f"), py::arg("args"), py::arg("policy") = py::none(), py::arg("shared") = std::vector<bool>(),
      "Outputs of f that reverse mode computes again, but for what `policy` keeps, and what it may share of "
      "`shared` "
      "arguments.");
  m.def(
      "composite",
      [](const py::function& f, const py::sequence& args, const std::string& name, int64_t version,
         const std::string& attributes) {
        return to_list(lazy::composite(flat(f), from_sequence(args), name, version, attributes));
      },
      py::arg("f"), py::arg("args"), py::arg("name"), py::arg("version"), py::arg("attributes"),
      "Outputs of f as one operation that compilers may know by a name, with attributes in StableHLO's "
      "text.");
  py::class_<PolicyHandle>(
      m, "KeepingPolicy",
      "What is asked when a checkpointed region is derived: `choose` gives for a list of "
      "(op, types of operands, attributes), one for each node, which of them are kept. With `names_decide`, "
      "what has a name is kept under that alone.")
      .def(py::init<py::object, bool>(), py::arg("choose"), py::arg("names_decide"));
  m.attr("NAME_TARGET") = std::string(hlo::kNameTarget);
  m.def(
      "named",
      [](const py::object& x, const std::string& name) {
        return to_object(lazy::named(lazy_of(x.ptr()), name));
      },
      py::arg("x"), py::arg("name"), "x under a name for the policies of checkpointed functions.");
  m.def(
      "program_id", [](const lazy::Program& p) { return reinterpret_cast<uintptr_t>(p.computation().get()); },
      "Equal for programs that compute the same, as long as they live.");
  m.def(
      "parts",
      [](const lazy::Program& p) {
        std::vector<lazy::Lazy> captured;
        for (const hlo::Value& v : p.captured()) captured.push_back({v, false});
        return py::make_tuple(program_of(p.computation()), to_list(std::move(captured)));
      },
      "(the program with the arrays from outside as its last arguments, those arrays).");
}

}  // namespace lamina::python
