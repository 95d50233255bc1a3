// A reduction of few results, cut so that threads can share it: one kernel makes the results of its chunks,
// another what is made of those.
//
// Contract: chunks are those of the reduction tree (hlo/reduce_tree.h), so the two kernels give the bits of
// the one.
#ifndef LAMINA_JIT_KERNEL_SPLIT_REDUCTION_H_
#define LAMINA_JIT_KERNEL_SPLIT_REDUCTION_H_

#include <cstdint>
#include <optional>
#include <vector>

#include "jit/kernel/lower.h"

namespace lamina::jit {

struct SplitReduction {
  // The chunks are its first dimension. A reduction without init, whose results are stored in its last
  // buffers, memory of its own.
  LoweredLoop chunks;
  // The last chunk's arguments: it may be shorter. Chunks may be run one by one: outer range [c, c + 1) *
  // chunks.outer / count, or, of a single result, whose chunks are the inner range, [c, c + 1) of that.
  std::vector<int64_t> last_args;
  int64_t count;
  // Its first buffers are the last ones of `chunks`.
  LoweredLoop rest;
  std::vector<int64_t> bytes;  // of those
};

// None for a loop of another form: of several reduced dimensions or of one chunk, or with loops inside.
std::optional<SplitReduction> split_reduction(const LoweredLoop& loop);

}  // namespace lamina::jit

#endif  // LAMINA_JIT_KERNEL_SPLIT_REDUCTION_H_
