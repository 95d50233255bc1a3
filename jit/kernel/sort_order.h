// What order a sort's comparator stands for.
//
// A comparator is recognised by what it computes, not by how it is written: if its result depends on its
// operands only through comparisons f(x) < f(y), f(x) == f(y), ... of the same functions f on both sides,
// then it is a table over the possible outcomes (below, equal, above; one or both NaN), and the table says
// whether it is a lexicographic order.
#ifndef LAMINA_JIT_KERNEL_SORT_ORDER_H_
#define LAMINA_JIT_KERNEL_SORT_ORDER_H_

#include <optional>
#include <vector>

#include "hlo/computation.h"
#include "hlo/scalar/program.h"

namespace lamina::jit {

enum class NanPlace : uint8_t { kUnordered, kFirst, kLast };

// One key of a lexicographic order. Its value is output 0 of `value`, whose inputs are the parts of one
// element of every operand; -0 and +0 are equal.
struct SortKey {
  hlo::ScalarProgram value;
  int input = -1;  // if the key is just an input of `value`: which
  hlo::DType type;
  bool descending = false;
  NanPlace nan = NanPlace::kUnordered;  // floats; NaNs are equal to each other
};

// The keys of the strict order that `comparator` (parameters x0, y0, x1, y1, ...) is, first key first.
// Nothing if it is not found to be one. With a kUnordered key it is one where no value of that key is NaN.
std::optional<std::vector<SortKey>> sort_keys(const hlo::Computation& comparator);

}  // namespace lamina::jit

#endif  // LAMINA_JIT_KERNEL_SORT_ORDER_H_
