// Which results of a kernel may take an operand's memory.
#ifndef LAMINA_JIT_KERNEL_IN_PLACE_H_
#define LAMINA_JIT_KERNEL_IN_PLACE_H_

#include <utility>
#include <vector>

#include "jit/kernel/lower.h"

namespace lamina::jit {

// Strides and offset (the last) of an access with their values for one shape, by dimension.
std::vector<int64_t> resolved(const Access& access, const std::vector<int64_t>& args);

// Pairs (written buffer, read buffer) of one memory layout where each element is read by the very output
// element that is stored there, so that the result may take the operand's memory.
std::vector<std::pair<size_t, size_t>> overwritable(const LoopKernel& kernel, const LoweredLoop& loop);

}  // namespace lamina::jit

#endif  // LAMINA_JIT_KERNEL_IN_PLACE_H_
