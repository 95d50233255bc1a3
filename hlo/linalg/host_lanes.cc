// Small real matrices of a batch, as many at once as a vector has lanes.
#include <algorithm>
#include <array>
#include <cstring>

#include "hlo/linalg/elimination.h"
#include "hlo/linalg/host.h"
#include "hlo/with_vectors.h"

namespace lamina::hlo::linalg {
namespace {

using Problems = std::span<const Problem>;

double* lane(Matrix<Lanes>& m, size_t l) { return reinterpret_cast<double*>(m.data.data()) + l; }

// v[i][j] becomes v[j][i].
[[gnu::always_inline]] inline void transpose(Lanes* v) {
  static_assert(kLanes == 8);
  const auto exchange = [v](int apart, const auto& low, const auto& high) {
    for (int i = 0; i < kLanes; ++i) {
      if (i & apart) continue;
      const Lanes a = v[i], b = v[i + apart];
      low(v[i], a, b);
      high(v[i + apart], a, b);
    }
  };
#define LAMINA_PICK(...) \
  [](Lanes& to, const Lanes& a, const Lanes& b) { to = __builtin_shufflevector(a, b, __VA_ARGS__); }
  exchange(1, LAMINA_PICK(0, 8, 2, 10, 4, 12, 6, 14), LAMINA_PICK(1, 9, 3, 11, 5, 13, 7, 15));
  exchange(2, LAMINA_PICK(0, 1, 8, 9, 4, 5, 12, 13), LAMINA_PICK(2, 3, 10, 11, 6, 7, 14, 15));
  exchange(4, LAMINA_PICK(0, 1, 2, 3, 8, 9, 10, 11), LAMINA_PICK(4, 5, 6, 7, 12, 13, 14, 15));
#undef LAMINA_PICK
}

// f(place in memory, place in a matrix of columns) of each element of a matrix, kLanes at a time and one at a
// time.
template <typename Many, typename One>
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
  for (; k + kLanes <= n; k += kLanes) {
    int64_t at[kLanes];
    for (int64_t& place : at) place = next();
    many(k, at);
  }
  for (; k < n; ++k) one(k, next());
}

template <typename X>
void load(std::span<const X* const> from, Matrix<Lanes>& m) {
  typedef X Row __attribute__((vector_size(kLanes * sizeof(X))));
  with_vectors([&] {
    each_element(
        m.rows, m.columns,
        [&](int64_t k, const int64_t* at) {
          alignas(64) Lanes v[kLanes];
          for (int l = 0; l < kLanes; ++l) {
            alignas(64) Row row;
            std::memcpy(&row, from[l] + k, sizeof(row));
            v[l] = __builtin_convertvector(row, Lanes);
          }
          transpose(v);
          for (int j = 0; j < kLanes; ++j) m.data[at[j]] = v[j];
        },
        [&](int64_t k, int64_t at) {
          for (int l = 0; l < kLanes; ++l) lane(m, l)[at * kLanes] = from[l][k];
        });
  });
}

// Operand i of each problem; lanes without a problem hold the last one's.
Matrix<Lanes> load(Problems p, size_t i) {
  const auto [rows, columns] = p[0].operand_shape(i);
  Matrix<Lanes> m(rows, columns);
  p[0].with_real_type([&]<typename X>(X*) {
    std::array<const X*, kLanes> from;
    for (size_t l = 0; l < kLanes; ++l) from[l] = p[std::min(l, p.size() - 1)].template real_operand<X>(i);
    load<X>(from, m);
  });
  return m;
}

template <typename X>
void store(std::span<X* const> to, Matrix<Lanes>& m) {
  typedef X Row __attribute__((vector_size(kLanes * sizeof(X))));
  with_vectors([&] {
    each_element(
        m.rows, m.columns,
        [&](int64_t k, const int64_t* at) {
          alignas(64) Lanes v[kLanes];
          for (int j = 0; j < kLanes; ++j) v[j] = m.data[at[j]];
          transpose(v);
          for (size_t l = 0; l < to.size(); ++l) {
            alignas(64) const Row row = __builtin_convertvector(v[l], Row);
            std::memcpy(to[l] + k, &row, sizeof(row));
          }
        },
        [&](int64_t k, int64_t at) {
          for (size_t l = 0; l < to.size(); ++l) to[l][k] = static_cast<X>(lane(m, l)[at * kLanes]);
        });
  });
}

void store(Problems p, size_t i, Matrix<Lanes>& m) {
  p[0].with_real_type([&]<typename X>(X*) {
    std::array<X*, kLanes> to;
    for (size_t l = 0; l < p.size(); ++l) to[l] = p[l].template real_result<X>(i);
    store<X>(std::span(to).first(p.size()), m);
  });
}

void solve_factored(Problems p, bool transposed) {
  const Matrix<Lanes> packed = load(p, 1);
  Matrix<Lanes> b = load(p, 3), x(b.rows, b.columns);
  std::array<bool, kLanes> ordered{};
  // Rows of `from`, in the order that each problem has; `inverse`: in the order before it.
  const auto reorder = [&](Matrix<Lanes>& from, Matrix<Lanes>& to, bool inverse) {
    for (size_t l = 0; l < p.size(); ++l) {
      const std::span<const int32_t> order = p[l].integers(2);
      ordered[l] = is_permutation(order);
      double *f = lane(from, l), *t = lane(to, l);
      for (int64_t j = 0; j < from.columns && ordered[l]; ++j)
        for (int64_t i = 0; i < from.rows; ++i) {
          const int64_t other = order[static_cast<size_t>(i)], column = j * from.rows;
          t[(column + (inverse ? other : i)) * kLanes] = f[(column + (inverse ? i : other)) * kLanes];
        }
    }
  };
  const auto both = [&](Matrix<Lanes>& y) {
    with_vectors([&] {
      substitute(packed, !transposed, transposed, !transposed, y);
      substitute(packed, transposed, transposed, transposed, y);
    });
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
      for (size_t i = 0; i < x.data.size(); ++i) lane(x, l)[i * kLanes] = kNaN;
  store(p, 0, x);
}

void solve_triangle(Problems p, bool lower, bool unit) {
  const Matrix<Lanes> a = load(p, 0);
  Matrix<Lanes> b = load(p, 1);
  with_vectors([&] { substitute(a, lower, false, unit, b); });
  store(p, 0, b);
}

}  // namespace

void lanes_cholesky(Problems p) {
  Matrix<Lanes> a = load(p, 0);
  with_vectors([&] {
    alignas(64) LaneMask positive;
    eliminate_symmetric(a, positive);
    for (int64_t j = 0; j < a.columns; ++j)
      for (int64_t i = 0; i < a.rows; ++i)
        a.at(i, j) = i < j ? Lanes{} : positive ? a.at(i, j) : Lanes{} + kNaN;
  });
  store(p, 0, a);
}

void lanes_lu(Problems p) {
  Matrix<Lanes> a = load(p, 0);
  std::vector<Pivot<Lanes>> pivots;
  with_vectors([&] { eliminate(a, pivots); });
  store(p, 0, a);
  for (size_t l = 0; l < p.size(); ++l) {
    RowOrder own;
    for (const Pivot<Lanes>& pivot : pivots) own.push_back(pivot[l]);
    p[l].out(1, std::span<const int32_t>(own));
    p[l].out(2, std::span<const int32_t>(permutation_of(own, a.rows)));
  }
}

void lanes_lu_solve(Problems p) { solve_factored(p, false); }
void lanes_lu_solve_transposed(Problems p) { solve_factored(p, true); }
void lanes_lower_solve(Problems p) { solve_triangle(p, true, false); }
void lanes_upper_solve(Problems p) { solve_triangle(p, false, false); }
void lanes_unit_lower_solve(Problems p) { solve_triangle(p, true, true); }
void lanes_unit_upper_solve(Problems p) { solve_triangle(p, false, true); }

}  // namespace lamina::hlo::linalg
