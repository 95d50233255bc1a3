// Which operation of a program was the first to give a NaN.
#ifndef LAMINA_HLO_NAN_SEARCH_H_
#define LAMINA_HLO_NAN_SEARCH_H_

#include <optional>
#include <span>

#include "absl/status/statusor.h"
#include "hlo/computation.h"
#include "hlo/literal.h"

namespace lamina::hlo {

bool has_nan(const Literal& x);

// Runs the program once more by the evaluator, loops and branches step by step. Null if there is none, or
// nothing is told of it: host callbacks are not called again. The node belongs to the program or to a region
// of it.
absl::StatusOr<const Node*> first_nan(const Computation& program, std::span<const LiteralPtr> arguments);

}  // namespace lamina::hlo

#endif  // LAMINA_HLO_NAN_SEARCH_H_
