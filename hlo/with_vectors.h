// Loops that the compiler turns into vectors, for the instruction set that the machine has.
//
// Contract: with_vectors(f) calls f() once. All that f calls and the compiler can see is compiled once more
// for each instruction set; bits are the same for each, as no product is joined with a sum. with_lanes(f) is
// for code that names its vectors: the compiler takes vectors that are wider than the machine's apart number
// by number.
#ifndef LAMINA_HLO_WITH_VECTORS_H_
#define LAMINA_HLO_WITH_VECTORS_H_

#include <utility>

#include "hlo/isa.h"

namespace lamina::hlo {

#if defined(__x86_64__)
template <typename F>
[[gnu::target("avx512f,avx512bw"), gnu::flatten]] void run_avx512(const F& f) {
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

// N numbers of type X.
template <typename X, int N>
struct VectorOf {
  typedef X Type __attribute__((vector_size(N * sizeof(X))));
  // The same anywhere in memory. (Compilers copy bytes to an array of vectors by smaller ones.)
  typedef X Unaligned __attribute__((vector_size(N * sizeof(X)), aligned(alignof(X)), may_alias));
};

// Calls f<N>() once, for as many numbers of 64 bits as a vector of this machine holds.
template <typename F>
void with_lanes(const F& f) {
#if defined(__x86_64__)
  if (best_isa() == Isa::kAvx512) return run_avx512([&] { f.template operator()<8>(); });
  if (best_isa() == Isa::kAvx2) return run_avx2([&] { f.template operator()<4>(); });
#endif
  f.template operator()<2>();
}

// Of two rows `apart` from each other in squares of twice that: what lies across the diagonal changes places.
template <int apart, int N, typename V, int... K>
void cross(V& x, V& y, std::integer_sequence<int, K...>) {
  const V a = x, b = y;
  x = __builtin_shufflevector(a, b, (K & apart ? K - apart + N : K)...);
  y = __builtin_shufflevector(a, b, (K & apart ? K + N : K + apart)...);
}

// Calls f<0>(), ..., f<count - 1>(): arrays that are indexed so stay in registers.
template <int count, typename F>
void unrolled(const F& f) {
  [&]<int... I>(std::integer_sequence<int, I...>) { (f.template operator()<I>(), ...); }
  (std::make_integer_sequence<int, count>());
}

// v[i][j] becomes v[j][i].
template <int N, int apart = 1, typename V>
void transpose_vectors(V* v) {
  if constexpr (apart < N) {
    unrolled<N>([&]<int i>() {
      if constexpr (!(i & apart)) cross<apart, N>(v[i], v[i + apart], std::make_integer_sequence<int, N>());
    });
    transpose_vectors<N, 2 * apart>(v);
  }
}

}  // namespace lamina::hlo

#endif  // LAMINA_HLO_WITH_VECTORS_H_
