// Reverse mode by states that are kept: it runs the loop, keeping the states of the first kept + 1 steps, and
// goes back from the last one. Where there are no more steps it undoes one after another. Else it keeps the
// states of `kept` steps at a time, and computes those between them again; where to keep them is the binomial
// schedule of Griewank and Walther ("Algorithm 799: revolve", ACM TOMS 26, 2000), by which `kept` states and
// t forward sweeps reach back over (kept + t)! / (kept! t!) steps. Memory for many states is taken, and
// cleared, once a few are full. Where as many states are to be kept as the square root of the steps says, the
// loop runs first: then it is known how many reach back with two sweeps.
#include <algorithm>
#include <array>

#include "trace/rules/loop_log.h"

namespace lamina::trace {

namespace {

// States that fit this many bytes are kept, at least kMinKept and at most kMaxKept.
constexpr int64_t kKeptBytes = int64_t{16} << 20, kMinKept = 16, kMaxKept = 1024;
// So many are kept at first, where memory for all is more than is cleared in no time.
constexpr int64_t kFirstKept = 64, kLittle = int64_t{1} << 20;
// Of loops that keep as many as the root of their steps: of these, the fewest that reach with two sweeps.
constexpr std::array<int64_t, 7> kRoots = {16, 64, 256, 1024, 4096, 16384, 65536};
constexpr int64_t reach_of_two_sweeps(int64_t kept) { return (kept + 2) * (kept + 1) / 2; }

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
  Reversal(const Loop& loop, const Mask& marked, ComputationPtr back) : loop_(loop), back_(std::move(back)) {
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
  ComputationPtr back_;
  Mask changes_;
  int64_t kept_, first_kept_;
  bool by_root_;
  size_t states_ = 0;
};

}  // namespace

Values reversed_by_states(Builder& b, const Loop& loop, const Mask& marked, const ComputationPtr& back, Ops x,
                          Ops ct) {
  return Reversal(loop, marked, back).record(b, x, ct);
}

Values run_by_states(Builder& b, const Loop& loop, const Mask& marked, Ops x) {
  return Reversal(loop, marked, nullptr).primal(b, x);
}

}  // namespace lamina::trace
