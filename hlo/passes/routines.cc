// Matrix routines that do by one call what a program asks for by two.
#include <algorithm>
#include <numeric>
#include <optional>
#include <utility>
#include <vector>

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
  Dims dims = {};  // of the first operand, and so of the result, if they are others
};

using Uses = HashMap<const Node*, int>;

std::optional<Joined> joined(const Node& n, const Uses& uses) {
  if (const Node* const lu = factors_of(n); lu && uses.at(lu) == 2)
    return Joined{"lamina.solve", {lu->operand_value(0), n.operand_value(3)}};
  if (const Value a = whose_mean(n); a && uses.at(n.operand(0).node()) == 1)
    return Joined{"lamina.mean_cholesky", {a}};
  return std::nullopt;
}

// A transform along one dimension, of an array as it lies in memory: neighbours of a line are `step` apart.
struct LineTransform {
  enum class Kind : uint8_t { kForward, kInverse, kReal } kind;
  int64_t length, step;
};
std::optional<LineTransform> line_transform_of(const Node& n) {
  using Kind = LineTransform::Kind;
  const Dims* const dims = n.op() == Op::custom_call ? &n.operand_type(0)->dims : nullptr;
  if (!dims || n.type()->num_elements == 0) return std::nullopt;
  for (const auto& [name, kind] : {std::pair{"lamina.fft", Kind::kForward},
                                   {"lamina.ifft", Kind::kInverse},
                                   {"lamina.rfft", Kind::kReal}})
    if (calls(n, name)) return LineTransform{kind, dims->back(), 1};
  for (const auto& [name, kind] :
       {std::pair{"lamina.fft_columns", Kind::kForward}, {"lamina.ifft_columns", Kind::kInverse}})
    if (calls(n, name)) return LineTransform{kind, (*dims)[dims->size() - 2], dims->back()};
  return std::nullopt;
}

constexpr std::string_view kTransforms[3][2] = {
    {"lamina.fft2", "lamina.fft3"}, {"lamina.ifft2", "lamina.ifft3"}, {"lamina.rfft2", "lamina.rfft3"}};

// Those that end with a node, of the same direction, along dimensions that follow each other up to the last.
std::optional<Joined> joined_transforms(const Node& last, const Uses& uses) {
  constexpr size_t kMost = 3;
  using Kind = LineTransform::Kind;
  std::vector<LineTransform> found;  // the last one first
  std::optional<Joined> out;
  const Node* at = &last;
  while (found.size() < kMost) {
    const std::optional<LineTransform> next = line_transform_of(*at);
    if (!next || at->numerics() != last.numerics()) break;
    const Kind direction = found.empty() ? next->kind : found[0].kind;
    if (next->kind != direction && !(next->kind == Kind::kReal && direction == Kind::kForward)) break;
    found.push_back(*next);
    const Value operand = at->operand_value(0);
    std::vector<LineTransform> inner_first = found;
    std::ranges::sort(inner_first, {}, &LineTransform::step);
    const bool is_real = next->kind == Kind::kReal;
    int64_t step = 1;
    Dims lengths;
    for (const LineTransform& t : inner_first) {
      if (t.step != step) break;
      const bool halves = is_real && lengths.empty();
      step *= halves ? t.length / 2 + 1 : t.length;
      lengths.insert(lengths.begin(), t.length);
    }
    if (found.size() > 1 && lengths.size() == found.size()) {
      lengths.insert(lengths.begin(), operand.type()->num_elements / product(lengths));
      out = Joined{kTransforms[static_cast<size_t>(next->kind)][found.size() - 2], {operand}, lengths};
    }
    if (is_real) break;
    at = operand.node();
    while (at->op() == Op::reshape && uses.at(at) == 1) at = at->operand(0).node();
    if (uses.at(at) != 1) break;
  }
  return out;
}

using Join = std::optional<Joined> (*)(const Node& n, const Uses& uses);

// Null where nothing changes.
absl::StatusOr<ComputationPtr> with_joined_calls(const Computation& c, const Remade& remade, Join join) {
  Uses uses;
  for (const Value& r : c.roots()) ++uses[r.node()];
  for (const Node* n : c.nodes())
    for (Operand o : n->operands()) ++uses[o.node()];
  const auto changes = [&](const Node* n) {
    return with_remade(n->attrs(), remade) != &n->attrs() || join(*n, uses);
  };
  if (std::ranges::none_of(c.nodes(), changes)) return ComputationPtr();
  Builder b;
  GraphCopy copy(c.parameters(), c.parameters());
  const bool made = copy.extend(b, c.nodes(), [&](const Node& n, std::span<const Value> operands) {
    NodeScope scope(n);
    if (const auto one = join(n, uses)) {
      Values given = copy(one->operands);
      if (!one->dims.empty()) given[0] = b.reshape(given[0], one->dims);
      Values out = linalg::call(b, one->routine, given);
      if (!one->dims.empty() && b.ok()) out[0] = b.reshape(out[0], n.type()->dims);
      return out;
    }
    const Attrs* const attrs = with_remade(n.attrs(), remade);
    return attrs != &n.attrs() ? b.make_multi(n.op(), operands, attrs) : results_of(b, n, operands);
  });
  if (!made) return b.status();
  return Computation::make(c.parameters(), copy(c.roots()));
}

absl::StatusOr<ComputationPtr> join_calls(const ComputationPtr& computation, Join join) {
  GraphLock lock;
  Remade remade;
  return rewrite_inside_out(computation, &remade,
                            [&](const Computation& c) { return with_joined_calls(c, remade, join); });
}

}  // namespace

absl::StatusOr<ComputationPtr> join_routines(const ComputationPtr& computation) {
  return join_calls(computation, joined);
}
absl::StatusOr<ComputationPtr> join_transforms(const ComputationPtr& computation) {
  return join_calls(computation, joined_transforms);
}

}  // namespace lamina::hlo
