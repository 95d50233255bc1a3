#include "trace/rules/rules.h"

#include "hlo/once.h"

namespace lamina::trace {
namespace {

TransformTable& transform_table() {
  static constinit hlo::Once<TransformTable> table;
  return table.get();
}

}  // namespace

TransformTable::TransformTable() : rows_(hlo::kNumStaticOps + hlo::kMaxAddedOps) {
  // Ops that are added later are elementwise.
  rows_.assign(rows_.size(), elementwise_transforms());
  for (int i = 0; i < hlo::kNumStaticOps; ++i)
    if (!hlo::op_def(static_cast<Op>(i)).is_elementwise()) rows_[static_cast<size_t>(i)] = {};
  add_elementwise_transforms(*this);
  add_shape_transforms(*this);
  add_indexing_transforms(*this);
  add_reduction_transforms(*this);
  add_linear_transforms(*this);
  add_collective_transforms(*this);
  add_control_transforms(*this);
}

const OpTransforms& transforms_of(Op op) { return transform_table()[op]; }

absl::StatusOr<Op> add_elementwise_op(hlo::OpDef row, JvpRule jvp) {
  const absl::StatusOr<Op> op = hlo::add_elementwise_op(std::move(row));
  if (op.ok() && jvp) transform_table()[*op].jvp = jvp;
  return op;
}

}  // namespace lamina::trace
