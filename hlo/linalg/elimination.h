// Factorizations by elimination and solutions by substitution, of small matrices: LAPACK's algorithms without
// blocks.
//
// Contract: elements are double, Complex, or Lanes: as many real matrices as there are lanes, at once. A lane
// has the bits that its matrix has by itself: nothing but the choice of rows is done lane by lane.
#ifndef LAMINA_HLO_LINALG_ELIMINATION_H_
#define LAMINA_HLO_LINALG_ELIMINATION_H_

#include <array>
#include <utility>
#include <vector>

#include "hlo/linalg/host.h"

namespace lamina::hlo::linalg {

inline constexpr int kLanes = 8;
typedef double Lanes __attribute__((vector_size(kLanes * sizeof(double))));
typedef int64_t LaneMask __attribute__((vector_size(kLanes * sizeof(int64_t))));
template <typename T>
inline constexpr bool kIsLanes = std::is_same_v<T, Lanes>;

// By reference: how vectors are passed depends on the instruction set.
inline const Lanes& conj_of(const Lanes& x) { return x; }
inline const Lanes& real_of(const Lanes& x) { return x; }
inline void take_root(Lanes& x) {
  for (int i = 0; i < kLanes; ++i) x[i] = std::sqrt(x[i]);
}
inline void take_root(double& x) { x = std::sqrt(x); }

inline bool any(const LaneMask& x) {
  int64_t some = 0;
  for (int i = 0; i < kLanes; ++i) some |= x[i];
  return some != 0;
}
inline bool all(bool x) { return x; }
inline bool all(const LaneMask& x) { return !any(~x); }

// What LAPACK compares pivots by.
inline double pivot_size(double x) { return std::abs(x); }
inline double pivot_size(Complex x) { return std::abs(x.real()) + std::abs(x.imag()); }

template <typename T>
void add_multiple(T* to, const T* from, const T& x, int64_t first, int64_t last) {
  for (int64_t i = first; i < last; ++i) to[i] += x * from[i];
}

template <typename T>
using Mask = std::conditional_t<kIsLanes<T>, LaneMask, bool>;

// The lower triangle becomes the factor; the upper one is left as it is. `positive`: whether there is one.
template <typename T>
void eliminate_symmetric(Matrix<T>& a, Mask<T>& positive) {
  const int64_t n = a.rows;
  positive = real_of(T{}) == real_of(T{});
  for (int64_t j = 0; j < n; ++j) {
    T* column = a.column(j);
    for (int64_t k = 0; k < j; ++k) add_multiple(column, a.column(k), -conj_of(a.at(j, k)), j, n);
    auto root = real_of(column[j]);
    positive &= root > 0;
    take_root(root);
    column[j] = T{} + root;
    const auto inverse = 1 / root;  // one division, as LAPACK
    for (int64_t i = j + 1; i < n; ++i) column[i] *= inverse;
  }
}

// The row with which row k changes places, of one matrix or of each lane.
template <typename T>
using Pivot = std::conditional_t<kIsLanes<T>, std::array<int32_t, kLanes>, int32_t>;

// Brings the greatest of the rest of column k to row k.
template <typename T>
int32_t exchange_rows(Matrix<T>& a, int64_t k) {
  int64_t best = k;
  for (int64_t i = k + 1; i < a.rows; ++i)
    if (pivot_size(a.at(i, k)) > pivot_size(a.at(best, k))) best = i;
  if (best != k)
    for (int64_t j = 0; j < a.columns; ++j) std::swap(a.at(k, j), a.at(best, j));
  return static_cast<int32_t>(best);
}
inline std::array<int32_t, kLanes> exchange_rows(Matrix<Lanes>& a, int64_t k) {
  Lanes most = a.at(k, k) < 0 ? -a.at(k, k) : a.at(k, k);
  LaneMask best = LaneMask{} + k;
  for (int64_t i = k + 1; i < a.rows; ++i) {
    const Lanes x = a.at(i, k) < 0 ? -a.at(i, k) : a.at(i, k);
    const LaneMask greater = x > most;
    most = greater ? x : most;
    best = greater ? LaneMask{} + i : best;
  }
  std::array<int32_t, kLanes> out;
  for (int l = 0; l < kLanes; ++l) {
    out[l] = static_cast<int32_t>(best[l]);
    if (out[l] == k) continue;
    for (int64_t j = 0; j < a.columns; ++j) {
      Lanes &x = a.at(k, j), &y = a.at(out[l], j);
      const double kept = x[l];
      x[l] = y[l];
      y[l] = kept;
    }
  }
  return out;
}

// a becomes its packed factors; zero-based pivots.
template <typename T>
void eliminate(Matrix<T>& a, std::vector<Pivot<T>>& pivots) {
  const int64_t m = a.rows, n = a.columns, steps = std::min(m, n);
  pivots.resize(static_cast<size_t>(steps));
  for (int64_t k = 0; k < steps; ++k) {
    pivots[static_cast<size_t>(k)] = exchange_rows(a, k);
    const T pivot = a.at(k, k);
    // A column of zeros needs no step.
    const auto none = pivot == T{};
    if (all(none)) continue;
    T* const column = a.column(k);
    if constexpr (kIsLanes<T>) {
      if (any(none)) {
        for (int64_t i = k + 1; i < m; ++i) column[i] = none ? column[i] : column[i] / pivot;
        for (int64_t j = k + 1; j < n; ++j) {
          T* const to = a.column(j);
          for (int64_t i = k + 1; i < m; ++i) to[i] = none ? to[i] : to[i] + -to[k] * column[i];
        }
        continue;
      }
    }
    for (int64_t i = k + 1; i < m; ++i) column[i] /= pivot;
    for (int64_t j = k + 1; j < n; ++j) add_multiple(a.column(j), column, -a.at(k, j), k + 1, m);
  }
}

// b becomes op(a)^-1 b; op is N or T.
template <typename T>
void substitute(const Matrix<T>& a, bool lower, bool transposed, bool unit, Matrix<T>& b) {
  const int64_t n = a.rows;
  const bool down = lower != transposed;
  for (int64_t c = 0; c < b.columns; ++c) {
    T* x = b.column(c);
    for (int64_t step = 0; step < n; ++step) {
      const int64_t k = down ? step : n - 1 - step;
      if (transposed) {
        T sum = x[k];
        const T* column = a.column(k);
        for (int64_t i = down ? 0 : k + 1; i < (down ? k : n); ++i) sum -= column[i] * x[i];
        x[k] = unit ? sum : sum / column[k];
      } else {
        if (!unit) x[k] /= a.at(k, k);
        add_multiple(x, a.column(k), -x[k], down ? k + 1 : 0, down ? n : k);
      }
    }
  }
}

}  // namespace lamina::hlo::linalg

#endif  // LAMINA_HLO_LINALG_ELIMINATION_H_
