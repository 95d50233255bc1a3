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

// What a vector holds for elements of type T: themselves; unsigned ones where sums and products wrap;
// integers in the order of floats of which the larger is wanted.
template <typename T, bool kExtreme>
auto raw_of() {
  if constexpr (std::is_floating_point_v<T> && kExtreme)
    return std::conditional_t<sizeof(T) == 4, int32_t, int64_t>{};
  else if constexpr (std::is_integral_v<T> && !kExtreme)
    return std::make_unsigned_t<T>{};
  else
    return T{};
}

// By vectors of `kWords` 64-bit words. They go by reference: only what is inlined knows registers so wide.
template <typename T, CombineKind K, int kWords>
class Folding {
  static constexpr bool kExtreme = K == CombineKind::kMaximum || K == CombineKind::kMinimum;
  static constexpr bool kAsIntegers = kExtreme && std::is_floating_point_v<T>;
  using Raw = decltype(raw_of<T, kExtreme>());
  static constexpr int64_t kN = kWords * 8 / static_cast<int64_t>(sizeof(T));
  using Vec = typename hlo::VectorOf<Raw, kN>::Type;

 public:
  static void run(T* to, const T* from, const int64_t* offsets, int64_t count, int64_t n) {
    int64_t at = 0;
    for (; at + kN <= n; at += kN) block<sizeof(Vec)>(to, from, offsets, count, at);
    if (at == n) return;
    if (at > 0)
      block<sizeof(Vec)>(to, from, offsets, count, n - kN);  // some once more
    else if constexpr (kWords > 1)
      Folding<T, K, kWords / 2>::run(to, from, offsets, count, n);
    else
      for (; at < n; ++at) block<sizeof(T)>(to, from, offsets, count, at);
  }

 private:
  template <size_t kBytes>
  static void block(T* to, const T* from, const int64_t* offsets, int64_t count, int64_t at) {
    Vec v;
    fold(v, count, [&](Vec& x, int64_t k) { std::memcpy(&x, from + offsets[k] + at, kBytes); });
    std::memcpy(to + at, &v, kBytes);
  }

  static void combine(Vec& a, const Vec& b) {
    if constexpr (K == CombineKind::kAdd)
      a = a + b;
    else if constexpr (K == CombineKind::kMultiply)
      a = a * b;
    else if constexpr (K == CombineKind::kMaximum)
      a = a < b ? b : a;
    else
      a = b < a ? b : a;
  }

  // load(x, k) fills x, or a part of it, with elements number k.
  template <typename Load>
  static void fold(Vec& to, int64_t count, const Load& load) {
    if constexpr (kAsIntegers) {
      // A NaN wins, whatever its sign: it is noted apart.
      constexpr int kSign = static_cast<int>(sizeof(T)) * 8 - 1;
      constexpr Raw kMagnitude = std::numeric_limits<Raw>::max();
      constexpr Raw kInfinity = std::bit_cast<Raw>(std::numeric_limits<T>::infinity());
      constexpr Raw kNan = std::bit_cast<Raw>(std::numeric_limits<T>::quiet_NaN());
      Vec nan{}, best{}, x{};
      for (int64_t k = 0; k < count; ++k) {
        load(x, k);
        nan |= (x & kMagnitude) > kInfinity;
        const Vec ordered = x ^ ((x >> kSign) & kMagnitude);
        if (k == 0)
          best = ordered;
        else
          combine(best, ordered);
      }
      to = nan ? kNan + Vec{} : best ^ ((best >> kSign) & kMagnitude);
    } else if constexpr (kExtreme || std::is_integral_v<T>) {
      Vec x{};
      load(to, 0);
      for (int64_t k = 1; k < count; ++k) {
        load(x, k);
        combine(to, x);
      }
    } else {
      // The upper half of the lanes goes to the lower one, and so on.
      Vec lanes[kMostFolded / 2], x{};
      const auto ceil = static_cast<int64_t>(std::bit_ceil(static_cast<uint64_t>(count)));
      const int64_t half = std::clamp<int64_t>(ceil / 2, 1, kMostFolded / 2);
      for (int64_t k = 0; k < half; ++k) load(lanes[k], k);
      for (int64_t k = half; k < std::min(count, 2 * half); ++k) {
        load(x, k);
        combine(lanes[k - half], x);
      }
      for (int64_t s = half / 2; s >= 1; s /= 2)
        for (int64_t k = 0; k < s; ++k) combine(lanes[k], lanes[k + s]);
      to = lanes[0];
    }
  }
};

template <typename T, CombineKind K>
void fold(void* to, const void* from, const int64_t* offsets, int64_t count, int64_t n) {
  hlo::with_lanes([&]<int kWords>() {
    Folding<T, K, kWords>::run(static_cast<T*>(to), static_cast<const T*>(from), offsets, count, n);
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
