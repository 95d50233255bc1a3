// How each op is transformed: one row per op, beside the row of hlo/op.h that says what it computes.
//
// Contract: complete for every op of ops.def, and for those that were added (a test goes through them); the
// walks of trace/graph_transforms.h ask nothing else about an op.
#ifndef LAMINA_TRACE_RULES_RULES_H_
#define LAMINA_TRACE_RULES_RULES_H_

#include <span>
#include <vector>

#include "absl/status/statusor.h"
#include "hlo/custom_rule.h"
#include "hlo/op.h"
#include "trace/names.h"

namespace lamina::trace {

struct OpTransforms {
  JvpRule jvp = nullptr;
  TransposeRule transpose = nullptr;  // ops that are linear in some operand
  BatchRule batch = nullptr;
  // As jvp, but primal results must not depend on tangents (loops, branches, calls); null: jvp's do not.
  JvpRule linearize = nullptr;
};

const OpTransforms& transforms_of(Op op);

// As hlo::add_elementwise_op, with the op's derivative; without one it is zero wherever there is one.
absl::StatusOr<Op> add_elementwise_op(hlo::OpDef row, JvpRule jvp);
// False for an elementwise op whose derivative is zero wherever it has one.
bool has_derivative(Op elementwise);

class TransformTable {
 public:
  TransformTable();
  OpTransforms& operator[](Op op) { return rows_[static_cast<size_t>(op)]; }

 private:
  std::vector<OpTransforms> rows_;  // never grows: rows have stable addresses
};

// Each rule file adds the rows of its family.
void add_elementwise_transforms(TransformTable& table);
void add_shape_transforms(TransformTable& table);
void add_indexing_transforms(TransformTable& table);
void add_reduction_transforms(TransformTable& table);
void add_linear_transforms(TransformTable& table);
void add_collective_transforms(TransformTable& table);
void add_control_transforms(TransformTable& table);
// What all elementwise ops share.
OpTransforms elementwise_transforms();

}  // namespace lamina::trace

#endif  // LAMINA_TRACE_RULES_RULES_H_
