// Small real matrices of a batch, as many at once as a vector has lanes.
#include <algorithm>
#include <array>
#include <cstring>
#include <utility>

#include "hlo/linalg/elimination.h"
#include "hlo/linalg/jacobi.h"

namespace lamina::hlo::linalg {
namespace {

using Problems = std::span<const Problem>;

template <typename T>
double* lane(Matrix<T>& m, size_t l) {
  return reinterpret_cast<double*>(m.data.data()) + l;
}

// Of two rows `apart` from each other in squares of twice that: what lies across the diagonal changes places.
template <int apart, int N, int... K>
void exchange(Lanes<N>& x, Lanes<N>& y, std::integer_sequence<int, K...>) {
  const Lanes<N> a = x, b = y;
  x = __builtin_shufflevector(a, b, (K & apart ? K - apart + N : K)...);
  y = __builtin_shufflevector(a, b, (K & apart ? K + N : K + apart)...);
}

// v[i][j] becomes v[j][i].
template <int N, int apart = 1>
void transpose(Lanes<N>* v) {
  if constexpr (apart < N) {
    for (int i = 0; i < N; ++i)
      if (!(i & apart)) exchange<apart, N>(v[i], v[i + apart], std::make_integer_sequence<int, N>());
    transpose<N, 2 * apart>(v);
  }
}

// f(place in memory, place in a matrix of columns) of each element of a matrix, N at a time and one at a
// time.
template <int N, typename Many, typename One>
void each_element(int64_t rows, int64_t columns, const Many& many, const One& one) {
  const int64_t n = rows * columns;
  int64_t r = 0, c = 0, k = 0;
  const auto next = [&] {
    const int64_t at = c * rows + r;
    if (++c == columns) {
      c = 0;
      ++r;
    }
    return at;
  };
  for (; k + N <= n; k += N) {
    int64_t at[N];
    for (int64_t& place : at) place = next();
    many(k, at);
  }
  for (; k < n; ++k) one(k, next());
}

// Operand i of each problem; lanes without a problem hold the last one's.
template <int N>
Matrix<Lanes<N>> load(Problems p, size_t i) {
  const auto [rows, columns] = p[0].operand_shape(i);
  Matrix<Lanes<N>> m(rows, columns);
  p[0].with_real_type([&]<typename X>(X*) {
    using Row = typename VectorOf<X, N>::Type;
    std::array<const X*, N> from;
    for (size_t l = 0; l < N; ++l) from[l] = p[std::min(l, p.size() - 1)].template real_operand<X>(i);
    each_element<N>(
        rows, columns,
        [&](int64_t k, const int64_t* at) {
          Lanes<N> v[N];
          for (int l = 0; l < N; ++l) {
            Row row;
            std::memcpy(&row, from[l] + k, sizeof(row));
            v[l] = __builtin_convertvector(row, Lanes<N>);
          }
          transpose<N>(v);
          for (int j = 0; j < N; ++j) m.data[at[j]] = v[j];
        },
        [&](int64_t k, int64_t at) {
          for (int l = 0; l < N; ++l) lane(m, l)[at * N] = from[l][k];
        });
  });
  return m;
}

template <int N>
void store(Problems p, size_t i, Matrix<Lanes<N>>& m) {
  p[0].with_real_type([&]<typename X>(X*) {
    using Row = typename VectorOf<X, N>::Type;
    std::array<X*, N> to;
    for (size_t l = 0; l < p.size(); ++l) to[l] = p[l].template real_result<X>(i);
    each_element<N>(
        m.rows, m.columns,
        [&](int64_t k, const int64_t* at) {
          Lanes<N> v[N];
          for (int j = 0; j < N; ++j) v[j] = m.data[at[j]];
          transpose<N>(v);
          for (size_t l = 0; l < p.size(); ++l) {
            const Row row = __builtin_convertvector(v[l], Row);
            std::memcpy(to[l] + k, &row, sizeof(row));
          }
        },
        [&](int64_t k, int64_t at) {
          for (size_t l = 0; l < p.size(); ++l) to[l][k] = static_cast<X>(lane(m, l)[at * N]);
        });
  });
}

template <int N>
void solve_factored(Problems p, bool transposed) {
  const Matrix<Lanes<N>> packed = load<N>(p, 1);
  Matrix<Lanes<N>> b = load<N>(p, 3), x(b.rows, b.columns);
  std::array<bool, N> ordered{};
  // Rows of `from`, in the order that each problem has; `inverse`: in the order before it.
  const auto reorder = [&](Matrix<Lanes<N>>& from, Matrix<Lanes<N>>& to, bool inverse) {
    for (size_t l = 0; l < p.size(); ++l) {
      const std::span<const int32_t> order = p[l].integers(2);
      ordered[l] = is_permutation(order);
      double *f = lane(from, l), *t = lane(to, l);
      for (int64_t j = 0; j < from.columns && ordered[l]; ++j)
        for (int64_t i = 0; i < from.rows; ++i) {
          const int64_t other = order[static_cast<size_t>(i)], column = j * from.rows;
          t[(column + (inverse ? other : i)) * N] = f[(column + (inverse ? i : other)) * N];
        }
    }
  };
  const auto both = [&](Matrix<Lanes<N>>& y) {
    substitute(packed, !transposed, transposed, !transposed, y);
    substitute(packed, transposed, transposed, transposed, y);
  };
  if (transposed) {
    both(b);
    reorder(b, x, true);
  } else {
    reorder(b, x, false);
    both(x);
  }
  for (size_t l = 0; l < p.size(); ++l)
    if (!ordered[l])
      for (size_t i = 0; i < x.data.size(); ++i) lane(x, l)[i * N] = kNaN;
  store<N>(p, 0, x);
}

void solve_by_factors(Problems p, bool transposed) {
  with_lanes([&]<int N>() { solve_factored<N>(p, transposed); });
}

void solve_triangle(Problems p, bool lower, bool unit) {
  with_lanes([&]<int N>() {
    const Matrix<Lanes<N>> a = load<N>(p, 0);
    Matrix<Lanes<N>> b = load<N>(p, 1);
    substitute(a, lower, false, unit, b);
    store<N>(p, 0, b);
  });
}

// Lane l as a matrix of its own.
template <typename T>
Matrix<double> extract(Matrix<T>& m, size_t l) {
  Matrix<double> out(m.rows, m.columns);
  const double* from = lane(m, l);
  for (size_t i = 0; i < m.data.size(); ++i) out.data[i] = from[i * kLaneCount<T>];
  return out;
}

// What problem l has of rotated columns, or NaN.
struct Singular {
  std::vector<double> sizes;
  Matrix<double> u, v;
  Singular(const Problem& p, int64_t columns, bool vectors) : sizes(static_cast<size_t>(columns), kNaN) {
    if (!vectors) return;
    const auto [m, left] = p.result_shape(1);
    const auto [right, n] = p.result_shape(2);
    u = Matrix<double>(m, left);
    v = Matrix<double>(right, n);
    u.fill(kNaN);
    v.fill(kNaN);
  }
};

template <int N>
void rotate(const Matrix<Lanes<N>>& a, bool vectors, Matrix<Lanes<N>>& work, Matrix<Lanes<N>>& turns,
            Lanes<N>& units, Mask<Lanes<N>>& finite) {
  for (int64_t j = 0; j < work.columns; ++j) {
    turns.at(j, j) += 1;
    for (int64_t i = 0; i < work.rows; ++i) work.at(i, j) = a.rows >= a.columns ? a.at(i, j) : a.at(j, i);
  }
  Lanes<N> most{};
  finite = most == most;
  for (const Lanes<N>& x : work.data) {
    Lanes<N> size;
    take_size(x, size);
    finite &= size < std::numeric_limits<double>::infinity();
    most = size > most ? size : most;
  }
  for (int l = 0; l < N; ++l) units[l] = unit_near(finite[l] ? most[l] : 0);
  // A matrix with numbers that are not finite does not turn.
  for (Lanes<N>& x : work.data) x = finite ? x / units : Lanes<N>{};
  orthogonalize(work, vectors ? &turns : nullptr);
}

void find_singular(Problems p, bool vectors) {
  with_lanes([&]<int N>() {
    const Matrix<Lanes<N>> a = load<N>(p, 0);
    const int64_t columns = std::min(a.rows, a.columns);
    Matrix<Lanes<N>> work(std::max(a.rows, a.columns), columns), turns(columns, columns);
    Lanes<N> units;
    Mask<Lanes<N>> finite;
    rotate<N>(a, vectors, work, turns, units, finite);
    for (size_t l = 0; l < p.size(); ++l) {
      Singular s(p[l], columns, vectors);
      if (finite[l])
        finish_singular(extract(work, l), extract(turns, l), units[l], s.sizes, vectors ? &s.u : nullptr,
                        vectors ? &s.v : nullptr);
      p[l].out(0, std::span<const double>(s.sizes));
      if (!vectors) continue;
      p[l].out(1, s.u);
      p[l].out(2, s.v);
    }
  });
}

}  // namespace

void lanes_cholesky(Problems p) {
  with_lanes([&]<int N>() {
    Matrix<Lanes<N>> a = load<N>(p, 0);
    Mask<Lanes<N>> positive;
    eliminate_symmetric(a, positive);
    for (int64_t j = 0; j < a.columns; ++j)
      for (int64_t i = 0; i < a.rows; ++i)
        a.at(i, j) = i < j ? Lanes<N>{} : positive ? a.at(i, j) : Lanes<N>{} + kNaN;
    store<N>(p, 0, a);
  });
}

void lanes_lu(Problems p) {
  with_lanes([&]<int N>() {
    Matrix<Lanes<N>> a = load<N>(p, 0);
    std::vector<Pivot<Lanes<N>>> pivots;
    eliminate(a, pivots);
    store<N>(p, 0, a);
    for (size_t l = 0; l < p.size(); ++l) {
      RowOrder own;
      for (const Pivot<Lanes<N>>& pivot : pivots) own.push_back(pivot[l]);
      p[l].out(1, std::span<const int32_t>(own));
      p[l].out(2, std::span<const int32_t>(permutation_of(own, a.rows)));
    }
  });
}

void lanes_lu_solve(Problems p) { solve_by_factors(p, false); }
void lanes_lu_solve_transposed(Problems p) { solve_by_factors(p, true); }
void lanes_lower_solve(Problems p) { solve_triangle(p, true, false); }
void lanes_upper_solve(Problems p) { solve_triangle(p, false, false); }
void lanes_unit_lower_solve(Problems p) { solve_triangle(p, true, true); }
void lanes_unit_upper_solve(Problems p) { solve_triangle(p, false, true); }

void lanes_svd(Problems p) { find_singular(p, true); }
void lanes_svdvals(Problems p) { find_singular(p, false); }

}  // namespace lamina::hlo::linalg
