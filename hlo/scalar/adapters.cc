#include "hlo/scalar/adapters.h"

#include <string>
#include <vector>

namespace lamina::hlo::scalar {

ScalarProgram record_rule(absl::FunctionRef<RuleArg(std::span<const RuleArg>, DType)> rule,
                          std::span<const DType> operand_dtypes, DType result_dtype) {
  std::vector<DType> inputs;
  for (DType t : operand_dtypes) inputs.insert(inputs.end(), num_parts(t), part_type(t));
  ScalarRecorder recorder(inputs);
  std::vector<RuleArg> args;
  int next = 0;
  for (DType t : operand_dtypes) {
    RuleArg arg{t, recorder.input(next++), {}};
    if (is_complex(t)) arg.im = recorder.input(next++);
    args.push_back(arg);
  }
  const RuleArg result = rule(args, result_dtype);
  LAMINA_SCALAR_CHECK(result.dtype == result_dtype,
                      "a result of type " + std::string(info(result.dtype).name) + " instead of " +
                          std::string(info(result_dtype).name));
  std::vector<Scalar> outputs{result.re};
  if (is_complex(result_dtype)) outputs.push_back(result.im);
  return recorder.finish(outputs);
}

RuleArg select_rule(std::span<const RuleArg> args, DType) {
  LAMINA_SCALAR_CHECK(args.size() == 3, "takes three operands");
  if (is_complex(args[1].dtype))
    return to_rule_arg(select(args[0].re, to_complex(args[1]), to_complex(args[2])));
  return to_rule_arg(select(args[0].re, args[1].re, args[2].re));
}

RuleArg convert_rule(std::span<const RuleArg> args, DType result) {
  LAMINA_SCALAR_CHECK(args.size() == 1, "takes one operand");
  const bool from_complex = is_complex(args[0].dtype);
  if (is_complex(result)) {
    const DType part = part_type(result);
    return to_rule_arg(from_complex ? convert_to_complex(to_complex(args[0]), part)
                                    : convert_to_complex(args[0].re, part));
  }
  return to_rule_arg(from_complex ? convert(to_complex(args[0]), result) : convert(args[0].re, result));
}

RuleArg bitcast_convert_rule(std::span<const RuleArg> args, DType result) {
  LAMINA_SCALAR_CHECK(args.size() == 1, "takes one operand");
  if (is_complex(args[0].dtype)) return {result, args[0].re, args[0].im};
  return to_rule_arg(bitcast_convert(args[0].re, result));
}

}  // namespace lamina::hlo::scalar
