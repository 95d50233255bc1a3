// Matrix routines that do by one call what a program asks for by two.
#include <algorithm>
#include <numeric>
#include <optional>

#include "hlo/graph_copy.h"
#include "hlo/linalg/calls.h"
#include "hlo/match.h"
#include "hlo/nodes.h"
#include "hlo/passes/pass.h"
#include "hlo/passes/region.h"

namespace lamina::hlo {
namespace {

bool calls(const Node& n, std::string_view routine) {
  return n.op() == Op::custom_call && n.attrs().string(Attr::call_target_name) == routine;
}

// The factorization whose factors and order the node solves with, if it is one of as many matrices: of those
// that several systems share there are fewer.
const Node* factors_of(const Node& solve) {
  if (!calls(solve, "lamina.lu_solve")) return nullptr;
  const Operand packed = solve.operand(1), order = solve.operand(2);
  const Node* const lu = packed.node();
  if (!calls(*lu, "lamina.lu") || order.node() != lu || packed.index() != 0 || order.index() != 2)
    return nullptr;
  const Dims &a = lu->operand_type(0)->dims, &x = solve.result_type(0)->dims;
  return std::equal(a.begin(), a.end() - 2, x.begin(), x.end() - 2) ? lu : nullptr;
}

// What a factored matrix is the mean of, with its transpose.
Value whose_mean(const Node& cholesky) {
  if (!calls(cholesky, "lamina.cholesky")) return {};
  const Value mean = cholesky.operand_value(0);
  Value sum;
  if (is_complex(mean.dtype()) ||
      !(match::op(Op::multiply, match::any(&sum), match::number(0.5))(mean) ||
        match::op(Op::multiply, match::number(0.5), match::any(&sum))(mean) ||
        match::op(Op::divide, match::any(&sum), match::number(2))(mean)) ||
      sum.node()->op() != Op::add)
    return {};
  for (const size_t i : {0, 1}) {
    const Value a = sum.node()->operand_value(i);
    const Node& turned = *sum.node()->operand(1 - i).node();
    if (turned.op() != Op::transpose || turned.operand_value(0) != a) continue;
    Dims order(a.rank());
    std::iota(order.begin(), order.end(), 0);
    std::swap(order[order.size() - 2], order.back());
    if (turned.attrs().ints(Attr::permutation) == order) return a;
  }
  return {};
}

// One call in place of a node and what nothing else reads.
struct Joined {
  std::string_view routine;
  Values operands;
};

using Uses = HashMap<const Node*, int>;

std::optional<Joined> joined(const Node& n, const Uses& uses) {
  if (const Node* const lu = factors_of(n); lu && uses.at(lu) == 2)
    return Joined{"lamina.solve", {lu->operand_value(0), n.operand_value(3)}};
  if (const Value a = whose_mean(n); a && uses.at(n.operand(0).node()) == 1)
    return Joined{"lamina.mean_cholesky", {a}};
  return std::nullopt;
}

// Null where nothing changes.
absl::StatusOr<ComputationPtr> with_joined_calls(const Computation& c, const Remade& remade) {
  Uses uses;
  for (const Value& r : c.roots()) ++uses[r.node()];
  for (const Node* n : c.nodes())
    for (Operand o : n->operands()) ++uses[o.node()];
  const auto changes = [&](const Node* n) {
    return with_remade(n->attrs(), remade) != &n->attrs() || joined(*n, uses);
  };
  if (std::ranges::none_of(c.nodes(), changes)) return ComputationPtr();
  Builder b;
  GraphCopy copy(c.parameters(), c.parameters());
  const bool made = copy.extend(b, c.nodes(), [&](const Node& n, std::span<const Value> operands) {
    NodeScope scope(n);
    if (const auto one = joined(n, uses)) return linalg::call(b, one->routine, copy(one->operands));
    const Attrs* const attrs = with_remade(n.attrs(), remade);
    return attrs != &n.attrs() ? b.make_multi(n.op(), operands, attrs) : results_of(b, n, operands);
  });
  if (!made) return b.status();
  return Computation::make(c.parameters(), copy(c.roots()));
}

}  // namespace

absl::StatusOr<ComputationPtr> join_routines(const ComputationPtr& computation) {
  GraphLock lock;
  Remade remade;
  return rewrite_inside_out(computation, &remade,
                            [&](const Computation& c) { return with_joined_calls(c, remade); });
}

}  // namespace lamina::hlo
