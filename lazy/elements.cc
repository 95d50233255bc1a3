#include "lazy/elements.h"

#include <cstring>

#include "hlo/op.h"
#include "lazy/nan_check.h"
#include "lazy/placement.h"
#include "lazy/scopes.h"

namespace lamina::lazy {
namespace {

using hlo::Node;

// More is the work of a program, which has threads.
constexpr int64_t kMostBytes = 32 * 1024;

// The array of a value that is there, on the host, where programs run too; null for others. It lives as long
// as the value.
const jit::Array* known_on_host(const Value& v) {
  const Node& n = *v.node();
  if (!nothing_open() || !n.data() || n.stamp() != 0 || n.type()->is_tuple()) return nullptr;
  const auto* const array = static_cast<const jit::Array*>(n.data());
  jit::Device& host = jit::host_device();
  return &array->device() == &host && (only_host() || &default_device() == &host) ? array : nullptr;
}

// Whether it is a write that waits to be computed, to what nothing else reads.
bool is_pending_write(const Node& n) {
  return n.op() == hlo::Op::dynamic_update_slice && !n.data() && n.refs() == 1 && n.stamp() == 0;
}

}  // namespace

std::optional<Lazy> read_element(const Lazy& x, int64_t at) {
  if (x.weak) return std::nullopt;
  const jit::Array* const array = known_on_host(x.value);
  if (!array) return std::nullopt;
  const hlo::Type* const type = hlo::scalar_type(x.value.dtype());
  jit::BufferRef element =
      check(jit::host().put(jit::host_device(), host_bytes(*array) + at * type->bytes(), type->bytes()));
  return Lazy{hlo::make_leaf(type, new jit::Array(type, std::move(element)), x.value.node()->place())};
}

bool write_elements(Cell& cell, int64_t first, int64_t count, const Value& number) {
  const hlo::Type* const type = cell.get().value.type();
  const int64_t width = hlo::byte_size(type->dtype);
  // Where there are other devices, copies to them may still read the memory.
  if (!only_host() || cell.get().weak || nan_checks() || count * width > kMostBytes) return false;
  const jit::Array* const one = known_on_host(number);
  if (!one) return false;
  bool many = false;
  {
    hlo::GraphLock lock;
    const Node& last = *cell.get().value.node();
    many = is_pending_write(last) && is_pending_write(*last.operands()[0].node());
  }
  if (many) {
    const Value pending = cell.get().value;
    force({&pending, 1});
  }
  const jit::Array* written = nullptr;
  {
    hlo::GraphLock lock;
    const Value& v = cell.get().value;
    const jit::Array* const array = known_on_host(v);
    if (!array || v.node()->refs() != 1 || array->use_count() != 1 || !array->buffer()->may_reuse())
      return false;
    // A value of its own in the same memory: what was known of the one before is of it alone.
    auto* const next = new jit::Array(type, array->buffer());
    cell.set({hlo::make_leaf(type, next, v.node()->place())});
    written = next;
  }
  const std::byte* const element = host_bytes(*one);
  auto* const bytes = const_cast<std::byte*>(host_bytes(*written));  // of the cell alone
  for (int64_t i = first; i < first + count; ++i) std::memcpy(bytes + i * width, element, width);
  return true;
}

}  // namespace lamina::lazy
