#include "jit/cpu/gemm_kernels.h"

#include <algorithm>
#include <cmath>
#include <type_traits>
#include <utility>

namespace lamina::jit {
namespace {

constexpr int kPortableRows = 4;

template <typename T>
constexpr int kPortableLanes = 64 / sizeof(T);

// std::fma is correct everywhere and slow where the machine has no such instruction.
template <typename T>
T multiply_add(T a, T b, T c) {
  if constexpr (std::is_floating_point_v<T>) {
    return std::fma(a, b, c);
  } else if constexpr (std::is_same_v<T, Int16Pair>) {
    const auto product = [&](int shift) {
      const auto half = [&](T x) { return static_cast<int16_t>(static_cast<uint32_t>(x) >> shift); };
      return static_cast<uint32_t>(half(a) * half(b));
    };
    return static_cast<T>(static_cast<uint32_t>(c) + product(0) + product(16));
  } else {
    // At least 32 bits wide, so that no promotion to signed int can overflow.
    using Wide = std::conditional_t<(sizeof(T) < 4), uint32_t, T>;
    return static_cast<T>(static_cast<Wide>(a) * static_cast<Wide>(b) + static_cast<Wide>(c));
  }
}

template <typename T>
T sum(T a, T b) {
  if constexpr (std::is_same_v<T, Int16Pair>)
    return static_cast<T>(static_cast<uint32_t>(a) + static_cast<uint32_t>(b));
  else
    return static_cast<T>(a + b);
}

template <typename T, int kRows>
void tile(int64_t kc, const T* a, const T* b, int64_t ldb, T* c, int64_t ldc, int64_t n, bool first) {
  constexpr int kW = kPortableLanes<T>;
  T acc[kRows][kW];
  for (auto& row : acc)
    for (T& x : row) x = static_cast<T>(-0.0);
  for (int64_t k = 0; k < kc; ++k) {
    T bv[kW] = {};
    for (int64_t j = 0; j < n; ++j) bv[j] = b[k * ldb + j];
    for (int r = 0; r < kRows; ++r) {
      const T av = a[k * kRows + r];
      for (int64_t j = 0; j < (std::is_floating_point_v<T> ? n : kW); ++j)
        acc[r][j] = multiply_add(av, bv[j], acc[r][j]);
    }
  }
  for (int r = 0; r < kRows; ++r)
    for (int64_t j = 0; j < n; ++j) c[r * ldc + j] = first ? acc[r][j] : sum(c[r * ldc + j], acc[r][j]);
}

template <typename T>
void transpose(T* dst, int64_t ld, const T* src, int64_t stride, int64_t rows, int64_t kc) {
  for (int64_t r = 0; r < rows; ++r)
    for (int64_t k = 0; k < kc; ++k) dst[k * ld + r] = src[r * stride + k];
}

template <typename T>
void matrix_times(int64_t kc, const T* x, const T* m, int64_t j_stride, int64_t k_stride, T* c, int64_t n,
                  bool first) {
  for (int64_t j = 0; j < n; ++j) {
    T acc = static_cast<T>(-0.0);
    for (int64_t k = 0; k < kc; ++k) acc = multiply_add(x[k], m[j * j_stride + k * k_stride], acc);
    c[j] = first ? acc : sum(c[j], acc);
  }
}
template <typename T>
void rows_times(int64_t kc, const T* x, const T* m, int64_t stride, T* c, int64_t n, bool first) {
  matrix_times(kc, x, m, stride, 1, c, n, first);
}
template <typename T>
void columns_times(int64_t kc, const T* x, const T* m, int64_t stride, T* c, int64_t n, bool first) {
  matrix_times(kc, x, m, 1, stride, c, n, first);
}

template <typename T>
T vector_dot(int64_t k, int64_t block, const T* a, int64_t a_stride, const T* b, int64_t b_stride) {
  T total = static_cast<T>(-0.0);
  for (int64_t k0 = 0; k0 < k; k0 += block) {
    T acc = static_cast<T>(-0.0);
    for (int64_t at = k0; at < std::min(k, k0 + block); ++at)
      acc = multiply_add(a[at * a_stride], b[at * b_stride], acc);
    total = sum(total, acc);
  }
  return total;
}

template <typename T>
void row_dots(int64_t k, int64_t block, const T* a, int64_t a_row, const T* b, int64_t b_row, T* c,
              int64_t n) {
  for (int64_t j = 0; j < n; ++j) c[j] = vector_dot(k, block, a + j * a_row, 1, b + j * b_row, 1);
}

template <typename T>
const GemmKernels<T>& portable() {
  static constexpr GemmKernels<T> kernels = {
      .max_rows = kPortableRows,
      .lanes = kPortableLanes<T>,
      .max_vecs = 1,
      .wide_rows = 0,
      .tile = {{tile<T, 1>}, {tile<T, 2>}, {tile<T, 3>}, {tile<T, 4>}},
      .run_tile = {},
      .run_tile_across = {},
      .offset_tile = {},
      .lane_chains = {},
      .feature_chains = {},
      .transpose = transpose<T>,
      .widen_f16 = nullptr,
      .widen_bf16 = nullptr,
      .narrow_f16 = nullptr,
      .narrow_bf16 = nullptr,
      .in_place_rows = {},
      .in_place_vecs = 0,
      .in_place_bytes = 0,
      .near_bytes = 16 << 10,
      .in_place = {},
      .rows_times = rows_times<T>,
      .columns_times = columns_times<T>,
      .two_blocks_times = nullptr,
      .two_block_rows = 0,
      .tiny_dots = nullptr,
      .vector_dot = vector_dot<T>,
      .row_dots = row_dots<T>,
  };
  return kernels;
}

}  // namespace

template <typename T>
const GemmKernels<T>& gemm_kernels(hlo::Isa isa) {
#if defined(__x86_64__)
  if constexpr (std::is_same_v<T, float>) {
    if (isa == hlo::Isa::kAvx512) return gemm_kernels_avx512_f32();
    if (isa == hlo::Isa::kAvx2) return gemm_kernels_avx2_f32();
  } else if constexpr (std::is_same_v<T, double>) {
    if (isa == hlo::Isa::kAvx512) return gemm_kernels_avx512_f64();
    if (isa == hlo::Isa::kAvx2) return gemm_kernels_avx2_f64();
  } else if constexpr (std::is_same_v<T, uint32_t> || std::is_same_v<T, Int16Pair>) {
    const auto with = [](void (*add)(GemmKernels<T>&)) {
      GemmKernels<T> kernels = portable<T>();
      add(kernels);
      return kernels;
    };
    // Each is filled in by code for its own instruction set.
    if (isa == hlo::Isa::kAvx512) {
      if constexpr (std::is_same_v<T, Int16Pair>) {
        static const bool has_vnni = __builtin_cpu_supports("avx512vnni");
        if (has_vnni) {
          static const GemmKernels<T> vnni = with(add_avx512_vnni_tiles);
          return vnni;
        }
      }
      static const GemmKernels<T> avx512 = with(add_avx512_tiles);
      return avx512;
    }
    if (isa == hlo::Isa::kAvx2) {
      static const GemmKernels<T> avx2 = with(add_avx2_tiles);
      return avx2;
    }
  }
#endif
  static_cast<void>(isa);
  return portable<T>();
}

template const GemmKernels<float>& gemm_kernels<float>(hlo::Isa);
template const GemmKernels<double>& gemm_kernels<double>(hlo::Isa);
template const GemmKernels<uint8_t>& gemm_kernels<uint8_t>(hlo::Isa);
template const GemmKernels<uint16_t>& gemm_kernels<uint16_t>(hlo::Isa);
template const GemmKernels<uint32_t>& gemm_kernels<uint32_t>(hlo::Isa);
template const GemmKernels<uint64_t>& gemm_kernels<uint64_t>(hlo::Isa);
template const GemmKernels<Int16Pair>& gemm_kernels<Int16Pair>(hlo::Isa);

}  // namespace lamina::jit
