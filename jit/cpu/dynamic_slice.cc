// dynamic_slice and dynamic_update_slice: boxes at clamped run-time offsets.
#include <algorithm>

#include "hlo/strings.h"
#include "jit/cpu/box_copy.h"
#include "jit/cpu/native_op.h"

namespace lamina::jit {
namespace {

using hlo::Dims;
using hlo::Node;

// Where a box of `sizes` begins in an array, from its start index operands.
class Start {
 public:
  Start(const Node& n, size_t first, const Dims& dims, const Dims& sizes)
      : strides_(hlo::row_major_strides(dims)) {
    for (size_t d = 0; d < dims.size(); ++d) {
      types_.push_back(n.operand_type(first + d)->dtype);
      last_.push_back(dims[d] - sizes[d]);
    }
  }
  int64_t offset(const void* const* indices) const {
    int64_t at = 0;
    for (size_t d = 0; d < types_.size(); ++d)
      at += strides_[d] * std::clamp<int64_t>(read_index(types_[d], indices[d], 0), 0, last_[d]);
    return at;
  }

 private:
  Dims strides_, last_;
  std::vector<hlo::DType> types_;
};

// The box of `sizes` inside an array of `dims` (from) and dense (to).
std::vector<BoxDim> box_of(const Dims& dims, const Dims& sizes) {
  const Dims whole = hlo::row_major_strides(dims), dense = hlo::row_major_strides(sizes);
  std::vector<BoxDim> out;
  for (size_t d = 0; d < dims.size(); ++d) out.push_back({sizes[d], whole[d], dense[d]});
  return simplified(out);
}

}  // namespace

NativeOp make_dynamic_slice(const Node& n) {
  const Dims &dims = n.operand_type(0)->dims, &sizes = n.type()->dims;
  const int64_t width = hlo::byte_size(n.type()->dtype);
  NativeOp op;
  op.what = str_cat("box ", hlo::dims_to_string(sizes), " of ", hlo::dims_to_string(dims));
  op.run = [start = Start(n, 1, dims, sizes), box = box_of(dims, sizes), width,
            empty = n.type()->num_elements == 0](const void* const* in, void* const* out,
                                                 const KernelContext&) {
    if (!empty) copy_box(box, in[0], start.offset(in + 1), out[0], 0, width);
    return absl::OkStatus();
  };
  return op;
}

NativeOp make_dynamic_update_slice(const Node& n) {
  const Dims &dims = n.operand_type(0)->dims, &sizes = n.operand_type(1)->dims;
  const int64_t width = hlo::byte_size(n.type()->dtype);
  std::vector<BoxDim> box = box_of(dims, sizes);
  for (BoxDim& d : box) std::swap(d.from, d.to);
  NativeOp op;
  op.what = str_cat("box ", hlo::dims_to_string(sizes), " into ", hlo::dims_to_string(dims));
  op.updated = 1;
  op.run = [start = Start(n, 2, dims, sizes), box, width, empty = n.operand_type(1)->num_elements == 0](
               const void* const* in, void* const* out, const KernelContext&) {
    if (!empty) copy_box(box, in[1], 0, out[0], start.offset(in + 2), width);
    return absl::OkStatus();
  };
  return op;
}

}  // namespace lamina::jit
