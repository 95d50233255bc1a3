#include "lazy/known_number.h"

#include <array>
#include <complex>
#include <cstring>

#include "hlo/host_lock.h"
#include "hlo/op.h"
#include "lazy/placement.h"
#include "lazy/scopes.h"

namespace lamina::lazy {
namespace {

using Element = std::array<std::byte, sizeof(std::complex<double>)>;

template <typename To, typename From>
void round_element(const std::byte* from, Element& to) {
  From x;
  std::memcpy(&x, from, sizeof x);
  const auto y = static_cast<To>(x);
  std::memcpy(to.data(), &y, sizeof y);
}

// By pairs of types; null for those that no number goes between.
using Rounding = void (*)(const std::byte* from, Element& to);
Rounding rounding(DType from, DType to) {
  if (from == DType::kF64 && to == DType::kF32) return round_element<float, double>;
  if (from == DType::kS64 && to == DType::kS32) return round_element<int32_t, int64_t>;
  if (from == DType::kC128 && to == DType::kC64)
    return round_element<std::complex<float>, std::complex<double>>;
  return nullptr;
}

bool is_known_number(const Value& v) { return v.rank() == 0 && v.node()->data() && v.node()->stamp() == 0; }

}  // namespace

Value rounded_on_host(const Value& wide, DType dtype) {
  const Rounding round = rounding(wide.dtype(), dtype);
  if (!round || !is_known_number(wide) || inside_jit()) return Value();
  const jit::ArrayPtr array = jit::array_of(wide);
  if (wide.node()->place() != hlo::kAnywhere || &array->device() != &jit::host_device()) return Value();
  Element element;
  round(host_bytes(*array), element);
  return number(dtype, element.data());
}

Value known_unrounded(const Value& value) {
  if (value.node()->op() != hlo::Op::convert || value.rank() != 0 || inside_jit()) return Value();
  hlo::GraphLock lock;
  const hlo::Node& n = *value.node();
  if (n.op() != hlo::Op::convert || n.data() || n.stamp() != 0) return Value();
  Value wide(n.operands()[0]);
  return is_known_number(wide) && rounding(wide.dtype(), value.dtype()) ? wide : Value();
}

void round_known(const Value& value, const Value& unrounded) {
  const jit::ArrayPtr known = jit::array_of(unrounded);
  jit::Device& device = known->device();
  const hlo::Type* const type = value.type();
  Element element;
  rounding(unrounded.dtype(), value.dtype())(host_bytes(*known), element);
  jit::BufferRef here = check(jit::host().put(jit::host_device(), element.data(), type->bytes()));
  jit::ArrayPtr made;
  if (&device == &jit::host_device()) {
    made = jit::ArrayPtr(new jit::Array(type, std::move(here)));
  } else {
    const hlo::HostLockReleased away;
    jit::BufferRef there = check(jit::bring(device, here));
    made = jit::ArrayPtr(new jit::Array(type, std::move(there), std::move(here)));
  }
  hlo::GraphLock lock;
  hlo::Node* const n = value.node();
  if (!n->data()) hlo::set_data(n, made.get(), hlo::is_open(*n));
}

}  // namespace lamina::lazy
