// lamina._core: the binding off the hot path.
#include <pybind11/functional.h>
#include <pybind11/numpy.h>
#include <pybind11/pybind11.h>
#include <pybind11/stl.h>

#include <algorithm>
#include <cstring>
#include <tuple>
#include <utility>

#include "hlo/computation.h"
#include "hlo/hash_map.h"
#include "hlo/host_lock.h"
#include "hlo/isa.h"
#include "hlo/location.h"
#include "hlo/op.h"
#include "hlo/printer.h"
#include "hlo/strings.h"
#include "jit/client/threads.h"
#include "jit/cpu/client.h"
#include "jit/program/engine.h"
#include "jit/program/listing.h"
#include "lamina/cache.h"
#include "lazy/control.h"
#include "lazy/escape.h"
#include "lazy/lazy.h"
#include "lazy/placement.h"
#include "lazy/scopes.h"
#include "lazy/transforms.h"
#include "python/attributes.h"
#include "python/control.h"
#include "python/custom.h"
#include "python/devices.h"
#include "python/dlpack.h"
#include "python/doctor.h"
#include "python/effects.h"
#include "python/elementwise.h"
#include "python/equations.h"
#include "python/implicit.h"
#include "python/indexing.h"
#include "python/jitted.h"
#include "python/linalg.h"
#include "python/number.h"
#include "python/plans.h"
#include "python/profile.h"
#include "python/reads.h"
#include "python/recordings.h"
#include "python/regions.h"
#include "python/stablehlo.h"
#include "python/stopped.h"
#include "python/tensor.h"
#include "python/tree.h"

namespace py = pybind11;

namespace lamina::python {
namespace {

using lazy::Lazy;

// Tensor objects that count as the innermost open transform's own until the loan ends.
class Loan {
 public:
  explicit Loan(const py::list& tensors) : tensors_(tensors) {
    for (const py::handle& x : tensors) {
      auto* t = reinterpret_cast<TensorObject*>(x.ptr());
      were_.push_back({t->cell.get(), t->made_in, t->written});
      t->made_in = lazy::innermost_stamp();
      t->written = false;
    }
  }
  std::vector<size_t> written() const {
    std::vector<size_t> out;
    for (size_t i = 0; i < were_.size(); ++i)
      if (object(i)->written) out.push_back(i);
    return out;
  }
  void end() {
    for (size_t i = 0; i < were_.size(); ++i) {
      TensorObject* t = object(i);
      if (t->written) t->cell.set(were_[i].value);
      t->made_in = were_[i].made_in;
      t->written = were_[i].written;
    }
    were_.clear();
  }

 private:
  struct Was {
    Lazy value;
    uint32_t made_in;
    bool written;
  };
  TensorObject* object(size_t i) const {
    return reinterpret_cast<TensorObject*>(PyList_GET_ITEM(tensors_.ptr(), static_cast<Py_ssize_t>(i)));
  }
  py::list tensors_;
  std::vector<Was> were_;
};

// Whether both are known numbers with the same bits.
bool same_number(const hlo::Node* a, const hlo::Node* b) {
  if (!a->data() || !b->data() || a->type() != b->type() || !a->type()->is_array() || a->type()->rank() != 0)
    return false;
  const auto bytes = [](const hlo::Node* n) {
    return lazy::host_bytes(*lazy::array(hlo::Value(const_cast<hlo::Node*>(n))));
  };
  return std::memcmp(bytes(a), bytes(b), static_cast<size_t>(a->type()->bytes())) == 0;
}

// Whether two values are one, or made alike, by operations that give equal results, of the same values and of
// equal numbers.
bool same_expression(hlo::Operand a, hlo::Operand b) {
  constexpr size_t kMost = 256;  // pairs of nodes that are looked at
  std::vector<std::pair<hlo::Operand, hlo::Operand>> open{{a, b}};
  for (size_t i = 0; i < open.size(); ++i) {
    const auto [x, y] = open[i];
    if (x == y || (x.index() == y.index() && same_number(x.node(), y.node()))) continue;
    const hlo::Node *m = x.node(), *n = y.node();
    const bool alike = x.index() == y.index() && m->op() == n->op() && m->type() == n->type() &&
                       &m->attrs() == &n->attrs() && m->operands().size() == n->operands().size();
    const bool repeats = m->op() == hlo::Op::identity || !(m->def().flags & hlo::kNoDedup);
    if (!alike || !repeats || m->operands().empty() || open.size() > kMost) return false;
    for (size_t k = 0; k < m->operands().size(); ++k) open.emplace_back(m->operand(k), n->operand(k));
  }
  return true;
}

std::vector<Lazy> promoted(std::span<PyObject* const> objects) {
  std::vector<Lazy> out(objects.size());
  std::vector<const Lazy*> arrays(objects.size());
  if (promoted_operands(objects, out, arrays)) {
    for (size_t i = 0; i < out.size(); ++i)
      if (arrays[i] != &out[i]) out[i] = *arrays[i];
    return out;
  }
  if (PyErr_Occurred()) throw py::error_already_set();
  throw py::type_error("a Tensor, number or array is needed");
}

py::dict entry_dict(const jit::EntryInfo& e) {
  py::dict d;
  d["id"] = e.id;
  d["kind"] = e.kind;
  d["name"] = e.name;
  d["where"] = e.where;
  d["device"] = e.device;
  d["arguments"] = e.arguments;
  d["reason"] = e.reason;
  d["nearest"] = e.nearest;
  d["nodes"] = e.nodes;
  d["steps"] = e.steps;
  d["bytes"] = e.bytes;
  d["peak_bytes"] = e.peak_bytes;
  d["runs"] = e.runs;
  d["compile_ms"] = e.compile_ms;
  d["run_ms"] = e.run_ms;
  return d;
}

void add_recording(py::module_& m) {
  m.def(
      "op",
      [](const std::string& name, const py::sequence& operands, const py::kwargs& kwargs) {
        UserLocation location;
        const hlo::OpDef& def = op_of(name);
        return to_list(lazy::record(def.op, from_sequence(operands), attrs_of(def, kwargs)));
      },
      "Records one op with exactly matching operand types; returns its results as a list.");
  m.def(
      "elementwise",
      [](const std::string& name, const py::args& operands, const py::kwargs& kwargs) {
        UserLocation location;
        const hlo::OpDef& def = op_of(name);
        // The condition of a select takes no part in promotion.
        const size_t apart = def.op == hlo::Op::select ? 1 : 0;
        std::vector<PyObject*> objects;
        for (const py::handle& o : operands) objects.push_back(o.ptr());
        std::vector<Lazy> values = promoted(std::span(objects).subspan(std::min(apart, objects.size())));
        if (apart) values.insert(values.begin(), from_sequence(py::make_tuple(operands[0]))[0]);
        return to_object(lazy::elementwise(def.op, values, attrs_of(def, kwargs)));
      },
      "Records an elementwise op with broadcasting and promotion.");
  m.def(
      "asarray",
      [](const py::object& x) -> py::object {
        UserLocation location;
        std::optional<Lazy> value = from_object(x.ptr());
        if (!value && PyErr_Occurred()) throw py::error_already_set();
        return value ? to_object(*std::move(value)) : py::none();
      },
      "A Tensor of a number or a buffer (copied); None for anything else.");
  m.def(
      "read_basic",
      [](const py::object& x, const py::object& key) -> py::object {
        UserLocation location;
        std::optional<Lazy> out = read_basic(lazy_of(x.ptr()), key.ptr());
        return out ? to_object(*std::move(out)) : py::none();
      },
      "x[key] where the key holds plain numbers, slices, None and ... only, all of them right; else None.");
  m.def(
      "write_basic",
      [](const py::object& x, const py::object& key, const py::object& value, const std::string& join) {
        UserLocation location;
        const std::optional<hlo::Op> op = join.empty() ? std::nullopt : std::optional(op_of(join).op);
        std::optional<Lazy> out = write_basic(lazy_of(x.ptr()), key.ptr(), value.ptr(), op);
        return out ? to_object(*std::move(out)) : py::none();
      },
      "x with the value in place of the elements at such a key, or joined to them by an elementwise op; None "
      "where "
      "the key or the value has to be looked at.");
  m.def(
      "take_ranges",
      [](const py::object& x, const std::vector<std::tuple<int64_t, int64_t, int64_t>>& ranges) {
        UserLocation location;
        std::vector<lazy::Range> taken;
        for (const auto& [start, step, size] : ranges) taken.push_back({start, step, size});
        return to_object(take_ranges(lazy_of(x.ptr()), taken));
      },
      "The elements at (start, step, length) along each dimension, all inside of it.");
  m.def(
      "with_dtype_bits",
      [](const py::buffer& bytes, const std::string& dtype, const hlo::Dims& shape) {
        const py::buffer_info info = bytes.request();
        const hlo::Type* type = type_of(dtype, shape);
        if (info.size * info.itemsize != type->bytes())
          throw py::value_error("the buffer has another size than the type");
        return to_object({lazy::from_host(type->dtype, type->dims, info.ptr), false});
      },
      "A Tensor of the given type from a dense buffer of its bytes.");
  m.def(
      "copy", [](const py::object& x) { return to_object(lazy::owned(lazy_of(x.ptr()))); },
      "A Tensor of its own with the same value.");
  m.def("set_weak", [](const py::object& x, bool weak) {
    Lazy out = lazy_of(x.ptr());
    return to_object(weak ? Lazy{out.value, true, out.wide} : Lazy{out.value, false});
  });
  m.def(
      "recast",
      [](const py::object& x, const std::string& dtype) {
        UserLocation location;
        hlo::Builder b;
        Lazy out = lazy::recast(b, lazy_of(x.ptr()), dtype_of(dtype));
        lazy::check(b.status());
        return to_object(std::move(out));
      },
      "A Tensor with another element type, as weak as it was, its bits kept.");
  m.def(
      "number",
      [](const py::object& x, const std::string& dtype) {
        UserLocation location;
        const py::object number = plain_number(x.ptr());
        if (!number) throw py::type_error("a number is needed");
        const std::optional<hlo::Value> value = number_value(number.ptr(), dtype_of(dtype));
        if (!value) throw py::error_already_set();
        return to_object({*value, false});
      },
      "A number as a 0-d Tensor of an element type, rounded once. OverflowError for an integer type it does "
      "not "
      "fit, TypeError for a complex number of a real type.");
  m.def(
      "is_number", [](const py::object& x) { return is_plain_number(x.ptr()); },
      "Whether it is a number whose element type is not decided: Python's, or a NumPy scalar.");
  m.def(
      "promoted",
      [](const py::args& operands) {
        UserLocation location;
        std::vector<PyObject*> objects;
        for (const py::handle& o : operands) objects.push_back(o.ptr());
        std::vector<Lazy> values = promoted(objects);
        hlo::Builder b;
        lazy::promote_operands(b, values);
        lazy::check(b.status());
        return to_list(std::move(values));
      },
      "Tensors, numbers and arrays as Tensors of their common element type; numbers are rounded once, to "
      "it.");
  m.def("wide_type", [](const std::string& dtype) {
    return std::string(hlo::info(lazy::wide_type(dtype_of(dtype))).numpy_name);
  });
  m.def("inexact_type", [](const std::string& dtype) {
    return std::string(hlo::info(lazy::inexact_type(dtype_of(dtype))).numpy_name);
  });
  m.def("sum_type", [](const std::string& dtype, int64_t count) {
    return std::string(hlo::info(lazy::sum_type(dtype_of(dtype), count)).numpy_name);
  });
  m.def("default_types", [] {
    const lazy::DefaultTypes& t = lazy::default_types();
    return py::make_tuple(std::string(hlo::info(t.floating).numpy_name),
                          std::string(hlo::info(t.integer).numpy_name),
                          std::string(hlo::info(t.complex()).numpy_name));
  });
  m.def(
      "set_default_types",
      [](const std::string& floating, const std::string& integer, std::optional<bool> wide,
         std::optional<bool> for_integers) {
        lazy::DefaultTypes& t = lazy::default_types();
        t = {dtype_of(floating), dtype_of(integer), wide.value_or(t.wide),
             for_integers.value_or(t.for_integers)};
      },
      py::arg("floating"), py::arg("integer"), py::arg("wide") = py::none(),
      py::arg("for_integers") = py::none(),
      "What numbers and creation functions give on this thread from now on. Without `wide` numbers are "
      "rounded at once; without `for_integers` functions make float32 of narrow integers. None: as it is.");
  m.def(
      "rebind",
      [](const py::object& target, const py::object& value) {
        auto* t = reinterpret_cast<TensorObject*>(target.ptr());
        t->cell.set(lazy_of(value.ptr()));
        t->written = true;
      },
      "Gives a Tensor object a new value, seen by all its holders.");
  m.def(
      "written", [](const py::object& x) { return reinterpret_cast<TensorObject*>(x.ptr())->written; },
      "Whether the Tensor object was given a new value.");
  m.def(
      "made_outside",
      [](const py::object& x) {
        return reinterpret_cast<TensorObject*>(x.ptr())->made_in < lazy::innermost_stamp();
      },
      "Whether the Tensor object is older than the innermost open transform.");
  m.def(
      "made_in", [](const py::object& x) { return reinterpret_cast<TensorObject*>(x.ptr())->made_in; },
      "The stamp of the innermost transform that was open when the Tensor object was made.");
  py::class_<Loan>(m, "Loan")
      .def(py::init<const py::list&>())
      .def("written", &Loan::written, "The numbers of those that were given another value.")
      .def("end", &Loan::end, "Gives them back as they were.");
  py::class_<WatchedReads>(m, "WatchedReads", "Which of these Tensors are read on this thread until the end.")
      .def(py::init<const py::list&>())
      .def("read", &WatchedReads::read)
      .def("end", &WatchedReads::end);
  m.def("views_living", [](const py::object& x) { return views_living(x.ptr()); });
  m.def(
      "differentiated", [](const py::object& x) { return lazy::differentiated(lazy_of(x.ptr()).value); },
      "Whether an open derivative depends on the value.");
  m.def(
      "value_of",
      [](const py::object& x) {
        UserLocation location;
        const Lazy& l = lazy_of(x.ptr());
        const jit::ArrayPtr array = lazy::array(l.value);
        return to_object({hlo::make_leaf(l.value.type(), new jit::Array(l.value.type(), array->buffer()),
                                         l.value.node()->place()),
                          l.weak});
      },
      "The value now, as a Tensor that no derivative depends on.");
  m.def("open_stamp", [] { return lazy::lowest_open_stamp(); });
  m.def(
      "made_in_ended",
      [](const py::object& x) {
        const uint32_t stamp = reinterpret_cast<TensorObject*>(x.ptr())->made_in;
        if (stamp == 0 || stamp >= lazy::suspended_from()) return false;
        const std::vector<lazy::Scope>& open = lazy::open_scopes();
        return std::none_of(open.begin(), open.end(), [&](const lazy::Scope& s) { return s.stamp == stamp; });
      },
      "Whether the Tensor object was made inside a transform that has ended.");
  m.def("innermost_stamp", &lazy::innermost_stamp);
  m.def("inside_jit", &lazy::inside_jit);
  m.def(
      "open_traces",
      [] {
        std::vector<std::pair<uint32_t, bool>> traces;
        for (const lazy::Scope& scope : lazy::open_scopes())
          if (scope.kind != lazy::Scope::kDerivative)
            traces.emplace_back(scope.stamp, scope.kind == lazy::Scope::kVmap);
        return traces;
      },
      "(stamp, whether it is a vmap) of the open transforms with unknown arguments, outermost first.");
  m.def("forceable", [](const py::object& x) { return lazy::forceable(lazy_of(x.ptr()).value); });
  m.def("is_computed", [](const py::object& x) { return lazy_of(x.ptr()).value.node()->data() != nullptr; });
  m.def("where_made", [](const py::object& x) {
    const hlo::Location at = hlo::location(lazy_of(x.ptr()).value.node()->location());
    return py::make_tuple(at.file, at.line, at.function);
  });
  // The elements' bits as a read-only NumPy array of unsigned integers that shares their memory.
  m.def("raw_bits", [](const py::object& x) {
    const hlo::Value value = lazy_of(x.ptr()).value;
    if (!may_leave(x.ptr())) throw py::error_already_set();
    auto keep = std::make_unique<jit::ArrayPtr>(lazy::array(value));
    const std::byte* const data = lazy::host_bytes(*(*keep));
    const py::capsule owner(keep.release(), [](void* p) { delete static_cast<jit::ArrayPtr*>(p); });
    const hlo::Dims& dims = value.dims();
    py::array out(py::dtype(str_cat("u", hlo::byte_size(value.dtype()))),
                  std::vector<py::ssize_t>(dims.begin(), dims.end()), data, owner);
    out.attr("setflags")(py::arg("write") = false);
    return out;
  });
  m.def(
      "integer_range",
      [](const py::object& x) {
        UserLocation location;
        return integer_range(lazy_of(x.ptr()));
      },
      "The least and the greatest element of an integer Tensor that has elements; computes it.");
  m.def(
      "true_places",
      [](const py::object& x) {
        UserLocation location;
        return to_object(true_places(lazy_of(x.ptr())));
      },
      "Where a bool Tensor is true, as places in row-major order, int32 (int64 of a very large one); "
      "computes it.");
  m.def("promote", [](const std::string& a, bool weak_a, const std::string& b, bool weak_b) {
    const lazy::PromotedType t = lazy::promote(dtype_of(a), weak_a, dtype_of(b), weak_b);
    return py::make_tuple(std::string(hlo::info(t.dtype).numpy_name), t.weak);
  });
  // Name to (kind, bytes, bits, (exponent bits, mantissa bits, bias, specials) or None).
  py::dict types;
  for (const hlo::DTypeInfo& t : hlo::kDTypeInfo) {
    static constexpr const char* kKinds[] = {"b", "i", "u", "f", "c"};
    static constexpr const char* kSpecials[] = {"ieee", "nan", "nan_minus_zero", "none", "scale"};
    const hlo::FloatFormat& f = t.format;
    const py::object format = t.kind == hlo::DTypeKind::kFloat
                                  ? py::object(py::make_tuple(f.exponent, f.mantissa, f.bias,
                                                              kSpecials[static_cast<int>(f.specials)]))
                                  : py::object(py::none());
    types[py::str(std::string(t.numpy_name))] =
        py::make_tuple(kKinds[static_cast<int>(t.kind)], t.bytes, t.bits, format);
  }
  m.attr("element_types") = types;
  m.def("op_names", [] {
    py::list out;
    for (int i = 0; i < hlo::num_ops(); ++i)
      out.append(std::string(hlo::op_def(static_cast<hlo::Op>(i)).name));
    return out;
  });
}

void add_transforms(py::module_& m) {
  m.def("jvp", [](const py::function& f, const py::sequence& primals, const py::sequence& tangents) {
    lazy::JvpResult r = lazy::jvp(flat(f), from_sequence(primals), from_sequence(tangents));
    return py::make_tuple(to_list(std::move(r.outputs)), to_list(std::move(r.tangents)));
  });
  m.def(
      "vjp",
      [](const py::function& f, const py::sequence& primals, const std::string& linear) {
        lazy::VjpResult r = lazy::vjp(flat(f), from_sequence(primals), linear);
        auto callable = [](auto linear) {
          return py::cpp_function([linear = std::move(linear)](const py::sequence& given) {
            UserLocation location;
            return to_list(linear(from_sequence(given)));
          });
        };
        return py::make_tuple(to_list(std::move(r.outputs)), callable(std::move(r.pull_back)),
                              callable(std::move(r.push_forward)));
      },
      py::arg("f"), py::arg("primals"), py::arg("linear") = "");
  m.def(
      "value_and_grad",
      [](const py::function& f, const py::sequence& primals) {
        lazy::ValueAndGradients r =
            lazy::value_and_gradients(flat(f), from_sequence(primals), [] { return user_location(); });
        return py::make_tuple(to_list(std::move(r.outputs)), to_list(std::move(r.gradients)));
      },
      "What the function gives, and the gradients of the first of it.");
  m.def(
      "vmap",
      [](const py::function& f, const py::sequence& args, const std::vector<bool>& batched, int64_t size,
         std::string axis_name, uint8_t strategy) {
        std::vector<bool> lanes_differ;
        py::list results =
            to_list(lazy::vmap(flat(f), from_sequence(args), batched, size, &lanes_differ,
                               std::move(axis_name), static_cast<trace::LaneStrategy>(strategy)));
        return py::make_tuple(std::move(results), lanes_differ);
      },
      py::arg(), py::arg(), py::arg(), py::arg(), py::arg(), py::arg("strategy") = 0);
  py::class_<lazy::Program, std::shared_ptr<lazy::Program>>(m, "Program")
      .def(py::init(
          [](const py::function& f, const std::vector<TypeSpec>& specs, std::string name, std::string where) {
            return std::make_shared<lazy::Program>(flat(f), typed(specs), std::move(name), std::move(where));
          }))
      .def("__call__",
           [](lazy::Program& p, const py::sequence& args) {
             UserLocation location;
             return to_list(p.call(from_sequence(args)));
           })
      .def("__call__",
           [](lazy::Program& p, const py::sequence& args, const py::tuple& hidden) {
             UserLocation location;
             return to_list(p.call(from_sequence(args), hidden_values(hidden)));
           })
      .def(
          "call_giving_up",
          [](lazy::Program& p, const py::sequence& args, const py::tuple& hidden, const py::tuple& given_up) {
            UserLocation location;
            std::vector<lazy::Cell*> cells(py::len(args));
            for (const py::handle& i : given_up) {
              const py::object x = args[i.cast<size_t>()];
              if (is_tensor(x.ptr()))
                cells.at(i.cast<size_t>()) = &reinterpret_cast<TensorObject*>(x.ptr())->cell;
            }
            return to_list(p.call_giving_up(from_sequence(args), hidden_values(hidden), cells));
          },
          "Calls it; the arguments with the numbers `given_up` are gone afterwards, their memory is used for "
          "results.")
      .def(
          "bind_hidden",
          [](lazy::Program& p, const py::sequence& tensors) {
            const std::vector<bool> found = p.bind_hidden(hidden_values(tensors));
            std::vector<bool> out;
            for (size_t i = 0; i < found.size(); i += 2) out.push_back(found[i] || found[i + 1]);
            return out;
          },
          "Marks captured Tensors that calls give anew; whether each was captured.")
      .def("set_reason", &lazy::Program::set_reason)
      .def("text",
           [](const lazy::Program& p, const std::string& preset, const std::string& name) {
             const std::optional<hlo::TextOptions> options = hlo::parse_preset(preset);
             if (!options)
               throw py::value_error("the text form is full, canonical or short, not '" + preset + "'");
             return hlo::print(*p.computation(), *options, name);
           })
      .def_property_readonly("num_captured", &lazy::Program::num_captured)
      .def_property_readonly(
          "result_types",
          [](const lazy::Program& p) {
            py::list out;
            for (const lazy::Typed& t : p.results())
              out.append(
                  py::make_tuple(std::string(hlo::info(t.type->dtype).numpy_name), t.type->dims, t.weak));
            return out;
          },
          "(element type, shape, whether weak) of each result.")
      .def(
          "device_for",
          [](const lazy::Program& p, const py::sequence& tensors) {
            std::vector<hlo::Value> arguments;
            for (const lazy::Lazy& x : from_sequence(tensors)) arguments.push_back(x.value);
            return p.device_for(arguments).name();
          },
          "The name of the device where a call with these Tensors runs.")
      .def(
          "compile",
          [](lazy::Program& p, const std::string& device) {
            return p.compile(*lazy::check(jit::find_device(device)))->info.id;
          },
          "Compiles now for a device; returns the id of its cache entry.");
  m.def(
      "close_program",
      [](const py::sequence& outputs, const py::sequence& inputs, uint32_t stamp, std::string name,
         std::string where, std::string reason) {
        return lazy::Program::closed(from_sequence(outputs), from_sequence(inputs), stamp, std::move(name),
                                     std::move(where), std::move(reason));
      },
      "The program between arguments of the jit scope with this stamp and values made of them; None if they "
      "depend on a "
      "transform opened inside it.");
  m.def("scope_depth", [] { return lazy::open_scopes().size(); });
  m.def("recording_mode", recording_mode, "What a trace depends on besides its arguments, as a key.");
  m.def("numerics", [] { return static_cast<int>(hlo::record_state().mode); });
  m.def(
      "set_numerics", [](int mode) { hlo::record_state().mode = static_cast<uint8_t>(mode); },
      "How values recorded on this thread from now on are computed: a Numerics by its number.");
  m.def("record_floor", [] { return hlo::record_state().floor; });
  m.def(
      "outside_scopes",
      [](size_t depth, uint32_t floor, const py::function& f) {
        lazy::ScopesSuspended suspended(depth, floor);
        return f();
      },
      "Calls f as if only the outermost `depth` transforms were open.");
  m.def("depends_on", [](const py::object& x, const py::sequence& inputs) {
    HashSet<const hlo::Node*> beneath;
    for (const hlo::Node* n : hlo::postorder(std::span(&lazy_of(x.ptr()).value, 1))) beneath.insert(n);
    std::vector<bool> out;
    for (const Lazy& i : from_sequence(inputs))
      out.push_back(beneath.contains((i.wide ? i.wide : i.value).node()));
    return out;
  });
  m.def(
      "same_value",
      [](const py::object& a, const py::object& b) {
        return same_expression(lazy_of(a.ptr()).value.operand(), lazy_of(b.ptr()).value.operand());
      },
      "Whether two Tensors are one value, or made alike of the same values and of equal numbers.");
  m.def(
      "give_up",
      [](const py::object& x) {
        UserLocation location;
        const Lazy was = lazy_of(x.ptr());
        reinterpret_cast<TensorObject*>(x.ptr())->cell.set({hlo::make_donated(was.value.type()), was.weak});
      },
      "Lets go of a Tensor's value: its memory is free once nobody else holds it, and reading it is an "
      "error.");
  m.def("why_unknown", [](const py::object& x) { return lazy::why_unknown(lazy_of(x.ptr()).value); });
}

void add_inspection(py::module_& m) {
  m.def(
      "cache_stats",
      [] {
        const jit::CacheStats s = jit::Engine::get().cache().stats();
        const jit::KernelStats k = jit::kernel_stats();
        const lazy::SyncStats y = lazy::sync_stats();
        const jit::MemoryStats a = lazy::default_device().memory().stats();
        py::dict d;
        d["entries"] = s.entries;
        d["hits"] = s.hits;
        d["misses"] = s.misses;
        d["evictions"] = s.evictions;
        d["entry_bytes"] = s.bytes;
        d["compile_ms"] = s.compile_ms;
        d["kernels"] = k.kernels;
        d["kernel_compiles"] = k.compiles;
        d["kernel_loads"] = k.loads;
        d["kernels_adopted"] = k.adopted;
        d["kernel_compile_ms"] = k.compile_ms;
        d["kernels_pending"] = k.pending;
        d["code_bytes"] = k.code_bytes;
        d["kernel_bytes"] = k.bytes;
        d["interpreted_runs"] = k.interpreted_runs;
        d["compiled_runs"] = k.compiled_runs;
        d["switched_runs"] = k.switched_runs;
        d["graphs"] = k.graphs;
        d["graph_runs"] = k.graph_runs;
        d["graphs_refused"] = k.graphs_refused;
        d["flushes"] = y.flushes;
        d["automatic_flushes"] = y.automatic_flushes;
        d["recorded"] = y.recorded;
        d["live_bytes"] = a.live_bytes;
        d["peak_bytes"] = a.peak_bytes;
        d["direct_calls"] = direct_calls();
        d["ready_calls"] = ready_calls();
        d["replayed_calls"] = replayed_calls();
        d["live_nodes"] = hlo::live_nodes();
        d["live_attributes"] = hlo::live_counted_attrs();
        return d;
      },
      "Counters of the specialization cache, kernels (of the host, and of CUDA devices), syncs and memory.");
  m.def("cache_entries", [] {
    py::list out;
    for (const jit::EntryInfo& e : jit::Engine::get().cache().entries()) out.append(entry_dict(e));
    return out;
  });
  py::list stages;
  for (const std::string_view stage : jit::listing_stages())
    stages.append(py::str(stage.data(), stage.size()));
  m.attr("LISTING_STAGES") = py::tuple(stages);
  m.def(
      "cache_listing",
      [](int64_t id, const std::string& stage) {
        const jit::SpecializationPtr e = jit::Engine::get().cache().find(id);
        if (!e) throw py::key_error("there is no cache entry " + std::to_string(id));
        const absl::StatusOr<std::string> text = jit::listing(*e->executable, stage);
        lazy::check(text.status());
        return *text;
      },
      "A stage of an entry's executable as text (jit/program/listing.h).");
  m.def("cache_dot", [](int64_t id) {
    const jit::SpecializationPtr e = jit::Engine::get().cache().find(id);
    if (!e) throw py::key_error("there is no cache entry " + std::to_string(id));
    return cluster::to_dot(e->executable->program(), e->executable->fusion());
  });
  m.def("disk_cache", [] {
    jit::KernelStore& kernels = jit::CpuClient::get().kernels();
    const std::string unusable = kernels.disk_unusable();
    const jit::DiskCache::Contents found = kernels.disk().contents();
    py::dict d;
    d["directory"] = kernels.disk().directory();
    d["unusable"] = unusable;
    d["objects"] = found.objects;
    d["bytes"] = found.bytes;
    return d;
  });
  m.def("clear_disk_cache", [] {
    const jit::DiskCache::Contents removed = jit::CpuClient::get().kernels().clear_disk();
    return py::make_tuple(removed.objects, removed.bytes);
  });
  m.def("cache_clear", [] { cache::clear(); });
  m.def(
      "set_cache_limits",
      [](size_t entries, int64_t entry_bytes, size_t kernels, size_t kernel_bytes) {
        jit::Engine::get().cache().set_limits(entries, entry_bytes);
        jit::CpuClient::get().kernels().set_limits(kernels, kernel_bytes);
      },
      py::arg("entries") = jit::SpecializationCache::kMaxEntries,
      py::arg("entry_bytes") = jit::SpecializationCache::kMaxBytes,
      py::arg("kernels") = jit::KernelStore::kMaxKernels,
      py::arg("kernel_bytes") = jit::KernelStore::kMaxBytes,
      "How many entries of the specialization cache and kernels are kept; tests make them few.");
  m.def(
      "code_generator_missing", [] { return jit::CpuClient::get().kernels().unavailable(); },
      "Why kernels are interpreted only; empty if they can be compiled.");
  m.def("kernels_settled", [] { return jit::CpuClient::get().kernels().is_settled(); });
  m.def("set_compiling", [](bool on) { jit::CpuClient::get().kernels().set_compiling(on); });
  m.def("set_eager_compile", [](bool on) { jit::CpuClient::get().kernels().set_eager(on); });
  m.def(
      "reset_peak_bytes", [] { lazy::default_device().memory().reset_peak(); },
      "Lets peak_bytes of the counters begin at what is alive now.");
  m.def("set_memory_limit", [](int64_t bytes) { lazy::default_device().memory().set_limit(bytes); });
  m.def("available_threads", [] { return jit::default_threads(); });
  py::class_<jit::ScopedThreadLimit>(m, "ThreadLimit").def(py::init<int>());
}

// The thread that Python runs signal handlers on.
unsigned long main_thread = 0;

void* leave_interpreter() { return PyGILState_Check() ? PyEval_SaveThread() : nullptr; }
void enter_interpreter(void* state) { PyEval_RestoreThread(static_cast<PyThreadState*>(state)); }
bool can_poll_signals() { return PyThread_get_thread_ident() == main_thread; }
// The exception of a handler stays set on this thread until the stopped run has unwound.
bool poll_signals() {
  if (!can_poll_signals()) return false;
  const PyGILState_STATE state = PyGILState_Ensure();
  const bool stop = PyErr_CheckSignals() != 0;
  PyGILState_Release(state);
  return stop;
}

// Where a fork leaves a thread alone with the interpreter, it is the main thread.
void after_fork_in_child() { main_thread = PyThread_get_thread_ident(); }

void install_host_lock() {
  static const hlo::HostLock lock{leave_interpreter, enter_interpreter, can_poll_signals, poll_signals};
  main_thread = py::module_::import("threading").attr("main_thread")().attr("ident").cast<unsigned long>();
  hlo::set_host_lock(&lock);
  py::module_::import("os").attr("register_at_fork")(py::arg("after_in_child") =
                                                         py::cpp_function(after_fork_in_child));
}

}  // namespace
}  // namespace lamina::python

PYBIND11_MODULE(_core, m) {
  m.doc() = "The compiled part of lamina.";
  py::register_exception_translator([](std::exception_ptr p) {
    if (!p) return;
    try {
      std::rethrow_exception(p);
    } catch (const lamina::Error&) {
      lamina::python::set_python_error();
    } catch (const py::cast_error&) {
      PyErr_SetString(PyExc_TypeError,
                      "an attribute of the operation has a value of another type than it takes");
    }
  });
  lamina::lazy::check(lamina::hlo::isa_limit());
  lamina::python::add_tensor_type(m);
  lamina::python::add_stopped(m);
  lamina::python::add_elementwise_function(m);
  lamina::python::add_recording(m);
  lamina::python::add_transforms(m);
  lamina::python::add_regions(m);
  lamina::python::add_control(m);
  lamina::python::add_custom(m);
  lamina::python::add_implicit(m);
  lamina::python::add_effects(m);
  lamina::python::add_equations(m);
  lamina::python::add_dlpack(m);
  lamina::python::add_reads(m);
  lamina::python::add_tree(m);
  lamina::python::add_jitted(m);
  lamina::python::add_inspection(m);
  lamina::python::add_devices(m);
  lamina::python::add_stablehlo(m);
  lamina::python::add_plans(m);
  lamina::python::add_profile(m);
  lamina::python::add_doctor(m);
  lamina::python::add_linalg(m);
  lamina::python::install_host_lock();
}
