// Factorizations by elimination and solutions by substitution, of small matrices: LAPACK's algorithms without
// blocks.
//
// Contract: elements are double or Complex; lane_elimination.h is the same for Lanes.
#ifndef LAMINA_HLO_LINALG_ELIMINATION_H_
#define LAMINA_HLO_LINALG_ELIMINATION_H_

#include <cmath>
#include <utility>
#include <vector>

#include "hlo/linalg/host.h"

namespace lamina::hlo::linalg {

// What LAPACK compares pivots by.
inline double pivot_size(double x) { return std::abs(x); }
inline double pivot_size(Complex x) { return std::abs(x.real()) + std::abs(x.imag()); }

template <NumberType T>
void add_multiple(T* to, const T* from, const T& x, int64_t first, int64_t last) {
  for (int64_t i = first; i < last; ++i) to[i] += x * from[i];
}

// The lower triangle becomes the factor; the upper one is left as it is. `positive`: whether there is one.
template <NumberType T>
void eliminate_symmetric(Matrix<T>& a, bool& positive) {
  const int64_t n = a.rows;
  positive = true;
  for (int64_t j = 0; j < n; ++j) {
    T* column = a.column(j);
    for (int64_t k = 0; k < j; ++k) add_multiple(column, a.column(k), -conj_of(a.at(j, k)), j, n);
    const double root = std::sqrt(real_of(column[j]));
    positive &= real_of(column[j]) > 0;
    column[j] = root;
    const double inverse = 1 / root;  // one division, as LAPACK
    for (int64_t i = j + 1; i < n; ++i) column[i] *= inverse;
  }
}

// Brings the greatest of the rest of column k to row k.
template <NumberType T>
int32_t exchange_rows(Matrix<T>& a, int64_t k) {
  int64_t best = k;
  for (int64_t i = k + 1; i < a.rows; ++i)
    if (pivot_size(a.at(i, k)) > pivot_size(a.at(best, k))) best = i;
  if (best != k)
    for (int64_t j = 0; j < a.columns; ++j) std::swap(a.at(k, j), a.at(best, j));
  return static_cast<int32_t>(best);
}
// a becomes its packed factors; zero-based pivots.
template <NumberType T>
void eliminate(Matrix<T>& a, std::vector<int32_t>& pivots) {
  const int64_t m = a.rows, n = a.columns, steps = std::min(m, n);
  pivots.resize(static_cast<size_t>(steps));
  for (int64_t k = 0; k < steps; ++k) {
    pivots[static_cast<size_t>(k)] = exchange_rows(a, k);
    const T pivot = a.at(k, k);
    // A column of zeros needs no step.
    if (pivot == T{}) continue;
    T* const column = a.column(k);
    for (int64_t i = k + 1; i < m; ++i) column[i] /= pivot;
    for (int64_t j = k + 1; j < n; ++j) add_multiple(a.column(j), column, -a.at(k, j), k + 1, m);
  }
}

// b becomes op(a)^-1 b; op is N or T.
template <NumberType T>
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
