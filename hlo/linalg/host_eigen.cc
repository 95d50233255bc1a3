// Eigenvalues of Hermitian matrices and singular values, one matrix at a time.
#include <algorithm>
#include <numeric>

#include "hlo/linalg/jacobi.h"
#include "hlo/linalg/lapack.h"
#include "hlo/linalg/tridiagonal.h"

namespace lamina::hlo::linalg {
namespace {

template <typename T>
T inner(const T* x, const T* y, int64_t n) {
  T sum = 0;
  for (int64_t i = 0; i < n; ++i) sum += conj_of(x[i]) * y[i];
  return sum;
}

// Makes column `j` of u a unit vector orthogonal to those before it: the axis that they reach least.
template <typename T>
void complete(Matrix<T>& u, int64_t j) {
  int64_t axis = 0;
  double least = std::numeric_limits<double>::infinity();
  for (int64_t i = 0; i < u.rows; ++i) {
    double reached = 0;
    for (int64_t k = 0; k < j; ++k) reached += std::norm(u.at(i, k));
    if (reached < least) {
      least = reached;
      axis = i;
    }
  }
  T* x = u.column(j);
  std::fill(x, x + u.rows, T(0));
  x[axis] = 1;
  for (int twice = 0; twice < 2; ++twice)
    for (int64_t k = 0; k < j; ++k) {
      const T along = inner(u.column(k), x, u.rows);
      for (int64_t i = 0; i < u.rows; ++i) x[i] -= along * u.at(i, k);
    }
  const double size = std::sqrt(real_of(inner(x, x, u.rows)));
  for (int64_t i = 0; i < u.rows; ++i) x[i] /= size;
}

std::vector<int64_t> order_of(const std::vector<double>& values, bool ascending) {
  std::vector<int64_t> order(values.size());
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(), [&](int64_t i, int64_t j) {
    const double a = values[static_cast<size_t>(i)], b = values[static_cast<size_t>(j)];
    return ascending ? a < b : a > b;
  });
  return order;
}

template <typename T>
double unit_of(const Matrix<T>& a) {
  double most = 0;
  for (const T& x : a.data) most = std::max(most, std::abs(x));
  return unit_near(most);
}

// Values in ascending order; a becomes the vectors.
template <typename T>
std::vector<double> decompose_hermitian(Matrix<T>& a, bool vectors) {
  const int64_t n = a.rows;
  std::vector<double> values(static_cast<size_t>(n), kNaN);
  for (int64_t j = 0; j < n; ++j) {
    a.at(j, j) = real_of(a.at(j, j));
    for (int64_t i = 0; i < j; ++i) a.at(i, j) = conj_of(a.at(j, i));
  }
  if (!a.all_finite()) {
    a.fill(nan_of<T>());
    return values;
  }
  if (lapack::use_lapack(n, n, lapack::kLeastInLanes<T>)) {
    if (lapack::heevd(vectors, a, values) != 0) {
      std::fill(values.begin(), values.end(), kNaN);
      a.fill(nan_of<T>());
    }
    return values;
  }
  const double unit = unit_of(a);
  for (T& x : a.data) x /= unit;
  Matrix<T> v(vectors ? n : 0, vectors ? n : 0);
  std::vector<double> found(static_cast<size_t>(n)), beneath(static_cast<size_t>(n));
  if (n > 0) {
    tridiagonalize(a, found, beneath, vectors ? &v : nullptr);
    diagonalize<double>(found, beneath, vectors ? &v : nullptr);
  }
  const std::vector<int64_t> order = order_of(found, true);
  for (int64_t j = 0; j < n; ++j) {
    const int64_t from = order[static_cast<size_t>(j)];
    values[static_cast<size_t>(j)] = unit * found[static_cast<size_t>(from)];
    if (vectors) std::copy(v.column(from), v.column(from) + n, a.column(j));
  }
  return values;
}

}  // namespace

template <typename T>
void finish_singular(const Matrix<T>& work, const Matrix<T>& turns, double unit, std::vector<double>& sizes,
                     Matrix<T>* u, Matrix<T>* v) {
  const int64_t rows = work.rows, columns = work.columns;
  sizes.resize(static_cast<size_t>(columns));
  std::vector<double> found(static_cast<size_t>(columns));
  for (int64_t j = 0; j < columns; ++j)
    found[static_cast<size_t>(j)] = std::sqrt(real_of(inner(work.column(j), work.column(j), rows)));
  const std::vector<int64_t> order = order_of(found, false);
  for (int64_t j = 0; j < columns; ++j)
    sizes[static_cast<size_t>(j)] = unit * found[static_cast<size_t>(order[static_cast<size_t>(j)])];
  if (!u) return;
  const int64_t m = u->rows, n = v->columns;
  const bool tall = m >= n;
  // Long vectors: the columns' directions, completed to as many as are asked for.
  const double least = columns > 0 ? kOrthogonal * found[static_cast<size_t>(order[0])] : 0;
  Matrix<T> long_vectors(rows, std::max(tall ? u->columns : v->rows, columns));
  for (int64_t j = 0; j < long_vectors.columns; ++j) {
    const int64_t from = j < columns ? order[static_cast<size_t>(j)] : -1;
    const double size = from < 0 ? 0 : found[static_cast<size_t>(from)];
    if (size > least && size > 0) {
      for (int64_t i = 0; i < rows; ++i) long_vectors.at(i, j) = work.at(i, from) / size;
    } else {
      complete(long_vectors, j);
    }
  }
  auto left = [&](int64_t i, int64_t j) {
    return tall ? long_vectors.at(i, j) : turns.at(i, order[static_cast<size_t>(j)]);
  };
  auto right = [&](int64_t i, int64_t j) {
    return conj_of(tall ? turns.at(j, order[static_cast<size_t>(i)]) : long_vectors.at(j, i));
  };
  for (int64_t j = 0; j < u->columns; ++j)
    for (int64_t i = 0; i < m; ++i) u->at(i, j) = left(i, j);
  for (int64_t j = 0; j < n; ++j)
    for (int64_t i = 0; i < v->rows; ++i) v->at(i, j) = right(i, j);
}

template <typename T>
void decompose_singular(const Matrix<T>& a, std::vector<double>& sizes, Matrix<T>* u, Matrix<T>* v) {
  const int64_t m = a.rows, n = a.columns, columns = std::min(m, n);
  sizes.assign(static_cast<size_t>(columns), kNaN);
  if (!a.all_finite()) {
    for (Matrix<T>* x : {u, v})
      if (x) x->fill(nan_of<T>());
    return;
  }
  if (lapack::use_lapack(m, n) && columns > 0) {
    Matrix<T> work = a, none(1, 1);
    const bool full = u && (u->columns > columns || v->rows > columns);
    Matrix<T> left(m, full ? m : columns), right(full ? n : columns, n);
    if (lapack::gesdd(!u ? 'N' : full ? 'A' : 'S', work, sizes, u ? left : none, u ? right : none) != 0) {
      std::fill(sizes.begin(), sizes.end(), kNaN);
      left.fill(nan_of<T>());
      right.fill(nan_of<T>());
    }
    if (!u) return;
    std::copy(left.data.begin(), left.data.begin() + static_cast<int64_t>(u->data.size()), u->data.begin());
    for (int64_t j = 0; j < n; ++j) std::copy(right.column(j), right.column(j) + v->rows, v->column(j));
    return;
  }
  const bool tall = m >= n;
  const double unit = unit_of(a);
  Matrix<T> work = tall ? a : adjoint(a), turns = Matrix<T>::eye(columns);
  for (T& x : work.data) x /= unit;
  orthogonalize(work, u ? &turns : nullptr);
  finish_singular(work, turns, unit, sizes, u, v);
}
template void decompose_singular<double>(const Matrix<double>&, std::vector<double>&, Matrix<double>*,
                                         Matrix<double>*);
template void decompose_singular<Complex>(const Matrix<Complex>&, std::vector<double>&, Matrix<Complex>*,
                                          Matrix<Complex>*);

template <typename T>
void run_eigh(const Problem& p) {
  Matrix<T> a = p.in<T>(0);
  const std::vector<double> values = decompose_hermitian(a, true);
  p.out(0, a);
  p.out(1, std::span<const double>(values));
}

template <typename T>
void run_eigvalsh(const Problem& p) {
  Matrix<T> a = p.in<T>(0);
  p.out(0, std::span<const double>(decompose_hermitian(a, false)));
}

template <typename T>
void run_svd(const Problem& p) {
  const Matrix<T> a = p.in<T>(0);
  std::vector<double> sizes;
  const auto [m, left] = p.result_shape(1);
  const auto [right, n] = p.result_shape(2);
  Matrix<T> u(m, left), v(right, n);
  decompose_singular(a, sizes, &u, &v);
  p.out(0, std::span<const double>(sizes));
  p.out(1, u);
  p.out(2, v);
}

template <typename T>
void run_svdvals(const Problem& p) {
  std::vector<double> sizes;
  decompose_singular<T>(p.in<T>(0), sizes, nullptr, nullptr);
  p.out(0, std::span<const double>(sizes));
}

#define LAMINA_INSTANTIATE(name)              \
  template void name<double>(const Problem&); \
  template void name<Complex>(const Problem&);
LAMINA_INSTANTIATE(run_eigh)
LAMINA_INSTANTIATE(run_eigvalsh)
LAMINA_INSTANTIATE(run_svd)
LAMINA_INSTANTIATE(run_svdvals)
#undef LAMINA_INSTANTIATE

}  // namespace lamina::hlo::linalg
