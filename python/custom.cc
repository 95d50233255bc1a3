// custom_jvp, custom_vjp and custom_vmap: rules written in Python.
#include "python/custom.h"

#include <pybind11/stl.h>

#include <array>

#include "lazy/batched_form.h"
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

py::list marks(std::span<const bool> given) {
  py::list out;
  for (const bool marked : given) out.append(marked);
  return out;
}

// Functions of Python that the library keeps; any may be None.
class KeptFunctions {
 public:
  KeptFunctions(py::object first, py::object second, py::object third = py::none())
      : functions_{std::move(first), std::move(second), std::move(third)} {}
  KeptFunctions(const KeptFunctions&) = delete;
  KeptFunctions& operator=(const KeptFunctions&) = delete;
  ~KeptFunctions() {
    while_python_lives([&] {
      for (py::object& f : functions_) f = py::object();
    });
    for (py::object& f : functions_) f.release();
  }
  std::array<py::object, 3>& functions() { return functions_; }

 protected:
  std::array<py::object, 3> functions_;
};

// Rules get and return flat lists; None stands for a value that is not there.
class PythonRule final : public lazy::FunctionRule, public KeptFunctions {
 public:
  PythonRule(Kind kind, size_t arguments, py::object first, py::object second, py::object batch,
             bool symbolic_zeros)
      : FunctionRule(kind, arguments, symbolic_zeros),
        KeptFunctions(std::move(first), std::move(second), std::move(batch)) {}
  bool has_batch() const override {
    py::gil_scoped_acquire gil;
    return !functions_[2].is_none();
  }
  bool has_transpose() const override {
    py::gil_scoped_acquire gil;
    return kind() == Kind::kJvp && !functions_[1].is_none();
  }

 protected:
  hlo::JvpResult run_jvp(std::span<const Value> x, std::span<const Value> t) override {
    py::gil_scoped_acquire gil;
    const py::tuple r = functions_[0](tensors(x), tensors(t));
    hlo::JvpResult out;
    out.primals = values_of(r[0]);
    out.tangents = values_of(r[1]);
    return out;
  }
  Values run_transpose(std::span<const Value> x, std::span<const Value> cotangents) override {
    py::gil_scoped_acquire gil;
    return values_of(functions_[1](tensors(x), tensors(cotangents)));
  }
  hlo::BatchResult run_batch(std::span<const Value> x, std::span<const bool> batched, int64_t size) override {
    py::gil_scoped_acquire gil;
    const py::tuple r = functions_[2](size, marks(batched), tensors(x));
    hlo::BatchResult out;
    out.results = values_of(r[0]);
    for (const py::handle& marked : r[1]) out.batched.push_back(marked.cast<bool>());
    return out;
  }
  Forward run_forward(std::span<const Value> x, std::span<const bool> perturbed) override {
    py::gil_scoped_acquire gil;
    const py::tuple r = functions_[0](tensors(x), marks(perturbed));
    return {values_of(r[0]), values_of(r[1]), form_of(r[2])};
  }
  Values run_backward(const Form& form, std::span<const Value> residuals,
                      std::span<const Value> cotangents) override {
    py::gil_scoped_acquire gil;
    const py::object of_pass =
        form ? *static_cast<const py::object*>(form.get()) : py::reinterpret_borrow<py::object>(Py_None);
    return values_of(functions_[1](of_pass, tensors(residuals), tensors(cotangents)));
  }

 private:
  // None stands for none.
  static Form form_of(py::object object) {
    if (object.is_none()) return nullptr;
    const auto drop = [](const py::object* o) { while_python_lives([&] { delete o; }); };
    return {new py::object(std::move(object)), drop};
  }
};

// The function, and its form in lanes.
class PythonForm final : public lazy::BatchedForm, public KeptFunctions {
 public:
  using KeptFunctions::KeptFunctions;
  std::vector<lazy::Lazy> run(const std::vector<lazy::Lazy>& x) override {
    py::gil_scoped_acquire gil;
    return from_sequence(functions_[0](to_list(x)).cast<py::sequence>());
  }
  Lanes lanes(int64_t size, const std::vector<bool>& batched, const std::vector<lazy::Lazy>& x,
              const lazy::FlatFunction&) override {
    py::gil_scoped_acquire gil;
    const py::tuple r = functions_[1](size, batched, to_list(x));
    return {from_sequence(r[0].cast<py::sequence>()), r[1].cast<std::vector<bool>>()};
  }
};

// A function's ownership of a rule. The rule's functions usually lead back to it: the collector sees that as
// long as no recorded call owns the rule, or the functions, too. Rules that were made of it own them as well.
class PythonRuleHandle : public lazy::RuleHandle {
 public:
  explicit PythonRuleHandle(const std::shared_ptr<PythonRule>& rule)
      : RuleHandle(rule), functions_(*rule), owned_(rule), own_(2) {}  // by this and by the list of all rules
  PythonRuleHandle(size_t arguments, const std::shared_ptr<PythonForm>& form)
      : RuleHandle(std::make_shared<lazy::BatchedFormRule>(arguments, form)),
        functions_(*form),
        owned_(form),
        own_(1) {}

  static int traverse(PyObject* self, visitproc visit, void* arg) {
    Py_VISIT(Py_TYPE(self));
    if (const PythonRuleHandle* handle = sole_owner(self))
      for (const py::object& f : handle->functions_.functions()) Py_VISIT(f.ptr());
    return 0;
  }
  static int clear(PyObject* self) {
    if (const PythonRuleHandle* handle = sole_owner(self))
      for (py::object& f : handle->functions_.functions()) f = py::none();
    return 0;
  }

 private:
  static const PythonRuleHandle* sole_owner(PyObject* self) {
    auto* const instance = reinterpret_cast<py::detail::instance*>(self);
    if (!instance->get_value_and_holder().holder_constructed()) return nullptr;
    const auto* handle = py::cast<const PythonRuleHandle*>(py::handle(self));
    const bool sole =
        hlo::custom_rule_owners(handle->id()) == 1 && handle->owned_.use_count() <= handle->own_;
    return sole ? handle : nullptr;
  }
  KeptFunctions& functions_;         // the rule's
  std::weak_ptr<const void> owned_;  // what holds them
  long own_;                         // how many own that where nobody else does
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
             const auto rule = std::make_shared<PythonRule>(
                 kind, arguments, std::move(first), std::move(second), std::move(batch), symbolic_zeros);
             return std::make_unique<PythonRuleHandle>(rule);
           }),
           py::arg(), py::arg(), py::arg(), py::arg(), py::arg("batch") = py::none(),
           py::arg("symbolic_zeros") = false,
           "A jvp rule and, for a function that is linear in some arguments, its transpose (or None). Or a "
           "forward rule and a backward one: (operands, which of them are differentiated) -> (results, "
           "residuals, what else the other is to know of the pass, or None), and (that, residuals, "
           "cotangents) -> cotangents. `batch`: (size, which arguments are batched, arguments) -> (results, "
           "which of them are batched), or None. With `symbolic_zeros`, zeros are None to the rules.")
      .def_static(
          "in_lanes",
          [](size_t arguments, py::function f, py::function lanes) {
            const auto form = std::make_shared<PythonForm>(std::move(f), std::move(lanes));
            return std::make_unique<PythonRuleHandle>(arguments, form);
          },
          "Of a function with a form under vmap, `lanes`, which is as `batch`, and of which derivatives are "
          "made.");
  m.def(
      "call_with_rule",
      [](const py::function& f, const py::sequence& args, const PythonRuleHandle& rule) {
        UserLocation location;
        return to_list(lazy::call_with_rule(flat(f), from_sequence(args), rule.id()));
      },
      "Outputs of f as a call whose derivative is the rule's.");
  m.def("any_open_scope", [] { return !lazy::open_scopes().empty(); });
}

}  // namespace lamina::python
