// Transforms of case, call, custom_call and random bits.
#include <algorithm>

#include "hlo/custom_call.h"
#include "hlo/linalg/calls.h"
#include "trace/call_sequence.h"
#include "trace/kept.h"
#include "trace/lanes.h"
#include "trace/rules/custom.h"
#include "trace/rules/effects.h"
#include "trace/rules/lane_loops.h"
#include "trace/rules/loop_derivatives.h"
#include "trace/rules/loop_guard.h"
#include "trace/rules/scan.h"
#include "trace/rules/while.h"

namespace lamina::trace {
namespace {

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

// Types of the rows of windows that a result of some branches is made of; absent: it is given as it is.
using WindowTypes = std::optional<std::vector<const Type*>>;

// Of each result of transposed branches. Where all of them send back windows of an array, they give these:
// the array is then not written by each of them as a whole.
std::vector<WindowTypes> common_windows(const std::vector<ComputationPtr>& branches) {
  std::vector<WindowTypes> out;
  for (size_t r = 0; r < branches[0]->roots().size(); ++r) {
    Slots slots;
    bool fit = true;
    for (const ComputationPtr& branch : branches) {
      const std::optional<std::vector<Window>> windows = windows_of(branch->roots()[r]);
      std::vector<const Type*> rows;
      for (size_t i = 0; windows && i < windows->size(); ++i) {
        rows.push_back((*windows)[i].row.type());
        for (const Value& start : (*windows)[i].starts) fit = fit && start.dtype() != DType::kU64;
      }
      fit = fit && windows;
      slots.of(rows);
    }
    int64_t elements = 0;
    for (const Type* t : slots.types()) elements += t->num_elements;
    fit = fit && slots.types().size() <= kMostWindows;
    fit = fit && elements * 4 <= branches[0]->roots()[r].type()->num_elements;
    out.push_back(fit ? WindowTypes(slots.types()) : std::nullopt);
  }
  return out;
}

// The branch with rows and starts in the place of results that are made of windows.
absl::StatusOr<ComputationPtr> giving_windows(const Computation& branch,
                                              const std::vector<WindowTypes>& types) {
  Builder b;
  Values roots;
  for (size_t r = 0; r < types.size(); ++r) {
    const Value& root = branch.roots()[r];
    if (!types[r]) {
      roots.push_back(root);
      continue;
    }
    std::vector<Window> windows = *windows_of(root);
    for (const Type* t : *types[r]) {
      auto w =
          std::find_if(windows.begin(), windows.end(), [&](const Window& x) { return x.row.type() == t; });
      roots.push_back(w == windows.end() ? b.zeros(t) : w->row);
      for (int64_t d = 0; d < t->rank(); ++d)
        roots.push_back(w == windows.end() ? b.scalar_int(DType::kS64, 0)
                                           : b.convert(w->starts[static_cast<size_t>(d)], DType::kS64));
      if (w != windows.end()) windows.erase(w);
    }
  }
  if (!b.ok()) return b.status();
  return Computation::make(branch.parameters(), roots);
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
  const std::vector<WindowTypes> windows = common_windows(branches);
  for (ComputationPtr& branch : branches) {
    absl::StatusOr<ComputationPtr> given = giving_windows(*branch, windows);
    if (!get_or_fail(b, given)) return out;
    branch = *std::move(given);
  }
  const Values back =
      b.conditional(x[0], branches, joined(picked(x.subspan(1), marks, false), picked(ct, results)));
  if (!b.ok()) return out;
  size_t next = 0, number = 0;
  for (size_t i = 0; i < marks.size(); ++i) {
    if (!marks[i]) continue;
    const WindowTypes& types = windows[number++];
    if (!types) {
      out[i + 1] = back[next++];
      continue;
    }
    out[i + 1] = b.zeros(x[i + 1] ? x[i + 1].type() : node.operand_type(i + 1));
    for (size_t k = 0; k < types->size() && b.ok(); ++k) {
      const size_t rank = static_cast<size_t>((*types)[k]->rank());
      out[i + 1] = add_window(b, out[i + 1], {back[next], Values(&back[next + 1], &back[next + 1] + rank)});
      next += 1 + rank;
    }
  }
  return out;
}

// Which lanes take the last branch, number k: those with an index that is none of another branch.
Value takes_last(Builder& b, const Value& index, size_t k) {
  return b.or_(b.compare(index, b.full_like(index, 0), "LT"),
               b.compare(index, b.full_like(index, static_cast<double>(k)), "GE"));
}

// Lanes that choose different branches: all branches run, each lane takes its own. Loops in a branch run for
// its lanes only.
BatchResult case_batch_index(Builder& b, const Node& node, Ops x, Marks batched, int64_t size) {
  BatchResult out = all_batched(Values(node.num_results()));
  const auto& branches = branches_of(node);
  for (size_t k = branches.size(); k-- > 0;) {
    const bool last = k + 1 == branches.size(), guard = may_loop(*branches[k]);
    ComputationPtr branch = branches[k];
    Values operands(x.begin() + 1, x.end());
    Mask marks = operand_marks(batched);
    const Value here =
        last ? takes_last(b, x[0], k) : b.compare(x[0], b.full_like(x[0], static_cast<double>(k)), "EQ");
    for (size_t i = 0; i < operands.size(); ++i)
      if (marks[i]) operands[i] = derived_here(b, here, operands[i]);
    if (guard) {
      absl::StatusOr<ComputationPtr> with_flag = guarded(*branch);
      if (!get_or_fail(b, with_flag)) return out;
      branch = *std::move(with_flag);
      operands.push_back(here);
      marks.push_back(true);
    }
    const BatchResult r = batch_graph(b, branch->roots(), branch->parameters(), operands, marks, size);
    if (!b.ok()) return out;
    for (size_t i = 0; i < r.results.size(); ++i) {
      // What every branch gives alike, an operand that they pass on, is one value of all lanes.
      if (last ? !r.batched[i] : !r.batched[i] && !out.batched[i] && r.results[i] == out.results[i]) {
        out.results[i] = r.results[i];
        out.batched[i] = false;
        continue;
      }
      const Value v = with_batch(b, r.results[i], r.batched[i], size);
      out.results[i] =
          last ? v : select_lanes(b, here, v, with_batch(b, out.results[i], out.batched[i], size));
      out.batched[i] = true;
    }
  }
  return out;
}

BatchResult case_batch(Builder& b, const Node& node, Ops x, Marks batched, int64_t size) {
  const bool apart =
      goes_lane_by_lane(node) || lanes_apart(node) ||
      (lane_strategy() == LaneStrategy::kAuto && !exchanges(node) && branches_cost_more(branches_of(node)));
  if (batched[0] && apart) return batch_by_scan(b, node, x, batched, size);
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
  // A custom rule is the function's, not its transpose's, and so are what a loop's derivative says of itself
  // and the name of a composite.
  if (has_custom_rule(node) || loop_derivative(node) || is_composite(node))
    return b.make_multi(Op::call, operands, intern_attrs({{Attr::body, std::move(body)}}));
  return b.make_multi(Op::call, operands, with_attr(node.attrs(), Attr::body, std::move(body)));
}

namespace {

// The attributes of an instance that calls `body` on those of its operands, and further ones.
const Attrs* of_operands(const Node& node, const Mask& kept, ComputationPtr body) {
  Dims shared;
  for (size_t i = 0, next = 0; i < kept.size(); ++i)
    if (kept[i]) {
      if (contains(node.attrs().ints(Attr::shared_operands), static_cast<int64_t>(i)))
        shared.push_back(static_cast<int64_t>(next));
      ++next;
    }
  const Attrs* calling = with_attr(node.attrs(), Attr::body, std::move(body));
  return with_attr(*calling, Attr::shared_operands, std::move(shared));
}

}  // namespace

JvpResult call_jvp(Builder& b, const Node& node, Ops x, Ops t) {
  if (const auto d = loop_derivative(node); d && !derived_as_recorded(*d, t))
    return loop_derivative_jvp(b, *d, node, x, t, JvpMode::kForward);
  if (has_custom_rule(node)) return custom_rule_jvp(b, node, x, t, JvpMode::kForward);
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
  if (const auto d = loop_derivative(node); d && !derived_as_recorded(*d, t))
    return loop_derivative_jvp(b, *d, node, x, t, JvpMode::kLinearize);
  if (has_custom_rule(node)) return custom_rule_jvp(b, node, x, t, JvpMode::kLinearize);
  const size_t n = node.num_results();
  const Mask marks = present(t), none(n, false);
  const JvpResult failed{Values(n), {}};
  absl::StatusOr<JvpComputation> derived =
      jvp_computation(*node.attrs().computation(Attr::body), marks, none, JvpMode::kLinearize);
  if (!get_or_fail(b, derived)) return failed;
  const Ops roots = derived->body->roots();
  if (const std::shared_ptr<const Policy> policy = policy_of(node); policy && roots.size() > n) {
    const absl::StatusOr<KeptSplit> split = split_by_policy(derived->body, x.size(), n, *policy);
    if (!get_or_fail(b, split)) return failed;
    const Values first = call_like(b, node, split->known, x);
    if (!b.ok()) return failed;
    const Values operands =
        joined(joined(picked(x, split->operands), Ops(first).subspan(n)), picked(t, marks));
    const Values tangents =
        b.make_multi(Op::call, operands, of_operands(node, split->operands, split->linear));
    if (!b.ok()) return failed;
    return with_tangents(n, derived->results, joined(Ops(first).first(n), tangents));
  }
  if (node.attrs().has(Attr::instance)) {
    // Nothing is kept: the linear call computes what it needs from the operands once more.
    absl::StatusOr<ComputationPtr> linear = Computation::make(derived->body->parameters(), roots.subspan(n));
    if (!get_or_fail(b, linear)) return failed;
    const auto has_effect = [](const Node* each) { return anywhere(*each, is_effect); };
    if (std::any_of((*linear)->nodes().begin(), (*linear)->nodes().end(), has_effect)) {
      linear = without_effects(**linear);
      if (!get_or_fail(b, linear)) return failed;
    }
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
  if (const auto d = loop_derivative(node)) return loop_derivative_transpose(b, *d, x, linear, ct);
  if (has_custom_transpose(node)) return custom_rule_transpose(b, node, x, linear, ct);
  Values out(x.size());
  const Mask results = present(ct);
  absl::StatusOr<ComputationPtr> back =
      transpose_computation(*node.attrs().computation(Attr::body), linear, results);
  if (!get_or_fail(b, back)) return out;
  if (const int64_t instance = node.attrs().integer(Attr::instance)) {
    // The region to compute again starts at a barrier, else it would be shared with the forward computation.
    const std::vector<const Type*> types = (*back)->parameter_types();
    Mask guarded(types.size(), true);
    for (size_t i = 0, next = 0; i < x.size(); ++i)
      if (!linear[i])
        guarded[next++] = !contains(node.attrs().ints(Attr::shared_operands), static_cast<int64_t>(i));
    back = record_region(types, [&](Builder& inner, Ops p) {
      const Values held = inner.make_multi(Op::optimization_barrier, picked(p, guarded),
                                           intern_attrs({{Attr::instance, instance}}));
      if (!inner.ok()) return Values();
      Values given(p.begin(), p.end());
      for (size_t i = 0, next = 0; i < given.size(); ++i)
        if (guarded[i]) given[i] = held[next++];
      return inline_computation(inner, **back, given);
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
  if (const auto d = loop_derivative(node)) return loop_derivative_batch(b, *d, node, x, batched, size);
  if (has_custom_rule(node)) return custom_rule_batch(b, node, x, batched, size);
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

Values record_named(Builder& b, const Node& node, const Value& x) {
  return b.make_multi(Op::custom_call, {{x}},
                      with_attr(node.attrs(), Attr::result_types, std::vector<const Type*>{x.type()}));
}

JvpResult custom_call_jvp(Builder& b, const Node& node, Ops x, Ops t) {
  if (given_name(node)) return {{t[0]}, {}};  // the name is that of the value
  if (const linalg::Routine* routine = routine_of(node); routine && routine->jvp)
    return routine->jvp(b, node, x, t);
  JvpResult out{Values(node.num_results()), {}};
  if (is_recursive_call(node)) {
    b.fail(
        absl::UnimplementedError("a derivative taken inside a recursive function goes through its call of "
                                 "itself: take the derivative of the "
                                 "whole recursion, outside of it"));
    return out;
  }
  if (is_effect(node) && node.num_results() > 1) {
    b.fail(
        absl::InvalidArgumentError("io_callback has no derivative, and its arguments depend on what is "
                                   "differentiated: give the function around it a custom_jvp or "
                                   "custom_vjp, or pass stop_gradient of them"));
    return out;
  }
  if (!node.attrs().has(Attr::rule)) {
    const std::string& target = node.attrs().string(Attr::call_target_name);
    const std::string what = target == kPythonTarget || target == kCppTarget
                                 ? "pure_callback"
                                 : str_cat("custom_call '", target, "'");
    for (uint32_t i = 0; i < node.num_results(); ++i)
      if (has_tangent(node.result_type(i)))
        b.fail(absl::InvalidArgumentError(
            str_cat(what,
                    " has no derivative, and its arguments depend on what is differentiated: give the "
                    "function around it a custom_jvp or custom_vjp, or pass stop_gradient of them")));
    return out;
  }
  return custom_vjp_linear_jvp(b, node, x, t);
}

Values custom_call_transpose(Builder& b, const Node& node, Ops x, Marks linear, Ops ct) {
  if (given_name(node)) return {ct[0]};
  if (const linalg::Routine* routine = routine_of(node); routine && routine->transpose)
    return routine->transpose(b, node, x, linear, ct);
  return custom_vjp_transpose(b, node, x, linear, ct);
}

// Whether the user asked that vmap refuses a host callback.
bool refuses_lanes(const Node& node) {
  return node.attrs().has(Attr::vmap_method) && node.attrs().string(Attr::vmap_method) == "refuse";
}

BatchResult custom_call_batch(Builder& b, const Node& node, Ops x, Marks batched, int64_t size) {
  if (refuses_lanes(node)) {
    b.fail(absl::UnimplementedError(
        str_cat(is_effect(node) ? "io_callback" : "pure_callback",
                " with vmap_method='refuse' stands in a vmap: call it outside, or give it another method")));
    return all_batched(Values(node.num_results()));
  }
  if (given_name(node)) return {record_named(b, node, x[0]), {batched[0]}};
  if (routine_of(node)) return linalg::batch_call(b, node, x, batched, size);
  const bool token = is_effect(node) && x.size() > 1 && node.operand_type(1)->is_scalar();
  if (token) return effect_batch(b, node, x, batched, size);
  if (node.attrs().has(Attr::vmap_method) && !batched[0]) return callback_batch(b, node, x, batched, size);
  if (node.attrs().has(Attr::rule)) return custom_vjp_linear_batch(b, node, x, batched, size);
  if (!node.attrs().flag(Attr::has_side_effect)) return batch_by_scan(b, node, x, batched, size);
  b.fail(absl::UnimplementedError(
      "cannot batch a host callback with side effects and no token: its effects would have no order; call it "
      "in a scan"));
  return all_batched(Values(node.num_results()));
}

}  // namespace

void add_control_transforms(TransformTable& table) {
  table[Op::while_] = {while_jvp, while_transpose, while_batch, while_linearize};
  table[Op::case_] = {case_jvp, case_transpose, case_batch, case_linearize};
  table[Op::scan] = {scan_jvp, scan_transpose, scan_batch, scan_linearize};
  table[Op::call] = {call_jvp, call_transpose, call_batch, call_linearize};
  table[Op::custom_call] = {custom_call_jvp, custom_call_transpose, custom_call_batch};
  table[Op::rng_bit_generator] = {no_tangent, nullptr, batch_by_scan};
}

}  // namespace lamina::trace
