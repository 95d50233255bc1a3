// The passes of a transform of columns that lie side by side (hlo/linalg/fourier.cc).
//
// Contract: those of a round are made together, with the bits of one after the other: so many numbers as
// their radices make need only each other, and are read and written once. To be included by one file.
#ifndef LAMINA_HLO_LINALG_FOURIER_PASSES_H_
#define LAMINA_HLO_LINALG_FOURIER_PASSES_H_

#include <cstdint>
#include <type_traits>
#include <utility>
#include <vector>

#include "hlo/linalg/fourier.h"
#include "hlo/linalg/fourier_numbers.h"

namespace lamina::hlo::linalg::fourier {

// y[k] = sums over j of a[j] w^(j k), in place.
template <typename V>
LAMINA_INLINE void combine2(Numbers<V>* a) {
  const Numbers<V> first{a[0].re, a[0].im};
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
// Of radix 5, as of any odd one.
template <typename X, typename V>
LAMINA_INLINE void combine5(Numbers<V>* a, const Numbers<X>* roots) {
  Numbers<V> sum1, sum2, difference1, difference2;
  const Numbers<V> first = a[0];
  add(a[1], a[4], sum1);
  subtract(a[1], a[4], difference1);
  add(a[2], a[3], sum2);
  subtract(a[2], a[3], difference2);
  a[0] = {first.re + sum1.re + sum2.re, first.im + sum1.im + sum2.im};
#pragma GCC unroll 2
  for (int k = 1; k <= 2; ++k) {
    const Numbers<X>&w = roots[k], &w2 = roots[2 * k];
    const Numbers<V> even{first.re + w.re * sum1.re + w2.re * sum2.re,
                          first.im + w.re * sum1.im + w2.re * sum2.im};
    const Numbers<V> odd{V{} + w.im * difference1.re + w2.im * difference2.re,
                         V{} + w.im * difference1.im + w2.im * difference2.im};
    a[k] = {even.re - odd.im, even.im + odd.re};
    a[5 - k] = {even.re + odd.im, even.im - odd.re};
  }
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

// The radices of the passes of a round.
enum class RoundKind : uint8_t { kFours, kFoursAndTwo, kFourAndTwo, kFourAndFive, kFour, kTwo, kFives, kOdd };

template <typename X>
struct Round {
  RoundKind kind;
  int64_t size;    // the product of its radices
  int64_t before;  // that of all rounds before
  int64_t after;   // that of all rounds that follow
  int64_t each;    // twiddles for each place among those
  // w^(p k) in the order of their use, k from 1 to the radix - 1: by place, pass and p of the pass.
  std::vector<Numbers<X>> twiddles;
  std::vector<Numbers<X>> roots;  // of the last radix if it is odd, by j k mod radix
};

template <typename X>
using Rounds = std::vector<Round<X>>;

// Where the numbers of columns come from and go to: `step` from row to row and kLane from column to column.

// Rows of kSideBySide columns: real parts, then imaginary ones.
template <typename X>
struct Rows {
  X* first;

  static constexpr int64_t kStep = 2 * kSideBySide<X>, kLane = 1;
  int64_t step() const { return kStep; }
  X* at(int64_t row, int64_t lane) const { return first + row * kStep + lane; }
  template <typename V>
  LAMINA_INLINE void take(const X* from, Numbers<V>& x) const {
    load(from, x);
  }
  template <typename V>
  LAMINA_INLINE void give(const Numbers<V>& x, X* to) const {
    store(x, to);
  }
};

template <typename V, typename X>
using PlacesOf = std::make_integer_sequence<int, static_cast<int>(sizeof(V) / sizeof(X))>;
// Columns beside each other in memory, with their real and imaginary parts exchanged or not.
template <typename X, bool kSwapped>
struct FromColumns {
  const X* first;
  int64_t row_step;  // in numbers

  static constexpr int64_t kLane = 2;
  int64_t step() const { return 2 * row_step; }
  template <typename V>
  LAMINA_INLINE void take(const X* from, Numbers<V>& x) const {
    load_interleaved(from, x, PlacesOf<V, X>());
    if constexpr (kSwapped) x = {x.im, x.re};
  }
};
template <typename X, bool kSwapped>
struct ToColumns {
  X* first;
  int64_t row_step;
  X scale;  // where they are exchanged

  static constexpr int64_t kLane = 2;
  int64_t step() const { return 2 * row_step; }
  template <typename V>
  LAMINA_INLINE void give(const Numbers<V>& x, X* to) const {
    if constexpr (kSwapped)
      store_interleaved(Numbers<V>{x.im * scale, x.re * scale}, to, PlacesOf<V, X>());
    else
      store_interleaved(x, to, PlacesOf<V, X>());
  }
};

// The compiler forgets what it knows of an address, so as not to keep one for each place that is read of a
// loop.
template <typename P>
LAMINA_INLINE void forget(P*& p) {
  asm("" : "+r"(p));
}

template <int R, typename X, typename V>
LAMINA_INLINE void combine(Numbers<V>* a, const Numbers<X>* roots) {
  if constexpr (R == 2)
    combine2(a);
  else if constexpr (R == 4)
    combine4(a);
  else
    combine5(a, roots);
}
template <int R, typename X, typename V>
LAMINA_INLINE void turn_all(Numbers<V>* a, const Numbers<X>* w) {
#pragma GCC unroll 4
  for (int k = 1; k < R; ++k) turn(a[k], w[k - 1].re, w[k - 1].im);
}

// What is left of a round after passes of kBefore in all, of kSize numbers.
template <bool kFirst, int kSize, int kBefore, int R, int... kOthers, typename X, typename V, typename T>
LAMINA_INLINE void run_rest(const Numbers<V>* x, const Numbers<X>* w, const Numbers<X>* roots, const T& sink,
                            X* to, int64_t step) {
  constexpr int kLeft = kSize / kBefore / R;
  if constexpr (sizeof...(kOthers) == 0) {
#pragma GCC unroll 16
    for (int u = 0; u < kBefore; ++u) {
      Numbers<V> a[R];
#pragma GCC unroll 4
      for (int j = 0; j < R; ++j) a[j] = x[j * kBefore + u];
      combine<R>(a, roots);
      if constexpr (!kFirst) turn_all<R>(a, w);
      forget(to);
#pragma GCC unroll 4
      for (int k = 0; k < R; ++k) sink.give(a[k], to + k * kBefore * step);
      to += step;
    }
  } else {
    Numbers<V> made[kSize];
#pragma GCC unroll 8
    for (int q = 0; q < kLeft; ++q) {
#pragma GCC unroll 16
      for (int u = 0; u < kBefore; ++u) {
        Numbers<V> a[R];
#pragma GCC unroll 4
        for (int j = 0; j < R; ++j) a[j] = x[(q + kLeft * j) * kBefore + u];
        combine<R>(a, roots);
        if (!kFirst || q > 0) turn_all<R>(a, w + q * (R - 1));
#pragma GCC unroll 4
        for (int k = 0; k < R; ++k) made[(R * q + k) * kBefore + u] = a[k];
      }
    }
    run_rest<kFirst, kSize, kBefore * R, kOthers...>(made, w + kLeft * (R - 1), roots, sink, to, step);
  }
}
// The numbers of a round that need each other.
template <bool kFirst, typename V, int kSize, int R, int... kOthers, typename X, typename F, typename T>
LAMINA_INLINE void run_together(const Numbers<X>* w, const Numbers<X>* roots, const F& source, const X* from,
                                int64_t from_step, const T& sink, X* to, int64_t to_step) {
  constexpr int kLeft = kSize / R;
  Numbers<V> made[kSize];
#pragma GCC unroll 8
  for (int q = 0; q < kLeft; ++q) {
    Numbers<V>* const a = made + R * q;
    forget(from);
#pragma GCC unroll 4
    for (int j = 0; j < R; ++j) source.take(from + j * kLeft * from_step, a[j]);
    from += from_step;
    combine<R>(a, roots);
    if (!kFirst || q > 0) turn_all<R>(a, w + q * (R - 1));
  }
  if constexpr (sizeof...(kOthers) > 0) {
    run_rest<kFirst, kSize, R, kOthers...>(made, w + kLeft * (R - 1), roots, sink, to, to_step);
  } else {
#pragma GCC unroll 4
    for (int k = 0; k < R; ++k) sink.give(made[k], to + k * to_step);
  }
}
template <typename V, int... kRadices, typename X, typename F, typename T>
LAMINA_INLINE void run_joined(const Round<X>& round, const F& from, const T& to) {
  constexpr int kSize = (kRadices * ...);
  constexpr int64_t kWidth = sizeof(V) / sizeof(X);
  const int64_t after = round.after, before = round.before;
  const Numbers<X>* w = round.twiddles.data();
  const Numbers<X>* const roots = round.roots.data();
  // Copies: the compiler sees that what is stored is not these.
  const F source = from;
  const T sink = to;
  const int64_t from_step = source.step(), to_step = sink.step();
  const auto run = [=]<bool kFirst>(int64_t p, const Numbers<X>* w) __attribute__((always_inline)) {
    for (int64_t u = 0; u < before; ++u)
      for (int64_t l = 0; l < kSideBySide<X>; l += kWidth)
        run_together<kFirst, V, kSize, kRadices...>(
            w, roots, source, source.first + (p * before + u) * from_step + l * F::kLane,
            after * before * from_step, sink, sink.first + (kSize * p * before + u) * to_step + l * T::kLane,
            before * to_step);
  };
  run.template operator()<true>(0, w);
  // Nothing follows what goes to columns.
  if constexpr (std::is_same_v<T, Rows<X>>)
    for (int64_t p = 1; p < after; ++p) run.template operator()<false>(p, w + p * round.each);
}

// A round of one odd radix.
template <typename V, int R, typename X>
LAMINA_INLINE void run_odd(const Round<X>& round, const Rows<X>& x, const Rows<X>& y) {
  constexpr int64_t kWidth = sizeof(V) / sizeof(X);
  const int64_t r = R > 0 ? R : round.size, m = round.after, s = round.before;
  const Numbers<X>* const roots = round.roots.data();
  Numbers<V> a[R > 0 ? R : kLargestPrime];
  for (int64_t p = 0; p < m; ++p) {
    const Numbers<X>* const w = round.twiddles.data() + p * (r - 1);
    for (int64_t u = 0; u < s; ++u) {
      for (int64_t l = 0; l < kSideBySide<X>; l += kWidth) {
#pragma GCC unroll 8
        for (int64_t j = 0; j < r; ++j) load(x.at((p + m * j) * s + u, l), a[j]);
        if constexpr (R == 5)
          combine5(a, roots);
        else
          combine_odd(a, r, roots);
        if (p > 0) {
#pragma GCC unroll 8
          for (int64_t k = 1; k < r; ++k) turn(a[k], w[k - 1].re, w[k - 1].im);
        }
#pragma GCC unroll 8
        for (int64_t k = 0; k < r; ++k) store(a[k], y.at((r * p + k) * s + u, l));
      }
    }
  }
}

template <typename X, typename F>
void with_vectors_of(const F& f) {
  with_lanes([&]<int doubles>() {
    f.template operator()<doubles* static_cast<int>(kSideBySide<X> / kSideBySide<double>)>();
  });
}

// Whether a round goes from and to columns in memory as well as rows: those that long transforms begin and
// end with, but by the vectors that x86 had before AVX2: that is a third of the code, and their machines take
// a pass more.
template <typename V>
constexpr bool reaches_columns(RoundKind kind) {
#if defined(__x86_64__)
  if (sizeof(V) == 16) return false;
#endif
  return kind == RoundKind::kFours || kind == RoundKind::kFoursAndTwo;
}

// From and to may be one place if no round follows. A function by itself for each way: they are long.
template <typename X, typename F, typename T>
[[gnu::noinline]] void run_round(const Round<X>& round, const F& from, const T& to) {
  with_vectors_of<X>([&]<int N>() {
    using V = typename VectorOf<X, N>::Type;
    constexpr bool kRowsOnly = std::is_same_v<F, Rows<X>> && std::is_same_v<T, Rows<X>>;
    if constexpr (kRowsOnly || reaches_columns<V>(RoundKind::kFours)) {
      if (round.kind == RoundKind::kFours) return run_joined<V, 4, 4>(round, from, to);
      if (round.kind == RoundKind::kFoursAndTwo) return run_joined<V, 4, 4, 2>(round, from, to);
    }
    if constexpr (kRowsOnly) {
      switch (round.kind) {
        case RoundKind::kFourAndTwo:
          return run_joined<V, 4, 2>(round, from, to);
        case RoundKind::kFourAndFive:
          return run_joined<V, 4, 5>(round, from, to);
        case RoundKind::kFives:
          return run_joined<V, 5, 5>(round, from, to);
        case RoundKind::kFour:
          return run_joined<V, 4>(round, from, to);
        case RoundKind::kTwo:
          return run_joined<V, 2>(round, from, to);
        default:
          break;
      }
      if (round.size == 3) return run_odd<V, 3>(round, from, to);
      if (round.size == 5) return run_odd<V, 5>(round, from, to);
      run_odd<V, 0>(round, from, to);
    }
  });
}

}  // namespace lamina::hlo::linalg::fourier

#endif  // LAMINA_HLO_LINALG_FOURIER_PASSES_H_
