#include "python/profile.h"

#include <pybind11/stl.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "hlo/hash_map.h"
#include "hlo/location.h"
#include "hlo/once.h"
#include "jit/cpu/perf_symbols.h"
#include "lazy/profiled_lines.h"
#include "python/tensor.h"

namespace py = pybind11;

namespace lamina::python {
namespace {

using jit::Doing;
using jit::Profiler;

// Whose a code object is, by its file.
enum class Owner : uint8_t { kUser, kLibrary, kCaller };

// Of the process, under the interpreter lock.
struct Owners {
  std::vector<std::pair<std::string, Owner>> folders;  // the longest that fits counts
  HashMap<PyObject*, Owner> known;                     // by file name, held

  static Owners& get() {
    static constinit hlo::Once<Owners> owners;
    return owners.get();
  }

  Owner of(PyCodeObject* code) {
    const auto [it, is_new] = known.try_emplace(code->co_filename, Owner::kUser);
    if (!is_new) return it->second;
    Py_INCREF(code->co_filename);
    const char* const utf8 = PyUnicode_AsUTF8(code->co_filename);
    if (!utf8) PyErr_Clear();
    const std::string_view file = utf8 ? utf8 : "";
    size_t longest = 0;
    for (const auto& [folder, owner] : folders) {
      if (folder.size() < longest || !file.starts_with(folder)) continue;
      longest = folder.size();
      it->second = owner;
    }
    return it->second;
  }
};

Owner owner_of(PyFrameObject* frame) {
  PyCodeObject* const code = PyFrame_GetCode(frame);
  const Owner owner = Owners::get().of(code);
  Py_DECREF(code);
  return owner;
}

// The line of the first frame from this one outwards that is the user's.
hlo::LocationId line_from(PyFrameObject* frame) {
  Py_XINCREF(frame);
  hlo::LocationId found = 0;
  while (frame) {
    PyFrameObject* back = nullptr;
    if (owner_of(frame) == Owner::kUser) {
      PyCodeObject* const code = PyFrame_GetCode(frame);
      const char* const file = PyUnicode_AsUTF8(code->co_filename);
      const char* const function = PyUnicode_AsUTF8(code->co_name);
      if (!file || !function) PyErr_Clear();
      found = hlo::intern_location(file ? file : "?", PyFrame_GetLineNumber(frame), function ? function : "");
      Py_DECREF(code);
    } else {
      back = PyFrame_GetBack(frame);
    }
    Py_DECREF(frame);
    frame = back;
  }
  return found;
}

// Whether it is a function of the extension module, or a method of a Tensor.
bool is_ours(PyObject* function) {
  if (!PyCFunction_Check(function)) return false;
  const auto* const f = reinterpret_cast<PyCFunctionObject*>(function);
  if (f->m_module && PyUnicode_Check(f->m_module))
    return PyUnicode_CompareWithASCIIString(f->m_module, "lamina._core") == 0;
  return f->m_self && is_tensor(f->m_self);
}

// What the interpreter tells of a profiled thread.
int on_event(PyObject*, PyFrameObject* frame, int what, PyObject* argument) {
  if (!Profiler::on()) return 0;
  Profiler& profiler = Profiler::get();
  // A function called by a frame; the frame has its own address for a tag.
  const void* const called = reinterpret_cast<const char*>(frame) + 1;
  try {
    switch (what) {
      case PyTrace_CALL: {
        const Owner owner = owner_of(frame);
        if (owner == Owner::kCaller || (owner == Owner::kLibrary) == profiler.inside()) return 0;
        if (owner == Owner::kLibrary)
          profiler.begin_tagged({Doing::kCall, line_from(frame), 0}, frame);
        else
          profiler.begin_tagged({}, frame);
        return 0;
      }
      case PyTrace_RETURN:
        profiler.end_tagged(frame);
        return 0;
      case PyTrace_C_CALL:
        if (is_ours(argument) && !profiler.inside() && owner_of(frame) == Owner::kUser)
          profiler.begin_tagged({Doing::kCall, line_from(frame), 0}, called);
        return 0;
      case PyTrace_C_RETURN:
      case PyTrace_C_EXCEPTION:
        profiler.end_tagged(called);
        return 0;
      default:
        return 0;
    }
  } catch (const std::bad_alloc&) {
    PyErr_NoMemory();
    return -1;
  }
}

// Profiles of this thread.
thread_local constinit int listening = 0;

Py_tracefunc listener() { return PyThreadState_Get()->c_profilefunc; }

// A profile of the thread that makes it.
class ThreadProfile {
 public:
  ThreadProfile() : thread_(PyThread_get_thread_ident()) {
    if (listener() && listener() != on_event)
      throw std::runtime_error(
          "another profiler, such as cProfile or sys.setprofile's, is at work on this thread: end it before "
          "a "
          "profile of lamina begins");
    profile_ = std::make_unique<lazy::Profile>(profiled_line);
    if (listening++ == 0) PyEval_SetProfile(on_event, nullptr);
  }
  ~ThreadProfile() {
    if (profile_ && here()) unlisten();
  }
  ThreadProfile(const ThreadProfile&) = delete;
  ThreadProfile& operator=(const ThreadProfile&) = delete;

  std::unique_ptr<lazy::ProfileReport> end() {
    if (!here())
      throw std::runtime_error("a profile ends on the thread that began it, and this is another one");
    unlisten();
    auto report = std::make_unique<lazy::ProfileReport>(profile_->end());
    profile_.reset();
    return report;
  }

 private:
  bool here() const { return thread_ == PyThread_get_thread_ident(); }
  static void unlisten() {
    if (--listening == 0 && listener() == on_event) PyEval_SetProfile(nullptr, nullptr);
  }

  const unsigned long thread_;
  std::unique_ptr<lazy::Profile> profile_;
};

py::dict cost_dict(const jit::Cost& cost, double limit_ns) {
  py::dict d;
  d["bytes"] = cost.bytes;
  d["flops"] = cost.flops;
  d["limit_ns"] = limit_ns;
  return d;
}

py::list lines_of(const lazy::ProfileReport& report) {
  static constexpr std::pair<Doing, const char*> kParts[] = {
      {Doing::kCall, "call"},       {Doing::kFree, "free"},
      {Doing::kTrace, "trace"},     {Doing::kPlan, "plan"},
      {Doing::kRun, "run"},         {Doing::kLaunch, "launch"},
      {Doing::kCompile, "compile"}, {Doing::kStep, "step"},
      {Doing::kWait, "wait"},       {Doing::kDeviceStep, "device_step"}};
  py::list out;
  for (const lazy::ProfiledLine& line : report.lines) {
    py::dict d = cost_dict(line.cost, line.limit_ns), parts;
    for (const auto& [doing, name] : kParts)
      if (const double ns = line.ns[static_cast<size_t>(doing)]; ns != 0) parts[name] = ns / 1e6;
    d["file"] = line.file;
    d["line"] = line.line;
    d["parts"] = parts;
    d["elsewhere_ms"] = line.elsewhere_ns / 1e6;
    d["calls"] = line.calls;
    d["runs"] = line.runs;
    out.append(d);
  }
  return out;
}

py::list steps_of(const lazy::ProfileReport& report) {
  py::list out;
  for (const lazy::ProfiledStep& step : report.steps) {
    py::dict d = cost_dict(step.cost, step.limit_ns);
    d["what"] = step.what;
    d["device"] = step.device;
    d["lines"] = step.lines;
    d["runs"] = step.runs;
    d["ms"] = step.ns / 1e6;
    out.append(d);
  }
  return out;
}

}  // namespace

hlo::LocationId profiled_line() { return PyGILState_Check() ? line_from(PyEval_GetFrame()) : 0; }

void add_profile(py::module_& m) {
  m.def(
      "set_code_owners",
      [](const std::vector<std::string>& library, const std::vector<std::string>& callers,
         const std::vector<std::string>& users) {
        Owners& owners = Owners::get();
        owners.folders.clear();
        for (const std::string& f : users) owners.folders.emplace_back(f, Owner::kUser);
        for (const std::string& f : library) owners.folders.emplace_back(f, Owner::kLibrary);
        for (const std::string& f : callers) owners.folders.emplace_back(f, Owner::kCaller);
        for (const auto& [file, owner] : owners.known) Py_DECREF(file);
        owners.known.clear();
      },
      "Whose the code of files is, by how their names begin: the library's, that of whoever calls it, the "
      "user's.");
  py::class_<lazy::ProfileReport>(m, "ProfileReport")
      .def_property_readonly("wall_ms", [](const lazy::ProfileReport& r) { return r.wall_ns / 1e6; })
      .def_property_readonly("outside_ms", [](const lazy::ProfileReport& r) { return r.outside_ns / 1e6; })
      .def_property_readonly("lines", lines_of)
      .def_property_readonly("steps", steps_of)
      .def_property_readonly("limits",
                             [](const lazy::ProfileReport& r) {
                               py::dict d;
                               d["threads"] = r.limits.threads;
                               d["bytes_per_s"] = r.limits.bytes_per_s;
                               d["flops_per_s"] = r.limits.flops_per_s;
                               d["float64_flops_per_s"] = r.limits.double_flops_per_s;
                               return d;
                             })
      .def_property_readonly("spans", [](const lazy::ProfileReport& r) { return r.spans.size(); })
      .def_readonly("spans_dropped", &lazy::ProfileReport::spans_dropped)
      .def("trace", [](const lazy::ProfileReport& r) { return py::bytes(lazy::trace_json(r)); });
  py::class_<ThreadProfile>(m, "Profile").def(py::init<>()).def("end", &ThreadProfile::end);
  m.def(
      "profiling", [] { return Profiler::on(); }, "Whether a profile is open, on any thread.");
  m.def(
      "write_perf_map",
      [] {
        jit::PerfSymbols::get().enable();
        return jit::PerfSymbols::path();
      },
      "From now on names of generated code go to a file for perf: its path.");
}

}  // namespace lamina::python
