// Code for the vectors of a machine that is compiled once though several callers have it.
//
// Contract: compiled_apart<N>(f) calls f() once, in a function of its own that is compiled for the machines
// whose vectors hold N numbers of 64 bits; its caller is what with_lanes (hlo/with_vectors.h) calls for such
// a machine, into which all else is inlined.
#ifndef LAMINA_HLO_LINALG_COMPILED_APART_H_
#define LAMINA_HLO_LINALG_COMPILED_APART_H_

namespace lamina::hlo::linalg {

#if defined(__x86_64__)
template <typename F>
[[gnu::target("avx512f,avx512bw"), gnu::flatten, gnu::noinline]] void run_apart_avx512(const F& f) {
  f();
}
template <typename F>
[[gnu::target("avx2"), gnu::flatten, gnu::noinline]] void run_apart_avx2(const F& f) {
  f();
}
#endif
template <typename F>
[[gnu::noinline]] void run_apart(const F& f) {
  f();
}

template <int N, typename F>
[[gnu::always_inline]] inline void compiled_apart(const F& f) {
#if defined(__x86_64__)
  if constexpr (N == 8) return run_apart_avx512(f);
  if constexpr (N == 4) return run_apart_avx2(f);
#endif
  if constexpr (N == 2) run_apart(f);
}

}  // namespace lamina::hlo::linalg

#endif  // LAMINA_HLO_LINALG_COMPILED_APART_H_
