// Numbers of several small real matrices side by side: as many matrices as a vector of the machine has lanes,
// at once.
//
// Contract: an algorithm that takes Lanes for its numbers gives each lane the bits that its matrix has by
// itself. Where a number decides what is done next, lanes have a mask in place of a bool. The compiler takes
// vectors that are wider than the machine's apart number by number, so algorithms are made for each width,
// and for the instruction set that has it.
#ifndef LAMINA_HLO_LINALG_LANES_H_
#define LAMINA_HLO_LINALG_LANES_H_

#include <cstring>
#include <type_traits>

#include "hlo/linalg/host.h"
#include "hlo/with_vectors.h"

namespace lamina::hlo::linalg {

template <int N>
using Lanes = typename VectorOf<double, N>::Type;

template <typename T>
inline constexpr bool kIsLanes = !NumberType<T>;
template <typename T>
inline constexpr int kLaneCount = sizeof(T) / sizeof(double);

template <typename T>
using Mask = decltype(T{} == T{});
template <typename T>
using Real = std::conditional_t<kIsComplex<T>, double, T>;

template <typename T>
concept LanesType = kIsLanes<T>;

// By reference: how vectors are passed depends on the instruction set.
// NOLINTBEGIN(bugprone-return-const-ref-from-parameter): nobody keeps what they return
template <LanesType T>
const T& conj_of(const T& x) {
  return x;
}
template <LanesType T>
const T& real_of(const T& x) {
  return x;
}
// NOLINTEND(bugprone-return-const-ref-from-parameter)

template <LanesType T>
void take_root(T& x) {
  double each[kLaneCount<T>];
  std::memcpy(each, &x, sizeof(x));
  for (double& one : each) one = std::sqrt(one);
  std::memcpy(&x, each, sizeof(x));
}
inline void take_root(double& x) { x = std::sqrt(x); }

template <LanesType T>
void take_size(const T& x, T& size) {
  size = x < 0 ? -x : x;
}
inline void take_size(double x, double& size) { size = std::abs(x); }
inline void take_size(Complex x, double& size) { size = std::abs(x); }

// The square of the size.
template <LanesType T>
void take_norm(const T& x, T& norm) {
  norm = x * x;
}
template <NumberType T>
void take_norm(T x, double& norm) {
  norm = norm_of(x);
}

template <typename M>
bool any(const M& mask) {
  if constexpr (std::is_same_v<M, bool>) {
    return mask;
  } else {
    int64_t some = 0;
    for (size_t i = 0; i < sizeof(M) / sizeof(some); ++i) some |= mask[i];
    return some != 0;
  }
}

// How many lanes this machine has.
inline int64_t num_lanes() {
  switch (best_isa()) {
    case Isa::kAvx512:
      return 8;
    case Isa::kAvx2:
      return 4;
    default:
      return 2;
  }
}

}  // namespace lamina::hlo::linalg

#endif  // LAMINA_HLO_LINALG_LANES_H_
