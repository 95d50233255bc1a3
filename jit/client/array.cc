#include "jit/client/array.h"

#include <algorithm>

namespace lamina::jit {

Array::~Array() {
  for (Copy* c = copies_.load(std::memory_order_acquire); c;) delete std::exchange(c, c->next);
}

const BufferRef* Array::copy_in(const Memory& memory) const {
  if (&buffer_->memory() == &memory) return &buffer_;
  for (const Copy* c = copies_.load(std::memory_order_acquire); c; c = c->next)
    if (&c->buffer->memory() == &memory) return &c->buffer;
  return nullptr;
}

// Two threads may both have copied: either copy serves.
const BufferRef& Array::remember(BufferRef copy) const {
  Copy* const made = new Copy{std::move(copy), copies_.load(std::memory_order_acquire)};
  while (!copies_.compare_exchange_weak(made->next, made, std::memory_order_acq_rel)) continue;
  return made->buffer;
}

absl::StatusOr<BufferRef> Array::on(Device& device) const {
  if (const BufferRef* known = known_on(device)) return *known;
  absl::StatusOr<BufferRef> copy = bring(device, buffer_);
  if (copy.ok() && !buffer_->is_foreign()) remember(*copy);
  return copy;
}

absl::StatusOr<const std::byte*> Array::host(StepWatcher* watcher) const {
  const Array* const self = this;
  if (absl::Status s = fetch({&self, 1}, watcher); !s.ok()) return s;
  return jit::host().view(**copy_on_host());
}

const BufferRef* Array::copy_on_host() const {
  if (&buffer_->memory().client() == &jit::host()) return &buffer_;
  return copy_in(host_device().memory());
}

absl::Status Array::fetch(std::span<const Array* const> arrays, StepWatcher* watcher) {
  struct Wanted {
    const Array* array;
    BufferRef copy;
    bool is_remembered;
  };
  std::vector<Wanted> wanted;
  for (const Array* a : arrays) {
    const auto is_same = [&](const Wanted& w) { return w.array == a; };
    const BufferRef* const known = a->copy_on_host();
    // What others write to on a device is read anew, to the same place.
    const bool is_known = known && (known == &a->buffer_ || !a->buffer_->is_foreign());
    if (is_known || std::any_of(wanted.begin(), wanted.end(), is_same)) continue;
    if (known) {
      wanted.push_back({a, *known, true});
      continue;
    }
    absl::StatusOr<BufferRef> copy = host_device().memory().allocate(a->type()->bytes());
    if (!copy.ok()) return copy.status();
    wanted.push_back({a, *std::move(copy), false});
  }
  while (!wanted.empty()) {
    Device& device = wanted[0].array->device();
    const auto others = std::stable_partition(wanted.begin(), wanted.end(),
                                              [&](const Wanted& w) { return &w.array->device() == &device; });
    std::vector<Client::Read> reads;
    for (auto w = wanted.begin(); w != others; ++w)
      reads.push_back({&*w->array->buffer(), 0, w->array->type()->bytes(),
                       const_cast<std::byte*>(jit::host().view(*w->copy))});
    if (absl::Status s = device.client().read(reads, watcher); !s.ok()) return s;
    for (auto w = wanted.begin(); w != others; ++w)
      if (!w->is_remembered) w->array->remember(std::move(w->copy));
    wanted.erase(wanted.begin(), others);
  }
  return absl::OkStatus();
}

Array* known_array(const hlo::Value& value) {
  hlo::Data* const data = value.node()->data();
  if (!data || !value.node()->type()->is_tuple()) return static_cast<Array*>(data);
  return static_cast<ArrayTuple*>(data)->at(value.index()).get();
}

ArrayPtr array_of(const hlo::Value& value) { return ArrayPtr(known_array(value)); }

}  // namespace lamina::jit
