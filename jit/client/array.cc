#include "jit/client/array.h"

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
  if (const BufferRef* known = copy_in(device.memory())) return *known;
  absl::StatusOr<BufferRef> copy = bring(device, buffer_);
  if (copy.ok()) remember(*copy);
  return copy;
}

absl::StatusOr<const std::byte*> Array::host(StepWatcher* watcher) const {
  Client& at_home = jit::host();
  if (&buffer_->memory().client() == &at_home) return at_home.view(*buffer_);
  if (const BufferRef* known = copy_in(host_device().memory())) return at_home.view(**known);
  absl::StatusOr<BufferRef> copy = host_device().memory().allocate(type_->bytes());
  if (!copy.ok()) return copy.status();
  const Client::Read all{buffer_.operator->(), 0, type_->bytes(),
                         const_cast<std::byte*>(at_home.view(**copy))};  // nobody else has it yet
  if (absl::Status s = buffer_->memory().client().read({&all, 1}, watcher); !s.ok()) return s;
  return at_home.view(*remember(*std::move(copy)));
}

ArrayPtr array_of(const hlo::Value& value) {
  hlo::Data* data = value.node()->data();
  if (!data) return ArrayPtr();
  if (auto* tuple = dynamic_cast<ArrayTuple*>(data)) return tuple->at(value.index());
  return ArrayPtr(static_cast<Array*>(data));
}

}  // namespace lamina::jit
