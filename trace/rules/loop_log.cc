// Reverse mode of loops whose steps need little of what they carry: of a stack, one row.
//
// Each step leaves what its linear part needs in a row of a log, and the rows undo the steps. A log has rows
// for some steps; a longer loop is one whose steps are so many of its own, and the states between these are
// kept or computed again as those of any loop (loop_derivatives.cc).
#include <algorithm>

#include "trace/rules/scan.h"
#include "trace/rules/while.h"

namespace lamina::trace {

namespace {

// Bytes of a log, as far as arrays that change fit one kernel with it, and else. The first one has fewer
// rows.
constexpr int64_t kLittleLog = int64_t{1} << 20, kMuchLog = int64_t{16} << 20;
constexpr int64_t kFirstRows = 128, kMostRows = int64_t{1} << 16;
// So much smaller than the state is what a step needs of it.
constexpr int64_t kSmaller = 4;

}  // namespace

absl::StatusOr<std::optional<StepLog>> StepLog::of(const Loop& loop, const Mask& marked) {
  StepLog out;
  absl::StatusOr<Loop> differentiable = differentiated(loop, marked);
  if (!differentiable.ok()) return differentiable.status();
  out.loop_ = *std::move(differentiable);
  out.marked_ = marked;
  const size_t n = marked.size();
  const auto m = static_cast<size_t>(std::count(marked.begin(), marked.end(), true));
  int64_t state = 0;
  for (size_t i = 0; i < n; ++i)
    if (!is_invariant(*loop.body, i)) state += loop.body->parameters()[i].type()->bytes();
  absl::StatusOr<JvpComputation> both = jvp_computation(*loop.body, marked, marked, JvpMode::kLinearize);
  if (!both.ok()) return both.status();
  Mask tangents(n + m, false), forced(n + m, false);
  std::fill(tangents.begin() + static_cast<int64_t>(n), tangents.end(), true);
  std::fill(forced.begin() + static_cast<int64_t>(n), forced.end(), true);
  const absl::StatusOr<SplitComputation> split = split_computation(*both->body, tangents, forced);
  if (!split.ok()) return split.status();
  out.known_ = split->known;
  const size_t residuals = split->residual_parameter.size();
  Mask linear(residuals + m, false);
  std::fill(linear.begin() + static_cast<int64_t>(residuals), linear.end(), true);
  absl::StatusOr<ComputationPtr> back = transpose_computation(*split->unknown, linear, Mask(m, true));
  if (!back.ok()) return back.status();
  out.back_ = *std::move(back);
  int64_t bytes = 0;
  size_t computed = n;
  for (size_t i = 0; i < residuals; ++i) {
    const int64_t p = split->residual_parameter[i];
    const Value& v = out.back_->parameters()[i];
    const auto& nodes = out.back_->nodes();
    const bool read = std::find(nodes.begin(), nodes.end(), v.node()) != nodes.end();
    Residual r{Residual::kUnread, p >= 0 ? static_cast<size_t>(p) : computed++};
    if (read)
      r.kind = p < 0                         ? Residual::kComputed
               : is_invariant(*loop.body, p) ? Residual::kFixed
                                             : Residual::kCarry;
    if (r.is_logged()) bytes += v.type()->bytes();
    out.residuals_.push_back(r);
  }
  if (bytes * kSmaller > state) return std::nullopt;
  const int64_t budget = state <= kLittleLog / 2 ? kLittleLog - state : kMuchLog;
  out.most_rows_ = std::clamp(budget / std::max<int64_t>(bytes, 1), int64_t{16}, kMostRows);
  out.first_rows_ = std::min(out.most_rows_, kFirstRows);
  return out;
}

Values StepLog::record(Builder& b, Ops x, Ops ct) const {
  const Values failed(ct.size());
  const Run begun = run(b, x, first_rows_);
  if (!b.ok()) return failed;
  const Values more = inline_computation(b, *loop_.cond, begun.carries);
  if (!b.ok()) return failed;
  const size_t n = x.size(), logs = begun.logs.size();
  const Values all = joined(joined(x, {{begun.steps}}), joined(begun.logs, ct));
  const absl::StatusOr<ComputationPtr> ends = record_region(types_of(all), [&](Builder& in, Ops p) {
    return undone(in, p[n], p.subspan(n + 1, logs), p.first(n), p.subspan(n + 1 + logs));
  });
  const absl::StatusOr<ComputationPtr> goes_on = record_region(types_of(all), [&](Builder& in, Ops p) {
    const absl::StatusOr<Loop> parts = in_parts();
    const absl::StatusOr<ComputationPtr> back = part_back();
    const Ops cotangents = p.subspan(n + 1 + logs);
    if (!get_or_fail(in, parts) || !get_or_fail(in, back)) return Values(cotangents.size());
    return reversed_by_states(in, *parts, marked_, *back, p.first(n), cotangents);
  });
  if (!get_or_fail(b, ends) || !get_or_fail(b, goes_on)) return failed;
  return b.conditional(b.convert(more[0], DType::kS32), {{*ends, *goes_on}}, all);
}

StepLog::Run StepLog::run(Builder& b, Ops x, int64_t rows) const {
  const size_t n = x.size();
  Values logs;
  for (size_t i = 0; i < residuals_.size(); ++i) {
    if (!residuals_[i].is_logged()) continue;
    const Type* t = back_->parameters()[i].type();
    const absl::StatusOr<const Type*> log = array_type(t->dtype, prepend(rows, t->dims));
    logs.push_back(get_or_fail(b, log) ? b.zeros(*log) : Value());
  }
  if (!b.ok()) return {Values(n), Value(), {}};
  const Values out = loop_over(
      b, joined(joined(x, {{b.scalar_int(DType::kS64, 0)}}), logs),
      [&](Builder& in, Ops p) {
        const Values go = inline_computation(in, *loop_.cond, p.first(n));
        return in.ok() ? in.and_(in.compare(p[n], in.scalar_int(DType::kS64, rows), "LT"), go[0]) : Value();
      },
      [&](Builder& in, Ops p) {
        const Values made = inline_computation(in, *known_, p.first(n));
        if (!in.ok()) return Values(p.size());
        Values next;
        for (size_t i = 0; i < n; ++i) next.push_back(is_invariant(*loop_.body, i) ? p[i] : made[i]);
        next.push_back(in.add(p[n], in.scalar_int(DType::kS64, 1)));
        size_t log = n + 1;
        for (const Residual& r : residuals_)
          if (r.is_logged()) {
            next.push_back(
                put_row(in, p[log], r.kind == Residual::kCarry ? p[r.index] : made[r.index], p[n]));
            ++log;
          }
        return next;
      });
  const auto at = out.begin() + static_cast<int64_t>(n);
  return {{out.begin(), at}, out[n], {at + 1, out.end()}};
}

Values StepLog::undone(Builder& b, const Value& steps, Ops logs, Ops x, Ops ct) const {
  Values fixed;
  for (const Residual& r : residuals_)
    if (r.kind == Residual::kFixed) fixed.push_back(x[r.index]);
  const size_t first_fixed = 1 + logs.size(), first_ct = first_fixed + fixed.size();
  const Values out = loop_over(
      b, joined(joined({{steps}}, logs), joined(fixed, ct)),
      [](Builder& in, Ops p) { return in.compare(p[0], in.scalar_int(DType::kS64, 0), "GT"); },
      [&](Builder& in, Ops p) {
        const Value at = in.subtract(p[0], in.scalar_int(DType::kS64, 1));
        Values operands;
        size_t log = 1, same = first_fixed;
        for (size_t i = 0; i < residuals_.size(); ++i) {
          const Residual& r = residuals_[i];
          if (r.is_logged())
            operands.push_back(row_at(in, p[log++], at));
          else
            operands.push_back(r.kind == Residual::kFixed ? p[same++]
                                                          : in.zeros(back_->parameters()[i].type()));
        }
        if (!in.ok()) return Values(p.size());
        const Values back = inline_computation(in, *back_, joined(operands, p.subspan(first_ct)));
        if (!in.ok()) return Values(p.size());
        return joined(joined({{at}}, p.subspan(1, first_ct - 1)), back);
      });
  return {out.begin() + static_cast<int64_t>(first_ct), out.end()};
}

absl::StatusOr<Loop> StepLog::in_parts() const {
  const size_t n = marked_.size();
  absl::StatusOr<ComputationPtr> body = record_region(loop_.body->parameter_types(), [&](Builder& b, Ops p) {
    Values out = loop_over(
        b, joined(p, {{b.scalar_int(DType::kS64, 0)}}),
        [&](Builder& in, Ops q) {
          const Values go = inline_computation(in, *loop_.cond, q.first(n));
          const Value fits = in.compare(q[n], in.scalar_int(DType::kS64, most_rows_), "LT");
          return in.ok() ? in.and_(fits, go[0]) : Value();
        },
        [&](Builder& in, Ops q) {
          return joined(inline_computation(in, *loop_.body, q.first(n)),
                        {{in.add(q[n], in.scalar_int(DType::kS64, 1))}});
        });
    out.pop_back();
    for (size_t i = 0; i < n; ++i)
      if (is_invariant(*loop_.body, i)) out[i] = p[i];
    return out;
  });
  if (!body.ok()) return body.status();
  return Loop{loop_.cond, *std::move(body), 0};
}

absl::StatusOr<ComputationPtr> StepLog::part_back() const {
  const size_t n = marked_.size();
  std::vector<const Type*> types = loop_.body->parameter_types();
  for (size_t i = 0; i < n; ++i)
    if (marked_[i]) types.push_back(types[i]);
  return record_region(types, [&](Builder& b, Ops p) {
    const Run part = run(b, p.first(n), most_rows_);
    if (!b.ok()) return Values(p.size() - n);
    return undone(b, part.steps, part.logs, p.first(n), p.subspan(n));
  });
}

}  // namespace lamina::trace
