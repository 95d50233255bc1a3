// The AVX-512 kernels. The whole file is compiled for that target; only code of this file may run under it,
// so that no inline function of a header gets an AVX-512 copy that the linker could pick for all.
#include <utility>

#include "hlo/half.h"
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
// With one instruction for it. Not its intrinsic: the target of the file would have to allow it everywhere.
struct PairLanesVnni : IntegerLanes<Int16Pair> {
  static Vec fma(Vec a, Vec b, Vec c) {
    asm("vpdpwssd %2, %1, %0" : "+v"(c) : "v"(a), "v"(b));
    return c;
  }
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

// The same places of each quarter of two vectors (kN: of `a`, 16 + kN: of `b`), and whole quarters: two of
// each. The intrinsics for them GCC 12 takes for uses of what is not set.
template <int k0, int k1, int k2, int k3>
inline __m512 in_quarters(__m512 a, __m512 b) {
  return __builtin_shufflevector(a, b, k0, k1, k2, k3, k0 + 4, k1 + 4, k2 + 4, k3 + 4, k0 + 8, k1 + 8, k2 + 8,
                                 k3 + 8, k0 + 12, k1 + 12, k2 + 12, k3 + 12);
}
template <int k0, int k1>
inline __m512 whole_quarters(__m512 a, __m512 b) {
  return __builtin_shufflevector(a, b, 4 * k0, 4 * k0 + 1, 4 * k0 + 2, 4 * k0 + 3, 4 * k1, 4 * k1 + 1,
                                 4 * k1 + 2, 4 * k1 + 3, 16 + 4 * k0, 17 + 4 * k0, 18 + 4 * k0, 19 + 4 * k0,
                                 16 + 4 * k1, 17 + 4 * k1, 18 + 4 * k1, 19 + 4 * k1);
}
template <int k0, int k1>
inline __m512d in_quarters(__m512d a, __m512d b) {
  return __builtin_shufflevector(a, b, k0, k1, k0 + 2, k1 + 2, k0 + 4, k1 + 4, k0 + 6, k1 + 6);
}
template <int k0, int k1>
inline __m512d whole_quarters(__m512d a, __m512d b) {
  return __builtin_shufflevector(a, b, 2 * k0, 2 * k0 + 1, 2 * k1, 2 * k1 + 1, 8 + 2 * k0, 9 + 2 * k0,
                                 8 + 2 * k1, 9 + 2 * k1);
}

// out[step * q + k] = quarter q of each of the vectors of_rows[][k].
template <int kStep, typename V>
inline void gather_quarters(const V (&of_rows)[4][kStep], V* out) {
#pragma GCC unroll 4
  for (int k = 0; k < kStep; ++k) {
    const V low = whole_quarters<0, 1>(of_rows[0][k], of_rows[1][k]);
    const V high = whole_quarters<2, 3>(of_rows[0][k], of_rows[1][k]);
    const V next_low = whole_quarters<0, 1>(of_rows[2][k], of_rows[3][k]);
    const V next_high = whole_quarters<2, 3>(of_rows[2][k], of_rows[3][k]);
    out[k] = whole_quarters<0, 2>(low, next_low);
    out[kStep + k] = whole_quarters<1, 3>(low, next_low);
    out[2 * kStep + k] = whole_quarters<0, 2>(high, next_high);
    out[3 * kStep + k] = whole_quarters<1, 3>(high, next_high);
  }
}

// out[k] = element k of each of as many rows as a vector has lanes. Every row is loaded once and whole: rows
// a power of two apart lie in one set of the first-level cache, which does not hold so many until their other
// parts are read.
inline void load_transposed(const float* src, int64_t stride, __m512* out) {
  __m512 fours[4][4];  // element 4 * q + k of four rows in quarter q of [][k]
#pragma GCC unroll 4
  for (int four = 0; four < 4; ++four) {
    const float* const row = src + 4 * four * stride;
    const __m512 a = Lanes<float>::load(row), b = Lanes<float>::load(row + stride);
    const __m512 c = Lanes<float>::load(row + 2 * stride), d = Lanes<float>::load(row + 3 * stride);
    const __m512 low_ab = in_quarters<0, 16, 1, 17>(a, b), high_ab = in_quarters<2, 18, 3, 19>(a, b);
    const __m512 low_cd = in_quarters<0, 16, 1, 17>(c, d), high_cd = in_quarters<2, 18, 3, 19>(c, d);
    fours[four][0] = in_quarters<0, 1, 16, 17>(low_ab, low_cd);
    fours[four][1] = in_quarters<2, 3, 18, 19>(low_ab, low_cd);
    fours[four][2] = in_quarters<0, 1, 16, 17>(high_ab, high_cd);
    fours[four][3] = in_quarters<2, 3, 18, 19>(high_ab, high_cd);
  }
  gather_quarters<4>(fours, out);
}

inline void load_transposed(const double* src, int64_t stride, __m512d* out) {
  __m512d twos[4][2];  // element 2 * q + k of two rows in quarter q of [][k]
#pragma GCC unroll 4
  for (int two = 0; two < 4; ++two) {
    const __m512d a = Lanes<double>::load(src + 2 * two * stride);
    const __m512d b = Lanes<double>::load(src + (2 * two + 1) * stride);
    twos[two][0] = in_quarters<0, 8>(a, b);
    twos[two][1] = in_quarters<1, 9>(a, b);
  }
  gather_quarters<2>(twos, out);
}

constexpr int kWideRows = 6;
constexpr int kInPlaceRows[] = {8, 8};  // of one vector and of two
// Eight rows of two vectors keep the multipliers busy, and take less of the first-level cache than packed
// panels.
constexpr int kInPlaceVecs = 16, kInPlaceBytes = 1 << 20;
constexpr int kNearBytes = 32 << 10;
constexpr int kVectorColumns = 16;

#include "jit/cpu/gemm_tile.inc"

// With masks of all lanes, as above.
inline __m512 lanes_of(__m512 v, const int32_t* lane) {
  return _mm512_maskz_permutexvar_ps(0xFFFF, _mm512_loadu_si512(lane), v);
}
inline __m512d lanes_of(__m512d v, const int64_t* lane) {
  return _mm512_maskz_permutexvar_pd(0xFF, _mm512_loadu_si512(lane), v);
}

template <typename T, int kTerms>
void tiny_dots_of(const TinyDots<T>& plan, int64_t count, const T* a, const T* b, T* c) {
  using L = Lanes<T>;
  const auto all = [&](int64_t size, int64_t step, int64_t n) { return L::mask(step ? n * size : size); };
  for (int64_t i = 0; i < count; i += plan.together) {
    const int64_t n = plan.together < count - i ? plan.together : count - i;
    const auto left = L::load(a + i * plan.a_step, all(plan.a_size, plan.a_step, n));
    const auto right = L::load(b + i * plan.b_step, all(plan.b_size, plan.b_step, n));
    auto sum = lanes_of(left, plan.a_lane[0]) * lanes_of(right, plan.b_lane[0]);
#pragma GCC unroll 4
    for (int k = 1; k < kTerms; ++k)
      sum = L::fma(lanes_of(left, plan.a_lane[k]), lanes_of(right, plan.b_lane[k]), sum);
    L::store(c + i * plan.c_size, sum, L::mask(n * plan.c_size));
  }
}

template <typename T>
void tiny_dots(const TinyDots<T>& plan, int64_t count, const T* a, const T* b, T* c) {
  if (plan.terms == 1) return tiny_dots_of<T, 1>(plan, count, a, b, c);
  if (plan.terms == 2) return tiny_dots_of<T, 2>(plan, count, a, b, c);
  if (plan.terms == 3) return tiny_dots_of<T, 3>(plan, count, a, b, c);
  tiny_dots_of<T, kMaxTinyTerms>(plan, count, a, b, c);
}

template <typename T>
constexpr GemmKernels<T> all_kernels() {
  GemmKernels<T> kernels = make_kernels<T, 14>();
  kernels.tiny_dots = tiny_dots<T>;
  return kernels;
}

}  // namespace

const GemmKernels<float>& gemm_kernels_avx512_f32() {
  static constexpr GemmKernels<float> kernels = all_kernels<float>();
  return kernels;
}
const GemmKernels<double>& gemm_kernels_avx512_f64() {
  static constexpr GemmKernels<double> kernels = all_kernels<double>();
  return kernels;
}

void add_avx512_tiles(GemmKernels<Int16Pair>& kernels) { add_tiles<Int16Pair, 14>(kernels); }
void add_avx512_vnni_tiles(GemmKernels<Int16Pair>& kernels) {
  add_tiles<Int16Pair, 14, PairLanesVnni>(kernels);
}
void add_avx512_tiles(GemmKernels<uint32_t>& kernels) { add_tiles<uint32_t, 14>(kernels); }

}  // namespace lamina::jit

#pragma GCC pop_options
#endif
