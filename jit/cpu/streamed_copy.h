// Copies of bytes past the caches, where the machine has such stores.
//
// Contract: for results that are too large to be read again from a cache. A store in the usual way reads its
// line first, and where short rows are written far apart those reads wait for one another: a transpose of
// 4096x1024 floats took 8 to 10 ms with them and 1.6 to 2 without (Sapphire Rapids; a plain copy takes 1.3).
#ifndef LAMINA_JIT_CPU_STREAMED_COPY_H_
#define LAMINA_JIT_CPU_STREAMED_COPY_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>

#ifdef __SSE2__
#include <emmintrin.h>
#endif

namespace lamina::jit {

// Whether a result of so many bytes, written in short rows that are so far apart, is streamed. Below the
// first bound what reads it next finds more in the caches than is saved; between them that is so (running
// sums of the rows of 2000x1000 floats, by way of two transposes, 3.4 ms and 4.2 when streamed) unless the
// rows fall into few sets of the caches (2048x1024: 5.6 and 3.4).
inline bool is_streamed(int64_t bytes, int64_t row_step) {
  constexpr int64_t kFewest = int64_t{4} << 20, kFewestSpread = int64_t{16} << 20, kSameSets = 2048;
  return bytes >= (row_step % kSameSets == 0 ? kFewest : kFewestSpread);
}

// Whole lines of the target go past the caches, what is left at both ends does not: neighbours write to those
// lines.
inline void streamed_copy(const std::byte* from, std::byte* to, size_t bytes) {
#ifdef __SSE2__
  constexpr size_t kLine = 64, kPart = sizeof(__m128i);
  const size_t head = std::min(bytes, -reinterpret_cast<uintptr_t>(to) % kLine);
  std::memcpy(to, from, head);
  size_t at = head;
  for (; at + kLine <= bytes; at += kLine)
    for (size_t part = at; part < at + kLine; part += kPart)
      _mm_stream_si128(reinterpret_cast<__m128i*>(to + part),
                       _mm_loadu_si128(reinterpret_cast<const __m128i*>(from + part)));
  std::memcpy(to + at, from + at, bytes - at);
#else
  std::memcpy(to, from, bytes);
#endif
}

// After the last streamed copy of a thread, before others are told that the bytes are there.
inline void finish_streamed_copies() {
#ifdef __SSE2__
  _mm_sfence();
#endif
}

}  // namespace lamina::jit

#endif  // LAMINA_JIT_CPU_STREAMED_COPY_H_
