// custom_jvp and custom_vjp: derivative rules written in Python.
#include "python/custom.h"

#include <pybind11/stl.h>

#include <array>

#include "lazy/custom.h"
#include "lazy/scopes.h"
#include "python/interpreter.h"
#include "python/tensor.h"

namespace py = pybind11;

namespace lamina::python {
namespace {

using hlo::Value;
using hlo::Values;

py::list tensors(std::span<const Value> values) {
  py::list out;
  for (const Value& v : values) {
    if (v)
      out.append(to_object({v, false}));
    else
      out.append(py::none());
  }
  return out;
}

Values values_of(const py::handle& objects) {
  Values out;
  for (const py::handle& o : objects.cast<py::sequence>())
    out.push_back(o.is_none() ? Value() : lazy_of(o.ptr()).value);
  return out;
}

// Rules get and return flat lists; None stands for a value that is not there.
class PythonRule final : public lazy::FunctionRule {
 public:
  PythonRule(Kind kind, size_t arguments, py::object first, py::object second, py::object batch,
             bool symbolic_zeros)
      : FunctionRule(kind, arguments, symbolic_zeros),
        first_(std::move(first)),
        second_(std::move(second)),
        batch_(std::move(batch)) {}
  ~PythonRule() override {
    while_python_lives([&] {
      for (py::object* f : functions()) *f = py::object();
    });
    for (py::object* f : functions()) f->release();
  }
  bool has_batch() const override {
    py::gil_scoped_acquire gil;
    return !batch_.is_none();
  }
  bool has_transpose() const override {
    py::gil_scoped_acquire gil;
    return kind() == Kind::kJvp && !second_.is_none();
  }
  std::array<py::object*, 3> functions() { return {&first_, &second_, &batch_}; }

 protected:
  hlo::JvpResult run_jvp(std::span<const Value> x, std::span<const Value> t) override {
    py::gil_scoped_acquire gil;
    const py::tuple r = first_(tensors(x), tensors(t));
    hlo::JvpResult out;
    out.primals = values_of(r[0]);
    out.tangents = values_of(r[1]);
    return out;
  }
  Values run_transpose(std::span<const Value> x, std::span<const Value> cotangents) override {
    py::gil_scoped_acquire gil;
    return values_of(second_(tensors(x), tensors(cotangents)));
  }
  hlo::BatchResult run_batch(std::span<const Value> x, std::span<const bool> batched, int64_t size) override {
    py::gil_scoped_acquire gil;
    py::list marks;
    for (const bool marked : batched) marks.append(marked);
    const py::tuple r = batch_(size, marks, tensors(x));
    hlo::BatchResult out;
    out.results = values_of(r[0]);
    for (const py::handle& marked : r[1]) out.batched.push_back(marked.cast<bool>());
    return out;
  }
  Forward run_forward(std::span<const Value> x, std::span<const bool> perturbed) override {
    py::gil_scoped_acquire gil;
    py::list marks;
    for (const bool marked : perturbed) marks.append(marked);
    const py::tuple r = first_(tensors(x), marks);
    return {values_of(r[0]), values_of(r[1])};
  }
  Values run_backward(std::span<const Value> residuals, std::span<const Value> cotangents) override {
    py::gil_scoped_acquire gil;
    return values_of(second_(tensors(residuals), tensors(cotangents)));
  }

 private:
  py::object first_, second_, batch_;
};

// A function's ownership of a rule. The rule's functions usually lead back to it: the collector sees that as
// long as no recorded call owns the rule too.
class PythonRuleHandle : public lazy::RuleHandle {
 public:
  using RuleHandle::RuleHandle;

  static int traverse(PyObject* self, visitproc visit, void* arg) {
    Py_VISIT(Py_TYPE(self));
    if (const PythonRuleHandle* handle = sole_owner(self))
      for (py::object* f : handle->functions()) Py_VISIT(f->ptr());
    return 0;
  }
  static int clear(PyObject* self) {
    if (const PythonRuleHandle* handle = sole_owner(self))
      for (py::object* f : handle->functions()) *f = py::none();
    return 0;
  }

 private:
  std::array<py::object*, 3> functions() const { return static_cast<PythonRule&>(rule()).functions(); }
  static const PythonRuleHandle* sole_owner(PyObject* self) {
    auto* const instance = reinterpret_cast<py::detail::instance*>(self);
    if (!instance->get_value_and_holder().holder_constructed()) return nullptr;
    const auto* handle = py::cast<const PythonRuleHandle*>(py::handle(self));
    return hlo::custom_rule_owners(handle->id()) == 1 ? handle : nullptr;
  }
};

}  // namespace

void add_custom(py::module_& m) {
  py::class_<PythonRuleHandle>(m, "CustomRule", py::custom_type_setup([](PyHeapTypeObject* type) {
                                 type->ht_type.tp_flags |= Py_TPFLAGS_HAVE_GC;
                                 type->ht_type.tp_traverse = &PythonRuleHandle::traverse;
                                 type->ht_type.tp_clear = &PythonRuleHandle::clear;
                               }))
      .def(py::init([](bool is_jvp, size_t arguments, py::function first, py::object second, py::object batch,
                       bool symbolic_zeros) {
             const auto kind = is_jvp ? hlo::CustomRule::Kind::kJvp : hlo::CustomRule::Kind::kVjp;
             return std::make_unique<PythonRuleHandle>(std::make_shared<PythonRule>(
                 kind, arguments, std::move(first), std::move(second), std::move(batch), symbolic_zeros));
           }),
           py::arg(), py::arg(), py::arg(), py::arg(), py::arg("batch") = py::none(),
           py::arg("symbolic_zeros") = false,
           "A jvp rule and, for a function that is linear in some arguments, its transpose (or None); or a "
           "forward rule (of operands, and which of them are differentiated) and a backward rule. `batch`: "
           "(size, which arguments are batched, arguments) -> (results, which of them are batched), or None. "
           "With `symbolic_zeros`, zeros are None to the rules.");
  m.def(
      "call_with_rule",
      [](const py::function& f, const py::sequence& args, const PythonRuleHandle& rule) {
        UserLocation location;
        return to_list(lazy::call_with_rule(flat(f), from_sequence(args), rule));
      },
      "Outputs of f as a call whose derivative is the rule's.");
  m.def("any_open_scope", [] { return !lazy::open_scopes().empty(); });
}

}  // namespace lamina::python
