// From scalar functions to the recorded programs of ops: element types, halves and complex parts.
#ifndef LAMINA_HLO_SCALAR_ADAPTERS_H_
#define LAMINA_HLO_SCALAR_ADAPTERS_H_

#include <span>
#include <string_view>

#include "hlo/scalar/program.h"

namespace lamina::hlo {

// One operand of a rule: its element type and its part or parts (`im` is set for complex types only).
struct RuleArg {
  DType dtype;
  Scalar re, im;
};

// The result for operands of these types; `result` is the op's result element type.
using ScalarRule = RuleArg (*)(std::span<const RuleArg> args, DType result);

ScalarProgram record_rule(ScalarRule rule, std::span<const DType> operands, DType result);
ScalarProgram record_compare(std::string_view direction, bool total_order, std::span<const DType> operands,
                             DType result);
ScalarProgram record_reduce_precision(int exponent_bits, int mantissa_bits, std::span<const DType> operands,
                                      DType result);

}  // namespace lamina::hlo

#endif  // LAMINA_HLO_SCALAR_ADAPTERS_H_
