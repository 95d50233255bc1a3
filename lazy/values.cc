// Making values of what the host has.
#include "hlo/narrow.h"
#include "jit/client/array.h"
#include "lazy/lazy.h"
#include "lazy/placement.h"
#include "lazy/scopes.h"
#include "lazy/while_waiting.h"

namespace lamina::lazy {

namespace {
Value leaf_of(const hlo::Type* type, jit::BufferRef buffer) {
  hlo::LeafMaker make(hlo::kAnywhere);
  return make(type, new (make) jit::Array(type, std::move(buffer)));
}
Value copied_leaf(jit::Device& device, const hlo::Type* type, const void* data) {
  return leaf_of(type, check(device.client().put(device, data, type->bytes())));
}
}  // namespace

Value from_host(DType dtype, std::span<const int64_t> dims, const void* data) {
  const hlo::Type* type = check(hlo::array_type(dtype, dims));
  if (!hlo::is_narrow(dtype) || hlo::bit_width(dtype) == 8) return copied_leaf(default_device(), type, data);
  const auto* bytes = static_cast<const std::byte*>(data);
  std::vector<std::byte> elements(bytes, bytes + type->num_elements);
  hlo::make_canonical(dtype, elements.data(), type->num_elements);
  return copied_leaf(default_device(), type, elements.data());
}

Value filled(DType dtype, std::span<const int64_t> dims, absl::FunctionRef<void(void*)> fill) {
  const hlo::Type* type = check(hlo::array_type(dtype, dims));
  jit::BufferRef buffer = check(jit::host_device().memory().allocate(type->bytes()));
  auto* const data = const_cast<std::byte*>(jit::host().view(*buffer));  // a new block: nobody else's
  fill(data);
  if (&default_device() == &jit::host_device()) return leaf_of(type, std::move(buffer));
  return copied_leaf(default_device(), type, data);
}

Value from_foreign(DType dtype, std::span<const int64_t> dims, void* data, std::function<void()> release) {
  if (hlo::is_narrow(dtype) && hlo::bit_width(dtype) < 8) {  // their spare bits may hold anything
    Value copy = from_host(dtype, dims, data);
    if (release) release();
    return copy;
  }
  const hlo::Type* type = check(hlo::array_type(dtype, dims));
  return leaf_of(type, jit::host().adopt(data, type->bytes(), std::move(release)));
}

jit::BufferRef snapshot(const jit::BufferRef& theirs) {
  jit::Device& device = theirs->memory().device();
  jit::BufferRef copy = check(device.client().copy_across(device, theirs));
  if (const jit::Point written = copy->written())
    while_waiting([&](jit::StepWatcher* watcher) {
      check(written.stream->wait(written.value, watcher));
      return 0;
    });
  return copy;
}

Lazy owned(const Lazy& x) {
  const jit::ArrayPtr array = jit::array_of(x.value);
  if (!array || !array->buffer()->is_foreign() || inside_jit()) return x;
  const hlo::Type* const type = x.value.type();
  auto* const copy = new jit::Array(type, snapshot(array->buffer()));
  return {hlo::make_leaf(type, copy, x.value.node()->place()), x.weak, x.wide};
}

Value number(DType dtype, const void* element) {
  if (inside_jit()) {
    hlo::Builder b;
    return b.constant(hlo::Literal::copy_of(hlo::scalar_type(dtype), element));
  }
  return copied_leaf(jit::host_device(), hlo::scalar_type(dtype), element);
}

}  // namespace lamina::lazy
