#include "hlo/narrow.h"

#include <array>
#include <cstring>
#include <memory>

#include "hlo/half.h"
#include "hlo/once.h"
#include "hlo/scalar/adapters.h"

namespace lamina::hlo {
namespace {

ScalarProgram conversion(DType from, DType to) {
  return scalar::record_rule(scalar::convert_rule, std::array{from}, to);
}

struct NarrowFloat {
  std::array<float, 256> values{};
  PreparedProgram from_f32;

  explicit NarrowFloat(DType t) : from_f32(conversion(DType::kF32, t)) {
    std::array<uint8_t, 256> codes;
    for (int i = 0; i < 256; ++i) codes[i] = static_cast<uint8_t>(i);
    const void* inputs[] = {codes.data()};
    void* outputs[] = {values.data()};
    interpret(conversion(t, DType::kF32), inputs, outputs, 256);
  }
};

const NarrowFloat& narrow_float(DType t) {
  static constexpr int kFirst = static_cast<int>(DType::kF4E2M1FN);
  static constinit Once<const std::vector<NarrowFloat>> all;
  return all.get([] {
    auto formats = std::make_unique<std::vector<NarrowFloat>>();
    for (int i = kFirst; i < kNumDTypes; ++i) formats->emplace_back(static_cast<DType>(i));
    return formats.release();
  })[static_cast<size_t>(static_cast<int>(t) - kFirst)];
}

}  // namespace

std::span<const float, 256> narrow_values(DType t) { return narrow_float(t).values; }

uint8_t to_narrow(DType t, float x) {
  uint8_t code = 0;
  const void* inputs[] = {&x};
  void* outputs[] = {&code};
  narrow_float(t).from_f32.run(inputs, outputs, 1);
  return code;
}

float narrow_extreme(DType t, bool greatest) {
  float best = narrow_values(t)[0];
  for (const float x : narrow_values(t))
    if (greatest ? x > best : x < best) best = x;
  return best;
}

void make_canonical(DType t, void* elements, int64_t n) {
  if (!is_narrow(t) || bit_width(t) == 8) return;
  const auto values = static_cast<uint8_t>(1u << bit_width(t));
  const auto sign = static_cast<uint8_t>(is_signed(t) ? values / 2 : 0);
  auto* const p = static_cast<uint8_t*>(elements);
  for (int64_t i = 0; i < n; ++i) p[i] = static_cast<uint8_t>(((p[i] & (values - 1)) ^ sign) - sign);
}

float element_to_f32(DType t, const void* element) {
  if (is_narrow(t)) return narrow_values(t)[*static_cast<const uint8_t*>(element)];
  if (t == DType::kF32) {
    float x;
    std::memcpy(&x, element, sizeof x);
    return x;
  }
  uint16_t bits;
  std::memcpy(&bits, element, sizeof bits);
  return t == DType::kF16 ? to_f32(F16{bits}) : to_f32(BF16{bits});
}

}  // namespace lamina::hlo
