#include "hlo/known_limit.h"

#include <algorithm>
#include <limits>

#include "hlo/match.h"

namespace lamina::hlo {
namespace {

// A constant that is not negative, plus one; 0: none.
int64_t above_constant(const Value& v) {
  const Literal* number = is_integer(v.dtype()) ? match::uniform_literal(v) : nullptr;
  const int64_t value = number ? number->int_at(0) : -1;
  return value >= 0 && value < std::numeric_limits<int64_t>::max() ? value + 1 : 0;
}

// select(r < 0, r + c, r) of r = remainder(x, c), c > 0: its c.
int64_t floored_divisor(const Node& select) {
  Value r;
  const Value adjusted = select.operand_value(1);
  if (!compares_with_zero(select.operand_value(0), "LT", &r) || r.node()->op() != Op::remainder ||
      select.operand_value(2) != r || adjusted.node()->op() != Op::add)
    return 0;
  const Value divisor = r.node()->operand_value(1);
  if (!match::either_order(*adjusted.node(), match::same(r), match::same(divisor))) return 0;
  const int64_t above = above_constant(divisor);
  return above > 1 ? above - 1 : 0;
}

}  // namespace

bool compares_with_zero(const Value& v, std::string_view direction, Value* x) {
  const Node& n = *v.node();
  if (n.op() != Op::compare || !is_integer(n.operand_value(0).dtype()) ||
      !match::is_uniform_int(n.operand_value(1), 0) || n.attrs().string(Attr::direction) != direction)
    return false;
  *x = n.operand_value(0);
  return true;
}

int64_t known_limit(Value v) {
  int64_t most = std::numeric_limits<int64_t>::max();  // what the conversions passed leave as it is
  while (v.type()->is_array() && is_integer(v.dtype())) {
    most = std::min(most, (int64_t{1} << (std::min<int64_t>(bit_width(v.dtype()), 63) - 1)));
    const Node& n = *v.node();
    int64_t limit = above_constant(v);
    if (n.op() == Op::select) limit = floored_divisor(n);
    if (n.op() == Op::and_)
      for (const size_t i : {0, 1}) limit = std::max(limit, above_constant(n.operand_value(i)));
    if (limit > 0) return limit <= most ? limit : 0;
    if (n.op() != Op::broadcast_in_dim && n.op() != Op::reshape && n.op() != Op::convert) return 0;
    v = n.operand_value(0);
  }
  return 0;
}

}  // namespace lamina::hlo
