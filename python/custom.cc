// custom_jvp and custom_vjp: derivative rules written in Python.
#include "python/custom.h"

#include <pybind11/stl.h>

#include <algorithm>
#include <array>

#include "hlo/custom_rule.h"
#include "hlo/hash_map.h"
#include "hlo/strings.h"
#include "lazy/scopes.h"
#include "lazy/transforms.h"
#include "python/tensor.h"

namespace py = pybind11;

namespace lamina::python {
namespace {

using hlo::Value;
using hlo::Values;
using lazy::Lazy;

Values joined(std::span<const Value> a, std::span<const Value> b) {
  Values out(a.begin(), a.end());
  out.insert(out.end(), b.begin(), b.end());
  return out;
}

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

// Whether a parameter lies beneath that no open trace made: a loop's body or a closed program is being
// transformed, where arrays from outside are not to be had.
bool in_closed_program(std::span<const Value> values) {
  HashSet<const hlo::Node*> open;
  for (const lazy::Scope& s : lazy::open_scopes())
    for (const Value& p : s.parameters) open.insert(p.node());
  auto stop = [](const hlo::Node& n, void*) { return n.data() != nullptr && !n.closed(); };
  for (const hlo::Node* n : hlo::postorder(values, stop))
    if (n->op() == hlo::Op::parameter && !open.contains(n)) return true;
  return false;
}

// `outputs` with the arrays that a rule captured as constants. Nodes of `inputs` stay.
void close_over_arrays(hlo::Builder& b, std::span<const Value> inputs, std::span<Values* const> outputs) {
  HashMap<const hlo::Node*, Values> made;
  for (const Value& v : inputs)
    if (v)
      for (uint32_t i = 0; i < v.node()->num_results(); ++i) made[v.node()].push_back(Value(v.node(), i));
  auto stop = [](const hlo::Node& n, void* m) {
    return n.data() != nullptr || static_cast<decltype(made)*>(m)->contains(&n);
  };
  for (Values* list : outputs) {
    for (Value& root : *list) {
      if (!root) continue;
      for (hlo::Node* n : hlo::postorder(std::span(&root, 1), stop, &made)) {
        if (made.contains(n)) continue;
        Values results, operands;
        bool changed = false;
        for (size_t i = 0; i < n->operands().size(); ++i) {
          operands.push_back(made.at(n->operand(i).node())[n->operand(i).index()]);
          changed |= !(operands.back() == n->operand_value(i));
        }
        if (n->data() && n->stamp() == 0 && !n->type()->is_tuple()) {
          const jit::ArrayPtr array = jit::array_of(Value(n));
          results.push_back(b.constant(hlo::Literal::copy_of(n->type(), array->data())));
        } else if (changed && !n->data()) {
          results = b.remake(*n, operands);
          if (!b.ok()) return;
        } else {
          for (uint32_t i = 0; i < n->num_results(); ++i) results.push_back(Value(n, i));
        }
        made[n] = std::move(results);
      }
      root = made.at(root.node())[root.index()];
    }
  }
}

// Rules get and return flat lists; None stands for a value that is not there. Only the first `arguments`
// operands are the function's own: the others are what its body captured, which has no derivative.
class PythonRule final : public hlo::CustomRule {
 public:
  PythonRule(Kind kind, size_t arguments, py::object first, py::object second)
      : kind_(kind), arguments_(arguments), first_(std::move(first)), second_(std::move(second)) {}
  ~PythonRule() override {
    py::gil_scoped_acquire gil;
    first_ = py::object();
    second_ = py::object();
  }
  Kind kind() const override { return kind_; }
  std::array<py::object*, 2> functions() { return {&first_, &second_}; }

  hlo::JvpResult jvp(hlo::Builder& b, std::span<const Value> x, std::span<const Value> t) override {
    Call call;
    const py::tuple r = first_(tensors(x.first(arguments_)), tensors(t.first(arguments_)));
    hlo::JvpResult out;
    out.primals = values_of(r[0]);
    out.tangents = values_of(r[1]);
    if (in_closed_program(x)) close_over_arrays(b, joined(x, t), std::array{&out.primals, &out.tangents});
    return out;
  }
  bool has_transpose() const override {
    py::gil_scoped_acquire gil;
    return kind_ == Kind::kJvp && !second_.is_none();
  }
  Values transpose(hlo::Builder& b, std::span<const Value> x, std::span<const bool>,
                   std::span<const Value> cotangents) override {
    Call call;
    Values out = values_of(second_(tensors(x.first(arguments_)), tensors(cotangents)));
    Values inputs = joined(x, cotangents);
    inputs.erase(std::remove(inputs.begin(), inputs.end(), Value()), inputs.end());
    if (in_closed_program(inputs)) close_over_arrays(b, inputs, std::array{&out});
    out.resize(x.size());
    return out;
  }
  Forward forward(hlo::Builder& b, std::span<const Value> x) override {
    Call call;
    captured_ = x.size() - arguments_;
    const py::tuple r = first_(tensors(x.first(arguments_)));
    Forward out{values_of(r[0]), values_of(r[1])};
    if (in_closed_program(x)) close_over_arrays(b, x, std::array{&out.results, &out.residuals});
    return out;
  }
  Values backward(hlo::Builder& b, std::span<const Value> residuals,
                  std::span<const Value> cotangents) override {
    Call call;
    Values out = values_of(second_(tensors(residuals), tensors(cotangents)));
    const Values inputs = joined(residuals, cotangents);
    if (in_closed_program(inputs)) close_over_arrays(b, inputs, std::array{&out});
    out.resize(out.size() + captured_);
    return out;
  }

 private:
  // Numbers in a rule are constants, since it may run while a loop's body is being transformed.
  struct Call {
    py::gil_scoped_acquire gil;
    lazy::ScopeGuard scope{lazy::Scope::kJit, 0};
  };

  Kind kind_;
  size_t arguments_, captured_ = 0;
  py::object first_, second_;
};

// A function's ownership of a rule. The rule's functions usually lead back to it: the collector sees that as
// long as no recorded call owns the rule too.
class RuleHandle {
 public:
  explicit RuleHandle(std::shared_ptr<PythonRule> rule)
      : rule_(std::move(rule)), id_(hlo::register_custom_rule(rule_)) {}
  RuleHandle(const RuleHandle&) = delete;
  RuleHandle& operator=(const RuleHandle&) = delete;
  ~RuleHandle() { hlo::release_custom_rule(id_); }

  int64_t id() const { return id_; }

  static int traverse(PyObject* self, visitproc visit, void* arg) {
    Py_VISIT(Py_TYPE(self));
    if (const RuleHandle* handle = sole_owner(self))
      for (py::object* f : handle->rule_->functions()) Py_VISIT(f->ptr());
    return 0;
  }
  static int clear(PyObject* self) {
    if (const RuleHandle* handle = sole_owner(self))
      for (py::object* f : handle->rule_->functions()) *f = py::none();
    return 0;
  }

 private:
  static const RuleHandle* sole_owner(PyObject* self) {
    auto* const instance = reinterpret_cast<py::detail::instance*>(self);
    if (!instance->get_value_and_holder().holder_constructed()) return nullptr;
    const auto* handle = py::cast<const RuleHandle*>(py::handle(self));
    return hlo::custom_rule_owners(handle->id_) == 1 ? handle : nullptr;
  }

  std::shared_ptr<PythonRule> rule_;
  int64_t id_;
};

}  // namespace

void add_custom(py::module_& m) {
  py::class_<RuleHandle>(m, "CustomRule", py::custom_type_setup([](PyHeapTypeObject* type) {
                           type->ht_type.tp_flags |= Py_TPFLAGS_HAVE_GC;
                           type->ht_type.tp_traverse = &RuleHandle::traverse;
                           type->ht_type.tp_clear = &RuleHandle::clear;
                         }))
      .def(py::init([](bool is_jvp, size_t arguments, py::function first, py::object second) {
             const auto kind = is_jvp ? hlo::CustomRule::Kind::kJvp : hlo::CustomRule::Kind::kVjp;
             return std::make_unique<RuleHandle>(
                 std::make_shared<PythonRule>(kind, arguments, std::move(first), std::move(second)));
           }),
           "A jvp rule and, for a function that is linear in some arguments, its transpose (or None); or a "
           "forward and a backward rule.");
  m.def(
      "call_with_rule",
      [](const py::function& f, const py::sequence& args, const RuleHandle& rule) {
        UserLocation location;
        std::vector<Lazy> operands = from_sequence(args);
        hlo::Builder b;
        std::vector<lazy::Typed> types, result_types;
        for (Lazy& a : operands) types.push_back({a.value.type(), a.weak});
        const size_t own = operands.size();
        const hlo::ComputationPtr body = lazy::region(flat(f), types, &operands, &result_types, false);
        for (const lazy::Scope& s : lazy::open_scopes())
          for (size_t i = own; s.kind == lazy::Scope::kDerivative && i < operands.size(); ++i)
            if (operands[i].value.node()->stamp() >= s.stamp && hlo::is_inexact(operands[i].value.dtype()))
              throw Error(ErrorKind::kType, str_cat("a function with a custom derivative uses ",
                                                    hlo::to_string(*operands[i].value.type()),
                                                    " from outside that is being differentiated; its rule "
                                                    "cannot see it: pass it as an argument"));
        Values values;
        for (const Lazy& o : operands) values.push_back(o.value);
        const Values results = hlo::custom_call_with_rule(b, rule.id(), body, values);
        lazy::check(b.status());
        std::vector<Lazy> out;
        for (size_t i = 0; i < results.size(); ++i) out.push_back({results[i], result_types[i].weak});
        return to_list(std::move(out));
      },
      "Outputs of f as a call whose derivative is the rule's.");
  m.def("any_open_scope", [] { return !lazy::open_scopes().empty(); });
}

}  // namespace lamina::python
