// Jacobi's rotations from one side, for singular values (Golub and Van Loan, Matrix Computations, 4th
// edition, section 8.6.3).
//
// Contract: elements are double, Complex, or Lanes (lanes.h). Sums go down a column in its order.
#ifndef LAMINA_HLO_LINALG_JACOBI_H_
#define LAMINA_HLO_LINALG_JACOBI_H_

#include "hlo/linalg/lanes.h"

namespace lamina::hlo::linalg {

// How far from orthogonal two columns may stay, for their lengths.
inline constexpr double kOrthogonal = 1e-15;
inline constexpr int kMaxSweeps = 60;

// Products of two columns: <p, p>, <q, q> and <p, q>.
template <typename T>
struct Products {
  Real<T> pp{}, qq{};
  T across{};
  Products(const T* p, const T* q, int64_t n) {
    for (int64_t i = 0; i < n; ++i) {
      pp += real_of(conj_of(p[i]) * p[i]);
      qq += real_of(conj_of(q[i]) * q[i]);
      across += conj_of(p[i]) * q[i];
    }
  }
};

// The rotation that makes <p, q> vanish: p' = c p - s conj(phase) q, q' = s p + c conj(phase) q. Lanes that
// have not to turn keep what they have.
template <typename T>
struct Rotation {
  Real<T> c{}, s{};
  T phase{};
  Mask<T> turns{};
  explicit Rotation(const Products<T>& of) {
    Real<T> size, limit = of.pp * of.qq;
    take_size(of.across, size);
    take_root(limit);
    turns = size > kOrthogonal * limit;
    if (!any(turns)) return;
    const Real<T> theta = (of.qq - of.pp) / (2 * size), one = Real<T>{} + 1;
    Real<T> steep, root = theta * theta + 1;
    take_size(theta, steep);
    take_root(root);
    const Real<T> t = (theta >= 0 ? one : -one) / (steep + root);
    c = t * t + 1;
    take_root(c);
    c = 1 / c;
    s = t * c;
    phase = conj_of(of.across / size);
  }
  void apply(T* p, T* q, int64_t n) const {
    for (int64_t i = 0; i < n; ++i) {
      const T a = p[i], b = phase * q[i];
      if constexpr (kIsLanes<T>) {
        p[i] = turns ? c * a - s * b : a;
        q[i] = turns ? s * a + c * b : q[i];
      } else {
        p[i] = c * a - s * b;
        q[i] = s * a + c * b;
      }
    }
  }
};

// Columns of `a` become orthogonal; `v`, if it is given, takes the same rotations.
template <typename T>
void orthogonalize(Matrix<T>& a, Matrix<T>* v) {
  for (int sweep = 0; sweep < kMaxSweeps; ++sweep) {
    bool moved = false;
    for (int64_t p = 0; p < a.columns; ++p)
      for (int64_t q = p + 1; q < a.columns; ++q) {
        const Rotation<T> r(Products<T>(a.column(p), a.column(q), a.rows));
        if (!any(r.turns)) continue;
        moved = true;
        r.apply(a.column(p), a.column(q), a.rows);
        if (v) r.apply(v->column(p), v->column(q), v->rows);
      }
    if (!moved) break;
  }
}

}  // namespace lamina::hlo::linalg

#endif  // LAMINA_HLO_LINALG_JACOBI_H_
