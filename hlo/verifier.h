// Checks that a computation is what the rest of the library takes for granted.
//
// Contract: reads only, and does not trust what it reads: a wrong graph gives an Internal error in words that
// names the computation (as the printer does), the operation and the rule broken. Passes are verified after
// each run in tests.
#ifndef LAMINA_HLO_VERIFIER_H_
#define LAMINA_HLO_VERIFIER_H_

#include "absl/status/status.h"
#include "hlo/computation.h"

namespace lamina::hlo {

// Each level includes those before it.
enum class VerifyLevel : uint8_t {
  kStructure,  // closed, in order; operand numbers and result indexes exist; attributes are the op's, none
               // missing
  kTypes,      // every type is what the op's rule infers, which also checks region signatures
  kText,       // canonical text reads back as the same computation
};

// The computation and every computation it uses.
absl::Status verify(const Computation& computation, VerifyLevel level = VerifyLevel::kText);

}  // namespace lamina::hlo

#endif  // LAMINA_HLO_VERIFIER_H_
