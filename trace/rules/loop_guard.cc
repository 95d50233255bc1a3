// Regions whose loops run only while a flag holds: lanes of a batch that are not part of a region would run
// its loops on states that were never meant for them, and might not come to an end.
#include "trace/rules/loop_guard.h"

#include "hlo/graph_copy.h"
#include "trace/rules/custom.h"
#include "trace/rules/loop_derivatives.h"

namespace lamina::trace {

namespace {

bool has_no_known_end(const Node& n) { return n.op() == Op::while_ && !trip_count(n, own_operands(n)); }

bool needs_guard(const Node& n) {
  return n.def().family == OpFamily::kControl && anywhere(n, has_no_known_end);
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

Values fail(Builder& b, const absl::Status& status, const Node& n) {
  b.fail(status);
  return Values(n.num_results());
}

Values guarded_while(Builder& b, const Node& n, Ops x, const Value& active) {
  Loop loop = loop_of(n);
  if (trip_count(n, x)) {  // it ends; what is inside it may not
    absl::StatusOr<ComputationPtr> body = region_with_flag(*loop.body, x.size(), true);
    if (!body.ok()) return fail(b, body.status(), n);
    absl::StatusOr<ComputationPtr> cond = with_parameters(*loop.cond, {{active.type()}});
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
  const Attrs* attrs =
      with_attr(*with_attr(n.attrs(), Attr::body, *std::move(body)), Attr::num_carry, carries + 1);
  Values results = b.make_multi(Op::scan, with_flag_at(x, at, active), attrs);
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
                      with_attr(n.attrs(), Attr::branches, std::move(branches)));
}

Values guarded_call(Builder& b, const Node& n, Ops x, const Value& active) {
  if (std::optional<LoopDerivative> d = loop_derivative(n)) {
    absl::StatusOr<Loop> flagged = guarded(d->loop);
    if (!flagged.ok()) return fail(b, flagged.status(), n);
    d->loop = *std::move(flagged);
    const size_t at = d->marked.size();
    d->marked.push_back(false);
    if (!d->given.empty()) d->given.push_back(false);
    return record_loop_derivative(b, *d, with_flag_at(x, at, active));
  }
  absl::StatusOr<ComputationPtr> body = guarded(*n.attrs().computation(Attr::body));
  if (!body.ok()) return fail(b, body.status(), n);
  const Values operands = with_flag_at(x, x.size(), active);
  if (has_custom_rule(n)) return custom_rule_guarded(b, n, *body, operands);
  return b.make_multi(Op::call, operands, with_attr(n.attrs(), Attr::body, *std::move(body)));
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

bool may_loop(const Computation& c) { return anywhere(c, has_no_known_end); }

Values guarded_graph(Builder& b, const Computation& c, Ops arguments, const Value& active) {
  GraphLock lock;
  GraphCopy copy(c.parameters(), arguments);
  const bool made = copy.extend(b, c.nodes(), [&](const Node& n, Ops operands) {
    NodeScope scope(n);
    return needs_guard(n) ? guarded_node(b, n, operands, active) : results_of(b, n, operands);
  });
  return made ? copy(c.roots()) : Values(c.roots().size());
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

}  // namespace lamina::trace
