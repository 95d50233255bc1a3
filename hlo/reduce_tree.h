// The order of every reduction (numerics contract).
//
// Element i of the row-major index over the reduced dims, counted within chunks of kReduceChunk, goes to lane
// i mod L, where L = kReduceLaneBytes / (widest part size of the operands); within a lane elements combine in
// index order, acc = body(acc, element), the first element starting it; lanes fold at halving stride, lane[j]
// = body(lane[j], lane[j + s]) for s = L/2 ... 1 where lane j + s holds an element; chunk results are reduced
// as a new sequence in the same way; init enters once, last: body(tree, init). An empty reduction is init.
#ifndef LAMINA_HLO_REDUCE_TREE_H_
#define LAMINA_HLO_REDUCE_TREE_H_

#include <cstdint>

namespace lamina::hlo {

inline constexpr int64_t kReduceChunk = 16384;
inline constexpr int64_t kReduceLaneBytes = 256;

}  // namespace lamina::hlo

#endif  // LAMINA_HLO_REDUCE_TREE_H_
