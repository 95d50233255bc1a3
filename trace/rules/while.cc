// The rules of while: a loop over carries and tangents forward; in reverse mode a scan where it counts to a
// constant, else what stands for its derivative.
#include "trace/rules/while.h"

#include "hlo/printer.h"
#include "trace/lanes.h"
#include "trace/rules/lane_loops.h"
#include "trace/rules/loop_derivatives.h"
#include "trace/rules/loop_log.h"
#include "trace/rules/scan.h"

namespace lamina::trace {

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

JvpResult while_linearize(Builder& b, const Node& node, Ops x, Ops t) {
  Loop loop = loop_of(node);
  if (loop.kept == 0) {
    loop.steps = trip_count(node, x);
    if (loop.steps && !TiledLoop::is_better(loop, present(t), *loop.steps)) {
      const Values scan = b.scan(loop.body, x, {}, *loop.steps, false);
      if (!b.ok()) return {Values(x.size()), {}};
      return scan_linearize(b, *scan[0].node(), x, t);
    }
  }
  return loop_linearize(b, loop, x, t);
}

Values while_transpose(Builder& b, const Node& node, Ops, Marks, Ops) {
  b.fail(absl::UnimplementedError(
      "cannot transpose a while loop that carries linear values: transpose a scan or fori_loop, or use vjp"));
  return Values(node.operands().size());
}

BatchResult while_batch(Builder& b, const Node& node, Ops x, Marks batched, int64_t size) {
  BatchResult out = all_batched(Values(x.size()));
  const std::optional<LanesLoop> lanes =
      lanes_loop(b, loop_of(node), Mask(batched.begin(), batched.end()), size, false);
  if (!lanes) return out;
  const Values carries = lanes_carries(b, *lanes, x, batched, size);
  if (!b.ok()) return out;
  if (lanes->go ? goes_lane_by_lane(node) || has_stack(loop_of(node)) || lanes_apart(node)
                : writes_apart(*loop_of(node).body, *lanes->loop.body))
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
