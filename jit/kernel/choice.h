// Reductions that choose an element: argmax and argmin, by what they compute, not by how it is written.
#ifndef LAMINA_JIT_KERNEL_CHOICE_H_
#define LAMINA_JIT_KERNEL_CHOICE_H_

#include <optional>

#include "jit/kernel/kernel.h"

namespace lamina::jit {

// Of pairs (value, position along the one reduced dimension): the pair with the largest value, or the
// smallest; a NaN comes before all numbers, and of equal values (-0 and +0, or two NaNs, are) the first. The
// order in which pairs meet does not matter, so such a reduction may be run in any.
inline constexpr size_t kChosenPosition = 1;  // of the two
struct Choice {
  bool largest;
};
std::optional<Choice> choice_of(const LoopKernel& kernel);
// That two pairs, whose positions are any, combine to.
std::optional<Choice> choice_of(const hlo::ScalarProgram& combine);

}  // namespace lamina::jit

#endif  // LAMINA_JIT_KERNEL_CHOICE_H_
