#include "hlo/passes/checks.h"

#include "hlo/batching.h"
#include "hlo/graph_copy.h"
#include "hlo/nodes.h"
#include "hlo/regions.h"

namespace lamina::hlo {
namespace {

using Ops = std::span<const Value>;

void insert_at(Values& list, size_t at, const Value& v) {
  list.insert(list.begin() + static_cast<ptrdiff_t>(at), v);
}

bool is_check(const Node& n) {
  if (n.op() != Op::custom_call) return false;
  const std::string& target = n.attrs().string(Attr::call_target_name);
  return target == kCheckTarget || target == kCppCheckTarget;
}

// `c` with its users' checks left out.
absl::StatusOr<ComputationPtr> without_checks(const Computation& c) {
  Builder b;
  GraphCopy copy(c.parameters(), c.parameters());
  const bool made = copy.extend(b, postorder(c.roots()), [&](const Node& n, Ops x) {
    if (is_check(n)) return Values{x[1]};
    const Attrs* attrs = with_regions(n.attrs(), [&](const Computation& region) -> ComputationPtr {
      if (!anywhere(region, is_check)) return nullptr;
      const absl::StatusOr<ComputationPtr> rest = without_checks(region);
      return get_or_fail(b, rest) ? *rest : nullptr;
    });
    NodeScope scope(n);
    return attrs == &n.attrs() ? results_of(b, n, x) : b.make_multi(n.op(), x, attrs);
  });
  if (!made) return b.status();
  return Computation::make(c.parameters(), copy(c.roots()));
}

// Rebuilds a computation; `error_` is the number so far.
class Checker {
 public:
  Checker(const CheckOptions& options, Value error) : options_(options), error_(std::move(error)) {}
  const Value& error() const { return error_; }

  Values remake(Builder& b, const Node& n, Ops x) {
    if (options_.user && is_check(n)) return {user_check(b, n, x)};
    Values out = with_regions(b, n, x);
    if (!b.ok()) return out;
    if (options_.division && (n.op() == Op::divide || n.op() == Op::remainder))
      fail_where(b, b.compare(x[1], b.zeros_like(x[1]), "EQ"), n, "division");
    if (options_.nan && may_make_nan(n))
      for (const Value& v : out)
        if (v.type()->is_array() && is_inexact(v.dtype())) fail_where(b, b.compare(v, v, "NE"), n, "nan");
    return out;
  }

 private:
  // Whether a NaN among the results may be none that an operand has or that is told where a region makes it.
  static bool may_make_nan(const Node& n) {
    switch (n.op()) {
      case Op::abs:
      case Op::bitcast_convert:
      case Op::case_:
      case Op::ceil:
      case Op::clamp:
      case Op::convert:
      case Op::dynamic_slice:
      case Op::dynamic_update_slice:
      case Op::floor:
      case Op::gather:
      case Op::maximum:
      case Op::minimum:
      case Op::negate:
      case Op::next_after:
      case Op::round_nearest_afz:
      case Op::round_nearest_even:
      case Op::scan:
      case Op::select:
      case Op::sign:
      case Op::sort:
      case Op::while_:
        return false;
      case Op::call:
        return !has_checked_body(n);
      case Op::reduce: {
        const std::optional<Op> op = region_op(*n.attrs().computation(Attr::body));
        return !op || (*op != Op::maximum && *op != Op::minimum);
      }
      default:
        return !passes_on(n);
    }
  }

  Value none_so_far(Builder& b) const { return b.compare(error_, b.scalar_int(DType::kS32, 0), "EQ"); }

  // An error where any element of `wrong` holds.
  void fail_where(Builder& b, const Value& wrong, const Node& n, std::string_view what) {
    if (!wrong) return;
    const Value any = b.reduce(wrong, Op::or_, b.scalar_int(DType::kBool, 0), all_dims(wrong.rank()));
    const Value number = b.scalar_int(DType::kS32, options_.number(n, what));
    error_ = b.select(b.and_(any, none_so_far(b)), number, error_);
  }

  // Its token, as it came.
  Value user_check(Builder& b, const Node& n, Ops x) {
    const Value failed = b.and_(b.not_(x[2]), none_so_far(b));
    const Value number = b.scalar_int(DType::kS32, n.attrs().integer(Attr::index));
    if (x.size() == 3) {
      error_ = b.select(failed, number, error_);
      return x[1];
    }
    Values operands{error_, x[0]};
    operands.insert(operands.end(), x.begin() + 3, x.end());
    const std::vector<const Type*> types = types_of(operands);
    const bool of_cpp = n.attrs().string(Attr::call_target_name) == kCppCheckTarget;
    const std::string failed_target(of_cpp ? kCppFailedTarget : kFailedTarget);
    const auto keep = record_region(types, [](Builder&, Ops p) { return Values{p[0]}; });
    const auto tell = record_region(types, [&](Builder& inner, Ops p) {
      return inner.make_multi(Op::custom_call, p.subspan(1),
                              intern_attrs({{Attr::call_target_name, failed_target},
                                            {Attr::result_types, std::vector<const Type*>{p[0].type()}}}));
    });
    if (!get_or_fail(b, keep) || !get_or_fail(b, tell)) return x[1];
    error_ = b.conditional(b.convert(failed, DType::kS32), {{*keep, *tell}}, operands)[0];
    return x[1];
  }

  static bool has_rule(const Node& n) { return n.attrs().has(Attr::rule) && !n.attrs().has(Attr::instance); }

  static bool runs_loop(const Node& n) {
    return n.attrs().has(Attr::direction) && n.attrs().string(Attr::direction) == "primal";
  }

  // A loop that is run for its derivative is checked as any call is; the derivative is not.
  static bool has_checked_body(const Node& n) { return runs_loop(n) || !n.attrs().has(Attr::direction); }

  // The call with its rule, for derivatives to go by, and the error of a call without one, which they pass
  // by. Other effects must not happen twice: a call with some stays as it is.
  Values beside_rule(Builder& b, const Node& n, Ops x, const ComputationPtr& body) {
    const absl::StatusOr<ComputationPtr> unchecked = without_checks(*n.attrs().computation(Attr::body));
    if (!get_or_fail(b, unchecked) || anywhere(**unchecked, is_effect)) return results_of(b, n, x);
    Values operands;
    for (const Value& v : x) operands.push_back(is_inexact(v.dtype()) ? b.stop_gradient(v) : v);
    operands.push_back(error_);
    const Values out = b.make_multi(Op::call, operands, intern_attrs({{Attr::body, body}}));
    if (!b.ok()) return out;
    error_ = out.back();
    return b.make_multi(Op::call, x, with_attr(n.attrs(), Attr::body, *unchecked));
  }

  ComputationPtr checked(Builder& b, const ComputationPtr& c, size_t parameter, size_t result) {
    const absl::StatusOr<ComputationPtr> made = with_checks(*c, options_, parameter, result);
    return get_or_fail(b, made) ? *made : nullptr;
  }

  // The node with the error among its operands and results where it has regions that are checked.
  Values with_regions(Builder& b, const Node& n, Ops x) {
    const Attrs& a = n.attrs();
    Values operands(x.begin(), x.end());
    const auto results = [&](size_t at, const Attrs* attrs) {
      Values out = b.make_multi(n.op(), operands, attrs);
      if (!b.ok()) return out;
      error_ = out[at];
      out.erase(out.begin() + static_cast<ptrdiff_t>(at));
      return out;
    };
    const size_t last = n.num_results();
    if (n.op() == Op::call && has_checked_body(n)) {
      const ComputationPtr body = checked(b, a.computation(Attr::body), x.size(), last);
      if (has_rule(n)) return beside_rule(b, n, x, body);
      operands.push_back(error_);
      if (!b.ok()) return operands;
      return results(last,
                     runs_loop(n) ? intern_attrs({{Attr::body, body}}) : with_attr(a, Attr::body, body));
    }
    if (n.op() == Op::case_) {
      std::vector<ComputationPtr> branches;
      for (const ComputationPtr& c : a.computations(Attr::branches))
        branches.push_back(checked(b, c, x.size() - 1, last));
      operands.push_back(error_);
      return b.ok() ? results(last, with_attr(a, Attr::branches, std::move(branches))) : operands;
    }
    if (n.op() == Op::scan) {
      const auto carries = static_cast<size_t>(a.integer(Attr::num_carry));
      const ComputationPtr body = checked(b, a.computation(Attr::body), carries, carries);
      insert_at(operands, carries, error_);
      return b.ok() ? results(carries, with_attr(*with_attr(a, Attr::body, body), Attr::num_carry,
                                                 static_cast<int64_t>(carries + 1)))
                    : operands;
    }
    if (n.op() == Op::while_) return checked_loop(b, n, operands);
    return results_of(b, n, x);
  }

  // A loop whose error is its last carry. What the condition finds wrong it finds before the loop and after
  // each step.
  Values checked_loop(Builder& b, const Node& n, Values operands) {
    const Attrs& a = n.attrs();
    const size_t carries = operands.size();
    ComputationPtr body = checked(b, a.computation(Attr::body), carries, carries);
    const ComputationPtr test = checked(b, a.computation(Attr::cond), carries, 1);
    const absl::StatusOr<ComputationPtr> cond =
        with_parameters(*a.computation(Attr::cond), {{error_.type()}});
    if (!get_or_fail(b, cond) || !b.ok()) return operands;
    operands.push_back(error_);
    if (!(test->roots()[1] == test->parameters()[carries])) {
      operands.back() = inline_computation(b, *test, operands)[1];
      const std::vector<const Type*> types = body->parameter_types();
      absl::StatusOr<ComputationPtr> tested = record_region(types, [&](Builder& inner, Ops p) {
        Values next = inline_computation(inner, *body, p);
        if (inner.ok()) next.back() = inline_computation(inner, *test, next)[1];
        return next;
      });
      if (!get_or_fail(b, tested)) return operands;
      body = *std::move(tested);
    }
    Values out =
        b.make_multi(n.op(), operands, with_attr(*with_attr(a, Attr::body, body), Attr::cond, *cond));
    if (!b.ok()) return out;
    error_ = out.back();
    out.pop_back();
    return out;
  }

  const CheckOptions& options_;
  Value error_;
};

}  // namespace

absl::StatusOr<ComputationPtr> with_checks(const Computation& c, const CheckOptions& options,
                                           size_t parameter, size_t result) {
  GraphLock lock;
  const Value start = make_parameter(scalar_type(DType::kS32));
  Checker checker(options, start);
  Builder b;
  // What users check is told before what only follows from it.
  std::vector<Value> ends;
  for (Node* n : c.nodes())
    if (anywhere(*n, is_effect)) ends.push_back(Value(n));
  ends.insert(ends.end(), c.roots().begin(), c.roots().end());
  GraphCopy copy(c.parameters(), c.parameters());
  const bool made = copy.extend(b, postorder(ends), [&](const Node& n, Ops operands) {
    NodeScope scope(n);
    return checker.remake(b, n, operands);
  });
  if (!made) return b.status();
  Values parameters(c.parameters().begin(), c.parameters().end()), roots = copy(c.roots());
  insert_at(parameters, parameter, start);
  insert_at(roots, result, checker.error());
  return Computation::make(parameters, roots);
}

}  // namespace lamina::hlo
