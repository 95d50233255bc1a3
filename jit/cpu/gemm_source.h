// Sources of gemm.h over arrays in memory.
#ifndef LAMINA_JIT_CPU_GEMM_SOURCE_H_
#define LAMINA_JIT_CPU_GEMM_SOURCE_H_

#include <algorithm>
#include <complex>
#include <cstdint>

#include "hlo/reference_chain.h"
#include "jit/cpu/gemm.h"

namespace lamina::jit {

// How results of type `out` are summed and stored: real.operator()<Sum, Out>(store) with `store` from Sum to
// Out, or complex.operator()<Part>().
template <typename Real, typename Complex>
absl::Status with_result_type(hlo::DType out, Real real, Complex complex) {
  using hlo::DType;
  const auto as_summed = [&]<typename T>() { return real.template operator()<T, T>([](T x) { return x; }); };
  switch (out) {
    case DType::kF32:
      return as_summed.template operator()<float>();
    case DType::kF64:
      return as_summed.template operator()<double>();
    case DType::kF16:
    case DType::kBF16:
      return real.template operator()<float, uint16_t>(StoreHalf{out == DType::kBF16});
    case DType::kC64:
      return complex.template operator()<float>();
    case DType::kC128:
      return complex.template operator()<double>();
    default:
      break;
  }
  switch (hlo::byte_size(out)) {
    case 1:
      return as_summed.template operator()<uint8_t>();
    case 2:
      return as_summed.template operator()<uint16_t>();
    case 4:
      return as_summed.template operator()<uint32_t>();
    default:
      return as_summed.template operator()<uint64_t>();
  }
}

// Calls f.template operator()<Src>() with the memory type of `t`, a type whose elements load as T.
template <typename T, typename F>
void with_memory_type(hlo::DType t, F f) {
  using hlo::DType;
  if constexpr (std::is_same_v<T, float>) {
    if (t == DType::kF16) return f.template operator()<hlo::F16>();
    if (t == DType::kBF16) return f.template operator()<hlo::BF16>();
    return f.template operator()<float>();
  } else if constexpr (std::is_integral_v<T>) {
    switch (t) {
      case DType::kS8:
        return f.template operator()<int8_t>();
      case DType::kS16:
        return f.template operator()<int16_t>();
      case DType::kS32:
        return f.template operator()<int32_t>();
      case DType::kU8:
        return f.template operator()<uint8_t>();
      case DType::kU16:
        return f.template operator()<uint16_t>();
      case DType::kU32:
        return f.template operator()<uint32_t>();
      default:
        return f.template operator()<uint64_t>();
    }
  } else {
    return f.template operator()<T>();
  }
}

template <typename T, typename Src>
inline T widen(Src x) {
  if constexpr (std::is_same_v<Src, hlo::F16> || std::is_same_v<Src, hlo::BF16>)
    return hlo::to_f32(x);
  else
    return static_cast<T>(x);
}

// Whether memory of type `t` holds T itself (integers: the same width).
template <typename T>
bool loads_unchanged(hlo::DType t) {
  return hlo::byte_size(t) == static_cast<int64_t>(sizeof(T));
}

// A matrix with any two strides, in elements.
template <typename T>
struct StridedSource {
  const char* data;
  hlo::DType type;
  int64_t outer_stride;
  int64_t k_stride;

  int64_t direct_ld() const {
    return outer_stride == 1 && k_stride >= 0 && loads_unchanged<T>(type) ? k_stride : -1;
  }
  int64_t direct_lda() const {
    return k_stride == 1 && outer_stride >= 0 && loads_unchanged<T>(type) ? outer_stride : -1;
  }
  const T* direct(int64_t outer0, int64_t k0) const {
    return reinterpret_cast<const T*>(data) + outer0 * outer_stride + k0 * k_stride;
  }

  MemoryRows rows_of(int64_t outer0, int64_t outer, int64_t k0, int64_t kc) const {
    const int64_t width = hlo::byte_size(type);
    const char* const from = data + (outer0 * outer_stride + k0 * k_stride) * width;
    if (outer_stride == 1) return {from, kc, outer * width, k_stride * width};
    if (k_stride == 1) return {from, outer, kc * width, outer_stride * width};
    return {};
  }

  // pack() of as many columns as it takes, whole tiles of `width`, `pitch` apart: how many. Columns that lie
  // side by side are read by long runs: one tile's part of a row is a cache line or two, far from that of the
  // next.
  int64_t pack_runs(T* dst, int64_t pitch, int64_t width, int64_t outer0, int64_t outer, int64_t k0,
                    int64_t kc) const {
    const int64_t bytes = width * static_cast<int64_t>(sizeof(T)), tiles = outer / width;
    if (outer_stride != 1 || !loads_unchanged<T>(type) || bytes % kLineBytes != 0 || tiles < 2) return 0;
    for (int64_t first = 0; first < tiles; first += kTilesPerRun) {
      const int64_t last = std::min(first + kTilesPerRun, tiles);
      for (int64_t k = 0; k < kc; ++k) {
        const char* from = reinterpret_cast<const char*>(direct(outer0 + first * width, k0 + k));
        for (int64_t t = first; t < last; ++t, from += bytes) {
          char* const to = reinterpret_cast<char*>(dst + t * pitch + k * width);
          for (int64_t at = 0; at < bytes; at += kLineBytes) std::memcpy(to + at, from + at, kLineBytes);
        }
      }
    }
    return tiles * width;
  }

  // `kernels` may be null (complex elements have none).
  void pack(const GemmKernels<T>* kernels, T* dst, int64_t ld, int64_t outer0, int64_t outer, int64_t k0,
            int64_t kc) const {
    if (loads_unchanged<T>(type)) {
      const T* src = direct(outer0, k0);
      if (outer == 1 && ld == 1 && k_stride == 1) {
        std::copy_n(src, kc, dst);
        return;
      }
      if (outer_stride == 1 && (outer > 1 || k_stride != 1)) {
        for (int64_t k = 0; k < kc; ++k) std::copy_n(src + k * k_stride, outer, dst + k * ld);
        return;
      }
      if (k_stride == 1 && kernels) return kernels->transpose(dst, ld, src, outer_stride, outer, kc);
    }
    if constexpr (std::is_same_v<T, float>) {
      if (!loads_unchanged<T>(type) && kernels && kernels->widen_f16 && (outer_stride == 1 || k_stride == 1))
        return pack_halves(*kernels, dst, ld, outer0, outer, k0, kc);
    }
    with_memory_type<T>(type, [&]<typename Src>() {
      const Src* src = reinterpret_cast<const Src*>(data) + outer0 * outer_stride + k0 * k_stride;
      for (int64_t k = 0; k < kc; ++k)
        for (int64_t r = 0; r < outer; ++r) dst[k * ld + r] = widen<T>(src[r * outer_stride + k * k_stride]);
    });
  }

 private:
  // Of f16 or bf16, of which one stride is 1.
  void pack_halves(const GemmKernels<float>& kernels, float* dst, int64_t ld, int64_t outer0, int64_t outer,
                   int64_t k0, int64_t kc) const {
    const auto widen = type == hlo::DType::kF16 ? kernels.widen_f16 : kernels.widen_bf16;
    const uint16_t* const src =
        reinterpret_cast<const uint16_t*>(data) + outer0 * outer_stride + k0 * k_stride;
    if (outer_stride == 1) {
      for (int64_t k = 0; k < kc; ++k) widen(dst + k * ld, src + k * k_stride, outer);
      return;
    }
    constexpr int64_t kRows = 16, kColumns = 128;
    float rows[kRows * kColumns];
    for (int64_t r = 0; r < outer; r += kRows)
      for (int64_t k = 0; k < kc; k += kColumns) {
        const int64_t height = std::min(kRows, outer - r), width = std::min(kColumns, kc - k);
        for (int64_t i = 0; i < height; ++i)
          widen(rows + i * kColumns, src + (r + i) * outer_stride + k, width);
        kernels.transpose(dst + k * ld + r, ld, rows, kColumns, height, width);
      }
  }
};

// A matrix of bytes with any two strides, the terms two by two.
template <typename Byte>
struct PairSource {
  const Byte* data;
  int64_t outer_stride, k_stride;
  int64_t terms;  // in a row

  int64_t direct_ld() const { return -1; }
  int64_t direct_lda() const { return -1; }
  const Int16Pair* direct(int64_t, int64_t) const { return nullptr; }
  void pack(const GemmKernels<Int16Pair>* kernels, Int16Pair* dst, int64_t ld, int64_t outer0, int64_t outer,
            int64_t k0, int64_t kc) const {
    if (k_stride == 1) return pack_rows(*kernels, dst, ld, outer0, outer, k0, kc);
    const auto pair = [](Byte low, Byte high) {
      return static_cast<Int16Pair>(static_cast<uint32_t>(static_cast<uint16_t>(low)) |
                                    static_cast<uint32_t>(high) << 16);
    };
    for (int64_t k = 0; k < kc; ++k) {
      const Byte* const low = data + outer0 * outer_stride + 2 * (k0 + k) * k_stride;
      const Byte* const high = low + k_stride;
      Int16Pair* const to = dst + k * ld;
      if (2 * (k0 + k) + 1 == terms)
        for (int64_t r = 0; r < outer; ++r) to[r] = pair(low[r * outer_stride], 0);
      else if (outer_stride == 1)
        for (int64_t r = 0; r < outer; ++r) to[r] = pair(low[r], high[r]);
      else
        for (int64_t r = 0; r < outer; ++r) to[r] = pair(low[r * outer_stride], high[r * outer_stride]);
    }
  }

 private:
  // Of rows whose bytes lie side by side: a pair is a byte and the next one, each made twice as wide.
  void pack_rows(const GemmKernels<Int16Pair>& kernels, Int16Pair* dst, int64_t ld, int64_t outer0,
                 int64_t outer, int64_t k0, int64_t kc) const {
    constexpr int64_t kRows = 16, kPairs = 128;
    Int16Pair rows[kRows * kPairs];
    for (int64_t r = 0; r < outer; r += kRows)
      for (int64_t k = 0; k < kc; k += kPairs) {
        const int64_t height = std::min(kRows, outer - r), width = std::min(kPairs, kc - k);
        const int64_t bytes = std::min(2 * width, terms - 2 * (k0 + k));
        for (int64_t i = 0; i < height; ++i) {
          const Byte* const from = data + (outer0 + r + i) * outer_stride + 2 * (k0 + k);
          int16_t wide[2 * kPairs];
          if (bytes < 2 * width) wide[bytes] = 0;
          std::copy_n(from, bytes, wide);
          std::memcpy(rows + i * kPairs, wide, static_cast<size_t>(width) * sizeof(Int16Pair));
        }
        kernels.transpose(dst + k * ld + r, ld, rows, kPairs, height, width);
      }
  }
};

// Complex products as real ones of twice the rows of k and twice the columns. Row 2k of A holds the real, row
// 2k + 1 the imaginary parts; B has [re, im] over [-im, re].
inline constexpr int64_t kComplexPanel = 32;

template <typename P, typename Inner>
struct ComplexRows {
  Inner inner;

  int64_t direct_lda() const { return -1; }
  const P* direct(int64_t, int64_t) const { return nullptr; }
  void pack(const GemmKernels<P>*, P* dst, int64_t ld, int64_t outer0, int64_t outer, int64_t k0,
            int64_t kc) const {
    std::complex<P> panel[kComplexPanel * kMaxTileRows];
    for (int64_t at = 0; at < kc / 2; at += kComplexPanel) {
      const int64_t count = std::min(kComplexPanel, kc / 2 - at);
      inner.pack(nullptr, panel, outer, outer0, outer, k0 / 2 + at, count);
      for (int64_t k = 0; k < count; ++k)
        for (int64_t r = 0; r < outer; ++r) {
          const std::complex<P> x = panel[k * outer + r];
          dst[2 * (at + k) * ld + r] = x.real();
          dst[(2 * (at + k) + 1) * ld + r] = x.imag();
        }
    }
  }
};

template <typename P, typename Inner>
struct ComplexCols {
  Inner inner;

  int64_t direct_ld() const { return -1; }
  const P* direct(int64_t, int64_t) const { return nullptr; }
  void pack(const GemmKernels<P>*, P* dst, int64_t ld, int64_t outer0, int64_t outer, int64_t k0,
            int64_t kc) const {
    std::complex<P> panel[kComplexPanel * kMaxTileVecs * (64 / sizeof(P)) / 2];
    for (int64_t at = 0; at < kc / 2; at += kComplexPanel) {
      const int64_t count = std::min(kComplexPanel, kc / 2 - at);
      const int64_t width = outer / 2;
      inner.pack(nullptr, panel, width, outer0 / 2, width, k0 / 2 + at, count);
      for (int64_t k = 0; k < count; ++k) {
        P* const re = dst + 2 * (at + k) * ld;
        P* const im = re + ld;
        for (int64_t j = 0; j < width; ++j) {
          const std::complex<P> y = panel[k * width + j];
          re[2 * j] = y.real();
          re[2 * j + 1] = y.imag();
          im[2 * j] = -y.imag();
          im[2 * j + 1] = y.real();
        }
      }
    }
  }
};

}  // namespace lamina::jit

#endif  // LAMINA_JIT_CPU_GEMM_SOURCE_H_
