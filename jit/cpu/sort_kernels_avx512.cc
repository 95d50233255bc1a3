// The AVX-512 sorts. The whole file is compiled for that target; only code of this file may run under it, so
// that no inline function of a header gets an AVX-512 copy that the linker could pick for all.
#include <cstddef>
#include <utility>

#include "jit/cpu/sort_kernels.h"

#if defined(__x86_64__)
#include <immintrin.h>

#pragma GCC push_options
#pragma GCC target("avx512f,avx512bw,avx2,popcnt")

namespace lamina::jit {
namespace {

template <typename K>
struct KeyLanes;

// Minima have masks of all lanes: GCC 12 takes the unmasked ones for uses of what is not set. Keys that are
// not there are the greatest. The greater of two keys is what is left of the bits of both without the lesser
// one's: minima and maxima have one port of Intel's processors, operations on bits two.
constexpr int kLeftOfThree = 0x96;

template <>
struct KeyLanes<uint32_t> {
  typedef uint32_t Vec __attribute__((vector_size(64)));
  static constexpr int kLanes = 16, kMaxRows = 16;
  static __mmask16 first(int64_t n) {
    return n >= kLanes ? 0xFFFF : n <= 0 ? 0 : static_cast<__mmask16>((1U << n) - 1);
  }
  static Vec broadcast(uint32_t x) { return (Vec)_mm512_set1_epi32(static_cast<int>(x)); }
  static Vec load(const uint32_t* p) { return (Vec)_mm512_loadu_si512(p); }
  static Vec load(const uint32_t* p, int64_t n) {
    return (Vec)_mm512_mask_loadu_epi32(_mm512_set1_epi32(-1), first(n), p);
  }
  static void store(uint32_t* p, Vec v, int64_t n) { _mm512_mask_storeu_epi32(p, first(n), (__m512i)v); }
  static Vec min(Vec a, Vec b) { return (Vec)_mm512_maskz_min_epu32(0xFFFF, (__m512i)a, (__m512i)b); }
  static Vec other(Vec a, Vec b, Vec least) {
    return (Vec)_mm512_ternarylogic_epi32((__m512i)least, (__m512i)a, (__m512i)b, kLeftOfThree);
  }
  template <int kBit>
  static Vec parted(Vec a, Vec b) {
    constexpr __mmask16 kGreater = kBit == 1 ? 0xAAAA : kBit == 2 ? 0xCCCC : kBit == 4 ? 0xF0F0 : 0xFF00;
    return (Vec)_mm512_mask_ternarylogic_epi32((__m512i)min(a, b), kGreater, (__m512i)a, (__m512i)b,
                                               kLeftOfThree);
  }
  template <bool kOrEqual>
  static unsigned below(Vec v, Vec pivot) {
    return kOrEqual ? _mm512_cmple_epu32_mask((__m512i)v, (__m512i)pivot)
                    : _mm512_cmplt_epu32_mask((__m512i)v, (__m512i)pivot);
  }
  // The lanes `below` from low on, so many, and the others up to high; what is between them may be written,
  // too. Whole vectors and masks in front: a compressing store takes Zen 4 many times as long.
  static void store_apart(uint32_t* low, uint32_t* high, Vec v, unsigned below, int count) {
    const auto are = static_cast<__mmask16>(below);
    _mm512_storeu_si512(low, _mm512_maskz_compress_epi32(are, (__m512i)v));
    _mm512_mask_storeu_epi32(high - kLanes + count, static_cast<__mmask16>(0xFFFF >> count),
                             _mm512_maskz_compress_epi32(_knot_mask16(are), (__m512i)v));
  }
};

template <>
struct KeyLanes<uint64_t> {
  typedef uint64_t Vec __attribute__((vector_size(64)));
  static constexpr int kLanes = 8, kMaxRows = 16;
  static __mmask8 first(int64_t n) {
    return n >= kLanes ? 0xFF : n <= 0 ? 0 : static_cast<__mmask8>((1U << n) - 1);
  }
  static Vec broadcast(uint64_t x) { return (Vec)_mm512_set1_epi64(static_cast<int64_t>(x)); }
  static Vec load(const uint64_t* p) { return (Vec)_mm512_loadu_si512(p); }
  static Vec load(const uint64_t* p, int64_t n) {
    return (Vec)_mm512_mask_loadu_epi64(_mm512_set1_epi64(-1), first(n), p);
  }
  static void store(uint64_t* p, Vec v, int64_t n) { _mm512_mask_storeu_epi64(p, first(n), (__m512i)v); }
  static Vec min(Vec a, Vec b) { return (Vec)_mm512_maskz_min_epu64(0xFF, (__m512i)a, (__m512i)b); }
  static Vec other(Vec a, Vec b, Vec least) {
    return (Vec)_mm512_ternarylogic_epi64((__m512i)least, (__m512i)a, (__m512i)b, kLeftOfThree);
  }
  template <int kBit>
  static Vec parted(Vec a, Vec b) {
    constexpr __mmask8 kGreater = kBit == 1 ? 0xAA : kBit == 2 ? 0xCC : 0xF0;
    return (Vec)_mm512_mask_ternarylogic_epi64((__m512i)min(a, b), kGreater, (__m512i)a, (__m512i)b,
                                               kLeftOfThree);
  }
  template <bool kOrEqual>
  static unsigned below(Vec v, Vec pivot) {
    return kOrEqual ? _mm512_cmple_epu64_mask((__m512i)v, (__m512i)pivot)
                    : _mm512_cmplt_epu64_mask((__m512i)v, (__m512i)pivot);
  }
  static void store_apart(uint64_t* low, uint64_t* high, Vec v, unsigned below, int count) {
    const auto are = static_cast<__mmask8>(below);
    _mm512_storeu_si512(low, _mm512_maskz_compress_epi64(are, (__m512i)v));
    _mm512_mask_storeu_epi64(
        high - kLanes + count, static_cast<__mmask8>(0xFF >> count),
        _mm512_maskz_compress_epi64(static_cast<__mmask8>(_knot_mask16(are)), (__m512i)v));
  }
};

#include "jit/cpu/sort_kernels.inc"

}  // namespace

const SortKernels<uint32_t>& sort_kernels_avx512(uint32_t) {
  static constexpr SortKernels<uint32_t> kernels = {&sort<uint32_t>, &split<uint32_t>};
  return kernels;
}
const SortKernels<uint64_t>& sort_kernels_avx512(uint64_t) {
  static constexpr SortKernels<uint64_t> kernels = {&sort<uint64_t>, &split<uint64_t>};
  return kernels;
}

}  // namespace lamina::jit

#pragma GCC pop_options
#endif
