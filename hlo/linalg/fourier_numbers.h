// Complex numbers in vectors (hlo/linalg/fourier.cc): arithmetic, and the ways between memory where real and
// imaginary parts are apart and memory where they go by turns.
//
// Contract: what becomes of a number does not depend on the width of the vectors, nor on what is beside it.
// To be included where vectors of the machine are made (hlo/with_vectors.h), by one file.
#ifndef LAMINA_HLO_LINALG_FOURIER_NUMBERS_H_
#define LAMINA_HLO_LINALG_FOURIER_NUMBERS_H_

#include <cstdint>
#include <type_traits>
#include <utility>

#include "hlo/linalg/compiled_apart.h"
#include "hlo/with_vectors.h"

namespace lamina::hlo::linalg::fourier {

// Lines, or columns of one, that are transformed side by side: a cache line of real parts. It is the same for
// every instruction set, as the factors of a long line depend on it.
template <typename X>
inline constexpr int64_t kSideBySide = 64 / sizeof(X);

// A number, or one of each of several columns.
template <typename V>
struct Numbers {
  V re, im;

  Numbers() = default;
  Numbers(const V& real, const V& imaginary) : re(real), im(imaginary) {}
  // Part by part: the compiler copies a whole by halves of vectors, for which the load of a vector waits
  // long.
  Numbers(const Numbers& other) : re(other.re), im(other.im) {}
  Numbers& operator=(const Numbers& other) {
    re = other.re;
    im = other.im;
    return *this;
  }
};

#define LAMINA_INLINE [[gnu::always_inline]] inline

// Has memory on its way to the second cache that is read or written soon: one of several parts of it.
template <typename X>
LAMINA_INLINE void ask_for_part(const X* first, int64_t count, int64_t part, int64_t parts) {
  const int64_t begin = count * part / parts, end = count * (part + 1) / parts;
  for (int64_t i = begin; i < end; i += kSideBySide<X>) __builtin_prefetch(first + i, 0, 2);
}

// A vector, or a number, anywhere in memory. (The compiler copies bytes to an array of vectors by smaller
// ones.)
template <typename X, typename V>
LAMINA_INLINE void get(const X* from, V& v) {
  if constexpr (std::is_same_v<X, V>)
    v = *from;
  else
    v = *reinterpret_cast<const typename VectorOf<X, sizeof(V) / sizeof(X)>::Unaligned*>(from);
}
template <typename X, typename V>
LAMINA_INLINE void put(const V& v, X* to) {
  if constexpr (std::is_same_v<X, V>)
    *to = v;
  else
    *reinterpret_cast<typename VectorOf<X, sizeof(V) / sizeof(X)>::Unaligned*>(to) = v;
}

template <typename X, typename V>
LAMINA_INLINE void load(const X* from, Numbers<V>& x) {
  get(from, x.re);
  get(from + kSideBySide<X>, x.im);
}
template <typename X, typename V>
LAMINA_INLINE void store(const Numbers<V>& x, X* to) {
  put(x.re, to);
  put(x.im, to + kSideBySide<X>);
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

// The roots that a row of columns beside each other is turned by.
template <typename X>
struct alignas(64) RootsBeside {
  X re[kSideBySide<X>], im[kSideBySide<X>];
};

// Numbers in memory, interleaved: `lane_step` from column to column and `row_step` from row to row.
template <typename X>
struct Interleaved {
  X* first;
  int64_t lane_step, row_step;

  X* at(int64_t lane, int64_t row) const { return first + 2 * (lane * lane_step + row * row_step); }
  operator Interleaved<const X>() const { return {first, lane_step, row_step}; }
};

// Exchanges blocks of `d` interleaved numbers off the diagonal of two rows of blocks.
template <int d, typename V, int... I>
LAMINA_INLINE void exchange(V& a, V& b, std::integer_sequence<int, I...>) {
  constexpr int kWidth = sizeof...(I);
  const V first = __builtin_shufflevector(a, b, (I / 2 / d % 2 == 0 ? I : I - 2 * d + kWidth)...);
  b = __builtin_shufflevector(a, b, (I / 2 / d % 2 == 0 ? I + 2 * d : I + kWidth)...);
  a = first;
}

// Most instructions of AVX2 move nothing between the halves of a vector. Where vectors are so wide, each half
// of one is loaded and stored by itself, so that the parts of numbers that are neighbours meet in a half.
template <typename V>
inline constexpr bool kHasHalves = sizeof(V) == 32;
template <typename X>
inline constexpr int kHalf = 16 / static_cast<int>(sizeof(X));

template <typename X, typename V, int... I>
LAMINA_INLINE void join(const X* low, const X* high, V& both, std::integer_sequence<int, I...>) {
  typename VectorOf<X, kHalf<X>>::Type a, b;
  get(low, a);
  get(high, b);
  both = __builtin_shufflevector(a, b, I...);
}
// Place `i` of `count`, or that from the end.
template <bool kReversed>
constexpr int place_of(int i, int count) {
  return kReversed ? count - 1 - i : i;
}
// The real parts of the numbers in half i of a and then of b become half i, and so do the imaginary ones;
// reversed, those of b and then of a, the last ones first.
template <bool kReversed = false, typename V, int... I>
LAMINA_INLINE void take_apart_halves(const V& a, const V& b, Numbers<V>& x,
                                     std::integer_sequence<int, I...>) {
  constexpr int kWidth = sizeof...(I), kSize = kWidth / 2;
  const auto real = [](int i) {
    const int number = place_of<kReversed>(i % kSize, kSize);
    return i / kSize * kSize + 2 * number % kSize + 2 * number / kSize * kWidth;
  };
  x = {__builtin_shufflevector(a, b, (real(I))...), __builtin_shufflevector(a, b, (real(I) + 1)...)};
}
template <bool kReversed = false, typename V, int... I>
LAMINA_INLINE void put_together_halves(const Numbers<V>& x, V& a, V& b, std::integer_sequence<int, I...>) {
  constexpr int kWidth = sizeof...(I), kSize = kWidth / 2;
  const auto part = [](int i, int first) {
    return i / kSize * kSize + place_of<kReversed>(first + i % kSize / 2, kSize) + i % 2 * kWidth;
  };
  a = __builtin_shufflevector(x.re, x.im, (part(I, 0))...);
  b = __builtin_shufflevector(x.re, x.im, (part(I, kSize / 2))...);
}

template <bool kReversed = false, typename V, int... I>
LAMINA_INLINE void take_apart(const V& low, const V& high, Numbers<V>& x, std::integer_sequence<int, I...>) {
  constexpr int kWidth = sizeof...(I);
  x = {__builtin_shufflevector(low, high, (2 * place_of<kReversed>(I, kWidth))...),
       __builtin_shufflevector(low, high, (2 * place_of<kReversed>(I, kWidth) + 1)...)};
}
template <bool kReversed = false, typename V, int... I>
LAMINA_INLINE void put_together(const Numbers<V>& x, V& low, V& high, std::integer_sequence<int, I...>) {
  constexpr int kWidth = sizeof...(I);
  low = __builtin_shufflevector(x.re, x.im, (place_of<kReversed>(I / 2, kWidth) + I % 2 * kWidth)...);
  high = __builtin_shufflevector(x.re, x.im,
                                 (place_of<kReversed>((I + kWidth) / 2, kWidth) + I % 2 * kWidth)...);
}

// Reversed: the number at `from` goes to the last lane.
template <bool kReversed = false, typename X, typename V, typename P>
LAMINA_INLINE void load_interleaved(const X* from, Numbers<V>& x, P places) {
  V low, high;
  if constexpr (kHasHalves<V>) {
    constexpr int kFirst = kReversed ? 2 : 0, kLast = 2 - kFirst;
    join(from + kFirst * kHalf<X>, from + kLast * kHalf<X>, low, places);
    join(from + (kFirst + 1) * kHalf<X>, from + (kLast + 1) * kHalf<X>, high, places);
    take_apart_halves<kReversed>(low, high, x, places);
  } else {
    get(from, low);
    get(from + places.size(), high);
    take_apart<kReversed>(low, high, x, places);
  }
}
template <bool kReversed = false, typename X, typename V, typename P>
LAMINA_INLINE void store_interleaved(const Numbers<V>& x, X* to, P places) {
  V low, high;
  if constexpr (kHasHalves<V>) {
    put_together_halves<kReversed>(x, low, high, places);
    exchange<kHalf<X> / 2>(low, high, places);
  } else {
    put_together<kReversed>(x, low, high, places);
  }
  constexpr bool kHighFirst = kReversed && kHasHalves<V>;
  put(kHighFirst ? high : low, to);
  put(kHighFirst ? low : high, to + places.size());
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

// x[i] gets number i of each of as many lines as a vector has lanes; line(l) is where one begins. There are
// half as many of x.
template <typename X, typename V, typename Line, int... I>
LAMINA_INLINE void load_turned(const Line& line, Numbers<V>* x, std::integer_sequence<int, I...> places) {
  constexpr int kWidth = sizeof...(I);
  if constexpr (kHasHalves<V>) {
    constexpr int kNumbers = kHalf<X> / 2;
#pragma GCC unroll 2
    for (int i = 0; i < kWidth / 2; i += kNumbers) {
      V v[kHalf<X>];
#pragma GCC unroll 4
      for (int l = 0; l < kHalf<X>; ++l) join(line(l) + 2 * i, line(l + kHalf<X>) + 2 * i, v[l], places);
      if constexpr (kNumbers == 2) {
        exchange<1>(v[0], v[1], places);
        exchange<1>(v[2], v[3], places);
        take_apart_halves(v[0], v[2], x[i], places);
        take_apart_halves(v[1], v[3], x[i + 1], places);
      } else {
        take_apart_halves(v[0], v[1], x[i], places);
      }
    }
  } else {
    V v[kWidth];
#pragma GCC unroll 16
    for (int l = 0; l < kWidth; ++l) get(line(l), v[l]);
    transpose_square<kWidth / 4, kWidth>(v);
    transpose_square<kWidth / 4, kWidth>(v + kWidth / 2);
#pragma GCC unroll 8
    for (int i = 0; i < kWidth / 2; ++i) take_apart(v[i], v[i + kWidth / 2], x[i], places);
  }
}
// The way back: v[l] is what line l begins with.
template <typename X, typename V, int... I>
LAMINA_INLINE void turn_back(const Numbers<V>* x, V* v, std::integer_sequence<int, I...> places) {
  constexpr int kWidth = sizeof...(I);
  if constexpr (kHasHalves<V>) {
    constexpr int kNumbers = kHalf<X> / 2;
#pragma GCC unroll 2
    for (int i = 0; i < kNumbers; ++i) {
      // Lines l and l + kHalf, of the first numbers and of the last ones.
      V *const first = v, *const last = v + kHalf<X>;
      put_together_halves(x[i], first[i], first[i + kNumbers], places);
      put_together_halves(x[i + kNumbers], last[i], last[i + kNumbers], places);
    }
    if constexpr (kNumbers == 2) {
#pragma GCC unroll 4
      for (int l = 0; l < kWidth; l += 2) exchange<1>(v[l], v[l + 1], places);
    }
#pragma GCC unroll 4
    for (int l = 0; l < kHalf<X>; ++l) exchange<kNumbers>(v[l], v[l + kHalf<X>], places);
  } else {
#pragma GCC unroll 8
    for (int i = 0; i < kWidth / 2; ++i) put_together(x[i], v[i], v[i + kWidth / 2], places);
    transpose_square<kWidth / 4, kWidth>(v);
    transpose_square<kWidth / 4, kWidth>(v + kWidth / 2);
  }
}

}  // namespace lamina::hlo::linalg::fourier

#endif  // LAMINA_HLO_LINALG_FOURIER_NUMBERS_H_
