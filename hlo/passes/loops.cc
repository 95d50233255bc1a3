// What is known about operands of loops, branches and calls, taken in; what nothing needs, dropped; what does
// not change, moved out.
#include <algorithm>

#include "hlo/hash_map.h"
#include "hlo/match.h"
#include "hlo/passes/pass.h"
#include "hlo/passes/region.h"
#include "hlo/passes/rewrite.h"
#include "hlo/regions.h"

namespace lamina::hlo {
namespace {

// The regions of a control op seen alike: operand first_operand + i is parameter i of every region. For
// loops, result i of the body is parameter i of the next step, for i below num_carry.
struct ControlOp {
  std::vector<Attr> keys;  // of the single regions; empty if there is a list of branches
  std::vector<ComputationPtr> regions;
  size_t first_operand = 0;
  size_t num_carry = 0;
  bool loop = false;

  explicit ControlOp(const Node& n) {
    const Attrs& a = n.attrs();
    switch (n.op()) {
      case Op::while_:
        keys = {Attr::body, Attr::cond};
        num_carry = n.operands().size();
        loop = true;
        break;
      case Op::scan:
        keys = {Attr::body};
        num_carry = static_cast<size_t>(a.integer(Attr::num_carry));
        loop = true;
        break;
      case Op::call:
        keys = {Attr::body};
        break;
      default:
        regions = a.computations(Attr::branches);
        first_operand = 1;
    }
    for (Attr key : keys) regions.push_back(a.computation(key));
  }

  size_t num_parameters() const { return regions[0]->parameters().size(); }
  const Computation& body() const { return *regions[0]; }

  // The node's attributes with other regions.
  std::vector<Attrs::Entry> entries(const Node& n, const std::vector<ComputationPtr>& changed) const {
    std::vector<Attrs::Entry> out = n.attrs().entries();
    for (auto& [key, value] : out) {
      if (key == Attr::branches) value = changed;
      const auto it = std::find(keys.begin(), keys.end(), key);
      if (it != keys.end()) value = changed[it - keys.begin()];
    }
    return out;
  }

  // Carry i comes back as it was.
  bool invariant(size_t i) const { return i < num_carry && body().roots()[i] == body().parameters()[i]; }
};

bool is_plain(const Node& n) { return n.op() != Op::call || is_plain_call(n); }

// A constant, or a broadcast of one, that regions may hold.
bool is_known(const Value& v) {
  const Node& n = *v.node();
  constexpr int64_t kMaxElements = 64;
  if (n.op() == Op::constant) return n.type()->num_elements <= kMaxElements;
  return n.op() == Op::broadcast_in_dim && n.operand(0).node()->op() == Op::constant &&
         n.operand_type(0)->is_scalar();
}

// Regions read a known operand as a constant. A carry that comes back as the same constant is one that does
// not change.
Values propagate_row(Builder& b, const Node& n) {
  if (!is_plain(n)) return {};
  const ControlOp op(n);
  Substitution known;
  std::vector<std::pair<size_t, Value>> fixed;  // carries known to come back
  for (size_t i = 0; i < op.num_parameters(); ++i) {
    const Value operand = n.operand_value(op.first_operand + i);
    if (!is_known(operand)) continue;
    if (op.loop) {
      if (i >= op.num_carry) continue;  // scanned: the region sees a slice of it
      const bool same = op.body().roots()[i] == operand;
      if (!op.invariant(i) && !same) continue;
      fixed.emplace_back(i, operand);
    }
    for (const ComputationPtr& region : op.regions)
      known.emplace(region->parameters()[i].operand().bits(), operand);
  }
  if (known.empty()) return {};
  std::vector<ComputationPtr> changed;
  for (const ComputationPtr& region : op.regions) {
    std::vector<Value> roots;
    for (const Value& r : substitute(b, *region, known)) roots.push_back(r);
    // The carry itself stays a parameter that is handed on.
    if (changed.empty())
      for (const auto& [i, value] : fixed) roots[i] = region->parameters()[i];
    changed.push_back(make_region(b, region->parameters(), roots));
    if (!b.ok()) return {};
  }
  if (changed == op.regions) return {};
  return b.make_multi(n.op(), operands_from(n, 0), intern_attrs(op.entries(n, changed)));
}

// Parameters that no node of the region uses, nor a result other than `own`.
bool uses(const Computation& region, size_t parameter, bool ignore_own_result) {
  const Value& p = region.parameters()[parameter];
  for (const Node* n : region.nodes())
    for (Operand o : n->operands())
      if (o.node() == p.node()) return true;
  for (size_t i = 0; i < region.roots().size(); ++i)
    if (region.roots()[i] == p && !(ignore_own_result && i == parameter)) return true;
  return false;
}

// Operands that no region looks at. For loops: a carry that comes back as it was and is not looked at is its
// operand.
Values unused_row(Builder& b, const Node& n) {
  if (!is_plain(n)) return {};
  const ControlOp op(n);
  std::vector<bool> drop(op.num_parameters());
  for (size_t i = 0; i < drop.size(); ++i) {
    const bool carry = op.loop && i < op.num_carry;
    drop[i] = !carry || op.invariant(i);
    for (size_t r = 0; drop[i] && r < op.regions.size(); ++r)
      drop[i] = !uses(*op.regions[r], i, carry && r == 0);
  }
  // A loop keeps one operand, so that it has a result to be known by.
  const bool all = std::find(drop.begin(), drop.end(), false) == drop.end();
  if (std::find(drop.begin(), drop.end(), true) == drop.end() || (all && n.op() == Op::while_)) return {};
  auto kept = [&](std::span<const Value> values, size_t limit) {
    std::vector<Value> out;
    for (size_t i = 0; i < values.size(); ++i)
      if (i >= limit || !drop[i]) out.push_back(values[i]);
    return out;
  };
  const size_t dropped_results = op.loop ? op.num_carry : 0;
  std::vector<ComputationPtr> changed;
  for (size_t r = 0; r < op.regions.size(); ++r) {
    const Computation& region = *op.regions[r];
    changed.push_back(make_region(b, kept(region.parameters(), drop.size()),
                                  kept(region.roots(), r == 0 ? dropped_results : 0)));
    if (!b.ok()) return {};
  }
  std::vector<Attrs::Entry> entries = op.entries(n, changed);
  const int64_t carries_left =
      std::count(drop.begin(), drop.begin() + static_cast<int64_t>(dropped_results), false);
  if (n.op() == Op::scan) {
    std::erase_if(entries, [](const Attrs::Entry& e) { return e.first == Attr::num_carry; });
    entries.emplace_back(Attr::num_carry, carries_left);
  }
  Values operands;
  for (size_t i = 0; i < n.operands().size(); ++i)
    if (i < op.first_operand || !drop[i - op.first_operand]) operands.push_back(n.operand_value(i));
  const Values made = b.make_multi(n.op(), operands, intern_attrs(std::move(entries)));
  if (!b.ok()) return {};
  Values results;
  size_t next = 0;
  for (uint32_t i = 0; i < n.num_results(); ++i)
    results.push_back(i < dropped_results && drop[i] ? n.operand_value(i) : made[next++]);
  return results;
}

// Cheaper to make again than to keep: taken out of a loop only as part of something dearer.
bool is_cheap(const Node& n) {
  switch (n.op()) {
    case Op::parameter:
    case Op::constant:
    case Op::iota:
    case Op::broadcast_in_dim:
    case Op::reshape:
      return true;
    default:
      return false;
  }
}

// What a loop's body computes from carries that do not change, and from constants, is computed once, before
// the loop, and handed in as further carries that do not change.
Values hoist_row(Builder& b, const Node& n) {
  const ControlOp op(n);
  const Computation& body = op.body();
  HashSet<const Node*> fixed;
  for (size_t i = 0; i < op.num_carry; ++i)
    if (op.invariant(i)) fixed.insert(body.parameters()[i].node());
  for (const Node* node : body.nodes()) {
    if (node->op() == Op::parameter || node->def().flags & kNoDedup || may_not_return(*node)) continue;
    const auto operands = node->operands();
    if (std::all_of(operands.begin(), operands.end(), [&](Operand o) { return fixed.contains(o.node()); }))
      fixed.insert(node);
  }
  // From users to operands: a cheap node that the rest of the body uses stays inside, which makes its
  // operands used.
  HashSet<uint64_t> used;
  for (const Value& r : body.roots()) used.insert(r.operand().bits());
  for (size_t i = body.nodes().size(); i-- > 0;) {
    const Node* node = body.nodes()[i];
    if (fixed.contains(node)) {
      bool seen = false;
      for (uint32_t r = 0; r < node->num_results(); ++r)
        seen |= used.contains(Operand(const_cast<Node*>(node), r).bits());
      if (!seen || !is_cheap(*node)) continue;
      fixed.erase(node);
    }
    for (Operand o : node->operands()) used.insert(o.bits());
  }
  Substitution inside;
  std::vector<Value> hoisted, extra;
  for (Node* node : body.nodes()) {
    if (!fixed.contains(node)) continue;
    for (uint32_t r = 0; r < node->num_results(); ++r) {
      const Value v(node, r);
      if (!used.contains(v.operand().bits()) || !v.type()->is_array()) continue;
      hoisted.push_back(v);
      extra.push_back(make_parameter(v.type()));
      inside.emplace(v.operand().bits(), extra.back());
    }
  }
  if (hoisted.empty()) return {};
  const ComputationPtr before = make_region(b, body.parameters(), hoisted);
  if (!before) return {};
  // Interned: it may be an equal computation, with parameters of its own.
  Substitution outside;
  for (size_t i = 0; i < op.num_carry; ++i)
    outside.emplace(before->parameters()[i].operand().bits(), n.operand_value(i));
  const Values values = substitute(b, *before, outside);

  const size_t at = op.num_carry;
  auto with_extra = [&](std::span<const Value> list, std::span<const Value> more) {
    std::vector<Value> out(list.begin(), list.end());
    out.insert(out.begin() + static_cast<int64_t>(at), more.begin(), more.end());
    return out;
  };
  std::vector<ComputationPtr> changed;
  changed.push_back(
      make_region(b, with_extra(body.parameters(), extra), with_extra(substitute(b, body, inside), extra)));
  if (op.regions.size() > 1)
    changed.push_back(make_region(b, with_extra(op.regions[1]->parameters(), extra), op.regions[1]->roots()));
  if (!b.ok()) return {};
  std::vector<Attrs::Entry> entries = op.entries(n, changed);
  if (n.op() == Op::scan) {
    std::erase_if(entries, [](const Attrs::Entry& e) { return e.first == Attr::num_carry; });
    entries.emplace_back(Attr::num_carry, static_cast<int64_t>(at + extra.size()));
  }
  const Values made =
      b.make_multi(n.op(), with_extra(operands_from(n, 0), values), intern_attrs(std::move(entries)));
  if (!b.ok()) return {};
  Values results;
  for (size_t i = 0; i < made.size(); ++i)
    if (i < at || i >= at + extra.size()) results.push_back(made[i]);
  return results;
}

const RewriteRow kPropagateRows[] = {
    {"constants into a loop", Op::while_, propagate_row},
    {"constants into a scan", Op::scan, propagate_row},
    {"constants into branches", Op::case_, propagate_row},
    {"constants into a call", Op::call, propagate_row},
};
const RewriteRow kUnusedRows[] = {
    {"unused carries", Op::while_, unused_row},
    {"unused carries and arrays", Op::scan, unused_row},
    {"unused operands of branches", Op::case_, unused_row},
    {"unused operands of a call", Op::call, unused_row},
};
const RewriteRow kHoistRows[] = {
    {"invariants of a loop", Op::while_, hoist_row},
    {"invariants of a scan", Op::scan, hoist_row},
};

}  // namespace

absl::StatusOr<ComputationPtr> propagate_constants(const ComputationPtr& computation) {
  return rewrite(computation, kPropagateRows);
}
absl::StatusOr<ComputationPtr> drop_unused(const ComputationPtr& computation) {
  return rewrite(computation, kUnusedRows);
}
absl::StatusOr<ComputationPtr> hoist_invariants(const ComputationPtr& computation) {
  return rewrite(computation, kHoistRows);
}

}  // namespace lamina::hlo
