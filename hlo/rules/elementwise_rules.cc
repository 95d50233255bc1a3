// Type rules and scalar programs of the elementwise ops: one row each.
#include "hlo/rules/support.h"
#include "hlo/scalar/adapters.h"
#include "hlo/scalar/rules.h"

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
  return invalid("is defined for ", kinds_text(takes), " elements, not ", info(t->dtype).name);
}

absl::Status check_same(Types t) {
  for (size_t i = 1; i < t.size(); ++i) {
    if (t[i] == t[0]) continue;
    if (t[i]->dims != t[0]->dims)
      return invalid("shapes ", dims_to_string(t[0]->dims), " and ", dims_to_string(t[i]->dims), " differ");
    return invalid("element types ", info(t[0]->dtype).name, " and ", info(t[i]->dtype).name, " differ");
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

TypeOr complex_type(Types t, const Attrs&) {
  for (const Type* x : t) LAMINA_RETURN_IF_ERROR(check_takes(x, kF));
  LAMINA_RETURN_IF_ERROR(check_same(t));
  if (is_half(t[0]->dtype)) return invalid("needs f32 or f64 parts, not ", info(t[0]->dtype).name);
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
  if (!kind.empty() && kind != "TOTALORDER") return invalid("compare_type must be absent or TOTALORDER, not '", kind, "'");
  if (!kind.empty() && !is_float(t[0]->dtype)) return invalid("TOTALORDER is for float elements");
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
  if (is_bool(to) || is_complex(to) || byte_size(to) != byte_size(t[0]->dtype))
    return invalid("cannot see ", info(t[0]->dtype).name, " elements as ", info(to).name, ": the widths differ");
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

// The scalar program of rule `Rule`, which does not look at attributes.
template <ScalarRule Rule>
ScalarProgram plain(std::span<const DType> operands, DType result, const Attrs&) {
  return record_rule(Rule, operands, result);
}

ScalarProgram compare_program(std::span<const DType> operands, DType result, const Attrs& a) {
  return record_compare(a.string(Attr::direction), !a.string(Attr::compare_type).empty(), operands, result);
}

ScalarProgram reduce_precision_program(std::span<const DType> operands, DType result, const Attrs& a) {
  return record_reduce_precision(static_cast<int>(a.integer(Attr::exponent_bits)),
                                 static_cast<int>(a.integer(Attr::mantissa_bits)), operands, result);
}

}  // namespace

void add_elementwise_rules(OpTable& table) {
  auto row = [&](Op op, TypeRule type, ScalarRecordRule scalar) {
    table[op].type = type;
    table[op].scalar = scalar;
  };
#define ROW(name, type) row(Op::name, type, plain<scalar::rule_##name>);
  ROW(abs, (to_part<kI | kF | kC>))
  ROW(acos, (same<kF>))
  ROW(acosh, (same<kF>))
  ROW(asin, (same<kF>))
  ROW(asinh, (same<kF>))
  ROW(atan, (same<kF>))
  ROW(atanh, (same<kF>))
  ROW(bitcast_convert, bitcast_type)
  ROW(cbrt, (same<kF>))
  ROW(ceil, (same<kF>))
  ROW(convert, convert_type)
  ROW(cosh, (same<kF>))
  ROW(cosine, (same<kF | kC>))
  ROW(count_leading_zeros, (same<kInts>))
  ROW(digamma, (same<kF>))
  ROW(erf, (same<kF>))
  ROW(erf_inv, (same<kF>))
  ROW(erfc, (same<kF>))
  ROW(exponential, (same<kF | kC>))
  ROW(exponential_minus_one, (same<kF | kC>))
  ROW(floor, (same<kF>))
  ROW(imag, (to_part<kF | kC>))
  ROW(is_finite, is_finite_type)
  ROW(lgamma, (same<kF>))
  ROW(log, (same<kF | kC>))
  ROW(log_plus_one, (same<kF | kC>))
  ROW(logistic, (same<kF | kC>))
  ROW(negate, (same<kNumbers>))
  ROW(not_, (same<kB | kInts>))
  ROW(popcnt, (same<kInts>))
  ROW(real, (to_part<kF | kC>))
  ROW(round_nearest_afz, (same<kF>))
  ROW(round_nearest_even, (same<kF>))
  ROW(rsqrt, (same<kF | kC>))
  ROW(sign, (same<kNumbers>))
  ROW(sine, (same<kF | kC>))
  ROW(sinh, (same<kF>))
  ROW(sqrt, (same<kF | kC>))
  ROW(tan, (same<kF | kC>))
  ROW(tanh, (same<kF | kC>))
  ROW(add, (same<kAny>))
  ROW(and_, (same<kB | kInts>))
  ROW(atan2, (same<kF>))
  ROW(complex, complex_type)
  ROW(divide, (same<kNumbers>))
  ROW(maximum, (same<kAny>))
  ROW(minimum, (same<kAny>))
  ROW(multiply, (same<kAny>))
  ROW(next_after, (same<kF>))
  ROW(or_, (same<kB | kInts>))
  ROW(power, (same<kNumbers>))
  ROW(remainder, (same<kInts | kF>))
  ROW(shift_left, (same<kInts>))
  ROW(shift_right_arithmetic, (same<kInts>))
  ROW(shift_right_logical, (same<kInts>))
  ROW(subtract, (same<kNumbers>))
  ROW(xor_, (same<kB | kInts>))
  ROW(clamp, (same<kAny & ~kC>))
  ROW(select, select_type)
#undef ROW
  row(Op::compare, compare_type, compare_program);
  row(Op::reduce_precision, reduce_precision_type, reduce_precision_program);
}

}  // namespace lamina::hlo
