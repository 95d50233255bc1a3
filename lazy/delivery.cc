#include "lazy/delivery.h"

#include <utility>
#include <vector>

#include "hlo/strings.h"
#include "lazy/known_number.h"
#include "lazy/placement.h"
#include "lazy/scopes.h"
#include "lazy/while_waiting.h"

namespace lamina::lazy {

jit::Device* set_default_device(jit::Device* device) {
  jit::Device* const before = own_default_device();
  jit::Device& next = device ? *device : process_default();
  if (&default_device() == &next) return std::exchange(own_default_device(), device);
  try {
    force_recorded();
  } catch (...) {
    own_default_device() = device;
    throw;
  }
  own_default_device() = device;
  return before;
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

}  // namespace lamina::lazy
