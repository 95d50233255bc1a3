#include "jit/cpu/window_fold.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <limits>
#include <type_traits>

#include "hlo/with_vectors.h"

namespace lamina::jit {
namespace {

using hlo::DType;

// By vectors of `kWords` 64-bit words. They go by reference: only what is inlined knows registers so wide.
template <typename T, CombineKind K, int kWords>
class Folding {
  static constexpr bool kLargest = K == CombineKind::kMaximum;
  static constexpr bool kExtreme = kLargest || K == CombineKind::kMinimum;
  static constexpr bool kFloatExtreme = kExtreme && std::is_floating_point_v<T>;
  // Sums and products wrap.
  using Lane = decltype([] {
    if constexpr (std::is_integral_v<T> && !kExtreme)
      return std::make_unsigned_t<T>{};
    else
      return T{};
  }());
  using Bits = std::conditional_t<sizeof(T) == 4, int32_t, int64_t>;
  static constexpr int64_t kN = kWords * 8 / static_cast<int64_t>(sizeof(T));
  using Vec = typename hlo::VectorOf<Lane, kN>::Type;
  // Vectors of extremes, three registers each, that share the way through the window.
  static constexpr int kSide = 4;

 public:
  static void run(T* to, const T* from, const int64_t* offsets, int64_t count, int64_t n, const T* init) {
    int64_t at = 0;
    if constexpr (kFloatExtreme)
      for (; at + kSide * kN <= n; at += kSide * kN)
        block<kSide, sizeof(Vec)>(to + at, from + at, offsets, count, init);
    for (; at + kN <= n; at += kN) block<1, sizeof(Vec)>(to + at, from + at, offsets, count, init);
    if (at == n) return;
    if (at > 0)
      block<1, sizeof(Vec)>(to + n - kN, from + n - kN, offsets, count, init);  // some once more
    else if constexpr (kWords > 1)
      Folding<T, K, kWords / 2>::run(to, from, offsets, count, n, init);
    else
      for (; at < n; ++at) block<1, sizeof(T)>(to + at, from + at, offsets, count, init);
  }

 private:
  template <int kVectors, size_t kBytes>
  static void block(T* to, const T* from, const int64_t* offsets, int64_t count, const T* init) {
    if constexpr (kFloatExtreme)
      return extremes<kVectors, kBytes>(to, from, offsets, count, init);
    else
      fold<kBytes>(to, from, offsets, count, init);
  }

  static void splat(Vec& v, const T* x) {
    for (int64_t i = 0; i < kN; ++i) v[i] = static_cast<Lane>(*x);
  }

  static void combine(Vec& a, const Vec& b) {
    if constexpr (K == CombineKind::kAdd)
      a = a + b;
    else if constexpr (K == CombineKind::kMultiply)
      a = a * b;
    else if constexpr (kLargest)
      a = a < b ? b : a;
    else
      a = b < a ? b : a;
  }

  // A NaN wins, and +0 is above -0: whether there was one, and whether all signs are the same, is noted
  // apart.
  template <int kVectors, size_t kBytes>
  static void extremes(T* to, const T* from, const int64_t* offsets, int64_t count, const T* init) {
    using Mask = typename hlo::VectorOf<Bits, kN>::Type;
    constexpr Bits kMagnitude = std::numeric_limits<Bits>::max();
    Vec best[kVectors];
    Mask signs[kVectors], nan[kVectors];
    const T* const first = from + offsets[0];
    hlo::unrolled<kVectors>([&]<int v>() {
      Vec x{};
      std::memcpy(&x, first + v * kN, kBytes);
      best[v] = x;
      signs[v] = (Mask)x;
      nan[v] = x != x;
    });
    const auto add = [&](int v, const Vec& x) __attribute__((always_inline)) {
      nan[v] |= x != x;
      if constexpr (kLargest)
        signs[v] &= (Mask)x;
      else
        signs[v] |= (Mask)x;
      combine(best[v], x);
    };
    for (int64_t k = 1; k < count; ++k) {
      const T* const row = from + offsets[k];
      for (int v = 0; v < kVectors; ++v) {
        Vec x{};
        std::memcpy(&x, row + v * kN, kBytes);
        add(v, x);
      }
    }
    for (int v = 0; v < kVectors; ++v) {
      if (init) {
        Vec x{};
        splat(x, init);
        add(v, x);
      }
      Mask bits = (Mask)best[v];
      if constexpr (kLargest)
        bits &= signs[v] | kMagnitude;
      else
        bits |= signs[v] & ~kMagnitude;
      bits = nan[v] ? std::bit_cast<Bits>(std::numeric_limits<T>::quiet_NaN()) + Mask{} : bits;
      std::memcpy(to + v * kN, &bits, kBytes);
    }
  }

  template <size_t kBytes>
  static void fold(T* to, const T* from, const int64_t* offsets, int64_t count, const T* init) {
    const auto load = [&](Vec& x, int64_t k) { std::memcpy(&x, from + offsets[k], kBytes); };
    Vec all{}, x{};
    if constexpr (std::is_integral_v<T>) {
      load(all, 0);
      for (int64_t k = 1; k < count; ++k) {
        load(x, k);
        combine(all, x);
      }
    } else {
      // The upper half of the lanes goes to the lower one, and so on.
      Vec lanes[kMostFolded / 2];
      const auto ceil = static_cast<int64_t>(std::bit_ceil(static_cast<uint64_t>(count)));
      const int64_t half = std::clamp<int64_t>(ceil / 2, 1, kMostFolded / 2);
      for (int64_t k = 0; k < half; ++k) load(lanes[k], k);
      for (int64_t k = half; k < std::min(count, 2 * half); ++k) {
        load(x, k);
        combine(lanes[k - half], x);
      }
      for (int64_t s = half / 2; s >= 1; s /= 2)
        for (int64_t k = 0; k < s; ++k) combine(lanes[k], lanes[k + s]);
      all = lanes[0];
    }
    if (init) {
      splat(x, init);
      combine(all, x);
    }
    std::memcpy(to, &all, kBytes);
  }
};

template <typename T, CombineKind K>
void fold(void* to, const void* from, const int64_t* offsets, int64_t count, int64_t n, const void* init) {
  hlo::with_lanes([&]<int kWords>() {
    Folding<T, K, kWords>::run(static_cast<T*>(to), static_cast<const T*>(from), offsets, count, n,
                               static_cast<const T*>(init));
  });
}

template <CombineKind K>
WindowFold fold_of_type(DType type) {
  switch (type) {
    case DType::kS8:
      return fold<int8_t, K>;
    case DType::kS32:
      return fold<int32_t, K>;
    case DType::kS64:
      return fold<int64_t, K>;
    case DType::kU8:
      return fold<uint8_t, K>;
    case DType::kF32:
      return fold<float, K>;
    case DType::kF64:
      return fold<double, K>;
    default:
      return nullptr;
  }
}

}  // namespace

WindowFold window_fold(CombineKind kind, DType type) {
  return with_operation(kind, [&]<CombineKind K>() { return fold_of_type<K>(type); });
}

}  // namespace lamina::jit
