// Code for the vectors of a machine that is compiled once though several callers have it.
//
// Contract: compiled_apart<N>(f) calls f() once, in a function of its own that is compiled for the machines
// whose vectors hold N numbers of 64 bits; its caller is what with_lanes (hlo/with_vectors.h) calls for such
// a machine, into which all else is inlined.
#ifndef LAMINA_HLO_LINALG_COMPILED_APART_H_
#define LAMINA_HLO_LINALG_COMPILED_APART_H_

#include "hlo/with_vectors.h"

namespace lamina::hlo::linalg {

// What it calls is a function for those machines, into which nothing but f() is inlined.
template <int N, typename F>
[[gnu::noinline]] void compiled_apart(const F& f) {
#if defined(__x86_64__)
  if constexpr (N == 8) return run_avx512(f);
  if constexpr (N == 4) return run_avx2(f);
#endif
  if constexpr (N == 2) f();
}

}  // namespace lamina::hlo::linalg

#endif  // LAMINA_HLO_LINALG_COMPILED_APART_H_
