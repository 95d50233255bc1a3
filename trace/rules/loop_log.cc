// Reverse mode of loops whose steps need little of what they carry, of a stack one row, or whose steps are
// dearer than what they leave.
//
// Each step leaves what its linear part needs in a row of a log, and the rows undo the steps. A log has rows
// for some steps, and the next one for more; what is left of a longer loop is one whose steps are so many of
// its own, and the states between these are kept or computed again as those of any loop
// (loop_states.cc).
#include "trace/rules/loop_log.h"

#include <algorithm>

#include "hlo/dot_shape.h"
#include "hlo/passes/pass.h"

namespace lamina::trace {

namespace {

// Bytes of a log, as far as arrays that change fit one kernel with it, and else: two are there at a time. The
// first one has fewer rows, and a second one some more where those of the last are many: all have to be
// cleared.
constexpr int64_t kLittleLog = int64_t{1} << 20, kMuchLog = int64_t{8} << 20;
constexpr int64_t kLeastRows = 16, kFirstRows = 128, kMoreRows = 1024, kMostRows = int64_t{1} << 16;
constexpr int64_t kFewer = 4;
// So much smaller than the state is what a step needs of it.
constexpr int64_t kSmaller = 4;
// Of states of so few bytes it is cheaper to log what steps leave than to keep them and take the steps again;
// logs of the least states have more rows, which cost little to clear. Not where steps hold loops: the
// program has a step more often than that of a schedule, and of loops in loops that would multiply.
constexpr int64_t kLittleState = 512, kLeastState = 64, kFirstRowsOfLeast = 1024, kMostRowsOfLittle = 4096;
// Terms of sums over steps are summed after the loop where they have so many multiplications, as fewer are
// written out in a kernel of the loop; so many rows at a time, as not all rows may be of steps.
constexpr int64_t kLeastTerm = 64, kSummedRows = 32;
// So many multiplications and additions in products cost more, for a byte of the log, than it does to write
// and read it: computing the step again is dearer.
constexpr int64_t kDearer = 2;

// The terms that dots of a step add up.
int64_t products(const Computation& c) {
  int64_t terms = 0;
  for (const Node* n : c.nodes()) {
    if (n->op() == Op::call) terms += products(*n->attrs().computation(Attr::body));
    if (n->op() == Op::dot_general) terms += hlo::multiplications(*n);
  }
  return terms;
}

bool is_loop(const Node& n) { return hlo::is_loop_op(n.op()); }

// A log of such rows in which no step has left any.
Value no_rows(Builder& b, const Type& row, int64_t rows) {
  const absl::StatusOr<const Type*> log = array_type(row.dtype, prepend(rows, row.dims));
  return get_or_fail(b, log) ? b.zeros(*log) : Value();
}

// The marked carries to which cotangents come, over any number of steps, from these results.
absl::StatusOr<Mask> reached_from(const ComputationPtr& step, const Mask& marked, const Mask& given) {
  const absl::StatusOr<ComputationPtr> body = hlo::inline_calls(step);
  if (!body.ok()) return body.status();
  const size_t n = marked.size();
  std::vector<Mask> depend(n);  // by carry: the results that depend on it
  for (size_t i = 0; i < n; ++i) {
    if (!marked[i]) continue;
    Mask one(n, false);
    one[i] = true;
    depend[i] = dependence(**body, one);
  }
  Mask out = given;
  for (bool grows = true; grows;) {
    grows = false;
    for (size_t i = 0; i < n; ++i)
      for (size_t r = 0; r < n && marked[i] && !out[i]; ++r)
        if (out[r] && depend[i][r]) grows = out[i] = true;
  }
  return out;
}

// The way back through a step's linear part from some of its results: those of others are not read, and zeros
// before the step.
absl::StatusOr<ComputationPtr> back_from(const Computation& linear_part, const Mask& linear,
                                         const Mask& results) {
  const absl::StatusOr<ComputationPtr> some = transpose_computation(linear_part, linear, results);
  if (!some.ok()) return some.status();
  std::vector<const Type*> types = linear_part.parameter_types();
  const size_t first = types.size() - results.size();
  return record_region(types, [&](Builder& b, Ops p) {
    Values out = inline_computation(b, **some, joined(p.first(first), picked(p.subspan(first), results)));
    for (size_t i = 0; b.ok() && i < results.size(); ++i)
      if (!results[i]) out[i] = b.zeros(p[first + i].type());
    return out;
  });
}

}  // namespace

absl::StatusOr<SplitStep> split_step(const Loop& loop, const Mask& marked, const Mask& given) {
  SplitStep out;
  absl::StatusOr<Loop> differentiable = differentiated(loop, marked);
  if (!differentiable.ok()) return differentiable.status();
  out.loop = *std::move(differentiable);
  const size_t n = marked.size();
  const auto m = static_cast<size_t>(std::count(marked.begin(), marked.end(), true));
  absl::StatusOr<JvpComputation> both = jvp_computation(*loop.body, marked, marked, JvpMode::kLinearize);
  if (!both.ok()) return both.status();
  Mask tangents(n + m, false), forced(n + m, false);
  std::fill(tangents.begin() + static_cast<int64_t>(n), tangents.end(), true);
  std::fill(forced.begin() + static_cast<int64_t>(n), forced.end(), true);
  const absl::StatusOr<SplitComputation> split = split_computation(*both->body, tangents, forced);
  if (!split.ok()) return split.status();
  // Which results of a call change is seen in its body only.
  absl::StatusOr<ComputationPtr> known = hlo::inline_calls(split->known);
  if (!known.ok()) return known.status();
  out.known = *std::move(known);
  const size_t residuals = split->residual_parameter.size();
  Mask linear(residuals + m, false);
  std::fill(linear.begin() + static_cast<int64_t>(residuals), linear.end(), true);
  absl::StatusOr<ComputationPtr> back = transpose_computation(*split->unknown, linear, Mask(m, true));
  if (!back.ok()) return back.status();
  out.back = *std::move(back);
  size_t computed = n;
  for (size_t i = 0; i < residuals; ++i) {
    const int64_t p = split->residual_parameter[i];
    const Value& v = out.back->parameters()[i];
    const auto& nodes = out.back->nodes();
    const bool read = std::find(nodes.begin(), nodes.end(), v.node()) != nodes.end();
    SplitStep::Residual r{SplitStep::Residual::kUnread, p >= 0 ? static_cast<size_t>(p) : computed++};
    if (read)
      r.kind = p < 0                         ? SplitStep::Residual::kComputed
               : is_invariant(*loop.body, p) ? SplitStep::Residual::kFixed
                                             : SplitStep::Residual::kCarry;
    out.residuals.push_back(r);
  }
  if (!given.empty()) {
    absl::StatusOr<Mask> reached = reached_from(out.loop.body, marked, given);
    if (!reached.ok()) return reached.status();
    Mask results;
    for (size_t i = 0; i < n; ++i)
      if (marked[i]) results.push_back((*reached)[i]);
    back = back_from(*split->unknown, linear, results);
    if (!back.ok()) return back.status();
    out.back = *std::move(back);
  }
  // What no step changes is not logged.
  Mask changing;
  for (size_t i = 0; i < n; ++i) changing.push_back(!is_invariant(*loop.body, i));
  const Mask changes = dependence(*out.known, changing);
  Mask again;
  for (const SplitStep::Residual& r : out.residuals)
    again.push_back(r.kind == SplitStep::Residual::kComputed && !changes[r.index]);
  return made_again(out, again);
}

absl::StatusOr<SplitStep> made_again(const SplitStep& step, const Mask& again) {
  using Residual = SplitStep::Residual;
  if (std::find(again.begin(), again.end(), true) == again.end()) return step;
  const auto parameters = step.known->parameters();
  const size_t n = parameters.size(), r = step.residuals.size();
  Values roots;
  Mask there(n, false);
  SplitStep out = step;
  out.residuals.clear();
  std::vector<const Type*> types;
  for (size_t i = 0; i < r; ++i) {
    const Residual& residual = step.residuals[i];
    if (again[i]) {
      roots.push_back(step.known->roots()[residual.index]);
      continue;
    }
    if (residual.kind == Residual::kCarry || residual.kind == Residual::kFixed) there[residual.index] = true;
    out.residuals.push_back(residual);
    types.push_back(step.back->parameters()[i].type());
  }
  const absl::StatusOr<ComputationPtr> made = Computation::make(parameters, roots);
  if (!made.ok()) return made.status();
  const auto& nodes = (*made)->nodes();
  for (size_t i = 0; i < n; ++i) {
    const bool read = std::find(nodes.begin(), nodes.end(), (*made)->parameters()[i].node()) != nodes.end();
    if (!read || there[i]) continue;
    out.residuals.push_back({is_invariant(*step.loop.body, i) ? Residual::kFixed : Residual::kCarry, i});
    types.push_back(parameters[i].type());
  }
  const size_t left = types.size();
  for (size_t i = r; i < step.back->parameters().size(); ++i)
    types.push_back(step.back->parameters()[i].type());
  absl::StatusOr<ComputationPtr> back = record_region(types, [&](Builder& b, Ops p) {
    Values carries(n), all;
    for (size_t i = 0; i < left; ++i)
      if (out.residuals[i].kind == Residual::kCarry || out.residuals[i].kind == Residual::kFixed)
        carries[out.residuals[i].index] = p[i];
    for (size_t i = 0; i < n; ++i)
      if (!carries[i]) carries[i] = b.zeros(parameters[i].type());  // which nothing reads
    const Values values = inline_computation(b, **made, carries);
    if (!b.ok()) return values;
    for (size_t i = 0, kept = 0, next = 0; i < r; ++i) all.push_back(again[i] ? values[next++] : p[kept++]);
    return inline_computation(b, *step.back, joined(all, p.subspan(left)));
  });
  if (!back.ok()) return back.status();
  out.back = *std::move(back);
  return out;
}

int64_t SplitStep::logged_bytes() const {
  int64_t bytes = 0;
  for (size_t i = 0; i < residuals.size(); ++i)
    if (residuals[i].is_logged()) bytes += back->parameters()[i].type()->bytes();
  return bytes;
}

Values SplitStep::residual_values(Builder& b, Ops logged, Ops fixed) const {
  Values out;
  size_t log = 0, same = 0;
  for (size_t i = 0; i < residuals.size(); ++i)
    out.push_back(residuals[i].is_logged()                ? logged[log++]
                  : residuals[i].kind == Residual::kFixed ? fixed[same++]
                                                          : b.zeros(back->parameters()[i].type()));
  return out;
}

Values SplitStep::logged(Ops x, Ops made) const {
  Values out;
  for (const Residual& r : residuals)
    if (r.is_logged()) out.push_back(r.kind == Residual::kCarry ? x[r.index] : made[r.index]);
  return out;
}

Values SplitStep::carries(Ops x, Ops made) const {
  Values out;
  for (size_t i = 0; i < x.size(); ++i) out.push_back(is_invariant(*loop.body, i) ? x[i] : made[i]);
  return out;
}

Values SplitStep::fixed(Ops x) const {
  Values out;
  for (const Residual& r : residuals)
    if (r.kind == Residual::kFixed) out.push_back(x[r.index]);
  return out;
}

absl::StatusOr<std::optional<StepLog>> StepLog::of(const Loop& loop, const Mask& marked, const Mask& given) {
  StepLog out;
  out.marked_ = marked;
  absl::StatusOr<SplitStep> step = split_step(loop, marked, given);
  if (!step.ok()) return step.status();
  out.step_ = *std::move(step);
  int64_t state = 0;
  for (size_t i = 0; i < marked.size(); ++i)
    if (!is_invariant(*loop.body, i)) state += loop.body->parameters()[i].type()->bytes();
  const int64_t bytes = std::max<int64_t>(out.step_.logged_bytes(), 1);
  const bool by_products = products(*out.step_.known) > kDearer * bytes;
  const bool needs_little = bytes * kSmaller <= state || by_products;
  const bool is_little = state <= kLittleState && bytes <= kSmaller * state &&
                         !anywhere(*out.step_.loop.body, is_loop) && !anywhere(*out.step_.loop.cond, is_loop);
  if (!needs_little && !is_little) return std::nullopt;
  const int64_t budget = state <= kLittleLog / 2 && !by_products ? kLittleLog - state : kMuchLog;
  const int64_t first = needs_little || state > kLeastState ? kFirstRows : kFirstRowsOfLeast;
  out.most_rows_ = std::clamp(budget / bytes, kLeastRows, needs_little ? kMostRows : kMostRowsOfLittle);
  if (out.most_rows_ > kSummedRows) out.most_rows_ -= out.most_rows_ % kSummedRows;
  out.first_rows_ = std::min(out.most_rows_, std::clamp(kLittleLog / bytes, kLeastRows, first));
  if (out.first_rows_ > kSummedRows) out.first_rows_ -= out.first_rows_ % kSummedRows;
  return out;
}

Values StepLog::primal(Builder& b, Ops x) const {
  const Run some = run_on(b, x, first_rows_);
  return b.ok() ? record_loop(b, step_.loop, some.carries) : Values(x.size());
}

Values StepLog::record(Builder& b, Ops x, Ops ct) const {
  const Rest in_parts = [&](Builder& in, Ops from, Ops after) {
    const absl::StatusOr<Loop> parts = loop_of_parts();
    const absl::StatusOr<ComputationPtr> back = part_back();
    if (!get_or_fail(in, parts) || !get_or_fail(in, back)) return Values(after.size());
    return reversed_by_states(in, *parts, marked_, *back, from, after);
  };
  const Rest in_most = [&](Builder& in, Ops from, Ops after) {
    return before(in, run_on(in, from, most_rows_), after, in_parts);
  };
  const Rest in_more = [&](Builder& in, Ops from, Ops after) {
    return before(in, run_on(in, from, kMoreRows), after, in_most);
  };
  const Rest& rest = first_rows_ == most_rows_                                     ? in_parts
                     : first_rows_ < kMoreRows && kMoreRows * kFewer <= most_rows_ ? in_more
                                                                                   : in_most;
  return before(b, run_on(b, x, first_rows_), ct, rest);
}

Values StepLog::before(Builder& b, const Run& run, Ops ct, const Rest& rest) const {
  const Values failed(ct.size());
  if (!b.ok()) return failed;
  const size_t n = run.carries.size();
  const Values more = inline_computation(b, *step_.loop.cond, run.carries), all = joined(run.carries, ct);
  if (!b.ok()) return failed;
  const std::vector<const Type*> types = types_of(all);
  const absl::StatusOr<ComputationPtr> none =
      record_region(types, [&](Builder&, Ops p) { return Values(p.begin() + n, p.end()); });
  const absl::StatusOr<ComputationPtr> some =
      record_region(types, [&](Builder& in, Ops p) { return rest(in, p.first(n), p.subspan(n)); });
  if (!get_or_fail(b, none) || !get_or_fail(b, some)) return failed;
  const Values after = b.conditional(b.convert(more[0], DType::kS32), {{*none, *some}}, all);
  return b.ok() ? undone(b, run, after) : failed;
}

StepLog::Run StepLog::run_on(Builder& b, Ops from, int64_t rows) const {
  const size_t n = from.size();
  Values logs;
  for (size_t i = 0; i < step_.residuals.size(); ++i)
    if (step_.residuals[i].is_logged()) logs.push_back(no_rows(b, *step_.back->parameters()[i].type(), rows));
  if (!b.ok()) return {Values(n), Value(), {}};
  const Values out = loop_over(
      b, joined(joined(from, {{number(b, 0)}}), logs),
      [&](Builder& in, Ops p) {
        const Values go = inline_computation(in, *step_.loop.cond, p.first(n));
        return in.ok() ? in.and_(in.compare(p[n], in.scalar_int(DType::kS64, rows), "LT"), go[0]) : Value();
      },
      [&](Builder& in, Ops p) {
        const Values made = inline_computation(in, *step_.known, p.first(n));
        if (!in.ok()) return Values(p.size());
        Values next = step_.carries(p.first(n), made);
        next.push_back(in.add(p[n], in.scalar_int(DType::kS64, 1)));
        size_t log = n + 1;
        for (const Value& row : step_.logged(p.first(n), made))
          next.push_back(put_row(in, p[log++], row, p[n]));
        return next;
      });
  const auto at = out.begin() + static_cast<int64_t>(n);
  return {{out.begin(), at}, out[n], {at + 1, out.end()}};
}

absl::StatusOr<SummedAfter> StepLog::summed_after(int64_t rows) const {
  std::vector<const Type*> types, of_rows;
  for (size_t i = 0; i < step_.residuals.size(); ++i) {
    const Type* t = step_.back->parameters()[i].type();
    if (step_.residuals[i].is_logged()) of_rows.push_back(t);
    if (step_.residuals[i].kind == SplitStep::Residual::kFixed) types.push_back(t);
  }
  const size_t first_ct = types.size();
  const auto cts = step_.back->parameters().subspan(step_.residuals.size());
  for (const Value& ct : cts) types.push_back(ct.type());
  const size_t carries = types.size();
  types.insert(types.end(), of_rows.begin(), of_rows.end());
  const absl::StatusOr<ComputationPtr> body = record_region(types, [&](Builder& b, Ops p) {
    const Ops stay = p.first(first_ct);
    const Values residuals = step_.residual_values(b, p.subspan(carries), stay);
    if (!b.ok()) return Values(carries);
    return joined(
        stay, inline_computation(b, *step_.back, joined(residuals, p.subspan(first_ct, carries - first_ct))));
  });
  if (!body.ok()) return body.status();
  return SummedAfter::of(*body, first_ct, carries, rows, kLeastTerm);
}

// Adds them for the rows of the steps taken: `logs` are what was scanned, `results` what came of the carries
// and the factors' logs.
void StepLog::add_sums(Builder& b, const SummedAfter& sums, Ops logs, const Value& steps, size_t carries,
                       Values* results) const {
  if (sums.is_empty()) return;
  const int64_t rows = logs[0].type()->dims[0];
  if (rows <= kSummedRows) return sums.add(b, logs, results);
  const size_t first_log = 2, first_result = first_log + logs.size();
  const Values out = loop_over(
      b, joined(joined({{number(b, 0), steps}}, logs), *results),
      [](Builder& in, Ops p) { return in.compare(p[0], p[1], "LT"); },
      [&](Builder& in, Ops p) {
        const auto part = [&](const Value& log) {
          return in.ok() ? rows_at(in, log, p[0], kSummedRows) : Value();
        };
        Values arrays, some;
        for (const Value& log : p.subspan(first_log, logs.size())) arrays.push_back(part(log));
        for (size_t i = 0; i < results->size(); ++i)
          some.push_back(i < carries ? p[first_result + i] : part(p[first_result + i]));
        if (in.ok()) sums.add(in, arrays, &some);
        Values next(p.begin(), p.end());
        next[0] = in.add(p[0], number(in, kSummedRows));
        std::copy(some.begin(), some.begin() + static_cast<int64_t>(carries),
                  next.begin() + static_cast<int64_t>(first_result));
        return next;
      });
  std::copy(out.begin() + static_cast<int64_t>(first_result),
            out.begin() + static_cast<int64_t>(first_result + carries), results->begin());
}

Values StepLog::undone(Builder& b, const Run& run, Ops ct) const {
  const Values failed(ct.size());
  const Values fixed = step_.fixed(run.carries);
  const int64_t rows = run.logs.empty() ? 1 : run.logs[0].type()->dims[0];
  const absl::StatusOr<SummedAfter> sums = summed_after(rows);
  if (!get_or_fail(b, sums)) return failed;
  Values factors;
  const auto roots = sums->body()->roots();
  const size_t carries = fixed.size() + ct.size();
  for (const Value& factor : roots.subspan(carries)) factors.push_back(no_rows(b, *factor.type(), rows));
  if (!b.ok()) return failed;
  const size_t logs = run.logs.size(), first_fixed = 1 + logs, first_factor = first_fixed + carries;
  Values out = loop_over(
      b, joined(joined(joined({{run.steps}}, run.logs), joined(fixed, ct)), factors),
      [](Builder& in, Ops p) { return in.compare(p[0], in.scalar_int(DType::kS64, 0), "GT"); },
      [&](Builder& in, Ops p) {
        const Value at = in.subtract(p[0], in.scalar_int(DType::kS64, 1));
        Values operands(p.begin() + static_cast<int64_t>(first_fixed),
                        p.begin() + static_cast<int64_t>(first_factor));
        for (const Value& log : p.subspan(1, logs)) operands.push_back(row_at(in, log, at));
        if (!in.ok()) return Values(p.size());
        Values next = inline_computation(in, *sums->body(), operands);
        if (!in.ok()) return Values(p.size());
        for (size_t i = 0; i < fixed.size(); ++i) next[i] = p[first_fixed + i];
        for (size_t i = carries; i < next.size(); ++i)
          next[i] = put_row(in, p[first_factor + i - carries], next[i], at);
        return joined(joined({{at}}, p.subspan(1, logs)), next);
      });
  if (!b.ok()) return failed;
  out.erase(out.begin(), out.begin() + static_cast<int64_t>(first_fixed));
  add_sums(b, *sums, run.logs, run.steps, carries, &out);
  if (!b.ok()) return failed;
  return {out.begin() + static_cast<int64_t>(fixed.size()), out.begin() + static_cast<int64_t>(carries)};
}

absl::StatusOr<Loop> StepLog::loop_of_parts() const {
  const size_t n = marked_.size();
  absl::StatusOr<ComputationPtr> body =
      record_region(step_.loop.body->parameter_types(), [&](Builder& b, Ops p) {
        Values out = loop_over(
            b, joined(p, {{b.scalar_int(DType::kS64, 0)}}),
            [&](Builder& in, Ops q) {
              const Values go = inline_computation(in, *step_.loop.cond, q.first(n));
              const Value fits = in.compare(q[n], in.scalar_int(DType::kS64, most_rows_), "LT");
              return in.ok() ? in.and_(fits, go[0]) : Value();
            },
            [&](Builder& in, Ops q) {
              return joined(inline_computation(in, *step_.loop.body, q.first(n)),
                            {{in.add(q[n], in.scalar_int(DType::kS64, 1))}});
            });
        out.pop_back();
        for (size_t i = 0; i < n; ++i)
          if (is_invariant(*step_.loop.body, i)) out[i] = p[i];
        return out;
      });
  if (!body.ok()) return body.status();
  return Loop{step_.loop.cond, *std::move(body), 0};
}

absl::StatusOr<ComputationPtr> StepLog::part_back() const {
  const size_t n = marked_.size();
  std::vector<const Type*> types = step_.loop.body->parameter_types();
  for (size_t i = 0; i < n; ++i)
    if (marked_[i]) types.push_back(types[i]);
  return record_region(types, [&](Builder& b, Ops p) {
    const Run part = run_on(b, p.first(n), most_rows_);
    return b.ok() ? undone(b, part, p.subspan(n)) : Values(p.size() - n);
  });
}

}  // namespace lamina::trace
