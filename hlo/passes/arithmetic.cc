// Elementwise identities. Only those that keep every bit: x*0, x+0 and x-x of floats are not among them.
#include <algorithm>
#include <bit>

#include "hlo/custom_call.h"
#include "hlo/known_limit.h"
#include "hlo/match.h"
#include "hlo/passes/pass.h"
#include "hlo/passes/rewrite.h"

namespace lamina::hlo {
namespace {

using match::holds;
using match::is_uniform;
using match::is_uniform_int;

bool is_int(const Value& v) { return is_integer(v.dtype()); }
bool is_int_or_bool(const Value& v) { return is_integer(v.dtype()) || is_bool(v.dtype()); }
bool is_real(const Value& v) { return is_integer(v.dtype()) || is_float(v.dtype()); }

bool is_zero(const Value& v) { return is_uniform_int(v, 0); }
bool is_one(const Value& v) { return is_uniform_int(v, 1); }
bool is_minus_zero(const Value& v) { return is_uniform(v, -0.0); }
bool is_all_ones(const Value& v) { return is_uniform_int(v, is_bool(v.dtype()) ? 1 : -1); }

Value second(const Node& n) { return n.operand_value(1); }

// The operand beside the one for which `is` holds, in either position.
Value beside(const Node& n, bool (*is)(const Value&)) {
  if (is(second(n))) return first(n);
  if (is(first(n))) return second(n);
  return {};
}

// x op x of integers and bools.
bool twice(const Node& n) { return is_int_or_bool(first(n)) && n.operand(0) == n.operand(1); }

Value uniform(Builder& b, const Node& n, int64_t value) {
  return b.broadcast_scalar(b.scalar_int(n.type()->dtype, value), n.type()->dims);
}

// The operand of the node of op `inner` that makes operand i; null if another op makes it.
Value below(const Node& n, Op inner, size_t i = 0) {
  const Node& made = *n.operand(i).node();
  return made.op() == inner ? made.operand_value(0) : Value();
}

Value double_of(Builder&, const Node& n) { return below(n, n.op()); }

// floor(ceil(x)) and the like are the inner one. Not so where a result may be too large or too small for a
// type without infinities: it becomes the nearest number that there is, which need not be whole (7.5 of
// f6e2m3fn).
Value whole_already(Builder&, const Node& n) {
  const FloatSpecials specials = float_format(n.type()->dtype).specials;
  if (specials == FloatSpecials::kNone || specials == FloatSpecials::kScale) return {};
  const Op inner = first(n).node()->op();
  const bool whole = inner == Op::floor || inner == Op::ceil || inner == Op::round_nearest_afz ||
                     inner == Op::round_nearest_even;
  return whole ? first(n) : Value();
}

Value not_of_compare(Builder& b, const Node& n) {
  const Value x = first(n);
  if (x.node()->op() != Op::compare) return {};
  // With floats only equality has an exact opposite: a NaN makes LT and GE both false.
  static constexpr std::pair<std::string_view, std::string_view> kOpposite[] = {
      {"EQ", "NE"}, {"NE", "EQ"}, {"LT", "GE"}, {"GE", "LT"}, {"GT", "LE"}, {"LE", "GT"}};
  const Node& c = *x.node();
  const std::string& direction = c.attrs().string(Attr::direction);
  const bool equality = direction == "EQ" || direction == "NE";
  const bool total = is_int_or_bool(c.operand_value(0)) || !c.attrs().string(Attr::compare_type).empty();
  if (!equality && !total) return {};
  for (const auto& [from, to] : kOpposite)
    if (from == direction)
      return b.make(Op::compare, {{c.operand_value(0), c.operand_value(1)}},
                    with_attr(c.attrs(), Attr::direction, std::string(to)));
  return {};
}

Value less_than_zero(Builder& b, const Node& n) {
  const bool never =
      n.attrs().string(Attr::direction) == "LT" && is_zero(second(n)) && known_limit(first(n)) > 0;
  return never ? uniform(b, n, 0) : Value();
}

Value compare_same(Builder& b, const Node& n) {
  if (!twice(n)) return {};
  const std::string& d = n.attrs().string(Attr::direction);
  return uniform(b, n, d == "EQ" || d == "LE" || d == "GE");
}

Value select_known(Builder&, const Node& n) {
  if (is_zero(first(n))) return n.operand_value(2);
  if (is_one(first(n))) return second(n);
  if (n.operand(1) == n.operand(2)) return second(n);
  return {};
}

Value select_of_not(Builder& b, const Node& n) {
  const Value p = below(n, Op::not_);
  return p ? b.select(p, n.operand_value(2), second(n)) : Value();
}

Value not_zero_and_less(Builder&, const Node& n) {
  for (const size_t less : {0, 1}) {
    Value x, y;
    if (compares_with_zero(n.operand_value(less), "LT", &x) &&
        compares_with_zero(n.operand_value(1 - less), "NE", &y) && x == y)
      return n.operand_value(less);
  }
  return {};
}

// Of x divided by a power of two: its number; -1: it is no power of two.
int power_of_two(const Node& division) {
  const Literal* by = is_int(first(division)) ? match::uniform_literal(second(division)) : nullptr;
  const int64_t number = by ? by->int_at(0) : 0;
  return number > 0 && (number & (number - 1)) == 0 ? std::countr_zero(static_cast<uint64_t>(number)) : -1;
}

// Division of signed integers towards minus infinity, made of that towards zero: where the remainder is
// negative, the quotient is one less, and the remainder the divisor more.
Value floored(Builder& b, const Node& n) {
  Value remainder;
  if (!compares_with_zero(first(n), "LT", &remainder) || remainder.node()->op() != Op::remainder) return {};
  const Node& r = *remainder.node();
  const int bits = power_of_two(r);
  const Value usual = n.operand_value(2);
  const Node &q = *usual.node(), &adjusted = *second(n).node();
  if (bits < 0 || adjusted.operands().size() != 2) return {};
  if (usual == remainder && adjusted.op() == Op::add &&
      match::either_order(adjusted, match::same(usual), match::same(second(r))))
    return b.and_(first(r), uniform(b, n, (int64_t{1} << bits) - 1));
  if (q.op() == Op::divide && q.operand(0) == r.operand(0) && q.operand(1) == r.operand(1) &&
      adjusted.op() == Op::subtract && first(adjusted) == usual && is_one(second(adjusted)))
    return b.make(Op::shift_right_arithmetic, {{first(r), uniform(b, n, bits)}});
  return {};
}

// Every value of `from` is a value of `to`, of one kind (so that a further conversion sees the same number).
bool exact(DType from, DType to) {
  if (from == to || is_bool(from)) return true;
  if (is_integer(from) && is_integer(to)) {
    if (is_signed(from)) return is_signed(to) && bit_width(to) > bit_width(from);
    return bit_width(to) > bit_width(from);
  }
  if (is_float(from) && is_float(to)) return !is_storage_float(to) && byte_size(to) > byte_size(from);
  return from == DType::kC64 && to == DType::kC128;
}

Value convert_of_convert(Builder& b, const Node& n) {
  const Value x = below(n, Op::convert);
  return x && exact(x.dtype(), first(n).dtype()) ? b.convert(x, n.type()->dtype) : Value();
}

Value convert_same(Builder&, const Node& n) {
  return first(n).dtype() == n.type()->dtype ? first(n) : Value();
}

// Integers between: bits that pass through floats come back with the canonical NaN.
Value bitcast_of_bitcast(Builder& b, const Node& n) {
  const Value x = is_integer(first(n).dtype()) ? below(n, Op::bitcast_convert) : Value();
  return x ? b.bitcast_convert(x, n.type()->dtype) : Value();
}

Value complex_of_parts(Builder&, const Node& n) {
  const Value x = below(n, Op::real, 0), y = below(n, Op::imag, 1);
  return x && x == y && x.type() == n.type() ? x : Value();
}

// A dot that adds nothing up is a product of elements, which its consumers can compute.
Value dot_of_one_term(Builder& b, const Node& n) {
  const Value x = first(n), y = second(n);
  const Attrs& a = n.attrs();
  if (!a.ints(Attr::lhs_contracting_dimensions).empty() || !is_real(x) || x.dtype() != n.type()->dtype ||
      y.dtype() != x.dtype())
    return {};
  const Dims &left = a.ints(Attr::lhs_batching_dimensions), &right = a.ints(Attr::rhs_batching_dimensions);
  // Dimensions of the result: of the batch, then the others of x, then those of y.
  auto next = static_cast<int64_t>(left.size());
  const auto spread = [&](const Value& v, const Dims& batch) {
    Dims to;
    for (int64_t d = 0; d < v.rank(); ++d) {
      const auto found = std::find(batch.begin(), batch.end(), d);
      to.push_back(found == batch.end() ? next++ : found - batch.begin());
    }
    return to;
  };
  const Dims to_x = spread(x, left), to_y = spread(y, right), &dims = n.type()->dims;
  const auto rising = [](const Dims& to) { return std::is_sorted(to.begin(), to.end()); };
  if (!rising(to_x) || !rising(to_y)) return {};
  return b.multiply(b.broadcast_in_dim(x, dims, to_x), b.broadcast_in_dim(y, dims, to_y));
}

const RewriteRow kArithmeticRows[] = {
    {"x + 0", Op::add,
     [](Builder&, const Node& n) { return is_int(first(n)) ? beside(n, is_zero) : Value(); }},
    {"x + -0", Op::add,
     [](Builder&, const Node& n) { return is_float(first(n).dtype()) ? beside(n, is_minus_zero) : Value(); }},
    {"x - 0", Op::subtract,
     [](Builder&, const Node& n) { return is_real(first(n)) && is_zero(second(n)) ? first(n) : Value(); }},
    {"x - x", Op::subtract,
     [](Builder& b, const Node& n) { return is_int(first(n)) && twice(n) ? uniform(b, n, 0) : Value(); }},
    {"x * 1", Op::multiply,
     [](Builder&, const Node& n) { return is_real(first(n)) ? beside(n, is_one) : Value(); }},
    {"x * 0", Op::multiply,
     [](Builder& b, const Node& n) {
       return is_int(first(n)) && beside(n, is_zero) ? uniform(b, n, 0) : Value();
     }},
    {"x / 1", Op::divide,
     [](Builder&, const Node& n) { return is_real(first(n)) && is_one(second(n)) ? first(n) : Value(); }},
    {"dot of one term", Op::dot_general, dot_of_one_term},
    {"x & x", Op::and_, [](Builder&, const Node& n) { return twice(n) ? first(n) : Value(); }},
    {"x & ~0", Op::and_, [](Builder&, const Node& n) { return beside(n, is_all_ones); }},
    {"x & 0", Op::and_,
     [](Builder& b, const Node& n) { return beside(n, is_zero) ? uniform(b, n, 0) : Value(); }},
    {"x != 0 and x < 0", Op::and_, not_zero_and_less},
    {"x | x", Op::or_, [](Builder&, const Node& n) { return twice(n) ? first(n) : Value(); }},
    {"x | 0", Op::or_, [](Builder&, const Node& n) { return beside(n, is_zero); }},
    {"x | ~0", Op::or_,
     [](Builder& b, const Node& n) {
       return beside(n, is_all_ones) ? uniform(b, n, is_bool(n.type()->dtype) ? 1 : -1) : Value();
     }},
    {"x ^ 0", Op::xor_, [](Builder&, const Node& n) { return beside(n, is_zero); }},
    {"x ^ x", Op::xor_, [](Builder& b, const Node& n) { return twice(n) ? uniform(b, n, 0) : Value(); }},
    {"x << 0", Op::shift_left,
     [](Builder&, const Node& n) { return is_zero(second(n)) ? first(n) : Value(); }},
    {"x >> 0", Op::shift_right_logical,
     [](Builder&, const Node& n) { return is_zero(second(n)) ? first(n) : Value(); }},
    {"x >> 0, signed", Op::shift_right_arithmetic,
     [](Builder&, const Node& n) { return is_zero(second(n)) ? first(n) : Value(); }},
    {"max(x, x)", Op::maximum, [](Builder&, const Node& n) { return twice(n) ? first(n) : Value(); }},
    {"min(x, x)", Op::minimum, [](Builder&, const Node& n) { return twice(n) ? first(n) : Value(); }},
    {"-(-x)", Op::negate,
     [](Builder& b, const Node& n) { return holds(n.type()->dtype, -1) ? double_of(b, n) : Value(); }},
    {"not not x", Op::not_, double_of},
    {"not of a comparison", Op::not_, not_of_compare},
    {"abs(abs x)", Op::abs, [](Builder&, const Node& n) { return below(n, Op::abs) ? first(n) : Value(); }},
    {"abs(-x)", Op::abs,
     [](Builder& b, const Node& n) {
       const DType t = first(n).dtype();
       const Value x = is_float(t) && holds(t, -1) ? below(n, Op::negate) : Value();
       return x ? b.abs(x) : Value();
     }},
    {"real of complex", Op::real, [](Builder&, const Node& n) { return below(n, Op::complex); }},
    {"imag of complex", Op::imag,
     [](Builder&, const Node& n) {
       const Node& made = *n.operand(0).node();
       return made.op() == Op::complex ? made.operand_value(1) : Value();
     }},
    {"complex of its parts", Op::complex, complex_of_parts},
    {"x < 0 of what is never negative", Op::compare, less_than_zero},
    {"compare x with x", Op::compare, compare_same},
    {"stop_gradient, which marks for derivatives", Op::stop_gradient,
     [](Builder&, const Node& n) { return first(n); }},
    {"a name, which is for policies", Op::custom_call,
     [](Builder&, const Node& n) { return given_name(n) ? first(n) : Value(); }},
    {"select by a constant", Op::select, select_known},
    {"select by not p", Op::select, select_of_not},
    {"floored division by a power of two", Op::select, floored},
    {"convert to the same type", Op::convert, convert_same},
    {"convert of an exact convert", Op::convert, convert_of_convert},
    {"bitcast of bitcast", Op::bitcast_convert, bitcast_of_bitcast},
    {"floor of a whole number", Op::floor, whole_already},
    {"ceil of a whole number", Op::ceil, whole_already},
    {"round of a whole number", Op::round_nearest_afz, whole_already},
    {"round to even of a whole number", Op::round_nearest_even, whole_already},
    {"reduce_precision twice", Op::reduce_precision,
     [](Builder&, const Node& n) {
       const Node& made = *n.operand(0).node();
       return made.op() == Op::reduce_precision && &made.attrs() == &n.attrs() ? first(n) : Value();
     }},
};

}  // namespace

absl::StatusOr<ComputationPtr> simplify_arithmetic(const ComputationPtr& computation) {
  return rewrite(computation, kArithmeticRows);
}

}  // namespace lamina::hlo
