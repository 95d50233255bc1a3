// The meaning of a running sum, to the last bit, and the order of its additions (numerics contract).
//
// The line of elements is cut into groups of kCumsumGroup, the last of which may be shorter. Within a group
// sums are formed by doubling (Hillis and Steele, "Data parallel algorithms", CACM 29(12), 1986): for d = 1,
// 2, 4, 8 each element j >= d becomes x[j - d] + x[j]. The last sums of all groups but the last are a line
// whose running sums are formed in the same way; each is added, from the left, to the sums of the group
// behind it. So no more than 5 ceil(log16(n)) roundings lie between an element and a sum of n, and additions
// can be made side by side.
#ifndef LAMINA_HLO_REFERENCE_CUMSUM_H_
#define LAMINA_HLO_REFERENCE_CUMSUM_H_

#include <cstdint>

#include "hlo/dtype.h"
#include "hlo/graph.h"

namespace lamina::hlo {

inline constexpr int64_t kCumsumGroup = 16;

// Lines of `length` elements, along the middle of the dimensions [outer, length, inner] of dense arrays;
// summed from the last element on where `reverse`.
struct CumsumLines {
  int64_t outer, length, inner;
  bool reverse;
};
CumsumLines cumsum_lines(const Node& cumsum);

// Each addition rounds to the element type, which has numbers. Slow and simple. `sums` may be `in`.
void reference_cumsum(DType type, const CumsumLines& lines, const void* in, void* sums);

}  // namespace lamina::hlo

#endif  // LAMINA_HLO_REFERENCE_CUMSUM_H_
