// One scalar rule per elementwise op, named rule_<op>.
#ifndef LAMINA_HLO_SCALAR_RULES_H_
#define LAMINA_HLO_SCALAR_RULES_H_

#include "hlo/scalar/adapters.h"

namespace lamina::hlo::scalar {

#define RULE(name) RuleArg rule_##name(std::span<const RuleArg> args, DType result);
RULE(abs) RULE(acos) RULE(acosh) RULE(asin) RULE(asinh) RULE(atan) RULE(atanh) RULE(bitcast_convert) RULE(cbrt)
RULE(ceil) RULE(convert) RULE(cosh) RULE(cosine) RULE(count_leading_zeros) RULE(digamma) RULE(erf) RULE(erf_inv)
RULE(erfc) RULE(exponential) RULE(exponential_minus_one) RULE(floor) RULE(imag) RULE(is_finite) RULE(lgamma)
RULE(log) RULE(log_plus_one) RULE(logistic) RULE(negate) RULE(not_) RULE(popcnt) RULE(real)
RULE(round_nearest_afz) RULE(round_nearest_even) RULE(rsqrt) RULE(sign) RULE(sine) RULE(sinh) RULE(sqrt) RULE(tan)
RULE(tanh) RULE(add) RULE(and_) RULE(atan2) RULE(complex) RULE(divide) RULE(maximum) RULE(minimum) RULE(multiply)
RULE(next_after) RULE(or_) RULE(power) RULE(remainder) RULE(shift_left) RULE(shift_right_arithmetic)
RULE(shift_right_logical) RULE(subtract) RULE(xor_) RULE(clamp) RULE(select)
#undef RULE

}  // namespace lamina::hlo::scalar

#endif  // LAMINA_HLO_SCALAR_RULES_H_
