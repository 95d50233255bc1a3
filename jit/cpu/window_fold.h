// Windows of neighbouring positions combined side by side, in registers.
//
// Contract: the order of hlo/reduce_tree.h for lanes that hold one element each, or any order where that
// gives the same bits.
#ifndef LAMINA_JIT_CPU_WINDOW_FOLD_H_
#define LAMINA_JIT_CPU_WINDOW_FOLD_H_

#include <cstdint>

#include "jit/cpu/region.h"

namespace lamina::jit {

// to[i] = the elements from[offsets[k] + i], k < count, for i < n, and the one at `init`, if any, last.
// 1 <= count <= kMostFolded; `to` is memory of its own.
using WindowFold = void (*)(void* to, const void* from, const int64_t* offsets, int64_t count, int64_t n,
                            const void* init);
inline constexpr int64_t kMostFolded = 16;

// Null if there is no routine for them.
WindowFold window_fold(CombineKind kind, hlo::DType type);

}  // namespace lamina::jit

#endif  // LAMINA_JIT_CPU_WINDOW_FOLD_H_
