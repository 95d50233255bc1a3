// Small products and reductions, written out: the orders of the numerics contract.
#include <algorithm>

#include "hlo/op.h"
#include "jit/kernel/lower_element.h"

namespace lamina::jit {

using hlo::Attr;

std::vector<uint32_t> ElementLowering::product(const Node& n, int64_t terms, const Index& index,
                                               uint32_t predicate) {
  const hlo::Attrs& a = n.attrs();
  size_t free = a.ints(Attr::lhs_batching_dimensions).size();
  const Dims& summed = a.ints(Attr::lhs_contracting_dimensions);
  Index in[2];
  Dims along[2];  // of each operand: the summed dimensions
  for (int side = 0; side < 2; ++side) {
    const Dims& batching = a.ints(side ? Attr::rhs_batching_dimensions : Attr::lhs_batching_dimensions);
    along[side] = a.ints(side ? Attr::rhs_contracting_dimensions : Attr::lhs_contracting_dimensions);
    for (int64_t d = 0; d < n.operand_type(side)->rank(); ++d) {
      const auto batch = std::find(batching.begin(), batching.end(), d);
      const bool sums = std::find(along[side].begin(), along[side].end(), d) != along[side].end();
      in[side].push_back(sums                      ? DimIndex{}
                         : batch != batching.end() ? index[batch - batching.begin()]
                                                   : index[free++]);
    }
  }
  Dims sizes;
  for (int64_t d : summed) sizes.push_back(n.operand_type(0)->dims[d]);
  const Dims strides = hlo::row_major_strides(sizes);
  const DType type = n.type()->dtype;
  uint32_t sum = kNone;
  for (int64_t k = 0; k < terms; ++k) {
    uint32_t factor[2];
    for (int side = 0; side < 2; ++side) {
      for (size_t d = 0; d < sizes.size(); ++d) in[side][along[side][d]].offset = k / strides[d] % sizes[d];
      factor[side] = emit(n.operand(side), in[side], predicate)[0];
    }
    sum = sum == kNone ? prim(Prim::mul, type, {factor[0], factor[1]})
                       : prim(Prim::fma, type, {factor[0], factor[1], sum});
  }
  return {sum};
}

std::vector<uint32_t> ElementLowering::reduced(const Node& n, int64_t count, const Index& index,
                                               uint32_t predicate) {
  const Dims &dims = n.operand_type(0)->dims, &over = n.attrs().ints(Attr::dimensions);
  const hlo::ScalarProgram program = *hlo::region_program(*n.attrs().computation(Attr::body));
  std::vector<std::vector<uint32_t>> lanes;
  for (int64_t e = 0; e < count; ++e) {
    Index in(dims.size());
    int64_t left = e;
    size_t kept = index.size();
    for (size_t d = dims.size(); d-- > 0;) {
      if (std::find(over.begin(), over.end(), static_cast<int64_t>(d)) == over.end()) {
        in[d] = index[--kept];
        continue;
      }
      in[d].offset = left % dims[d];
      left /= dims[d];
    }
    lanes.push_back(emit(n.operand(0), in, predicate));
  }
  const auto combine = [&](std::vector<uint32_t> a, const std::vector<uint32_t>& b) {
    a.insert(a.end(), b.begin(), b.end());
    return apply(program, std::move(a));
  };
  // There are more lanes than elements.
  for (int64_t step = kReduceLaneBytes / 2; step > 0; step /= 2)
    for (int64_t j = 0; j < std::min(step, count - step); ++j) lanes[j] = combine(lanes[j], lanes[j + step]);
  return combine(lanes[0], emit(n.operand(1), {}, predicate));
}

}  // namespace lamina::jit
