// Loops over arrays in memory (cluster/array_loop.h) as kernels of one element.
#ifndef LAMINA_JIT_KERNEL_LOWER_ARRAYS_H_
#define LAMINA_JIT_KERNEL_LOWER_ARRAYS_H_

#include "jit/kernel/lower.h"

namespace lamina::jit {

absl::StatusOr<LoweredLoop> lower_array_loop(const cluster::FusionPlan& plan, const cluster::Group& group);

}  // namespace lamina::jit

#endif  // LAMINA_JIT_KERNEL_LOWER_ARRAYS_H_
