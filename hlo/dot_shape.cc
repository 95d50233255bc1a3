#include "hlo/dot_shape.h"

#include <algorithm>

namespace lamina::hlo {

DotGeneralShape dot_shape(const Node& dot) {
  const Attrs& a = dot.attrs();
  const Dims &lb = a.ints(Attr::lhs_batching_dimensions), &rb = a.ints(Attr::rhs_batching_dimensions),
             &lc = a.ints(Attr::lhs_contracting_dimensions), &rc = a.ints(Attr::rhs_contracting_dimensions);
  const Dims &ld = dot.operand_type(0)->dims, &rd = dot.operand_type(1)->dims;
  const Dims ls = row_major_strides(ld), rs = row_major_strides(rd);
  const auto named = [](const Dims& list, int64_t d) {
    return std::find(list.begin(), list.end(), d) != list.end();
  };
  DotGeneralShape out;
  for (size_t i = 0; i < lb.size(); ++i) out.batch.push_back({ld[lb[i]], ls[lb[i]], rs[rb[i]]});
  for (size_t i = 0; i < lc.size(); ++i) out.k.push_back({ld[lc[i]], ls[lc[i]], rs[rc[i]]});
  for (size_t d = 0; d < ld.size(); ++d)
    if (!named(lb, d) && !named(lc, d)) out.m.push_back({ld[d], ls[d], 0});
  for (size_t d = 0; d < rd.size(); ++d)
    if (!named(rb, d) && !named(rc, d)) out.n.push_back({rd[d], 0, rs[d]});
  return out;
}

std::optional<int64_t> collapsed(const std::vector<DotDim>& dims, int64_t DotDim::*stride) {
  int64_t extent = 1, one = 0;
  bool any = false;
  for (size_t i = dims.size(); i-- > 0;) {
    if (dims[i].extent == 1) continue;
    if (!any) {
      one = dims[i].*stride;
      any = true;
    } else if (dims[i].*stride != one * extent) {
      return std::nullopt;
    }
    extent *= dims[i].extent;
  }
  return one;
}

int64_t total_extent(const std::vector<DotDim>& dims) {
  int64_t n = 1;
  for (const DotDim& d : dims) n *= d.extent;
  return n;
}

std::optional<DotShape> collapsed(const DotGeneralShape& s) {
  const auto lhs_batch = collapsed(s.batch, &DotDim::lhs_stride), lhs_m = collapsed(s.m, &DotDim::lhs_stride),
             lhs_k = collapsed(s.k, &DotDim::lhs_stride), rhs_batch = collapsed(s.batch, &DotDim::rhs_stride),
             rhs_n = collapsed(s.n, &DotDim::rhs_stride), rhs_k = collapsed(s.k, &DotDim::rhs_stride);
  if (!lhs_batch || !lhs_m || !lhs_k || !rhs_batch || !rhs_n || !rhs_k) return std::nullopt;
  return DotShape{total_extent(s.batch),
                  total_extent(s.m),
                  total_extent(s.n),
                  total_extent(s.k),
                  *lhs_batch,
                  *lhs_m,
                  *lhs_k,
                  *rhs_batch,
                  *rhs_k,
                  *rhs_n};
}

int64_t multiplications(const Node& dot) {
  int64_t out = dot.type()->num_elements;
  for (int64_t d : dot.attrs().ints(Attr::lhs_contracting_dimensions)) out *= dot.operand_type(0)->dims[d];
  return out;
}

}  // namespace lamina::hlo
