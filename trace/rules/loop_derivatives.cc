// Derivatives of loops whose number of steps is not known before they run.
//
// Steps that compute element by element are reversed tile by tile (loop_tiles.cc). Where a step needs little
// of a large state, loop_log.cc keeps that instead. Else reverse mode runs the loop, keeping the states of
// the first kept + 1 steps, and goes back from the last one. Where there are no more steps it undoes one
// after another. Else it keeps the states of `kept` steps at a time, and computes those between them again;
// where to keep them is the binomial schedule of Griewank and Walther
// ("Algorithm 799: revolve", ACM TOMS 26, 2000), by which `kept` states and t forward sweeps reach back over
// (kept + t)! / (kept! t!) steps. Memory for many states is taken, and cleared, once a few are full. Where as
// many states are to be kept as the square root of the steps says, the loop runs first: then it is known how
// many reach back with two sweeps.
//
// Second derivatives need no derivative of that schedule. With J the Jacobian of the loop, reverse mode gives
// J' ct, whose derivative along (dx, dct) is J' dct + (dJ dx)' ct: as second derivatives are symmetric, it is
// the x part of reverse mode through the loop of carries and tangents, from (x, dx) with cotangents (dct,
// ct). Where the user's rules say what derivatives are, they need not be symmetric: there it is that of the
// schedule after all.
#include <algorithm>
#include <array>

#include "trace/lanes.h"
#include "trace/rules/custom.h"
#include "trace/rules/loop_log.h"
#include "trace/rules/scan.h"
#include "trace/rules/while.h"
#include "trace/transform_memo.h"

namespace lamina::trace {

Values loop_over(Builder& b, Ops carries, const std::function<Value(Builder&, Ops)>& go,
                 const std::function<Values(Builder&, Ops)>& step) {
  const std::vector<const Type*> types = types_of(carries);
  absl::StatusOr<ComputationPtr> cond =
      record_region(types, [&](Builder& inner, Ops p) { return Values{go(inner, p)}; });
  absl::StatusOr<ComputationPtr> body =
      record_region(types, [&](Builder& inner, Ops p) { return step(inner, p); });
  if (!get_or_fail(b, cond) || !get_or_fail(b, body)) return Values(carries.size());
  const Values out = b.while_loop(carries, *cond, *body);
  return b.ok() ? out : Values(carries.size());
}

namespace {

constexpr std::array<std::string_view, 4> kDirections = {"forward", "reverse", "forward of reverse",
                                                         "primal"};

// States that fit this many bytes are kept, at least kMinKept and at most kMaxKept.
constexpr int64_t kKeptBytes = int64_t{16} << 20, kMinKept = 16, kMaxKept = 1024;
// So many are kept at first, where memory for all is more than is cleared in no time.
constexpr int64_t kFirstKept = 64, kLittle = int64_t{1} << 20;
// Of loops that keep as many as the root of their steps: of these, the fewest that reach with two sweeps.
constexpr std::array<int64_t, 7> kRoots = {16, 64, 256, 1024, 4096, 16384, 65536};
constexpr int64_t reach_of_two_sweeps(int64_t kept) { return (kept + 2) * (kept + 1) / 2; }

size_t count(Marks marks) { return std::count(marks.begin(), marks.end(), true); }

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

// --- the schedule ---

// How many of `left` steps, at least two, to go on before the next state is kept, with `slots` states to keep
// (the one at hand among them). steps(s, t) = (s + t)! / (s! t!) are in reach of s states and t sweeps.
Value steps_to_next(Builder& b, const Value& left, const Value& slots) {
  // t, steps(slots, t), left, slots: the fewest sweeps that reach.
  const Values found = loop_over(
      b, {{number(b, 1), b.add(slots, number(b, 1)), left, slots}},
      [](Builder& in, Ops p) {
        return in.and_(in.compare(p[1], p[2], "LT"), in.compare(p[3], number(in, 1), "GT"));
      },
      [](Builder& in, Ops p) {
        const Value t = in.add(p[0], number(in, 1));
        return Values{t, in.divide(in.multiply(p[1], in.add(p[3], t)), t), p[2], p[3]};
      });
  const Value &t = found[0], &reach = found[1], one = number(b, 1), sum = b.add(slots, t);
  const Value less_one = b.divide(b.multiply(reach, t), sum);
  const Value less_two = b.divide(b.multiply(less_one, b.subtract(t, one)), b.subtract(sum, one));
  const Value fewer_slots = b.divide(b.multiply(reach, slots), sum);
  const Value some = b.maximum(b.maximum(less_two, b.subtract(left, fewer_slots)), one);
  const Value all = b.subtract(left, one);
  return b.select(b.compare(slots, one, "LE"), all, b.minimum(some, all));
}

// Reverse mode through one loop. A stack of states is kept as arrays of rows; the state above the last row
// that may be kept is the one whose step is undone next.
class Reversal {
 public:
  Reversal(const Loop& loop, const Mask& marked, ComputationPtr back)
      : loop_(loop), marked_(marked), back_(std::move(back)) {
    int64_t bytes = 0;
    const size_t n = marked.size();
    for (size_t i = 0; i < n; ++i) {
      changes_.push_back(!is_invariant(*loop.body, i));
      if (changes_.back()) bytes += loop.body->parameters()[i].type()->bytes();
    }
    states_ = count(changes_);
    by_root_ = loop.kept == kRootOfSteps;
    kept_ = by_root_    ? kRoots[0]
            : loop.kept ? loop.kept
                        : std::clamp(kKeptBytes / std::max<int64_t>(bytes, 1), kMinKept, kMaxKept);
    first_kept_ =
        by_root_ || kept_ <= kLittle / std::max<int64_t>(bytes, 1) ? kept_ : std::min(kept_, kFirstKept);
  }

  // The results, run as `record` runs the loop.
  Values primal(Builder& b, Ops x) const {
    const Kept some = begun(b, x);
    return b.ok() ? counted_on(b, some).carries : Values(x.size());
  }
  // x: the carries; ct: cotangents of the marked results.
  Values record(Builder& b, Ops x, Ops ct) const {
    const Kept begun = this->begun(b, x);
    if (!b.ok()) return Values(ct.size());
    if (by_root_) return undo_by_root(b, counted_on(b, begun), ct);
    if (first_kept_ == kept_) return undo_all(b, counted_on(b, begun), ct);
    const Branch ends = [&](Builder& in, const Kept& kept, Ops cts) {
      return cotangents(undo(in, packed(in, kept, cts, top_row(in, kept))), cts.size());
    };
    const Branch goes_on = [&](Builder& in, const Kept& few, Ops cts) {
      return undo_all(in, counted_on(in, keep_on(in, with_rows(in, few, kept_), kept_)), cts);
    };
    const Values more = inline_computation(b, *loop_.cond, begun.carries);
    return b.ok() ? choice(b, b.convert(more[0], DType::kS32), {{ends, goes_on}}, begun, ct)
                  : Values(ct.size());
  }

 private:
  // Carries of the way back: steps left, the top row, the step of the state in every row; rows; cotangents;
  // fixed carries.
  static constexpr size_t kLeft = 0, kTop = 1, kSteps = 2, kRows = 3;

  // The loop's carries after so many steps. Row i has the state before step i, as far as there are rows.
  struct Kept {
    Values carries;
    Value steps;
    Values rows;
  };

  // The cotangents, as one of the ways back gives them.
  using Branch = std::function<Values(Builder&, const Kept&, Ops)>;
  Values choice(Builder& b, const Value& index, std::span<const Branch> ways, const Kept& kept,
                Ops ct) const {
    // Operands of all branches: the loop's carries, the number of steps, rows, cotangents.
    const Values all = joined(joined(kept.carries, {{kept.steps}}), joined(kept.rows, ct));
    const size_t n = kept.carries.size();
    std::vector<ComputationPtr> branches;
    for (const Branch& way : ways) {
      const absl::StatusOr<ComputationPtr> branch = record_region(types_of(all), [&](Builder& in, Ops p) {
        const Ops carries = p.first(n), rows = p.subspan(n + 1, states_);
        return way(in, {{carries.begin(), carries.end()}, p[n], {rows.begin(), rows.end()}},
                   p.subspan(n + 1 + states_));
      });
      if (!get_or_fail(b, branch)) return Values(ct.size());
      branches.push_back(*branch);
    }
    return b.conditional(index, branches, all);
  }
  // Of a loop that has run to its end, with room for as many states as its steps ask for.
  Values undo_by_root(Builder& b, const Kept& from, Ops ct) const {
    Value root = b.scalar_int(DType::kS32, 0);
    std::vector<Branch> ways;
    for (const int64_t kept : kRoots) {
      ways.push_back([this, kept](Builder& in, const Kept& few, Ops cts) {
        Reversal wide(*this);
        wide.kept_ = kept;
        return wide.undo_all(in, kept == kept_ ? few : with_rows(in, few, kept), cts);
      });
      if (kept == kRoots.back()) break;
      const Value is_more = b.compare(from.steps, number(b, reach_of_two_sweeps(kept)), "GT");
      root = b.add(root, b.convert(is_more, DType::kS32));
    }
    return b.ok() ? choice(b, root, ways, from, ct) : Values(ct.size());
  }

  Kept with_rows(Builder& b, const Kept& few, int64_t kept) const {
    Kept more{few.carries, few.steps, no_rows(b, few.carries, kept)};
    for (size_t i = 0; i < states_; ++i) more.rows[i] = put_rows(b, more.rows[i], few.rows[i], number(b, 0));
    return more;
  }
  Values no_rows(Builder& b, Ops carries, int64_t kept) const {
    Values out;
    for (const Value& v : picked(carries, changes_)) {
      const absl::StatusOr<const Type*> rows = array_type(v.dtype(), prepend(kept + 1, v.dims()));
      out.push_back(get_or_fail(b, rows) ? b.zeros(*rows) : Value());
    }
    return out;
  }

  Kept begun(Builder& b, Ops x) const {
    return keep_on(b, {{x.begin(), x.end()}, number(b, 0), no_rows(b, x, first_kept_)}, first_kept_);
  }
  // Goes on while there is a row for the state.
  Kept keep_on(Builder& b, const Kept& from, int64_t kept) const {
    const size_t n = changes_.size();
    const Values out = loop_over(
        b, joined(joined(from.carries, {{from.steps}}), from.rows),
        [&](Builder& in, Ops p) {
          const Values go = inline_computation(in, *loop_.cond, p.first(n));
          return in.ok() ? in.and_(in.compare(p[n], number(in, kept), "LE"), go[0]) : Value();
        },
        [&](Builder& in, Ops p) {
          Values next = inline_computation(in, *loop_.body, p.first(n));
          if (!in.ok()) return Values(p.size());
          next.push_back(in.add(p[n], number(in, 1)));
          const Values state = picked(p.first(n), changes_);
          for (size_t i = 0; i < states_; ++i) next.push_back(put_row(in, p[n + 1 + i], state[i], p[n]));
          return next;
        });
    const auto rows = out.begin() + static_cast<int64_t>(n) + 1;
    return {{out.begin(), rows - 1}, out[n], {rows, out.end()}};
  }
  // To the end, keeping no more.
  Kept counted_on(Builder& b, Kept from) const {
    const absl::StatusOr<Loop> counting = counted(loop_);
    if (!b.ok() || !get_or_fail(b, counting)) return from;
    Values out = record_loop(b, *counting, joined(from.carries, {{from.steps}}));
    if (!b.ok()) return from;
    from.steps = std::move(out.back());
    out.pop_back();
    from.carries = std::move(out);
    return from;
  }

  Value top_row(Builder& b, const Kept& kept) const {
    return b.maximum(b.subtract(kept.steps, number(b, 1)), number(b, 0));
  }
  Values packed(Builder& b, const Kept& kept, Ops ct, const Value& top) const {
    if (!b.ok()) return Values(kRows + changes_.size() + ct.size());
    const int64_t rows = kept.rows.empty() ? kept_ + 1 : kept.rows[0].dims()[0];
    const Values head{kept.steps, top, b.iota(DType::kS64, {{rows}}, 0)};
    return joined(joined(joined(head, kept.rows), ct), picked(kept.carries, changes_, false));
  }
  Values cotangents(const Values& carries, size_t n) const {
    const auto first = carries.begin() + static_cast<int64_t>(kRows + states_);
    return {first, first + static_cast<int64_t>(n)};
  }

  // From the last step to the first.
  Values undo_all(Builder& b, const Kept& kept, Ops ct) const {
    // Where steps came after the last row, all but the first state is taken up again by the schedule.
    const Value top =
        b.select(b.compare(kept.steps, number(b, kept_ + 1), "LE"), top_row(b, kept), number(b, 0));
    // While steps are left: sweep forward to the last of them, then undo those whose state is there.
    const Values out = loop_over(
        b, packed(b, kept, ct, top),
        [](Builder& in, Ops p) { return in.compare(p[kLeft], number(in, 0), "GT"); },
        [&](Builder& in, Ops p) { return undo(in, sweep(in, p)); });
    return cotangents(out, ct.size());
  }

  static Value put_rows(Builder& b, const Value& rows, const Value& some, const Value& at) {
    Values starts(rows.rank(), number(b, 0));
    starts[0] = at;
    return b.dynamic_update_slice(rows, some, starts);
  }
  Values top_state(Builder& b, Ops p) const {
    Values out;
    for (size_t i = 0; i < states_; ++i) out.push_back(row_at(b, p[kRows + i], p[kTop]));
    return out;
  }
  Ops fixed(Ops p) const { return p.subspan(p.size() - (changes_.size() - states_)); }
  // The loop's carries, of those that change and those that do not.
  Values all_carries(Ops state, Ops rest) const {
    Values out;
    size_t s = 0, f = 0;
    for (bool changes : changes_) out.push_back(changes ? state[s++] : rest[f++]);
    return out;
  }

  // The state after `steps` more.
  Values advanced(Builder& b, const Value& steps, Ops state, Ops rest) const {
    const Values carries = joined(joined({{number(b, 0), steps}}, state), rest);
    const Values out = loop_over(
        b, carries, [](Builder& in, Ops p) { return in.compare(p[0], p[1], "LT"); },
        [&](Builder& in, Ops p) {
          const Ops unchanged = p.subspan(2 + states_);
          const Values next =
              inline_computation(in, *loop_.body, all_carries(p.subspan(2, states_), unchanged));
          if (!in.ok()) return Values(p.size());
          return joined(joined({{in.add(p[0], number(in, 1)), p[1]}}, picked(next, changes_)), unchanged);
        });
    return {out.begin() + 2, out.begin() + 2 + static_cast<int64_t>(states_)};
  }

  // Forward from the top row to the last step that is left; rows on the way as the schedule says.
  Values sweep(Builder& b, Ops p) const {
    // Further carries: the step and the state at hand.
    Values carries(p.begin(), p.end());
    carries.push_back(row_at(b, p[kSteps], p[kTop]));
    carries = joined(carries, top_state(b, p));
    const size_t here = p.size();
    Values out = loop_over(
        b, carries,
        [&](Builder& in, Ops q) { return in.compare(in.add(q[here], number(in, 1)), q[kLeft], "LT"); },
        [&](Builder& in, Ops q) {
          const Value slots = in.subtract(number(in, kept_), q[kTop]);
          const Value steps = steps_to_next(in, in.subtract(q[kLeft], q[here]), slots);
          const Values state = advanced(in, steps, q.subspan(here + 1), fixed(q.first(here)));
          if (!in.ok()) return Values(q.size());
          Values next(q.begin(), q.end());
          next[here] = in.add(q[here], steps);
          next[kTop] = in.add(q[kTop], number(in, 1));
          next[kSteps] = put_row(in, q[kSteps], next[here], next[kTop]);
          for (size_t i = 0; i < states_; ++i) {
            next[kRows + i] = put_row(in, q[kRows + i], state[i], next[kTop]);
            next[here + 1 + i] = state[i];
          }
          return next;
        });
    out.resize(here);
    return out;
  }

  // Steps back while the top row holds the state before the last step that is left.
  Values undo(Builder& b, const Values& carries) const {
    return loop_over(
        b, carries,
        [](Builder& in, Ops p) {
          return in.compare(in.add(row_at(in, p[kSteps], p[kTop]), number(in, 1)), p[kLeft], "EQ");
        },
        [&](Builder& in, Ops p) {
          const size_t m = p.size() - kRows - changes_.size(), at = kRows + states_;
          const Values x = all_carries(top_state(in, p), fixed(p));
          const Values ct = inline_computation(in, *back_, joined(x, p.subspan(at, m)));
          if (!in.ok()) return Values(p.size());
          Values next(p.begin(), p.end());
          next[kLeft] = in.subtract(p[kLeft], number(in, 1));
          next[kTop] = in.subtract(p[kTop], number(in, 1));
          std::copy(ct.begin(), ct.end(), next.begin() + static_cast<int64_t>(at));
          return next;
        });
  }

  const Loop& loop_;
  const Mask& marked_;
  ComputationPtr back_;
  Mask changes_;
  int64_t kept_, first_kept_;
  bool by_root_;
  size_t states_ = 0;
};

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
absl::StatusOr<Ways> ways_through(const Loop& loop, const Mask& marked) {
  Ways out;
  if (loop.kept != 0) return out;
  absl::StatusOr<std::optional<TiledLoop>> tiles = TiledLoop::of(loop, marked);
  if (!tiles.ok()) return tiles.status();
  out.tiles = *std::move(tiles);
  if (out.tiles) return out;
  absl::StatusOr<std::optional<StepLog>> log = StepLog::of(loop, marked);
  if (!log.ok()) return log.status();
  out.log = *std::move(log);
  return out;
}

Values reversed(Builder& b, const LoopDerivative& d, Ops x, Ops ct) {
  const absl::StatusOr<Ways> ways = ways_through(d.loop, d.marked);
  if (!get_or_fail(b, ways)) return Values(ct.size());
  if (ways->tiles) return ways->tiles->record(b, x, ct);
  if (ways->log) return ways->log->record(b, x, ct);
  const absl::StatusOr<ComputationPtr> back = step_back(d.loop, d.marked);
  const absl::StatusOr<Loop> loop = differentiated(d.loop, d.marked);
  if (!get_or_fail(b, back) || !get_or_fail(b, loop)) return Values(ct.size());
  return Reversal(*loop, d.marked, *back).record(b, x, ct);
}

Values run(Builder& b, const Loop& loop, const Mask& marked, Ops x) {
  const absl::StatusOr<Ways> ways = ways_through(loop, marked);
  if (!get_or_fail(b, ways)) return Values(x.size());
  if (ways->tiles) return ways->tiles->primal(b, x);
  if (ways->log) return ways->log->primal(b, x);
  const absl::StatusOr<Loop> steps = differentiated(loop, marked);
  if (!get_or_fail(b, steps)) return Values(x.size());
  return Reversal(*steps, marked, nullptr).primal(b, x);
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

Values reversed_by_states(Builder& b, const Loop& loop, const Mask& marked, const ComputationPtr& back, Ops x,
                          Ops ct) {
  return Reversal(loop, marked, back).record(b, x, ct);
}

absl::StatusOr<Mask> closed_marks(const Computation& body, Mask marks) {
  while (true) {
    const absl::StatusOr<JvpComputation> derived = jvp_computation(body, marks, marks, JvpMode::kLinearize);
    if (!derived.ok()) return derived.status();
    if (derived->results == marks) return marks;
    marks = derived->results;
  }
}

absl::StatusOr<Loop> differentiated(const Loop& loop, const Mask& marked) {
  const absl::StatusOr<JvpComputation> derived =
      jvp_computation(*loop.body, marked, marked, JvpMode::kLinearize);
  if (!derived.ok()) return derived.status();
  const size_t n = marked.size();
  const Computation& both = *derived->body;
  absl::StatusOr<ComputationPtr> body = Computation::make(both.parameters().first(n), both.roots().first(n));
  if (!body.ok()) return body.status();
  return Loop{loop.cond, *std::move(body), loop.kept, loop.steps};
}

absl::StatusOr<Loop> counted(const Loop& loop) {
  std::vector<const Type*> types = loop.body->parameter_types();
  const size_t n = types.size();
  types.push_back(scalar_type(DType::kS64));
  absl::StatusOr<ComputationPtr> cond = with_parameters(*loop.cond, std::span(types).subspan(n));
  if (!cond.ok()) return cond.status();
  absl::StatusOr<ComputationPtr> body = record_region(types, [&](Builder& b, Ops p) {
    return joined(inline_computation(b, *loop.body, p.first(n)), {{b.add(p[n], number(b, 1))}});
  });
  if (!body.ok()) return body.status();
  return Loop{*std::move(cond), *std::move(body), loop.kept};
}

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
  for (int64_t i : call.attrs().ints(Attr::dimensions))
    if (i >= 0 && i < static_cast<int64_t>(out.marked.size())) out.marked[i] = true;
  return out;
}

namespace {

Values called(Builder& b, const LoopDerivative& d, const ComputationPtr& program, Ops operands) {
  Dims marked;
  for (size_t i = 0; i < d.marked.size(); ++i)
    if (d.marked[i]) marked.push_back(static_cast<int64_t>(i));
  std::vector<Attrs::Entry> attrs{
      {Attr::body, program},
      {Attr::direction, std::string(kDirections[static_cast<size_t>(d.direction)])},
      {Attr::branches, std::vector<ComputationPtr>{d.loop.cond, d.loop.body}},
      {Attr::dimensions, marked},
      {Attr::length, d.loop.kept}};
  if (d.loop.steps) attrs.emplace_back(Attr::known_trip_count, *d.loop.steps);
  return b.make_multi(Op::call, operands, intern_attrs(std::move(attrs)));
}

}  // namespace

Values record_loop_derivative(Builder& b, const LoopDerivative& d, Ops operands) {
  const Values failed(d.direction == LoopDirection::kPrimal ? operands.size() : count(d.marked));
  if (!b.ok() || failed.empty()) return failed;
  absl::StatusOr<ComputationPtr> body = remembered_as<ComputationPtr>(
      {d.loop.cond.get(), d.loop.body.get()},
      option_text(str_cat(kDirections[static_cast<size_t>(d.direction)], "/", d.loop.steps.value_or(-1)),
                  {d.marked}, d.loop.kept),
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
  for (size_t i = 0, at = 0; i < n; ++i)
    if (d.marked[i]) v.push_back(ct[at] ? ct[at] : b.zeros_like(x[i])), ++at;
  auto set = [&](size_t from, const Values& values) {
    std::copy(values.begin(), values.end(), out.begin() + static_cast<int64_t>(from));
  };
  auto other_way = [&](LoopDirection direction) {
    return record_loop_derivative(b, {direction, d.loop, d.marked}, joined(x.first(n), v));
  };
  if (d.direction == LoopDirection::kForward) set(n, other_way(LoopDirection::kReverse));
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

// Of the loop that lanes.cc makes of it: steps of all lanes, then those of the lanes that are left, one by
// one.
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
