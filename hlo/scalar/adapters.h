// From functions over handles to rules that an op table can hold, and from rules to programs.
//
// Contract: a complex operand is two program inputs (real, imaginary) and a complex result two outputs, in
// that order; the inputs of all operands follow each other. A rule that does not exist for the given types is
// a bug in the op's type rule and fails a check.
#ifndef LAMINA_HLO_SCALAR_ADAPTERS_H_
#define LAMINA_HLO_SCALAR_ADAPTERS_H_

#include <span>
#include <type_traits>

#include "absl/functional/function_ref.h"
#include "hlo/scalar/check.h"
#include "hlo/scalar/math.h"

namespace lamina::hlo::scalar {

// One operand or result of a rule; `im` is used by complex types only.
struct RuleArg {
  DType dtype;
  Scalar re, im;
};

// `result` is the result's element type, for rules like convert that need it.
using ScalarRule = RuleArg (*)(std::span<const RuleArg> args, DType result);

// Takes a ScalarRule, or any callable of that form (one that carries an op's attributes).
ScalarProgram record_rule(absl::FunctionRef<RuleArg(std::span<const RuleArg>, DType)> rule,
                          std::span<const DType> operand_dtypes, DType result_dtype);

inline RuleArg to_rule_arg(Scalar x) { return {x.type(), x, {}}; }
inline RuleArg to_rule_arg(ScalarComplex x) {
  return {x.re.type() == DType::kF32 ? DType::kC64 : DType::kC128, x.re, x.im};
}
inline ScalarComplex to_complex(const RuleArg& a) { return {a.re, a.im}; }

namespace internal {

template <auto kFn, typename... A>
RuleArg apply(const A&... args) {
  if constexpr (std::is_invocable_v<decltype(kFn), A...>) {
    return to_rule_arg(kFn(args...));
  } else {
    scalar_check_failed("not defined for the operand types");
  }
}

}  // namespace internal

// `kFn` is a function or a generic lambda over Scalar and ScalarComplex; see the macros below for overload
// sets.
template <auto kFn>
RuleArg unary(std::span<const RuleArg> args, DType) {
  LAMINA_SCALAR_CHECK(args.size() == 1, "takes one operand");
  return is_complex(args[0].dtype) ? internal::apply<kFn>(to_complex(args[0]))
                                   : internal::apply<kFn>(args[0].re);
}

template <auto kFn>
RuleArg binary(std::span<const RuleArg> args, DType) {
  LAMINA_SCALAR_CHECK(args.size() == 2, "takes two operands");
  return is_complex(args[0].dtype) ? internal::apply<kFn>(to_complex(args[0]), to_complex(args[1]))
                                   : internal::apply<kFn>(args[0].re, args[1].re);
}

template <auto kFn>
RuleArg ternary(std::span<const RuleArg> args, DType) {
  LAMINA_SCALAR_CHECK(args.size() == 3, "takes three operands");
  return is_complex(args[0].dtype)
             ? internal::apply<kFn>(to_complex(args[0]), to_complex(args[1]), to_complex(args[2]))
             : internal::apply<kFn>(args[0].re, args[1].re, args[2].re);
}

// Rules whose operands differ in type or whose result type matters.
RuleArg select_rule(std::span<const RuleArg> args, DType result);
RuleArg convert_rule(std::span<const RuleArg> args, DType result);
RuleArg bitcast_convert_rule(std::span<const RuleArg> args, DType result);

// `total_order` matters for floats only.
template <Direction kDirection, bool kTotalOrder = false>
RuleArg compare_rule(std::span<const RuleArg> args, DType) {
  LAMINA_SCALAR_CHECK(args.size() == 2, "takes two operands");
  if (is_complex(args[0].dtype))
    return to_rule_arg(compare(to_complex(args[0]), to_complex(args[1]), kDirection));
  if (kTotalOrder && is_float(args[0].dtype))
    return to_rule_arg(compare_total_order(args[0].re, args[1].re, kDirection));
  return to_rule_arg(compare(args[0].re, args[1].re, kDirection));
}

// The ScalarRule of an overload set: `.scalar = LAMINA_SCALAR_UNARY(exponential)`.
#define LAMINA_SCALAR_UNARY(name)                                                         \
  (&::lamina::hlo::scalar::unary<[](auto x) -> decltype(::lamina::hlo::scalar::name(x)) { \
    return ::lamina::hlo::scalar::name(x);                                                \
  }>)
#define LAMINA_SCALAR_BINARY(name)                                                                    \
  (&::lamina::hlo::scalar::binary<[](auto x, auto y) -> decltype(::lamina::hlo::scalar::name(x, y)) { \
    return ::lamina::hlo::scalar::name(x, y);                                                         \
  }>)
#define LAMINA_SCALAR_TERNARY(name)                                                               \
  (&::lamina::hlo::scalar::ternary<[](auto x, auto y,                                             \
                                      auto z) -> decltype(::lamina::hlo::scalar::name(x, y, z)) { \
    return ::lamina::hlo::scalar::name(x, y, z);                                                  \
  }>)

}  // namespace lamina::hlo::scalar

#endif  // LAMINA_HLO_SCALAR_ADAPTERS_H_
