// The AVX2+FMA kernels; see gemm_kernels_avx512.cc for how the target is set.
#include <utility>

#include "hlo/half.h"
#include "jit/cpu/gemm_kernels.h"

#if defined(__x86_64__)
#include <immintrin.h>

#pragma GCC push_options
#pragma GCC target("avx2,fma,f16c")

namespace lamina::jit {
namespace {

// A window of n ones: the mask of the first n lanes begins at kMaskBits + 8 - n.
alignas(64) constexpr int32_t kMaskBits[16] = {-1, -1, -1, -1, -1, -1, -1, -1, 0, 0, 0, 0, 0, 0, 0, 0};

// The first elements of a vector, as many as `mask` has ones. Masked stores are many operations on some
// processors.
inline void store_first(float* p, __m256 v, __m256i mask) {
  const int n = __builtin_popcount(static_cast<unsigned>(_mm256_movemask_ps(_mm256_castsi256_ps(mask))));
  __m128 part = _mm256_castps256_ps128(v);
  if (n & 4) {
    _mm_storeu_ps(p, part);
    part = _mm256_extractf128_ps(v, 1);
    p += 4;
  }
  if (n & 2) {
    _mm_storel_pi(reinterpret_cast<__m64*>(p), part);
    part = _mm_movehl_ps(part, part);
    p += 2;
  }
  if (n & 1) _mm_store_ss(p, part);
}

template <typename T>
struct Lanes;

template <>
struct Lanes<float> {
  using Vec = __m256;
  using Mask = __m256i;
  static constexpr int kWidth = 8;
  static Vec broadcast(float x) { return _mm256_set1_ps(x); }
  static Vec fma(Vec a, Vec b, Vec c) { return _mm256_fmadd_ps(a, b, c); }
  static Vec add(Vec a, Vec b) { return _mm256_add_ps(a, b); }
  static Mask mask(int64_t n) {
    return _mm256_loadu_si256(reinterpret_cast<const __m256i*>(kMaskBits + 8 - n));
  }
  static Vec load(const float* p) { return _mm256_loadu_ps(p); }
  static Vec load(const float* p, Mask m) { return _mm256_maskload_ps(p, m); }
  static void store(float* p, Vec v) { _mm256_storeu_ps(p, v); }
  static void store(float* p, Vec v, Mask m) { store_first(p, v, m); }
};

template <>
struct Lanes<double> {
  using Vec = __m256d;
  using Mask = __m256i;
  static constexpr int kWidth = 4;
  static Vec broadcast(double x) { return _mm256_set1_pd(x); }
  static Vec fma(Vec a, Vec b, Vec c) { return _mm256_fmadd_pd(a, b, c); }
  static Vec add(Vec a, Vec b) { return _mm256_add_pd(a, b); }
  static Mask mask(int64_t n) {
    return _mm256_loadu_si256(reinterpret_cast<const __m256i*>(kMaskBits + 8 - 2 * n));
  }
  static Vec load(const double* p) { return _mm256_loadu_pd(p); }
  static Vec load(const double* p, Mask m) { return _mm256_maskload_pd(p, m); }
  static void store(double* p, Vec v) { _mm256_storeu_pd(p, v); }
  static void store(double* p, Vec v, Mask m) {
    store_first(reinterpret_cast<float*>(p), _mm256_castpd_ps(v), m);
  }
};

// Vectors of 32-bit integers.
template <typename T>
struct IntegerLanes {
  using Vec = __m256i;
  using Mask = __m256i;
  static constexpr int kWidth = 8;
  static Vec broadcast(T x) { return _mm256_set1_epi32(static_cast<int>(x)); }
  static Vec add(Vec a, Vec b) { return _mm256_add_epi32(a, b); }
  static Mask mask(int64_t n) { return Lanes<float>::mask(n); }
  static Vec load(const T* p) { return _mm256_loadu_si256(reinterpret_cast<const __m256i*>(p)); }
  static Vec load(const T* p, Mask m) { return _mm256_maskload_epi32(reinterpret_cast<const int*>(p), m); }
  static void store(T* p, Vec v) { _mm256_storeu_si256(reinterpret_cast<__m256i*>(p), v); }
  static void store(T* p, Vec v, Mask m) {
    store_first(reinterpret_cast<float*>(p), _mm256_castsi256_ps(v), m);
  }
};
template <>
struct Lanes<uint32_t> : IntegerLanes<uint32_t> {
  static Vec fma(Vec a, Vec b, Vec c) { return add(_mm256_mullo_epi32(a, b), c); }
};
template <>
struct Lanes<Int16Pair> : IntegerLanes<Int16Pair> {
  static Vec fma(Vec a, Vec b, Vec c) { return add(_mm256_madd_epi16(a, b), c); }
};

inline __m256 load_f16(const uint16_t* p) {
  return _mm256_cvtph_ps(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p)));
}
inline __m256 load_bf16(const uint16_t* p) {
  const __m128i halves = _mm_loadu_si128(reinterpret_cast<const __m128i*>(p));
  return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_cvtepu16_epi32(halves), 16));
}

constexpr int kWideRows = 3;
constexpr int kInPlaceRows[] = {8, 6};  // of one vector and of two
constexpr int kInPlaceVecs = 0, kInPlaceBytes = 0;
constexpr int kNearBytes = 16 << 10;
constexpr int kVectorColumns = 8;

#include "jit/cpu/gemm_tile.inc"

}  // namespace

const GemmKernels<float>& gemm_kernels_avx2_f32() {
  static constexpr GemmKernels<float> kernels = make_kernels<float, 6>();
  return kernels;
}
const GemmKernels<double>& gemm_kernels_avx2_f64() {
  static constexpr GemmKernels<double> kernels = make_kernels<double, 6>();
  return kernels;
}

void add_avx2_tiles(GemmKernels<Int16Pair>& kernels) { add_tiles<Int16Pair, 6>(kernels); }
void add_avx2_tiles(GemmKernels<uint32_t>& kernels) { add_tiles<uint32_t, 6>(kernels); }

}  // namespace lamina::jit

#pragma GCC pop_options
#endif
