// Regions whose loops run only while a flag holds: lanes of a batch that are not part of a region would run
// its loops on states that were never meant for them, and might not come to an end.
#include <algorithm>

#include "hlo/hash_map.h"
#include "hlo/rules/custom_transforms.h"
#include "hlo/rules/while_transforms.h"

namespace lamina::hlo {

using Ops = std::span<const Value>;

namespace {

Values own_operands(const Node& n) {
  Values out;
  for (size_t i = 0; i < n.operands().size(); ++i) out.push_back(n.operand_value(i));
  return out;
}

// The single regions of a node and the lists of regions.
template <typename F>
bool any_region(const Node& n, const F& f) {
  for (const auto& [key, value] : n.attrs().entries()) {
    if (const auto* one = std::get_if<ComputationPtr>(&value); one && *one && f(**one)) return true;
    if (const auto* all = std::get_if<std::vector<ComputationPtr>>(&value))
      for (const ComputationPtr& c : *all)
        if (f(*c)) return true;
  }
  return false;
}

bool needs_guard(const Node& n) {
  if (n.def().family != OpFamily::kControl) return false;
  if (n.op() == Op::while_ && !trip_count(n, own_operands(n))) return true;
  return any_region(n, may_loop);
}

// (first..., active, rest...) -> region of (first..., rest...), with `first` parameters in front; handed on
// after the first `results` results if `carried`.
absl::StatusOr<ComputationPtr> region_with_flag(const Computation& c, size_t first, bool carried) {
  std::vector<const Type*> types = c.parameter_types();
  types.insert(types.begin() + static_cast<int64_t>(first), scalar_type(DType::kBool));
  return record_region(types, [&](Builder& b, Ops p) {
    Values arguments(p.begin(), p.begin() + static_cast<int64_t>(first));
    arguments.insert(arguments.end(), p.begin() + static_cast<int64_t>(first) + 1, p.end());
    Values results = guarded_graph(b, c, arguments, p[first]);
    if (carried && b.ok()) results.insert(results.begin() + static_cast<int64_t>(first), p[first]);
    return results;
  });
}

Values with_flag_at(Ops x, size_t at, const Value& flag) {
  Values out(x.begin(), x.end());
  out.insert(out.begin() + static_cast<int64_t>(at), flag);
  return out;
}

// The node's attributes with a region, or a number, replaced.
const Attrs* changed_attrs(const Node& n, std::initializer_list<Attrs::Entry> changes) {
  std::vector<Attrs::Entry> entries = n.attrs().entries();
  for (const Attrs::Entry& change : changes) {
    const auto it = std::find_if(entries.begin(), entries.end(),
                                 [&](const Attrs::Entry& e) { return e.first == change.first; });
    if (it == entries.end())
      entries.push_back(change);
    else
      it->second = change.second;
  }
  return intern_attrs(std::move(entries));
}

Values fail(Builder& b, const absl::Status& status, const Node& n) {
  b.fail(status);
  return Values(n.num_results());
}

Values guarded_while(Builder& b, const Node& n, Ops x, const Value& active) {
  Loop loop = loop_of(n);
  if (trip_count(n, x)) {  // it ends; what is inside it may not
    absl::StatusOr<ComputationPtr> body = region_with_flag(*loop.body, x.size(), true);
    if (!body.ok()) return fail(b, body.status(), n);
    std::vector<const Type*> types = (*body)->parameter_types();
    absl::StatusOr<ComputationPtr> cond = record_region(types, [&](Builder& inner, Ops p) {
      return inline_computation(inner, *loop.cond, p.first(x.size()));
    });
    if (!cond.ok()) return fail(b, cond.status(), n);
    loop = {*std::move(cond), *std::move(body), loop.kept};
  } else {
    absl::StatusOr<Loop> flagged = guarded(loop);
    if (!flagged.ok()) return fail(b, flagged.status(), n);
    loop = *std::move(flagged);
  }
  Values results = record_loop(b, loop, with_flag_at(x, x.size(), active));
  if (b.ok()) results.pop_back();
  return results;
}

Values guarded_scan(Builder& b, const Node& n, Ops x, const Value& active) {
  const int64_t carries = n.attrs().integer(Attr::num_carry);
  const auto at = static_cast<size_t>(carries);
  absl::StatusOr<ComputationPtr> body = region_with_flag(*n.attrs().computation(Attr::body), at, true);
  if (!body.ok()) return fail(b, body.status(), n);
  Values results =
      b.make_multi(Op::scan, with_flag_at(x, at, active),
                   changed_attrs(n, {{Attr::body, *std::move(body)}, {Attr::num_carry, carries + 1}}));
  if (b.ok()) results.erase(results.begin() + carries);
  return results;
}

Values guarded_case(Builder& b, const Node& n, Ops x, const Value& active) {
  std::vector<ComputationPtr> branches;
  for (const ComputationPtr& branch : n.attrs().computations(Attr::branches)) {
    absl::StatusOr<ComputationPtr> flagged = guarded(*branch);
    if (!flagged.ok()) return fail(b, flagged.status(), n);
    branches.push_back(*std::move(flagged));
  }
  return b.make_multi(Op::case_, with_flag_at(x, x.size(), active),
                      changed_attrs(n, {{Attr::branches, std::move(branches)}}));
}

Values guarded_call(Builder& b, const Node& n, Ops x, const Value& active) {
  if (std::optional<LoopDerivative> d = loop_derivative(n)) {
    absl::StatusOr<Loop> flagged = guarded(d->loop);
    if (!flagged.ok()) return fail(b, flagged.status(), n);
    d->loop = *std::move(flagged);
    const size_t at = d->marked.size();
    d->marked.push_back(false);
    return record_loop_derivative(b, *d, with_flag_at(x, at, active));
  }
  absl::StatusOr<ComputationPtr> body = guarded(*n.attrs().computation(Attr::body));
  if (!body.ok()) return fail(b, body.status(), n);
  const Values operands = with_flag_at(x, x.size(), active);
  if (n.attrs().has(Attr::rule)) return custom_rule_guarded(b, n, *body, operands);
  return b.make_multi(Op::call, operands, changed_attrs(n, {{Attr::body, *std::move(body)}}));
}

Values guarded_node(Builder& b, const Node& n, Ops x, const Value& active) {
  switch (n.op()) {
    case Op::while_:
      return guarded_while(b, n, x, active);
    case Op::scan:
      return guarded_scan(b, n, x, active);
    case Op::case_:
      return guarded_case(b, n, x, active);
    case Op::call:
      return guarded_call(b, n, x, active);
    default:
      return b.remake(n, x);
  }
}

}  // namespace

bool may_loop(const Computation& c) {
  return std::any_of(c.nodes().begin(), c.nodes().end(), [](const Node* n) { return needs_guard(*n); });
}

Values guarded_graph(Builder& b, const Computation& c, Ops arguments, const Value& active) {
  GraphLock lock;
  HashMap<const Node*, Values> made;
  for (size_t i = 0; i < c.parameters().size(); ++i) made[c.parameters()[i].node()] = {arguments[i]};
  auto get = [&](Operand o) {
    const auto it = made.find(o.node());
    return it == made.end() ? Value(o) : it->second[o.index()];
  };
  for (const Node* n : c.nodes()) {
    if (made.contains(n)) continue;
    Values operands;
    bool changed = false;
    for (Operand o : n->operands()) {
      operands.push_back(get(o));
      changed |= !(operands.back().operand() == o);
    }
    const bool guard = needs_guard(*n);
    if (!guard && !changed) continue;
    NodeScope scope(*n);
    made[n] = guard ? guarded_node(b, *n, operands, active) : b.remake(*n, operands);
    if (!b.ok()) return Values(c.roots().size());
  }
  Values out;
  for (const Value& r : c.roots()) out.push_back(get(r.operand()));
  return out;
}

absl::StatusOr<ComputationPtr> guarded(const Computation& c) {
  return region_with_flag(c, c.parameters().size(), false);
}

absl::StatusOr<Loop> guarded(const Loop& loop) {
  const size_t n = loop.body->parameters().size();
  absl::StatusOr<ComputationPtr> body = region_with_flag(*loop.body, n, true);
  if (!body.ok()) return body.status();
  absl::StatusOr<ComputationPtr> cond = record_region((*body)->parameter_types(), [&](Builder& b, Ops p) {
    const Values go = guarded_graph(b, *loop.cond, p.first(n), p[n]);
    return Values{b.ok() ? b.and_(p[n], go[0]) : Value()};
  });
  if (!cond.ok()) return cond.status();
  return Loop{*std::move(cond), *std::move(body), loop.kept};
}

}  // namespace lamina::hlo
