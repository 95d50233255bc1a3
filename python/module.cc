// lamina._core: the binding off the hot path.
#include <pybind11/functional.h>
#include <pybind11/numpy.h>
#include <pybind11/pybind11.h>
#include <pybind11/stl.h>

#include "absl/container/flat_hash_set.h"
#include "hlo/custom_call.h"
#include "hlo/host_lock.h"
#include "hlo/isa.h"
#include "hlo/location.h"
#include "hlo/op.h"
#include "hlo/printer.h"
#include "hlo/strings.h"
#include "jit/engine.h"
#include "lazy/escape.h"
#include "lazy/lazy.h"
#include "lazy/scopes.h"
#include "lazy/transforms.h"
#include "python/custom.h"
#include "python/dlpack.h"
#include "python/elementwise.h"
#include "python/linalg.h"
#include "python/stablehlo.h"
#include "python/tensor.h"
#include "python/tree.h"

namespace py = pybind11;

namespace lamina::python {
namespace {

using hlo::Attr;
using hlo::AttrKind;
using hlo::Attrs;
using hlo::DType;
using lazy::Lazy;

// A region with the values it captured.
struct Region {
  hlo::ComputationPtr computation;
  std::vector<Lazy> captured;
  std::vector<bool> result_weak;
};

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

DType dtype_of(const std::string& name) {
  const std::optional<DType> dtype = hlo::parse_dtype(name);
  if (!dtype) throw py::type_error("'" + name + "' is not an element type that lamina knows");
  return *dtype;
}

const hlo::Type* type_of(const std::string& dtype, const hlo::Dims& shape) {
  return lazy::check(hlo::array_type(dtype_of(dtype), shape));
}

hlo::AttrValue attr_value(Attr attr, const py::handle& value) {
  switch (hlo::attr_kind(attr)) {
    case AttrKind::kInt:
      return value.cast<int64_t>();
    case AttrKind::kBool:
      return value.cast<bool>();
    case AttrKind::kInts:
      return value.cast<hlo::Dims>();
    case AttrKind::kString:
      return value.cast<std::string>();
    case AttrKind::kDType:
      return dtype_of(value.cast<std::string>());
    case AttrKind::kComputation:
      return value.cast<const Region&>().computation;
    case AttrKind::kComputations: {
      std::vector<hlo::ComputationPtr> out;
      for (const py::handle& r : value.cast<py::sequence>())
        out.push_back(r.cast<const Region&>().computation);
      return out;
    }
    case AttrKind::kTypes: {
      std::vector<const hlo::Type*> out;
      for (const py::handle& t : value.cast<py::sequence>()) {
        const auto pair = t.cast<std::pair<std::string, hlo::Dims>>();
        out.push_back(type_of(pair.first, pair.second));
      }
      return out;
    }
    case AttrKind::kLiteral:
      break;
  }
  throw py::type_error("attribute " + std::string(hlo::attr_name(attr)) + " cannot be given from Python");
}

const Attrs* attrs_of(const hlo::OpDef& def, const py::kwargs& kwargs) {
  std::vector<Attrs::Entry> entries;
  for (const auto& [key, value] : kwargs) {
    const std::string name = py::str(key);
    const std::optional<Attr> attr = hlo::parse_attr(name);
    bool known = false;
    for (const hlo::AttrSpec& spec : def.attrs) known |= attr == spec.attr;
    if (!known) throw py::type_error(str_cat(def.name, " has no attribute '", name, "'"));
    entries.emplace_back(*attr, attr_value(*attr, value));
  }
  for (const hlo::AttrSpec& spec : def.attrs) {
    bool given = spec.optional;
    for (const auto& e : entries) given |= e.first == spec.attr;
    if (!given)
      throw py::type_error(str_cat(def.name, " needs the attribute '", hlo::attr_name(spec.attr), "'"));
  }
  return hlo::intern_attrs(std::move(entries));
}

const hlo::OpDef& op_of(const std::string& name) {
  const std::optional<hlo::Op> op = hlo::parse_op(name);
  if (!op) throw py::value_error("there is no op '" + name + "'");
  return hlo::op_def(*op);
}

std::vector<Lazy> promoted(std::span<PyObject* const> objects) {
  std::vector<Lazy> out(objects.size());
  if (promoted_operands(objects, absl::MakeSpan(out))) return out;
  if (PyErr_Occurred()) throw py::error_already_set();
  throw py::type_error("a Tensor, number or array is needed");
}

py::dict entry_dict(const jit::EntryInfo& e) {
  py::dict d;
  d["id"] = e.id;
  d["kind"] = e.kind;
  d["name"] = e.name;
  d["where"] = e.where;
  d["arguments"] = e.arguments;
  d["reason"] = e.reason;
  d["nearest"] = e.nearest;
  d["nodes"] = e.nodes;
  d["steps"] = e.steps;
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
      "with_dtype_bits",
      [](const py::buffer& bytes, const std::string& dtype, const hlo::Dims& shape) {
        const py::buffer_info info = bytes.request();
        const hlo::Type* type = type_of(dtype, shape);
        if (info.size * info.itemsize != type->bytes())
          throw py::value_error("the buffer has another size than the type");
        return to_object({lazy::from_host(type->dtype, type->dims, info.ptr), false});
      },
      "A Tensor of the given type from a dense buffer of its bytes.");
  m.def("set_weak", [](const py::object& x, bool weak) { return to_object({lazy_of(x.ptr()).value, weak}); });
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
  py::class_<Loan>(m, "Loan")
      .def(py::init<const py::list&>())
      .def("written", &Loan::written, "The numbers of those that were given another value.")
      .def("end", &Loan::end, "Gives them back as they were.");
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
        return to_object(
            {hlo::make_leaf(l.value.type(), new jit::Array(l.value.type(), array->buffer())), l.weak});
      },
      "The value now, as a Tensor that no derivative depends on.");
  m.def("open_stamp", [] { return lazy::lowest_open_stamp(); });
  m.def("innermost_stamp", &lazy::innermost_stamp);
  m.def("inside_jit", &lazy::inside_jit);
  m.def("forceable", [](const py::object& x) { return lazy::forceable(lazy_of(x.ptr()).value); });
  m.def("is_computed", [](const py::object& x) { return lazy_of(x.ptr()).value.node()->data() != nullptr; });
  m.def("where_made", [](const py::object& x) {
    const hlo::Location at = hlo::location(lazy_of(x.ptr()).value.node()->location());
    return py::make_tuple(at.file, at.line, at.function);
  });
  m.def("force", [](const py::sequence& tensors) {
    UserLocation location;
    std::vector<hlo::Value> values;
    for (const Lazy& l : from_sequence(tensors)) values.push_back(l.value);
    lazy::force(values);
  });
  // The elements' bits as a read-only NumPy array of unsigned integers that shares their memory.
  m.def("raw_bits", [](const py::object& x) {
    const hlo::Value value = lazy_of(x.ptr()).value;
    if (!may_leave(x.ptr())) throw py::error_already_set();
    auto keep = std::make_unique<jit::ArrayPtr>(lazy::array(value));
    void* const data = (*keep)->data();
    const py::capsule owner(keep.release(), [](void* p) { delete static_cast<jit::ArrayPtr*>(p); });
    const hlo::Dims& dims = value.dims();
    py::array out(py::dtype(str_cat("u", hlo::byte_size(value.dtype()))),
                  std::vector<py::ssize_t>(dims.begin(), dims.end()), data, owner);
    out.attr("setflags")(py::arg("write") = false);
    return out;
  });
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

// The types of a tuple of Tensors and the numerics mode as a hashable key; None if it holds anything else.
PyObject* flat_key(PyObject*, PyObject* args) {
  const Py_ssize_t n = PyTuple_GET_SIZE(args);
  std::vector<uintptr_t> words(n);
  if (const uint8_t mode = hlo::record_state().mode) words.push_back(mode);
  for (Py_ssize_t i = 0; i < n; ++i) {
    PyObject* o = PyTuple_GET_ITEM(args, i);
    if (!is_tensor(o)) Py_RETURN_NONE;
    const Lazy& x = lazy_of(o);
    words[i] = reinterpret_cast<uintptr_t>(x.value.type()) | static_cast<uintptr_t>(x.weak);
  }
  return PyBytes_FromStringAndSize(reinterpret_cast<const char*>(words.data()),
                                   static_cast<Py_ssize_t>(words.size() * sizeof(uintptr_t)));
}
// Whether names still name the same objects: `reads` is a flat tuple of (dict or cell, name, object).
PyObject* reads_hold(PyObject*, PyObject* reads) {
  const Py_ssize_t n = PyTuple_GET_SIZE(reads);
  for (Py_ssize_t i = 0; i + 2 < n; i += 3) {
    PyObject* from = PyTuple_GET_ITEM(reads, i);
    PyObject* now =
        PyCell_Check(from) ? PyCell_GET(from) : PyDict_GetItemWithError(from, PyTuple_GET_ITEM(reads, i + 1));
    if (now == PyTuple_GET_ITEM(reads, i + 2)) continue;
    if (!now && PyErr_Occurred()) return nullptr;
    Py_RETURN_FALSE;
  }
  Py_RETURN_TRUE;
}
PyMethodDef reads_hold_method = {
    "reads_hold", reads_hold, METH_O,
    "Whether names still name the objects of a flat tuple (dict or cell, name, object)."};
PyMethodDef flat_key_method = {"flat_key", flat_key, METH_O,
                               "A key of the types of a tuple of Tensors; None if it holds anything else."};

void add_transforms(py::module_& m) {
  // On the hit path of jit, so without pybind11 in between.
  m.attr("flat_key") = py::reinterpret_steal<py::object>(PyCFunction_New(&flat_key_method, nullptr));
  m.attr("reads_hold") = py::reinterpret_steal<py::object>(PyCFunction_New(&reads_hold_method, nullptr));
  m.def("jvp", [](const py::function& f, const py::sequence& primals, const py::sequence& tangents) {
    lazy::JvpResult r = lazy::jvp(flat(f), from_sequence(primals), from_sequence(tangents));
    return py::make_tuple(to_list(std::move(r.outputs)), to_list(std::move(r.tangents)));
  });
  m.def("vjp", [](const py::function& f, const py::sequence& primals) {
    lazy::VjpResult r = lazy::vjp(flat(f), from_sequence(primals));
    auto callable = [](auto linear) {
      return py::cpp_function([linear = std::move(linear)](const py::sequence& given) {
        UserLocation location;
        return to_list(linear(from_sequence(given)));
      });
    };
    return py::make_tuple(to_list(std::move(r.outputs)), callable(std::move(r.pull_back)),
                          callable(std::move(r.push_forward)));
  });
  m.def("vmap",
        [](const py::function& f, const py::sequence& args, const std::vector<bool>& batched, int64_t size) {
          std::vector<bool> lanes_differ;
          py::list results = to_list(lazy::vmap(flat(f), from_sequence(args), batched, size, &lanes_differ));
          return py::make_tuple(std::move(results), lanes_differ);
        });
  m.def("checkpoint", [](const py::function& f, const py::sequence& args) {
    return to_list(lazy::checkpoint(flat(f), from_sequence(args)));
  });
  py::class_<Region>(m, "Region")
      .def_property_readonly("captured", [](const Region& r) { return to_list(r.captured); })
      .def_property_readonly("result_weak", [](const Region& r) { return r.result_weak; })
      .def_property_readonly("result_types", [](const Region& r) {
        py::list out;
        for (const hlo::Type* t : r.computation->result_types())
          out.append(py::make_tuple(std::string(hlo::info(t->dtype).numpy_name), t->dims));
        return out;
      });
  using TypeSpec = std::tuple<std::string, hlo::Dims, bool>;  // dtype, shape, weak
  auto split = [](const std::vector<TypeSpec>& specs, std::vector<const hlo::Type*>& types,
                  std::vector<bool>& weak) {
    for (const auto& [dtype, shape, w] : specs) {
      types.push_back(type_of(dtype, shape));
      weak.push_back(w);
    }
  };
  m.def("region", [split](const py::function& f, const std::vector<TypeSpec>& specs) {
    std::vector<const hlo::Type*> types;
    Region r;
    std::vector<bool> weak;
    split(specs, types, weak);
    r.computation = lazy::region(flat(f), types, weak, &r.captured, &r.result_weak);
    return r;
  });
  py::class_<lazy::Program, std::shared_ptr<lazy::Program>>(m, "Program")
      .def(py::init([split](const py::function& f, const std::vector<TypeSpec>& specs, std::string name,
                            std::string where) {
        std::vector<const hlo::Type*> types;
        std::vector<bool> weak;
        split(specs, types, weak);
        return std::make_shared<lazy::Program>(flat(f), types, weak, std::move(name), std::move(where));
      }))
      .def("__call__",
           [](lazy::Program& p, const py::sequence& args) {
             UserLocation location;
             return to_list(p.call(from_sequence(args)));
           })
      .def("__call__",
           [](lazy::Program& p, const py::sequence& args, const py::tuple& hidden) {
             UserLocation location;
             std::vector<hlo::Value> values;
             for (const py::handle& h : hidden) values.push_back(lazy_of(h.ptr()).value);
             return to_list(p.call(from_sequence(args), values));
           })
      .def(
          "call_giving_up",
          [](lazy::Program& p, const py::sequence& args, const py::tuple& hidden, const py::tuple& given_up) {
            UserLocation location;
            std::vector<hlo::Value> values;
            for (const py::handle& h : hidden) values.push_back(lazy_of(h.ptr()).value);
            std::vector<lazy::Cell*> cells(py::len(args));
            for (const py::handle& i : given_up) {
              const py::object x = args[i.cast<size_t>()];
              if (is_tensor(x.ptr()))
                cells.at(i.cast<size_t>()) = &reinterpret_cast<TensorObject*>(x.ptr())->cell;
            }
            return to_list(p.call_giving_up(from_sequence(args), values, cells));
          },
          "Calls it; the arguments with the numbers `given_up` are gone afterwards, their memory is used for "
          "results.")
      .def(
          "bind_hidden",
          [](lazy::Program& p, const py::sequence& tensors) {
            std::vector<hlo::Value> values;
            for (const py::handle& t : tensors) values.push_back(lazy_of(t.ptr()).value);
            return p.bind_hidden(values);
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
            for (const hlo::Type* t : p.computation()->result_types())
              out.append(py::make_tuple(std::string(hlo::info(t->dtype).numpy_name), t->dims));
            return out;
          })
      .def(
          "compile", [](lazy::Program& p) { return p.compile()->info.id; },
          "Compiles now; returns the id of its cache entry.");
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
    absl::flat_hash_set<const hlo::Node*> beneath;
    for (const hlo::Node* n : hlo::postorder(std::span(&lazy_of(x.ptr()).value, 1))) beneath.insert(n);
    std::vector<bool> out;
    for (const Lazy& i : from_sequence(inputs)) out.push_back(beneath.contains(i.value.node()));
    return out;
  });
  m.def("same_value", [](const py::object& a, const py::object& b) {
    return lazy_of(a.ptr()).value == lazy_of(b.ptr()).value;
  });
  m.def("why_unknown", [](const py::object& x) { return lazy::why_unknown(lazy_of(x.ptr()).value); });
  m.def("unregister_callback", [](const std::string& name) { hlo::unregister_custom_call(name); });
  m.def("register_callback", [](const py::function& f) {
    // The callback gets and returns lists of tensors; it runs on the thread that runs the program.
    auto* kept = new py::function(f);
    return hlo::register_anonymous_custom_call(
        [kept](std::span<const hlo::LiteralPtr> in, std::span<const std::shared_ptr<hlo::Literal>> out) {
          py::gil_scoped_acquire gil;
          py::list args;
          for (const hlo::LiteralPtr& l : in)
            args.append(to_object({lazy::from_host(l->dtype(), l->dims(), l->data()), false}));
          const std::vector<Lazy> results = from_sequence((*kept)(args).cast<py::sequence>());
          if (results.size() != out.size())
            return absl::InvalidArgumentError("the callback returned another number of arrays than declared");
          for (size_t i = 0; i < out.size(); ++i) {
            if (results[i].value.type() != out[i]->type())
              return absl::InvalidArgumentError(str_cat("the callback returned ",
                                                        hlo::to_string(*results[i].value.type()), " where ",
                                                        hlo::to_string(*out[i]->type()), " was declared"));
            const jit::ArrayPtr array = lazy::array(results[i].value);
            if (out[i]->bytes() > 0) std::memcpy(out[i]->data(), array->data(), out[i]->bytes());
          }
          return absl::OkStatus();
        });
  });
}

void add_inspection(py::module_& m) {
  m.def(
      "cache_stats",
      [] {
        const jit::CacheStats s = jit::Engine::get().cache().stats();
        const jit::KernelStats k = jit::Engine::get().kernels().stats();
        const lazy::SyncStats y = lazy::sync_stats();
        const jit::AllocatorStats a = jit::Engine::get().allocator().stats();
        py::dict d;
        d["entries"] = s.entries;
        d["hits"] = s.hits;
        d["misses"] = s.misses;
        d["evictions"] = s.evictions;
        d["compile_ms"] = s.compile_ms;
        d["kernels"] = k.kernels;
        d["kernel_compiles"] = k.compiles;
        d["kernel_loads"] = k.loads;
        d["kernel_compile_ms"] = k.compile_ms;
        d["code_bytes"] = k.code_bytes;
        d["interpreted_runs"] = k.interpreted_runs;
        d["compiled_runs"] = k.compiled_runs;
        d["flushes"] = y.flushes;
        d["automatic_flushes"] = y.automatic_flushes;
        d["recorded"] = y.recorded;
        d["live_bytes"] = a.live_bytes;
        d["peak_bytes"] = a.peak_bytes;
        d["live_nodes"] = hlo::live_nodes();
        return d;
      },
      "Counters of the specialization cache, kernels, syncs and memory.");
  m.def("cache_entries", [] {
    py::list out;
    for (const jit::EntryInfo& e : jit::Engine::get().cache().entries()) out.append(entry_dict(e));
    return out;
  });
  m.def(
      "cache_steps",
      [](int64_t id) {
        const jit::SpecializationPtr e = jit::Engine::get().cache().find(id);
        if (!e) throw py::key_error("there is no cache entry " + std::to_string(id));
        return e->executable->describe() + cluster::report(e->executable->program(), e->executable->plan());
      },
      "The steps of an entry's executable, its fusion groups and why others were not fused.");
  m.def("cache_dot", [](int64_t id) {
    const jit::SpecializationPtr e = jit::Engine::get().cache().find(id);
    if (!e) throw py::key_error("there is no cache entry " + std::to_string(id));
    return cluster::to_dot(e->executable->program(), e->executable->plan());
  });
  m.def("disk_cache", [] {
    jit::KernelStore& kernels = jit::Engine::get().kernels();
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
    const jit::DiskCache::Contents removed = jit::Engine::get().kernels().clear_disk();
    return py::make_tuple(removed.objects, removed.bytes);
  });
  m.def("cache_clear", [] { jit::Engine::get().cache().clear(); });
  m.def(
      "code_generator_missing", [] { return jit::Engine::get().kernels().unavailable(); },
      "Why kernels are interpreted only; empty if they can be compiled.");
  m.def("set_compiling", [](bool on) { jit::Engine::get().kernels().set_compiling(on); });
  m.def("set_eager_compile", [](bool on) { jit::Engine::get().kernels().set_eager(on); });
  m.def(
      "reset_peak_bytes", [] { jit::Engine::get().allocator().reset_peak(); },
      "Lets peak_bytes of the counters begin at what is alive now.");
  m.def("set_memory_limit", [](int64_t bytes) { jit::Engine::get().allocator().set_limit(bytes); });
  m.def("available_threads", [] { return jit::available_cpus(); });
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

void install_host_lock() {
  static const hlo::HostLock lock{leave_interpreter, enter_interpreter, can_poll_signals, poll_signals};
  main_thread = py::module_::import("threading").attr("main_thread")().attr("ident").cast<unsigned long>();
  hlo::set_host_lock(&lock);
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
    }
  });
  lamina::lazy::check(lamina::hlo::isa_limit());
  lamina::python::add_tensor_type(m);
  lamina::python::add_elementwise_function(m);
  lamina::python::add_recording(m);
  lamina::python::add_transforms(m);
  lamina::python::add_custom(m);
  lamina::python::add_dlpack(m);
  lamina::python::add_tree(m);
  lamina::python::add_inspection(m);
  lamina::python::add_stablehlo(m);
  lamina::python::add_linalg(m);
  lamina::python::install_host_lock();
}
