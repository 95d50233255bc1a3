// The evaluator: the meaning of every op, executed plainly on host literals. The oracle for all faster paths.
#ifndef LAMINA_HLO_EVALUATOR_H_
#define LAMINA_HLO_EVALUATOR_H_

#include <span>
#include <vector>

#include "absl/status/statusor.h"
#include "hlo/computation.h"
#include "hlo/literal.h"

namespace lamina::hlo {

// Runs a computation on arguments of its parameter types. InvalidArgument on a mismatch; an op's run-time
// error otherwise.
absl::StatusOr<std::vector<LiteralPtr>> evaluate(const Computation& computation,
                                                 std::span<const LiteralPtr> arguments);

// Runs one node.
absl::StatusOr<std::vector<LiteralPtr>> evaluate_node(const Node& node, std::span<const LiteralPtr> operands);

}  // namespace lamina::hlo

#endif  // LAMINA_HLO_EVALUATOR_H_
