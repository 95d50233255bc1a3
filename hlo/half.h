// f16 and bf16 to f32 (exact) and back (round to nearest, ties to even), in integer code only, subnormals
// included. NaN stays NaN (quiet, sign kept).
#ifndef LAMINA_HLO_HALF_H_
#define LAMINA_HLO_HALF_H_

#include <bit>
#include <cstdint>

namespace lamina::hlo {

// The bits of an element, as a type of their own.
struct F16 {
  uint16_t bits;
};
struct BF16 {
  uint16_t bits;
};

inline float to_f32(BF16 h) { return std::bit_cast<float>(static_cast<uint32_t>(h.bits) << 16); }

inline BF16 to_bf16(float f) {
  const uint32_t u = std::bit_cast<uint32_t>(f);
  if ((u & 0x7FFFFFFF) > 0x7F800000) return {static_cast<uint16_t>((u >> 16) | 0x40)};
  return {static_cast<uint16_t>((u + 0x7FFF + ((u >> 16) & 1)) >> 16)};
}

inline float to_f32(F16 h) {
  const uint32_t sign = static_cast<uint32_t>(h.bits & 0x8000) << 16;
  const uint32_t magnitude = h.bits & 0x7FFF;
  if (magnitude >= 0x7C00)  // infinity, NaN
    return std::bit_cast<float>(sign | 0x7F800000 | (magnitude & 0x3FF) << 13 |
                                (magnitude > 0x7C00 ? 0x400000 : 0));
  if (magnitude >= 0x400) return std::bit_cast<float>(sign | ((magnitude << 13) + (112U << 23)));
  // Subnormal: magnitude * 2^-24, exact in f32.
  const float value = static_cast<float>(magnitude) * 0x1p-24F;
  return std::bit_cast<float>(sign | std::bit_cast<uint32_t>(value));
}

inline F16 to_f16(float f) {
  const uint32_t u = std::bit_cast<uint32_t>(f);
  const uint32_t sign = (u >> 16) & 0x8000;
  const uint32_t magnitude = u & 0x7FFFFFFF;
  uint32_t h;
  if (magnitude > 0x7F800000) {
    h = 0x7E00 | ((magnitude >> 13) & 0x3FF);
  } else if (magnitude >= 0x477FF000) {  // 65520 and more round to infinity
    h = 0x7C00;
  } else if (magnitude >= 0x38800000) {  // normal in f16
    h = (magnitude - (112U << 23) + 0xFFF + ((magnitude >> 13) & 1)) >> 13;
  } else if (magnitude < 0x33000000) {  // less than half of the smallest subnormal
    h = 0;
  } else {
    const uint32_t shift = 126 - (magnitude >> 23);
    const uint32_t significand = (magnitude & 0x7FFFFF) | 0x800000;
    const uint32_t rest = significand & ((1U << shift) - 1);
    const uint32_t half = 1U << (shift - 1);
    h = significand >> shift;
    if (rest > half || (rest == half && (h & 1))) ++h;
  }
  return {static_cast<uint16_t>(sign | h)};
}

}  // namespace lamina::hlo

#endif  // LAMINA_HLO_HALF_H_
