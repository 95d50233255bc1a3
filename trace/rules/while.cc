// The rules of while: a loop over carries and tangents forward; in reverse mode a scan where it counts to a
// constant, else what stands for its derivative.
#include "trace/rules/while.h"

#include <algorithm>

#include "hlo/literal.h"
#include "hlo/printer.h"
#include "trace/lanes.h"
#include "trace/rules/loop_log.h"
#include "trace/rules/scan.h"

namespace lamina::trace {

namespace {

// A constant scalar integer; absent otherwise.
std::optional<int64_t> constant_integer(Operand o) {
  const Value v(o);
  if (!v || v.node()->op() != Op::constant || !v.type()->is_scalar() || !is_integer(v.dtype()))
    return std::nullopt;
  const int64_t x = v.node()->attrs().literal(Attr::value)->int_at(0);
  if (v.dtype() == DType::kU64 && x < 0) return std::nullopt;
  return x;
}

// A value of a computation or, inside of calls, of the body of the innermost one. Seen through: neither a
// call's result nor what a call was given.
class SeenThrough {
 public:
  explicit SeenThrough(const Value& root) : at_(root.operand()) { see_through(); }
  const Node& node() const { return *at_.node(); }
  Operand value() const { return at_; }
  SeenThrough operand(size_t i) const {
    SeenThrough out(*this);
    out.at_ = node().operand(i);
    out.see_through();
    return out;
  }

 private:
  static const Computation& body(const Node& call) { return *call.attrs().computation(Attr::body); }
  void see_through() {
    while (true) {
      if (is_plain_call(*at_.node())) {
        calls_.push_back(at_.node());
        at_ = body(*at_.node()).roots()[at_.index()].operand();
        continue;
      }
      if (calls_.empty()) return;
      const std::optional<size_t> given = position_of(body(*calls_.back()).parameters(), at_);
      if (!given) return;
      at_ = calls_.back()->operand(*given);
      calls_.pop_back();
    }
  }

  Operand at_;
  std::vector<const Node*> calls_;  // the outermost first
};

}  // namespace

Loop loop_of(const Node& n) {
  return {n.attrs().computation(Attr::cond), n.attrs().computation(Attr::body),
          n.attrs().integer(Attr::length)};
}

Values record_loop(Builder& b, const Loop& loop, Ops carries) {
  if (loop.kept == 0) return b.while_loop(carries, loop.cond, loop.body);
  return b.make_multi(
      Op::while_, carries,
      intern_attrs({{Attr::cond, loop.cond}, {Attr::body, loop.body}, {Attr::length, loop.kept}}));
}

// How often a loop runs whose condition compares a carry that steps by a constant with a constant.
std::optional<int64_t> trip_count(const Node& loop, Ops carries) {
  const Computation &cond = *loop.attrs().computation(Attr::cond),
                    &body = *loop.attrs().computation(Attr::body);
  const SeenThrough test(cond.roots()[0]);
  if (test.node().op() != Op::compare) return std::nullopt;
  std::string direction = test.node().attrs().string(Attr::direction);
  auto bound_of = [&](Operand o) -> std::optional<int64_t> {
    const auto j = position_of(cond.parameters(), o);
    return j && is_invariant(body, *j) ? constant_integer(carries[*j].operand()) : constant_integer(o);
  };
  Operand counter = test.operand(0).value();
  std::optional<int64_t> bound = bound_of(test.operand(1).value());
  if (!bound) {
    bound = bound_of(std::exchange(counter, test.operand(1).value()));
    static constexpr std::pair<std::string_view, std::string_view> kFlipped[] = {
        {"LT", "GT"}, {"LE", "GE"}, {"GT", "LT"}, {"GE", "LE"}, {"NE", "NE"}, {"EQ", "EQ"}};
    for (const auto& [from, to] : kFlipped)
      if (direction == from) {
        direction = to;
        break;
      }
  }
  const std::optional<size_t> i = position_of(cond.parameters(), counter);
  if (!bound || !i) return std::nullopt;
  const std::optional<int64_t> start = constant_integer(carries[*i].operand());
  const SeenThrough step(body.roots()[*i]);
  const Operand self = body.parameters()[*i].operand();
  if (!start || (step.node().op() != Op::add && step.node().op() != Op::subtract)) return std::nullopt;
  const bool adds = step.node().op() == Op::add;
  const Operand first = step.operand(0).value(), second = step.operand(1).value();
  const std::optional<int64_t> size = first == self            ? constant_integer(second)
                                      : adds && second == self ? constant_integer(first)
                                                               : std::nullopt;
  if (!size) return std::nullopt;
  using Wide = __int128;
  const Wide by = adds ? Wide{*size} : -Wide{*size};
  const Wide from = *start, to = *bound;
  Wide count = -1;
  auto ceil_div = [](Wide a, Wide d) { return a <= 0 ? Wide{0} : (a + d - 1) / d; };
  if (direction == "LT" && by > 0) count = ceil_div(to - from, by);
  if (direction == "LE" && by > 0) count = ceil_div(to - from + 1, by);
  if (direction == "GT" && by < 0) count = ceil_div(from - to, -by);
  if (direction == "GE" && by < 0) count = ceil_div(from - to + 1, -by);
  if (direction == "NE" && by != 0 && (to - from) % by == 0) count = (to - from) / by;
  if (count < 0) return std::nullopt;
  // The counter must not wrap on its way.
  const Wide last = from + count * by;
  const DType t = carries[*i].dtype();
  const int bits = bit_width(t);
  const Wide high = (Wide{1} << (is_signed(t) ? bits - 1 : bits)) - 1,
             low = is_signed(t) ? -high - 1 : Wide{0};
  if (last < low || last > high || count > (Wide{1} << 40)) return std::nullopt;
  return static_cast<int64_t>(count);
}

JvpResult while_jvp(Builder& b, const Node& node, Ops x, Ops t) {
  const size_t n = x.size();
  JvpResult out{Values(n), {}};
  Mask marks = present(t);
  absl::StatusOr<JvpComputation> derived;
  while (true) {
    derived = jvp_computation(*node.attrs().computation(Attr::body), marks, marks, JvpMode::kForward);
    if (!get_or_fail(b, derived)) return out;
    if (derived->results == marks) break;
    marks = derived->results;
  }
  Values operands(x.begin(), x.end());
  std::vector<const Type*> types;
  for (size_t i = 0; i < n; ++i)
    if (marks[i]) {
      operands.push_back(or_zeros(b, t[i], x[i]));
      types.push_back(x[i].type());
    }
  absl::StatusOr<ComputationPtr> cond = with_parameters(*node.attrs().computation(Attr::cond), types);
  if (!get_or_fail(b, cond)) return out;
  const Values results = record_loop(b, {*cond, derived->body, node.attrs().integer(Attr::length)}, operands);
  if (!b.ok()) return out;
  out.primals.assign(results.begin(), results.begin() + n);
  size_t next = n;
  for (size_t i = 0; i < n; ++i)
    if (marks[i]) out.tangents[i] = results[next++];
  return out;
}

namespace {

// Whether what a scan of so many steps would stack is more than caches hold, and needs not be stacked.
bool is_better_tiled(const Loop& loop, const Mask& tangents, int64_t steps) {
  constexpr int64_t kCached = int64_t{256} << 10;
  int64_t bytes = 0;
  for (size_t i = 0; i < tangents.size(); ++i)
    if (!is_invariant(*loop.body, i)) bytes += loop.body->parameters()[i].type()->bytes();
  if (bytes == 0 || steps <= kCached / bytes) return false;
  const absl::StatusOr<Mask> marks = closed_marks(*loop.body, tangents);
  if (!marks.ok()) return false;
  const absl::StatusOr<std::optional<TiledLoop>> tiles = TiledLoop::of(loop, *marks);
  return tiles.ok() && tiles->has_value();
}

}  // namespace

std::optional<JvpResult> scan_linearize_by_tiles(Builder& b, const Node& node, Ops x, Ops t) {
  const ComputationPtr& body = node.attrs().computation(Attr::body);
  const size_t n = x.size();
  const int64_t length = node.attrs().integer(Attr::length);
  if (num_carried(node) != n || node.num_results() != n) return std::nullopt;
  std::vector<const Type*> types = body->parameter_types();
  types.push_back(scalar_type(DType::kS64));
  const absl::StatusOr<ComputationPtr> cond = record_region(
      types, [&](Builder& in, Ops p) { return Values{in.compare(p[n], number(in, length), "LT")}; });
  const absl::StatusOr<ComputationPtr> step = record_region(types, [&](Builder& in, Ops p) {
    return joined(inline_computation(in, *body, p.first(n)), {{in.add(p[n], number(in, 1))}});
  });
  if (!cond.ok() || !step.ok()) return std::nullopt;
  Mask tangents = present(t);
  tangents.push_back(false);
  if (!is_better_tiled({*cond, *step}, tangents, length)) return std::nullopt;
  const Values operands = joined(x, {{number(b, 0)}}), loop = b.while_loop(operands, *cond, *step);
  if (!b.ok()) return JvpResult{Values(n), {}};
  JvpResult out = while_linearize(b, *loop[0].node(), operands, joined(t, {{Value()}}));
  out.primals.resize(n);
  out.tangents.resize(n);
  return out;
}

JvpResult while_linearize(Builder& b, const Node& node, Ops x, Ops t) {
  Loop loop = loop_of(node);
  const size_t n = x.size();
  const JvpResult failed{Values(n), {}};
  if (loop.kept == 0) {
    loop.steps = trip_count(node, x);
    if (loop.steps && !is_better_tiled(loop, present(t), *loop.steps)) {
      const Values scan = b.scan(loop.body, x, {}, *loop.steps, false);
      if (!b.ok()) return failed;
      return scan_linearize(b, *scan[0].node(), x, t);
    }
  }
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

Values while_transpose(Builder& b, const Node& node, Ops, Marks, Ops) {
  b.fail(absl::UnimplementedError(
      "cannot transpose a while loop that carries linear values: transpose a scan or fori_loop, or use vjp"));
  return Values(node.operands().size());
}

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

// Whether a computation makes numbers, and arrays only by writing some rows.
bool makes_numbers(const Computation& c) {
  for (const Node* n : c.nodes()) {
    for (const ComputationPtr& region : regions_of(*n))
      if (!makes_numbers(*region)) return false;
    const bool writes_row =
        n->op() == Op::dynamic_update_slice && n->operand_type(1)->num_elements <= kSmallRow;
    if (n->op() == Op::parameter || n->op() == Op::constant || n->op() == Op::broadcast_in_dim || writes_row)
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
    found =
        found || (root.type()->num_elements >= kLongArray && root.node()->op() == Op::dynamic_update_slice);
  }
  return found && makes_numbers(loop);
}

BatchResult while_batch(Builder& b, const Node& node, Ops x, Marks batched, int64_t size) {
  BatchResult out = all_batched(Values(x.size()));
  const std::optional<LanesLoop> lanes =
      lanes_loop(b, loop_of(node), Mask(batched.begin(), batched.end()), size, false);
  if (!lanes) return out;
  const Values carries = lanes_carries(b, *lanes, x, batched, size);
  if (!b.ok()) return out;
  if (lanes->go && (goes_lane_by_lane(node) || has_stack(loop_of(node)) || lanes_apart(node)))
    return batch_by_scan(b, node, x, batched, size);
  const bool by_cost = lanes->go && lane_strategy() == LaneStrategy::kAuto && !exchanges(node) &&
                       few_lanes(loop_of(node), size) > 0;
  std::optional<hlo::LocationScope> place;
  if (lanes->go && !by_cost) place.emplace(place_of_lanes("together until the last has ended"));
  const bool of_elements = by_cost && TiledLoop::has_lanes_of_elements(lanes->loop);
  Values results = of_elements ? elements_by_cost(b, loop_of(node), *lanes, carries, size)
                   : by_cost   ? loop_by_cost(b, node, *lanes, carries, size)
                               : record_loop(b, lanes->loop, carries);
  if (!b.ok()) return out;
  results.resize(x.size());
  out.results = std::move(results);
  out.batched.assign(lanes->batched.begin(), lanes->batched.end());
  return out;
}

}  // namespace lamina::trace
