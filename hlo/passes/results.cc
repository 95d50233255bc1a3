// Results of loops and branches that nothing needs.
#include <algorithm>

#include "hlo/graph_copy.h"
#include "hlo/hash_map.h"
#include "hlo/nodes.h"
#include "hlo/passes/pass.h"
#include "hlo/passes/region.h"
#include "hlo/passes/rewrite.h"
#include "hlo/printer.h"

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
  if (n.op() != Op::while_ && n.op() != Op::scan && n.op() != Op::case_) return false;
  return !has_effect(n);
}

// `needed` and the carries that steps make those of, or the condition reads.
Mask with_carries(const Node& n, Mask needed) {
  if (n.op() == Op::case_) return needed;
  const Computation& body = *n.attrs().computation(Attr::body);
  const size_t carries =
      n.op() == Op::scan ? static_cast<size_t>(n.attrs().integer(Attr::num_carry)) : n.operands().size();
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
  std::vector<Attrs::Entry> entries = n.attrs().entries();
  std::vector<Value> given(operands.begin(), operands.end());
  const auto with = [&](Attr key, std::vector<ComputationPtr> regions) {
    for (auto& [k, value] : entries) {
      if (k != key) continue;
      if (key == Attr::branches)
        value = std::move(regions);
      else
        value = std::move(regions[0]);
      return;
    }
  };
  if (n.op() == Op::case_) {
    std::vector<ComputationPtr> branches;
    for (const ComputationPtr& branch : n.attrs().computations(Attr::branches))
      branches.push_back(make_region(b, branch->parameters(), kept(branch->roots(), wanted)));
    with(Attr::branches, std::move(branches));
  } else {
    const Computation& body = *n.attrs().computation(Attr::body);
    const auto carries = static_cast<int64_t>(
        n.op() == Op::scan ? static_cast<size_t>(n.attrs().integer(Attr::num_carry)) : operands.size());
    const Mask carried(wanted.begin(), wanted.begin() + carries);
    with(Attr::body, {make_region(b, kept(body.parameters(), carried), kept(body.roots(), wanted))});
    if (n.op() == Op::while_) {
      const Computation& cond = *n.attrs().computation(Attr::cond);
      with(Attr::cond, {make_region(b, kept(cond.parameters(), carried), cond.roots())});
    } else {
      std::erase_if(entries, [](const Attrs::Entry& e) { return e.first == Attr::num_carry; });
      entries.emplace_back(Attr::num_carry, int64_t{std::count(carried.begin(), carried.end(), true)});
    }
    given = kept(operands, carried);
  }
  Values out(n.num_results());
  if (!b.ok()) return out;
  const Values made = b.make_multi(n.op(), given, intern_attrs(std::move(entries)));
  size_t next = 0;
  for (size_t i = 0; b.ok() && i < out.size(); ++i)
    if (wanted[i]) out[i] = made[next++];
  return out;
}

// A computation and its regions, each once.
class Narrowing {
 public:
  absl::StatusOr<ComputationPtr> run(const ComputationPtr& computation) {
    for (const Computation* region : regions_of(*computation)) {
      absl::StatusOr<ComputationPtr> made = of(*region);
      if (!made.ok()) return made;
      if (*made) replaced_.emplace(region, *std::move(made));
    }
    absl::StatusOr<ComputationPtr> made = of(*computation);
    return made.ok() && !*made ? computation : made;
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
        const bool carry = found != narrow.end() && n->op() != Op::case_ &&
                           k < (n->op() == Op::scan ? static_cast<size_t>(n->attrs().integer(Attr::num_carry))
                                                    : n->operands().size());
        if (!carry || found->second[k]) needed.add(n->operand(k));
      }
    }
    const auto has_new_region = [&](const Node* n) {
      const auto regions = regions_of(*n);
      return std::any_of(regions.begin(), regions.end(),
                         [&](const ComputationPtr& r) { return replaced_.contains(r.get()); });
    };
    if (narrow.empty() && std::none_of(c.nodes().begin(), c.nodes().end(), has_new_region))
      return ComputationPtr();
    Builder b;
    GraphCopy copy(c.parameters(), c.parameters());
    const bool made = copy.extend(b, c.nodes(), [&](const Node& n, std::span<const Value> operands) {
      NodeScope scope(n);
      const auto found = narrow.find(&n);
      // Its regions are narrowed when the pass comes again.
      return found == narrow.end() ? remade(b, n, operands) : narrowed(b, n, operands, found->second);
    });
    if (!made) return b.status();
    absl::StatusOr<ComputationPtr> out = Computation::make(c.parameters(), copy(c.roots()));
    return out.ok() && out->get() == &c ? ComputationPtr() : out;
  }

  // The node, with the regions that became others.
  Values remade(Builder& b, const Node& n, std::span<const Value> operands) const {
    std::vector<Attrs::Entry> entries = n.attrs().entries();
    bool changed = false;
    const auto replace = [&](ComputationPtr& c) {
      const auto it = replaced_.find(c.get());
      if (it == replaced_.end()) return;
      c = it->second;
      changed = true;
    };
    for (auto& [key, value] : entries) {
      if (auto* one = std::get_if<ComputationPtr>(&value)) replace(*one);
      if (auto* many = std::get_if<std::vector<ComputationPtr>>(&value))
        for (ComputationPtr& each : *many) replace(each);
    }
    if (!changed) return results_of(b, n, operands);
    return b.make_multi(n.op(), operands, intern_attrs(std::move(entries)));
  }

  HashMap<const Computation*, ComputationPtr> replaced_;
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
