// Transforms of while, case, call, custom_call and random bits.
//
// A while has a forward-mode derivative (loop over carries and tangents); reverse mode needs the number of
// steps, so a loop that counts to a constant becomes a scan and any other is refused when its transpose is
// asked for.
#include <algorithm>

#include "hlo/linalg/calls.h"
#include "hlo/literal.h"
#include "hlo/rules/custom_transforms.h"
#include "hlo/rules/scan_transforms.h"

namespace lamina::hlo {
namespace {

using Ops = std::span<const Value>;
using Marks = std::span<const bool>;

// --- while ---

// A constant scalar integer, seen through a carry that no step changes; absent otherwise.
std::optional<int64_t> constant_integer(const Value& v) {
  if (!v || v.node()->op() != Op::constant || !v.type()->is_scalar() || !is_integer(v.dtype()))
    return std::nullopt;
  const int64_t x = v.node()->attrs().literal(Attr::value)->int_at(0);
  if (v.dtype() == DType::kU64 && x < 0) return std::nullopt;
  return x;
}

std::optional<size_t> parameter_number(const Computation& c, Operand o) {
  for (size_t i = 0; i < c.parameters().size(); ++i)
    if (c.parameters()[i].operand() == o) return i;
  return std::nullopt;
}

// How often a loop runs whose condition compares a carry that steps by a constant with a constant.
std::optional<int64_t> trip_count(const Node& loop, Ops carries) {
  const Computation &cond = *loop.attrs().computation(Attr::cond),
                    &body = *loop.attrs().computation(Attr::body);
  const Node* test = cond.roots()[0].node();
  if (test->op() != Op::compare) return std::nullopt;
  std::string direction = test->attrs().string(Attr::direction);
  auto bound_of = [&](Operand o) -> std::optional<int64_t> {
    if (const auto j = parameter_number(cond, o); j && is_invariant(body, *j))
      return constant_integer(carries[*j]);
    return constant_integer(Value(o));
  };
  Operand counter = test->operand(0);
  std::optional<int64_t> bound = bound_of(test->operand(1));
  if (!bound) {
    counter = test->operand(1);
    bound = bound_of(test->operand(0));
    static constexpr std::pair<std::string_view, std::string_view> kFlipped[] = {
        {"LT", "GT"}, {"LE", "GE"}, {"GT", "LT"}, {"GE", "LE"}, {"NE", "NE"}, {"EQ", "EQ"}};
    for (const auto& [from, to] : kFlipped)
      if (direction == from) {
        direction = to;
        break;
      }
  }
  const std::optional<size_t> i = parameter_number(cond, counter);
  if (!bound || !i) return std::nullopt;
  const std::optional<int64_t> start = constant_integer(carries[*i]);
  const Node* step_node = body.roots()[*i].node();
  const Operand self = body.parameters()[*i].operand();
  if (!start || (step_node->op() != Op::add && step_node->op() != Op::subtract)) return std::nullopt;
  std::optional<int64_t> step;
  if (step_node->operand(0) == self)
    step = constant_integer(step_node->operand_value(1));
  else if (step_node->op() == Op::add && step_node->operand(1) == self)
    step = constant_integer(step_node->operand_value(0));
  if (!step) return std::nullopt;
  using Wide = __int128;
  const Wide by = step_node->op() == Op::subtract ? -Wide{*step} : Wide{*step};
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

// A computation that takes, and ignores, further parameters.
absl::StatusOr<ComputationPtr> with_parameters(const Computation& c, std::span<const Type* const> more) {
  Values parameters(c.parameters().begin(), c.parameters().end());
  for (const Type* t : more) parameters.push_back(make_parameter(t));
  return Computation::make(parameters, c.roots());
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
  const Values results = b.while_loop(operands, *cond, derived->body);
  if (!b.ok()) return out;
  out.primals.assign(results.begin(), results.begin() + n);
  size_t next = n;
  for (size_t i = 0; i < n; ++i)
    if (marks[i]) out.tangents[i] = results[next++];
  return out;
}

JvpResult while_linearize(Builder& b, const Node& node, Ops x, Ops t) {
  if (const std::optional<int64_t> count = trip_count(node, x)) {
    const Values scan = b.scan(node.attrs().computation(Attr::body), x, {}, *count, false);
    if (!b.ok()) return {Values(x.size()), {}};
    return scan_linearize(b, *scan[0].node(), x, t);
  }
  // The loop itself stands; its derivative is there to be refused, unless nobody asks for it.
  JvpResult r = while_jvp(b, node, x, t);
  r.primals = results_of(b, node, x);
  return r;
}

Values while_transpose(Builder& b, const Node& node, Ops, Marks, Ops) {
  b.fail(absl::UnimplementedError(
      "reverse-mode derivative of a while loop whose number of steps is not known when it is recorded: use "
      "scan, or a "
      "counter that starts, steps and ends at constants; forward mode (jvp) works for any loop"));
  return Values(node.operands().size());
}

// `value` in lanes where `pred` holds, else `other`; pred is one bool per lane.
Value select_lanes(Builder& b, const Value& pred, const Value& value, const Value& other) {
  if (!value || value == other) return value;
  return b.select(b.broadcast_in_dim(pred, value.dims(), {{0}}), value, other);
}

BatchResult while_batch(Builder& b, const Node& node, Ops x, Marks batched, int64_t size) {
  const Computation &cond = *node.attrs().computation(Attr::cond),
                    &body = *node.attrs().computation(Attr::body);
  const size_t n = x.size();
  BatchResult out = all_batched(Values(n));
  Mask marks(batched.begin(), batched.end());
  const Mask one_false(1, false);
  absl::StatusOr<BatchComputation> new_body, new_cond;
  while (true) {
    new_body = batch_computation(body, marks, marks, size);
    if (!get_or_fail(b, new_body)) return out;
    Mask grown = new_body->results;
    new_cond = batch_computation(cond, grown, one_false, size);
    if (!get_or_fail(b, new_cond)) return out;
    // Lanes that stop at different steps differ in every carry that a step changes.
    if (new_cond->results[0])
      for (size_t i = 0; i < n; ++i) grown[i] = grown[i] || !is_invariant(body, i);
    if (grown == marks) break;
    marks = grown;
  }
  Values carries;
  for (size_t i = 0; i < n; ++i) carries.push_back(marks[i] ? with_batch(b, x[i], batched[i], size) : x[i]);
  out.batched.assign(marks.begin(), marks.end());
  if (!new_cond->results[0]) {
    out.results = b.while_loop(carries, new_cond->body, new_body->body);
    return out;
  }
  // One more carry: which lanes go on. The loop runs while any does; the others keep what they have.
  Values all = carries;
  all.push_back(inline_computation(b, *new_cond->body, carries)[0]);
  if (!b.ok()) return out;
  std::vector<const Type*> types;
  for (const Value& v : all) types.push_back(v.type());
  const absl::StatusOr<ComputationPtr> go = record_region(types, [&](Builder& inner, Ops p) {
    return Values{inner.reduce(p[n], Op::or_, inner.scalar_int(DType::kBool, 0), {{0}})};
  });
  const absl::StatusOr<ComputationPtr> step = record_region(types, [&](Builder& inner, Ops p) {
    Values next = inline_computation(inner, *new_body->body, p.first(n));
    for (size_t i = 0; i < n; ++i)
      if (marks[i]) next[i] = select_lanes(inner, p[n], next[i], p[i]);
    if (!inner.ok()) return next;
    const Value more = inline_computation(inner, *new_cond->body, next)[0];
    next.push_back(inner.ok() ? inner.and_(p[n], more) : Value());
    return next;
  });
  if (!get_or_fail(b, go) || !get_or_fail(b, step)) return out;
  Values results = b.while_loop(all, *go, *step);
  if (!b.ok()) return out;
  results.pop_back();
  out.results = std::move(results);
  return out;
}

// --- case: (index, operands) ---

const std::vector<ComputationPtr>& branches_of(const Node& node) {
  return node.attrs().computations(Attr::branches);
}

Mask operand_marks(Marks all) { return Mask(all.begin() + 1, all.end()); }

// Derivatives of all branches, with tangents for the same results.
std::optional<std::vector<JvpComputation>> derive_branches(Builder& b, const Node& node, Marks marks,
                                                           JvpMode mode) {
  Mask forced(node.num_results(), false);
  for (int pass = 0;; ++pass) {
    std::vector<JvpComputation> out;
    Mask all = forced;
    for (const ComputationPtr& branch : branches_of(node)) {
      absl::StatusOr<JvpComputation> derived = jvp_computation(*branch, marks, forced, mode);
      if (!get_or_fail(b, derived)) return std::nullopt;
      for (size_t i = 0; i < all.size(); ++i) all[i] = all[i] || derived->results[i];
      out.push_back(*std::move(derived));
    }
    if (all == forced) return out;
    forced = all;
  }
}

JvpResult with_tangents(size_t n, const Mask& marks, Ops results) {
  JvpResult out;
  out.primals.assign(results.begin(), results.begin() + n);
  size_t next = n;
  for (size_t i = 0; i < n; ++i) out.tangents.push_back(marks[i] ? results[next++] : Value());
  return out;
}

JvpResult case_jvp(Builder& b, const Node& node, Ops x, Ops t) {
  const Mask marks = operand_marks(present(t));
  const JvpResult failed{Values(node.num_results()), {}};
  const auto derived = derive_branches(b, node, marks, JvpMode::kForward);
  if (!derived) return failed;
  std::vector<ComputationPtr> branches;
  for (const JvpComputation& d : *derived) branches.push_back(d.body);
  const Values results = b.conditional(x[0], branches, joined(x.subspan(1), picked(t.subspan(1), marks)));
  if (!b.ok()) return failed;
  return with_tangents(node.num_results(), (*derived)[0].results, results);
}

// Residuals of all branches share slots by type; a branch leaves zeros in those it does not use.
JvpResult case_linearize(Builder& b, const Node& node, Ops x, Ops t) {
  const Mask marks = operand_marks(present(t));
  const JvpResult failed{Values(node.num_results()), {}};
  const auto derived = derive_branches(b, node, marks, JvpMode::kLinearize);
  if (!derived) return failed;
  const size_t n = node.num_results(), num_operands = marks.size();
  std::vector<SplitComputation> splits;
  std::vector<const Type*> slots;
  Mask passed(num_operands, false);          // operands that some linear branch needs
  std::vector<std::vector<size_t>> slot_of;  // per branch and computed residual
  for (const JvpComputation& d : *derived) {
    Mask linear(d.body->parameters().size(), false), forced(d.body->roots().size(), false);
    std::fill(linear.begin() + num_operands, linear.end(), true);
    std::fill(forced.begin() + n, forced.end(), true);
    absl::StatusOr<SplitComputation> split = split_computation(*d.body, linear, forced);
    if (!get_or_fail(b, split)) return failed;
    std::vector<bool> taken(slots.size(), false);
    slot_of.emplace_back();
    const Ops roots = split->known->roots();
    for (int64_t p : split->residual_parameter)
      if (p >= 0) passed[p] = true;
    for (size_t i = n; i < roots.size(); ++i) {
      size_t k = 0;
      while (k < slots.size() && (taken[k] || slots[k] != roots[i].type())) ++k;
      if (k == slots.size()) {
        slots.push_back(roots[i].type());
        taken.push_back(false);
      }
      taken[k] = true;
      slot_of.back().push_back(k);
    }
    splits.push_back(*std::move(split));
  }
  std::vector<ComputationPtr> known, linear;
  std::vector<const Type*> linear_types = slots;
  for (size_t i = 0; i < num_operands; ++i)
    if (passed[i]) linear_types.push_back(x[i + 1].type());
  for (size_t i = 0; i < num_operands; ++i)
    if (marks[i]) linear_types.push_back(x[i + 1].type());
  for (size_t k = 0; k < splits.size(); ++k) {
    const SplitComputation& split = splits[k];
    Builder inner;
    const Ops roots = split.known->roots();
    Values out(roots.begin(), roots.begin() + n);
    out.resize(n + slots.size());
    for (size_t i = 0; i < slot_of[k].size(); ++i) out[n + slot_of[k][i]] = roots[n + i];
    for (size_t i = 0; i < slots.size(); ++i)
      if (!out[n + i]) out[n + i] = inner.zeros(slots[i]);
    if (!inner.ok()) {
      b.fail(inner.status());
      return failed;
    }
    absl::StatusOr<ComputationPtr> body = Computation::make(split.known->parameters(), out);
    if (!get_or_fail(b, body)) return failed;
    known.push_back(*std::move(body));
    body = record_region(linear_types, [&](Builder& in, Ops p) {
      Values arguments;
      size_t computed = 0;
      for (int64_t r : split.residual_parameter) {
        if (r < 0)
          arguments.push_back(p[slot_of[k][computed++]]);
        else
          arguments.push_back(p[slots.size() + std::count(passed.begin(), passed.begin() + r, true)]);
      }
      const size_t tangents = slots.size() + std::count(passed.begin(), passed.end(), true);
      return inline_computation(in, *split.unknown, joined(arguments, p.subspan(tangents)));
    });
    if (!get_or_fail(b, body)) return failed;
    linear.push_back(*std::move(body));
  }
  const Values first = b.conditional(x[0], known, x.subspan(1));
  if (!b.ok()) return failed;
  Values operands = joined(Ops(first).subspan(n), picked(x.subspan(1), passed));
  operands = joined(operands, picked(t.subspan(1), marks));
  const Values second = b.conditional(x[0], linear, operands);
  if (!b.ok()) return failed;
  return with_tangents(n, (*derived)[0].results, joined(Ops(first).first(n), second));
}

Values case_transpose(Builder& b, const Node& node, Ops x, Marks linear, Ops ct) {
  const Mask marks = operand_marks(linear), results = present(ct);
  Values out(x.size());
  if (linear[0]) {
    b.fail(absl::InvalidArgumentError("cannot transpose a case whose index is linear"));
    return out;
  }
  std::vector<ComputationPtr> branches;
  for (const ComputationPtr& branch : branches_of(node)) {
    absl::StatusOr<ComputationPtr> back = transpose_computation(*branch, marks, results);
    if (!get_or_fail(b, back)) return out;
    branches.push_back(*std::move(back));
  }
  const Values back =
      b.conditional(x[0], branches, joined(picked(x.subspan(1), marks, false), picked(ct, results)));
  if (!b.ok()) return out;
  size_t next = 0;
  for (size_t i = 0; i < marks.size(); ++i)
    if (marks[i]) out[i + 1] = back[next++];
  return out;
}

// Lanes that choose different branches: all branches run, each lane takes its own.
BatchResult case_batch_index(Builder& b, const Node& node, Ops x, Marks batched, int64_t size) {
  BatchResult out = all_batched(Values(node.num_results()));
  const auto& branches = branches_of(node);
  for (size_t k = branches.size(); k-- > 0;) {
    const Computation& branch = *branches[k];
    const BatchResult r =
        batch_graph(b, branch.roots(), branch.parameters(), x.subspan(1), batched.subspan(1), size);
    if (!b.ok()) return out;
    const bool last = k + 1 == branches.size();
    const Value here = last ? Value() : b.compare(x[0], b.full_like(x[0], static_cast<double>(k)), "EQ");
    for (size_t i = 0; i < r.results.size(); ++i) {
      const Value v = with_batch(b, r.results[i], r.batched[i], size);
      out.results[i] = last ? v : select_lanes(b, here, v, out.results[i]);
    }
  }
  return out;
}

BatchResult case_batch(Builder& b, const Node& node, Ops x, Marks batched, int64_t size) {
  if (batched[0]) return case_batch_index(b, node, x, batched, size);
  Mask forced(node.num_results(), false);
  BatchResult out = all_batched(Values(node.num_results()));
  while (true) {
    std::vector<ComputationPtr> branches;
    Mask all = forced;
    for (const ComputationPtr& branch : branches_of(node)) {
      absl::StatusOr<BatchComputation> r = batch_computation(*branch, batched.subspan(1), forced, size);
      if (!get_or_fail(b, r)) return out;
      for (size_t i = 0; i < all.size(); ++i) all[i] = all[i] || r->results[i];
      branches.push_back(r->body);
    }
    if (all == forced) {
      out.results = b.conditional(x[0], branches, x.subspan(1));
      out.batched.assign(forced.begin(), forced.end());
      return out;
    }
    forced = all;
  }
}

// --- call ---

Values call_like(Builder& b, const Node& node, ComputationPtr body, Ops operands) {
  // A custom rule is the function's, not its transpose's.
  if (node.attrs().has(Attr::rule))
    return b.make_multi(Op::call, operands, intern_attrs({{Attr::body, std::move(body)}}));
  return b.make_multi(Op::call, operands, with_attr(node.attrs(), Attr::body, std::move(body)));
}

JvpResult call_jvp(Builder& b, const Node& node, Ops x, Ops t) {
  if (node.attrs().has(Attr::rule)) return custom_rule_jvp(b, node, x, t, JvpMode::kForward);
  const Mask marks = present(t), none(node.num_results(), false);
  const JvpResult failed{Values(node.num_results()), {}};
  absl::StatusOr<JvpComputation> derived =
      jvp_computation(*node.attrs().computation(Attr::body), marks, none, JvpMode::kForward);
  if (!get_or_fail(b, derived)) return failed;
  const Values results = call_like(b, node, derived->body, joined(x, picked(t, marks)));
  if (!b.ok()) return failed;
  return with_tangents(node.num_results(), derived->results, results);
}

JvpResult call_linearize(Builder& b, const Node& node, Ops x, Ops t) {
  if (node.attrs().has(Attr::rule)) return custom_rule_jvp(b, node, x, t, JvpMode::kLinearize);
  const size_t n = node.num_results();
  const Mask marks = present(t), none(n, false);
  const JvpResult failed{Values(n), {}};
  absl::StatusOr<JvpComputation> derived =
      jvp_computation(*node.attrs().computation(Attr::body), marks, none, JvpMode::kLinearize);
  if (!get_or_fail(b, derived)) return failed;
  const Ops roots = derived->body->roots();
  if (node.attrs().has(Attr::instance)) {
    // Nothing is kept: the linear call computes what it needs from the operands once more.
    absl::StatusOr<ComputationPtr> linear = Computation::make(derived->body->parameters(), roots.subspan(n));
    if (!get_or_fail(b, linear)) return failed;
    if (roots.size() == n) return {Values(n), results_of(b, node, x)};
    const Values tangents = call_like(b, node, *linear, joined(x, picked(t, marks)));
    if (!b.ok()) return failed;
    return with_tangents(n, derived->results, joined(results_of(b, node, x), tangents));
  }
  Mask linear(derived->body->parameters().size(), false), forced(roots.size(), false);
  std::fill(linear.begin() + x.size(), linear.end(), true);
  std::fill(forced.begin() + n, forced.end(), true);
  absl::StatusOr<SplitComputation> split = split_computation(*derived->body, linear, forced);
  if (!get_or_fail(b, split)) return failed;
  const Values first = call_like(b, node, split->known, x);
  if (!b.ok()) return failed;
  Values operands;
  size_t next = n;
  for (int64_t p : split->residual_parameter) operands.push_back(p >= 0 ? x[p] : first[next++]);
  Values second;
  if (roots.size() > n) second = call_like(b, node, split->unknown, joined(operands, picked(t, marks)));
  if (!b.ok()) return failed;
  return with_tangents(n, derived->results, joined(Ops(first).first(n), second));
}

Values call_transpose(Builder& b, const Node& node, Ops x, Marks linear, Ops ct) {
  if (has_custom_transpose(node)) return custom_rule_transpose(b, node, x, linear, ct);
  Values out(x.size());
  const Mask results = present(ct);
  absl::StatusOr<ComputationPtr> back =
      transpose_computation(*node.attrs().computation(Attr::body), linear, results);
  if (!get_or_fail(b, back)) return out;
  if (const int64_t instance = node.attrs().integer(Attr::instance)) {
    // The region to compute again starts at a barrier, else it would be shared with the forward computation.
    const std::vector<const Type*> types = (*back)->parameter_types();
    back = record_region(types, [&](Builder& inner, Ops p) {
      const Values held =
          inner.make_multi(Op::optimization_barrier, p, intern_attrs({{Attr::instance, instance}}));
      return inner.ok() ? inline_computation(inner, **back, held) : Values();
    });
    if (!get_or_fail(b, back)) return out;
  }
  const Values cotangents = call_like(b, node, *back, joined(picked(x, linear, false), picked(ct, results)));
  if (!b.ok()) return out;
  size_t next = 0;
  for (size_t i = 0; i < x.size(); ++i)
    if (linear[i]) out[i] = cotangents[next++];
  return out;
}

BatchResult call_batch(Builder& b, const Node& node, Ops x, Marks batched, int64_t size) {
  if (node.attrs().has(Attr::rule)) return custom_rule_batch(b, node, x, batched, size);
  BatchResult out = all_batched(Values(node.num_results()));
  absl::StatusOr<BatchComputation> r = batch_computation(*node.attrs().computation(Attr::body), batched,
                                                         Mask(node.num_results(), false), size);
  if (!get_or_fail(b, r)) return out;
  out.results = call_like(b, node, r->body, x);
  out.batched.assign(r->results.begin(), r->results.end());
  return out;
}

// --- host callbacks and random bits ---

const linalg::Routine* routine_of(const Node& node) {
  return linalg::find_routine(node.attrs().string(Attr::call_target_name));
}

JvpResult custom_call_jvp(Builder& b, const Node& node, Ops x, Ops t) {
  if (const linalg::Routine* routine = routine_of(node); routine && routine->jvp)
    return routine->jvp(b, node, x, t);
  JvpResult out{Values(node.num_results()), {}};
  if (!node.attrs().has(Attr::rule)) {
    for (uint32_t i = 0; i < node.num_results(); ++i)
      if (has_tangent(node.result_type(i)))
        b.fail(absl::UnimplementedError(str_cat("no derivative of custom_call '",
                                                node.attrs().string(Attr::call_target_name),
                                                "': give the function a custom derivative")));
    return out;
  }
  // The stand-in of a custom vjp is linear in what follows its residuals.
  const int64_t residuals = node.attrs().integer(Attr::index);
  Values operands(x.begin(), x.end());
  for (size_t i = 0; i < x.size(); ++i) {
    if (static_cast<int64_t>(i) >= residuals) {
      operands[i] = or_zeros(b, t[i], x[i]);
    } else if (t[i]) {
      b.fail(absl::UnimplementedError(
          "no derivative of a linearized function with a custom vjp by its residuals"));
      return out;
    }
  }
  out.tangents = b.remake(node, operands);
  return out;
}

Values custom_call_transpose(Builder& b, const Node& node, Ops x, Marks linear, Ops ct) {
  if (const linalg::Routine* routine = routine_of(node); routine && routine->transpose)
    return routine->transpose(b, node, x, linear, ct);
  return custom_vjp_transpose(b, node, x, linear, ct);
}

BatchResult custom_call_batch(Builder& b, const Node& node, Ops x, Marks batched, int64_t size) {
  if (routine_of(node)) return linalg::batch_call(b, node, x, batched, size);
  if (!node.attrs().has(Attr::rule) && !node.attrs().flag(Attr::has_side_effect))
    return batch_by_scan(b, node, x, batched, size);
  b.fail(absl::UnimplementedError(
      node.attrs().has(Attr::rule)
          ? "cannot batch the linear part of a function with a custom vjp; batch the function, or its vjp"
          : "cannot batch a host callback with side effects: its effects would have no order; call it in a "
            "scan"));
  return all_batched(Values(node.num_results()));
}

}  // namespace

void add_control_transforms(OpTable& table) {
  auto row = [&](Op op, JvpRule jvp, JvpRule linearize, TransposeRule transpose, BatchRule batch) {
    table[op].jvp = jvp;
    table[op].linearize = linearize;
    table[op].transpose = transpose;
    table[op].batch = batch;
  };
  row(Op::while_, while_jvp, while_linearize, while_transpose, while_batch);
  row(Op::case_, case_jvp, case_linearize, case_transpose, case_batch);
  row(Op::scan, scan_jvp, scan_linearize, scan_transpose, scan_batch);
  row(Op::call, call_jvp, call_linearize, call_transpose, call_batch);
  row(Op::custom_call, custom_call_jvp, nullptr, custom_call_transpose, custom_call_batch);
  row(Op::rng_bit_generator, no_tangent, nullptr, nullptr, batch_by_scan);
}

}  // namespace lamina::hlo
