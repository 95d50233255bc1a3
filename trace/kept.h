// What reverse mode keeps of a checkpointed region, by a policy.
//
// Contract: a region (trace/checkpoint.h) names its policy as calls name their rules, by `rule`. The policy
// is asked when the region is linearized, of what the derivative computes of the operands alone: the region's
// own operations and those of its derivative, also inside calls, scans and branches. What it keeps is
// computed once; all else that the tangents need is computed again.
#ifndef LAMINA_TRACE_KEPT_H_
#define LAMINA_TRACE_KEPT_H_

#include <memory>
#include <span>
#include <vector>

#include "hlo/custom_rule.h"

namespace lamina::trace {

class Policy : public hlo::CustomRule {
 public:
  Kind kind() const final { return Kind::kJvp; }
  // Whether what has a name (hlo::given_name) is kept under that alone, whatever is said of the operation.
  virtual bool names_decide() const { return false; }
  // Which of the nodes, of one result each and in the order of their computation, are kept. It is not asked
  // of those that keeping saves nothing of: constants and other shapes of the same elements.
  virtual std::vector<bool> keeps(std::span<hlo::Node* const> nodes) const = 0;
};

// The policy of a region; null for other nodes.
std::shared_ptr<const Policy> policy_of(const hlo::Node& node);

// A derivative in two: `known` takes the operands and gives the results, then what is kept; `linear` takes
// those of the `operands` that it reads, what is kept and tangents, and gives tangents.
struct KeptSplit {
  hlo::ComputationPtr known, linear;
  absl::InlinedVector<bool, 8> operands;
};
// `derived` takes operands and tangents, and gives results and tangents.
absl::StatusOr<KeptSplit> split_by_policy(const hlo::ComputationPtr& derived, size_t operands, size_t results,
                                          const Policy& policy);

}  // namespace lamina::trace

#endif  // LAMINA_TRACE_KEPT_H_
