// elimination.h for Lanes: the same numbers for each lane, in blocks of which the sums stay in registers.
//
// Contract: each element takes the same products in the same order as one matrix by itself does, so the bits
// are equal. Matrices have up to kMostLaneRows rows and columns.
#ifndef LAMINA_HLO_LINALG_LANE_ELIMINATION_H_
#define LAMINA_HLO_LINALG_LANE_ELIMINATION_H_

#include <algorithm>
#include <array>
#include <bit>

#include "hlo/linalg/compiled_apart.h"
#include "hlo/linalg/lanes.h"

namespace lamina::hlo::linalg {

// How many columns' sums registers hold beside those of kBlock rows: AVX-512 has twice as many of them.
inline constexpr int kBlock = 4;
template <LanesType T>
inline constexpr int kBlockColumns = kLaneCount<T> == 8 ? 4 : 2;

// Elements next to each other are `by_row` and `by_column` apart.
template <typename T>
struct View {
  T* data;
  int64_t by_row, by_column;
  T& at(int64_t i, int64_t j) const { return data[i * by_row + j * by_column]; }
  View from(int64_t i, int64_t j) const { return {&at(i, j), by_row, by_column}; }
};
template <typename T>
View<T> view(Matrix<T>& m, int64_t i, int64_t j) {
  return {&m.at(i, j), 1, m.lead};
}
template <typename T>
View<const T> view(const Matrix<T>& m, int64_t i, int64_t j) {
  return {&m.at(i, j), 1, m.lead};
}

// R times C sums, each less left(i, 0) right(0, j), ..., left(i, count - 1) right(count - 1, j) in turn.
template <int R, int C, LanesType T>
void subtract_block(T (&sums)[C][R], View<const T> left, View<const T> right, int64_t count) {
  for (; count > 0; --count) {
#pragma GCC unroll 4
    for (int c = 0; c < C; ++c)
#pragma GCC unroll 4
      for (int r = 0; r < R; ++r) sums[c][r] -= left.at(r, 0) * right.at(0, c);
    left.data += left.by_column;
    right.data += right.by_row;
  }
}

template <int R, int C, LanesType T>
void subtract_tile(View<T> to, View<const T> left, View<const T> right, int64_t count) {
  T sums[C][R];
#pragma GCC unroll 4
  for (int c = 0; c < C; ++c)
#pragma GCC unroll 4
    for (int r = 0; r < R; ++r) sums[c][r] = to.at(r, c);
  subtract_block(sums, left, right, count);
#pragma GCC unroll 4
  for (int c = 0; c < C; ++c)
#pragma GCC unroll 4
    for (int r = 0; r < R; ++r) to.at(r, c) = sums[c][r];
}

template <int C, LanesType T, int R = kBlock>
void subtract_rows(View<T> to, View<const T> left, View<const T> right, int64_t rows, int64_t count) {
  int64_t i = 0;
  for (; i + R <= rows; i += R) subtract_tile<R, C>(to.from(i, 0), left.from(i, 0), right, count);
  if constexpr (R > 1) subtract_rows<C, T, R / 2>(to.from(i, 0), left.from(i, 0), right, rows - i, count);
}

// to -= left right.
template <LanesType T, int C = kBlockColumns<T>>
void subtract_product(View<T> to, View<const T> left, View<const T> right, int64_t rows, int64_t columns,
                      int64_t count) {
  int64_t j = 0;
  for (; j + C <= columns; j += C) subtract_rows<C, T>(to.from(0, j), left, right.from(0, j), rows, count);
  if constexpr (C > 1)
    subtract_product<T, C / 2>(to.from(0, j), left, right.from(0, j), rows, columns - j, count);
}

// Columns j ... j+C-1 of the factor, of which the columns before are there.
template <int C, LanesType T>
void eliminate_columns(Matrix<T>& a, int64_t j) {
  const View<const T> right{&std::as_const(a).at(j, 0), a.lead, 1};  // transposed: rows j ... j+C-1
  const auto sums_of_rows = [&]<int R>(int64_t i, T(&sums)[C][R]) {
#pragma GCC unroll 4
    for (int c = 0; c < C; ++c)
#pragma GCC unroll 4
      for (int r = 0; r < R; ++r) sums[c][r] = a.at(i + r, j + c);
    subtract_block<R, C, T>(sums, view(std::as_const(a), i, 0), right, j);
  };
  const auto keep_rows = [&]<int R>(int64_t i, const T(&sums)[C][R]) {
#pragma GCC unroll 4
    for (int c = 0; c < C; ++c)
#pragma GCC unroll 4
      for (int r = 0; r < R; ++r) a.at(i + r, j + c) = sums[c][r];
  };
  T square[C][C], inverses[C];
  sums_of_rows(j, square);
#pragma GCC unroll 4
  for (int c = 0; c < C; ++c) {
    T root = square[c][c];
    take_root(root);
    square[c][c] = root;
    inverses[c] = 1 / root;  // one division, as LAPACK
#pragma GCC unroll 4
    for (int r = c + 1; r < C; ++r) square[c][r] *= inverses[c];
#pragma GCC unroll 4
    for (int next = c + 1; next < C; ++next)
#pragma GCC unroll 4
      for (int r = next; r < C; ++r) square[next][r] -= square[c][next] * square[c][r];
  }
  keep_rows(j, square);
  const auto rows = [&]<int R>(int64_t i) {
    T sums[C][R];
    sums_of_rows(i, sums);
#pragma GCC unroll 4
    for (int c = 0; c < C; ++c)
#pragma GCC unroll 4
      for (int r = 0; r < R; ++r) {
        sums[c][r] *= inverses[c];
#pragma GCC unroll 4
        for (int next = c + 1; next < C; ++next) sums[next][r] -= square[c][next] * sums[c][r];
      }
    keep_rows(i, sums);
  };
  int64_t i = j + C;
  for (; i + kBlock <= a.rows; i += kBlock) rows.template operator()<kBlock>(i);
  for (; i < a.rows; ++i) rows.template operator()<1>(i);
}

template <int C, LanesType T>
void eliminate_from(Matrix<T>& a, int64_t j) {
  for (; j + C <= a.rows; j += C) eliminate_columns<C>(a, j);
  if constexpr (C > 1) eliminate_from<C / 2>(a, j);
}

// What is above the diagonal may be lost. A root that is zero or no number makes none of those after it, so
// the last one tells; comparing it costs as much as ten products.
template <LanesType T>
void eliminate_symmetric(Matrix<T>& a, Mask<T>& positive) {
  eliminate_from<kBlockColumns<T>>(a, 0);
  positive = T{} == T{};
  if (a.rows > 0) positive = a.at(a.rows - 1, a.rows - 1) > 0;
}

// Where the greatest of the rest of column k is, lane by lane.
template <LanesType T>
struct Exchange {
  int64_t k;
  Mask<T> best;
  uint64_t others = 0;  // rows that some lane brings to row k

  Exchange() = default;
  Exchange(const Matrix<T>& a, int64_t row) : k(row), best(Mask<T>{} + row) {
    T most;
    take_size(a.at(k, k), most);
    for (int64_t i = k + 1; i < a.rows; ++i) {
      T size;
      take_size(a.at(i, k), size);
      const Mask<T> greater = size > most;
      most = greater ? size : most;
      best = greater ? Mask<T>{} + i : best;
    }
    for (int l = 0; l < kLaneCount<T>; ++l) others |= uint64_t{1} << best[l];
    others &= ~(uint64_t{1} << k);
  }

  // In columns first ... last-1 it goes to row k, and row k there.
  void apply(Matrix<T>& a, int64_t first, int64_t last) const {
    for (uint64_t rest = others; rest != 0; rest &= rest - 1) {
      const int64_t i = std::countr_zero(rest);
      const Mask<T> here = best == i;
      for (int64_t j = first; j < last; ++j) {
        T &x = a.at(k, j), &y = a.at(i, j);
        const T up = here ? y : x;
        y = here ? x : y;
        x = up;
      }
    }
  }
};

// What step k of the elimination subtracts in columns first ... last-1. Lanes whose pivot is zero need no
// step.
template <LanesType T>
void eliminate_step(Matrix<T>& a, int64_t k, int64_t first, int64_t last, const Mask<T>& zero) {
  const T* const column = a.column(k);
  const bool zeros = any(zero);
  for (int64_t j = first; j < last; ++j) {
    T* const to = a.column(j);
    if (zeros)
      for (int64_t i = k + 1; i < a.rows; ++i) to[i] = zero ? to[i] : to[i] - to[k] * column[i];
    else
      for (int64_t i = k + 1; i < a.rows; ++i) to[i] -= to[k] * column[i];
  }
}

// a becomes its packed factors; zero-based pivots, and the rows of another matrix in the order that they
// make.
template <LanesType T>
void eliminate(Matrix<T>& a, Matrix<T>& pivots, Matrix<T>& ordered) {
  const int64_t m = a.rows, n = a.columns, steps = std::min(m, n);
  for (int64_t begin = 0; begin < steps; begin += kBlock) {
    const int64_t end = std::min<int64_t>(begin + kBlock, steps);
    Exchange<T> exchanges[kBlock];
    Mask<T> none[kBlock];
    bool zeros = false;
    for (int64_t k = begin; k < end; ++k) {
      const Exchange<T>& exchange = exchanges[k - begin] = Exchange<T>(a, k);
      exchange.apply(a, begin, end);
      exchange.apply(ordered, 0, ordered.columns);
      pivots.data[k] = __builtin_convertvector(exchange.best, T);
      const T pivot = a.at(k, k);
      // A column of zeros needs no step.
      const Mask<T> zero = none[k - begin] = pivot == 0;
      zeros |= any(zero);
      const T divisor = zero ? T{} + 1 : pivot;
      T* const column = a.column(k);
      for (int64_t i = k + 1; i < m; ++i) column[i] /= divisor;
      eliminate_step(a, k, k + 1, end, zero);
    }
    for (int64_t k = begin; k < end; ++k) {
      exchanges[k - begin].apply(a, 0, begin);
      exchanges[k - begin].apply(a, end, n);
    }
    if (zeros) {
      for (int64_t k = begin; k < end; ++k) eliminate_step(a, k, end, n, none[k - begin]);
      continue;
    }
    for (int64_t j = end; j < n; ++j) {
      T* const column = a.column(j);
      for (int64_t k = begin; k < end; ++k)
        for (int64_t i = k + 1; i < end; ++i) column[i] -= a.at(i, k) * column[k];
    }
    if (end < n)
      subtract_product<T>(view(a, end, end), view(std::as_const(a), end, begin),
                          view(std::as_const(a), begin, end), m - end, n - end, end - begin);
  }
}

// Columns of b whose sums registers hold become those of the solution.
template <int C, LanesType T>
void substitute_columns(const Matrix<T>& a, bool lower, bool transposed, bool unit, View<T> b) {
  const int64_t n = a.rows;
  const bool down = lower != transposed;
  const View<const T> solved{b.data, b.by_row, b.by_column};
  const auto divide = [&](int64_t k) {
    if (unit) return;
#pragma GCC unroll 4
    for (int c = 0; c < C; ++c) b.at(k, c) /= a.at(k, k);
  };
  if (transposed) {
    // Sums go from the first row to the last in either direction.
    for (int64_t step = 0; step < n; ++step) {
      const int64_t k = down ? step : n - 1 - step, first = down ? 0 : k + 1;
      const View<const T> left{&a.at(first, k), a.lead, 1};
      subtract_tile<1, C>(b.from(k, 0), left, solved.from(first, 0), down ? k : n - first);
      divide(k);
    }
    return;
  }
  for (int64_t done = 0; done < n; done += kBlock) {
    const int64_t rows = std::min<int64_t>(kBlock, n - done);
    // The rows of this block, less what is solved, in the order that it was solved in.
    const int64_t first = down ? done : n - done - rows;
    const View<const T> left = down ? view(a, first, 0) : View<const T>{&a.at(first, n - 1), 1, -a.lead};
    const View<const T> right = down ? solved : View<const T>{&solved.at(n - 1, 0), -b.by_row, b.by_column};
    subtract_rows<C>(b.from(first, 0), left, right, rows, done);
    for (int64_t step = 0; step < rows; ++step) {
      const int64_t k = down ? first + step : first + rows - 1 - step;
      divide(k);
      for (int64_t i = down ? k + 1 : first; i < (down ? first + rows : k); ++i)
#pragma GCC unroll 4
        for (int c = 0; c < C; ++c) b.at(i, c) -= a.at(i, k) * b.at(k, c);
    }
  }
}

template <LanesType T, int C = kBlockColumns<T>>
void substitute_from(const Matrix<T>& a, bool lower, bool transposed, bool unit, Matrix<T>& b, int64_t j) {
  for (; j + C <= b.columns; j += C) substitute_columns<C>(a, lower, transposed, unit, view(b, 0, j));
  if constexpr (C > 1) substitute_from<T, C / 2>(a, lower, transposed, unit, b, j);
}

// b becomes op(a)^-1 b; op is N or T.
template <LanesType T>
void substitute(const Matrix<T>& a, bool lower, bool transposed, bool unit, Matrix<T>& b) {
  compiled_apart<kLaneCount<T>>([&] { substitute_from(a, lower, transposed, unit, b, 0); });
}

}  // namespace lamina::hlo::linalg

#endif  // LAMINA_HLO_LINALG_LANE_ELIMINATION_H_
