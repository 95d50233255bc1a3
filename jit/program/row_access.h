// How loop kernels reach their buffers row by row (jit/program/row_chain.h).
#ifndef LAMINA_JIT_PROGRAM_ROW_ACCESS_H_
#define LAMINA_JIT_PROGRAM_ROW_ACCESS_H_

#include <vector>

#include "jit/kernel/lower.h"
#include "jit/program/step.h"

namespace lamina::jit {

// With the numbers of buffers in place of slots; empty where a buffer is reached otherwise than by accesses,
// or is no value.
std::vector<RowAccess> row_accesses_of(const LoopKernel& kernel, const LoweredLoop& loop);

}  // namespace lamina::jit

#endif  // LAMINA_JIT_PROGRAM_ROW_ACCESS_H_
