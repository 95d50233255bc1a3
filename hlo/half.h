// Storage-only 16-bit floats and conversions that round once.
//
// Contract: every conversion is branch-free, keeps subnormals, keeps NaN a NaN, and rounds to nearest even
// exactly once from the source value (wider sources go through a round-to-odd step, which loses no rounding
// information).
#ifndef LAMINA_HLO_HALF_H_
#define LAMINA_HLO_HALF_H_

#include <bit>
#include <cstdint>

namespace lamina::hlo {

struct F16 {
  uint16_t bits;
};
struct BF16 {
  uint16_t bits;
};

[[gnu::always_inline]] inline float to_f32(BF16 x) {
  return std::bit_cast<float>(static_cast<uint32_t>(x.bits) << 16);
}

[[gnu::always_inline]] inline float to_f32(F16 x) {
  const uint32_t sign = static_cast<uint32_t>(x.bits & 0x8000u) << 16;
  const uint32_t magnitude = x.bits & 0x7fffu;
  // Normal: rebias the exponent by 112; the multiplication does it exactly for subnormals too.
  const float scaled = std::bit_cast<float>(magnitude << 13) * 0x1p112f;
  const uint32_t special = (magnitude << 13) | 0x7f800000u;
  const uint32_t bits = magnitude >= 0x7c00u ? special : std::bit_cast<uint32_t>(scaled);
  return std::bit_cast<float>(bits | sign);
}

[[gnu::always_inline]] inline BF16 to_bf16(float x) {
  const uint32_t bits = std::bit_cast<uint32_t>(x);
  const uint32_t rounded = (bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16;
  const uint32_t quiet = (bits >> 16) | 0x40u;
  return {static_cast<uint16_t>((bits & 0x7fffffffu) > 0x7f800000u ? quiet : rounded)};
}

[[gnu::always_inline]] inline F16 to_f16(float x) {
  const uint32_t bits = std::bit_cast<uint32_t>(x);
  const uint32_t sign = (bits >> 16) & 0x8000u;
  const uint32_t magnitude = bits & 0x7fffffffu;
  // Below 2^-14: adding 0.5 aligns the last bit kept with bit 0 of the sum, and the addition rounds.
  const float aligned = std::bit_cast<float>(magnitude < 0x38800000u ? magnitude : 0u) + 0.5f;
  const uint32_t subnormal = std::bit_cast<uint32_t>(aligned) - 0x3f000000u;
  const uint32_t normal = (magnitude - 0x38000000u + 0xfffu + ((magnitude >> 13) & 1u)) >> 13;
  const uint32_t finite = magnitude < 0x38800000u ? subnormal : normal;
  const uint32_t large = magnitude > 0x7f800000u ? 0x7e00u : 0x7c00u;
  const uint32_t result = magnitude >= 0x477ff000u ? large : finite;
  return {static_cast<uint16_t>(result | sign)};
}

// f64 to f32 rounded to odd: an inexact result gets the last bit 1.
[[gnu::always_inline]] inline float to_f32_odd(double x) {
  const float nearest = static_cast<float>(x);
  const uint32_t bits = std::bit_cast<uint32_t>(nearest);
  const double back = nearest;
  const double magnitude = x < 0 ? -x : x;
  const double back_magnitude = back < 0 ? -back : back;
  const uint32_t other = back_magnitude > magnitude ? bits - 1 : bits + 1;
  const bool keep = back == x || x != x || (bits & 1u) != 0;
  return std::bit_cast<float>(keep ? bits : other);
}

[[gnu::always_inline]] inline double magnitude_to_f64_odd(uint64_t x) {
  const uint64_t sticky = (x & 0x7ffu) != 0 ? 0x800u : 0u;
  return static_cast<double>(x >> 53 != 0 ? (x & ~uint64_t{0x7ff}) | sticky : x);
}

// Any integer as a double that rounds to f32, f16 or bf16 as the integer itself does.
[[gnu::always_inline]] inline double to_f64_odd(uint64_t x) { return magnitude_to_f64_odd(x); }
[[gnu::always_inline]] inline double to_f64_odd(int64_t x) {
  const uint64_t bits = static_cast<uint64_t>(x);
  const double magnitude = magnitude_to_f64_odd(x < 0 ? uint64_t{0} - bits : bits);
  return x < 0 ? -magnitude : magnitude;
}

}  // namespace lamina::hlo

#endif  // LAMINA_HLO_HALF_H_
