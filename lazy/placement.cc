#include "lazy/placement.h"

#include <cstdlib>
#include <string>

#include "hlo/host_lock.h"
#include "hlo/once.h"
#include "hlo/strings.h"
#include "jit/client/profile.h"
#include "lazy/known_number.h"
#include "lazy/scopes.h"

namespace lamina::lazy {
namespace {

struct ProcessDefault {
  jit::Device* device;
};

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

jit::Device*& thread_default() {
  thread_local jit::Device* device = nullptr;
  return device;
}

// Handles the host's signals while a thread waits for a device.
class SignalPoll final : public jit::StepWatcher {
 public:
  explicit SignalPoll(const hlo::HostLock& host) : host_(host) {}
  bool between_steps() override { return host_.poll(); }

 private:
  const hlo::HostLock& host_;
};

// f(watcher or null) without the host lock.
template <typename F>
auto while_waiting(F f) {
  const jit::ProfiledSpan span(jit::Doing::kWait);
  hlo::HostLockReleased away;
  const hlo::HostLock* const host = hlo::host_lock();
  if (!host || !host->can_poll()) return f(nullptr);
  SignalPoll signals(*host);
  return f(&signals);
}

}  // namespace

jit::Device& default_device() {
  jit::Device* const own = thread_default();
  return own ? *own : process_default();
}

bool only_host() {
  process_default();
  return jit::only_host();
}

jit::Device* set_default_device(jit::Device* device) {
  jit::Device* const before = thread_default();
  jit::Device& next = device ? *device : process_default();
  if (&default_device() == &next) return std::exchange(thread_default(), device);
  try {
    force_recorded();
  } catch (...) {
    thread_default() = device;
    throw;
  }
  thread_default() = device;
  return before;
}

jit::Device& device_at(hlo::Place place) {
  return place == hlo::kAnywhere ? default_device() : *check(jit::find_device(hlo::place_name(place)));
}

jit::Device& device_of(const Value& value) {
  if (const jit::ArrayPtr array = jit::array_of(value)) return array->device();
  return device_at(value.node()->place());
}

namespace {

Value moved(const Value& value, jit::Device& device) {
  const hlo::Place place = value.node()->place();
  if (place == device.place()) return value;
  if (!nothing_open() && in_open_scope(value)) {
    if (place == hlo::kAnywhere && only_host()) return value;
    throw Error(ErrorKind::kNotImplemented,
                str_cat("a value that an open transform depends on cannot be moved to ", device.name(),
                        ": put the arguments there before the transformed function is called"));
  }
  if (forceable(value)) force(std::span(&value, 1));
  const jit::ArrayPtr known = array(value);
  hlo::HostLockReleased away(&known->device() == &device ? hlo::HostLockReleased::kLater
                                                         : hlo::HostLockReleased::kNow);
  jit::BufferRef there = check(known->on(device));
  // A number that the host knows is read without waiting for its copy.
  const bool is_known = value.rank() == 0 && &known->device() == &jit::host_device() &&
                        &device != &jit::host_device() && !known->buffer()->is_foreign();
  return hlo::make_leaf(value.type(),
                        is_known ? new jit::Array(value.type(), std::move(there), known->buffer())
                                 : new jit::Array(value.type(), std::move(there)),
                        device.place());
}

}  // namespace

Lazy put_on(const Lazy& x, jit::Device& device) {
  return {moved(x.value, device), x.weak, x.wide ? moved(x.wide, device) : Value()};
}

bool is_ready(const Value& value) {
  const jit::ArrayPtr array = jit::array_of(value);
  if (!array) return false;
  const jit::Point written = array->buffer()->written();
  return !written || written.stream->reached(written.value);
}

namespace {

// Those that are numbers known unrounded, with these, and the others.
struct Asked {
  explicit Asked(std::span<const Value> values) {
    for (const Value& v : values) {
      if (Value unrounded = known_unrounded(v))
        numbers.emplace_back(v, std::move(unrounded));
      else
        others.push_back(v);
    }
  }
  std::vector<std::pair<Value, Value>> numbers;
  std::vector<Value> others;
};

}  // namespace

void wait_for(std::span<const Value> values) {
  const Asked asked(values);
  force(asked.others);
  for (const auto& [number, unrounded] : asked.numbers) round_known(number, unrounded);
  for (const Value& v : values) {
    if (const jit::Point written = array(v)->buffer()->written())
      while_waiting([&](jit::StepWatcher* watcher) {
        check(written.stream->wait(written.value, watcher));
        return 0;
      });
  }
}

void fetch(std::span<const Value> values) {
  const Asked asked(values);
  force(asked.others);
  if (!only_host()) {
    std::vector<jit::ArrayPtr> held;
    std::vector<const jit::Array*> arrays;
    const auto add = [&](const Value& v) { arrays.push_back(held.emplace_back(array(v)).get()); };
    for (const Value& v : asked.others) add(v);
    for (const auto& [number, unrounded] : asked.numbers) add(unrounded);
    while_waiting([&](jit::StepWatcher* watcher) {
      check(jit::Array::fetch(arrays, watcher));
      return 0;
    });
  }
  for (const auto& [number, unrounded] : asked.numbers) round_known(number, unrounded);
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
