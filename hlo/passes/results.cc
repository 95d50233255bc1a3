// Results of loops and branches that nothing needs.
#include <algorithm>

#include "hlo/graph_copy.h"
#include "hlo/hash_map.h"
#include "hlo/nodes.h"
#include "hlo/passes/pass.h"
#include "hlo/passes/region.h"
#include "hlo/passes/rewrite.h"
#include "hlo/printer.h"
#include "hlo/regions.h"

namespace lamina::hlo {
namespace {

using Mask = std::vector<bool>;

// Values that something needs, by Operand::bits.
class Needed {
 public:
  void add(Operand o) { bits_.insert(o.bits()); }
  bool contains(Operand o) const { return bits_.contains(o.bits()); }
  // Which results of a node are.
  Mask results(const Node& n) const {
    Mask out;
    for (uint32_t i = 0; i < n.num_results(); ++i) out.push_back(contains(Operand(const_cast<Node*>(&n), i)));
    return out;
  }

 private:
  HashSet<uint64_t> bits_;
};

// Which parameters of the region its roots of these numbers are made of.
Mask parameters_beneath(const Computation& region, const Mask& roots) {
  Needed needed;
  for (size_t i = 0; i < roots.size(); ++i)
    if (roots[i]) needed.add(region.roots()[i].operand());
  for (size_t i = region.nodes().size(); i-- > 0;) {
    const Node* n = region.nodes()[i];
    const Mask used = needed.results(*n);
    if (std::find(used.begin(), used.end(), true) == used.end()) continue;
    for (Operand o : n->operands()) needed.add(o);
  }
  Mask out;
  for (const Value& p : region.parameters()) out.push_back(needed.contains(p.operand()));
  return out;
}

template <typename T>
std::vector<T> kept(std::span<const T> all, const Mask& marks) {
  std::vector<T> out;
  for (size_t i = 0; i < all.size(); ++i)
    if (i >= marks.size() || marks[i]) out.push_back(all[i]);
  return out;
}

bool may_narrow(const Node& n) {
  if (!is_loop_op(n.op()) && n.op() != Op::case_) return false;
  return !has_effect(n);
}

// `needed` and the carries that steps make those of, or the condition reads.
Mask with_carries(const Node& n, Mask needed) {
  if (n.op() == Op::case_) return needed;
  const Computation& body = *n.attrs().computation(Attr::body);
  const size_t carries = num_carried(n);
  if (n.op() == Op::while_) {
    const Mask read = parameters_beneath(*n.attrs().computation(Attr::cond), {true});
    for (size_t i = 0; i < carries; ++i) needed[i] = needed[i] || read[i];
  }
  while (true) {
    const Mask read = parameters_beneath(body, needed);
    bool grown = false;
    for (size_t i = 0; i < carries; ++i) {
      grown = grown || (read[i] && !needed[i]);
      needed[i] = needed[i] || read[i];
    }
    if (!grown) return needed;
  }
}

// The node on these operands with the `wanted` results alone; null values for the others.
Values narrowed(Builder& b, const Node& n, std::span<const Value> operands, const Mask& wanted) {
  const Attrs* attrs = &n.attrs();
  std::vector<Value> given(operands.begin(), operands.end());
  if (n.op() == Op::case_) {
    std::vector<ComputationPtr> branches;
    for (const ComputationPtr& branch : n.attrs().computations(Attr::branches))
      branches.push_back(make_region(b, branch->parameters(), kept(branch->roots(), wanted)));
    if (!b.ok()) return Values(n.num_results());
    attrs = with_attr(*attrs, Attr::branches, std::move(branches));
  } else {
    const Computation& body = *n.attrs().computation(Attr::body);
    const Mask carried(wanted.begin(), wanted.begin() + static_cast<ptrdiff_t>(num_carried(n)));
    ComputationPtr step = make_region(b, kept(body.parameters(), carried), kept(body.roots(), wanted));
    if (!b.ok()) return Values(n.num_results());
    attrs = with_attr(*attrs, Attr::body, std::move(step));
    if (n.op() == Op::while_) {
      const Computation& cond = *n.attrs().computation(Attr::cond);
      ComputationPtr goes_on = make_region(b, kept(cond.parameters(), carried), cond.roots());
      if (!b.ok()) return Values(n.num_results());
      attrs = with_attr(*attrs, Attr::cond, std::move(goes_on));
    } else {
      attrs = with_attr(*attrs, Attr::num_carry, int64_t{std::count(carried.begin(), carried.end(), true)});
    }
    given = kept(operands, carried);
  }
  Values out(n.num_results());
  const Values made = b.make_multi(n.op(), given, attrs);
  size_t next = 0;
  for (size_t i = 0; b.ok() && i < out.size(); ++i)
    if (wanted[i]) out[i] = made[next++];
  return out;
}

// A computation and its regions, each once.
class Narrowing {
 public:
  absl::StatusOr<ComputationPtr> run(const ComputationPtr& computation) {
    return rewrite_inside_out(computation, &remade_, [&](const Computation& c) { return of(c); });
  }

 private:
  // Null where nothing changes.
  absl::StatusOr<ComputationPtr> of(const Computation& c) {
    Needed needed;
    HashMap<const Node*, Mask> narrow;
    for (const Value& r : c.roots()) needed.add(r.operand());
    for (size_t i = c.nodes().size(); i-- > 0;) {
      const Node* n = c.nodes()[i];
      Mask wanted = needed.results(*n);
      if (may_narrow(*n) && std::find(wanted.begin(), wanted.end(), true) != wanted.end()) {
        wanted = with_carries(*n, std::move(wanted));
        if (std::find(wanted.begin(), wanted.end(), false) != wanted.end()) narrow.emplace(n, wanted);
      }
      const auto found = narrow.find(n);
      for (size_t k = 0; k < n->operands().size(); ++k) {
        const bool carry = found != narrow.end() && n->op() != Op::case_ && k < num_carried(*n);
        if (!carry || found->second[k]) needed.add(n->operand(k));
      }
    }
    const auto has_new_region = [&](const Node* n) {
      const auto regions = regions_of(*n);
      return std::any_of(regions.begin(), regions.end(),
                         [&](const ComputationPtr& r) { return remade_.contains(r.get()); });
    };
    if (narrow.empty() && std::none_of(c.nodes().begin(), c.nodes().end(), has_new_region))
      return ComputationPtr();
    Builder b;
    GraphCopy copy(c.parameters(), c.parameters());
    const bool made = copy.extend(b, c.nodes(), [&](const Node& n, std::span<const Value> operands) {
      NodeScope scope(n);
      const auto found = narrow.find(&n);
      // Its regions are narrowed when the pass comes again.
      if (found != narrow.end()) return narrowed(b, n, operands, found->second);
      const Attrs* const attrs = with_remade(n.attrs(), remade_);
      return attrs == &n.attrs() ? results_of(b, n, operands) : b.make_multi(n.op(), operands, attrs);
    });
    if (!made) return b.status();
    absl::StatusOr<ComputationPtr> out = Computation::make(c.parameters(), copy(c.roots()));
    return out.ok() && out->get() == &c ? ComputationPtr() : out;
  }

  Remade remade_;
};

}  // namespace

absl::StatusOr<ComputationPtr> drop_results(const ComputationPtr& computation) {
  GraphLock lock;
  ComputationPtr current = computation;
  while (true) {
    absl::StatusOr<ComputationPtr> next = Narrowing().run(current);
    if (!next.ok() || *next == current) return next;
    current = *std::move(next);
  }
}

}  // namespace lamina::hlo
