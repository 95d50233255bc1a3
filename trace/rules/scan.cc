// Transforms of scan.
//
// Reverse mode splits the body: the known part runs forward and stacks what the linear part needs
// (residuals); the linear part is transposed and runs backward. Scanned arrays that the linear part needs are
// passed on as they are; carries that no step changes, and what is computed from them alone, are not stacked
// but carried along.
#include "trace/rules/scan.h"

#include <algorithm>

#include "hlo/dot_shape.h"
#include "hlo/passes/pass.h"
#include "trace/rules/lane_loops.h"
#include "trace/rules/loop_derivatives.h"
#include "trace/rules/loop_log.h"
#include "trace/rules/loop_sums.h"

namespace lamina::trace {

namespace {

struct Scan {
  ComputationPtr body;
  size_t carries;
  int64_t length;
  bool reverse;

  explicit Scan(const Node& n)
      : body(n.attrs().computation(Attr::body)),
        carries(static_cast<size_t>(n.attrs().integer(Attr::num_carry))),
        length(n.attrs().integer(Attr::length)),
        reverse(n.attrs().flag(Attr::reverse)) {}
  Scan(ComputationPtr body, size_t carries, const Scan& like)
      : body(std::move(body)), carries(carries), length(like.length), reverse(like.reverse) {}
  size_t num_parameters() const { return body->parameters().size(); }
  size_t num_results() const { return body->roots().size(); }
};

// A scan over carries and slices together with their tangents, in the order of a scan:
// (carries, their tangents; slices, their tangents) -> (carries, their tangents; outputs, their tangents).
struct JoinedScan {
  Mask carry_marks, slice_marks, output_marks;
  ComputationPtr body;
  Values operands;
  size_t carries;
};

std::optional<JoinedScan> join_tangents(Builder& b, const Scan& s, Ops x, Ops t, JvpMode mode) {
  const size_t n = s.carries, params = s.num_parameters(), results = s.num_results();
  Mask marks = present(t);
  absl::StatusOr<JvpComputation> derived;
  // Carries get tangents until none is added.
  while (true) {
    Mask forced(results, false);
    std::copy(marks.begin(), marks.begin() + n, forced.begin());
    derived = jvp_computation(*s.body, marks, forced, mode);
    if (!get_or_fail(b, derived)) return std::nullopt;
    bool stable = true;
    for (size_t i = 0; i < n; ++i)
      if (derived->results[i] && !marks[i]) {
        marks[i] = true;
        stable = false;
      }
    if (stable) break;
  }
  JoinedScan out;
  out.carry_marks.assign(marks.begin(), marks.begin() + n);
  out.slice_marks.assign(marks.begin() + n, marks.end());
  out.output_marks.assign(derived->results.begin() + n, derived->results.end());
  const Ops p = derived->body->parameters(), r = derived->body->roots();
  const size_t carry_tangents = std::count(out.carry_marks.begin(), out.carry_marks.end(), true);
  auto reorder = [&](Ops all, size_t primal) {
    Values v = joined(all.first(n), all.subspan(primal, carry_tangents));
    v = joined(v, all.subspan(n, primal - n));
    return joined(v, all.subspan(primal + carry_tangents));
  };
  absl::StatusOr<ComputationPtr> body = Computation::make(reorder(p, params), reorder(r, results));
  if (!get_or_fail(b, body)) return std::nullopt;
  out.body = *std::move(body);
  out.carries = n + carry_tangents;
  out.operands.assign(x.begin(), x.begin() + n);
  for (size_t i = 0; i < n; ++i)
    if (marks[i]) out.operands.push_back(or_zeros(b, t[i], x[i]));
  out.operands.insert(out.operands.end(), x.begin() + n, x.end());
  for (size_t i = n; i < x.size(); ++i)
    if (marks[i]) out.operands.push_back(t[i]);
  return out;
}

// Results of a joined scan, taken apart again.
JvpResult take_apart(const Scan& s, const JoinedScan& joint, Ops results) {
  JvpResult out;
  out.tangents.resize(s.num_results());
  const size_t n = s.carries, outputs = s.num_results() - n;
  size_t tangent = n;
  for (size_t i = 0; i < n; ++i) {
    out.primals.push_back(results[i]);
    if (joint.carry_marks[i]) out.tangents[i] = results[tangent++];
  }
  tangent = joint.carries + outputs;
  for (size_t i = 0; i < outputs; ++i) {
    out.primals.push_back(results[joint.carries + i]);
    if (joint.output_marks[i]) out.tangents[n + i] = results[tangent++];
  }
  return out;
}

// A scan cut into a known part, already recorded, and an unknown part.
struct SplitScan {
  Mask marks;    // which parameters of the body are unknown
  Mask results;  // which results are
  Values known;  // the known results, in order
  // (invariants, unknown carries; residual slices, unknown slices) -> (invariants, unknown carries; unknown
  // outputs).
  ComputationPtr body;
  Values invariants, residuals;
  size_t carries = 0;  // unknown ones
};

// `marks`: unknown operands; carries that come to depend on them are added.
std::optional<SplitScan> split_scan(Builder& b, const Scan& s, Ops operands, Mask marks) {
  const size_t n = s.carries;
  SplitScan out;
  Mask forced(s.num_results(), false);
  while (true) {
    const Mask depends = dependence(*s.body, marks);
    bool stable = true;
    for (size_t i = 0; i < n; ++i)
      if (depends[i] && !marks[i]) {
        marks[i] = true;
        stable = false;
      }
    if (stable) break;
  }
  std::copy(marks.begin(), marks.begin() + n, forced.begin());
  absl::StatusOr<SplitComputation> split = split_computation(*s.body, marks, forced);
  if (!get_or_fail(b, split)) return std::nullopt;
  out.marks = marks;
  out.results = split->results;

  // Which results of a call change is seen in its body only.
  absl::StatusOr<ComputationPtr> known = hlo::inline_calls(split->known);
  if (!get_or_fail(b, known)) return std::nullopt;
  const Ops known_parameters = (*known)->parameters();
  Ops known_roots = (*known)->roots();
  const Values known_operands = picked(operands, marks, false);
  size_t known_carries = 0;
  for (size_t i = 0; i < n; ++i) known_carries += !marks[i];
  Mask changing(known_parameters.size(), true);
  for (size_t i = 0; i < known_carries; ++i) changing[i] = !is_invariant(**known, i);
  const Mask root_changes = dependence(**known, changing);

  // Where each residual comes from.
  size_t next_root = known_roots.size();
  for (int64_t p : split->residual_parameter) next_root -= p < 0;
  const size_t num_results = next_root;
  Values roots(known_roots.begin(), known_roots.begin() + num_results);  // of the known scan
  struct Source {
    enum { kInvariant, kArray, kStacked } kind;
    Value value;  // kInvariant, kArray
    size_t root;  // kStacked: position among the known scan's results
  };
  std::vector<Source> sources;
  for (int64_t p : split->residual_parameter) {
    if (p >= 0 && !changing[p]) {
      sources.push_back({Source::kInvariant, known_operands[p], 0});
    } else if (p >= static_cast<int64_t>(known_carries)) {
      sources.push_back({Source::kArray, known_operands[p], 0});
    } else if (p >= 0) {
      sources.push_back({Source::kStacked, Value(), roots.size()});
      roots.push_back(known_parameters[p]);
    } else if (const Value& r = known_roots[next_root]; !root_changes[next_root++]) {
      absl::StatusOr<ComputationPtr> once = Computation::make(known_parameters, {{r}});
      if (!get_or_fail(b, once)) return std::nullopt;
      sources.push_back({Source::kInvariant, inline_computation(b, **once, known_operands)[0], 0});
    } else {
      sources.push_back({Source::kStacked, Value(), roots.size()});
      roots.push_back(r);
    }
  }

  Values results;
  if (!roots.empty()) {
    absl::StatusOr<ComputationPtr> body = Computation::make(known_parameters, roots);
    if (!get_or_fail(b, body)) return std::nullopt;
    results = b.scan(*body, Ops(known_operands).first(known_carries),
                     Ops(known_operands).subspan(known_carries), s.length, s.reverse);
    if (!b.ok()) return std::nullopt;
  }
  out.known.assign(results.begin(), results.begin() + num_results);

  const Ops unknown_parameters = split->unknown->parameters();
  const size_t num_residuals = sources.size();
  for (size_t i = 0; i < n; ++i) out.carries += marks[i];
  Values carried, sliced;
  for (size_t i = 0; i < num_residuals; ++i) {
    if (sources[i].kind == Source::kInvariant) {
      carried.push_back(unknown_parameters[i]);
      out.invariants.push_back(sources[i].value);
    } else {
      sliced.push_back(unknown_parameters[i]);
      out.residuals.push_back(sources[i].kind == Source::kArray ? sources[i].value
                                                                : results[sources[i].root]);
    }
  }
  Values parameters = joined(carried, unknown_parameters.subspan(num_residuals, out.carries));
  parameters = joined(parameters, sliced);
  parameters = joined(parameters, unknown_parameters.subspan(num_residuals + out.carries));
  absl::StatusOr<ComputationPtr> body =
      Computation::make(parameters, joined(carried, split->unknown->roots()));
  if (!get_or_fail(b, body)) return std::nullopt;
  out.body = *std::move(body);
  return out;
}

// Of a scan that stacks nothing, where it is better reversed as a loop that is by tiles; else absent.
std::optional<JvpResult> linearized_by_tiles(Builder& b, const Node& node, Ops x, Ops t) {
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
  const Loop loop{*cond, *step, 0, length};
  if (!TiledLoop::is_better(loop, tangents, length)) return std::nullopt;
  JvpResult out = loop_linearize(b, loop, joined(x, {{number(b, 0)}}), joined(t, {{Value()}}));
  out.primals.resize(n);
  out.tangents.resize(n);
  return out;
}

}  // namespace

JvpResult scan_jvp(Builder& b, const Node& node, Ops x, Ops t) {
  const Scan s(node);
  const std::optional<JoinedScan> joint = join_tangents(b, s, x, t, JvpMode::kForward);
  if (!joint || !b.ok()) return {Values(s.num_results()), {}};
  const Ops operands = joint->operands;
  const Values results = b.scan(joint->body, operands.first(joint->carries), operands.subspan(joint->carries),
                                s.length, s.reverse);
  if (!b.ok()) return {Values(s.num_results()), {}};
  return take_apart(s, *joint, results);
}

JvpResult scan_linearize(Builder& b, const Node& node, Ops x, Ops t) {
  if (std::optional<JvpResult> tiled = linearized_by_tiles(b, node, x, t)) return *std::move(tiled);
  const Scan s(node);
  const JvpResult failed{Values(s.num_results()), {}};
  const std::optional<JoinedScan> joint = join_tangents(b, s, x, t, JvpMode::kLinearize);
  if (!joint || !b.ok()) return failed;
  const Scan whole(joint->body, joint->carries, s);
  const size_t n = s.carries, slices = x.size() - n;
  Mask marks(joint->operands.size(), false);
  std::fill(marks.begin() + n, marks.begin() + joint->carries, true);
  std::fill(marks.begin() + joint->carries + slices, marks.end(), true);
  const std::optional<SplitScan> split = split_scan(b, whole, joint->operands, marks);
  if (!split) return failed;
  const Values unknown = picked(joint->operands, split->marks);
  const Values carries = joined(split->invariants, Ops(unknown).first(split->carries));
  const Values xs = joined(split->residuals, Ops(unknown).subspan(split->carries));
  Values linear = b.scan(split->body, carries, xs, s.length, s.reverse);
  if (!b.ok()) return failed;
  Values results;
  size_t next_known = 0, next_linear = split->invariants.size();
  for (bool is_unknown : split->results)
    results.push_back(is_unknown ? linear[next_linear++] : split->known[next_known++]);
  return take_apart(s, *joint, results);
}

Values scan_transpose(Builder& b, const Node& node, Ops x, Marks linear, Ops ct) {
  const Scan s(node);
  Values out(x.size());
  const std::optional<SplitScan> split = split_scan(b, s, x, Mask(linear.begin(), linear.end()));
  if (!split) return out;
  const size_t n = s.carries, fixed = split->invariants.size(), carries = split->carries;
  const size_t arrays = split->residuals.size();
  const Ops p = split->body->parameters(), r = split->body->roots();

  // Cotangents of the unknown results; carries always have one inside the loop.
  Values inputs = joined(p.subspan(fixed, carries), p.subspan(fixed + carries + arrays));
  Values outputs, cts, ct_carries, ct_arrays, inner_arrays;
  Values init;
  size_t at = fixed;
  for (size_t i = 0; i < s.num_results(); ++i) {
    if (!split->results[i]) continue;
    const Value& root = r[at++];
    if (i < n) {
      ct_carries.push_back(make_parameter(root.type()));
      init.push_back(ct[i] ? ct[i] : b.zeros(root.type()));
      outputs.push_back(root);
      cts.push_back(ct_carries.back());
    } else if (ct[i]) {
      inner_arrays.push_back(make_parameter(root.type()));
      ct_arrays.push_back(ct[i]);
      outputs.push_back(root);
      cts.push_back(inner_arrays.back());
    }
  }
  Builder inner;
  Values back = transpose_graph(inner, outputs, inputs, cts);
  for (size_t i = 0; i < back.size(); ++i) back[i] = or_zeros(inner, back[i], inputs[i]);
  if (!inner.ok()) {
    b.fail(inner.status());
    return out;
  }
  Values parameters = joined(p.first(fixed), ct_carries);
  parameters = joined(parameters, p.subspan(fixed + carries, arrays));
  parameters = joined(parameters, inner_arrays);
  absl::StatusOr<ComputationPtr> body = Computation::make(parameters, joined(p.first(fixed), back));
  if (!get_or_fail(b, body)) return out;
  const absl::StatusOr<SummedAfter> sums =
      SummedAfter::of(*body, fixed, fixed + carries, s.length, hlo::kLeastOutsideLoops);
  if (!get_or_fail(b, sums)) return out;
  const Values scanned = joined(split->residuals, ct_arrays);
  Values results = b.scan(sums->body(), joined(split->invariants, init), scanned, s.length, !s.reverse);
  if (!b.ok()) return out;
  sums->add(b, scanned, &results);
  size_t next = fixed;
  for (size_t i = 0; i < x.size(); ++i) {
    if (!split->marks[i]) continue;
    const Value& v = results[next++];
    if (linear[i]) out[i] = v;
  }
  return out;
}

BatchResult scan_batch(Builder& b, const Node& node, Ops x, Marks batched, int64_t size) {
  const Scan s(node);
  const size_t n = s.carries;
  Mask marks(batched.begin(), batched.end());
  BatchResult out = all_batched(Values(s.num_results()));
  absl::StatusOr<BatchComputation> body;
  while (true) {
    Mask forced(s.num_results(), false);
    std::copy(marks.begin(), marks.begin() + n, forced.begin());
    body = batch_computation(*s.body, marks, forced, size);
    if (!get_or_fail(b, body)) return out;
    bool stable = true;
    for (size_t i = 0; i < n; ++i)
      if (body->results[i] && !marks[i]) {
        marks[i] = true;
        stable = false;
      }
    if (stable) break;
  }
  if (writes_apart(*s.body, *body->body)) return batch_by_scan(b, node, x, batched, size);
  Values carries, xs;
  for (size_t i = 0; i < x.size(); ++i) {
    if (i < n)
      carries.push_back(marks[i] ? with_batch(b, x[i], batched[i], size) : x[i]);
    else
      xs.push_back(batched[i] ? b.move_dim(x[i], 0, 1) : x[i]);
  }
  Values results = b.scan(body->body, carries, xs, s.length, s.reverse);
  if (!b.ok()) return out;
  for (size_t i = 0; i < results.size(); ++i)
    out.results[i] = i >= n && body->results[i] ? b.move_dim(results[i], 1, 0) : results[i];
  out.batched.assign(body->results.begin(), body->results.end());
  return out;
}

}  // namespace lamina::trace
