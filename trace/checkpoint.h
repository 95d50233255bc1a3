// Regions that reverse mode computes again instead of keeping their intermediate values, and functions with
// derivatives of their own. Both are calls of a closed graph.
#ifndef LAMINA_TRACE_CHECKPOINT_H_
#define LAMINA_TRACE_CHECKPOINT_H_

#include <memory>
#include <span>

#include "absl/status/statusor.h"
#include "hlo/custom_rule.h"
#include "hlo/graph.h"

namespace lamina::trace {

// The graph between `inputs` (distinct parameters or identity nodes) and `outputs`, closed: values from
// outside that it uses are appended to `captured`, and become further parameters.
absl::StatusOr<hlo::ComputationPtr> close_over(std::span<const hlo::Value> outputs,
                                               std::span<const hlo::Value> inputs,
                                               std::vector<hlo::Value>* captured);

// A call of the graph between `inputs` and `outputs` on `arguments`, marked to be computed again in reverse
// mode: only the arguments (and what the graph captures) are kept for it. Its transpose begins at an
// optimization barrier marked as an instance, so it is not shared with the forward computation. `policy` is
// the id of a rule that says what is kept besides (trace/kept.h). `shared` are numbers of arguments that need
// not stand behind the barrier, and if there are some, neither does what the graph captures. Equal regions of
// equal arguments are one, and have one key.
absl::StatusOr<std::vector<hlo::Value>> checkpoint(std::span<const hlo::Value> outputs,
                                                   std::span<const hlo::Value> inputs,
                                                   std::span<const hlo::Value> arguments, int64_t policy = 0,
                                                   hlo::Dims shared = {});

// A call of the graph between `inputs` and `outputs` on `arguments` that compilers may know as the composite
// `name` of a version, with attributes in StableHLO's text.
absl::StatusOr<std::vector<hlo::Value>> composite(std::span<const hlo::Value> outputs,
                                                  std::span<const hlo::Value> inputs,
                                                  std::span<const hlo::Value> arguments, std::string name,
                                                  int64_t version, std::string attributes);

// A call of the graph between `inputs` and `outputs` on `arguments` whose derivative is `rule` (see
// hlo/custom_rule.h). The rule sees the arguments; values that the graph captures have no derivative.
absl::StatusOr<std::vector<hlo::Value>> call_with_rule(std::span<const hlo::Value> outputs,
                                                       std::span<const hlo::Value> inputs,
                                                       std::span<const hlo::Value> arguments,
                                                       std::shared_ptr<hlo::CustomRule> rule);

}  // namespace lamina::trace

#endif  // LAMINA_TRACE_CHECKPOINT_H_
