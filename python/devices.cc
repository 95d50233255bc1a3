#include "python/devices.h"

#include <pybind11/stl.h>

#include <optional>
#include <string>
#include <vector>

#include "jit/client/client.h"
#include "lazy/delivery.h"
#include "lazy/placement.h"
#include "python/location.h"
#include "python/tensor.h"

namespace py = pybind11;

namespace lamina::python {
namespace {

jit::Device& named(const std::string& name) { return *lazy::check(jit::find_device(name)); }

std::vector<hlo::Value> values_of(const py::sequence& tensors) {
  std::vector<hlo::Value> values;
  for (const lazy::Lazy& l : from_sequence(tensors)) values.push_back(l.value);
  return values;
}

}  // namespace

void add_devices(py::module_& m) {
  m.def(
      "device_names",
      [](const std::string& platform) {
        std::vector<std::string> names;
        for (const jit::Device* d : named(platform).client().devices()) names.push_back(d->name());
        return names;
      },
      "Of all devices of a platform.");
  m.def("device_name", [](const std::string& name) { return named(name).name(); });
  m.def("default_device", [] { return lazy::default_device().name(); });
  m.def(
      "set_default_device",
      [](const std::optional<std::string>& name) -> std::optional<std::string> {
        UserLocation location;
        const jit::Device* const before = lazy::set_default_device(name ? &named(*name) : nullptr);
        return before ? std::optional(before->name()) : std::nullopt;
      },
      "Of this thread; None: that of the process. Returns what was set before.");
  m.def("device_of", [](const py::object& x) { return lazy::device_of(lazy_of(x.ptr()).value).name(); });
  m.def("put_on", [](const py::object& x, const std::string& name) {
    UserLocation location;
    return to_object(lazy::put_on(lazy_of(x.ptr()), named(name)));
  });
  m.def("is_ready", [](const py::object& x) { return lazy::is_ready(lazy_of(x.ptr()).value); });
  m.def(
      "wait_for",
      [](const py::list& objects) {
        UserLocation location;
        std::vector<hlo::Value> values;
        values.reserve(objects.size());
        for (const py::handle& x : objects)
          if (is_tensor(x.ptr())) values.push_back(lazy_of(x.ptr()).value);
        lazy::wait_for(values);
      },
      "Computes the Tensors among the objects, and waits until they are there.");
  m.def(
      "fetch",
      [](const py::sequence& tensors) {
        UserLocation location;
        lazy::fetch(values_of(tensors));
      },
      "Computes the Tensors and brings them to the host, with one wait.");
  m.def("device_memory", [](const std::string& name) {
    const jit::MemoryStats s = named(name).memory().stats();
    return py::make_tuple(s.live_bytes, s.peak_bytes);
  });
}

}  // namespace lamina::python
