// What a tensor's value is at run time: a buffer and its type, as the graph's nodes hold it.
#ifndef LAMINA_JIT_CLIENT_ARRAY_H_
#define LAMINA_JIT_CLIENT_ARRAY_H_

#include <atomic>
#include <cstddef>
#include <span>
#include <utility>
#include <vector>

#include "hlo/graph.h"
#include "jit/client/client.h"

namespace lamina::jit {

// One array: row-major, dense, bytes() of its type. Values do not change: what was copied to other devices is
// remembered while it lives. Only what somebody else owns may be written to: of that each use is a new copy.
class Array final : public hlo::Data {
 public:
  Array(const hlo::Type* type, BufferRef buffer) : type_(type), buffer_(std::move(buffer)) {}
  // With the same bytes elsewhere, which are remembered.
  Array(const hlo::Type* type, BufferRef buffer, BufferRef copy) : Array(type, std::move(buffer)) {
    remember(std::move(copy));
  }
  ~Array() override;
  Array(const Array&) = delete;
  Array& operator=(const Array&) = delete;
  const hlo::Type* type() const { return type_; }
  const BufferRef& buffer() const { return buffer_; }
  Device& device() const { return buffer_->memory().device(); }
  // The value on that device. May wait, without the graph lock.
  absl::StatusOr<BufferRef> on(Device& device) const;
  // The same if it lies there already; null elsewhere.
  const BufferRef* known_on(Device& device) const {
    const BufferRef* const known = copy_in(device.memory());
    return known == &buffer_ || !buffer_->is_foreign() ? known : nullptr;
  }
  // The bytes where the host reads them, for as long as the array lives. Waits until they are written,
  // without the graph lock; the watcher, which may be null, may stop that.
  absl::StatusOr<const std::byte*> host(StepWatcher* watcher) const;
  // Has `host` of these wait for nothing any more: waits once for each device.
  static absl::Status fetch(std::span<const Array* const> arrays, StepWatcher* watcher);

 private:
  struct Copy {
    BufferRef buffer;
    Copy* next;
  };
  const BufferRef* copy_in(const Memory& memory) const;
  const BufferRef* copy_on_host() const;
  const BufferRef& remember(BufferRef copy) const;

  const hlo::Type* type_;
  BufferRef buffer_;
  mutable std::atomic<Copy*> copies_{nullptr};
};
static_assert(sizeof(Array) <= hlo::Data::kSmall);
using ArrayPtr = hlo::DataPtr<Array>;

// The results of a node with several; those nobody asked for are null.
class ArrayTuple final : public hlo::Data {
 public:
  explicit ArrayTuple(std::vector<ArrayPtr> arrays) : arrays_(std::move(arrays)) {}
  const ArrayPtr& at(uint32_t i) const { return arrays_[i]; }
  void set(uint32_t i, ArrayPtr array) { arrays_[i] = std::move(array); }
  size_t size() const { return arrays_.size(); }

 private:
  std::vector<ArrayPtr> arrays_;
};

// The array that `value` holds, if it has been computed.
ArrayPtr array_of(const hlo::Value& value);
// The same for as long as the value holds it.
Array* known_array(const hlo::Value& value);

}  // namespace lamina::jit

#endif  // LAMINA_JIT_CLIENT_ARRAY_H_
