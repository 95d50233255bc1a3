#include "hlo/linalg/fourier.h"

#include <algorithm>
#include <cmath>
#include <memory>
#include <numbers>
#include <span>
#include <type_traits>
#include <utility>
#include <vector>

#include "hlo/linalg/fourier_columns.h"
#include "hlo/linalg/host.h"

namespace lamina::hlo::linalg {
namespace fourier {
namespace {

constexpr int64_t kDirect = 256;  // longer lines are rows and columns
// Many lines of so many numbers are transformed side by side: they lie in the second cache.
constexpr int64_t kLongestTogether = 8192;

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

template <typename X>
Numbers<X> rounded_root(int64_t k, int64_t n) {
  const Complex w = root_of_unity(k, n);
  return {static_cast<X>(w.real()), static_cast<X>(w.imag())};
}

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

// What the next passes are made together as, of which `left` have these radices.
struct Joined {
  RoundKind kind;
  size_t passes;
};
Joined joined(std::span<const int64_t> left) {
  const auto is = [&](size_t i, int64_t radix) { return i < left.size() && left[i] == radix; };
  size_t fours = 0;
  while (is(fours, 4)) ++fours;
  if (fours == 0) {
    if (is(0, 2)) return {RoundKind::kTwo, 1};
    return is(0, 5) && is(1, 5) ? Joined{RoundKind::kFives, 2} : Joined{RoundKind::kOdd, 1};
  }
  // The last two fours wait for the two.
  const size_t now = is(fours, 2) ? fours - std::min<size_t>(fours, 2) : fours;
  if (now >= 2) return {RoundKind::kFours, 2};
  if (now == 1) return is(1, 5) ? Joined{RoundKind::kFourAndFive, 2} : Joined{RoundKind::kFour, 1};
  return fours == 2 ? Joined{RoundKind::kFoursAndTwo, 3} : Joined{RoundKind::kFourAndTwo, 2};
}

template <typename X>
Rounds<X> rounds_of(int64_t n) {
  const std::vector<int64_t> radices = radices_of(n);
  Rounds<X> out;
  for (size_t at = 0, passes; at < radices.size(); at += passes) {
    Round<X> round{};
    const Joined next = joined(std::span(radices).subspan(at));
    passes = next.passes;
    const std::span<const int64_t> own = std::span(radices).subspan(at, passes);
    round.kind = next.kind;
    round.size = hlo::product(own);
    round.before = out.empty() ? 1 : out.back().before * out.back().size;
    round.after = n / round.before / round.size;
    for (int64_t place = 0; place < round.after; ++place) {
      int64_t length = n / round.before;
      for (const int64_t r : own) {
        for (int64_t p = place; p < length / r; p += round.after)
          for (int64_t k = 1; k < r; ++k) round.twiddles.push_back(rounded_root<X>(p * k, length));
        length /= r;
      }
    }
    round.each = std::ssize(round.twiddles) / round.after;
    const int64_t last = own.back();
    for (int64_t k = 0; last % 2 == 1 && k < last; ++k) round.roots.push_back(rounded_root<X>(k, last));
    out.push_back(std::move(round));
  }
  return out;
}

template <typename X>
class Plan {
 public:
  Plan(FourierKind kind, int64_t n) : kind_(kind), length_(is_real(kind) ? n / 2 : n), rows_(length_) {
    if (length_ > kDirect) split();
    along_rows_ = rounds_of<X>(rows_);
    if (columns_ > 1) {
      along_columns_ = rounds_of<X>(columns_);
      blocks_ = blocks_of(columns_);
      fine_.resize(static_cast<size_t>(rows_));
      for (int64_t k = 0; k < rows_; ++k) {
        for (int64_t q = 0; q < blocks_; ++q) coarse_.push_back(rounded_root<X>(k * q * kLanes, length_));
        for (int64_t l = 0; l < kLanes; ++l) store(rounded_root<X>(k * l, length_), fine_[k].re + l);
      }
    }
    if (columns_ > 1 && length_ <= kLongestTogether) make_twiddles();
    together_ = !twiddles_.empty() && leaves_lanes() && std::min(rows_, columns_) >= kLanes / 2;
    for (int64_t k = 0; is_real(kind) && k <= length_ / 2; ++k) {
      const Numbers<X> w = rounded_root<X>(k, n);
      halves_re_.push_back(w.re);
      halves_im_.push_back(w.im);
    }
  }

  void run_lines(const X* x, X* y, int64_t lines, const EachMatrix& each) const {
    if (columns_ == 1)
      return in_tasks(blocks_of(lines), kLanes * length_, each, [&](auto& columns, int64_t block) {
        several_lines(columns, x, y, block * kLanes, lines);
      });
    const int64_t together = lines_together(lines), rest = lines - together;
    if (together > 0)
      in_tasks(blocks_of(together), kLanes * length_, each,
               [&](auto& columns, int64_t block) { split_lines(columns, x, y, block * kLanes, together); });
    if (rest > 0) run_apart(x + together * in_step(), y + together * out_step(), rest, each);
  }

  // Lines one by one.
  void run_apart(const X* x, X* y, int64_t lines, const EachMatrix& each) const {
    const bool folds = kind_ == FourierKind::kRealInverse, finishes = kind_ == FourierKind::kReal;
    if (lines >= kManyLines)
      return in_tasks(lines, length_, each, [&](auto& columns, int64_t line) {
        constexpr int kWidth = std::remove_reference_t<decltype(columns)>::kWidth;
        const X* from = x + line * in_step();
        X* const to = y + line * out_step();
        // Of the next line as much at a time as the processor can wait for beside its work.
        const bool asks = line + 1 < lines && length_ <= kLongestTogether;
        int64_t part = 0;
        const int64_t parts = blocks_ + blocks_of(rows_) + (folds || finishes);
        const auto ask = [=, next_x = from + in_step(), next_y = to + out_step(), &part, this] {
          if (asks) {
            ask_for_part(next_x, in_step(), part, parts);
            ask_for_part(next_y, out_step(), part, parts);
          }
          ++part;
        };
        if (folds) {
          ask();
          X* const folded = columns.line(length_);
          fold_lines<kWidth>(from, folded, 1);
          from = folded;
        }
        // Lines of the result do not all begin where a cache line does.
        X* const made = finishes && length_ <= kLongestTogether ? columns.line(length_) : to;
        for (int64_t q = 0; q < blocks_; ++q) {
          ask();
          first_half(columns, from, made, q);
        }
        for (int64_t q = 0; q < blocks_of(rows_); ++q) {
          ask();
          second_half(columns, made, q);
        }
        if (finishes) {
          ask();
          finish_lines<kWidth>(made, to, 1);
        }
      });
    std::vector<X> folded(static_cast<size_t>(folds ? 2 * length_ : 0));
    for (int64_t line = 0; line < lines; ++line) {
      const X* from = x + line * in_step();
      X* const to = y + line * out_step();
      if (folds) {
        with_vectors_of<X>([&]<int N>() { fold_lines<N>(from, folded.data(), 1); });
        from = folded.data();
      }
      in_tasks(blocks_, kLanes * rows_, each,
               [&](auto& columns, int64_t q) { first_half(columns, from, to, q); });
      in_tasks(blocks_of(rows_), kLanes * columns_, each,
               [&](auto& columns, int64_t q) { second_half(columns, to, q); });
      if (finishes) with_vectors_of<X>([&]<int N>() { finish_lines<N>(to, to, 1); });
    }
  }

  // Of complex matrices of `width` columns, along the columns; with the bits of lines.
  void run_columns(const X* x, X* y, int64_t width, int64_t matrices, const EachMatrix& each) const {
    constexpr int64_t kTogether = kNeighbours * kLanes;
    const int64_t groups = (width + kTogether - 1) / kTogether;
    in_tasks(matrices * groups, kTogether * length_, each, [&](auto& columns, int64_t group) {
      const int64_t matrix = group / groups * length_ * width, begin = group % groups * kTogether;
      const int64_t end = std::min(begin + kTogether, width);
      const auto for_blocks = [&](const auto& f) {
        for (int64_t c = begin; c < end; c += kLanes) f(2 * (matrix + c), std::min(kLanes, end - c));
      };
      // In place of a number, as in first_half and second_half, as many as there are lanes.
      for (int64_t j = 0; j < columns_; ++j)
        for_blocks([&](int64_t at, int64_t lanes) {
          const Interleaved<const X> from{x + at + 2 * j * width, 1, columns_ * width};
          const Interleaved<X> to{y + at + 2 * j * rows_ * width, 1, width};
          if (columns_ == 1) return columns.move(from, to, lanes, rows_, along_rows_, scale());
          columns.load(from, lanes, rows_, along_rows_);
          columns.store(to, lanes, rows_, [&](auto& x, int64_t k, int64_t) {
            const Numbers<X> w = twiddle(k, j);
            turn(x, w.re, w.im);
          });
        });
      for (int64_t k = 0; columns_ > 1 && k < rows_; ++k)
        for_blocks([&](int64_t at, int64_t lanes) {
          const Interleaved<X> place{y + at + 2 * k * width, 1, rows_ * width};
          columns.move(place, place, lanes, columns_, along_columns_, scale());
        });
    });
  }

 private:
  static constexpr int64_t kLanes = kSideBySide<X>;
  static constexpr int64_t kManyLines = 8;  // which are work for all threads
  static constexpr int64_t kMostTasks = 32;
  // Numbers of a task: it takes memory of its own.
  static constexpr int64_t kLeastTask = 4096;
  template <int N>
  static constexpr int kDoubles = Columns<X, N>::kDoubles;
  // Blocks of columns whose rows are read one after the other: they lie in the same pages of memory.
  static constexpr int64_t kNeighbours = 4;

  static int64_t blocks_of(int64_t columns) { return (columns + kLanes - 1) / kLanes; }

  // How many of the first lines are transformed side by side: the others leave most lanes without work.
  int64_t lines_together(int64_t lines) const {
    if (!together_) return 0;
    return lines % kLanes * 2 >= kLanes ? lines : lines - lines % kLanes;
  }

  // That compute in the transforms along both, with work or without.
  static int64_t lanes_of(int64_t rows, int64_t columns) {
    return (blocks_of(columns) * rows + blocks_of(rows) * columns) * kLanes;
  }
  // Whether so many of them are without work that whole lines side by side take less, which costs two more
  // transpositions of all numbers.
  bool leaves_lanes() const { return 8 * lanes_of(rows_, columns_) > 9 * 2 * length_; }

  // Rows and columns that leave the fewest lanes without work, of these the nearest to a square.
  void split() {
    int64_t least = INT64_MAX;
    for (int64_t a = 2; a * a <= length_; ++a) {
      if (length_ % a != 0) continue;
      for (const int64_t rows : {a, length_ / a}) {
        const int64_t columns = length_ / rows, cost = lanes_of(rows, columns) + 4 * std::max(rows, columns);
        if (cost > least) continue;
        least = cost;
        rows_ = rows;
        columns_ = columns;
      }
    }
  }

  bool is_inverse() const { return kind_ == FourierKind::kInverse || kind_ == FourierKind::kRealInverse; }
  // In parts of numbers.
  int64_t in_step() const { return 2 * (length_ + (kind_ == FourierKind::kRealInverse)); }
  int64_t out_step() const { return 2 * (length_ + (kind_ == FourierKind::kReal)); }
  X scale() const { return is_inverse() ? X{1} / static_cast<X>(length_) : X{1}; }

  Numbers<X> twiddle(int64_t row, int64_t column) const {
    const int64_t q = column / kLanes, l = column % kLanes;
    Numbers<X> x;
    if (!twiddles_.empty()) {
      load(twiddles_[q * rows_ + row].re + l, x);
      return x;
    }
    const Numbers<X> w = coarse_[row * blocks_ + q];
    load(fine_[row].re + l, x);
    turn(x, w.re, w.im);
    return x;
  }
  void make_twiddles() {
    std::vector<RootsBeside<X>> made(static_cast<size_t>(blocks_ * rows_));
    for (int64_t q = 0; q < blocks_; ++q)
      for (int64_t k = 0; k < rows_; ++k)
        for (int64_t l = 0; l < kLanes; ++l) store(twiddle(k, q * kLanes + l), made[q * rows_ + k].re + l);
    twiddles_ = std::move(made);
  }
  Numbers<X> half_root(int64_t k) const { return {halves_re_[k], halves_im_[k]}; }

  // work(columns, i) for each i below the count, which is on so many numbers, in a few tasks, each of which
  // has memory of its own.
  template <typename F>
  void in_tasks(int64_t count, int64_t numbers, const EachMatrix& each, const F& work) const {
    const int64_t worth = std::max<int64_t>(count * numbers / kLeastTask, 1);
    const int64_t tasks = std::min({count, kMostTasks, worth});
    each(tasks, [&](int64_t task) {
      with_vectors_of<X>([&]<int N>() {
        Columns<X, N> columns(std::max(rows_, columns_), is_inverse());
        for (int64_t i = count * task / tasks; i < count * (task + 1) / tasks; ++i) work(columns, i);
      });
    });
  }

  // f(x[k], x[j], w^(k / 2)) leaves y[k] and y[j], for all k + j = length; by vectors of N numbers, and of
  // fewer where fewer are left.
  template <int N, typename F>
  LAMINA_INLINE void for_pairs(const X* x, X* y, const F& f) const {
    int64_t k = pairs_by<N>(x, y, 1, f);
    for (int64_t j = length_ - k; k <= j; ++k, --j) {
      Numbers<X> front{x[2 * k], x[2 * k + 1]}, back{x[2 * j], x[2 * j + 1]};
      f(front, back, half_root(k));
      y[2 * j] = back.re;
      y[2 * j + 1] = back.im;
      y[2 * k] = front.re;
      y[2 * k + 1] = front.im;
    }
  }
  // From k on; returns the first one that is left.
  template <int N, typename F>
  LAMINA_INLINE int64_t pairs_by(const X* x, X* y, int64_t k, const F& f) const {
    using V = typename VectorOf<X, N>::Type;
    constexpr auto kPlaces = std::make_integer_sequence<int, N>();
    // At the end they may have the middle number in common, which the first of them tells.
    for (int64_t j; j = length_ - k - (N - 1), k + N - 1 <= j; k += N) {
      Numbers<V> front, back, w;
      load_interleaved(x + 2 * k, front, kPlaces);
      load_interleaved<true>(x + 2 * j, back, kPlaces);
      get(&halves_re_[k], w.re);
      get(&halves_im_[k], w.im);
      f(front, back, w);
      store_interleaved<true>(back, y + 2 * j, kPlaces);
      store_interleaved(front, y + 2 * k, kPlaces);
    }
    if constexpr (N * sizeof(X) > 16)
      return pairs_by<N / 2>(x, y, k, f);
    else
      return k;
  }

  // The complex line that the half spectrum `x` stands for.
  template <int N>
  LAMINA_INLINE void fold(const X* x, X* y) const {
    const X half = X{1} / 2;
    y[0] = (x[0] + x[2 * length_]) * half;
    y[1] = (x[0] - x[2 * length_]) * half;
    for_pairs<N>(x, y, [half](auto& front, auto& back, const auto& w) {
      std::remove_cvref_t<decltype(front)> even, odd;
      even = {(front.re + back.re) * half, (front.im - back.im) * half};
      odd = {(front.re - back.re) * half, (front.im + back.im) * half};
      odd = {odd.re * w.re + odd.im * w.im, odd.im * w.re - odd.re * w.im};
      front = {even.re - odd.im, even.im + odd.re};
      back = {even.re + odd.im, odd.re - even.im};
    });
  }

  // Numbers k and length - k of the spectrum of a real line, k no larger than the other, from those of the
  // spectrum of its pairs of numbers; w is w^(k / 2).
  template <typename V, typename W>
  LAMINA_INLINE static void unfold(const Numbers<V>& front, const Numbers<V>& back, const Numbers<W>& w,
                                   Numbers<V>& even, Numbers<V>& odd) {
    const X half = X{1} / 2;
    even = {(front.re + back.re) * half, (front.im - back.im) * half};
    odd = {(front.im + back.im) * half, (back.re - front.re) * half};
    turn(odd, w.re, w.im);
  }

  // The spectrum of a real line from that of its pairs of numbers, perhaps in place.
  template <int N>
  LAMINA_INLINE void finish_real(const X* x, X* y) const {
    const X re = x[0], im = x[1];
    y[0] = re + im;
    y[2 * length_] = re - im;
    y[1] = y[2 * length_ + 1] = 0;
    for_pairs<N>(x, y, [](auto& front, auto& back, const auto& w) {
      std::remove_cvref_t<decltype(front)> even, odd;
      unfold(front, back, w, even, odd);
      front = {even.re + odd.re, even.im + odd.im};
      back = {even.re - odd.re, odd.im - even.im};
    });
  }

  template <int N>
  void fold_lines(const X* x, X* y, int64_t lines) const {
    compiled_apart<kDoubles<N>>([&] {
      for (int64_t l = 0; l < lines; ++l) fold<N>(x + l * in_step(), y + l * out_step());
    });
  }
  template <int N>
  void finish_lines(const X* x, X* y, int64_t lines) const {
    compiled_apart<kDoubles<N>>([&] {
      for (int64_t l = 0; l < lines; ++l) finish_real<N>(x + l * out_step(), y + l * out_step());
    });
  }

  // transform(from, step, to, lanes): from lines of complex numbers, `step` of them apart, to lines of them
  // at `to`; what is done to real lines before that is.
  template <typename C, typename F>
  LAMINA_INLINE void some_lines(const X* x, X* y, int64_t first, int64_t lines, F transform) const {
    const int64_t lanes = std::min(kLanes, lines - first);
    const X* from = x + first * in_step();
    X* const to = y + first * out_step();
    if (kind_ == FourierKind::kRealInverse) {
      fold_lines<C::kWidth>(from, to, lanes);
      from = to;
    }
    transform(from, (from == to ? out_step() : in_step()) / 2, to, lanes);
  }

  template <typename C>
  LAMINA_INLINE void several_lines(C& columns, const X* x, X* y, int64_t first, int64_t lines) const {
    some_lines<C>(x, y, first, lines, [&](const X* from, int64_t step, X* to, int64_t lanes) {
      columns.load({from, step, 1}, lanes, rows_, along_rows_);
      columns.store_scaled({to, out_step() / 2, 1}, lanes, rows_, scale());
      if (kind_ == FourierKind::kReal) finish_lines<C::kWidth>(to, to, lanes);
    });
  }

  // The same of lines that are rows and columns: the rows of all of them stay side by side between the two.
  template <typename C>
  LAMINA_INLINE void split_lines(C& columns, const X* x, X* y, int64_t first, int64_t lines) const {
    some_lines<C>(x, y, first, lines, [&](const X* from, int64_t step, X* to, int64_t lanes) {
      columns.hold_lines(rows_, columns_);
      // The last parts make some columns, and rows, again.
      for (int64_t at = 0; at < columns_; at += C::kSquare) {
        const int64_t j = std::min<int64_t>(at, columns_ - C::kSquare);
        columns.load_parts({from + 2 * j, step, columns_}, lanes, rows_);
        for (int64_t i = 0; i < C::kSquare; ++i) {
          const Rows<X> part = columns.part(i);
          columns.run(along_rows_, part, part);
          for (int64_t k = 0; k < rows_; ++k) {
            const Numbers<X> w = twiddle(k, j + i);
            for (int64_t l = 0; l < kLanes; l += C::kWidth) {
              Numbers<typename C::V> x;
              load(part.at(k, l), x);
              turn(x, w.re, w.im);
              store(x, columns.line_row(k).at(j + i, l));
            }
          }
        }
      }
      if (kind_ == FourierKind::kReal) return finish_split(columns, to, lanes);
      for (int64_t at = 0; at < rows_; at += C::kSquare) {
        const int64_t k = std::min<int64_t>(at, rows_ - C::kSquare);
        for (int64_t i = 0; i < C::kSquare; ++i)
          columns.run(along_columns_, columns.line_row(k + i), columns.part(i));
        columns.store_parts({to + 2 * k, out_step() / 2, rows_}, lanes, columns_, scale());
      }
    });
  }

  // The last half of lines side by side that are real: every number of a line meets its opposite one, which
  // is in the same lane of another row, before it goes to memory.
  template <typename C>
  LAMINA_INLINE void finish_split(C& columns, X* to, int64_t lanes) const {
    for (int64_t k = 0; k < rows_; ++k) columns.run(along_columns_, columns.line_row(k), columns.line_row(k));
    for (int64_t at = 0; at < rows_; at += C::kSquare) {
      const int64_t first = std::min<int64_t>(at, rows_ - C::kSquare);
      columns.store_squares(
          {to + 2 * first, out_step() / 2, rows_}, lanes,
          columns_, [&](int64_t i, int64_t j, int64_t l, auto& x) __attribute__((always_inline)) {
            const int64_t k = first + i, place = k + j * rows_, opposite = length_ - place;
            const int64_t row = k > 0 ? rows_ - k : 0, column = (k > 0 ? columns_ - 1 : columns_) - j;
            std::remove_cvref_t<decltype(x)> y, even, odd;
            load(columns.line_row(k).at(j, l), x);
            load(columns.line_row(row).at(column < columns_ ? column : 0, l), y);
            if (place <= opposite) {
              unfold(x, y, half_root(place), even, odd);
              x = {even.re + odd.re, even.im + odd.im};
            } else {
              unfold(y, x, half_root(opposite), even, odd);
              x = {even.re - odd.re, odd.im - even.im};
            }
          });
    }
    // The first number is its own opposite one, and gives two.
    const X* const own = columns.line_row(0).at(0, 0);
    for (int64_t l = 0; l < lanes; ++l) {
      const X re = own[l], im = own[l + kLanes];
      X* const line = to + l * out_step();
      line[0] = re + im;
      line[2 * length_] = re - im;
      line[1] = line[2 * length_ + 1] = 0;
    }
  }

  // Of block q of columns, transforms along rows; turned, they are rows of the result.
  template <typename C>
  LAMINA_INLINE void first_half(C& columns, const X* x, X* y, int64_t q) const {
    const int64_t first = q * kLanes, lanes = std::min(kLanes, columns_ - first);
    const RootsBeside<X>* const roots = twiddles_.empty() ? fine_.data() : &twiddles_[q * rows_];
    columns.load({x + 2 * first, 1, columns_}, lanes, rows_, along_rows_);
    columns.store({y + 2 * first * rows_, rows_, 1}, lanes, rows_, [&](auto& x, int64_t r, int64_t l) {
      auto w = x;
      load(roots[r].re + l, w);
      if (twiddles_.empty()) turn(w, coarse_[r * blocks_ + q].re, coarse_[r * blocks_ + q].im);
      turn(x, w.re, w.im);
    });
  }

  // Then along what were columns, in place.
  template <typename C>
  LAMINA_INLINE void second_half(C& columns, X* y, int64_t q) const {
    const int64_t first = q * kLanes, lanes = std::min(kLanes, rows_ - first);
    const Interleaved<X> place{y + 2 * first, 1, rows_};
    columns.move(place, place, lanes, columns_, along_columns_, scale());
  }

  FourierKind kind_;
  int64_t length_, rows_, columns_ = 1;  // of complex numbers; one column: the line is one transform
  int64_t blocks_ = 0;                   // of columns
  Rounds<X> along_rows_, along_columns_;
  // w^(k (q kLanes + l)) for row k and lane l of block q: the roots of [k][q] and of [k][l].
  std::vector<Numbers<X>> coarse_;
  std::vector<RootsBeside<X>> fine_;
  // Their products at [q][k], of lines that are not long.
  std::vector<RootsBeside<X>> twiddles_;
  bool together_ = false;                 // whether lines may be side by side
  std::vector<X> halves_re_, halves_im_;  // of real transforms: w^(k / 2)
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
}  // namespace fourier

bool has_fourier_plan(FourierKind kind, int64_t n) {
  return n > 0 && (!fourier::is_real(kind) || n % 2 == 0) && (n == 1 || !fourier::radices_of(n).empty());
}

PlannedRoutine plan_fourier(FourierKind kind, const Type& type) {
  const int64_t n = type.dims.back(), lines = n > 0 ? type.num_elements / n : 0;
  return part_type(type.dtype) == DType::kF32 ? fourier::plan_lines<float>(kind, n, lines)
                                              : fourier::plan_lines<double>(kind, n, lines);
}

PlannedRoutine plan_fourier_columns(FourierKind kind, const Type& type) {
  const int64_t n = type.dims[type.dims.size() - 2], columns = type.dims.back();
  const int64_t matrices = columns > 0 ? type.num_elements / (n * columns) : 0;
  return part_type(type.dtype) == DType::kF32 ? fourier::plan_columns<float>(kind, n, columns, matrices)
                                              : fourier::plan_columns<double>(kind, n, columns, matrices);
}

bool has_fourier_plan(FourierKind kind, const Type& type, int64_t rank) {
  const std::span<const int64_t> lengths = std::span(type.dims).last(static_cast<size_t>(rank));
  return has_fourier_plan(kind, lengths.back()) &&
         std::ranges::all_of(lengths.first(lengths.size() - 1),
                             [](int64_t n) { return has_fourier_plan(FourierKind::kForward, n); });
}

PlannedRoutine plan_fourier(FourierKind kind, const Type& type, int64_t rank) {
  const bool is_real = kind == FourierKind::kReal;
  Dims dims = type.dims;
  if (is_real) dims.back() = dims.back() / 2 + 1;
  const DType number = part_type(type.dtype) == DType::kF32 ? DType::kC64 : DType::kC128;
  std::vector<PlannedRoutine> turns{plan_fourier(kind, type)};
  const size_t last = dims.size() - 1;
  for (size_t d = last; d-- > dims.size() - static_cast<size_t>(rank);) {
    Dims matrices(dims.begin(), dims.begin() + static_cast<std::ptrdiff_t>(d) + 1);
    matrices.push_back(hlo::product(std::span(dims).subspan(d + 1)));
    turns.push_back(
        plan_fourier_columns(is_real ? FourierKind::kForward : kind, *array_type_or_die(number, matrices)));
  }
  const int64_t bytes = array_type_or_die(number, dims)->bytes();
  return [turns = std::move(turns), bytes](const void* in, void* out, const EachMatrix& each) {
    std::vector<std::byte> between(static_cast<size_t>(bytes));
    // By turns to the one and to the other, so that the last ends in the result.
    for (size_t t = 0; t < turns.size(); ++t) {
      void* const to = (turns.size() - t) % 2 == 1 ? out : between.data();
      turns[t](in, to, each);
      in = to;
    }
  };
}

}  // namespace lamina::hlo::linalg
