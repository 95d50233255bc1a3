#include "python/jitted.h"

#include <pybind11/stl.h>
#include <structmember.h>

#include <algorithm>
#include <functional>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "absl/container/inlined_vector.h"
#include "hlo/hash_map.h"
#include "lazy/scopes.h"
#include "lazy/transforms.h"
#include "python/hooks.h"
#include "python/location.h"
#include "python/number.h"
#include "python/reads.h"
#include "python/signature.h"
#include "python/tensor.h"
#include "python/traversed.h"
#include "python/tree.h"
#include "python/weak.h"

namespace py = pybind11;

namespace lamina::python {
namespace {

using lazy::Lazy;

// Signatures that one function, or one object's method, is looked for among; the least recently called goes.
constexpr size_t kMaxSignatures = 64;

// Under the interpreter lock.
struct Counts {
  int64_t direct_calls = 0;
  int64_t ready_calls = 0;   // of them those whose operands lay where the program runs
  int64_t check_scopes = 0;  // open in the whole process (python: _checks)
} counts;

// --- a trace that serves calls ---

// The only trace of a variant (python: _jit._Trace), and what it takes to call it.
class ReadyTrace {
 public:
  // `text`: pairs (number of a leaf, what stands there); `given_up`: numbers of arguments that the call may
  // write over.
  ReadyTrace(std::shared_ptr<lazy::Program> program, const py::tuple& nodes, const py::list& text,
             py::object guards, std::vector<size_t> given_up)
      : program_(std::move(program)), guards_(std::move(guards)), given_up_(std::move(given_up)) {
    std::optional<Structure> structure = Structure::of(nodes.ptr());
    if (!structure) throw py::value_error("the result is of an unusual structure");
    structure_ = *std::move(structure);
    for (const py::handle& t : text) {
      const auto pair = py::reinterpret_borrow<py::tuple>(t);
      text_.emplace_back(pair[0].cast<size_t>(), pair[1]);
    }
    guard_ = guards_.cast<Guards*>();
  }

  bool serve() { return guard_->serve(); }

  // The result of a call, new; throws.
  PyObject* run(const CallLeaves& leaves) const {
    UserLocation location;
    std::vector<Lazy> results;
    if (given_up_.empty() && run_ready(leaves, results))
      ++counts.ready_calls;
    else
      run_unready(leaves, results);
    if (structure_.is_leaf() && text_.empty()) return make_tensor(std::move(results.at(0)));
    hlo::GraphLock lock;  // once for all of them
    std::vector<py::object> made;
    made.reserve(results.size() + text_.size());
    const uint32_t made_in = lazy::innermost_stamp();
    for (Lazy& r : results)
      made.push_back(py::reinterpret_steal<py::object>(make_tensor(std::move(r), made_in)));
    for (const auto& [at, what] : text_) made.insert(made.begin() + static_cast<ptrdiff_t>(at), what);
    static_assert(sizeof(py::object) == sizeof(PyObject*));
    return structure_.build(reinterpret_cast<PyObject**>(made.data())).release().ptr();
  }

  int traverse(visitproc visit, void* arg) const {
    Py_VISIT(guards_.ptr());
    for (const auto& [at, what] : text_) Py_VISIT(what.ptr());
    return structure_.traverse(visit, arg);
  }
  void clear() { guards_ = py::none(); }

 private:
  // Where all operands have their values: without the copies of the general way.
  bool run_ready(const CallLeaves& leaves, std::vector<Lazy>& results) const {
    absl::InlinedVector<lazy::Program::Argument, 8> arguments(leaves.size());
    for (size_t i = 0; i < leaves.size(); ++i) {
      lazy::Program::Argument& a = arguments[i];
      PyObject* const x = leaves[i];
      if (is_tensor(x)) {
        a.array = &lazy_of(x);
      } else if (PyFloat_CheckExact(x)) {
        a.kind = hlo::DType::kF64;
        a.number.f64 = PyFloat_AS_DOUBLE(x);
      } else if (PyLong_CheckExact(x)) {
        a.kind = hlo::DType::kS64;
        a.number.s64 = PyLong_AsLongLong(x);
      } else {
        return false;
      }
    }
    const py::tuple& tensors = guard_->tensors();
    absl::InlinedVector<const Lazy*, 8> hidden;
    for (const py::handle& t : tensors) hidden.push_back(&lazy_of(t.ptr()));
    return program_->call_ready(arguments, hidden, results);
  }

  void run_unready(const CallLeaves& leaves, std::vector<Lazy>& results) const {
    std::vector<Lazy> arguments;
    std::vector<lazy::Cell*> cells(leaves.size());
    for (size_t i = 0; i < leaves.size(); ++i) {
      std::optional<Lazy> x = from_object(leaves[i]);
      if (!x) throw py::error_already_set();
      arguments.push_back(*std::move(x));
    }
    for (size_t i : given_up_)
      if (is_tensor(leaves[i])) cells[i] = &reinterpret_cast<TensorObject*>(leaves[i])->cell;
    const std::vector<hlo::Value> hidden = hidden_values(guard_->tensors());
    results = given_up_.empty() ? program_->call(arguments, hidden)
                                : program_->call_giving_up(std::move(arguments), hidden, cells);
  }

  std::shared_ptr<lazy::Program> program_;
  py::object guards_;
  Guards* guard_ = nullptr;
  std::vector<size_t> given_up_;
  Structure structure_;
  std::vector<std::pair<size_t, py::object>> text_;
};

PyTypeObject *jit_type = nullptr, *bound_type = nullptr, *ready_type = nullptr;
PyObject *served_name = nullptr, *general_name = nullptr, *general_on_name = nullptr,
         *is_container_name = nullptr;

// --- what is known of a function's calls ---

struct Entry {
  Signature signature;
  py::object variants;  // a list (python: _jit), the one that served last in front
  // The one whose trace is known here.
  py::object variant = {};
  py::object ready = {};

  // A ReadyTrace; None, or something else, where the variant has none.
  py::object ready_of(Py_ssize_t i) {
    PyObject* const v = PyList_GET_ITEM(variants.ptr(), i);
    if (v != variant.ptr()) {
      py::object found = py::reinterpret_steal<py::object>(PyObject_GetAttr(v, served_name));
      if (!found) throw py::error_already_set();
      if (Py_TYPE(found.ptr()) != ready_type) return found;
      variant = py::reinterpret_borrow<py::object>(v);
      ready = std::move(found);
    }
    return ready;
  }
};

// By signature, the most recently called first.
class Entries {
 public:
  using Ref = std::shared_ptr<Entry>;

  // Of a call; its leaves. Null if there is none. May run the user's code.
  Ref find(const CallArguments& call, CallLeaves& leaves) {
    const uint64_t mode = recording_mode();
    for (size_t i = 0; i < entries_.size(); ++i) {
      bool ask = false;
      if (!entries_[i]->signature.match(call, mode, leaves, &ask)) continue;
      const Ref found = entries_[i];
      if (ask && !found->signature.asked(call, leaves)) continue;
      const auto here =
          std::find(entries_.begin(), entries_.end(), found);  // what was asked may have come here
      if (here != entries_.end()) std::rotate(entries_.begin(), here, here + 1);
      return found;
    }
    return nullptr;
  }

  void add(Signature signature, py::object variants) {
    Ref oldest;  // let go of at the end: what dies with it may come here again
    if (entries_.size() >= kMaxSignatures) {
      oldest = std::move(entries_.back());
      entries_.pop_back();
    }
    entries_.insert(entries_.begin(),
                    std::make_shared<Entry>(Entry{std::move(signature), std::move(variants)}));
  }

  int traverse(visitproc visit, void* arg) const {
    for (const Ref& e : entries_) {
      Py_VISIT(e->variants.ptr());
      Py_VISIT(e->variant.ptr());
      Py_VISIT(e->ready.ptr());
      if (const int stopped = e->signature.traverse(visit, arg)) return stopped;
    }
    return 0;
  }

 private:
  std::vector<Ref> entries_;
};

// An object that a jitted method was called on, not kept alive, with the method's entries.
struct Instance {
  py::object ref;  // a weak reference; the object itself where it takes none
  std::shared_ptr<Entries> entries;

  bool is(PyObject* object) const {
    return ref.ptr() == object || (PyWeakref_Check(ref.ptr()) && refers_to(ref.ptr(), object));
  }
};

class Calls {
 public:
  std::shared_ptr<Entries> entries = std::make_shared<Entries>();
  HashMap<PyObject*, Instance> instances;

  std::shared_ptr<Entries> of(PyObject* instance) const {
    if (!instance) return entries;
    const auto found = instances.find(instance);
    return found != instances.end() && found->second.is(instance) ? found->second.entries : nullptr;
  }
};

// --- the types ---

struct JitObject {
  PyObject_HEAD vectorcallfunc call;
  Calls* calls;
  // The last class whose instances were seen to be no containers, held, and how many classes were registered.
  PyTypeObject* leaf_type;
  Py_ssize_t registered;
  Py_ssize_t hits;         // calls that a trace served, here or in Python
  Py_ssize_t direct_hits;  // of them those here
};

struct BoundJitObject {
  PyObject_HEAD vectorcallfunc call;
  JitObject* function;
  PyObject* self;
  bool is_argument;  // `self` is a container, the first argument
};

// The result by a variant that holds; null if there is none, with an exception if it failed.
PyObject* serve(JitObject* f, Entry& entry, CallLeaves& leaves) {
  for (Py_ssize_t i = 0; i < PyList_GET_SIZE(entry.variants.ptr()); ++i) {
    const py::object ready = entry.ready_of(i);
    if (Py_TYPE(ready.ptr()) != ready_type) return nullptr;
    auto* const trace = held_by<ReadyTrace>(ready.ptr());
    if (!trace->serve()) continue;
    ++f->hits;
    ++f->direct_hits;
    ++counts.direct_calls;
    return trace->run(leaves);
  }
  return nullptr;
}

// The same of a call, on an object where `instance` is not null.
PyObject* call_directly(JitObject* f, PyObject* instance, const CallArguments& call) {
  if (calls_are_checked() || !f->calls || !lazy::nothing_open()) return nullptr;
  try {
    const std::shared_ptr<Entries> entries = f->calls->of(instance);
    if (!entries) return nullptr;
    CallLeaves leaves;
    const Entries::Ref entry = entries->find(call, leaves);
    return entry ? serve(f, *entry, leaves) : nullptr;
  } catch (...) {
    set_python_error();
    return nullptr;
  }
}

// By python: Jitted.
PyObject* call_generally(JitObject* f, PyObject* name, PyObject* instance, const CallArguments& call) {
  const auto args = py::reinterpret_steal<py::object>(PyTuple_New(call.positional));
  const auto kwargs = py::reinterpret_steal<py::object>(PyDict_New());
  if (!args || !kwargs) return nullptr;
  for (Py_ssize_t i = 0; i < call.positional; ++i) PyTuple_SET_ITEM(args.ptr(), i, Py_NewRef(call.given[i]));
  for (Py_ssize_t i = 0; i < call.named(); ++i)
    if (PyDict_SetItem(kwargs.ptr(), PyTuple_GET_ITEM(call.names, i), call.given[call.positional + i]) != 0)
      return nullptr;
  auto* const self = reinterpret_cast<PyObject*>(f);
  return instance ? PyObject_CallMethodObjArgs(self, name, instance, args.ptr(), kwargs.ptr(), nullptr)
                  : PyObject_CallMethodObjArgs(self, name, args.ptr(), kwargs.ptr(), nullptr);
}

PyObject* jit_call(PyObject* self, PyObject* const* args, size_t flags, PyObject* names) {
  const ProfiledEntry profiled;
  auto* const f = reinterpret_cast<JitObject*>(self);
  const CallArguments call{args, PyVectorcall_NARGS(flags), names};
  PyObject* const out = call_directly(f, nullptr, call);
  return out || PyErr_Occurred() ? out : call_generally(f, general_name, nullptr, call);
}

PyObject* bound_call(PyObject* self, PyObject* const* args, size_t flags, PyObject* names) {
  const ProfiledEntry profiled;
  auto* const b = reinterpret_cast<BoundJitObject*>(self);
  const CallArguments call{args, PyVectorcall_NARGS(flags), names};
  if (!b->is_argument) {
    PyObject* const out = call_directly(b->function, b->self, call);
    return out || PyErr_Occurred() ? out : call_generally(b->function, general_on_name, b->self, call);
  }
  const Py_ssize_t n = call.positional + call.named();
  absl::InlinedVector<PyObject*, 8> all{b->self};
  all.insert(all.end(), args, args + n);
  return jit_call(reinterpret_cast<PyObject*>(b->function), all.data(),
                  static_cast<size_t>(call.positional) + 1, names);
}

PyObject* jit_new(PyTypeObject* type, PyObject*, PyObject*) {
  // The flag is not inherited by classes made in Python before 3.12, where a class may give itself another
  // __call__; the one that derives from this does not.
  type->tp_flags |= Py_TPFLAGS_HAVE_VECTORCALL;
  PyObject* const self = type->tp_alloc(type, 0);
  if (!self) return nullptr;
  auto* const f = reinterpret_cast<JitObject*>(self);
  f->call = jit_call;
  try {
    f->calls = new Calls;
  } catch (...) {
    Py_DECREF(self);
    set_python_error();
    return nullptr;
  }
  return self;
}

int jit_traverse(PyObject* self, visitproc visit, void* arg) {
  auto* const f = reinterpret_cast<JitObject*>(self);
  Py_VISIT(Py_TYPE(self));
  Py_VISIT(f->leaf_type);
  if (!f->calls) return 0;
  if (const int stopped = f->calls->entries->traverse(visit, arg)) return stopped;
  for (const auto& [address, instance] : f->calls->instances) {
    Py_VISIT(instance.ref.ptr());
    if (const int stopped = instance.entries->traverse(visit, arg)) return stopped;
  }
  return 0;
}
int jit_clear(PyObject* self) {
  auto* const f = reinterpret_cast<JitObject*>(self);
  delete std::exchange(f->calls, nullptr);
  Py_CLEAR(f->leaf_type);
  return 0;
}
void jit_dealloc(PyObject* self) {
  PyTypeObject* const type = Py_TYPE(self);
  PyObject_GC_UnTrack(self);
  jit_clear(self);
  type->tp_free(self);
  Py_DECREF(type);
}

// Whether instances of its class are containers, and so arguments; -1 with an exception.
int is_container(JitObject* f, PyObject* instance) {
  if (f->leaf_type == Py_TYPE(instance) && f->registered == registered_classes()) return 0;
  PyObject* const told =
      PyObject_CallMethodOneArg(reinterpret_cast<PyObject*>(f), is_container_name, instance);
  const int out = told ? PyObject_IsTrue(told) : -1;
  Py_XDECREF(told);
  if (out == 0) {
    f->registered = registered_classes();
    Py_XSETREF(f->leaf_type, reinterpret_cast<PyTypeObject*>(Py_NewRef(Py_TYPE(instance))));
  }
  return out;
}

PyObject* jit_get(PyObject* self, PyObject* instance, PyObject*) {
  if (!instance || instance == Py_None) return Py_NewRef(self);
  const int argument = is_container(reinterpret_cast<JitObject*>(self), instance);
  if (argument < 0) return nullptr;
  auto* const b = PyObject_GC_New(BoundJitObject, bound_type);
  if (!b) return nullptr;
  b->call = bound_call;
  b->function = reinterpret_cast<JitObject*>(Py_NewRef(self));
  b->self = Py_NewRef(instance);
  b->is_argument = argument == 1;
  auto* const out = reinterpret_cast<PyObject*>(b);
  PyObject_GC_Track(out);
  return out;
}

// A tuple and a dict as the arguments of a call.
struct GivenArguments {
  GivenArguments(PyObject* args, PyObject* kwargs) : names(static_cast<size_t>(PyDict_GET_SIZE(kwargs))) {
    for (const py::handle& x : py::reinterpret_borrow<py::tuple>(args)) given.push_back(x.ptr());
    PyObject *name = nullptr, *x = nullptr;
    for (Py_ssize_t at = 0, i = 0; PyDict_Next(kwargs, &at, &name, &x); ++i) {
      PyTuple_SET_ITEM(names.ptr(), i, Py_NewRef(name));
      given.push_back(x);
    }
    call = {given.data(), PyTuple_GET_SIZE(args), names.ptr()};
  }
  std::vector<PyObject*> given;
  py::tuple names;
  CallArguments call;
};

// remember(args, kwargs, nodes, static, variants[, instance]): serves later calls like this one. Whether it
// can.
PyObject* jit_remember(PyObject* self, PyObject* const* args, Py_ssize_t n) {
  auto* const f = reinterpret_cast<JitObject*>(self);
  if (n < 5 || !PyTuple_Check(args[0]) || !PyDict_Check(args[1]) || !PyTuple_Check(args[2]) ||
      !PyAnySet_Check(args[3]) || !PyList_Check(args[4]) || !f->calls) {
    PyErr_SetString(PyExc_TypeError, "remember takes a tuple, a dict, a tuple, a set, a list and an object");
    return nullptr;
  }
  try {
    std::shared_ptr<Entries> entries = f->calls->of(n > 5 ? args[5] : nullptr);
    if (!entries) {
      py::object ref = py::reinterpret_steal<py::object>(PyWeakref_NewRef(args[5], nullptr));
      if (!ref) {
        PyErr_Clear();
        ref = py::reinterpret_borrow<py::object>(args[5]);
      }
      entries = std::make_shared<Entries>();
      const Instance another = std::exchange(f->calls->instances[args[5]], {std::move(ref), entries});
    }
    CallLeaves leaves;
    const GivenArguments given(args[0], args[1]);
    if (const Entries::Ref known = entries->find(given.call, leaves)) {
      known->variants = py::reinterpret_borrow<py::object>(args[4]);
      Py_RETURN_TRUE;
    }
    std::optional<Signature> signature = Signature::of(args[0], args[1], args[2], args[3]);
    PyErr_Clear();
    if (signature) entries->add(*std::move(signature), py::reinterpret_borrow<py::object>(args[4]));
    return PyBool_FromLong(signature.has_value());
  } catch (...) {
    set_python_error();
    return nullptr;
  }
}

// forget(): all calls; forget(address): those on the object that was there.
PyObject* jit_forget(PyObject* self, PyObject* const* args, Py_ssize_t n) {
  auto* const f = reinterpret_cast<JitObject*>(self);
  if (!f->calls) Py_RETURN_NONE;
  // Let go of at the end: what dies with it may come here again.
  Calls dropped;
  if (n == 0) {
    std::swap(*f->calls, dropped);
    Py_RETURN_NONE;
  }
  auto* const address = static_cast<PyObject*>(PyLong_AsVoidPtr(args[0]));
  if (PyErr_Occurred()) return nullptr;
  if (const auto found = f->calls->instances.find(address); found != f->calls->instances.end()) {
    dropped.instances[address] = std::move(found->second);
    f->calls->instances.erase(address);
  }
  Py_RETURN_NONE;
}

template <typename F>
PyCFunction as_method(F f) {
  return reinterpret_cast<PyCFunction>(reinterpret_cast<void (*)()>(f));
}

PyMethodDef jit_methods[] = {{"remember", as_method(jit_remember), METH_FASTCALL,
                              "Serves later calls like one of (args, kwargs), without Python code, by one of "
                              "a list of variants: their "
                              "`served`. Takes its structure's nodes, which arguments are static, and the "
                              "object of a method. Whether it "
                              "can."},
                             {"forget", as_method(jit_forget), METH_FASTCALL,
                              "Forgets all calls, or those on the object of an address."},
                             {nullptr, nullptr, 0, nullptr}};
PyMemberDef jit_members[] = {
    {"__vectorcalloffset__", T_PYSSIZET, offsetof(JitObject, call), READONLY, nullptr},
    {"hits", T_PYSSIZET, offsetof(JitObject, hits), 0, "Calls that a finished trace served."},
    {"direct_hits", T_PYSSIZET, offsetof(JitObject, direct_hits), READONLY,
     "Of the hits, those without Python code of the library in between."},
    {nullptr, 0, 0, 0, nullptr}};
PyType_Slot jit_slots[] = {{Py_tp_doc, const_cast<char*>("What a jitted function is made of: its calls.")},
                           {Py_tp_new, reinterpret_cast<void*>(jit_new)},
                           {Py_tp_dealloc, reinterpret_cast<void*>(jit_dealloc)},
                           {Py_tp_traverse, reinterpret_cast<void*>(jit_traverse)},
                           {Py_tp_clear, reinterpret_cast<void*>(jit_clear)},
                           {Py_tp_call, reinterpret_cast<void*>(PyVectorcall_Call)},
                           {Py_tp_descr_get, reinterpret_cast<void*>(jit_get)},
                           {Py_tp_methods, jit_methods},
                           {Py_tp_members, jit_members},
                           {0, nullptr}};
PyType_Spec jit_spec = {
    "lamina._core.JitCalls", sizeof(JitObject), 0,
    Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE | Py_TPFLAGS_HAVE_GC | Py_TPFLAGS_HAVE_VECTORCALL, jit_slots};

int bound_traverse(PyObject* self, visitproc visit, void* arg) {
  auto* const b = reinterpret_cast<BoundJitObject*>(self);
  Py_VISIT(Py_TYPE(self));
  Py_VISIT(reinterpret_cast<PyObject*>(b->function));
  Py_VISIT(b->self);
  return 0;
}
int bound_clear(PyObject* self) {
  auto* const b = reinterpret_cast<BoundJitObject*>(self);
  Py_CLEAR(b->function);
  Py_CLEAR(b->self);
  return 0;
}
void bound_dealloc(PyObject* self) {
  PyTypeObject* const type = Py_TYPE(self);
  PyObject_GC_UnTrack(self);
  bound_clear(self);
  type->tp_free(self);
  Py_DECREF(type);
}
PyObject* bound_repr(PyObject* self) {
  auto* const b = reinterpret_cast<BoundJitObject*>(self);
  return PyUnicode_FromFormat("<%R bound to %R>", b->function, b->self);
}
PyObject* bound_compare(PyObject* a, PyObject* b, int op) {
  if ((op != Py_EQ && op != Py_NE) || Py_TYPE(b) != bound_type) Py_RETURN_NOTIMPLEMENTED;
  auto* const x = reinterpret_cast<BoundJitObject*>(a);
  auto* const y = reinterpret_cast<BoundJitObject*>(b);
  return PyBool_FromLong((x->function == y->function && x->self == y->self) == (op == Py_EQ));
}
Py_hash_t bound_hash(PyObject* self) {
  auto* const b = reinterpret_cast<BoundJitObject*>(self);
  const auto hash =
      static_cast<Py_hash_t>(std::hash<const void*>()(b->function) * 31 + std::hash<const void*>()(b->self));
  return hash == -1 ? -2 : hash;
}
// What it has not itself is the function's: its name and text, `lower` and so on.
PyObject* bound_getattr(PyObject* self, PyObject* name) {
  PyObject* const own = PyObject_GenericGetAttr(self, name);
  if (own || !PyErr_ExceptionMatches(PyExc_AttributeError)) return own;
  PyErr_Clear();
  return PyObject_GetAttr(reinterpret_cast<PyObject*>(reinterpret_cast<BoundJitObject*>(self)->function),
                          name);
}

PyMemberDef bound_members[] = {
    {"__vectorcalloffset__", T_PYSSIZET, offsetof(BoundJitObject, call), READONLY, nullptr},
    {"__func__", T_OBJECT_EX, offsetof(BoundJitObject, function), READONLY, "The jitted function."},
    {"__self__", T_OBJECT_EX, offsetof(BoundJitObject, self), READONLY, "The object it is called on."},
    {nullptr, 0, 0, 0, nullptr}};
PyType_Slot bound_slots[] = {{Py_tp_doc, const_cast<char*>("A jitted function as a method of an object.")},
                             {Py_tp_dealloc, reinterpret_cast<void*>(bound_dealloc)},
                             {Py_tp_traverse, reinterpret_cast<void*>(bound_traverse)},
                             {Py_tp_clear, reinterpret_cast<void*>(bound_clear)},
                             {Py_tp_call, reinterpret_cast<void*>(PyVectorcall_Call)},
                             {Py_tp_repr, reinterpret_cast<void*>(bound_repr)},
                             {Py_tp_richcompare, reinterpret_cast<void*>(bound_compare)},
                             {Py_tp_hash, reinterpret_cast<void*>(bound_hash)},
                             {Py_tp_getattro, reinterpret_cast<void*>(bound_getattr)},
                             {Py_tp_members, bound_members},
                             {0, nullptr}};
PyType_Spec bound_spec = {
    "lamina._core.BoundJit", sizeof(BoundJitObject), 0,
    Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC | Py_TPFLAGS_HAVE_VECTORCALL | Py_TPFLAGS_DISALLOW_INSTANTIATION,
    bound_slots};

PyTypeObject* add_type(py::module_& module, PyType_Spec& spec, const char* name) {
  PyObject* const type = PyType_FromSpec(&spec);
  if (!type) throw py::error_already_set();
  module.attr(name) = py::reinterpret_borrow<py::object>(type);
  return reinterpret_cast<PyTypeObject*>(type);
}

}  // namespace

bool is_bound_jit(PyObject* object, PyObject* function, PyObject* self) {
  if (Py_TYPE(object) != bound_type) return false;
  auto* const b = reinterpret_cast<BoundJitObject*>(object);
  return reinterpret_cast<PyObject*>(b->function) == function && b->self == self;
}

bool calls_are_checked() { return counts.check_scopes > 0; }
int64_t direct_calls() { return counts.direct_calls; }
int64_t ready_calls() { return counts.ready_calls; }

void add_jitted(py::module_& m) {
  jit_type = add_type(m, jit_spec, "JitCalls");
  bound_type = add_type(m, bound_spec, "BoundJit");
  const auto ready =
      py::class_<ReadyTrace>(m, "ReadyTrace", traversed<ReadyTrace>())
          .def(py::init<std::shared_ptr<lazy::Program>, const py::tuple&, const py::list&, py::object,
                        std::vector<size_t>>(),
               "A program, the nodes of its result's structure, its text, the Guards, and the numbers "
               "of the arguments given up. ValueError for an unusual structure.");
  ready_type = reinterpret_cast<PyTypeObject*>(ready.ptr());
  served_name = PyUnicode_InternFromString("served");
  general_name = PyUnicode_InternFromString("_general");
  general_on_name = PyUnicode_InternFromString("_general_on");
  is_container_name = PyUnicode_InternFromString("_is_container");
  m.def(
      "add_check_scopes", [](int64_t n) { return counts.check_scopes += n; },
      "Counts scopes under which calls are checked, in the whole process; how many there are.");
  m.def(
      "same_static",
      [](const py::object& a, const py::object& b) {
        const int same = same_static(a.ptr(), b.ptr());
        if (same < 0) throw py::error_already_set();
        return same == 1;
      },
      "Whether two static values are one: equal, of one type, numbers to the bit, and so for the items of "
      "tuples.");
}

}  // namespace lamina::python
