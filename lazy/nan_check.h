// Looking for NaN in what programs give.
#ifndef LAMINA_LAZY_NAN_CHECK_H_
#define LAMINA_LAZY_NAN_CHECK_H_

#include <span>

#include "hlo/computation.h"
#include "jit/client/array.h"

namespace lamina::lazy {

// Whether this thread looks.
bool& nan_checks();

// Error(kFloatingPoint) naming the first operation of the program that gave a NaN, and its line, if one is
// among the results; without arguments (they were given up) no operation is named. NaN that only came through
// is none.
void check_nan(const hlo::Computation& program, std::span<const jit::BufferRef> arguments,
               std::span<const jit::BufferRef> results);

}  // namespace lamina::lazy

#endif  // LAMINA_LAZY_NAN_CHECK_H_
