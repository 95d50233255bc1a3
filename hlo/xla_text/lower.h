// Operations that XLA's text has no opcode for, as computations of others.
#ifndef LAMINA_HLO_XLA_TEXT_LOWER_H_
#define LAMINA_HLO_XLA_TEXT_LOWER_H_

#include "absl/status/statusor.h"
#include "hlo/computation.h"

namespace lamina::hlo::xla_text {

// A loop over a counter, the carries, the stacked results and the scanned arrays.
absl::StatusOr<ComputationPtr> lower_scan(const Node& scan);
// The primitives of an elementwise operation's scalar program, on whole arrays.
absl::StatusOr<ComputationPtr> lower_elementwise(const Node& node);

}  // namespace lamina::hlo::xla_text

#endif  // LAMINA_HLO_XLA_TEXT_LOWER_H_
