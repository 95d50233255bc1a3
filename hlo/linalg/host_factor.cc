// Factorizations of Cholesky, LU and QR, and solutions with their factors.
#include <algorithm>
#include <numeric>

#include "hlo/linalg/elimination.h"
#include "hlo/linalg/host.h"
#include "hlo/linalg/lapack.h"
#include "hlo/with_vectors.h"

namespace lamina::hlo::linalg {

RowOrder permutation_of(std::span<const int32_t> pivots, int64_t m) {
  RowOrder order(static_cast<size_t>(m));
  std::iota(order.begin(), order.end(), 0);
  for (size_t k = 0; k < pivots.size(); ++k) std::swap(order[k], order[static_cast<size_t>(pivots[k])]);
  return order;
}

bool is_permutation(std::span<const int32_t> order) {
  absl::InlinedVector<bool, kInlineRows> seen(order.size());
  for (int32_t i : order) {
    if (i < 0 || static_cast<size_t>(i) >= order.size() || seen[static_cast<size_t>(i)]) return false;
    seen[static_cast<size_t>(i)] = true;
  }
  return true;
}

double sign_of(std::span<const int32_t> order) {
  if (!is_permutation(order)) return kNaN;
  absl::InlinedVector<bool, kInlineRows> seen(order.size());
  double sign = 1;
  for (size_t i = 0; i < order.size(); ++i) {
    if (seen[i]) continue;
    for (auto j = static_cast<size_t>(order[i]); j != i; j = static_cast<size_t>(order[j])) {
      seen[j] = true;
      sign = -sign;
    }
  }
  return sign;
}

namespace {

// Whether a is positive; the upper triangle is left as it is.
template <typename T>
bool cholesky(Matrix<T>& a) {
  if (lapack::use_lapack(a.rows, a.rows, lapack::kLeastInLanes<T>)) {
    // It may go on past a pivot that is no number, which makes none of the last one.
    const int failed = lapack::potrf(a);
    const T last = a.at(a.rows - 1, a.rows - 1);
    return failed == 0 && last == last;
  }
  bool positive;
  eliminate_symmetric(a, positive);
  return positive;
}

// a becomes its packed factors; zero-based pivots.
template <typename T>
std::vector<int32_t> lu_in_place(Matrix<T>& a) {
  std::vector<int32_t> pivots(static_cast<size_t>(std::min(a.rows, a.columns)));
  if (lapack::use_lapack(a.rows, a.columns, lapack::kLeastInLanes<T>)) {
    const size_t steps = pivots.size();
    lapack::getrf(a, pivots);
    pivots.resize(steps);
    for (int32_t& p : pivots) --p;
  } else {
    with_vectors([&] { eliminate(a, pivots); });
  }
  return pivots;
}

// b becomes op(a)^-1 b; op is N or T.
template <typename T>
void solve_triangle(const Matrix<T>& a, bool lower, bool transposed, bool unit, Matrix<T>& b) {
  // Of more columns than matrices side by side may have, the library solves several at once.
  const int64_t least = b.columns > kMostLaneRows ? lapack::kLeast : lapack::kLeastInLanes<T>;
  if (lapack::use_lapack(a.rows, a.rows, least))
    return lapack::trsm(lower, transposed ? 'T' : 'N', unit, a, b);
  substitute(a, lower, transposed, unit, b);
}

// The rows of b in this order, solved by packed factors.
template <typename T>
Matrix<T> solve_in_order(const Matrix<T>& packed, std::span<const int32_t> order, const Matrix<T>& b) {
  Matrix<T> x(b.rows, b.columns);
  for (int64_t j = 0; j < b.columns; ++j)
    for (int64_t i = 0; i < b.rows; ++i) x.at(i, j) = b.at(order[static_cast<size_t>(i)], j);
  solve_triangle(packed, true, false, true, x);
  solve_triangle(packed, false, false, false, x);
  return x;
}

template <typename T>
void solve_factored(const Problem& p, bool transposed) {
  const Matrix<T> packed = p.in<T>(1);
  const std::span<const int32_t> order = p.integers(2);
  const Matrix<T> b = p.in<T>(3);
  Matrix<T> x(b.rows, b.columns);
  if (!is_permutation(order)) {
    x.fill(nan_of<T>());
    return p.out(0, x);
  }
  if (transposed) {
    Matrix<T> y = b;
    solve_triangle(packed, false, true, false, y);
    solve_triangle(packed, true, true, true, y);
    for (int64_t j = 0; j < b.columns; ++j)
      for (int64_t i = 0; i < b.rows; ++i) x.at(order[static_cast<size_t>(i)], j) = y.at(i, j);
  } else {
    x = solve_in_order(packed, order, b);
  }
  p.out(0, x);
}

template <typename T>
Matrix<T> scalar(T x) {
  Matrix<T> m(1, 1);
  m.at(0, 0) = x;
  return m;
}

// The reflection 1 - scale v v^H with v = (1, x[1 ...]) that maps x to (beta, 0 ...) with beta real; x
// becomes (beta, v[1 ...]).
template <typename T>
T reflection(T* x, int64_t n) {
  double most = 0, below = 0;
  for (int64_t i = 0; i < n; ++i) most = std::max(most, pivot_size(x[i]));
  const double unit = most > 0 && std::isfinite(most) ? most : 1;  // squares neither overflow nor vanish
  for (int64_t i = 1; i < n; ++i) below += norm_of(x[i] / unit);
  const double re = real_of(x[0]) / unit;
  double im = 0;
  if constexpr (kIsComplex<T>) im = x[0].imag() / unit;
  if (below == 0 && im == 0) return 0;
  const double size = unit * std::sqrt(re * re + im * im + below), beta = re < 0 ? size : -size;
  const T lead = x[0] - T(beta);
  for (int64_t i = 1; i < n; ++i) x[i] /= lead;
  const T scale = (T(beta) - x[0]) / T(beta);
  x[0] = beta;
  return scale;
}

// The column y becomes (1 - scale v v^H) y, for v = (1, x[1 ...]).
template <typename T>
void reflect(const T* x, T scale, T* y, int64_t n) {
  T sum = y[0];
  for (int64_t i = 1; i < n; ++i) sum += conj_of(x[i]) * y[i];
  sum *= scale;
  y[0] -= sum;
  for (int64_t i = 1; i < n; ++i) y[i] -= sum * x[i];
}

// a becomes reflections below the diagonal and the triangle; whether LAPACK did it.
template <typename T>
bool factor_reflections(Matrix<T>& a, std::vector<T>& scales) {
  const int64_t m = a.rows, n = a.columns, steps = std::min(m, n);
  if (steps > 0 && lapack::use_lapack(m, n)) {
    lapack::geqrf(a, scales);
    return true;
  }
  for (int64_t k = 0; k < steps; ++k) {
    const T scale = scales[static_cast<size_t>(k)] = reflection(&a.at(k, k), m - k);
    for (int64_t j = k + 1; j < n; ++j) reflect(&a.at(k, k), conj_of(scale), &a.at(k, j), m - k);
  }
  return false;
}

template <typename T>
void factor_positive(const Problem& p, Matrix<T> a) {
  for (int64_t j = 0; j < a.columns; ++j) a.at(j, j) = real_of(a.at(j, j));
  const bool positive = cholesky(a);
  for (int64_t j = 0; j < a.columns; ++j)
    for (int64_t i = 0; i < a.rows; ++i) a.at(i, j) = i < j ? T(0) : positive ? a.at(i, j) : nan_of<T>();
  p.out(0, a);
}

}  // namespace

template <typename T>
void run_cholesky(const Problem& p) {
  factor_positive(p, p.in<T>(0));
}

template <typename T>
void run_mean_cholesky(const Problem& p) {
  Matrix<T> a = p.in<T>(0);
  for (int64_t j = 0; j < a.columns; ++j)
    for (int64_t i = j; i < a.rows; ++i) a.at(i, j) += conj_of(a.at(j, i));
  p.round(a, 0);
  for (T& x : a.data) x *= 0.5;
  p.round(a, 0);
  factor_positive(p, std::move(a));
}

template <typename T>
void run_lu(const Problem& p) {
  Matrix<T> a = p.in<T>(0);
  const std::vector<int32_t> pivots = lu_in_place(a);
  p.out(0, a);
  p.out(1, std::span<const int32_t>(pivots));
  p.out(2, std::span<const int32_t>(permutation_of(pivots, a.rows)));
}

template <typename T>
void run_lu_solve(const Problem& p) {
  solve_factored<T>(p, false);
}
template <typename T>
void run_lu_solve_transposed(const Problem& p) {
  solve_factored<T>(p, true);
}

template <typename T>
void run_solve(const Problem& p) {
  Matrix<T> a = p.in<T>(0);
  const std::vector<int32_t> pivots = lu_in_place(a);
  p.round(a, 0);
  p.out(0, solve_in_order<T>(a, permutation_of(pivots, a.rows), p.in<T>(1)));
}

template <typename T>
void run_det(const Problem& p) {
  const Matrix<T> packed = p.in<T>(1);
  T det = sign_of(p.integers(2));
  for (int64_t i = 0; i < packed.rows; ++i) det *= packed.at(i, i);
  p.out(0, scalar(det + T(0)));  // no -0
}

template <typename T>
void run_slogdet(const Problem& p) {
  const Matrix<T> packed = p.in<T>(1);
  T sign = sign_of(p.integers(2));
  double log = 0;
  for (int64_t i = 0; i < packed.rows; ++i) {
    const T x = packed.at(i, i);
    const double size = std::abs(x);
    sign = size == 0 ? T(0) : sign * (x / size);
    log += std::log(size);
  }
  p.out(0, scalar(sign + T(0)));  // no -0
  p.out(1, scalar(log));
}

// adj(a) = det(u v) v^H adj(s) u^H for a = u s v, right for singular matrices too.
template <typename T>
void run_adjugate(const Problem& p) {
  const Matrix<T> a = p.in<T>(0);
  const int64_t n = a.rows;
  Matrix<T> out(n, n);
  if (!a.all_finite()) {
    out.fill(nan_of<T>());
    return p.out(0, out);
  }
  std::vector<double> sizes;
  Matrix<T> u(n, n), v(n, n);
  decompose_singular(a, sizes, &u, &v);
  T factor = 1;
  for (Matrix<T> m : {u, v}) {
    const std::vector<int32_t> pivots = lu_in_place(m);
    factor *= sign_of(permutation_of(pivots, n));
    for (int64_t i = 0; i < n; ++i) factor *= m.at(i, i);
  }
  Matrix<T> right = adjoint(v);
  for (int64_t j = 0; j < n; ++j) {
    T others = factor;
    for (int64_t i = 0; i < n; ++i)
      if (i != j) others *= sizes[static_cast<size_t>(i)];
    for (int64_t i = 0; i < n; ++i) right.at(i, j) *= others;
  }
  p.out(0, multiply(right, adjoint(u)));
}

template <typename T>
void run_geqrf(const Problem& p) {
  Matrix<T> a = p.in<T>(0), scales(std::min(a.rows, a.columns), 1);
  factor_reflections(a, scales.data);
  p.out(0, a);
  p.out(1, scales);
}

template <typename T>
void run_qr(const Problem& p) {
  Matrix<T> a = p.in<T>(0);
  const int64_t m = a.rows, n = a.columns, steps = std::min(m, n), width = p.result_shape(0).second;
  std::vector<T> scales(static_cast<size_t>(steps));
  const bool library = factor_reflections(a, scales);
  Matrix<T> r(width, n), q(m, width);
  for (int64_t j = 0; j < n; ++j)
    for (int64_t i = 0; i <= std::min(j, width - 1); ++i) r.at(i, j) = a.at(i, j);
  if (library) {
    for (int64_t j = 0; j < steps; ++j) std::copy(a.column(j), a.column(j) + m, q.column(j));
    lapack::orgqr(q, scales);
  } else {
    for (int64_t j = 0; j < width; ++j) q.at(j, j) = 1;
    for (int64_t k = steps; k-- > 0;)
      for (int64_t j = k; j < width; ++j)
        reflect(&a.at(k, k), scales[static_cast<size_t>(k)], &q.at(k, j), m - k);
  }
  p.out(0, q);
  p.out(1, r);
}

template <typename T>
void run_triangular(const Problem& p, bool lower, bool unit) {
  Matrix<T> b = p.in<T>(1);
  solve_triangle(p.in<T>(0), lower, false, unit, b);
  p.out(0, b);
}
template <typename T>
void run_lower_solve(const Problem& p) {
  run_triangular<T>(p, true, false);
}
template <typename T>
void run_upper_solve(const Problem& p) {
  run_triangular<T>(p, false, false);
}
template <typename T>
void run_unit_lower_solve(const Problem& p) {
  run_triangular<T>(p, true, true);
}
template <typename T>
void run_unit_upper_solve(const Problem& p) {
  run_triangular<T>(p, false, true);
}

// a = q h q^H with h zero below its first subdiagonal, where the reflections that make q are kept.
template <typename T>
void run_hessenberg(const Problem& p) {
  Matrix<T> a = p.in<T>(0), scales(p.in<T>(0).rows, 1);
  const int64_t n = a.rows;
  std::vector<T> v(static_cast<size_t>(n));
  // The last reflection, of one element, makes it real.
  for (int64_t k = 0; k + 1 < n; ++k) {
    const int64_t size = n - k - 1;
    const T scale = scales.at(k, 0) = reflection(&a.at(k + 1, k), size);
    std::copy(&a.at(k + 1, k), &a.at(k + 1, k) + size, v.begin());
    v[0] = 1;
    for (int64_t j = k + 1; j < n; ++j) reflect(v.data(), conj_of(scale), &a.at(k + 1, j), size);
    // From the right: a (1 - scale v v^H).
    for (int64_t i = 0; i < n; ++i) {
      T sum = 0;
      for (int64_t j = 0; j < size; ++j) sum += a.at(i, k + 1 + j) * v[static_cast<size_t>(j)];
      sum *= scale;
      for (int64_t j = 0; j < size; ++j) a.at(i, k + 1 + j) -= sum * conj_of(v[static_cast<size_t>(j)]);
    }
  }
  p.out(0, a);
  p.out(1, scales);
}

#define LAMINA_INSTANTIATE(name)              \
  template void name<double>(const Problem&); \
  template void name<Complex>(const Problem&);
LAMINA_INSTANTIATE(run_cholesky)
LAMINA_INSTANTIATE(run_mean_cholesky)
LAMINA_INSTANTIATE(run_lu)
LAMINA_INSTANTIATE(run_lu_solve)
LAMINA_INSTANTIATE(run_lu_solve_transposed)
LAMINA_INSTANTIATE(run_solve)
LAMINA_INSTANTIATE(run_det)
LAMINA_INSTANTIATE(run_slogdet)
LAMINA_INSTANTIATE(run_adjugate)
LAMINA_INSTANTIATE(run_geqrf)
LAMINA_INSTANTIATE(run_qr)
LAMINA_INSTANTIATE(run_lower_solve)
LAMINA_INSTANTIATE(run_upper_solve)
LAMINA_INSTANTIATE(run_unit_lower_solve)
LAMINA_INSTANTIATE(run_unit_upper_solve)
LAMINA_INSTANTIATE(run_hessenberg)
#undef LAMINA_INSTANTIATE

}  // namespace lamina::hlo::linalg
