// A dot node's dimensions as sizes and memory strides of dense row-major operands.
#ifndef LAMINA_HLO_DOT_SHAPE_H_
#define LAMINA_HLO_DOT_SHAPE_H_

#include <optional>
#include <vector>

#include "hlo/graph.h"
#include "hlo/reference_dot.h"

namespace lamina::hlo {

// One dimension of a general dot; a stride is 0 where the operand lacks the dimension.
struct DotDim {
  int64_t extent;
  int64_t lhs_stride;
  int64_t rhs_stride;
};

// The result is row-major over [batch..., m..., n...]; k is summed in row-major order of its dimensions.
struct DotGeneralShape {
  std::vector<DotDim> batch, m, n, k;
};

DotGeneralShape dot_shape(const Node& dot);

// One stride for the row-major index over `dims`, if there is one.
std::optional<int64_t> collapsed(const std::vector<DotDim>& dims, int64_t DotDim::*stride);
int64_t total_extent(const std::vector<DotDim>& dims);
// Of each element of the result as many as are added up.
int64_t multiplications(const Node& dot);
// Of fewer in a step, a product stays in its loop where it could be made before or after it.
inline constexpr int64_t kLeastOutsideLoops = 256;

// The same as a plain dot, where each list of dimensions collapses to one stride in each operand.
std::optional<DotShape> collapsed(const DotGeneralShape& shape);

}  // namespace lamina::hlo

#endif  // LAMINA_HLO_DOT_SHAPE_H_
