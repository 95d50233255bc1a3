// Type rules and scalar programs of the elementwise ops: one row each.
#include "hlo/rules/support.h"
#include "hlo/scalar/adapters.h"
#include "hlo/scalar/math.h"

namespace lamina::hlo {
namespace {

// Element types an op takes.
enum Takes : uint32_t { kB = 1, kI = 2, kU = 4, kF = 8, kC = 16 };
constexpr uint32_t kInts = kI | kU, kNumbers = kInts | kF | kC, kAny = kB | kNumbers;

uint32_t kind_bit(DType t) { return 1u << static_cast<int>(info(t).kind); }

std::string kinds_text(uint32_t takes) {
  static constexpr std::string_view kNames[] = {"pred", "signed", "unsigned", "float", "complex"};
  std::string text;
  for (int i = 0; i < 5; ++i)
    if (takes & 1u << i) str_append(&text, text.empty() ? "" : ", ", kNames[i]);
  return text;
}

absl::Status check_takes(const Type* t, uint32_t takes) {
  if (!t->is_array()) return invalid("needs arrays, not ", to_string(*t));
  if (takes & kind_bit(t->dtype)) return absl::OkStatus();
  return type_error("is defined for ", kinds_text(takes), " elements, not ", info(t->dtype).name);
}

absl::Status check_same(Types t) {
  for (size_t i = 1; i < t.size(); ++i) {
    if (t[i] == t[0]) continue;
    if (t[i]->dims != t[0]->dims)
      return invalid("shapes ", dims_to_string(t[0]->dims), " and ", dims_to_string(t[i]->dims), " differ");
    return type_error("element types ", info(t[0]->dtype).name, " and ", info(t[i]->dtype).name, " differ");
  }
  return absl::OkStatus();
}

// All operands of one type, which is the result's.
template <uint32_t takes>
TypeOr same(Types t, const Attrs&) {
  for (const Type* x : t) LAMINA_RETURN_IF_ERROR(check_takes(x, takes));
  LAMINA_RETURN_IF_ERROR(check_same(t));
  return t[0];
}

// abs, real, imag: a complex operand gives its part type.
template <uint32_t takes>
TypeOr to_part(Types t, const Attrs&) {
  LAMINA_RETURN_IF_ERROR(check_takes(t[0], takes));
  return array_type(part_type(t[0]->dtype), t[0]->dims);
}

TypeOr is_finite_type(Types t, const Attrs&) {
  LAMINA_RETURN_IF_ERROR(check_takes(t[0], kF));
  return array_type(DType::kBool, t[0]->dims);
}

// Stepping from number to number: formats without infinities or -0 have no neighbours at their edges.
TypeOr next_after_type(Types t, const Attrs&) {
  for (const Type* x : t) LAMINA_RETURN_IF_ERROR(check_takes(x, kF));
  if (is_narrow(t[0]->dtype))
    return type_error("is not defined for ", info(t[0]->dtype).name, " elements: convert them to f32");
  LAMINA_RETURN_IF_ERROR(check_same(t));
  return t[0];
}

TypeOr complex_type(Types t, const Attrs&) {
  for (const Type* x : t) LAMINA_RETURN_IF_ERROR(check_takes(x, kF));
  LAMINA_RETURN_IF_ERROR(check_same(t));
  if (is_storage_float(t[0]->dtype)) return invalid("needs f32 or f64 parts, not ", info(t[0]->dtype).name);
  return array_type(t[0]->dtype == DType::kF32 ? DType::kC64 : DType::kC128, t[0]->dims);
}

TypeOr compare_type(Types t, const Attrs& a) {
  for (const Type* x : t) LAMINA_RETURN_IF_ERROR(check_takes(x, kAny));
  LAMINA_RETURN_IF_ERROR(check_same(t));
  const std::string& d = a.string(Attr::direction);
  const std::string& kind = a.string(Attr::compare_type);
  static constexpr std::string_view kDirections[] = {"EQ", "NE", "LT", "LE", "GT", "GE"};
  if (std::find(std::begin(kDirections), std::end(kDirections), d) == std::end(kDirections))
    return invalid("direction must be EQ, NE, LT, LE, GT or GE, not '", d, "'");
  if (!kind.empty() && kind != "TOTALORDER")
    return invalid("compare_type must be absent or TOTALORDER, not '", kind, "'");
  if (!kind.empty() && !is_float(t[0]->dtype)) return type_error("TOTALORDER is for float elements");
  if (is_complex(t[0]->dtype) && d != "EQ" && d != "NE") return invalid("complex values have no order");
  return array_type(DType::kBool, t[0]->dims);
}

TypeOr convert_type(Types t, const Attrs& a) {
  LAMINA_RETURN_IF_ERROR(check_takes(t[0], kAny));
  return array_type(a.dtype(Attr::dtype), t[0]->dims);
}

TypeOr bitcast_type(Types t, const Attrs& a) {
  LAMINA_RETURN_IF_ERROR(check_takes(t[0], kInts | kF));
  const DType to = a.dtype(Attr::dtype);
  if (is_bool(to) || is_complex(to) || bit_width(to) != bit_width(t[0]->dtype))
    return type_error("cannot see ", info(t[0]->dtype).name, " elements as ", info(to).name,
                      ": the widths differ");
  return array_type(to, t[0]->dims);
}

TypeOr reduce_precision_type(Types t, const Attrs& a) {
  LAMINA_RETURN_IF_ERROR(check_takes(t[0], kF));
  const int64_t e = a.integer(Attr::exponent_bits), m = a.integer(Attr::mantissa_bits);
  if (e < 1 || e > 11 || m < 0 || m > 52)
    return invalid("exponent_bits must lie in 1..11 and mantissa_bits in 0..52, not ", e, " and ", m);
  return t[0];
}

TypeOr select_type(Types t, const Attrs&) {
  LAMINA_RETURN_IF_ERROR(check_arrays(t));
  if (!is_bool(t[0]->dtype)) return invalid("the condition must be pred, not ", info(t[0]->dtype).name);
  LAMINA_RETURN_IF_ERROR(check_same(t.subspan(1)));
  if (t[0]->dims != t[1]->dims)
    return invalid("the condition's shape ", dims_to_string(t[0]->dims), " differs from the values' ",
                   dims_to_string(t[1]->dims));
  return t[1];
}

using scalar::Direction;
using scalar::RuleArg;
using scalar::ScalarRule;

// The scalar program of rule `Rule`, which does not look at attributes.
template <ScalarRule Rule>
ScalarProgram plain(std::span<const DType> operands, DType result, const Attrs&) {
  return scalar::record_rule(Rule, operands, result);
}

// In f64, `Short` where mantissa_bits says that its digits do.
template <ScalarRule Rule, ScalarRule Short>
ScalarProgram by_digits(std::span<const DType> operands, DType result, const Attrs& a) {
  const bool few =
      result == DType::kF64 && a.has(Attr::mantissa_bits) && a.integer(Attr::mantissa_bits) <= 23;
  return scalar::record_rule(few ? Short : Rule, operands, result);
}

ScalarProgram compare_program(std::span<const DType> operands, DType result, const Attrs& a) {
  static constexpr std::pair<std::string_view, ScalarRule> kRules[] = {
      {"EQ", scalar::compare_rule<Direction::kEq>}, {"NE", scalar::compare_rule<Direction::kNe>},
      {"LT", scalar::compare_rule<Direction::kLt>}, {"LE", scalar::compare_rule<Direction::kLe>},
      {"GT", scalar::compare_rule<Direction::kGt>}, {"GE", scalar::compare_rule<Direction::kGe>}};
  static constexpr ScalarRule kTotal[] = {
      scalar::compare_rule<Direction::kEq, true>, scalar::compare_rule<Direction::kNe, true>,
      scalar::compare_rule<Direction::kLt, true>, scalar::compare_rule<Direction::kLe, true>,
      scalar::compare_rule<Direction::kGt, true>, scalar::compare_rule<Direction::kGe, true>};
  const bool total = !a.string(Attr::compare_type).empty();
  size_t i = 0;
  while (kRules[i].first != a.string(Attr::direction)) ++i;  // the type rule has checked the name
  return scalar::record_rule(total ? kTotal[i] : kRules[i].second, operands, result);
}

ScalarProgram reduce_precision_program(std::span<const DType> operands, DType result, const Attrs& a) {
  const int exponent = static_cast<int>(a.integer(Attr::exponent_bits));
  const int mantissa = static_cast<int>(a.integer(Attr::mantissa_bits));
  return scalar::record_rule(
      [&](std::span<const RuleArg> args, DType) {
        return scalar::to_rule_arg(scalar::reduce_precision(args[0].re, exponent, mantissa));
      },
      operands, result);
}

RuleArg real_rule(std::span<const RuleArg> args, DType) { return scalar::to_rule_arg(args[0].re); }
RuleArg imag_rule(std::span<const RuleArg> args, DType result) {
  return scalar::to_rule_arg(is_complex(args[0].dtype) ? args[0].im
                                                       : args[0].re.recorder()->constant(result, 0));
}
RuleArg complex_rule(std::span<const RuleArg> args, DType result) { return {result, args[0].re, args[1].re}; }

}  // namespace

void add_elementwise_rules(OpTable& table) {
  auto row = [&](Op op, TypeRule type, ScalarRecordRule scalar) {
    table[op].type = type;
    table[op].scalar = scalar;
  };
  row(Op::abs, to_part<kI | kF | kC>, plain<LAMINA_SCALAR_UNARY(abs)>);
  row(Op::acos, same<kF | kC>, plain<LAMINA_SCALAR_UNARY(acos)>);
  row(Op::acosh, same<kF | kC>, plain<LAMINA_SCALAR_UNARY(acosh)>);
  row(Op::asin, same<kF | kC>, plain<LAMINA_SCALAR_UNARY(asin)>);
  row(Op::asinh, same<kF | kC>, plain<LAMINA_SCALAR_UNARY(asinh)>);
  row(Op::atan, same<kF | kC>, plain<LAMINA_SCALAR_UNARY(atan)>);
  row(Op::atanh, same<kF | kC>, plain<LAMINA_SCALAR_UNARY(atanh)>);
  row(Op::bitcast_convert, bitcast_type, plain<scalar::bitcast_convert_rule>);
  row(Op::cbrt, same<kF>, plain<LAMINA_SCALAR_UNARY(cbrt)>);
  row(Op::ceil, same<kF>, plain<LAMINA_SCALAR_UNARY(ceil)>);
  row(Op::convert, convert_type, plain<scalar::convert_rule>);
  row(Op::cosh, same<kF | kC>, plain<LAMINA_SCALAR_UNARY(cosh)>);
  row(Op::cosine, same<kF | kC>, plain<LAMINA_SCALAR_UNARY(cosine)>);
  row(Op::count_leading_zeros, same<kInts>, plain<LAMINA_SCALAR_UNARY(count_leading_zeros)>);
  row(Op::digamma, same<kF>, by_digits<LAMINA_SCALAR_UNARY(digamma), LAMINA_SCALAR_UNARY(short_digamma)>);
  row(Op::erf, same<kF>, plain<LAMINA_SCALAR_UNARY(erf)>);
  row(Op::erf_inv, same<kF>, plain<LAMINA_SCALAR_UNARY(erf_inv)>);
  row(Op::erfc, same<kF>, by_digits<LAMINA_SCALAR_UNARY(erfc), LAMINA_SCALAR_UNARY(short_erfc)>);
  row(Op::exponential, same<kF | kC>,
      by_digits<LAMINA_SCALAR_UNARY(exponential), LAMINA_SCALAR_UNARY(short_exponential)>);
  row(Op::exponential_minus_one, same<kF | kC>,
      by_digits<LAMINA_SCALAR_UNARY(exponential_minus_one),
                LAMINA_SCALAR_UNARY(short_exponential_minus_one)>);
  row(Op::floor, same<kF>, plain<LAMINA_SCALAR_UNARY(floor)>);
  row(Op::imag, to_part<kF | kC>, plain<imag_rule>);
  row(Op::is_finite, is_finite_type, plain<LAMINA_SCALAR_UNARY(is_finite)>);
  row(Op::lgamma, same<kF>, by_digits<LAMINA_SCALAR_UNARY(lgamma), LAMINA_SCALAR_UNARY(short_lgamma)>);
  row(Op::log, same<kF | kC>, by_digits<LAMINA_SCALAR_UNARY(log), LAMINA_SCALAR_UNARY(short_log)>);
  row(Op::log_plus_one, same<kF | kC>,
      by_digits<LAMINA_SCALAR_UNARY(log_plus_one), LAMINA_SCALAR_UNARY(short_log_plus_one)>);
  row(Op::logistic, same<kF | kC>,
      by_digits<LAMINA_SCALAR_UNARY(logistic), LAMINA_SCALAR_UNARY(short_logistic)>);
  row(Op::negate, same<kNumbers>, plain<LAMINA_SCALAR_UNARY(negate)>);
  row(Op::not_, same<kB | kInts>, plain<LAMINA_SCALAR_UNARY(not_)>);
  row(Op::popcnt, same<kInts>, plain<LAMINA_SCALAR_UNARY(popcnt)>);
  row(Op::real, to_part<kF | kC>, plain<real_rule>);
  row(Op::round_nearest_afz, same<kF>, plain<LAMINA_SCALAR_UNARY(round_nearest_afz)>);
  row(Op::round_nearest_even, same<kF>, plain<LAMINA_SCALAR_UNARY(round_nearest_even)>);
  row(Op::rsqrt, same<kF | kC>, plain<LAMINA_SCALAR_UNARY(rsqrt)>);
  row(Op::sign, same<kNumbers>, plain<LAMINA_SCALAR_UNARY(sign)>);
  row(Op::sine, same<kF | kC>, plain<LAMINA_SCALAR_UNARY(sine)>);
  row(Op::sinh, same<kF | kC>, plain<LAMINA_SCALAR_UNARY(sinh)>);
  row(Op::sqrt, same<kF | kC>, plain<LAMINA_SCALAR_UNARY(sqrt)>);
  row(Op::tan, same<kF | kC>, plain<LAMINA_SCALAR_UNARY(tan)>);
  row(Op::tanh, same<kF | kC>, plain<LAMINA_SCALAR_UNARY(tanh)>);
  row(Op::add, same<kAny>, plain<LAMINA_SCALAR_BINARY(add)>);
  row(Op::and_, same<kB | kInts>, plain<LAMINA_SCALAR_BINARY(and_)>);
  row(Op::atan2, same<kF | kC>, plain<LAMINA_SCALAR_BINARY(atan2)>);
  row(Op::complex, complex_type, plain<complex_rule>);
  row(Op::divide, same<kNumbers>, plain<LAMINA_SCALAR_BINARY(divide)>);
  row(Op::maximum, same<kAny>, plain<LAMINA_SCALAR_BINARY(maximum)>);
  row(Op::minimum, same<kAny>, plain<LAMINA_SCALAR_BINARY(minimum)>);
  row(Op::multiply, same<kAny>, plain<LAMINA_SCALAR_BINARY(multiply)>);
  row(Op::next_after, next_after_type, plain<LAMINA_SCALAR_BINARY(next_after)>);
  row(Op::or_, same<kB | kInts>, plain<LAMINA_SCALAR_BINARY(or_)>);
  row(Op::power, same<kNumbers>, by_digits<LAMINA_SCALAR_BINARY(power), LAMINA_SCALAR_BINARY(short_power)>);
  row(Op::remainder, same<kInts | kF>, plain<LAMINA_SCALAR_BINARY(remainder)>);
  row(Op::shift_left, same<kInts>, plain<LAMINA_SCALAR_BINARY(shift_left)>);
  row(Op::shift_right_arithmetic, same<kInts>, plain<LAMINA_SCALAR_BINARY(shift_right_arithmetic)>);
  row(Op::shift_right_logical, same<kInts>, plain<LAMINA_SCALAR_BINARY(shift_right_logical)>);
  row(Op::subtract, same<kNumbers>, plain<LAMINA_SCALAR_BINARY(subtract)>);
  row(Op::xor_, same<kB | kInts>, plain<LAMINA_SCALAR_BINARY(xor_)>);
  row(Op::clamp, same<kAny & ~kC>, plain<LAMINA_SCALAR_TERNARY(clamp)>);
  row(Op::select, select_type, plain<scalar::select_rule>);
  row(Op::compare, compare_type, compare_program);
  row(Op::reduce_precision, reduce_precision_type, reduce_precision_program);
}

}  // namespace lamina::hlo
