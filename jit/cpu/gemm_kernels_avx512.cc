// The AVX-512 kernels. The whole file is compiled for that target; only code of this file may run under it,
// so that no inline function of a header gets an AVX-512 copy that the linker could pick for all.
#include <utility>

#include "jit/cpu/gemm_kernels.h"

#if defined(__x86_64__)
#include <immintrin.h>

#pragma GCC push_options
#pragma GCC target("avx512f,avx512bw,avx2,fma")

namespace lamina::jit {
namespace {

template <typename T>
struct Lanes;

template <>
struct Lanes<float> {
  using Vec = __m512;
  using Mask = __mmask16;
  static constexpr int kWidth = 16;
  static Vec broadcast(float x) { return _mm512_set1_ps(x); }
  static Vec fma(Vec a, Vec b, Vec c) { return _mm512_fmadd_ps(a, b, c); }
  static Vec add(Vec a, Vec b) { return _mm512_add_ps(a, b); }
  static Mask mask(int64_t n) { return static_cast<Mask>((1U << n) - 1); }
  static Vec load(const float* p) { return _mm512_loadu_ps(p); }
  static Vec load(const float* p, Mask m) { return _mm512_maskz_loadu_ps(m, p); }
  static void store(float* p, Vec v) { _mm512_storeu_ps(p, v); }
  static void store(float* p, Vec v, Mask m) { _mm512_mask_storeu_ps(p, m, v); }
};

template <>
struct Lanes<double> {
  using Vec = __m512d;
  using Mask = __mmask8;
  static constexpr int kWidth = 8;
  static Vec broadcast(double x) { return _mm512_set1_pd(x); }
  static Vec fma(Vec a, Vec b, Vec c) { return _mm512_fmadd_pd(a, b, c); }
  static Vec add(Vec a, Vec b) { return _mm512_add_pd(a, b); }
  static Mask mask(int64_t n) { return static_cast<Mask>((1U << n) - 1); }
  static Vec load(const double* p) { return _mm512_loadu_pd(p); }
  static Vec load(const double* p, Mask m) { return _mm512_maskz_loadu_pd(m, p); }
  static void store(double* p, Vec v) { _mm512_storeu_pd(p, v); }
  static void store(double* p, Vec v, Mask m) { _mm512_mask_storeu_pd(p, m, v); }
};

// Vectors of 32-bit integers.
template <typename T>
struct IntegerLanes {
  using Vec = __m512i;
  using Mask = __mmask16;
  static constexpr int kWidth = 16;
  static Vec broadcast(T x) { return _mm512_set1_epi32(static_cast<int>(x)); }
  static Vec add(Vec a, Vec b) { return _mm512_add_epi32(a, b); }
  static Mask mask(int64_t n) { return Lanes<float>::mask(n); }
  static Vec load(const T* p) { return _mm512_loadu_si512(p); }
  static Vec load(const T* p, Mask m) { return _mm512_maskz_loadu_epi32(m, p); }
  static void store(T* p, Vec v) { _mm512_storeu_si512(p, v); }
  static void store(T* p, Vec v, Mask m) { _mm512_mask_storeu_epi32(p, m, v); }
};
template <>
struct Lanes<uint32_t> : IntegerLanes<uint32_t> {
  static Vec fma(Vec a, Vec b, Vec c) { return add(_mm512_mullo_epi32(a, b), c); }
};
template <>
struct Lanes<Int16Pair> : IntegerLanes<Int16Pair> {
  static Vec fma(Vec a, Vec b, Vec c) { return add(_mm512_madd_epi16(a, b), c); }
};

// With masks of all lanes: GCC 12 takes the unmasked ones for uses of what is not set.
inline __m512 load_f16(const uint16_t* p) {
  return _mm512_maskz_cvtph_ps(0xFFFF, _mm256_loadu_si256(reinterpret_cast<const __m256i*>(p)));
}
inline __m512 load_bf16(const uint16_t* p) {
  const __m256i halves = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(p));
  const __m512i wide = _mm512_maskz_cvtepu16_epi32(0xFFFF, halves);
  return _mm512_castsi512_ps(_mm512_maskz_slli_epi32(0xFFFF, wide, 16));
}

constexpr int kWideRows = 6;
constexpr int kInPlaceRows = 8;
constexpr int kVectorColumns = 16;

#include "jit/cpu/gemm_tile.inc"

}  // namespace

const GemmKernels<float>& gemm_kernels_avx512_f32() {
  static constexpr GemmKernels<float> kernels = make_kernels<float, 14>();
  return kernels;
}
const GemmKernels<double>& gemm_kernels_avx512_f64() {
  static constexpr GemmKernels<double> kernels = make_kernels<double, 14>();
  return kernels;
}

void add_avx512_tiles(GemmKernels<Int16Pair>& kernels) { add_tiles<Int16Pair, 14>(kernels); }
void add_avx512_tiles(GemmKernels<uint32_t>& kernels) { add_tiles<uint32_t, 14>(kernels); }

}  // namespace lamina::jit

#pragma GCC pop_options
#endif
