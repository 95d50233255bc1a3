// Discrete Fourier transforms of lines and of columns of numbers, planned once and run many times.
//
// Contract: arithmetic is in the element type, in an order that depends on the length and the element type
// alone, so that a batch, a loop, every number of threads and every instruction set give the
// same bits. A plan is immutable. Lengths are products of primes up to kLargestPrime, and even for real
// transforms.
//
// Sources: Cooley and Tukey, "An algorithm for the machine calculation of complex Fourier series" (1965); the
// order without a bit reversal is Stockham's, the split of long lines into rows and columns is Bailey's,
// "FFTs in external or hierarchical memory" (1990).
#ifndef LAMINA_HLO_LINALG_FOURIER_H_
#define LAMINA_HLO_LINALG_FOURIER_H_

#include <cstdint>
#include <functional>
#include <memory>

#include "hlo/linalg/calls.h"
#include "hlo/type.h"

namespace lamina::hlo::linalg {

inline constexpr int64_t kLargestPrime = 61;
enum class FourierKind : uint8_t {
  kForward,      // n complex numbers to as many
  kInverse,      // likewise, divided by n
  kReal,         // n real numbers to the n / 2 + 1 complex ones that tell the others
  kRealInverse,  // back, divided by n
};

// Whether there is a plan for `n` numbers.
bool has_fourier_plan(FourierKind kind, int64_t n);
// Along the last dimension of arrays of `type`, the operand's or for kRealInverse the result's.
PlannedRoutine plan_fourier(FourierKind kind, const Type& type);
// Along the last dimension but one, of complex numbers.
PlannedRoutine plan_fourier_columns(FourierKind kind, const Type& type);
// Along the last `rank` dimensions, 2 or 3, the last one first; no kRealInverse.
bool has_fourier_plan(FourierKind kind, const Type& type, int64_t rank);
PlannedRoutine plan_fourier(FourierKind kind, const Type& type, int64_t rank);

}  // namespace lamina::hlo::linalg

#endif  // LAMINA_HLO_LINALG_FOURIER_H_
