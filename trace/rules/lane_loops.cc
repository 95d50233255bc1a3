// What lanes that differ cost together, and one after the other.
//
// A step of all lanes together costs less than one of each by itself, but lanes that have ended go along. So
// lanes go together while enough of them take steps, and those that are left go one after the other, from
// where they are. What this costs is then at most what it costs to take every lane by itself, and the state
// written and read once more. Loops over numbers do it in rounds: steps of such lanes together are one
// kernel, in which every pack of lanes stops by itself, so that only between rounds is it known how many go
// on. Where each lane of many is an element of the arrays, those that are left are few of every pack: they go
// on in arrays of their own, packed again.
#include "trace/rules/lane_loops.h"

#include <limits>

#include "hlo/op.h"
#include "hlo/printer.h"
#include "hlo/regions.h"
#include "hlo/scalar/program.h"
#include "trace/lanes.h"
#include "trace/rules/loop_derivatives.h"
#include "trace/rules/loop_guard.h"
#include "trace/transform_memo.h"

namespace lamina::trace {

Value select_lanes(Builder& b, const Value& pred, const Value& value, const Value& other) {
  if (!value || value == other) return value;
  return b.select(b.broadcast_in_dim(pred, value.dims(), {{0}}), value, other);
}

Value derived_here(Builder& b, const Value& here, const Value& x) {
  return has_tangent(x.type()) ? select_lanes(b, here, x, b.stop_gradient(x)) : x;
}

namespace {

// `x` with the rows of lanes that stopped replaced by that of the first lane that goes on.
Value lanes_that_go_on(Builder& b, const Value& go, const Value& x, int64_t size) {
  const Value numbers = b.iota(DType::kS64, {{size}}, 0);
  const Value none = b.full_like(numbers, static_cast<double>(size - 1));
  const Value first =
      b.reduce(b.select(go, numbers, none), Op::minimum, b.scalar_int(DType::kS64, size - 1), {{0}});
  return select_lanes(b, go, x, with_batch(b, row_at(b, x, first), false, size));
}

// The loop whose lanes stop each by itself: one more carry says which lanes go on. It runs while any does;
// the others keep what they have, and run no loop inside.
absl::StatusOr<Loop> masked(const Loop& loop, const ComputationPtr& body, const ComputationPtr& cond,
                            Marks marks, int64_t size, bool finite) {
  const size_t n = marks.size();
  ComputationPtr step_body = body, step_cond = cond;
  const bool guard = may_loop(*loop.body) || may_loop(*loop.cond);
  if (guard) {
    Mask with_flag(marks.begin(), marks.end());
    with_flag.push_back(true);
    absl::StatusOr<ComputationPtr> inner_body = guarded(*loop.body), inner_cond = guarded(*loop.cond);
    if (!inner_body.ok()) return inner_body.status();
    if (!inner_cond.ok()) return inner_cond.status();
    absl::StatusOr<BatchComputation> lanes_body = batch_computation(**inner_body, with_flag, marks, size);
    if (!lanes_body.ok()) return lanes_body.status();
    absl::StatusOr<BatchComputation> lanes_cond = batch_computation(**inner_cond, with_flag, {{true}}, size);
    if (!lanes_cond.ok()) return lanes_cond.status();
    step_body = lanes_body->body;
    step_cond = lanes_cond->body;
  }
  std::vector<const Type*> types = body->parameter_types();
  types.push_back(batched_type(scalar_type(DType::kBool), size));
  absl::StatusOr<ComputationPtr> go = record_region(types, [&](Builder& b, Ops p) {
    return Values{b.reduce(p[n], Op::or_, b.scalar_int(DType::kBool, 0), {{0}})};
  });
  if (!go.ok()) return go.status();
  absl::StatusOr<ComputationPtr> step = record_region(types, [&](Builder& b, Ops p) {
    Values at(p.begin(), p.end());
    for (size_t i = 0; i < n; ++i)
      if (marks[i] && size > 0)
        at[i] = finite ? lanes_that_go_on(b, p[n], p[i], size) : derived_here(b, p[n], p[i]);
    if (!b.ok()) return Values(n + 1);
    Values next = inline_computation(b, *step_body, guard ? Ops(at) : Ops(at).first(n));
    for (size_t i = 0; i < n; ++i)
      if (marks[i]) next[i] = is_invariant(*loop.body, i) ? p[i] : select_lanes(b, p[n], next[i], p[i]);
    if (!b.ok()) return next;
    Values tested = next;
    if (guard) tested.push_back(p[n]);
    const Value more = inline_computation(b, *step_cond, tested)[0];
    next.push_back(b.ok() ? b.and_(p[n], more) : Value());
    return next;
  });
  if (!step.ok()) return step.status();
  return Loop{*std::move(go), *std::move(step), loop.kept};
}

}  // namespace

std::optional<LanesLoop> lanes_loop(Builder& b, const Loop& loop, Mask marks, int64_t size, bool finite) {
  const size_t n = marks.size();
  const Mask one_false(1, false);
  absl::StatusOr<BatchComputation> body, cond;
  while (true) {
    body = batch_computation(*loop.body, marks, marks, size);
    if (!get_or_fail(b, body)) return std::nullopt;
    Mask grown = body->results;
    cond = batch_computation(*loop.cond, grown, one_false, size);
    if (!get_or_fail(b, cond)) return std::nullopt;
    // Lanes that stop at different steps differ in every carry that a step changes.
    if (cond->results[0])
      for (size_t i = 0; i < n; ++i) grown[i] = grown[i] || !is_invariant(*loop.body, i);
    if (grown == marks) break;
    marks = grown;
  }
  if (!cond->results[0]) return LanesLoop{{cond->body, body->body, loop.kept}, marks, nullptr};
  absl::StatusOr<Loop> lanes = masked(loop, body->body, cond->body, marks, size, finite);
  if (!get_or_fail(b, lanes)) return std::nullopt;
  return LanesLoop{*std::move(lanes), marks, cond->body};
}

Values lanes_carries(Builder& b, const LanesLoop& lanes, Ops x, Marks batched, int64_t size) {
  Values out;
  for (size_t i = 0; i < x.size(); ++i)
    out.push_back(lanes.batched[i] ? with_batch(b, x[i], batched[i], size) : x[i]);
  if (!lanes.go) return out;
  const Values started = inline_computation(b, *lanes.go, out);
  out.push_back(b.ok() ? started[0] : Value());
  return out;
}

namespace {

constexpr int64_t kSmallRow = 8, kLongArray = 64;
// Instructions of a step that is surely one kernel of a lane. Of more, vectors of many lanes save more time
// than a step of the program for each step of the loop costs.
constexpr int64_t kMostOfKernel = 128;

// Whether a node's result is its first operand but for one place that it writes: the number of the operand
// with what it writes there.
std::optional<uint32_t> writes(const Node& n) {
  if (n.op() == Op::dynamic_update_slice) return 1;
  if (n.op() != Op::scatter || n.num_results() != 1 || !has_one_index_vector(n)) return std::nullopt;
  return 2;
}

// Whether a computation holds nothing but what joins the kernel of a loop over arrays, and how much of it.
bool joins_kernel(const Computation& c, int64_t& instructions) {
  for (const Node* n : c.nodes()) {
    instructions += n->def().is_elementwise()
                        ? n->type()->num_elements * static_cast<int64_t>(hlo::scalar_program(*n).code.size())
                        : 1;
    if (instructions > kMostOfKernel) return false;
    for (const ComputationPtr& region : regions_of(*n))
      if (!joins_kernel(*region, instructions)) return false;
    switch (n->op()) {
      case Op::parameter:
      case Op::constant:
      case Op::iota:
      case Op::broadcast_in_dim:
      case Op::reshape:
      case Op::slice:
      case Op::concatenate:
      case Op::reduce:
      case Op::dynamic_slice:
      case Op::gather:
      case Op::call:
      case Op::case_:
      case Op::while_:
      case Op::scan:
        break;
      default:
        if (!n->def().is_elementwise() && !writes(*n)) return false;
    }
  }
  return true;
}

// Whether a computation makes numbers, and arrays only by writing some rows.
bool makes_numbers(const Computation& c) {
  for (const Node* n : c.nodes()) {
    for (const ComputationPtr& region : regions_of(*n))
      if (!makes_numbers(*region)) return false;
    const std::optional<uint32_t> written = writes(*n);
    const bool writes_row = written && n->operand_type(*written)->num_elements <= kSmallRow;
    if (n->op() == Op::parameter || n->op() == Op::constant || n->op() == Op::broadcast_in_dim ||
        n->op() == Op::call || writes_row)
      continue;
    for (uint32_t i = 0; i < n->num_results(); ++i)
      if (!n->result_type(i)->is_array() || n->result_type(i)->num_elements > kSmallRow) return false;
  }
  return true;
}

}  // namespace

bool makes_numbers(const Loop& loop) { return makes_numbers(*loop.body) && makes_numbers(*loop.cond); }

bool has_stack(const Loop& loop) {
  const Computation& body = *loop.body;
  bool found = false;
  for (size_t i = 0; i < body.roots().size(); ++i) {
    const Value& root = body.roots()[i];
    if (!root.type()->is_array()) return false;
    found = found || (root.type()->num_elements >= kLongArray && writes(*root.node()));
  }
  return found && makes_numbers(loop);
}

bool writes_apart(const Computation& step, const Computation& of_lanes) {
  int64_t instructions = 0;
  if (!makes_numbers(step) || !joins_kernel(step, instructions)) return false;
  return anywhere(of_lanes, [](const Node& n) {
    return n.op() == Op::scatter && !n.attrs().ints(Attr::input_batching_dims).empty();
  });
}

// --- lanes by cost ---

namespace {

// Lanes go together while one in so many takes part: of loops over numbers, whose lanes are then the elements
// of vectors, and of others, which gain by longer dots and fewer steps of the program.
constexpr int64_t kOneNumberIn = 12, kOneArrayIn = 4;
// Of lanes that are elements, those that go on get arrays of their own once they are one in so many, so
// often.
constexpr int64_t kOneElementIn = 2;
constexpr int kPackings = 2;
// Steps of the first round, and how many times as long each next one is; of lanes that are elements, which
// cost little where their packs have stopped, so many that most loops end in it. No round is longer than the
// last number.
struct Rounds {
  int32_t first, longer;
};
constexpr Rounds kRounds{32, 2}, kRoundsOfElements{128, 4};
constexpr int32_t kLongestRound = 1 << 29;
// Fewer lanes that are elements are not worth the programs that pack them.
constexpr int64_t kLeastPacked = 1024;
// What it costs to take one lane by itself through a branch, in elements computed.
constexpr int64_t kLaneCost = 4096;
// Steps that a loop without a known end is taken to have.
constexpr int64_t kSomeSteps = 16;

// Whether more than `few` lanes go on; go: one bool per lane.
Value more_than(Builder& b, const Value& go, int64_t few) {
  const DType t = go.type()->num_elements <= std::numeric_limits<int32_t>::max() ? DType::kS32 : DType::kS64;
  const Value lanes = b.reduce(b.convert(go, t), Op::add, b.scalar_int(t, 0), {{0}});
  return b.compare(lanes, b.scalar_int(t, few), "GT");
}

Values goes_on(Builder& b, const LanesLoop& lanes, Ops state) {
  return inline_computation(b, *lanes.go, state);
}

Value steps_of(Builder& b, int32_t n) { return b.scalar_int(DType::kS32, n); }

// The loop for at most as many steps as its last carry says, counted in the one before it. The count is of
// each lane, and so of few bytes.
absl::StatusOr<Loop> limited(const Loop& loop) {
  std::vector<const Type*> types = loop.body->parameter_types();
  const size_t n = types.size();
  types.resize(n + 2, scalar_type(DType::kS32));
  absl::StatusOr<ComputationPtr> cond = record_region(types, [&](Builder& b, Ops p) {
    const Values go = inline_computation(b, *loop.cond, p.first(n));
    return Values{b.ok() ? b.and_(b.compare(p[n], p[n + 1], "LT"), go[0]) : Value()};
  });
  if (!cond.ok()) return cond.status();
  absl::StatusOr<ComputationPtr> body = record_region(types, [&](Builder& b, Ops p) {
    return joined(inline_computation(b, *loop.body, p.first(n)), {{b.add(p[n], steps_of(b, 1)), p[n + 1]}});
  });
  if (!body.ok()) return body.status();
  return Loop{*std::move(cond), *std::move(body), loop.kept};
}

// Lanes together, in rounds, while more than `few` go on: the carries then.
Values in_rounds(Builder& b, const Loop& loop, const LanesLoop& lanes, Ops carries, int64_t few, int64_t size,
                 Rounds rounds) {
  const size_t n = carries.size();
  const absl::StatusOr<Loop> some = limited(loop);
  if (!get_or_fail(b, some)) return Values(n);
  Mask marks = lanes.batched;
  marks.resize(n + 2, false);
  const std::optional<LanesLoop> round = lanes_loop(b, *some, marks, size, false);
  if (!round) return Values(n);
  const hlo::LocationScope place(place_of_lanes("together, in rounds, while many go on"));
  // What a round leaves, and the steps of the next one.
  const auto after_round = [&](Builder& in, Ops p) {
    const Values start = joined(p.first(n), {{steps_of(in, 0), p[n]}});
    Values next = record_loop(in, round->loop, lanes_carries(in, *round, start, marks, size));
    if (!in.ok()) return Values(n + 1);
    next.resize(n);
    for (size_t i = 0; i < n; ++i)
      if (is_invariant(*loop.body, i)) next[i] = p[i];
    const Value steps = in.minimum(p[n], steps_of(in, kLongestRound / rounds.longer));
    next.push_back(in.multiply(steps, steps_of(in, rounds.longer)));
    return next;
  };
  const Values first = after_round(b, joined(carries, {{steps_of(b, rounds.first)}}));
  if (!b.ok()) return Values(n);
  Values out = loop_over(
      b, first,
      [&](Builder& in, Ops p) {
        const Values go = goes_on(in, lanes, p.first(n));
        return in.ok() ? more_than(in, go[0], few) : Value();
      },
      after_round);
  for (size_t i = 0; i < n; ++i)
    if (is_invariant(*loop.body, i)) out[i] = carries[i];
  out.resize(n);
  return out;
}

// The numbers of the lanes that go on, in their order, of which there are at most `room`, and behind them the
// number of all.
Value numbers_of(Builder& b, const Value& go, int64_t size, int64_t room) {
  const Value none = number(b, size), numbers = b.iota(DType::kS64, {{size}}, 0);
  const Value found = b.broadcast_scalar(none, {{room + 1}});
  const absl::StatusOr<ComputationPtr> body = record_region(
      {{none.type(), found.type(), scalar_type(DType::kBool), none.type()}}, [&](Builder& in, Ops p) {
        const Value lane = in.reshape(in.select(p[2], p[3], number(in, size)), {{1}});
        return Values{in.add(p[0], in.convert(p[2], DType::kS64)),
                      in.dynamic_update_slice(p[1], lane, {{p[0]}})};
      });
  if (!get_or_fail(b, body)) return {};
  const Values out = b.scan(*body, {{number(b, 0), found}}, {{go, numbers}}, size, false);
  return b.ok() ? b.slice(out[1], {{0}}, {{room}}) : Value();
}

Value elements_at(Builder& b, const Value& x, const Value& places) {
  return b.make(Op::gather, {{x, b.reshape(places, {{places.dims()[0], 1}})}},
                intern_attrs({{Attr::offset_dims, Dims{}},
                              {Attr::collapsed_slice_dims, Dims{0}},
                              {Attr::start_index_map, Dims{0}},
                              {Attr::index_vector_dim, int64_t{1}},
                              {Attr::slice_sizes, Dims{1}}}));
}

// With `elements` at the places that are within.
Value with_elements(Builder& b, const Value& x, const Value& places, const Value& elements) {
  return b.make(Op::scatter, {{x, b.reshape(places, {{places.dims()[0], 1}}), elements}},
                intern_attrs({{Attr::inserted_window_dims, Dims{0}},
                              {Attr::update_window_dims, Dims{}},
                              {Attr::scatter_dims_to_operand_dims, Dims{0}},
                              {Attr::index_vector_dim, int64_t{1}},
                              {Attr::body, second_region(x.dtype())}}));
}

// The results of lanes that are elements: together while many go on, then the others packed, `packings`
// times. `state`: the carries without the flag.
Values packed_lanes(Builder& b, const Loop& loop, const LanesLoop& lanes, Ops state, int64_t size,
                    int packings) {
  const size_t n = state.size();
  const int64_t few = size / kOneElementIn;
  const Values then = in_rounds(b, loop, lanes, state, few, size, kRoundsOfElements);
  if (!b.ok()) return Values(n);
  const hlo::LocationScope place(place_of_lanes("that are left packed"));
  return those_left(b, lanes, then, {}, [&](Builder& in, Ops p, Ops) {
    Values out(p.begin(), p.end()), carries;
    const Value places = numbers_of(in, goes_on(in, lanes, p)[0], size, few);
    if (!in.ok()) return out;
    const Value last = in.broadcast_scalar(number(in, size - 1), {{few}});
    const Value within = in.minimum(places, last), is_lane = in.compare(places, last, "LE");
    for (size_t i = 0; i < n; ++i) carries.push_back(lanes.batched[i] ? elements_at(in, p[i], within) : p[i]);
    // Places without a lane take no steps.
    carries.push_back(is_lane);
    Mask marks = lanes.batched;
    marks.push_back(true);
    const absl::StatusOr<Loop> of_lanes = guarded(loop);
    if (!get_or_fail(in, of_lanes)) return out;
    const std::optional<LanesLoop> some = lanes_loop(in, *of_lanes, marks, few, false);
    if (!some || !in.ok()) return out;
    const Values after = packings > 1
                             ? packed_lanes(in, *of_lanes, *some, carries, few, packings - 1)
                             : record_loop(in, some->loop, lanes_carries(in, *some, carries, marks, few));
    for (size_t i = 0; in.ok() && i < n; ++i)
      if (lanes.batched[i] && !is_invariant(*loop.body, i))
        out[i] = with_elements(in, p[i], places, after[i]);
    return out;
  });
}

int64_t work(const Computation& c);

// The elements that a node computes; those of a dot as often as it adds to them.
int64_t work(const Node& n) {
  int64_t elements = 0;
  for (uint32_t i = 0; i < n.num_results(); ++i)
    if (n.result_type(i)->is_array()) elements += n.result_type(i)->num_elements;
  switch (n.op()) {
    case Op::parameter:
    case Op::constant:
      return 0;
    case Op::dot_general: {
      int64_t depth = 1;
      for (int64_t d : n.attrs().ints(Attr::lhs_contracting_dimensions)) depth *= n.operand_type(0)->dims[d];
      return elements * depth;
    }
    case Op::while_:
      return kSomeSteps * work(*n.attrs().computation(Attr::body));
    case Op::scan:
      return n.attrs().integer(Attr::length) * work(*n.attrs().computation(Attr::body));
    default:
      for (const ComputationPtr& region : regions_of(n)) elements += work(*region);
      return elements;
  }
}

int64_t work(const Computation& c) {
  int64_t sum = 0;
  for (const Node* n : c.nodes()) sum += work(*n);
  return sum;
}

}  // namespace

std::optional<LanesLoop> while_enough(Builder& b, const Loop& loop, const LanesLoop& lanes, int64_t size) {
  const int64_t few = few_lanes(loop, size);
  LanesLoop out = lanes;
  absl::StatusOr<ComputationPtr> cond =
      record_region(lanes.loop.body->parameter_types(),
                    [&](Builder& in, Ops p) { return Values{more_than(in, p.back(), few)}; });
  if (!get_or_fail(b, cond)) return std::nullopt;
  out.loop.cond = *std::move(cond);
  return out;
}

int64_t few_lanes(const Loop& loop, int64_t size) {
  return size / (makes_numbers(loop) ? kOneNumberIn : kOneArrayIn);
}

Values those_left(Builder& b, const LanesLoop& lanes, Ops state, Ops others, const LeftLanes& one_by_one) {
  const Values all = joined(state, others);
  const size_t n = state.size();
  const std::vector<const Type*> types = types_of(all);
  const absl::StatusOr<ComputationPtr> none =
      record_region(types, [&](Builder&, Ops p) { return Values(p.begin(), p.end()); });
  const absl::StatusOr<ComputationPtr> some =
      record_region(types, [&](Builder& in, Ops p) { return one_by_one(in, p.first(n), p.subspan(n)); });
  if (!get_or_fail(b, none) || !get_or_fail(b, some)) return Values(all.size());
  const Values go = goes_on(b, lanes, state);
  if (!b.ok()) return Values(all.size());
  return b.conditional(b.convert(more_than(b, go[0], 0), DType::kS32), {{*none, *some}}, all);
}

Values loop_by_cost(Builder& b, const Node& node, const LanesLoop& lanes, Ops carries, int64_t size) {
  const Loop loop = loop_of(node);
  const size_t n = lanes.batched.size();
  const int64_t few = few_lanes(loop, size);
  Values state;
  if (makes_numbers(loop)) {
    state = in_rounds(b, loop, lanes, carries.first(n), few, size, kRounds);
  } else if (const std::optional<LanesLoop> together = while_enough(b, loop, lanes, size)) {
    const hlo::LocationScope place(place_of_lanes("together while many go on"));
    state = record_loop(b, together->loop, carries);
    state.resize(n);
  }
  if (!b.ok()) return Values(n);
  const hlo::LocationScope place(place_of_lanes("that are left one by one"));
  return those_left(b, lanes, state, {}, [&](Builder& in, Ops p, Ops) {
    BatchResult r = batch_by_scan(in, node, p, lanes.batched, size);
    for (size_t i = 0; i < n; ++i)
      if (!lanes.batched[i]) r.results[i] = p[i];
    return r.results;
  });
}

Values elements_by_cost(Builder& b, const Loop& loop, const LanesLoop& lanes, Ops carries, int64_t size) {
  // Its derivative goes so.
  const hlo::LocationScope place(place_of_lanes("together until the last has ended"));
  if (size < kLeastPacked) return record_loop(b, lanes.loop, carries);
  const size_t n = lanes.batched.size();
  const absl::StatusOr<ComputationPtr> program = remembered_as<ComputationPtr>(
      {loop.cond.get(), loop.body.get()}, option_text("packed", {lanes.batched}, size), [&] {
        return record_region(types_of(carries), [&](Builder& in, Ops p) {
          Values out = packed_lanes(in, loop, lanes, p.first(n), size, kPackings);
          out.push_back(in.zeros_like(p[n]));  // none goes on
          return out;
        });
      });
  if (!get_or_fail(b, program)) return Values(carries.size());
  return record_loop_as(b, lanes.loop, *program, carries);
}

bool branches_cost_more(std::span<const ComputationPtr> branches) {
  int64_t all = 0;
  for (const ComputationPtr& branch : branches) all += work(*branch);
  return all - all / static_cast<int64_t>(branches.size()) > kLaneCost;
}

namespace {

LaneStrategy& strategy() {
  thread_local LaneStrategy current = LaneStrategy::kSelect;
  return current;
}

}  // namespace

LaneStrategy lane_strategy() { return strategy(); }
LaneStrategyScope::LaneStrategyScope(LaneStrategy next) : before_(strategy()) { strategy() = next; }
LaneStrategyScope::~LaneStrategyScope() { strategy() = before_; }

}  // namespace lamina::trace
