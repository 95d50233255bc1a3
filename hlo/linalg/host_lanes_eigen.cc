// Eigenvalues of small real symmetric matrices of a batch, as many at once as a vector has lanes.
#include "hlo/linalg/lane_memory.h"
#include "hlo/linalg/tridiagonal.h"

namespace lamina::hlo::linalg {
namespace {

// The triangle that is read becomes no larger than about 1, by dividing by `units`. Zeros where it has
// numbers that are not finite.
template <int N>
void scale(Matrix<Lanes<N>>& a, Lanes<N>& units, Mask<Lanes<N>>& finite) {
  Lanes<N> most{};
  finite = most == most;
  for (int64_t j = 0; j < a.columns; ++j)
    for (int64_t i = j; i < a.rows; ++i) {
      Lanes<N> size;
      take_size(a.at(i, j), size);
      finite &= size < std::numeric_limits<double>::infinity();
      most = size > most ? size : most;
    }
  for (int l = 0; l < N; ++l) units[l] = unit_near(finite[l] ? most[l] : 0);
  for (int64_t j = 0; j < a.columns; ++j)
    for (int64_t i = j; i < a.rows; ++i) {
      Lanes<N>& x = a.at(i, j);
      x = finite ? x / units : Lanes<N>{};
    }
}

// Values in ascending order, those that are equal in the order they had; the same of `places`.
template <int N>
void sort_values(Line<Lanes<N>>& values, Line<Lanes<N>>& places) {
  for (size_t i = 1; i < values.size(); ++i)
    for (size_t j = i; j-- > 0;) {
      Lanes<N>&low = values[j], &high = values[j + 1], &low_place = places[j], &high_place = places[j + 1];
      const Mask<Lanes<N>> exchanged = high < low;
      const Lanes<N> up = exchanged ? low : high, from = exchanged ? low_place : high_place;
      low = exchanged ? high : low;
      low_place = exchanged ? high_place : low_place;
      high = up;
      high_place = from;
    }
}

template <int N>
void find_eigen(const Group& g, bool vectors) {
  Loaded<N> a(g, 0);
  const int64_t n = a.rows;
  Lanes<N> units;
  Mask<Lanes<N>> finite;
  scale<N>(a, units, finite);
  Line<Lanes<N>> values(static_cast<size_t>(n)), beneath(static_cast<size_t>(n)),
      places(static_cast<size_t>(n));
  Matrix<Lanes<N>> v(n, n);
  tridiagonalize(a, values, beneath, vectors ? &v : nullptr);
  diagonalize<Lanes<N>>(values, beneath, vectors ? &v : nullptr);
  for (int64_t k = 0; k < n; ++k) places[static_cast<size_t>(k)] = Lanes<N>{} + static_cast<double>(k);
  sort_values<N>(values, places);
  Matrix<Lanes<N>> column(n, 1);
  for (int64_t k = 0; k < n; ++k)
    column.at(k, 0) = finite ? units * values[static_cast<size_t>(k)] : Lanes<N>{} + kNaN;
  store<N>(g, vectors ? 1 : 0, column);
  if (!vectors) return;
  with_number_type(g.out[0].dtype(), [&]<typename X>(X*) {
    for (int64_t l = 0; l < g.count; ++l) {
      X* const out = g.out[0].as<X>() + (g.first + l) * n * n;
      for (int64_t j = 0; j < n; ++j) {
        const double* const from =
            lane(v, l) + static_cast<int64_t>(places[static_cast<size_t>(j)][l]) * v.lead * N;
        for (int64_t i = 0; i < n; ++i) out[i * n + j] = static_cast<X>(finite[l] ? from[i * N] : kNaN);
      }
    }
  });
}

}  // namespace

void lanes_eigh(const Group& g) {
  with_lanes([&]<int N>() { find_eigen<N>(g, true); });
}
void lanes_eigvalsh(const Group& g) {
  with_lanes([&]<int N>() { find_eigen<N>(g, false); });
}

}  // namespace lamina::hlo::linalg
