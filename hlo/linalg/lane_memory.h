// From the matrices of a group to one matrix of lanes, and back.
//
// Contract: arrays hold f32, f64 or s32, matrix by matrix and row by row; nothing outside of the group's
// matrices is written. Vectors are turned in registers, as many elements of as many matrices at once.
#ifndef LAMINA_HLO_LINALG_LANE_MEMORY_H_
#define LAMINA_HLO_LINALG_LANE_MEMORY_H_

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstring>
#include <type_traits>
#include <utility>

#include "hlo/linalg/compiled_apart.h"
#include "hlo/linalg/lanes.h"

namespace lamina::hlo::linalg {

template <typename T>
double* lane(Matrix<T>& m, int64_t l) {
  return reinterpret_cast<double*>(m.data.data()) + l;
}

// one(k, place) for the elements k ... k+N-1 of a matrix, which has at least N, with place(j), where element
// k+j is in a matrix of columns. Some may be among elements that have been before. Where N elements of a row
// are above the diagonal, above(k) in its place, if it is given.
template <int N, typename T, typename One, typename Above = std::nullptr_t>
void each_block(const Matrix<T>& m, const One& one, const Above& above = nullptr) {
  // A column lies as a row does.
  const bool is_column = m.columns == 1;
  const int64_t columns = is_column ? m.rows : m.columns, rows = is_column ? 1 : m.rows;
  const int64_t lead = is_column ? 1 : m.lead;
  if (columns >= N) {
    for (int64_t r = 0; r < rows; ++r)
      for (int64_t c = 0; c < columns; c += N) {
        const int64_t begin = std::min(c, columns - N);
        if constexpr (!std::is_null_pointer_v<Above>)
          if (begin > r) {
            above(r * columns + begin);
            continue;
          }
        one(r * columns + begin, [first = begin * lead + r, lead](int64_t j) { return first + j * lead; });
      }
    return;
  }
  const int64_t n = rows * columns;
  for (int64_t next = 0; next < n; next += N) {
    const int64_t k = std::min(next, n - N);
    int64_t places[N];
    int64_t r = k / columns, c = k % columns;
    for (int64_t& place : places) {
      place = c * lead + r;
      if (++c == columns) {
        c = 0;
        ++r;
      }
    }
    one(k, [&places](int64_t j) { return places[j]; });
  }
}

// What rows of X are turned as: pairs of numbers of 64 bits change places by one instruction, of fewer bits
// by two, and converting what is loaded costs nothing. Eight of 64 bits are a vector whose instructions fewer
// ports have.
template <int N, typename X>
using TurnedRow = typename VectorOf<std::conditional_t<(N < 8), double, X>, N>::Type;

// The same numbers, in a type that holds them. (Of two halves GCC 12 converts one after the other.)
template <typename To, typename From>
void widen(const From& from, To& to) {
#if defined(__x86_64__) && !defined(__clang__)
  if constexpr (std::is_same_v<std::remove_cvref_t<decltype(from[0])>, float> && sizeof(To) > sizeof(From) &&
                sizeof(To) > 16) {
    asm("vcvtps2pd %1, %0" : "=v"(to) : "v"(from));
    return;
  }
#endif
  to = __builtin_convertvector(from, To);
}

// Matrices that begin at `from`.
template <int N, typename X>
void load_blocks(const std::array<const X*, N>& from, Matrix<Lanes<N>>& m) {
  using Row = typename VectorOf<X, N>::Type;
  using Turned = TurnedRow<N, X>;
  const std::array<const X*, N> first = from;
  Lanes<N>* const to = m.data.data();
  each_block<N>(m, [&](int64_t k, const auto& place) {
    Turned v[N];
#pragma GCC unroll 8
    for (int l = 0; l < N; ++l) {
      Row row;
      std::memcpy(&row, first[l] + k, sizeof(Row));
      widen(row, v[l]);
    }
    transpose_vectors<N>(v);
#pragma GCC unroll 8
    for (int j = 0; j < N; ++j) widen(v[j], to[place(j)]);
  });
}

template <int N>
using AllLanes = std::integral_constant<int64_t, N>;

// Of the first `count` lanes. Of lower triangles most of what is above the diagonal is zero whatever m has
// there, all but the last N-1 rows before it.
template <int N, typename X, bool is_lower = false, typename Count>
void store_blocks(const Matrix<Lanes<N>>& m, const std::array<X*, N>& to, Count count) {
  using Row = typename VectorOf<X, N>::Type;
  using Turned = TurnedRow<N, X>;
  const std::array<X*, N> first = to;
  const Lanes<N>* const from = m.data.data();
  const auto turn = [&](int64_t k, const auto& place) {
    Turned v[N];
#pragma GCC unroll 8
    for (int j = 0; j < N; ++j) v[j] = __builtin_convertvector(from[place(j)], Turned);
    transpose_vectors<N>(v);
#pragma GCC unroll 8
    for (int l = 0; l < N; ++l) {
      if (l >= count) break;
      const Row row = __builtin_convertvector(v[l], Row);
      std::memcpy(first[l] + k, &row, sizeof(Row));
    }
  };
  if constexpr (is_lower)
    each_block<N>(m, turn, [&](int64_t k) {
#pragma GCC unroll 8
      for (int l = 0; l < N; ++l) {
        if (l >= count) break;
        const Row row{};
        std::memcpy(first[l] + k, &row, sizeof(Row));
      }
    });
  else
    each_block<N>(m, turn);
}

// The same for matrices of less than N elements, by way of rows that have room for N.
template <int N, typename X>
void load_few(const std::array<const X*, N>& from, Matrix<Lanes<N>>& m) {
  const int64_t n = m.rows * m.columns;
  X rows[N][N] = {};
  for (int l = 0; l < N; ++l)
    for (int64_t k = 0; k < n; ++k) rows[l][k] = from[l][k];
  Matrix<Lanes<N>> all(1, N);
  std::array<const X*, N> padded;
  for (int l = 0; l < N; ++l) padded[l] = rows[l];
  load_blocks<N, X>(padded, all);
  for (int64_t r = 0; r < m.rows; ++r)
    for (int64_t c = 0; c < m.columns; ++c) m.at(r, c) = all.data[r * m.columns + c];
}

template <int N, typename X>
void store_few(const Matrix<Lanes<N>>& m, const std::array<X*, N>& to, int64_t count) {
  const int64_t n = m.rows * m.columns;
  Matrix<Lanes<N>> all(1, N);
  for (int64_t k = 0; k < N; ++k) all.data[k] = k < n ? m.at(k / m.columns, k % m.columns) : Lanes<N>{};
  X rows[N][N];
  std::array<X*, N> padded;
  for (int l = 0; l < N; ++l) padded[l] = rows[l];
  store_blocks<N, X>(all, padded, AllLanes<N>());
  for (int64_t l = 0; l < count; ++l)
    for (int64_t k = 0; k < n; ++k) to[l][k] = rows[l][k];
}

template <typename F>
void with_number_type(DType t, const F& f) {
  if (t == DType::kF32)
    f(static_cast<float*>(nullptr));
  else if (t == DType::kF64)
    f(static_cast<double*>(nullptr));
  else
    f(static_cast<int32_t*>(nullptr));
}

// Matrices of which that of lane l begins at from[l].
template <int N, typename X>
void load(const std::array<const X*, N>& from, Matrix<Lanes<N>>& m) {
  if (m.rows * m.columns >= N) return load_blocks<N, X>(from, m);
  compiled_apart<N>([&] { load_few<N, X>(from, m); });
}
template <int N, typename X, bool is_lower = false>
void store(const Matrix<Lanes<N>>& m, const std::array<X*, N>& to, int64_t count) {
  const bool few = m.rows * m.columns < N;
  if (!few && count == N) return store_blocks<N, X, is_lower>(m, to, AllLanes<N>());
  compiled_apart<N>(
      [&] { few ? store_few<N, X>(m, to, count) : store_blocks<N, X, is_lower>(m, to, count); });
}

// Operand i of each problem, of that shape; lanes without a problem hold the last one's.
template <int N>
void load(const Group& g, size_t i, Matrix<Lanes<N>>& m) {
  with_number_type(g.in[i].dtype(), [&]<typename X>(X*) {
    std::array<const X*, N> from;
    for (int64_t l = 0; l < N; ++l)
      from[l] = g.in[i].as<X>() + g.place(std::min(l, g.count - 1), i) * m.rows * m.columns;
    load<N, X>(from, m);
  });
}
template <int N>
struct Loaded : Matrix<Lanes<N>> {
  Loaded(const Group& g, size_t i) : Matrix<Lanes<N>>(shape_of(g.in[i]).first, shape_of(g.in[i]).second) {
    load<N>(g, i, *this);
  }
};

template <int N, bool is_lower = false>
void store(const Group& g, size_t i, const Matrix<Lanes<N>>& m) {
  with_number_type(g.out[i].dtype(), [&]<typename X>(X*) {
    std::array<X*, N> to;
    for (int64_t l = 0; l < N; ++l) to[l] = g.out[i].as<X>() + (g.first + l) * m.rows * m.columns;
    store<N, X, is_lower>(m, to, g.count);
  });
}

}  // namespace lamina::hlo::linalg

#endif  // LAMINA_HLO_LINALG_LANE_MEMORY_H_
