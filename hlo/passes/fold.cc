// Constant folding.
//
// Normal form: a value that is one number throughout is a broadcast of a scalar constant, whatever its size;
// a constant of rank above 0 holds different numbers. The evaluator computes what is folded, so bits are
// those of run time.
#include <algorithm>

#include "hlo/evaluator.h"
#include "hlo/match.h"
#include "hlo/passes/pass.h"
#include "hlo/passes/rewrite.h"

namespace lamina::hlo {
namespace {

constexpr int64_t kMaxFoldElements = 64;

Value scalar_of(Builder& b, const Literal& literal) {
  return b.constant(Literal::splat(scalar_type(literal.dtype()), literal.element(0)));
}

Value constant_to_broadcast(Builder& b, const Node& n) {
  const Literal& literal = *n.attrs().literal(Attr::value);
  if (literal.dims().empty() || !literal.is_splat()) return {};
  return b.broadcast_scalar(scalar_of(b, literal), literal.dims());
}

// op(uniform, ...) is op of the scalars, which the builder folds, broadcast.
Value elementwise_of_uniform(Builder& b, const Node& n) {
  if (n.type()->dims.empty() || n.type()->num_elements == 0) return {};
  Values scalars;
  for (size_t i = 0; i < n.operands().size(); ++i) {
    const Literal* literal = match::uniform_literal(n.operand_value(i));
    if (!literal) return {};
    scalars.push_back(scalar_of(b, *literal));
  }
  return b.broadcast_scalar(b.make(n.op(), scalars, &n.attrs()), n.type()->dims);
}

// The value of a small constant, or of a small broadcast of one.
LiteralPtr known_value(const Value& v) {
  const Node& n = *v.node();
  if (n.op() == Op::constant) {
    const LiteralPtr& literal = n.attrs().literal(Attr::value);
    return literal->size() <= kMaxFoldElements ? literal : nullptr;
  }
  if (!n.type()->is_array() || n.type()->num_elements > kMaxFoldElements) return nullptr;
  if (const Literal* literal = match::uniform_literal(v))
    return Literal::splat(n.type(), literal->element(0));
  return nullptr;
}

// Any operation of small constants, at least one of which is not uniform.
Value evaluate_small(Builder& b, const Node& n) {
  if (n.num_results() != 1 || n.type()->is_tuple() || n.type()->num_elements > kMaxFoldElements) return {};
  std::vector<LiteralPtr> operands;
  bool worth = n.type()->num_elements == 1;
  for (size_t i = 0; i < n.operands().size(); ++i) {
    operands.push_back(known_value(n.operand_value(i)));
    if (!operands.back()) return {};
    worth |= !match::uniform_literal(n.operand_value(i));
  }
  // Broadcasts and reshapes of one number are in normal form.
  if (operands.empty() || !worth || may_not_return(n) || match::uniform_literal(Value(const_cast<Node*>(&n))))
    return {};
  absl::StatusOr<std::vector<LiteralPtr>> value = evaluate_node(n, operands);
  if (!value.ok()) return {};
  return b.constant((*value)[0]);
}

const RewriteRow kFoldRows[] = {
    {"constant of one number", Op::constant, constant_to_broadcast},
    {"elementwise of one number each", OpFamily::kElementwise, elementwise_of_uniform},
    {"small elementwise", OpFamily::kElementwise, evaluate_small},
    {"small shape", OpFamily::kShape, evaluate_small},
    {"small indexing", OpFamily::kIndexing, evaluate_small},
    {"small reduction", OpFamily::kReduction, evaluate_small},
    {"small linear algebra", OpFamily::kLinear, evaluate_small},
};

}  // namespace

absl::StatusOr<ComputationPtr> fold(const ComputationPtr& computation) {
  return rewrite(computation, kFoldRows);
}

}  // namespace lamina::hlo
