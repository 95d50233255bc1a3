#include "hlo/linalg/fourier.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <memory>
#include <numbers>
#include <type_traits>
#include <utility>
#include <vector>

#include "hlo/linalg/lanes.h"

namespace lamina::hlo::linalg {
namespace {

// Lines, or columns of one, that are transformed side by side: a cache line of real parts. It is the same for
// every instruction set, as the factors of a long line depend on it.
template <typename X>
inline constexpr int64_t kSideBySide = 64 / sizeof(X);

constexpr int64_t kDirect = 256;  // longer lines are rows and columns

bool is_real(FourierKind kind) { return kind == FourierKind::kReal || kind == FourierKind::kRealInverse; }

// exp(-2 pi i k / n), from the cosine and sine of an eighth of a turn at most, whose angle is rounded least;
// in more digits than are kept, so that a half is one.
Complex root_of_unity(int64_t k, int64_t n) {
  int64_t part = k % n, whole = n;  // of a turn
  const bool below = 2 * part < whole;
  if (!below) part = whole - part;
  const bool left = 4 * part > whole;
  if (left) part = whole - 2 * part, whole *= 2;
  const bool steep = 8 * part > whole;
  if (steep) part = whole - 4 * part, whole *= 4;
  using Wide = long double;
  const Wide angle = 2 * std::numbers::pi_v<Wide> * static_cast<Wide>(part) / static_cast<Wide>(whole);
  auto re = static_cast<double>(std::cos(angle)), im = static_cast<double>(std::sin(angle));
  if (steep) std::swap(re, im);
  return {left ? -re : re, below ? -im : im};
}

// A number, or one of each of several columns.
template <typename V>
struct Numbers {
  V re, im;
};
template <typename X>
Numbers<X> rounded_root(int64_t k, int64_t n) {
  const Complex w = root_of_unity(k, n);
  return {static_cast<X>(w.real()), static_cast<X>(w.imag())};
}

// One pass over a line: radix r, with what follows it of m numbers.
template <typename X>
struct Pass {
  int64_t radix, m;
  std::vector<Numbers<X>> twiddles;  // w^(p k) for p below m and k from 1 to radix - 1
  std::vector<Numbers<X>> roots;     // of the radix, by j k mod radix; of odd radices
};

// Empty where a prime is too large.
std::vector<int64_t> radices_of(int64_t n) {
  std::vector<int64_t> out;
  for (const int64_t r : {4, 2}) {
    for (; n % r == 0; n /= r) out.push_back(r);
  }
  for (int64_t r = 3; r <= kLargestPrime; r += 2)
    for (; n % r == 0; n /= r) out.push_back(r);
  if (n > 1) out.clear();
  return out;
}

template <typename X>
std::vector<Pass<X>> passes_of(int64_t n) {
  std::vector<Pass<X>> out;
  for (const int64_t r : radices_of(n)) {
    Pass<X> pass{r, n / r, {}, {}};
    for (int64_t p = 0; p < pass.m; ++p)
      for (int64_t k = 1; k < r; ++k) pass.twiddles.push_back(rounded_root<X>(p * k, n));
    for (int64_t k = 0; r % 2 == 1 && k < r; ++k) pass.roots.push_back(rounded_root<X>(k, r));
    n = pass.m;
    out.push_back(std::move(pass));
  }
  return out;
}

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

  // `swapped` exchanges real and imaginary parts at the way in and out, which makes a transform the inverse
  // one.
  Columns(int64_t most_rows, bool swapped)
      : memory_(VectorAllocator<CacheLine>().allocate(static_cast<size_t>(4 * most_rows))),
        rows_(most_rows),
        swapped_(swapped) {
    // Lanes without work compute, too.
    X* const parts = static_cast<X*>(std::memset(memory_, 0, 4 * most_rows * sizeof(CacheLine)));
    const int64_t size = kLanes * most_rows;
    for (int64_t i = 0; i < 2; ++i) halves_[i] = {parts + 2 * i * size, parts + (2 * i + 1) * size};
  }
  // Memory for a line of so many numbers, between the transforms of which columns hold nothing.
  X* line(int64_t length) {
    line_.resize(static_cast<size_t>(2 * length));
    return line_.data();
  }
  ~Columns() { VectorAllocator<CacheLine>().deallocate(memory_, static_cast<size_t>(4 * rows_)); }
  Columns(const Columns&) = delete;
  Columns& operator=(const Columns&) = delete;

  LAMINA_INLINE void load(const Interleaved<X>& from, int64_t lanes, int64_t rows) {
    if (from.row_step == 1)
      load_lines(from, lanes, rows);
    else
      load_columns(from, lanes, rows);
  }

  LAMINA_INLINE void transform(const std::vector<Pass<X>>& passes) {
    int64_t s = kLanes;
    for (const Pass<X>& pass : passes) {
      const Rows<X>&x = halves_[0], &y = halves_[1];
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
      std::swap(halves_[0], halves_[1]);
    }
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
  struct CacheLine {
    std::byte bytes[64];
  };
  // As many numbers as a vector holds of both parts.
  static constexpr int kSquare = N / 2;
  static constexpr int kNarrow = 16 / static_cast<int>(sizeof(X));  // a vector that every machine has

  // The columns from `first` that fill vectors of `width`; returns the first one that is left.
  template <int width>
  LAMINA_INLINE int64_t load_vectors(const Interleaved<X>& from, int64_t first, int64_t lanes, int64_t row) {
    using W = typename VectorOf<X, width>::Type;
    const Rows<X> to = outside();
    for (; first + width <= lanes; first += width) {
      Numbers<W> x;
      load_interleaved(from.at(first, row), x, std::make_integer_sequence<int, width>());
      linalg::store(x, to, row * kLanes + first);
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
  // Lanes without work repeat the last one.
  LAMINA_INLINE void load_lines(const Interleaved<X>& from, int64_t lanes, int64_t rows) {
    const Rows<X> to = outside();
    const int64_t squares = rows / kSquare * kSquare;
    for (int64_t l = 0; l < kLanes; l += N)
      for (int64_t r = 0; r < squares; r += kSquare) {
        V v[N];
#pragma GCC unroll 16
        for (int i = 0; i < N; ++i) std::memcpy(&v[i], from.at(std::min(l + i, lanes - 1), r), sizeof(V));
        transpose_square<kSquare / 2, N>(v);
        transpose_square<kSquare / 2, N>(v + kSquare);
#pragma GCC unroll 8
        for (int i = 0; i < kSquare; ++i) {
          Numbers<V> x;
          take_apart(v[i], v[i + kSquare], x, Places());
          linalg::store(x, to, (r + i) * kLanes + l);
        }
      }
    for (int64_t r = squares; r < rows; ++r)
      for (int64_t l = 0; l < lanes; ++l) load_number(from, l, r);
  }
  template <typename W, typename F>
  LAMINA_INLINE void finished(int64_t row, int64_t lane, const F& finish, Numbers<W>& x) const {
    linalg::load(halves_[0], row * kLanes + lane, x);
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
        V v[N];
#pragma GCC unroll 8
        for (int i = 0; i < kSquare; ++i) {
          Numbers<V> x;
          finished(r + i, l, finish, x);
          put_together(x, v[i], v[i + kSquare], Places());
        }
        transpose_square<kSquare / 2, N>(v);
        transpose_square<kSquare / 2, N>(v + kSquare);
        for (int i = 0; i < std::min<int64_t>(N, lanes - l); ++i)
          std::memcpy(to.at(l + i, r), &v[i], sizeof(V));
      }
    for (int64_t r = squares; r < rows; ++r)
      for (int64_t l = 0; l < lanes; ++l) store_number(to, l, r, finish);
  }
  Rows<X> outside() const { return swapped_ ? Rows<X>{halves_[0].im, halves_[0].re} : halves_[0]; }

  CacheLine* memory_;
  std::vector<X> line_;
  int64_t rows_;
  bool swapped_;
  Rows<X> halves_[2];  // the numbers, and where the next pass puts them
};

template <typename X>
class Plan {
 public:
  Plan(FourierKind kind, int64_t n) : kind_(kind), length_(is_real(kind) ? n / 2 : n), rows_(length_) {
    if (length_ > kDirect) split();
    row_passes_ = passes_of<X>(rows_);
    if (columns_ > 1) {
      column_passes_ = passes_of<X>(columns_);
      blocks_ = blocks_of(columns_);
      for (int64_t k = 0; k < rows_; ++k) {
        for (int64_t q = 0; q < blocks_; ++q) coarse_.push_back(rounded_root<X>(k * q * kLanes, length_));
        for (int64_t l = 0; l < kLanes; ++l) {
          const Numbers<X> w = rounded_root<X>(k * l, length_);
          fine_re_.push_back(w.re);
          fine_im_.push_back(w.im);
        }
      }
    }
    for (int64_t k = 0; is_real(kind) && k <= length_ / 2; ++k) halves_.push_back(rounded_root<X>(k, n));
  }

  void run_lines(const X* x, X* y, int64_t lines, const EachMatrix& each) const {
    if (columns_ == 1)
      return in_tasks(blocks_of(lines), each, [&](auto& columns, int64_t block) {
        several_lines(columns, x, y, block * kLanes, lines);
      });
    const bool folds = kind_ == FourierKind::kRealInverse, finishes = kind_ == FourierKind::kReal;
    if (lines >= kManyLines)
      return in_tasks(lines, each, [&](auto& columns, int64_t line) {
        constexpr int kWidth = std::remove_reference_t<decltype(columns)>::kWidth;
        const X* from = x + line * in_step();
        X* const to = y + line * out_step();
        if (folds) {
          X* const folded = columns.line(length_);
          fold<kWidth>(from, folded);
          from = folded;
        }
        for (int64_t q = 0; q < blocks_; ++q) first_half(columns, from, to, q);
        for (int64_t q = 0; q < blocks_of(rows_); ++q) second_half(columns, to, q);
        if (finishes) finish_real<kWidth>(to);
      });
    std::vector<X> folded(static_cast<size_t>(folds ? 2 * length_ : 0));
    for (int64_t line = 0; line < lines; ++line) {
      const X* from = x + line * in_step();
      X* const to = y + line * out_step();
      if (folds) {
        with_vectors_of<X>([&]<int N>() { fold<N>(from, folded.data()); });
        from = folded.data();
      }
      in_tasks(blocks_, each, [&](auto& columns, int64_t q) { first_half(columns, from, to, q); });
      in_tasks(blocks_of(rows_), each, [&](auto& columns, int64_t q) { second_half(columns, to, q); });
      if (finishes) with_vectors_of<X>([&]<int N>() { finish_real<N>(to); });
    }
  }

  // Of complex matrices of `width` columns, along the columns; with the bits of lines.
  void run_columns(const X* x, X* y, int64_t width, int64_t matrices, const EachMatrix& each) const {
    constexpr int64_t kTogether = kNeighbours * kLanes;
    const int64_t groups = (width + kTogether - 1) / kTogether;
    in_tasks(matrices * groups, each, [&](auto& columns, int64_t group) {
      const int64_t matrix = group / groups * length_ * width, begin = group % groups * kTogether;
      const int64_t end = std::min(begin + kTogether, width);
      const auto for_blocks = [&](const auto& f) {
        for (int64_t c = begin; c < end; c += kLanes) f(2 * (matrix + c), std::min(kLanes, end - c));
      };
      // In place of a number, as in first_half and second_half, as many as there are lanes.
      for (int64_t j = 0; j < columns_; ++j)
        for_blocks([&](int64_t at, int64_t lanes) {
          // The operand is only read.
          columns.load({const_cast<X*>(x) + at + 2 * j * width, 1, columns_ * width}, lanes, rows_);
          columns.transform(row_passes_);
          const Interleaved<X> to{y + at + 2 * j * rows_ * width, 1, width};
          if (columns_ == 1) return columns.store(to, lanes, rows_, scaled());
          columns.store(to, lanes, rows_, [&](auto& x, int64_t k, int64_t) {
            const Numbers<X> w = twiddle(k, j);
            turn(x, w.re, w.im);
          });
        });
      for (int64_t k = 0; columns_ > 1 && k < rows_; ++k)
        for_blocks([&](int64_t at, int64_t lanes) {
          const Interleaved<X> place{y + at + 2 * k * width, 1, rows_ * width};
          columns.load(place, lanes, columns_);
          columns.transform(column_passes_);
          columns.store(place, lanes, columns_, scaled());
        });
    });
  }

 private:
  static constexpr int64_t kLanes = kSideBySide<X>;
  static constexpr int64_t kManyLines = 8;  // which are work for all threads
  static constexpr int64_t kMostTasks = 32;
  // Blocks of columns whose rows are read one after the other: they lie in the same pages of memory.
  static constexpr int64_t kNeighbours = 4;

  static int64_t blocks_of(int64_t columns) { return (columns + kLanes - 1) / kLanes; }

  // Rows and columns that leave the fewest lanes without work, of these the nearest to a square.
  void split() {
    int64_t least = INT64_MAX;
    for (int64_t a = 2; a * a <= length_; ++a) {
      if (length_ % a != 0) continue;
      for (const int64_t rows : {a, length_ / a}) {
        const int64_t columns = length_ / rows, lanes = blocks_of(columns) * rows + blocks_of(rows) * columns;
        const int64_t longest = std::max(rows, columns);
        if (lanes * kLanes + 4 * longest > least) continue;
        least = lanes * kLanes + 4 * longest;
        rows_ = rows;
        columns_ = columns;
      }
    }
  }

  bool is_inverse() const { return kind_ == FourierKind::kInverse || kind_ == FourierKind::kRealInverse; }
  // In parts of numbers.
  int64_t in_step() const { return 2 * (length_ + (kind_ == FourierKind::kRealInverse)); }
  int64_t out_step() const { return 2 * (length_ + (kind_ == FourierKind::kReal)); }
  auto scaled() const {
    return [scale = is_inverse() ? X{1} / static_cast<X>(length_) : X{1}](auto& x, int64_t, int64_t) {
      x = {x.re * scale, x.im * scale};
    };
  }

  Numbers<X> twiddle(int64_t row, int64_t column) const {
    const int64_t at = row * kLanes + column % kLanes;
    const Numbers<X> w = coarse_[row * blocks_ + column / kLanes];
    Numbers<X> x{fine_re_[at], fine_im_[at]};
    turn(x, w.re, w.im);
    return x;
  }

  // work(columns, i) for each i below the count, in a few tasks, each of which has memory of its own.
  template <typename F>
  void in_tasks(int64_t count, const EachMatrix& each, const F& work) const {
    const int64_t tasks = std::min(count, kMostTasks);
    each(tasks, [&](int64_t task) {
      with_vectors_of<X>([&]<int N>() {
        Columns<X, N> columns(std::max(rows_, columns_), is_inverse());
        for (int64_t i = count * task / tasks; i < count * (task + 1) / tasks; ++i) work(columns, i);
      });
    });
  }

  // f(x[k], x[j], w^(k / 2)) leaves y[k] and y[j], for all k + j = length; by vectors of N numbers.
  template <int N, typename F>
  LAMINA_INLINE void for_pairs(const X* x, X* y, const F& f) const {
    using V = typename VectorOf<X, N>::Type;
    constexpr auto kPlaces = std::make_integer_sequence<int, N>();
    int64_t k = 1, j = length_ - 1;
    for (; k + N < j - N + 2; k += N, j -= N) {
      Numbers<V> front, back, w;
      load_interleaved(x + 2 * k, front, kPlaces);
      load_interleaved(x + 2 * (j - N + 1), back, kPlaces);
      load_interleaved(&halves_[k].re, w, kPlaces);
      reverse(back, kPlaces);
      f(front, back, w);
      reverse(back, kPlaces);
      store_interleaved(front, y + 2 * k, kPlaces);
      store_interleaved(back, y + 2 * (j - N + 1), kPlaces);
    }
    for (; k <= j; ++k, --j) {
      Numbers<X> front{x[2 * k], x[2 * k + 1]}, back{x[2 * j], x[2 * j + 1]};
      f(front, back, Numbers<X>{halves_[k].re, halves_[k].im});
      y[2 * j] = back.re;
      y[2 * j + 1] = back.im;
      y[2 * k] = front.re;
      y[2 * k + 1] = front.im;
    }
  }

  // The complex line that the half spectrum `x` stands for.
  template <int N>
  LAMINA_INLINE void fold(const X* x, X* y) const {
    const X half = X{1} / 2;
    y[0] = (x[0] + x[2 * length_]) * half;
    y[1] = (x[0] - x[2 * length_]) * half;
    for_pairs<N>(x, y, [half](auto& front, auto& back, const auto& w) {
      auto even = front, odd = front;
      even = {(front.re + back.re) * half, (front.im - back.im) * half};
      odd = {(front.re - back.re) * half, (front.im + back.im) * half};
      odd = {odd.re * w.re + odd.im * w.im, odd.im * w.re - odd.re * w.im};
      front = {even.re - odd.im, even.im + odd.re};
      back = {even.re + odd.im, odd.re - even.im};
    });
  }

  // The spectrum of a real line from that of its pairs of numbers, in place.
  template <int N>
  LAMINA_INLINE void finish_real(X* y) const {
    const X half = X{1} / 2, re = y[0], im = y[1];
    y[0] = re + im;
    y[2 * length_] = re - im;
    y[1] = y[2 * length_ + 1] = 0;
    for_pairs<N>(y, y, [half](auto& front, auto& back, const auto& w) {
      auto even = front, odd = front;
      even = {(front.re + back.re) * half, (front.im - back.im) * half};
      odd = {(front.im + back.im) * half, (back.re - front.re) * half};
      turn(odd, w.re, w.im);
      front = {even.re + odd.re, even.im + odd.im};
      back = {even.re - odd.re, odd.im - even.im};
    });
  }

  template <typename C>
  LAMINA_INLINE void several_lines(C& columns, const X* x, X* y, int64_t first, int64_t lines) const {
    const int64_t lanes = std::min(kLanes, lines - first);
    const X* from = x + first * in_step();
    X* const to = y + first * out_step();
    if (kind_ == FourierKind::kRealInverse) {
      for (int64_t l = 0; l < lanes; ++l) fold<C::kWidth>(from + l * in_step(), to + l * out_step());
      from = to;
    }
    const int64_t step = (from == to ? out_step() : in_step()) / 2;
    columns.load({const_cast<X*>(from), step, 1}, lanes, rows_);
    columns.transform(row_passes_);
    columns.store({to, out_step() / 2, 1}, lanes, rows_, scaled());
    if (kind_ == FourierKind::kReal)
      for (int64_t l = 0; l < lanes; ++l) finish_real<C::kWidth>(to + l * out_step());
  }

  // Of block q of columns, transforms along rows; turned, they are rows of the result.
  template <typename C>
  LAMINA_INLINE void first_half(C& columns, const X* x, X* y, int64_t q) const {
    const int64_t first = q * kLanes, lanes = std::min(kLanes, columns_ - first);
    // The operand is only read.
    columns.load({const_cast<X*>(x) + 2 * first, 1, columns_}, lanes, rows_);
    columns.transform(row_passes_);
    columns.store({y + 2 * first * rows_, rows_, 1}, lanes, rows_, [&](auto& x, int64_t r, int64_t l) {
      auto w = x;
      load(Rows<const X>{fine_re_.data(), fine_im_.data()}, r * kLanes + l, w);
      turn(w, coarse_[r * blocks_ + q].re, coarse_[r * blocks_ + q].im);
      turn(x, w.re, w.im);
    });
  }

  // Then along what were columns, in place.
  template <typename C>
  LAMINA_INLINE void second_half(C& columns, X* y, int64_t q) const {
    const int64_t first = q * kLanes, lanes = std::min(kLanes, rows_ - first);
    const Interleaved<X> place{y + 2 * first, 1, rows_};
    columns.load(place, lanes, columns_);
    columns.transform(column_passes_);
    columns.store(place, lanes, columns_, scaled());
  }

  FourierKind kind_;
  int64_t length_, rows_, columns_ = 1;  // of complex numbers; one column: the line is one transform
  int64_t blocks_ = 0;                   // of columns
  std::vector<Pass<X>> row_passes_, column_passes_;
  // w^(k (q kLanes + l)) for row k and lane l of block q: the roots of [k][q] and of [k][l].
  std::vector<Numbers<X>> coarse_;
  std::vector<X> fine_re_, fine_im_;
  std::vector<Numbers<X>> halves_;  // of real transforms: w^(k / 2)
};

#undef LAMINA_INLINE

template <typename X>
PlannedRoutine plan_lines(FourierKind kind, int64_t n, int64_t lines) {
  return [plan = std::make_shared<const Plan<X>>(kind, n), lines](const void* in, void* out,
                                                                  const EachMatrix& each) {
    plan->run_lines(static_cast<const X*>(in), static_cast<X*>(out), lines, each);
  };
}

template <typename X>
PlannedRoutine plan_columns(FourierKind kind, int64_t n, int64_t columns, int64_t matrices) {
  return [=, plan = std::make_shared<const Plan<X>>(kind, n)](const void* in, void* out,
                                                              const EachMatrix& each) {
    plan->run_columns(static_cast<const X*>(in), static_cast<X*>(out), columns, matrices, each);
  };
}

}  // namespace

bool has_fourier_plan(FourierKind kind, int64_t n) {
  return n > 0 && (!is_real(kind) || n % 2 == 0) && (n == 1 || !radices_of(n).empty());
}

PlannedRoutine plan_fourier(FourierKind kind, const Type& type) {
  const int64_t n = type.dims.back(), lines = n > 0 ? type.num_elements / n : 0;
  return part_type(type.dtype) == DType::kF32 ? plan_lines<float>(kind, n, lines)
                                              : plan_lines<double>(kind, n, lines);
}

PlannedRoutine plan_fourier_columns(FourierKind kind, const Type& type) {
  const int64_t n = type.dims[type.dims.size() - 2], columns = type.dims.back();
  const int64_t matrices = columns > 0 ? type.num_elements / (n * columns) : 0;
  return part_type(type.dtype) == DType::kF32 ? plan_columns<float>(kind, n, columns, matrices)
                                              : plan_columns<double>(kind, n, columns, matrices);
}

}  // namespace lamina::hlo::linalg
