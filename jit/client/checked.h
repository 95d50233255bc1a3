// Sizes that user input decides: sums and products of int64 that say when they do not fit.
//
// Contract: every element count, byte count and offset that comes from a shape goes through these helpers.
#ifndef LAMINA_JIT_CLIENT_CHECKED_H_
#define LAMINA_JIT_CLIENT_CHECKED_H_

#include <cstdint>
#include <optional>
#include <span>

namespace lamina::jit {

inline std::optional<int64_t> checked_add(int64_t a, int64_t b) {
  int64_t r;
  if (__builtin_add_overflow(a, b, &r)) return std::nullopt;
  return r;
}

inline std::optional<int64_t> checked_mul(int64_t a, int64_t b) {
  int64_t r;
  if (__builtin_mul_overflow(a, b, &r)) return std::nullopt;
  return r;
}

// The product of non-negative extents; a zero among them gives 0 whatever the others are, a negative one
// nothing.
inline std::optional<int64_t> checked_product(std::span<const int64_t> extents) {
  bool empty = false;
  for (int64_t e : extents) {
    if (e < 0) return std::nullopt;
    if (e == 0) empty = true;
  }
  if (empty) return 0;
  int64_t r = 1;
  for (int64_t e : extents)
    if (__builtin_mul_overflow(r, e, &r)) return std::nullopt;
  return r;
}

// Bytes of a dense array.
inline std::optional<int64_t> checked_bytes(std::span<const int64_t> extents, int64_t bytes_per_element) {
  const std::optional<int64_t> count = checked_product(extents);
  if (!count) return std::nullopt;
  return checked_mul(*count, bytes_per_element);
}

// `n` rounded up to a multiple of `step` (> 0).
inline std::optional<int64_t> checked_round_up(int64_t n, int64_t step) {
  const std::optional<int64_t> padded = checked_add(n, step - 1);
  if (!padded) return std::nullopt;
  return *padded / step * step;
}

}  // namespace lamina::jit

#endif  // LAMINA_JIT_CLIENT_CHECKED_H_
