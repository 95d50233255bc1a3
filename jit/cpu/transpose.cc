// transpose that is stored, not fused: as a copy in tiles.
#include "hlo/attributes.h"
#include "hlo/strings.h"
#include "jit/cpu/native_op.h"
#include "jit/cpu/strided_copy.h"

namespace lamina::jit {

NativeOp make_transpose(const hlo::Node& n) {
  const hlo::Type &in = *n.operand_type(0), &out = *n.type();
  const hlo::Dims strides = hlo::row_major_strides(in.dims);
  std::vector<int64_t> extents, from;
  for (size_t d = 0; d < out.dims.size(); ++d) {
    extents.push_back(out.dims[d]);
    from.push_back(strides[n.attrs().ints(hlo::Attr::permutation)[d]]);
  }
  const StridedCopy copy(extents, from, hlo::byte_size(in.dtype));
  if (out.num_elements == 0 || !copy.uses_tiles()) return {};
  NativeOp op;
  op.what = str_cat(copy.matrices(), " of ", copy.rows(), " x ", copy.columns());
  op.run = [copy](const void* const* in, void* const* out, const KernelContext& context) {
    return copy.run(in[0], out[0], context);
  };
  return op;
}

}  // namespace lamina::jit
