// Eigenvalues of Hermitian matrices, by tridiagonal ones and QR steps (Golub and Van Loan, Matrix
// Computations, 4th edition, section 8.3).
//
// Contract: elements are double, Complex, or Lanes (lanes.h), and no larger than about 1. Sums go in the
// order of rows. Lanes that have come to an end keep what they have.
#ifndef LAMINA_HLO_LINALG_TRIDIAGONAL_H_
#define LAMINA_HLO_LINALG_TRIDIAGONAL_H_

#include "absl/container/inlined_vector.h"
#include "hlo/linalg/lanes.h"

namespace lamina::hlo::linalg {

inline constexpr double kUnitRoundoff = 0x1p-53;
// Numbers beneath the diagonal whose squares would leave the range of doubles are zero.
inline constexpr double kLeastBeneath = 0x1p-500;
inline constexpr int kMaxSteps = 60;  // for each value

template <typename R>
using MaskLine = std::conditional_t<NumberType<R>, absl::InlinedVector<bool, kInlineRows>,
                                    VectorArray<Mask<R>, kInlineRows>>;

// A Hermitian matrix as Q T Q^H with a real tridiagonal T, by reflections (section 8.3.1): its diagonal and
// the numbers beneath it, in `d` and `e`. The lower triangle of `a` is read, and is lost; `q`, if it is
// given, becomes Q.
template <typename T>
void tridiagonalize(Matrix<T>& a, Line<Real<T>>& d, Line<Real<T>>& e, Matrix<T>* q) {
  using R = Real<T>;
  const int64_t n = a.rows;
  // The last reflection, of one element, makes it real.
  const int64_t steps = std::max<int64_t>(kIsComplex<T> ? n - 1 : n - 2, 0);
  Line<T> scales(static_cast<size_t>(n)), w(static_cast<size_t>(n));
  for (int64_t k = 0; k < steps; ++k) {
    // I - scale v v^H makes (e, 0, ..., 0) of what is beneath the diagonal; v begins with 1.
    T* const v = a.column(k) + k + 1;
    const int64_t m = n - k - 1;
    R rest{}, length;
    for (int64_t i = 1; i < m; ++i) {
      R size;
      take_norm(v[i], size);
      rest += size;
    }
    const T first = v[0];
    take_norm(first, length);
    Mask<R> reflects = rest > 0;
    if constexpr (kIsComplex<T>) reflects |= first.imag() * first.imag() > 0;
    length += rest;
    take_root(length);
    const R turned = real_of(first) > 0 ? -length : length;
    const R beneath = reflects ? turned : real_of(first);
    const T scale = (beneath - first) / beneath, down = T{} + 1.0 / (first - beneath);
    e[static_cast<size_t>(k)] = beneath;
    scales[static_cast<size_t>(k)] = reflects ? scale : T{};
    for (int64_t i = 1; i < m; ++i) v[i] = reflects ? v[i] * down : v[i];
    v[0] = T{} + 1.0;
    // The rest of the matrix, of which the lower triangle is kept, loses v w^H + w v^H.
    T along{};
    for (int64_t j = 0; j < m; ++j) {
      const T* const column = a.column(k + 1 + j) + k + 1;
      T sum{};
      for (int64_t i = 0; i < j; ++i) sum += a.at(k + 1 + j, k + 1 + i) * v[i];
      for (int64_t i = j; i < m; ++i) sum += conj_of(column[i]) * v[i];
      sum *= scales[static_cast<size_t>(k)];
      along += conj_of(sum) * v[j];
      w[static_cast<size_t>(j)] = sum;
    }
    const T part = -0.5 * scales[static_cast<size_t>(k)] * along;
    for (int64_t i = 0; i < m; ++i) w[static_cast<size_t>(i)] += part * v[i];
    for (int64_t j = 0; j < m; ++j) {
      T* const column = a.column(k + 1 + j) + k + 1;
      const T vj = conj_of(v[j]), wj = conj_of(w[static_cast<size_t>(j)]);
      for (int64_t i = j; i < m; ++i) column[i] -= v[i] * wj + w[static_cast<size_t>(i)] * vj;
    }
  }
  for (int64_t k = steps; k + 1 < n; ++k) e[static_cast<size_t>(k)] = real_of(a.at(k + 1, k));
  for (int64_t k = 0; k < n; ++k) d[static_cast<size_t>(k)] = real_of(a.at(k, k));
  if (!q) return;
  q->fill(T{});
  for (int64_t k = 0; k < n; ++k) q->at(k, k) = T{} + 1.0;
  for (int64_t k = steps; k-- > 0;) {
    const T* const v = a.column(k) + k + 1;
    const int64_t m = n - k - 1;
    for (int64_t j = k + 1; j < n; ++j) {
      T* const column = q->column(j) + k + 1;
      T sum{};
      for (int64_t i = 0; i < m; ++i) sum += conj_of(v[i]) * column[i];
      sum *= scales[static_cast<size_t>(k)];
      for (int64_t i = 0; i < m; ++i) column[i] -= sum * v[i];
    }
  }
}

// Eigenvalues of a real tridiagonal matrix in place of its diagonal: implicit QR steps with Wilkinson's shift
// (section 8.3.5). The columns of `q`, if it is given, take the rotations.
template <typename R, typename T>
void diagonalize(Line<R>& d, Line<R>& e, Matrix<T>* q) {
  const size_t n = d.size();
  R steps = R{} + static_cast<double>(kMaxSteps * n);
  MaskLine<R> turns(n);  // which lanes turn rows k and k+1
  const auto stays = [&](size_t k, Mask<R>& mask) {
    R upper, lower, beneath;
    take_size(d[k], upper);
    take_size(d[k + 1], lower);
    take_size(e[k], beneath);
    mask = (beneath > kUnitRoundoff * (upper + lower)) & (beneath > kLeastBeneath);
  };
  for (size_t end = n - 1; end > 0;) {
    Mask<R>& last_turns = turns[end - 1];
    stays(end - 1, last_turns);
    last_turns &= steps > 0;
    if (!any(last_turns)) {
      --end;
      continue;
    }
    steps -= last_turns ? R{} + 1 : R{};
    size_t begin = end - 1;
    while (begin > 0) {
      stays(begin - 1, turns[begin - 1]);
      turns[begin - 1] &= turns[begin];
      if (!any(turns[begin - 1])) break;
      --begin;
    }
    const R half = (d[end - 1] - d[end]) / 2, last = e[end - 1];
    R root = half * half + last * last;
    take_root(root);
    const R far = half + (half >= 0 ? root : -root);
    const R shift = d[end] - last / far * last;
    R x{}, z{};
    Mask<R> before = R{} != R{};
    for (size_t k = begin; k < end; ++k) {
      const Mask<R> turn = turns[k], goes_on = turn & before;
      x = goes_on ? x : d[k] - shift;
      z = goes_on ? z : e[k];
      R r = x * x + z * z;
      take_root(r);
      const Mask<R> some = r > 0;
      const R c = some ? x / r : R{} + 1, s = some ? z / r : R{};
      if (k > begin) e[k - 1] = goes_on ? r : e[k - 1];
      const R upper = d[k], lower = d[k + 1], beside = e[k], both = 2 * c * s * beside;
      d[k] = turn ? c * c * upper + both + s * s * lower : upper;
      d[k + 1] = turn ? s * s * upper - both + c * c * lower : lower;
      e[k] = turn ? c * s * (lower - upper) + (c * c - s * s) * beside : beside;
      if (k + 1 < end) {
        x = e[k];
        z = s * e[k + 1];
        e[k + 1] = turn ? e[k + 1] * c : e[k + 1];
      }
      before = turn;
      if (!q) continue;
      T *const p = q->column(static_cast<int64_t>(k)), *const next = q->column(static_cast<int64_t>(k) + 1);
      for (int64_t i = 0; i < q->rows; ++i) {
        const T left = p[i], right = next[i];
        p[i] = turn ? c * left + s * right : left;
        next[i] = turn ? c * right - s * left : right;
      }
    }
  }
}

}  // namespace lamina::hlo::linalg

#endif  // LAMINA_HLO_LINALG_TRIDIAGONAL_H_
