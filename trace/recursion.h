// Functions that call each other as one loop over the segments between their calls, with a stack.
//
// Contract: derivatives and batches are those of the loop, and of the branch around the second one. Calls lie
// inside each other at most `deepest` deep, and as deep as kMostFrameBytes hold what the callers keep;
// beyond, the error is `too_deep`. Memory for that depth is taken where the first few frames do not do.
#ifndef LAMINA_TRACE_RECURSION_H_
#define LAMINA_TRACE_RECURSION_H_

#include "trace/call_sequence.h"

namespace lamina::trace {

inline constexpr int64_t kMostFrameBytes = int64_t{256} << 20;

// The results and the error of the first function on `operands`, its arguments and captured values.
Values record_recursion(Builder& b, std::span<const RecursiveFunction> functions,
                        std::span<const Value> operands, int64_t deepest, int64_t too_deep);

}  // namespace lamina::trace

#endif  // LAMINA_TRACE_RECURSION_H_
