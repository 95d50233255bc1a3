// The AVX2 sorts. The whole file is compiled for that target; only code of this file may run under it, as in
// sort_kernels_avx512.cc.
#include <cstddef>
#include <utility>

#include "jit/cpu/lanes_apart.h"
#include "jit/cpu/sort_kernels.h"

#if defined(__x86_64__)
#include <immintrin.h>

#pragma GCC push_options
#pragma GCC target("avx2,popcnt")

namespace lamina::jit {
namespace {

// Lanes of 32 bits: those of a set, then the others, as they go to either end of some room.
inline void store_lanes_apart(void* low, void* high, __m256i v, unsigned lanes) {
  const __m128i numbers = _mm_loadl_epi64(reinterpret_cast<const __m128i*>(kLanesApart.of[lanes]));
  const __m256i apart = _mm256_permutevar8x32_epi32(v, _mm256_cvtepu8_epi32(numbers));
  _mm256_storeu_si256(static_cast<__m256i*>(low), apart);
  _mm256_storeu_si256(static_cast<__m256i*>(high) - 1, apart);
}

template <typename K>
struct KeyLanes;

// Keys that are not there are the greatest.
template <>
struct KeyLanes<uint32_t> {
  typedef uint32_t Vec __attribute__((vector_size(32)));
  static constexpr int kLanes = 8, kMaxRows = 8;
  static __m256i first(int64_t n) {
    const int count = n >= kLanes ? kLanes : n <= 0 ? 0 : static_cast<int>(n);
    return _mm256_cmpgt_epi32(_mm256_set1_epi32(count), _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7));
  }
  static Vec broadcast(uint32_t x) { return (Vec)_mm256_set1_epi32(static_cast<int>(x)); }
  static Vec load(const uint32_t* p) { return (Vec)_mm256_loadu_si256(reinterpret_cast<const __m256i*>(p)); }
  static Vec load(const uint32_t* p, int64_t n) {
    if (n >= kLanes) return load(p);
    const __m256i there = first(n);
    return (Vec)_mm256_or_si256(_mm256_maskload_epi32(reinterpret_cast<const int*>(p), there),
                                _mm256_xor_si256(there, _mm256_set1_epi32(-1)));
  }
  static void store(uint32_t* p, Vec v, int64_t n) {
    if (n >= kLanes)
      _mm256_storeu_si256(reinterpret_cast<__m256i*>(p), (__m256i)v);
    else
      _mm256_maskstore_epi32(reinterpret_cast<int*>(p), first(n), (__m256i)v);
  }
  static Vec min(Vec a, Vec b) { return (Vec)_mm256_min_epu32((__m256i)a, (__m256i)b); }
  static Vec max(Vec a, Vec b) { return (Vec)_mm256_max_epu32((__m256i)a, (__m256i)b); }
  static Vec other(Vec a, Vec b, Vec /*least*/) { return max(a, b); }
  template <bool kOrEqual>
  static unsigned below(Vec v, Vec pivot) {
    const Vec end = kOrEqual ? min(v, pivot) : max(v, pivot);
    const __m256i same = _mm256_cmpeq_epi32((__m256i)end, (__m256i)v);
    const auto lanes = static_cast<unsigned>(_mm256_movemask_ps(_mm256_castsi256_ps(same)));
    return kOrEqual ? lanes : lanes ^ 0xFF;
  }
  // The lanes `below` from low on, and the others up to high; what is between them may be written, too.
  static void store_apart(uint32_t* low, uint32_t* high, Vec v, unsigned below, int) {
    store_lanes_apart(low, high, (__m256i)v, below);
  }
};

// In registers the top bit is inverted: the instruction compares signed numbers.
template <>
struct KeyLanes<uint64_t> {
  typedef uint64_t Vec __attribute__((vector_size(32)));
  static constexpr int kLanes = 4, kMaxRows = 8;
  static __m256i first(int64_t n) {
    const int64_t count = n >= kLanes ? kLanes : n <= 0 ? 0 : n;
    return _mm256_cmpgt_epi64(_mm256_set1_epi64x(count), _mm256_setr_epi64x(0, 1, 2, 3));
  }
  static __m256i inverted(__m256i v) { return _mm256_xor_si256(v, _mm256_set1_epi64x(INT64_MIN)); }
  static Vec broadcast(uint64_t x) { return (Vec)inverted(_mm256_set1_epi64x(static_cast<int64_t>(x))); }
  static Vec load(const uint64_t* p) {
    return (Vec)inverted(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(p)));
  }
  static Vec load(const uint64_t* p, int64_t n) {
    if (n >= kLanes) return load(p);
    const __m256i there = first(n);
    return (Vec)inverted(_mm256_or_si256(_mm256_maskload_epi64(reinterpret_cast<const long long*>(p), there),
                                         _mm256_xor_si256(there, _mm256_set1_epi32(-1))));
  }
  static void store(uint64_t* p, Vec v, int64_t n) {
    if (n >= kLanes)
      _mm256_storeu_si256(reinterpret_cast<__m256i*>(p), inverted((__m256i)v));
    else
      _mm256_maskstore_epi64(reinterpret_cast<long long*>(p), first(n), inverted((__m256i)v));
  }
  static __m256i above(Vec a, Vec b) { return _mm256_cmpgt_epi64((__m256i)a, (__m256i)b); }
  static Vec min(Vec a, Vec b) { return (Vec)_mm256_blendv_epi8((__m256i)a, (__m256i)b, above(a, b)); }
  static Vec max(Vec a, Vec b) { return (Vec)_mm256_blendv_epi8((__m256i)b, (__m256i)a, above(a, b)); }
  static Vec other(Vec a, Vec b, Vec /*least*/) { return max(a, b); }
  template <bool kOrEqual>
  static unsigned below(Vec v, Vec pivot) {
    const __m256i is = kOrEqual ? above(v, pivot) : above(pivot, v);
    const auto lanes = static_cast<unsigned>(_mm256_movemask_pd(_mm256_castsi256_pd(is)));
    return kOrEqual ? lanes ^ 0xF : lanes;
  }
  static void store_apart(uint64_t* low, uint64_t* high, Vec v, unsigned below, int) {
    // Each lane of 64 bits is two of 32.
    constexpr uint8_t kPairs[16] = {0x00, 0x03, 0x0C, 0x0F, 0x30, 0x33, 0x3C, 0x3F,
                                    0xC0, 0xC3, 0xCC, 0xCF, 0xF0, 0xF3, 0xFC, 0xFF};
    store_lanes_apart(low, high, inverted((__m256i)v), kPairs[below]);
  }
};

#include "jit/cpu/sort_kernels.inc"

}  // namespace

const SortKernels<uint32_t>& sort_kernels_avx2(uint32_t) {
  static constexpr SortKernels<uint32_t> kernels = {&sort<uint32_t>, &split<uint32_t>};
  return kernels;
}
const SortKernels<uint64_t>& sort_kernels_avx2(uint64_t) {
  static constexpr SortKernels<uint64_t> kernels = {&sort<uint64_t>, &split<uint64_t>};
  return kernels;
}

}  // namespace lamina::jit

#pragma GCC pop_options
#endif
