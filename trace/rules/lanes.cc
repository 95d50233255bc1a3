// What lanes that differ cost together, and one after the other.
//
// A step of all lanes together costs less than one of each by itself, but lanes that have ended go along. So
// lanes go together while enough of them take steps, and those that are left go one after the other, from
// where they are. What this costs is then at most what it costs to take every lane by itself, and the state
// written and read once more. Loops over numbers do it in rounds: steps of such lanes together are one
// kernel, in which every pack of lanes stops by itself, so that only between rounds is it known how many go
// on. Where each lane of many is an element of the arrays, packs cost about what their lanes do one by one:
// all go together to the end.
#include "trace/lanes.h"

#include "hlo/printer.h"
#include "trace/rules/scan.h"
#include "trace/rules/while.h"

namespace lamina::trace {
namespace {

// Lanes go together while one in so many takes part: of loops over numbers, whose lanes are then the elements
// of vectors, and of others, which gain by longer dots and fewer steps of the program.
constexpr int64_t kOneNumberIn = 12, kOneArrayIn = 4;
// Steps of the first round; each next one is twice as long.
constexpr int64_t kFirstRound = 32;
// What it costs to take one lane by itself through a branch, in elements computed.
constexpr int64_t kLaneCost = 4096;
// Steps that a loop without a known end is taken to have.
constexpr int64_t kSomeSteps = 16;

// Whether more than `few` lanes go on; go: one bool per lane.
Value more_than(Builder& b, const Value& go, int64_t few) {
  const Value lanes = b.reduce(b.convert(go, DType::kS64), Op::add, number(b, 0), {{0}});
  return b.compare(lanes, number(b, few), "GT");
}

Values goes_on(Builder& b, const LanesLoop& lanes, Ops state) {
  return inline_computation(b, *lanes.go, state);
}

// The loop for at most as many steps as its last carry says, counted in the one before it.
absl::StatusOr<Loop> limited(const Loop& loop) {
  std::vector<const Type*> types = loop.body->parameter_types();
  const size_t n = types.size();
  types.resize(n + 2, scalar_type(DType::kS64));
  absl::StatusOr<ComputationPtr> cond = record_region(types, [&](Builder& b, Ops p) {
    const Values go = inline_computation(b, *loop.cond, p.first(n));
    return Values{b.ok() ? b.and_(b.compare(p[n], p[n + 1], "LT"), go[0]) : Value()};
  });
  if (!cond.ok()) return cond.status();
  absl::StatusOr<ComputationPtr> body = record_region(types, [&](Builder& b, Ops p) {
    return joined(inline_computation(b, *loop.body, p.first(n)), {{b.add(p[n], number(b, 1)), p[n + 1]}});
  });
  if (!body.ok()) return body.status();
  return Loop{*std::move(cond), *std::move(body), loop.kept};
}

// Lanes together, in rounds, while more than `few` go on: the carries then.
Values in_rounds(Builder& b, const Loop& loop, const LanesLoop& lanes, Ops carries, int64_t few,
                 int64_t size) {
  const size_t n = carries.size();
  const absl::StatusOr<Loop> some = limited(loop);
  if (!get_or_fail(b, some)) return Values(n);
  Mask marks = lanes.batched;
  marks.resize(n + 2, false);
  const std::optional<LanesLoop> round = lanes_loop(b, *some, marks, size, false);
  if (!round) return Values(n);
  Values out = loop_over(
      b, joined(carries, {{number(b, kFirstRound)}}),
      [&](Builder& in, Ops p) {
        const Values go = goes_on(in, lanes, p.first(n));
        return in.ok() ? more_than(in, go[0], few) : Value();
      },
      [&](Builder& in, Ops p) {
        const Values start = joined(p.first(n), {{number(in, 0), p[n]}});
        Values next = record_loop(in, round->loop, lanes_carries(in, *round, start, marks, size));
        if (!in.ok()) return Values(n + 1);
        next.resize(n);
        next.push_back(in.add(p[n], p[n]));
        return next;
      });
  out.resize(n);
  return out;
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
    state = in_rounds(b, loop, lanes, carries.first(n), few, size);
  } else if (const std::optional<LanesLoop> together = while_enough(b, loop, lanes, size)) {
    state = record_loop(b, together->loop, carries);
    state.resize(n);
  }
  if (!b.ok()) return Values(n);
  return those_left(b, lanes, state, {}, [&](Builder& in, Ops p, Ops) {
    BatchResult r = batch_by_scan(in, node, p, lanes.batched, size);
    for (size_t i = 0; i < n; ++i)
      if (!lanes.batched[i]) r.results[i] = p[i];
    return r.results;
  });
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
