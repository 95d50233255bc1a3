// Small real matrices of a batch, as many at once as a vector has lanes.
#include <algorithm>
#include <array>

#include "hlo/linalg/jacobi.h"
#include "hlo/linalg/lane_elimination.h"
#include "hlo/linalg/lane_memory.h"

namespace lamina::hlo::linalg {
namespace {

// Of at most kMostLaneRows numbers.
bool is_order(std::span<const int32_t> order) {
  uint64_t seen = 0;
  for (const int32_t i : order) {
    if (i < 0 || static_cast<size_t>(i) >= order.size()) return false;
    if (const uint64_t place = uint64_t{1} << i; (seen & place) == 0)
      seen |= place;
    else
      return false;
  }
  return true;
}

// What problem l has for operand 2.
std::span<const int32_t> order_of(const Group& g, int64_t l) {
  const int64_t n = g.in[2].type->dims.back();
  return {g.in[2].as<int32_t>() + g.place(l, 2) * n, static_cast<size_t>(n)};
}

// Rows of a matrix for each lane.
template <int N, typename X>
struct LaneRows {
  LaneRows(int64_t rows, int64_t columns)
      : size(rows * columns), data(static_cast<size_t>(N * rows * columns)) {}
  X* lane(int64_t l) { return data.data() + l * size; }
  const int64_t size;
  VectorArray<X, N * kInlineRows * kInlineRows> data;
};

template <int N>
void solve_factored(const Group& g, bool transposed) {
  const Loaded<N> packed(g, 1);
  const auto [n, m] = shape_of(g.out[0]);
  Matrix<Lanes<N>> x(n, m);
  if (transposed)
    load<N>(g, 3, x);
  else
    with_number_type(g.in[3].dtype(), [&, n = n, m = m]<typename X>(X*) {
      LaneRows<N, X> rows(n, m);
      std::array<const X*, N> from;
      for (int64_t l = 0; l < N; ++l) {
        X* const to = rows.lane(l);
        from[l] = to;
        const int64_t of = std::min(l, g.count - 1);
        const X* const y = g.in[3].as<X>() + g.place(of, 3) * n * m;
        const std::span<const int32_t> order = order_of(g, of);
        const bool ordered = is_order(order);
        for (int64_t i = 0; i < n; ++i)
          for (int64_t j = 0; j < m; ++j)
            to[i * m + j] = ordered ? y[order[i] * m + j] : static_cast<X>(kNaN);
      }
      load<N, X>(from, x);
    });
  substitute(packed, !transposed, transposed, !transposed, x);
  substitute(packed, transposed, transposed, transposed, x);
  if (!transposed) return store<N>(g, 0, x);
  with_number_type(g.out[0].dtype(), [&, n = n, m = m]<typename X>(X*) {
    LaneRows<N, X> rows(n, m);
    std::array<X*, N> to;
    for (int64_t l = 0; l < N; ++l) to[l] = rows.lane(l);
    store<N, X>(x, to, g.count);
    for (int64_t l = 0; l < g.count; ++l) {
      X* const y = g.out[0].as<X>() + (g.first + l) * n * m;
      const std::span<const int32_t> order = order_of(g, l);
      if (!is_order(order))
        std::fill_n(y, n * m, static_cast<X>(kNaN));
      else
        for (int64_t i = 0; i < n; ++i)
          for (int64_t j = 0; j < m; ++j) y[order[i] * m + j] = to[l][i * m + j];
    }
  });
}

void solve_by_factors(const Group& g, bool transposed) {
  with_lanes([&]<int N>() { solve_factored<N>(g, transposed); });
}

void solve_triangle(const Group& g, bool lower, bool unit) {
  with_lanes([&]<int N>() {
    const Loaded<N> a(g, 0);
    Loaded<N> b(g, 1);
    substitute(a, lower, false, unit, b);
    store<N>(g, 0, b);
  });
}

// By columns.
template <typename T, typename F>
void each_element(Matrix<T>& m, const F& f) {
  for (int64_t j = 0; j < m.columns; ++j)
    for (int64_t i = 0; i < m.rows; ++i) f(m.at(i, j));
}

// The numbers that memory would hold of these.
template <int N>
void round_all(const Group& g, Matrix<Lanes<N>>& a) {
  with_number_type(g.in[0].dtype(), [&]<typename X>(X*) {
    using Held = typename VectorOf<X, N>::Type;
    each_element(a, [&](Lanes<N>& x) { widen(__builtin_convertvector(x, Held), x); });
  });
}

// The lower triangle becomes that of the mean of a and its transpose, as it would be in memory.
template <int N>
void take_mean(const Group& g, Matrix<Lanes<N>>& a) {
  with_number_type(g.in[0].dtype(), [&]<typename X>(X*) {
    using Held = typename VectorOf<X, N>::Type;
    for (int64_t j = 0; j < a.columns; ++j)
      for (int64_t i = j; i < a.rows; ++i) {
        const Held sum = __builtin_convertvector(a.at(i, j) + a.at(j, i), Held);
        widen(sum * static_cast<X>(0.5), a.at(i, j));
      }
  });
}

template <int N>
void factor_positive(const Group& g, Matrix<Lanes<N>>& a) {
  Mask<Lanes<N>> positive;
  eliminate_symmetric(a, positive);
  if (any(!positive)) each_element(a, [&](Lanes<N>& x) { x = positive ? x : Lanes<N>{} + kNaN; });
  for (int64_t j = 1; j < a.columns; ++j)
    for (int64_t i = std::max<int64_t>(j - N + 1, 0); i < j; ++i) a.at(i, j) = Lanes<N>{};
  store<N, true>(g, 0, a);
}

template <int N>
void load_signs(const Group& g, Lanes<N>& signs) {
  for (int64_t l = 0; l < N; ++l) signs[l] = sign_of(order_of(g, std::min(l, g.count - 1)));
}

// Lane l as a matrix of its own.
template <typename T>
Matrix<double> extract(Matrix<T>& m, int64_t l) {
  Matrix<double> out(m.rows, m.columns);
  auto to = out.data.begin();
  each_element(m, [&](const T& x) { *to++ = x[l]; });
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
  turns.fill(Lanes<N>{});
  for (int64_t j = 0; j < work.columns; ++j) {
    turns.at(j, j) += 1;
    for (int64_t i = 0; i < work.rows; ++i) work.at(i, j) = a.rows >= a.columns ? a.at(i, j) : a.at(j, i);
  }
  Lanes<N> most{};
  finite = most == most;
  each_element(work, [&](const Lanes<N>& x) {
    Lanes<N> size;
    take_size(x, size);
    finite &= size < std::numeric_limits<double>::infinity();
    most = size > most ? size : most;
  });
  for (int l = 0; l < N; ++l) units[l] = unit_near(finite[l] ? most[l] : 0);
  // A matrix with numbers that are not finite does not turn.
  each_element(work, [&](Lanes<N>& x) { x = finite ? x / units : Lanes<N>{}; });
  orthogonalize(work, vectors ? &turns : nullptr);
}

void find_singular(const Group& g, bool vectors) {
  with_lanes([&]<int N>() {
    const Loaded<N> a(g, 0);
    const int64_t columns = std::min(a.rows, a.columns);
    Matrix<Lanes<N>> work(std::max(a.rows, a.columns), columns), turns(columns, columns);
    Lanes<N> units;
    Mask<Lanes<N>> finite;
    rotate<N>(a, vectors, work, turns, units, finite);
    absl::Status none;
    for (int64_t l = 0; l < g.count; ++l) {
      const Problem p = g.problem(l, none);
      Singular s(p, columns, vectors);
      if (finite[l])
        finish_singular(extract(work, l), extract(turns, l), units[l], s.sizes, vectors ? &s.u : nullptr,
                        vectors ? &s.v : nullptr);
      p.out(0, std::span<const double>(s.sizes));
      if (!vectors) continue;
      p.out(1, s.u);
      p.out(2, s.v);
    }
  });
}

}  // namespace

void lanes_cholesky(const Group& g) {
  with_lanes([&]<int N>() {
    Loaded<N> a(g, 0);
    factor_positive<N>(g, a);
  });
}

void lanes_mean_cholesky(const Group& g) {
  with_lanes([&]<int N>() {
    Loaded<N> a(g, 0);
    take_mean<N>(g, a);
    factor_positive<N>(g, a);
  });
}

void lanes_lu(const Group& g) {
  with_lanes([&]<int N>() {
    Loaded<N> a(g, 0);
    Matrix<Lanes<N>> pivots(std::min(a.rows, a.columns), 1), order(a.rows, 1);
    for (int64_t i = 0; i < a.rows; ++i) order.data[i] = Lanes<N>{} + static_cast<double>(i);
    eliminate(a, pivots, order);
    store<N>(g, 0, a);
    store<N>(g, 1, pivots);
    store<N>(g, 2, order);
  });
}

void lanes_solve(const Group& g) {
  with_lanes([&]<int N>() {
    Loaded<N> a(g, 0), x(g, 1);
    Matrix<Lanes<N>> pivots(a.rows, 1);
    eliminate(a, pivots, x);
    round_all<N>(g, a);
    substitute(a, true, false, true, x);
    substitute(a, false, false, false, x);
    store<N>(g, 0, x);
  });
}

void lanes_det(const Group& g) {
  with_lanes([&]<int N>() {
    const Loaded<N> packed(g, 1);
    Matrix<Lanes<N>> det(1, 1);
    load_signs<N>(g, det.at(0, 0));
    for (int64_t i = 0; i < packed.rows; ++i) det.at(0, 0) *= packed.at(i, i);
    det.at(0, 0) += Lanes<N>{};  // no -0
    store<N>(g, 0, det);
  });
}

void lanes_slogdet(const Group& g) {
  with_lanes([&]<int N>() {
    const Loaded<N> packed(g, 1);
    Matrix<Lanes<N>> sign(1, 1), log(1, 1);
    load_signs<N>(g, sign.at(0, 0));
    log.at(0, 0) = Lanes<N>{};
    for (int64_t i = 0; i < packed.rows; ++i) {
      const Lanes<N>& x = packed.at(i, i);
      Lanes<N> size, more;
      take_size(x, size);
      sign.at(0, 0) = size == 0 ? Lanes<N>{} : sign.at(0, 0) * (x / size);
      for (int l = 0; l < N; ++l) more[l] = std::log(size[l]);
      log.at(0, 0) += more;
    }
    sign.at(0, 0) += Lanes<N>{};  // no -0
    store<N>(g, 0, sign);
    store<N>(g, 1, log);
  });
}

void lanes_lu_solve(const Group& g) { solve_by_factors(g, false); }
void lanes_lu_solve_transposed(const Group& g) { solve_by_factors(g, true); }
void lanes_lower_solve(const Group& g) { solve_triangle(g, true, false); }
void lanes_upper_solve(const Group& g) { solve_triangle(g, false, false); }
void lanes_unit_lower_solve(const Group& g) { solve_triangle(g, true, true); }
void lanes_unit_upper_solve(const Group& g) { solve_triangle(g, false, true); }

void lanes_svd(const Group& g) { find_singular(g, true); }
void lanes_svdvals(const Group& g) { find_singular(g, false); }

}  // namespace lamina::hlo::linalg
