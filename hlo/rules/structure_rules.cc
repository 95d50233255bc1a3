// Rules of the graph-structure ops.
#include "hlo/rules/support.h"

namespace lamina::hlo {
namespace {

TypeOr constant_type(Types, const Attrs& a) {
  const LiteralPtr& literal = a.literal(Attr::value);
  if (!literal) return invalid("has no value");
  return literal->type();
}

TypeOr same_type(Types t, const Attrs&) { return t[0]; }
TypeOr all_types(Types t, const Attrs&) { return results_type(t); }

TypeOr given_elsewhere(Types, const Attrs&) {
  return invalid("is made by the recorder, which knows its type; it cannot be inferred");
}

}  // namespace

void add_structure_rules(OpTable& table) {
  table[Op::parameter].type = given_elsewhere;
  table[Op::leaf].type = given_elsewhere;
  table[Op::constant].type = constant_type;
  table[Op::identity].type = same_type;
  table[Op::stop_gradient].type = same_type;
  table[Op::optimization_barrier].type = all_types;
}

}  // namespace lamina::hlo
