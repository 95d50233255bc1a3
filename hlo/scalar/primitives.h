// For which types a primitive exists: the one rule that recorders, verifiers and code generators go by.
#ifndef LAMINA_HLO_SCALAR_PRIMITIVES_H_
#define LAMINA_HLO_SCALAR_PRIMITIVES_H_

#include <span>
#include <string>

#include "hlo/scalar/program.h"

namespace lamina::hlo {

// What is wrong with a primitive of this result type and these operand types; empty if it exists.
std::string prim_fault(Prim prim, DType result, std::span<const DType> operands, uint64_t imm);

}  // namespace lamina::hlo

#endif  // LAMINA_HLO_SCALAR_PRIMITIVES_H_
