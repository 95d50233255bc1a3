// Reverse mode goes tile by tile where steps compute element by element (loop_tiles.cc), by a log of what
// steps leave where that is little of a large state (loop_log.cc), else by states that are kept
// (loop_states.cc).
//
// Second derivatives need no derivative of how it goes. With J the Jacobian of the loop, reverse mode gives
// J' ct, whose derivative along (dx, dct) is J' dct + (dJ dx)' ct: as second derivatives are symmetric, it is
// the x part of reverse mode through the loop of carries and tangents, from (x, dx) with cotangents (dct,
// ct). Where the user's rules say what derivatives are, they need not be symmetric: there it is that of how
// it goes after all.
#include "trace/rules/loop_derivatives.h"

#include <algorithm>
#include <array>

#include "trace/lanes.h"
#include "trace/rules/custom.h"
#include "trace/rules/lane_loops.h"
#include "trace/rules/loop_log.h"
#include "trace/transform_memo.h"

namespace lamina::trace {

namespace {

constexpr std::array<std::string_view, 4> kDirections = {"forward", "reverse", "forward of reverse",
                                                         "primal"};

// Types of the marked ones, appended.
void append_marked(std::vector<const Type*>* types, const Computation& c, Marks marked) {
  for (size_t i = 0; i < marked.size(); ++i)
    if (marked[i]) types->push_back(c.parameters()[i].type());
}

// The loop over (carries, tangents of the marked ones).
absl::StatusOr<Loop> tangent_loop(const Loop& loop, const Mask& marked) {
  absl::StatusOr<JvpComputation> derived = jvp_computation(*loop.body, marked, marked, JvpMode::kLinearize);
  if (!derived.ok()) return derived.status();
  const std::vector<const Type*> types = derived->body->parameter_types();
  absl::StatusOr<ComputationPtr> cond = with_parameters(*loop.cond, std::span(types).subspan(marked.size()));
  if (!cond.ok()) return cond.status();
  return Loop{*std::move(cond), derived->body, loop.kept, loop.steps};
}

// (carries, cotangents of the marked results) -> cotangents of the marked carries, for one step.
absl::StatusOr<ComputationPtr> step_back(const Loop& loop, const Mask& marked) {
  absl::StatusOr<JvpComputation> derived = jvp_computation(*loop.body, marked, marked, JvpMode::kLinearize);
  if (!derived.ok()) return derived.status();
  const Computation& both = *derived->body;
  const size_t n = marked.size();
  absl::StatusOr<ComputationPtr> tangents = Computation::make(both.parameters(), both.roots().subspan(n));
  if (!tangents.ok()) return tangents;
  Mask linear(both.parameters().size(), false);
  std::fill(linear.begin() + static_cast<int64_t>(n), linear.end(), true);
  return transpose_computation(**tangents, linear, Mask(count(marked), true));
}

// Marks of the loop of carries and tangents: the marked carries, and all tangents.
Mask with_tangents(const Mask& marked) {
  Mask out = marked;
  out.resize(marked.size() + count(marked), true);
  return out;
}

// Cotangents by reverse mode through (x, dx), by the marked x.
Values reverse_of_forward(Builder& b, const LoopDerivative& d, Ops x, Ops dx, Ops ct_x, Ops ct_dx) {
  absl::StatusOr<Loop> both = tangent_loop(d.loop, d.marked);
  const size_t m = dx.size();
  if (!get_or_fail(b, both)) return Values(m);
  const Values operands = joined(joined(x, dx), joined(ct_x, ct_dx));
  Values out = record_loop_derivative(b, {LoopDirection::kReverse, *std::move(both), with_tangents(d.marked)},
                                      operands);
  out.resize(m);
  return out;
}

// How reverse mode goes through a loop: the first of these that is there, else by its states.
struct Ways {
  std::optional<TiledLoop> tiles;
  std::optional<StepLog> log;
};
absl::StatusOr<Ways> ways_through(const Loop& loop, const Mask& marked, const Mask& given = {}) {
  Ways out;
  if (loop.kept != 0) return out;
  absl::StatusOr<std::optional<TiledLoop>> tiles = TiledLoop::of(loop, marked);
  if (!tiles.ok()) return tiles.status();
  out.tiles = *std::move(tiles);
  if (out.tiles) return out;
  absl::StatusOr<std::optional<StepLog>> log = StepLog::of(loop, marked, given);
  if (!log.ok()) return log.status();
  out.log = *std::move(log);
  return out;
}

Values reversed(Builder& b, const LoopDerivative& d, Ops x, Ops ct) {
  const absl::StatusOr<Ways> ways = ways_through(d.loop, d.marked, d.given);
  if (!get_or_fail(b, ways)) return Values(ct.size());
  if (ways->tiles) return ways->tiles->record(b, x, ct);
  if (ways->log) return ways->log->record(b, x, ct);
  const absl::StatusOr<ComputationPtr> back = step_back(d.loop, d.marked);
  const absl::StatusOr<Loop> loop = differentiated(d.loop, d.marked);
  if (!get_or_fail(b, back) || !get_or_fail(b, loop)) return Values(ct.size());
  return reversed_by_states(b, *loop, d.marked, *back, x, ct);
}

Values run(Builder& b, const Loop& loop, const Mask& marked, Ops x) {
  const absl::StatusOr<Ways> ways = ways_through(loop, marked);
  if (!get_or_fail(b, ways)) return Values(x.size());
  if (ways->tiles) return ways->tiles->primal(b, x);
  if (ways->log) return ways->log->primal(b, x);
  const absl::StatusOr<Loop> steps = differentiated(loop, marked);
  if (!get_or_fail(b, steps)) return Values(x.size());
  return run_by_states(b, *steps, marked, x);
}

absl::StatusOr<ComputationPtr> expansion(const LoopDerivative& d) {
  const size_t n = d.marked.size(), m = count(d.marked);
  std::vector<const Type*> types = d.loop.body->parameter_types();
  const int groups = d.direction == LoopDirection::kPrimal             ? 0
                     : d.direction == LoopDirection::kForwardOfReverse ? 3
                                                                       : 1;
  for (int i = 0; i < groups; ++i) append_marked(&types, *d.loop.body, d.marked);
  return record_region(types, [&](Builder& b, Ops p) {
    const Ops x = p.first(n);
    if (d.direction == LoopDirection::kPrimal) return run(b, d.loop, d.marked, x);
    const Ops first = p.subspan(n, m);
    if (d.direction == LoopDirection::kReverse) return reversed(b, d, x, first);
    if (d.direction == LoopDirection::kForwardOfReverse)
      return reverse_of_forward(b, d, x, p.subspan(n + m, m), p.subspan(n + 2 * m, m), first);
    const absl::StatusOr<Loop> both = tangent_loop(d.loop, d.marked);
    if (!get_or_fail(b, both)) return Values(m);
    const Values out = record_loop(b, *both, p);
    if (!b.ok()) return Values(m);
    return Values(out.begin() + static_cast<int64_t>(n), out.end());
  });
}

}  // namespace

std::optional<LoopDerivative> loop_derivative(const Node& call) {
  if (call.op() != Op::call || !call.attrs().has(Attr::direction)) return std::nullopt;
  const auto& regions = call.attrs().computations(Attr::branches);
  LoopDerivative out;
  const auto named = std::find(kDirections.begin(), kDirections.end(), call.attrs().string(Attr::direction));
  if (named == kDirections.end() || regions.size() != 2) return std::nullopt;
  out.direction = static_cast<LoopDirection>(named - kDirections.begin());
  out.loop = {regions[0], regions[1], call.attrs().integer(Attr::length)};
  if (call.attrs().has(Attr::known_trip_count)) out.loop.steps = call.attrs().integer(Attr::known_trip_count);
  out.marked.assign(regions[1]->parameters().size(), false);
  const auto mark = [&call](Attr name, Mask* mask) {
    for (int64_t i : call.attrs().ints(name))
      if (i >= 0 && i < static_cast<int64_t>(mask->size())) (*mask)[i] = true;
  };
  mark(Attr::dimensions, &out.marked);
  if (call.attrs().has(Attr::sources)) {
    out.given.assign(out.marked.size(), false);
    mark(Attr::sources, &out.given);
  }
  return out;
}

namespace {

Values called(Builder& b, const LoopDerivative& d, const ComputationPtr& program, Ops operands) {
  const auto numbers = [](const Mask& mask) {
    Dims out;
    for (size_t i = 0; i < mask.size(); ++i)
      if (mask[i]) out.push_back(static_cast<int64_t>(i));
    return out;
  };
  std::vector<Attrs::Entry> attrs{
      {Attr::body, program},
      {Attr::direction, std::string(kDirections[static_cast<size_t>(d.direction)])},
      {Attr::branches, std::vector<ComputationPtr>{d.loop.cond, d.loop.body}},
      {Attr::dimensions, numbers(d.marked)},
      {Attr::length, d.loop.kept}};
  if (d.loop.steps) attrs.emplace_back(Attr::known_trip_count, *d.loop.steps);
  if (!d.given.empty()) attrs.emplace_back(Attr::sources, numbers(d.given));
  return b.make_multi(Op::call, operands, intern_attrs(std::move(attrs)));
}

}  // namespace

Values record_loop_derivative(Builder& b, const LoopDerivative& d, Ops operands) {
  const Values failed(d.direction == LoopDirection::kPrimal ? operands.size() : count(d.marked));
  if (!b.ok() || failed.empty()) return failed;
  absl::StatusOr<ComputationPtr> body = remembered_as<ComputationPtr>(
      {d.loop.cond.get(), d.loop.body.get()},
      option_text(str_cat(kDirections[static_cast<size_t>(d.direction)], "/", d.loop.steps.value_or(-1)),
                  {d.marked, d.given}, d.loop.kept),
      [&] { return expansion(d); });
  if (!get_or_fail(b, body)) return failed;
  const Values out = called(b, d, *body, operands);
  return b.ok() ? out : failed;
}

Values record_loop_as(Builder& b, const Loop& loop, const ComputationPtr& program, Ops carries) {
  if (!b.ok()) return Values(carries.size());
  return called(b, {LoopDirection::kPrimal, loop, Mask(carries.size(), false)}, program, carries);
}

namespace {

// Whether x[first, last) have a tangent.
bool any_in(Ops t, size_t first, size_t last) { return any(t.subspan(first, last - first)); }

Values tangents_or_zeros(Builder& b, Ops t, Ops x) {
  Values out;
  for (size_t i = 0; i < x.size(); ++i) out.push_back(or_zeros(b, t[i], x[i]));
  return out;
}

// The derivative of tangents, the last results of the loop of carries and tangents.
Values forward_tangents(Builder& b, const LoopDerivative& d, Ops x, Ops t) {
  const size_t n = d.marked.size(), m = count(d.marked);
  Values out(m);
  if (!any_in(t, 0, n))
    return record_loop_derivative(b, d, joined(x.first(n), tangents_or_zeros(b, t.subspan(n), x.subspan(n))));
  const absl::StatusOr<Loop> both = tangent_loop(d.loop, d.marked);
  if (!get_or_fail(b, both)) return out;
  const absl::StatusOr<Mask> marks = closed_marks(*both->body, present(t));
  if (!get_or_fail(b, marks)) return out;
  Values operands(x.begin(), x.end());
  for (size_t i = 0; i < x.size(); ++i)
    if ((*marks)[i]) operands.push_back(or_zeros(b, t[i], x[i]));
  const Values all = record_loop_derivative(b, {LoopDirection::kForward, *both, *marks}, operands);
  size_t next = 0;
  for (size_t i = 0; i < n + m; ++i) {
    if (!(*marks)[i]) continue;
    if (i >= n) out[i - n] = all[next];
    ++next;
  }
  return out;
}

// The derivative of cotangents; of other carries that have tangents there are cotangents too, of results
// without.
Values reverse_tangents(Builder& b, const LoopDerivative& d, Ops x, Ops t) {
  const size_t n = d.marked.size(), m = count(d.marked);
  const Values ct_tangents = tangents_or_zeros(b, t.subspan(n), x.subspan(n));
  if (!any_in(t, 0, n)) return record_loop_derivative(b, d, joined(x.first(n), ct_tangents));
  Mask wide = d.marked;
  for (size_t i = 0; i < n; ++i) wide[i] = wide[i] || t[i];
  const absl::StatusOr<Mask> marks = closed_marks(*d.loop.body, wide);
  if (!get_or_fail(b, marks)) return Values(m);
  Values ct, dx, dct;
  size_t at = 0;
  for (size_t i = 0; i < n; ++i) {
    if (!(*marks)[i]) continue;
    dx.push_back(or_zeros(b, t[i], x[i]));
    ct.push_back(d.marked[i] ? x[n + at] : b.zeros_like(x[i]));
    dct.push_back(d.marked[i] ? ct_tangents[at] : b.zeros_like(x[i]));
    at += d.marked[i];
  }
  const Values all = record_loop_derivative(b, {LoopDirection::kForwardOfReverse, d.loop, *marks},
                                            joined(joined(x.first(n), ct), joined(dx, dct)));
  Values out;
  at = 0;
  for (size_t i = 0; i < n; ++i) {
    if (!(*marks)[i]) continue;
    if (d.marked[i]) out.push_back(all[at]);
    ++at;
  }
  return out;
}

}  // namespace

namespace {

// The loop that kPrimal runs, as it was recorded.
Values primal_loop(Builder& b, const LoopDerivative& d, const Node& node) {
  const absl::StatusOr<Loop> loop = differentiated(d.loop, d.marked);
  return get_or_fail(b, loop) ? record_loop(b, *loop, own_operands(node)) : Values(node.num_results());
}

}  // namespace

bool derived_as_recorded(const LoopDerivative& d, Ops t) {
  return d.direction == LoopDirection::kReverse && any_in(t, 0, d.marked.size()) &&
         anywhere(*d.loop.body, [](const Node& n) { return n.op() == Op::call && has_custom_rule(n); });
}

JvpResult loop_derivative_jvp(Builder& b, const LoopDerivative& d, const Node& node, Ops x, Ops t,
                              JvpMode mode) {
  const size_t n = d.marked.size(), m = count(d.marked);
  if (d.direction == LoopDirection::kPrimal) {
    const Values loop = primal_loop(b, d, node);
    if (!b.ok()) return {Values(n), {}};
    const Node& plain = *loop[0].node();
    return mode == JvpMode::kForward ? while_jvp(b, plain, x, t) : while_linearize(b, plain, x, t);
  }
  JvpResult out{Values(m), results_of(b, node, x)};
  if (d.direction == LoopDirection::kForward) {
    out.tangents = forward_tangents(b, d, x, t);
  } else if (d.direction == LoopDirection::kReverse) {
    out.tangents = reverse_tangents(b, d, x, t);
  } else if (!any_in(t, 0, n + m)) {
    out.tangents = record_loop_derivative(
        b, d, joined(x.first(n + m), tangents_or_zeros(b, t.subspan(n + m), x.subspan(n + m))));
  } else {
    // It is part of reverse mode through (x, dx) with cotangents (dct, ct).
    absl::StatusOr<Loop> both = tangent_loop(d.loop, d.marked);
    if (!get_or_fail(b, both)) return out;
    auto in_order = [&](Ops v) {
      return joined(joined(v.first(n), v.subspan(n + m, m)),
                    joined(v.subspan(n + 2 * m, m), v.subspan(n, m)));
    };
    const LoopDerivative reverse{LoopDirection::kReverse, *std::move(both), with_tangents(d.marked)};
    out.tangents = reverse_tangents(b, reverse, in_order(x), in_order(t));
    out.tangents.resize(m);
  }
  return out;
}

Values loop_derivative_transpose(Builder& b, const LoopDerivative& d, Ops x, Marks linear, Ops ct) {
  const size_t n = d.marked.size(), m = count(d.marked);
  Values out(x.size());
  const size_t fixed = d.direction == LoopDirection::kForwardOfReverse ? n + m : n;
  if (std::find(linear.begin(), linear.begin() + static_cast<int64_t>(fixed), true) !=
      linear.begin() + static_cast<int64_t>(fixed)) {
    b.fail(absl::InvalidArgumentError("cannot transpose the derivative of a while loop by its carries"));
    return out;
  }
  Values v;
  Mask given(n, false);
  for (size_t i = 0, at = 0; i < n; ++i) {
    if (!d.marked[i]) continue;
    given[i] = static_cast<bool>(ct[at]);
    v.push_back(given[i] ? ct[at] : b.zeros_like(x[i]));
    ++at;
  }
  if (given == d.marked) given.clear();
  auto set = [&](size_t from, const Values& values) {
    std::copy(values.begin(), values.end(), out.begin() + static_cast<int64_t>(from));
  };
  auto other_way = [&](LoopDirection direction, Mask from = {}) {
    return record_loop_derivative(b, {direction, d.loop, d.marked, std::move(from)}, joined(x.first(n), v));
  };
  if (d.direction == LoopDirection::kForward) set(n, other_way(LoopDirection::kReverse, std::move(given)));
  if (d.direction == LoopDirection::kReverse) set(n, other_way(LoopDirection::kForward));
  if (d.direction == LoopDirection::kForwardOfReverse) {
    Values none;
    for (const Value& value : v) none.push_back(b.zeros_like(value));
    set(n + m, reverse_of_forward(b, d, x.first(n), v, none, x.subspan(n, m)));
    set(n + 2 * m, other_way(LoopDirection::kForward));
  }
  for (size_t i = 0; i < out.size(); ++i)
    if (!linear[i]) out[i] = Value();
  return out;
}

namespace {

// The derivative of a loop over lanes, whose last carry says which go on if they end apart.
Values of_lanes(Builder& b, const LoopDerivative& d, const Loop& lanes, Ops carries, Ops given) {
  LoopDerivative wide{d.direction, lanes, d.marked};
  wide.marked.resize(carries.size(), false);
  return record_loop_derivative(b, wide, joined(carries, given));
}

// Of the loop that lane_loops.cc makes of it: steps of all lanes, then those of the lanes that are left, one
// by one.
Values derivative_by_cost(Builder& b, const LoopDerivative& d, const Node& node, const LanesLoop& lanes,
                          Ops carries, Ops given, int64_t size) {
  const size_t n = d.marked.size();
  const std::optional<LanesLoop> together = while_enough(b, d.loop, lanes, size);
  if (!together) return Values(given.size());
  const hlo::LocationScope place(place_of_lanes("together while many go on"));
  Values state = record_loop(b, together->loop, carries);
  state.resize(n);
  Mask batched = lanes.batched;
  batched.resize(n + given.size(), true);
  const auto left = [&](Ops values) {
    const hlo::LocationScope apart(place_of_lanes("that are left one by one"));
    Values out = those_left(b, lanes, state, values, [&](Builder& in, Ops p, Ops q) {
      return joined(p, batch_by_scan(in, node, joined(p, q), batched, size).results);
    });
    out.erase(out.begin(), out.begin() + static_cast<int64_t>(n));
    return out;
  };
  if (!b.ok()) return Values(given.size());
  if (d.direction == LoopDirection::kForward) return left(of_lanes(b, d, together->loop, carries, given));
  return of_lanes(b, d, together->loop, carries, left(given));
}

}  // namespace

JvpResult loop_linearize(Builder& b, const Loop& loop, Ops x, Ops t) {
  const size_t n = x.size();
  const JvpResult failed{Values(n), {}};
  const absl::StatusOr<Mask> marks = closed_marks(*loop.body, present(t));
  if (!get_or_fail(b, marks)) return failed;
  Values operands(x.begin(), x.end());
  JvpResult out{Values(n), record_loop_derivative(b, {LoopDirection::kPrimal, loop, *marks}, x)};
  for (size_t i = 0; i < n; ++i)
    if ((*marks)[i]) operands.push_back(or_zeros(b, t[i], x[i]));
  const Values tangents = record_loop_derivative(b, {LoopDirection::kForward, loop, *marks}, operands);
  if (!b.ok()) return failed;
  size_t next = 0;
  for (size_t i = 0; i < n; ++i)
    if ((*marks)[i]) out.tangents[i] = tangents[next++];
  return out;
}

BatchResult loop_derivative_batch(Builder& b, const LoopDerivative& d, const Node& node, Ops x, Marks batched,
                                  int64_t size) {
  const size_t n = d.marked.size();
  if (d.direction == LoopDirection::kPrimal) {
    const Values loop = primal_loop(b, d, node);
    return b.ok() ? while_batch(b, *loop[0].node(), x, batched, size) : all_batched(Values(n));
  }
  BatchResult out = all_batched(Values(count(d.marked)));
  Mask marks(batched.begin(), batched.begin() + static_cast<int64_t>(n));
  for (size_t i = 0; i < n; ++i) marks[i] = marks[i] || d.marked[i];
  std::optional<LanesLoop> lanes = lanes_loop(b, d.loop, marks, size, false);
  if (!lanes) return out;
  // What is not finite in a lane stays there if each element is one.
  const bool of_elements = TiledLoop::has_lanes_of_elements(lanes->loop);
  if (!of_elements) lanes = lanes_loop(b, d.loop, marks, size, true);
  if (!lanes) return out;
  if (lanes->go && (has_stack(d.loop) || lanes_apart(node))) return batch_by_scan(b, node, x, batched, size);
  const Values carries = lanes_carries(b, *lanes, x.first(n), batched.first(n), size);
  Values given;
  for (size_t i = n; i < x.size(); ++i) given.push_back(with_batch(b, x[i], batched[i], size));
  if (!b.ok()) return out;
  const bool by_cost = lanes->go && lane_strategy() == LaneStrategy::kAuto && !exchanges(node) &&
                       few_lanes(d.loop, size) > 0 && !of_elements &&
                       d.direction != LoopDirection::kForwardOfReverse;
  std::optional<hlo::LocationScope> place;
  if (lanes->go && !by_cost) place.emplace(place_of_lanes("together until the last has ended"));
  out.results = by_cost ? derivative_by_cost(b, d, node, *lanes, carries, given, size)
                        : of_lanes(b, d, lanes->loop, carries, given);
  return out;
}

}  // namespace lamina::trace
