#include "jit/cpu/window_fold.h"

#include <bit>
#include <catch2/catch.hpp>
#include <cmath>
#include <cstring>
#include <random>

namespace lamina::testing {
namespace {

using jit::CombineKind;

// The order of hlo/reduce_tree.h for lanes of one element each.
template <typename T>
T folded(CombineKind kind, hlo::DType type, std::vector<T> lanes, const T* init) {
  const jit::RowCombine combine = jit::row_combine(kind, type);
  for (size_t s = std::bit_ceil(lanes.size()) / 2; s >= 1; s /= 2) {
    for (size_t k = 0; k + s < lanes.size(); ++k) combine(&lanes[k], &lanes[k + s], 1, 1);
    lanes.resize(std::min(lanes.size(), s));
  }
  if (init) combine(lanes.data(), init, 1, 1);
  return lanes[0];
}

template <typename T>
void check_folds(hlo::DType type) {
  const T special[] = {T(0), T(-0.0), T(INFINITY), T(-INFINITY), T(NAN), std::copysign(T(NAN), T(-1))};
  std::mt19937 rng(3);
  const auto number = [&](bool zeros) {
    if (zeros) return special[rng() % 2];
    return rng() % 8 == 0 ? special[rng() % 6] : static_cast<T>(rng() % 64) / 4 - 8;
  };
  for (const CombineKind kind :
       {CombineKind::kAdd, CombineKind::kMultiply, CombineKind::kMaximum, CombineKind::kMinimum})
    for (const int64_t n : {1, 3, 8, 15, 32, 33, 64, 70, 130})
      for (const int64_t count : {1, 2, 5, 9, 16})
        for (const bool zeros : {true, false}) {
          std::vector<int64_t> offsets;
          for (int64_t k = 0; k < count; ++k) offsets.push_back(static_cast<int64_t>(rng() % 40));
          std::vector<T> x(40 + n), y(n);
          for (T& v : x) v = number(zeros);
          const T init = number(zeros);
          for (const T* end : {static_cast<const T*>(nullptr), &init}) {
            jit::window_fold(kind, type)(y.data(), x.data(), offsets.data(), count, n, end);
            for (int64_t i = 0; i < n; ++i) {
              std::vector<T> window;
              for (const int64_t offset : offsets) window.push_back(x[offset + i]);
              const T expected = folded(kind, type, window, end);
              INFO(static_cast<int>(kind) << " " << n << " " << count << " " << i);
              REQUIRE(
                  (std::isnan(expected) ? std::isnan(y[i]) : std::memcmp(&expected, &y[i], sizeof(T)) == 0));
            }
          }
        }
}

TEST_CASE("Windows that fold in registers keep the order, NaN and the signs of zeros", "[native]") {
  check_folds<float>(hlo::DType::kF32);
  check_folds<double>(hlo::DType::kF64);
}

}  // namespace
}  // namespace lamina::testing
