// Columns of numbers that are transformed side by side (hlo/linalg/fourier.cc): their memory, and the ways in
// and out of it.
//
// Contract: what becomes of a column does not depend on what is beside it, nor on the width of the vectors.
// To be included where vectors of the machine are made (hlo/with_vectors.h), by one file.
#ifndef LAMINA_HLO_LINALG_FOURIER_COLUMNS_H_
#define LAMINA_HLO_LINALG_FOURIER_COLUMNS_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>

#include "hlo/linalg/fourier_passes.h"

namespace lamina::hlo::linalg::fourier {

// Up to kSideBySide columns at work, by vectors of N numbers.
template <typename X, int N>
class Columns {
 public:
  static constexpr int kWidth = N;
  using V = typename VectorOf<X, N>::Type;
  using Places = std::make_integer_sequence<int, N>;
  static constexpr int64_t kLanes = kSideBySide<X>;
  // As many numbers as a vector holds of both parts.
  static constexpr int kSquare = N / 2;
  static constexpr int kDoubles = N * static_cast<int>(sizeof(X) / sizeof(float)) / 2;

  // `swapped` exchanges real and imaginary parts at the way in and out, which makes a transform the inverse
  // one. No other is scaled.
  Columns(int64_t most_rows, bool swapped)
      : memory_(std::make_unique_for_overwrite<CacheLine[]>(static_cast<size_t>(4 * most_rows))),
        swapped_(swapped) {
    X* const first = reinterpret_cast<X*>(memory_.get());
    for (int64_t i = 0; i < 2; ++i) halves_[i] = {first + i * most_rows * Rows<X>::kStep};
  }
  // Memory for a line of so many numbers, between the transforms of which columns hold nothing.
  X* line(int64_t length) {
    if (!line_)
      line_ = std::make_unique_for_overwrite<CacheLine[]>(static_cast<size_t>(2 * length / kLanes + 1));
    return reinterpret_cast<X*>(line_.get());
  }
  Columns(const Columns&) = delete;
  Columns& operator=(const Columns&) = delete;

  // Loads columns, or lines, and transforms them.
  LAMINA_INLINE void load(const Interleaved<const X>& from, int64_t lanes, int64_t rows,
                          const Rounds<X>& rounds) {
    const size_t done = begin(from, lanes, rows, rounds, rounds.size());
    run_rounds(rounds, done, rounds.size());
  }
  // From columns to columns in memory, which may be the same.
  LAMINA_INLINE void move(const Interleaved<const X>& from, const Interleaved<X>& to, int64_t lanes,
                          int64_t rows, const Rounds<X>& rounds, X scale) {
    const bool ends = lanes == kLanes && !rounds.empty() && reaches_columns<V>(rounds.back().kind);
    if (ends && rounds.size() == 1)
      return with_swapped([&]<bool kSwapped>() {
        run_round(rounds[0], FromColumns<X, kSwapped>{from.first, from.row_step},
                  ToColumns<X, kSwapped>{to.first, to.row_step, scale});
      });
    const size_t inside = rounds.size() - ends;
    const size_t done = begin(from, lanes, rows, rounds, inside);
    run_rounds(rounds, done, inside);
    if (!ends) return store_scaled(to, lanes, rows, scale);
    with_swapped([&]<bool kSwapped>() {
      run_round(rounds.back(), halves_[0], ToColumns<X, kSwapped>{to.first, to.row_step, scale});
    });
  }
  // From rows to others, which may be the same.
  LAMINA_INLINE void run(const Rounds<X>& rounds, Rows<X> x, const Rows<X>& to) {
    for (size_t i = 0; i < rounds.size(); ++i) {
      const Rows<X>& y = i + 1 == rounds.size() ? to : halves_[i % 2];
      run_round(rounds[i], x, y);
      x = y;
    }
  }

  // Lines of `rows` times `columns` numbers side by side: memory for all of them, and for kSquare of their
  // rows or columns, with their numbers apart.
  void hold_lines(int64_t rows, int64_t columns) {
    part_ = std::max(rows, columns);
    // Numbers below each other do not lie a power of two apart.
    line_row_ = columns | 1;
    const auto size = static_cast<size_t>(2 * (kSquare * part_ + rows * line_row_));
    if (!lines_) lines_ = std::make_unique_for_overwrite<CacheLine[]>(size);
  }
  Rows<X> part(int64_t i) { return {reinterpret_cast<X*>(lines_.get()) + i * part_ * Rows<X>::kStep}; }
  Rows<X> line_row(int64_t row) {
    return {reinterpret_cast<X*>(lines_.get()) + (kSquare * part_ + row * line_row_) * Rows<X>::kStep};
  }
  // Part i gets number i of each of the rows of `from`.
  LAMINA_INLINE void load_parts(const Interleaved<const X>& from, int64_t lanes, int64_t rows) {
    for (int64_t r = 0; r < rows; ++r)
      for (int64_t l = 0; l < kLanes; l += N) {
        // Of the lines that follow: each is read in so many small parts that no cache would guess the next
        // one.
        for (int64_t i = 0; i < N; ++i) __builtin_prefetch(from.at(kLanes + l + i, r), 0, 2);
        Numbers<V> x[kSquare];
        load_square(from.at(0, r), from.lane_step, lanes, l, x);
#pragma GCC unroll 8
        for (int i = 0; i < kSquare; ++i) {
          if (swapped_) std::swap(x[i].re, x[i].im);
          fourier::store(x[i], part(i).at(r, l));
        }
      }
  }
  // numbers(i, r, l, x) gives the numbers i after `to` of row r, from line l on.
  template <typename F>
  LAMINA_INLINE void store_squares(const Interleaved<X>& to, int64_t lanes, int64_t rows, const F& numbers) {
    for (int64_t r = 0; r < rows; ++r)
      for (int64_t l = 0; l < lanes; l += N) {
        for (int64_t i = 0; i < N; ++i) __builtin_prefetch(to.at(kLanes + l + i, r), 0, 2);
        Numbers<V> x[kSquare];
#pragma GCC unroll 8
        for (int i = 0; i < kSquare; ++i) numbers(i, r, l, x[i]);
        store_square(to.at(0, r), to.lane_step, lanes, l, x);
      }
  }
  LAMINA_INLINE void store_parts(const Interleaved<X>& to, int64_t lanes, int64_t rows, X scale) {
    store_squares(to, lanes, rows, [&](int64_t i, int64_t r, int64_t l, auto& x) {
      fourier::load(part(i).at(r, l), x);
      if (swapped_) x = {x.im * scale, x.re * scale};
    });
  }

  // finish(x, row, lane) is what becomes of the numbers x from `lane` on.
  template <typename F>
  LAMINA_INLINE void store(const Interleaved<X>& to, int64_t lanes, int64_t rows, const F& finish) const {
    if (to.row_step == 1)
      store_lines(to, lanes, rows, finish);
    else
      store_columns(to, lanes, rows, finish);
  }
  LAMINA_INLINE void store_scaled(const Interleaved<X>& to, int64_t lanes, int64_t rows, X scale) const {
    store(to, lanes, rows, [=, this](auto& x, int64_t, int64_t) {
      if (swapped_) x = {x.re * scale, x.im * scale};
    });
  }

 private:
  struct alignas(64) CacheLine {
    std::byte bytes[64];
  };
  static constexpr int kNarrow = 16 / static_cast<int>(sizeof(X));  // a vector that every machine has

  // The columns from `first` that fill vectors of `width`; returns the first one that is left.
  template <int width>
  LAMINA_INLINE int64_t load_vectors(const Interleaved<const X>& from, int64_t first, int64_t lanes,
                                     int64_t row) {
    using W = typename VectorOf<X, width>::Type;
    for (; first + width <= lanes; first += width) {
      Numbers<W> x;
      load_interleaved(from.at(first, row), x, std::make_integer_sequence<int, width>());
      if (swapped_) std::swap(x.re, x.im);
      fourier::store(x, halves_[0].at(row, first));
    }
    return first;
  }
  LAMINA_INLINE void load_number(const Interleaved<const X>& from, int64_t lane, int64_t row) {
    X* const to = halves_[0].at(row, lane);
    to[swapped_ ? kLanes : 0] = from.at(lane, row)[0];
    to[swapped_ ? 0 : kLanes] = from.at(lane, row)[1];
  }
  // Lanes without work compute, too.
  LAMINA_INLINE void clear_from(int64_t lane, int64_t row) {
    X* const to = halves_[0].at(row, 0);
    for (; lane < kLanes; ++lane) to[lane] = to[lane + kLanes] = 0;
  }
  LAMINA_INLINE void load_columns(const Interleaved<const X>& from, int64_t lanes, int64_t rows) {
    for (int64_t r = 0; r < rows; ++r) {
      int64_t l = load_vectors<N>(from, 0, lanes, r);
      if (l == lanes) continue;
      l = load_vectors<kNarrow>(from, l, lanes, r);
      for (; l < lanes; ++l) load_number(from, l, r);
      clear_from(lanes, r);
    }
  }
  // x[i] gets the numbers that lie i after `first` and the same place of the other lines, from line l on.
  // Lanes without work repeat the last one.
  LAMINA_INLINE void load_square(const X* first, int64_t step, int64_t lanes, int64_t l,
                                 Numbers<V>* x) const {
    load_turned<X>([=](int i) { return first + 2 * std::min(l + i, lanes - 1) * step; }, x, Places());
  }
  LAMINA_INLINE void store_square(X* first, int64_t step, int64_t lanes, int64_t l,
                                  const Numbers<V>* x) const {
    V v[N];
    turn_back<X>(x, v, Places());
    const auto put_line = [&](int i) { put(v[i], first + 2 * (l + i) * step); };
    if (l + N <= lanes) {
#pragma GCC unroll 16
      for (int i = 0; i < N; ++i) put_line(i);
    } else {
      for (int i = 0; l + i < lanes; ++i) put_line(i);
    }
  }
  LAMINA_INLINE void load_lines(const Interleaved<const X>& from, int64_t lanes, int64_t rows) {
    const int64_t squares = rows / kSquare * kSquare;
    for (int64_t l = 0; l < kLanes; l += N)
      for (int64_t r = 0; r < squares; r += kSquare) {
        Numbers<V> x[kSquare];
        load_square(from.at(0, r), from.lane_step, lanes, l, x);
#pragma GCC unroll 8
        for (int i = 0; i < kSquare; ++i) {
          if (swapped_) std::swap(x[i].re, x[i].im);
          fourier::store(x[i], halves_[0].at(r + i, l));
        }
      }
    for (int64_t r = squares; r < rows; ++r) {
      for (int64_t l = 0; l < lanes; ++l) load_number(from, l, r);
      clear_from(lanes, r);
    }
  }
  template <typename W, typename F>
  LAMINA_INLINE void finished(int64_t row, int64_t lane, const F& finish, Numbers<W>& x) const {
    fourier::load(halves_[0].at(row, lane), x);
    finish(x, row, lane);
    if (swapped_) std::swap(x.re, x.im);
  }
  template <int width, typename F>
  LAMINA_INLINE int64_t store_vectors(const Interleaved<X>& to, int64_t first, int64_t lanes, int64_t row,
                                      const F& finish) const {
    using W = typename VectorOf<X, width>::Type;
    for (; first + width <= lanes; first += width) {
      Numbers<W> x;
      finished(row, first, finish, x);
      store_interleaved(x, to.at(first, row), std::make_integer_sequence<int, width>());
    }
    return first;
  }
  template <typename F>
  LAMINA_INLINE void store_number(const Interleaved<X>& to, int64_t lane, int64_t row,
                                  const F& finish) const {
    Numbers<X> x;
    finished(row, lane, finish, x);
    to.at(lane, row)[0] = x.re;
    to.at(lane, row)[1] = x.im;
  }
  template <typename F>
  LAMINA_INLINE void store_columns(const Interleaved<X>& to, int64_t lanes, int64_t rows,
                                   const F& finish) const {
    for (int64_t r = 0; r < rows; ++r) {
      int64_t l = store_vectors<N>(to, 0, lanes, r, finish);
      if (l == lanes) continue;
      l = store_vectors<kNarrow>(to, l, lanes, r, finish);
      for (; l < lanes; ++l) store_number(to, l, r, finish);
    }
  }
  template <typename F>
  LAMINA_INLINE void store_lines(const Interleaved<X>& to, int64_t lanes, int64_t rows,
                                 const F& finish) const {
    const int64_t squares = rows / kSquare * kSquare;
    for (int64_t l = 0; l < lanes; l += N)
      for (int64_t r = 0; r < squares; r += kSquare) {
        Numbers<V> x[kSquare];
#pragma GCC unroll 8
        for (int i = 0; i < kSquare; ++i) finished(r + i, l, finish, x[i]);
        store_square(to.at(0, r), to.lane_step, lanes, l, x);
      }
    for (int64_t r = squares; r < rows; ++r)
      for (int64_t l = 0; l < lanes; ++l) store_number(to, l, r, finish);
  }
  template <typename F>
  LAMINA_INLINE void with_swapped(const F& f) const {
    if (swapped_)
      f.template operator()<true>();
    else
      f.template operator()<false>();
  }
  // Loads, or makes the first of `count` rounds as well: how many it made.
  LAMINA_INLINE size_t begin(const Interleaved<const X>& from, int64_t lanes, int64_t rows,
                             const Rounds<X>& rounds, size_t count) {
    if (from.row_step == 1) {
      load_lines(from, lanes, rows);
      return 0;
    }
    if (lanes < kLanes || count == 0 || !reaches_columns<V>(rounds[0].kind)) {
      load_columns(from, lanes, rows);
      return 0;
    }
    with_swapped([&]<bool kSwapped>() {
      run_round(rounds[0], FromColumns<X, kSwapped>{from.first, from.row_step}, halves_[0]);
    });
    return 1;
  }
  LAMINA_INLINE void run_rounds(const Rounds<X>& rounds, size_t begin, size_t end) {
    for (size_t i = begin; i < end; ++i) {
      const bool in_place = rounds[i].after == 1;
      run_round(rounds[i], halves_[0], halves_[in_place ? 0 : 1]);
      if (!in_place) std::swap(halves_[0], halves_[1]);
    }
  }

  std::unique_ptr<CacheLine[]> memory_;
  std::unique_ptr<CacheLine[]> line_, lines_;
  int64_t part_ = 0, line_row_ = 0;
  bool swapped_;
  Rows<X> halves_[2];  // the numbers, and where the next pass puts them
};

}  // namespace lamina::hlo::linalg::fourier

#endif  // LAMINA_HLO_LINALG_FOURIER_COLUMNS_H_
