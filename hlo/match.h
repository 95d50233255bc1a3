// Small patterns over values, for rewriting rows.
//
// Contract: a pattern is a callable bool(const Value&); patterns bind what they meet into pointers given. A
// bound value is meaningful only if the whole pattern matched. "Uniform" values hold one number throughout: a
// constant of equal elements, or a broadcast of one.
#ifndef LAMINA_HLO_MATCH_H_
#define LAMINA_HLO_MATCH_H_

#include <tuple>
#include <utility>

#include "hlo/graph.h"
#include "hlo/literal.h"
#include "hlo/op.h"

namespace lamina::hlo::match {

// The literal whose first element fills `v`; null if `v` is not known to be uniform. A zero-size value is
// not.
inline const Literal* uniform_literal(const Value& v) {
  const Node* n = v.node();
  while (n->op() == Op::broadcast_in_dim || n->op() == Op::reshape) n = n->operand(0).node();
  if (n->op() != Op::constant) return nullptr;
  const Literal& literal = *n->attrs().literal(Attr::value);
  return literal.size() == 1 || literal.is_splat() ? &literal : nullptr;
}

// Whether the elements may stand for `number`: scales are positive, and anything else turns into their NaN.
inline bool holds(DType t, double number) {
  return !is_float(t) || float_format(t).specials != FloatSpecials::kScale || number > 0;
}

// All elements have the bits of `number` converted to the element type, which holds it.
inline bool is_uniform(const Value& v, double number) {
  const Literal* literal = holds(v.dtype(), number) ? uniform_literal(v) : nullptr;
  return literal && std::memcmp(literal->element(0), Literal::scalar(v.dtype(), number)->data(),
                                byte_size(v.dtype())) == 0;
}
inline bool is_uniform_int(const Value& v, int64_t number) {
  const Literal* literal = holds(v.dtype(), static_cast<double>(number)) ? uniform_literal(v) : nullptr;
  return literal && std::memcmp(literal->element(0), Literal::scalar_int(v.dtype(), number)->data(),
                                byte_size(v.dtype())) == 0;
}

inline auto any(Value* out) {
  return [out](const Value& v) {
    *out = v;
    return true;
  };
}
inline auto same(const Value& as) {
  return [&as](const Value& v) { return v == as; };
}
inline auto number(double n) {
  return [n](const Value& v) { return is_uniform(v, n); };
}
inline auto integer(int64_t n) {
  return [n](const Value& v) { return is_uniform_int(v, n); };
}

template <typename... Ps>
bool operands_match(const Node& n, Ps&... patterns) {
  if (n.operands().size() != sizeof...(Ps)) return false;
  size_t i = 0;
  return (patterns(n.operand_value(i++)) && ...);
}

// A result of `code` with these operands.
template <typename... Ps>
auto op(Op code, Ps... patterns) {
  return [code, ... ps = std::move(patterns)](const Value& v) mutable {
    return v.node()->op() == code && operands_match(*v.node(), ps...);
  };
}

// Two operands in either order.
template <typename P, typename Q>
bool either_order(const Node& n, P p, Q q) {
  return operands_match(n, p, q) || operands_match(n, q, p);
}

}  // namespace lamina::hlo::match

#endif  // LAMINA_HLO_MATCH_H_
