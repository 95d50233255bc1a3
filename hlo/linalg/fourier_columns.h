// Columns of numbers that are transformed side by side (hlo/linalg/fourier.cc): the passes, and the ways in
// and out of them.
//
// Contract: what becomes of a column does not depend on what is beside it, nor on the width of the vectors.
// To be included where vectors of the machine are made (hlo/with_vectors.h), by one file.
#ifndef LAMINA_HLO_LINALG_FOURIER_COLUMNS_H_
#define LAMINA_HLO_LINALG_FOURIER_COLUMNS_H_

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <memory>
#include <utility>
#include <vector>

#include "hlo/linalg/fourier.h"
#include "hlo/linalg/lanes.h"

namespace lamina::hlo::linalg::fourier {

// Lines, or columns of one, that are transformed side by side: a cache line of real parts. It is the same for
// every instruction set, as the factors of a long line depend on it.
template <typename X>
inline constexpr int64_t kSideBySide = 64 / sizeof(X);

// A number, or one of each of several columns.
template <typename V>
struct Numbers {
  V re, im;
};

// One pass over a line: radix r, with what follows it of m numbers.
template <typename X>
struct Pass {
  int64_t radix, m;
  std::vector<Numbers<X>> twiddles;  // w^(p k) for p below m and k from 1 to radix - 1
  std::vector<Numbers<X>> roots;     // of the radix, by j k mod radix; of odd radices
};

#define LAMINA_INLINE [[gnu::always_inline]] inline

// Real and imaginary parts of rows of kSideBySide columns.
template <typename X>
struct Rows {
  X *re, *im;
};

template <typename X, typename V>
LAMINA_INLINE void load(const Rows<X>& from, int64_t at, Numbers<V>& x) {
  std::memcpy(&x.re, from.re + at, sizeof(V));
  std::memcpy(&x.im, from.im + at, sizeof(V));
}
template <typename X, typename V>
LAMINA_INLINE void store(const Numbers<V>& x, const Rows<X>& to, int64_t at) {
  std::memcpy(to.re + at, &x.re, sizeof(V));
  std::memcpy(to.im + at, &x.im, sizeof(V));
}
template <typename V>
LAMINA_INLINE void add(const Numbers<V>& a, const Numbers<V>& b, Numbers<V>& sum) {
  sum = {a.re + b.re, a.im + b.im};
}
template <typename V>
LAMINA_INLINE void subtract(const Numbers<V>& a, const Numbers<V>& b, Numbers<V>& difference) {
  difference = {a.re - b.re, a.im - b.im};
}
template <typename V, typename W>
LAMINA_INLINE void turn(Numbers<V>& x, const W& re, const W& im) {
  x = {x.re * re - x.im * im, x.re * im + x.im * re};
}

// y[k] = sums over j of a[j] w^(j k), in place.
template <typename V>
LAMINA_INLINE void combine2(Numbers<V>* a) {
  const Numbers<V> first = a[0];
  add(first, a[1], a[0]);
  subtract(first, a[1], a[1]);
}
template <typename V>
LAMINA_INLINE void combine4(Numbers<V>* a) {
  Numbers<V> even, odd, even_rest, odd_rest;
  add(a[0], a[2], even);
  subtract(a[0], a[2], even_rest);
  add(a[1], a[3], odd);
  subtract(a[1], a[3], odd_rest);
  add(even, odd, a[0]);
  subtract(even, odd, a[2]);
  a[1] = {even_rest.re + odd_rest.im, even_rest.im - odd_rest.re};
  a[3] = {even_rest.re - odd_rest.im, even_rest.im + odd_rest.re};
}
// Of an odd radix: places j and r - j have the same cosines and opposite sines.
template <typename X, typename V>
LAMINA_INLINE void combine_odd(Numbers<V>* a, int64_t r, const Numbers<X>* roots) {
  Numbers<V> sums[kLargestPrime / 2 + 1], differences[kLargestPrime / 2 + 1];
  const Numbers<V> first = a[0];
  const int64_t half = r / 2;
#pragma GCC unroll 2
  for (int64_t j = 1; j <= half; ++j) {
    add(a[j], a[r - j], sums[j]);
    subtract(a[j], a[r - j], differences[j]);
    add(a[0], sums[j], a[0]);
  }
#pragma GCC unroll 2
  for (int64_t k = 1; k <= half; ++k) {
    Numbers<V> even = first, odd{};
    int64_t at = 0;
#pragma GCC unroll 2
    for (int64_t j = 1; j <= half; ++j) {
      at = at + k < r ? at + k : at + k - r;
      even = {even.re + roots[at].re * sums[j].re, even.im + roots[at].re * sums[j].im};
      odd = {odd.re + roots[at].im * differences[j].re, odd.im + roots[at].im * differences[j].im};
    }
    a[k] = {even.re - odd.im, even.im + odd.re};
    a[r - k] = {even.re + odd.im, even.im - odd.re};
  }
}

// x[p + m j] of `s` numbers each becomes y[r p + k].
template <typename V, int R, typename X>
LAMINA_INLINE void run_pass(const Pass<X>& pass, const Rows<X>& x, const Rows<X>& y, int64_t s) {
  constexpr int64_t kWidth = sizeof(V) / sizeof(X);
  const int64_t r = R > 0 ? R : pass.radix, m = pass.m;
  const Numbers<X>* const roots = pass.roots.data();
  Numbers<V> a[R > 0 ? R : kLargestPrime];
  for (int64_t p = 0; p < m; ++p) {
    const Numbers<X>* const w = pass.twiddles.data() + p * (r - 1);
    for (int64_t i = 0; i < s; i += kWidth) {
#pragma GCC unroll 8
      for (int64_t j = 0; j < r; ++j) load(x, (p + m * j) * s + i, a[j]);
      if constexpr (R == 2)
        combine2(a);
      else if constexpr (R == 4)
        combine4(a);
      else
        combine_odd(a, r, roots);
      if (p > 0) {
#pragma GCC unroll 8
        for (int64_t k = 1; k < r; ++k) turn(a[k], w[k - 1].re, w[k - 1].im);
      }
#pragma GCC unroll 8
      for (int64_t k = 0; k < r; ++k) store(a[k], y, (r * p + k) * s + i);
    }
  }
}

template <typename X, typename F>
void with_vectors_of(const F& f) {
  with_lanes([&]<int doubles>() {
    f.template operator()<doubles* static_cast<int>(kSideBySide<X> / kSideBySide<double>)>();
  });
}

// Numbers in memory, interleaved: `lane_step` from column to column and `row_step` from row to row.
template <typename X>
struct Interleaved {
  X* first;
  int64_t lane_step, row_step;

  X* at(int64_t lane, int64_t row) const { return first + 2 * (lane * lane_step + row * row_step); }
};

template <typename V, int... I>
LAMINA_INLINE void take_apart(const V& low, const V& high, Numbers<V>& x, std::integer_sequence<int, I...>) {
  x = {__builtin_shufflevector(low, high, (2 * I)...), __builtin_shufflevector(low, high, (2 * I + 1)...)};
}
template <typename V, int... I>
LAMINA_INLINE void put_together(const Numbers<V>& x, V& low, V& high, std::integer_sequence<int, I...>) {
  constexpr int kWidth = sizeof...(I);
  low = __builtin_shufflevector(x.re, x.im, (I / 2 + I % 2 * kWidth)...);
  high = __builtin_shufflevector(x.re, x.im, ((I + kWidth) / 2 + I % 2 * kWidth)...);
}

template <typename X, typename V, typename P>
LAMINA_INLINE void load_interleaved(const X* from, Numbers<V>& x, P places) {
  V low, high;
  std::memcpy(&low, from, sizeof(V));
  std::memcpy(&high, from + places.size(), sizeof(V));
  take_apart(low, high, x, places);
}
template <typename X, typename V, typename P>
LAMINA_INLINE void store_interleaved(const Numbers<V>& x, X* to, P places) {
  V low, high;
  put_together(x, low, high, places);
  std::memcpy(to, &low, sizeof(V));
  std::memcpy(to + places.size(), &high, sizeof(V));
}
template <typename V, int... I>
LAMINA_INLINE void reverse(Numbers<V>& x, std::integer_sequence<int, I...>) {
  constexpr int kLast = sizeof...(I) - 1;
  x = {__builtin_shufflevector(x.re, x.re, (kLast - I)...),
       __builtin_shufflevector(x.im, x.im, (kLast - I)...)};
}

// Exchanges blocks of `d` interleaved numbers off the diagonal of two rows of blocks.
template <int d, typename V, int... I>
LAMINA_INLINE void exchange(V& a, V& b, std::integer_sequence<int, I...>) {
  constexpr int kWidth = sizeof...(I);
  const V first = __builtin_shufflevector(a, b, (I / 2 / d % 2 == 0 ? I : I - 2 * d + kWidth)...);
  b = __builtin_shufflevector(a, b, (I / 2 / d % 2 == 0 ? I + 2 * d : I + kWidth)...);
  a = first;
}
// Of as many vectors as each holds interleaved numbers.
template <int d, int N, typename V>
LAMINA_INLINE void transpose_square(V* v) {
  if constexpr (d > 0) {
#pragma GCC unroll 8
    for (int i = 0; i < N / 2; ++i)
      if ((i & d) == 0) exchange<d>(v[i], v[i + d], std::make_integer_sequence<int, N>());
    transpose_square<d / 2, N>(v);
  }
}

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

  // `swapped` exchanges real and imaginary parts at the way in and out, which makes a transform the inverse
  // one.
  Columns(int64_t most_rows, bool swapped)
      // Lanes without work compute, too.
      : memory_(static_cast<size_t>(4 * most_rows)), rows_(most_rows), swapped_(swapped) {
    X* const parts = reinterpret_cast<X*>(memory_.data());
    const int64_t size = kLanes * most_rows;
    for (int64_t i = 0; i < 2; ++i) halves_[i] = {parts + 2 * i * size, parts + (2 * i + 1) * size};
  }
  // Memory for a line of so many numbers, between the transforms of which columns hold nothing.
  X* line(int64_t length) {
    line_.resize(static_cast<size_t>(2 * length));
    return line_.data();
  }
  Columns(const Columns&) = delete;
  Columns& operator=(const Columns&) = delete;

  LAMINA_INLINE void load(const Interleaved<X>& from, int64_t lanes, int64_t rows) {
    if (from.row_step == 1)
      load_lines(from, lanes, rows);
    else
      load_columns(from, lanes, rows);
  }

  LAMINA_INLINE void transform(const std::vector<Pass<X>>& passes) {
    const size_t odd = passes.size() % 2;
    run(passes, halves_[0], halves_[odd]);
    if (odd) std::swap(halves_[0], halves_[1]);
  }
  // The same from and to other places, which may be one.
  LAMINA_INLINE void run(const std::vector<Pass<X>>& passes, Rows<X> x, const Rows<X>& to) {
    int64_t s = kLanes;
    for (size_t i = 0; i < passes.size(); ++i) {
      const Pass<X>& pass = passes[i];
      const Rows<X>& y = i + 1 == passes.size() ? to : halves_[(i + 1) % 2];
      switch (pass.radix) {
        case 2:
          run_pass<V, 2>(pass, x, y, s);
          break;
        case 3:
          run_pass<V, 3>(pass, x, y, s);
          break;
        case 4:
          run_pass<V, 4>(pass, x, y, s);
          break;
        case 5:
          run_pass<V, 5>(pass, x, y, s);
          break;
        default:
          run_pass<V, 0>(pass, x, y, s);
      }
      s *= pass.radix;
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
  Rows<X> part(int64_t i) {
    X* const first = reinterpret_cast<X*>(lines_.get()) + 2 * i * part_ * kLanes;
    return {first, first + part_ * kLanes};
  }
  Rows<X> line_row(int64_t row) {
    X* const first = reinterpret_cast<X*>(lines_.get()) + 2 * (kSquare * part_ + row * line_row_) * kLanes;
    return {first, first + line_row_ * kLanes};
  }
  // Part i gets number i of each of the rows of `from`.
  LAMINA_INLINE void load_parts(const Interleaved<X>& from, int64_t lanes, int64_t rows) {
    for (int64_t r = 0; r < rows; ++r)
      for (int64_t l = 0; l < kLanes; l += N)
        load_square(from.at(0, r), from.lane_step, lanes, l, [&](int i, const Numbers<V>& x) {
          const Rows<X> to = part(i);
          fourier::store(x, swapped_ ? Rows<X>{to.im, to.re} : to, r * kLanes + l);
        });
  }
  template <typename F>
  LAMINA_INLINE void store_parts(const Interleaved<X>& to, int64_t lanes, int64_t rows, const F& finish) {
    for (int64_t r = 0; r < rows; ++r)
      for (int64_t l = 0; l < lanes; l += N)
        store_square(to.at(0, r), to.lane_step, lanes, l, [&](int i, Numbers<V>& x) {
          fourier::load(part(i), r * kLanes + l, x);
          finish(x, r, l);
          if (swapped_) std::swap(x.re, x.im);
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

 private:
  struct alignas(64) CacheLine {
    std::byte bytes[64];
  };
  static constexpr int kNarrow = 16 / static_cast<int>(sizeof(X));  // a vector that every machine has

  // The columns from `first` that fill vectors of `width`; returns the first one that is left.
  template <int width>
  LAMINA_INLINE int64_t load_vectors(const Interleaved<X>& from, int64_t first, int64_t lanes, int64_t row) {
    using W = typename VectorOf<X, width>::Type;
    const Rows<X> to = outside();
    for (; first + width <= lanes; first += width) {
      Numbers<W> x;
      load_interleaved(from.at(first, row), x, std::make_integer_sequence<int, width>());
      fourier::store(x, to, row * kLanes + first);
    }
    return first;
  }
  LAMINA_INLINE void load_number(const Interleaved<X>& from, int64_t lane, int64_t row) {
    const Rows<X> to = outside();
    to.re[row * kLanes + lane] = from.at(lane, row)[0];
    to.im[row * kLanes + lane] = from.at(lane, row)[1];
  }
  LAMINA_INLINE void load_columns(const Interleaved<X>& from, int64_t lanes, int64_t rows) {
    for (int64_t r = 0; r < rows; ++r) {
      int64_t l = load_vectors<N>(from, 0, lanes, r);
      if (l == lanes) continue;
      l = load_vectors<kNarrow>(from, l, lanes, r);
      for (; l < lanes; ++l) load_number(from, l, r);
    }
  }
  // put(i, x) gets the numbers that lie i after `first` and the same place of the other lines, from line l
  // on. Lanes without work repeat the last one.
  template <typename F>
  LAMINA_INLINE void load_square(const X* first, int64_t step, int64_t lanes, int64_t l, const F& put) const {
    V v[N];
#pragma GCC unroll 16
    for (int i = 0; i < N; ++i) std::memcpy(&v[i], first + 2 * std::min(l + i, lanes - 1) * step, sizeof(V));
    transpose_square<kSquare / 2, N>(v);
    transpose_square<kSquare / 2, N>(v + kSquare);
#pragma GCC unroll 8
    for (int i = 0; i < kSquare; ++i) {
      Numbers<V> x;
      take_apart(v[i], v[i + kSquare], x, Places());
      put(i, x);
    }
  }
  // The way back, of what take(i, x) gives.
  template <typename F>
  LAMINA_INLINE void store_square(X* first, int64_t step, int64_t lanes, int64_t l, const F& take) const {
    V v[N];
#pragma GCC unroll 8
    for (int i = 0; i < kSquare; ++i) {
      Numbers<V> x;
      take(i, x);
      put_together(x, v[i], v[i + kSquare], Places());
    }
    transpose_square<kSquare / 2, N>(v);
    transpose_square<kSquare / 2, N>(v + kSquare);
    const auto put = [&](int i) { std::memcpy(first + 2 * (l + i) * step, &v[i], sizeof(V)); };
    if (l + N <= lanes) {
#pragma GCC unroll 16
      for (int i = 0; i < N; ++i) put(i);
    } else {
      for (int i = 0; l + i < lanes; ++i) put(i);
    }
  }
  LAMINA_INLINE void load_lines(const Interleaved<X>& from, int64_t lanes, int64_t rows) {
    const Rows<X> to = outside();
    const int64_t squares = rows / kSquare * kSquare;
    for (int64_t l = 0; l < kLanes; l += N)
      for (int64_t r = 0; r < squares; r += kSquare)
        load_square(from.at(0, r), from.lane_step, lanes, l,
                    [&](int i, const Numbers<V>& x) { fourier::store(x, to, (r + i) * kLanes + l); });
    for (int64_t r = squares; r < rows; ++r)
      for (int64_t l = 0; l < lanes; ++l) load_number(from, l, r);
  }
  template <typename W, typename F>
  LAMINA_INLINE void finished(int64_t row, int64_t lane, const F& finish, Numbers<W>& x) const {
    fourier::load(halves_[0], row * kLanes + lane, x);
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
      for (int64_t r = 0; r < squares; r += kSquare)
        store_square(to.at(0, r), to.lane_step, lanes, l,
                     [&](int i, Numbers<V>& x) { finished(r + i, l, finish, x); });
    for (int64_t r = squares; r < rows; ++r)
      for (int64_t l = 0; l < lanes; ++l) store_number(to, l, r, finish);
  }
  Rows<X> outside() const { return swapped_ ? Rows<X>{halves_[0].im, halves_[0].re} : halves_[0]; }

  std::vector<CacheLine> memory_;
  std::vector<X> line_;
  std::unique_ptr<CacheLine[]> lines_;
  int64_t part_ = 0, line_row_ = 0;
  int64_t rows_;
  bool swapped_;
  Rows<X> halves_[2];  // the numbers, and where the next pass puts them
};

}  // namespace lamina::hlo::linalg::fourier

#endif  // LAMINA_HLO_LINALG_FOURIER_COLUMNS_H_
