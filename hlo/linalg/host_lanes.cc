// Small real matrices of a batch, as many at once as a vector has lanes.
#include <algorithm>

#include "hlo/isa.h"
#include "hlo/linalg/elimination.h"
#include "hlo/linalg/host.h"

namespace lamina::hlo::linalg {
namespace {

using Problems = std::span<const Problem>;

// f() with the machine's vectors: all of it is compiled once for each instruction set.
#if defined(__x86_64__)
template <typename F>
[[gnu::target("avx512f"), gnu::flatten]] void run_avx512(const F& f) {
  f();
}
template <typename F>
[[gnu::target("avx2"), gnu::flatten]] void run_avx2(const F& f) {
  f();
}
#endif
template <typename F>
void with_vectors(const F& f) {
#if defined(__x86_64__)
  if (best_isa() == Isa::kAvx512) return run_avx512(f);
  if (best_isa() == Isa::kAvx2) return run_avx2(f);
#endif
  f();
}

double* lane(Matrix<Lanes>& m, size_t l) { return reinterpret_cast<double*>(m.data.data()) + l; }

// Operand i of each problem; lanes without a problem hold the last one's.
Matrix<Lanes> load(Problems p, size_t i) {
  const auto [rows, columns] = p[0].operand_shape(i);
  Matrix<Lanes> m(rows, columns);
  for (size_t l = 0; l < kLanes; ++l)
    p[std::min(l, p.size() - 1)].read_real(i, [to = lane(m, l), rows = rows](int64_t r, int64_t c, double x) {
      to[(c * rows + r) * kLanes] = x;
    });
  return m;
}

void store(Problems p, size_t i, Matrix<Lanes>& m) {
  for (size_t l = 0; l < p.size(); ++l)
    p[l].write_real(i, [from = lane(m, l), rows = m.rows](int64_t r, int64_t c) {
      return from[(c * rows + r) * kLanes];
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
    LaneMask positive;
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
