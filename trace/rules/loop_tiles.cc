// Reverse mode of loops whose steps compute element by element.
//
// How many steps there are is known when the loop has run. Then each element goes forward and back by itself,
// so that what the steps leave for the way back need not be kept for all elements at once: a tile of them,
// whose log stays near the processor, after the other. A log has a row for each step of its length; steps on
// the way back whose row is beyond the last one change nothing. Of the lengths there are, the least that
// suffices is chosen. More steps than the greatest are a loop whose steps are so many, reversed by states
// (loop_states.cc). Where the lanes of a batch end apart, steps are counted per lane, and those of a
// tile are as many as its longest lane's. Of a loop whose number of steps is known, logs have just so many
// rows.
//
// Tiles are of one size. The last one begins where it still fits: what it has in common with the one before
// is computed twice, to the same.
#include <algorithm>
#include <array>

#include "hlo/graph_copy.h"
#include "trace/rules/loop_log.h"

namespace lamina::trace {

namespace {

// Bytes of a tile's widest array: an odd number of cache lines, as rows one behind the other at multiples of
// a power of two would share few sets of a cache.
constexpr int64_t kTileBytes = 125 * 64;
// Of fewer elements the log of a known number of steps is kept as a whole; of an unknown one these few are
// worth programs for each length, as a log in a `while` keeps its steps from being one kernel.
constexpr int64_t kLeastElements = 128, kLeastOfUnknown = 4;
constexpr std::array<int64_t, 8> kLengths = {3, 6, 8, 12, 20, 32, 64, 128};

// The results of `c` on arguments that are arrays of `dims` where its own are arrays of `space`; absent where
// it does more than compute element by element, from arrays of that shape and numbers.
std::optional<Values> on_elements(Builder& b, const Computation& c, Ops arguments, const Dims& space,
                                  const Dims& dims) {
  const auto fits = [&](const Type& t) { return t.is_array() && (t.is_scalar() || t.dims == space); };
  GraphCopy copy(c.parameters(), arguments);
  bool all_fit = true;
  const bool made = copy.extend(b, c.nodes(), [&](const Node& n, Ops operands) -> Values {
    Values none(n.num_results());
    for (uint32_t i = 0; i < n.num_results(); ++i) all_fit = all_fit && fits(*n.result_type(i));
    if (!all_fit) return none;
    NodeScope scope(n);
    if (is_plain_call(n)) {
      std::optional<Values> out = on_elements(b, *n.attrs().computation(Attr::body), operands, space, dims);
      all_fit = out.has_value();
      return all_fit ? *std::move(out) : none;
    }
    if (n.op() == Op::broadcast_in_dim && n.operand_type(0)->is_scalar())
      return {n.type()->is_scalar() ? operands[0] : b.broadcast_scalar(operands[0], dims)};
    const bool is_number = n.op() == Op::constant && n.type()->is_scalar();
    all_fit = is_number || n.def().is_elementwise() || n.op() == Op::stop_gradient;
    return all_fit ? b.remake(n, operands) : none;
  });
  if (!made || !all_fit) return std::nullopt;
  return copy(c.roots());
}

// Whether a value is made of parameters by a few steps that cost little.
bool is_cheap(const Value& root) {
  constexpr size_t kFew = 16;
  return made_by_few({{root.operand()}}, kFew, [](const Node& n) {
    return n.op() == Op::parameter || n.op() == Op::constant || n.op() == Op::broadcast_in_dim ||
           (n.def().is_elementwise() && !(n.def().flags & hlo::kDear));
  });
}

// The step with residuals that cost little computed on the way back, where the carries they are made of are
// fewer.
absl::StatusOr<SplitStep> with_little_logged(SplitStep step) {
  Mask again;
  for (const SplitStep::Residual& r : step.residuals)
    again.push_back(r.kind == SplitStep::Residual::kComputed && is_cheap(step.known->roots()[r.index]));
  absl::StatusOr<SplitStep> other = made_again(step, again);
  if (other.ok() && other->logged_bytes() >= step.logged_bytes()) return step;
  return other;
}

// Whether anything in the computation reads parameter i, other than its own result.
bool reads(const Computation& c, size_t i) {
  const Value& p = c.parameters()[i];
  for (const Node* n : c.nodes())
    for (Operand o : n->operands())
      if (o.node() == p.node()) return true;
  for (size_t r = 0; r < c.roots().size(); ++r)
    if (r != i && c.roots()[r] == p) return true;
  return false;
}

// The carry, one bool for each element, that says which go on where the loop runs while any does: those that
// have stopped keep what they carry.
std::optional<size_t> lanes_flag(const Loop& loop, const Dims& space) {
  const Node& any = *loop.cond->roots()[0].node();
  if (any.op() != Op::reduce || any.operands().size() != 2 || !any.type()->is_scalar() ||
      region_op(*any.attrs().computation(Attr::body)) != Op::or_ || any.operand_type(0)->dims != space)
    return std::nullopt;
  const auto& parameters = loop.cond->parameters();
  const auto found = std::find(parameters.begin(), parameters.end(), any.operand_value(0));
  if (found == parameters.end()) return std::nullopt;
  const auto flag = static_cast<size_t>(found - parameters.begin());
  const Operand goes_on = loop.body->parameters()[flag].operand();
  for (size_t i = 0; i < parameters.size(); ++i) {
    const Node& root = *loop.body->roots()[i].node();
    const bool stays =
        i == flag ? root.op() == Op::and_ && (root.operand(0) == goes_on || root.operand(1) == goes_on)
                  : is_invariant(*loop.body, i) || (root.op() == Op::select && root.operand(0) == goes_on &&
                                                    root.operand(2) == loop.body->parameters()[i].operand());
    if (!stays) return std::nullopt;
  }
  return flag;
}

}  // namespace

absl::StatusOr<std::optional<TiledLoop>> TiledLoop::fitting(const Loop& loop, const Mask& marked,
                                                            int64_t least) {
  TiledLoop out;
  out.marked_ = marked;
  const size_t n = marked.size();
  const auto& parameters = loop.body->parameters();
  int64_t widest = 1;
  for (size_t i = 0; i < n; ++i) {
    const Type& t = *parameters[i].type();
    out.used_.push_back(!is_invariant(*loop.body, i) || reads(*loop.body, i));
    if (!out.used_[i]) continue;
    if (!t.is_array() || (t.is_scalar() && marked[i])) return std::nullopt;
    out.used_marked_.push_back(marked[i]);
    if (t.is_scalar()) continue;
    if (out.space_.empty()) out.space_ = t.dims;
    if (t.dims != out.space_) return std::nullopt;
    out.elements_ = t.num_elements;
    widest = std::max(widest, t.bytes() / std::max<int64_t>(t.num_elements, 1));
  }
  if (out.elements_ < least) return std::nullopt;
  out.tile_ = std::min(out.elements_, kTileBytes / widest);
  absl::StatusOr<Loop> whole = differentiated(loop, marked);
  if (!whole.ok()) return whole.status();
  out.loop_ = *std::move(whole);

  const Dims dims{out.tile_};
  std::vector<const Type*> types;
  for (const Value& p : picked(parameters, out.used_)) {
    const absl::StatusOr<const Type*> tile = array_type(p.dtype(), p.type()->is_scalar() ? Dims() : dims);
    if (!tile.ok()) return tile.status();
    types.push_back(*tile);
  }
  bool fits = false;
  absl::StatusOr<ComputationPtr> body = record_region(types, [&](Builder& b, Ops p) {
    Values arguments(parameters.begin(), parameters.end());
    for (size_t i = 0, next = 0; i < n; ++i)
      if (out.used_[i]) arguments[i] = p[next++];
    const std::optional<Values> after = on_elements(b, *loop.body, arguments, out.space_, dims);
    fits = after.has_value();
    return fits ? picked(*after, out.used_) : Values(p.begin(), p.end());
  });
  if (!body.ok()) return body.status();
  if (!fits) return std::nullopt;
  out.step_.loop = {nullptr, *std::move(body)};
  out.flag_ = lanes_flag(out.loop_, out.space_);
  return out;
}

absl::StatusOr<std::optional<TiledLoop>> TiledLoop::of(const Loop& loop, const Mask& marked) {
  absl::StatusOr<std::optional<TiledLoop>> out =
      fitting(loop, marked, loop.steps ? kLeastElements : kLeastOfUnknown);
  if (!out.ok() || !*out) return out;
  absl::StatusOr<SplitStep> step = split_step((*out)->step_.loop, (*out)->used_marked_);
  if (step.ok()) step = with_little_logged(*step);
  if (!step.ok()) return step.status();
  (*out)->step_ = *std::move(step);
  return out;
}

bool TiledLoop::is_better(const Loop& loop, const Mask& tangents, int64_t steps) {
  constexpr int64_t kCached = int64_t{256} << 10;
  int64_t bytes = 0;
  for (size_t i = 0; i < tangents.size(); ++i)
    if (!is_invariant(*loop.body, i)) bytes += loop.body->parameters()[i].type()->bytes();
  if (bytes == 0 || steps <= kCached / bytes) return false;
  const absl::StatusOr<Mask> marks = closed_marks(*loop.body, tangents);
  if (!marks.ok()) return false;
  const absl::StatusOr<std::optional<TiledLoop>> tiles = of(loop, *marks);
  return tiles.ok() && tiles->has_value();
}

bool TiledLoop::has_lanes_of_elements(const Loop& loop) {
  const absl::StatusOr<std::optional<TiledLoop>> found =
      fitting(loop, Mask(loop.body->parameters().size(), false), kLeastElements);
  return found.ok() && *found && (*found)->flag_;
}

absl::StatusOr<Loop> TiledLoop::counted() const {
  if (!flag_) return trace::counted(loop_);
  std::vector<const Type*> types = loop_.body->parameter_types();
  const size_t n = types.size();
  const absl::StatusOr<const Type*> counts = array_type(DType::kS64, space_);
  if (!counts.ok()) return counts.status();
  types.push_back(*counts);
  absl::StatusOr<ComputationPtr> cond = with_parameters(*loop_.cond, std::span(types).subspan(n));
  if (!cond.ok()) return cond.status();
  absl::StatusOr<ComputationPtr> body = record_region(types, [&](Builder& b, Ops p) {
    const Value next = b.select(p[*flag_], b.add(p[n], b.full_like(p[n], 1)), p[n]);
    return joined(inline_computation(b, *loop_.body, p.first(n)), {{next}});
  });
  if (!body.ok()) return body.status();
  return Loop{*std::move(cond), *std::move(body), loop_.kept};
}

Value TiledLoop::no_steps(Builder& b) const {
  const Value none = number(b, 0);
  return flag_ ? b.broadcast_scalar(none, space_) : none;
}

Values TiledLoop::run(Builder& b, Ops x) const {
  const absl::StatusOr<Loop> counting = counted();
  if (!get_or_fail(b, counting)) return Values(x.size() + 1);
  return record_loop(b, *counting, joined(x, {{no_steps(b)}}));
}

Values TiledLoop::primal(Builder& b, Ops x) const {
  if (loop_.steps) return record_loop(b, loop_, x);
  Values out = run(b, x);
  out.resize(x.size());
  return out;
}

Values TiledLoop::record(Builder& b, Ops x, Ops ct) const {
  const Values failed(ct.size());
  const Value taken = loop_.steps ? number(b, *loop_.steps) : run(b, x).back();
  if (!b.ok()) return failed;
  const auto flat = [&](const Value& v) { return v.type()->is_scalar() ? v : b.reshape(v, {{elements_}}); };
  Values carries, cotangents, out(ct.begin(), ct.end());
  for (const Value& v : picked(x, used_)) carries.push_back(flat(v));
  const Mask moved = [&] {
    Mask of_marked;
    for (size_t i = 0; i < marked_.size(); ++i)
      if (marked_[i]) of_marked.push_back(used_[i]);
    return of_marked;
  }();
  for (const Value& v : picked(ct, moved)) cotangents.push_back(flat(v));
  const Value steps = flat(taken);
  if (!b.ok()) return failed;
  const Values before = tile_ == elements_ ? undone(b, carries, cotangents, steps)
                                           : tile_by_tile(b, carries, cotangents, steps);
  if (!b.ok()) return failed;
  size_t next = 0;
  for (size_t i = 0; i < out.size(); ++i)
    if (moved[i]) out[i] = b.reshape(before[next++], space_);
  return out;
}

Values TiledLoop::tile_by_tile(Builder& b, Ops x, Ops ct, const Value& steps) const {
  const int64_t tiles = (elements_ + tile_ - 1) / tile_;
  Values carries;
  for (const Value& v : ct) carries.push_back(b.zeros_like(v));
  const size_t m = ct.size(), n = x.size();
  carries = joined(joined(carries, x), joined(ct, {{steps}}));
  const Value numbers = b.iota(DType::kS64, {{tiles}}, 0);
  if (!b.ok()) return Values(m);
  std::vector<const Type*> types = types_of(carries);
  types.push_back(scalar_type(DType::kS64));
  const absl::StatusOr<ComputationPtr> body = record_region(types, [&](Builder& in, Ops p) {
    const Value start = in.multiply(p.back(), number(in, tile_));
    Values tile, next(p.begin(), p.end() - 1);
    for (const Value& v : p.subspan(m, n + m + 1))
      tile.push_back(v.type()->is_scalar() ? v : in.dynamic_slice(v, {{start}}, {{tile_}}));
    const Ops all(tile);
    if (!in.ok()) return next;
    const Values before = undone(in, all.first(n), all.subspan(n, m), all.back());
    for (size_t i = 0; i < m; ++i) next[i] = in.dynamic_update_slice(p[i], before[i], {{start}});
    return next;
  });
  if (!get_or_fail(b, body)) return Values(m);
  Values out = b.scan(*body, carries, {{numbers}}, tiles, false);
  out.resize(m);
  return out;
}

Values TiledLoop::undone(Builder& b, Ops x, Ops ct, const Value& steps) const {
  if (loop_.steps)
    return *loop_.steps <= kLengths.back() ? logged(b, *loop_.steps, x, ct, Value())
                                           : in_parts(b, x, ct, steps);
  const Value last = flag_ ? b.reduce(steps, Op::maximum, number(b, 0), {{0}}) : steps;
  const Values operands = joined(joined(x, ct), {{last}});
  if (!b.ok()) return Values(ct.size());
  const std::vector<const Type*> types = types_of(operands);
  std::vector<ComputationPtr> branches;
  Value index = number(b, 0);
  for (size_t k = 0; k <= kLengths.size(); ++k) {
    const absl::StatusOr<ComputationPtr> branch = record_region(types, [&](Builder& in, Ops p) {
      const Ops carries = p.first(x.size()), after = p.subspan(x.size(), ct.size());
      return k == kLengths.size() ? in_parts(in, carries, after, p.back())
                                  : logged(in, kLengths[k], carries, after, p.back());
    });
    if (!get_or_fail(b, branch)) return Values(ct.size());
    branches.push_back(*branch);
    if (k < kLengths.size())
      index = b.add(index, b.convert(b.compare(last, number(b, kLengths[k]), "GT"), DType::kS64));
  }
  return b.conditional(b.convert(index, DType::kS32), branches, operands);
}

Values TiledLoop::logged(Builder& b, int64_t length, Ops x, Ops ct, const Value& steps) const {
  const size_t n = x.size(), m = ct.size();
  const absl::StatusOr<ComputationPtr> forward = record_region(types_of(x), [&](Builder& in, Ops p) {
    const Values made = inline_computation(in, *step_.known, p);
    return in.ok() ? joined(step_.carries(p, made), step_.logged(p, made)) : Values(n);
  });
  if (!get_or_fail(b, forward)) return Values(m);
  const Values run = b.scan(*forward, x, {}, length, false);
  if (!b.ok()) return Values(m);
  const Ops log = Ops(run).subspan(n);
  const Values fixed = step_.fixed(x);
  const size_t first_ct = fixed.size(), all = first_ct + m;
  Values carries = joined(fixed, ct);
  // How many steps were taken after that of the row at hand; negative where it was not taken itself.
  if (steps) carries.push_back(b.subtract(steps, number(b, length)));
  if (!b.ok()) return Values(m);
  std::vector<const Type*> types = types_of(carries);
  for (size_t i = 0; i < step_.residuals.size(); ++i)
    if (step_.residuals[i].is_logged()) types.push_back(step_.back->parameters()[i].type());
  const absl::StatusOr<ComputationPtr> backward = record_region(types, [&](Builder& in, Ops p) {
    const Ops after = p.subspan(first_ct, m);
    Values next(p.begin(), p.begin() + static_cast<int64_t>(carries.size()));
    const Values residuals = step_.residual_values(in, p.subspan(carries.size()), p.first(first_ct));
    if (!in.ok()) return next;
    const Values before = inline_computation(in, *step_.back, joined(residuals, after));
    if (!in.ok()) return next;
    std::copy(before.begin(), before.end(), next.begin() + static_cast<int64_t>(first_ct));
    if (!steps) return next;
    const Value taken = in.compare(p[all], number(in, 0), "GE");
    next[all] = in.add(p[all], number(in, 1));
    for (size_t i = 0; in.ok() && i < m; ++i)
      next[first_ct + i] = in.select(in.broadcast_scalar(taken, {{tile_}}), before[i], after[i]);
    return next;
  });
  if (!get_or_fail(b, backward)) return Values(m);
  const Values out = b.scan(*backward, carries, log, length, true);
  if (!b.ok()) return Values(m);
  return Values(out.begin() + static_cast<int64_t>(first_ct), out.begin() + static_cast<int64_t>(all));
}

Values TiledLoop::in_parts(Builder& b, Ops x, Ops ct, const Value& steps) const {
  const size_t n = x.size();
  const int64_t length = kLengths.back();
  // The number of the step and of all steps are further carries.
  const Values carries = joined(x, {{number(b, 0), steps}});
  const std::vector<const Type*> types = types_of(carries);
  const auto goes_on = [n](Builder& in, Ops p) { return in.compare(p[n], p[n + 1], "LT"); };
  const absl::StatusOr<ComputationPtr> cond =
      record_region(types, [&](Builder& in, Ops p) { return Values{goes_on(in, p)}; });
  const absl::StatusOr<ComputationPtr> part = record_region(types, [&](Builder& in, Ops p) {
    Values start(p.begin(), p.end());
    start[n + 1] = in.minimum(p[n + 1], in.add(p[n], number(in, length)));
    Values out = loop_over(in, start, goes_on, [&](Builder& step, Ops q) {
      return joined(inline_computation(step, *step_.loop.body, q.first(n)),
                    {{step.add(q[n], number(step, 1)), q[n + 1]}});
    });
    out[n + 1] = p[n + 1];
    for (size_t i = 0; i < n; ++i)
      if (is_invariant(*step_.loop.body, i)) out[i] = p[i];
    return out;
  });
  if (!get_or_fail(b, cond) || !get_or_fail(b, part)) return Values(ct.size());
  std::vector<const Type*> with_cotangents = types;
  for (const Value& v : ct) with_cotangents.push_back(v.type());
  const absl::StatusOr<ComputationPtr> back = record_region(with_cotangents, [&](Builder& in, Ops p) {
    return logged(in, length, p.first(n), p.subspan(n + 2), in.subtract(p[n + 1], p[n]));
  });
  if (!get_or_fail(b, back)) return Values(ct.size());
  Mask marked = used_marked_;
  marked.resize(n + 2, false);
  return reversed_by_states(b, {*cond, *part}, marked, *back, carries, ct);
}

}  // namespace lamina::trace
