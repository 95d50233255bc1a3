// Products without transposes: they read their factors as those lie in memory, and have their results in the
// order that is asked for.
#include <algorithm>
#include <numeric>

#include "hlo/dot_shape.h"
#include "hlo/graph_copy.h"
#include "hlo/nodes.h"
#include "hlo/passes/pass.h"
#include "hlo/passes/region.h"
#include "hlo/passes/rewrite.h"

namespace lamina::hlo {
namespace {

bool contains(const Dims& list, int64_t d) { return std::find(list.begin(), list.end(), d) != list.end(); }

struct Factor {
  Value value = {};
  Dims batch = {}, contract = {};
};

// What the factor is a transpose of, unless the result's dimensions would come in another order.
Factor turned_back(const Factor& f) {
  if (f.value.node()->op() != Op::transpose) return {};
  const Dims& from = f.value.node()->attrs().ints(Attr::permutation);
  Factor out{f.value.node()->operand_value(0)};
  int64_t last = -1;
  for (int64_t d = 0; d < f.value.rank(); ++d) {
    if (contains(f.batch, d) || contains(f.contract, d) || f.value.dims()[d] == 1) continue;
    if (from[d] < last) return {};
    last = from[d];
  }
  for (int64_t d : f.batch) out.batch.push_back(from[d]);
  for (int64_t d : f.contract) out.contract.push_back(from[d]);
  return out;
}

// Those of each matrix have a single stride each way, which is as good as any other.
bool lies_well(const Value& dot) {
  const DotGeneralShape s = dot_shape(*dot.node());
  return collapsed(s.m, &DotDim::lhs_stride) && collapsed(s.n, &DotDim::rhs_stride) &&
         collapsed(s.k, &DotDim::lhs_stride) && collapsed(s.k, &DotDim::rhs_stride);
}

Value dot_of_transposes(Builder& b, const Node& n) {
  const Attrs& a = n.attrs();
  Factor factors[] = {
      {n.operand_value(0), a.ints(Attr::lhs_batching_dimensions), a.ints(Attr::lhs_contracting_dimensions)},
      {n.operand_value(1), a.ints(Attr::rhs_batching_dimensions), a.ints(Attr::rhs_contracting_dimensions)}};
  const auto& [lhs, rhs] = factors;
  Value out;
  for (Factor& f : factors) {
    Factor turned = turned_back(f);
    if (!turned.value) continue;
    std::swap(f, turned);
    const Value dot = b.dot_general(
        lhs.value, rhs.value, {lhs.batch, rhs.batch, lhs.contract, rhs.contract, a.string(Attr::precision)});
    if (!dot) return {};
    if (lies_well(dot) && dot.type() == n.type())
      out = dot;
    else
      std::swap(f, turned);
  }
  return out;
}

const RewriteRow kFactorRows[] = {
    {"dot of transposes", Op::dot_general, dot_of_transposes},
};

// Whether the transpose only has the dimensions of the dot's second factor before those of its first one.
bool trades_places(const Node& transpose, const Node& dot) {
  const DotGeneralShape s = dot_shape(dot);
  const size_t batch = s.batch.size(), first = s.m.size(), second = s.n.size();
  Dims order(batch + second + first);
  std::iota(order.begin(), order.end(), 0);
  const auto free = order.begin() + static_cast<ptrdiff_t>(batch);
  std::rotate(free, free + static_cast<ptrdiff_t>(first), order.end());
  return transpose.attrs().ints(Attr::permutation) == order;
}

// Transposes of products that nothing else reads: the factors trade places. Those of complex products would
// add up in another order.
class TurnedProducts {
 public:
  absl::StatusOr<ComputationPtr> run(const ComputationPtr& computation) {
    return rewrite_inside_out(computation, &remade_, [&](const Computation& c) { return of(c); });
  }

 private:
  // Null where nothing changes.
  absl::StatusOr<ComputationPtr> of(const Computation& c) const {
    HashMap<const Node*, int> uses;  // of dots
    const auto use = [&](Operand o) { uses[o.node()] += o.node()->op() == Op::dot_general; };
    for (const Value& r : c.roots()) use(r.operand());
    for (const Node* n : c.nodes())
      for (Operand o : n->operands()) use(o);
    HashSet<const Node*> turned;
    bool changes = false;
    for (const Node* n : c.nodes()) {
      changes |= with_remade(n->attrs(), remade_) != &n->attrs();
      if (n->op() != Op::transpose) continue;
      const Node& of = *n->operand(0).node();
      if (of.op() == Op::dot_general && uses[&of] == 1 && !is_complex(of.type()->dtype) &&
          trades_places(*n, of))
        turned.insert(n);
    }
    if (turned.empty() && !changes) return ComputationPtr();
    Builder b;
    GraphCopy copy(c.parameters(), c.parameters());
    const bool made = copy.extend(b, c.nodes(), [&](const Node& n, std::span<const Value> operands) {
      NodeScope scope(n);
      if (turned.contains(&n)) return Values{with_factors_turned(b, *operands[0].node())};
      const Attrs* const attrs = with_remade(n.attrs(), remade_);
      return attrs != &n.attrs() ? b.make_multi(n.op(), operands, attrs) : results_of(b, n, operands);
    });
    if (!made) return b.status();
    return Computation::make(c.parameters(), copy(c.roots()));
  }

  static Value with_factors_turned(Builder& b, const Node& dot) {
    const Attrs& a = dot.attrs();
    return b.dot_general(dot.operand_value(1), dot.operand_value(0),
                         {a.ints(Attr::rhs_batching_dimensions), a.ints(Attr::lhs_batching_dimensions),
                          a.ints(Attr::rhs_contracting_dimensions), a.ints(Attr::lhs_contracting_dimensions),
                          a.string(Attr::precision)});
  }

  Remade remade_;
};

}  // namespace

absl::StatusOr<ComputationPtr> turn_factors(const ComputationPtr& computation) {
  GraphLock lock;
  absl::StatusOr<ComputationPtr> turned = TurnedProducts().run(computation);
  return turned.ok() ? rewrite(*turned, kFactorRows) : turned;
}

}  // namespace lamina::hlo
