#include "lazy/placement.h"

#include <cstdlib>
#include <string>

#include "hlo/host_lock.h"
#include "hlo/once.h"
#include "hlo/strings.h"
#include "lazy/while_waiting.h"

namespace lamina::lazy {
namespace {

struct ProcessDefault {
  jit::Device* device;
};

}  // namespace

jit::Device& process_default() {
  static constinit hlo::Once<ProcessDefault> chosen;
  return *chosen
              .get([] {
                const char* const named = std::getenv("LAMINA_DEFAULT_DEVICE");
                if (!named || !*named) return new ProcessDefault{&jit::host_device()};
                const absl::StatusOr<jit::Device*> found = jit::find_device(named);
                if (!found.ok())
                  throw Error(ErrorKind::kValue,
                              str_cat("LAMINA_DEFAULT_DEVICE: ", found.status().message()));
                return new ProcessDefault{*found};
              })
              .device;
}

jit::Device*& own_default_device() {
  thread_local jit::Device* device = nullptr;
  return device;
}

jit::Device& default_device() {
  jit::Device* const own = own_default_device();
  return own ? *own : process_default();
}

bool only_host() {
  process_default();
  return jit::only_host();
}

jit::Device& device_at(hlo::Place place) {
  return place == hlo::kAnywhere ? default_device() : *check(jit::find_device(hlo::place_name(place)));
}

jit::Device& device_of(const Value& value) {
  const hlo::Place place = value.node()->place();
  const jit::ArrayPtr array = jit::array_of(value);
  const auto is_free_number = [&] {
    return value.rank() == 0 && place == hlo::kAnywhere && &array->device() == &jit::host_device() &&
           !array->buffer()->is_foreign();
  };
  return !array || is_free_number() ? device_at(place) : array->device();
}

bool is_ready(const Value& value) {
  const jit::ArrayPtr array = jit::array_of(value);
  if (!array) return false;
  const jit::Point written = array->buffer()->written();
  return !written || written.stream->reached(written.value);
}

const std::byte* host_bytes(const jit::Array& array) {
  if (&array.device().client() == &jit::host()) return check(array.host(nullptr));
  return while_waiting([&](jit::StepWatcher* watcher) { return check(array.host(watcher)); });
}

std::vector<jit::BufferRef> buffers_on(jit::Device& device, std::span<const Value> values) {
  std::vector<jit::BufferRef> out;
  out.reserve(values.size());
  hlo::HostLockReleased away(hlo::HostLockReleased::kLater);
  for (const Value& v : values) {
    const jit::ArrayPtr array = jit::array_of(v);
    if (&array->device() != &device) away.leave();
    out.push_back(check(array->on(device)));
  }
  return out;
}

hlo::Place bound_place(std::span<const Value> values, std::string_view what) {
  hlo::Place place = hlo::kAnywhere;
  const Value* first = nullptr;
  for (const Value& v : values) {
    const hlo::Place at = v.node()->place();
    if (at == hlo::kAnywhere || at == place) continue;
    if (first)
      throw Error(ErrorKind::kValue,
                  str_cat(what, ": its arrays are on different devices: ", hlo::to_string(*first->type()),
                          " on ", hlo::place_name(place), " and ", hlo::to_string(*v.type()), " on ",
                          hlo::place_name(at), "; bring them to one with device_put"));
    first = &v;
    place = at;
  }
  return place;
}

Placed placed(std::span<const Value> values, std::string_view what) {
  const hlo::Place place = bound_place(values, what);
  jit::Device& device = device_at(place);
  return {&device, place, buffers_on(device, values)};
}

}  // namespace lamina::lazy
