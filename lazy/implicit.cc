#include "lazy/implicit.h"

#include <algorithm>
#include <array>

#include "hlo/op.h"
#include "hlo/strings.h"
#include "lazy/custom.h"
#include "lazy/scopes.h"

namespace lamina::lazy {
namespace {

using Types = std::vector<Typed>;

std::vector<Lazy> without_weakness(std::vector<Lazy> all) {
  for (Lazy& x : all) x = {x.value, false};
  return all;
}
// Elements first ... last-1.
std::vector<Lazy> cut(const std::vector<Lazy>& all, size_t first, size_t last) {
  return {all.begin() + static_cast<ptrdiff_t>(first), all.begin() + static_cast<ptrdiff_t>(last)};
}
std::vector<Lazy> followed(std::vector<Lazy> a, const std::vector<Lazy>& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}

// The arguments of an equation's function in the element types of the unknown: numbers among them get those.
std::vector<Lazy> as_unknown(const std::vector<Lazy>& x, const Types& like) {
  hlo::Builder b;
  std::vector<Lazy> out;
  for (size_t i = 0; i < std::max(x.size(), like.size()); ++i) {
    const std::string given = i < x.size() ? text(typed(x[i])) : "nothing";
    const std::string wanted = i < like.size() ? text(like[i]) : "nothing more";
    if (i >= x.size() || i >= like.size() || x[i].value.dims() != like[i].type->dims)
      throw Error(ErrorKind::kType,
                  str_cat("a function to be solved is called with ", given, ", and is solved for ", wanted));
    out.push_back({converted(b, x[i], like[i].type->dtype), false});
  }
  check(b.status());
  return out;
}

// What a function gave, of which the first results are to be of these types.
std::vector<Lazy> fitting(std::vector<Lazy> out, const Types& like, const std::string& what, bool more) {
  for (size_t i = 0; i < std::max(like.size(), more ? 0 : out.size()); ++i) {
    if (i < out.size() && i < like.size() && out[i].value.type() == like[i].type) {
      out[i] = {out[i].value, false};
      continue;
    }
    throw Error(ErrorKind::kType,
                str_cat(what, " returned ", i < out.size() ? text(typed(out[i])) : "nothing", " where ",
                        i < like.size() ? text(like[i]) : "nothing more", " is needed"));
  }
  return out;
}

// A function traced on parameters of these types; what it uses from outside comes behind them.
struct Traced {
  std::vector<Lazy> captured;
  Types results;
  hlo::ComputationPtr region;  // behind what its making sets

  Traced(const FlatFunction& f, const Types& types) : region(lazy::region(f, types, &captured, &results)) {
    captured = without_weakness(std::move(captured));
  }
  std::vector<Lazy> call(std::vector<Lazy> operands) const {
    return call_region(region, std::move(operands), results);
  }
  // Op by op: a call would depend on a tangent as a whole, and its Jacobian could not be divided by.
  std::vector<Lazy> inlined(const std::vector<Lazy>& operands) const {
    return inline_region(region, operands, results);
  }
};

// The derivative of f(x) along t, where null is zero; of all results null if it is zero.
std::vector<Lazy> along(const FlatFunction& f, const std::vector<Lazy>& x, std::span<const Value> t,
                        size_t results) {
  std::vector<Lazy> points, tangents;
  std::vector<size_t> places;
  for (size_t i = 0; i < x.size(); ++i) {
    if (!t[i] || !hlo::is_inexact(x[i].value.dtype())) continue;
    places.push_back(i);
    points.push_back(x[i]);
    tangents.push_back({t[i], false});
  }
  if (places.empty()) return std::vector<Lazy>(results);
  const FlatFunction moving = [&](const std::vector<Lazy>& p) {
    std::vector<Lazy> full = x;
    for (size_t i = 0; i < places.size(); ++i) full[places[i]] = p[i];
    return f(full);
  };
  return jvp(moving, points, tangents).tangents;
}

// t - y in the types of `like`, where null is zero.
std::vector<Lazy> difference(std::span<const Value> t, const std::vector<Lazy>& y,
                             const std::vector<Lazy>& like) {
  hlo::Builder b;
  std::vector<Lazy> out;
  for (size_t i = 0; i < like.size(); ++i) {
    const Value from = t.empty() || !t[i] ? b.zeros_like(like[i].value) : t[i];
    out.push_back({y[i].value ? b.subtract(from, y[i].value) : from, false});
  }
  check(b.status());
  return out;
}

hlo::JvpResult with_tangents(const std::vector<Lazy>& out, const std::vector<Lazy>& tangents, size_t n) {
  hlo::JvpResult r;
  for (const Lazy& y : out) r.primals.push_back(y.value);
  for (size_t i = 0; i < out.size(); ++i) r.tangents.push_back(i < n ? tangents[i].value : Value());
  return r;
}

// A rule by a forward derivative.
class EquationRule : public FunctionRule {
 protected:
  explicit EquationRule(size_t arguments) : FunctionRule(Kind::kJvp, arguments) {}
  Forward run_forward(std::span<const Value>, std::span<const bool>) final { return {}; }
  hlo::Values run_backward(const Form&, std::span<const Value>, std::span<const Value>) final { return {}; }
};

// A x = b for fixed functions; every array they use is an operand: of A, of either solver, and b.
struct System {
  Types unknown;
  Traced apply;
  std::array<std::optional<Traced>, 2> solvers = {};  // of A x = b and of its transpose

  size_t coefficients() const { return apply.captured.size(); }
  std::vector<Lazy> operands() const {
    std::vector<Lazy> out = apply.captured;
    for (const std::optional<Traced>& s : solvers)
      if (s) out = followed(std::move(out), s->captured);
    return out;
  }
  // (a, x) -> A x or its transpose.
  std::vector<Lazy> product(bool transposed, const std::vector<Lazy>& a, const std::vector<Lazy>& x) const {
    if (!transposed) return apply.inlined(followed(x, a));
    hlo::Builder b;
    std::vector<Lazy> zeros;
    for (const Lazy& v : x) zeros.push_back({b.zeros_like(v.value), false});
    check(b.status());
    return vjp([&](const std::vector<Lazy>& p) { return apply.inlined(followed(p, a)); }, zeros).pull_back(x);
  }
};

Traced traced_solver(const std::shared_ptr<const System>& system, const Solver& solver, bool transposed) {
  const size_t n = system->coefficients();
  const FlatFunction run = [&](const std::vector<Lazy>& p) {
    const std::vector<Lazy> a = cut(p, 0, n);
    const FlatFunction matvec = [system, transposed, a](const std::vector<Lazy>& x) {
      return system->product(transposed, a, as_unknown(x, system->unknown));
    };
    return fitting(solver.solve(matvec, cut(p, n, p.size())), system->unknown, solver.name, true);
  };
  Types types = types_of(system->apply.captured);
  types.insert(types.end(), system->unknown.begin(), system->unknown.end());
  return {run, types};
}

// The solution of one of the two, and the further results of its solver.
std::vector<Lazy> solve_system(const std::shared_ptr<const System>& system, size_t which,
                               std::vector<Lazy> operands, const std::vector<Lazy>& b);

class SystemRule final : public EquationRule {
 public:
  SystemRule(std::shared_ptr<const System> system, size_t which, size_t operands)
      : EquationRule(operands), system_(std::move(system)), which_(which) {}
  bool has_transpose() const override { return true; }

 protected:
  hlo::JvpResult run_jvp(std::span<const Value> x, std::span<const Value> t) override {
    const size_t n = unknowns(), held = x.size() - n, a = system_->coefficients();
    const std::vector<Lazy> operands = lazy_values(x.first(held)), b = lazy_values(x.last(n));
    const std::vector<Lazy> out = solve_system(system_, which_, operands, b), at = cut(out, 0, n);
    const std::vector<Lazy> moved =
        along([&](const std::vector<Lazy>& p) { return system_->product(which_ == 1, p, at); },
              cut(operands, 0, a), t.first(a), n);
    return with_tangents(out, solve_system(system_, which_, operands, difference(t.last(n), moved, b)), n);
  }
  hlo::Values run_transpose(std::span<const Value> x, std::span<const Value> cotangents) override {
    if (!system_->solvers[1 - which_])
      throw Error(ErrorKind::kType,
                  "custom_linear_solve needs transpose_solve, or a symmetric system that it is told of, for "
                  "derivatives in reverse mode");
    const size_t n = unknowns();
    hlo::Values out(x.size() - n);
    for (const Lazy& y : cut(solve_system(system_, 1 - which_, lazy_values(x.first(x.size() - n)),
                                          lazy_values(cotangents.first(n))),
                             0, n))
      out.push_back(y.value);
    return out;
  }

 private:
  size_t unknowns() const { return system_->unknown.size(); }
  std::shared_ptr<const System> system_;
  size_t which_;
};

std::vector<Lazy> solve_system(const std::shared_ptr<const System>& system, size_t which,
                               std::vector<Lazy> operands, const std::vector<Lazy>& b) {
  const size_t a = system->coefficients(), held = operands.size();
  const size_t first = which == 1 && system->solvers[0] ? a + system->solvers[0]->captured.size() : a;
  const Traced& solver = *system->solvers[which];
  const FlatFunction run = [&](const std::vector<Lazy>& p) {
    return solver.call(followed(followed(cut(p, 0, a), cut(p, held, p.size())),
                                cut(p, first, first + solver.captured.size())));
  };
  std::vector<Lazy> all = without_weakness(followed(std::move(operands), b));
  const RuleHandle rule(std::make_shared<SystemRule>(system, which, all.size()));
  return call_with_rule(run, std::move(all), rule.id());
}

// f(x) = 0 for a fixed f; its arrays, the guess and those of the search are operands.
struct Root {
  Types unknown;
  Traced residual, search;
  Solver tangent_solve;

  std::vector<Lazy> at(const std::vector<Lazy>& a, const std::vector<Lazy>& x) const {
    return residual.inlined(followed(x, a));
  }
};

std::vector<Lazy> solve_root(const std::shared_ptr<const Root>& root, std::vector<Lazy> operands);

class RootRule final : public EquationRule {
 public:
  RootRule(std::shared_ptr<const Root> root, size_t operands)
      : EquationRule(operands), root_(std::move(root)) {}

 protected:
  hlo::JvpResult run_jvp(std::span<const Value> x, std::span<const Value> t) override {
    const size_t n = root_->unknown.size(), used = root_->residual.captured.size();
    const std::vector<Lazy> operands = lazy_values(x), a = cut(operands, 0, used);
    const std::vector<Lazy> out = solve_root(root_, operands), at = cut(out, 0, n);
    const std::vector<Lazy> moved =
        along([&](const std::vector<Lazy>& p) { return root_->at(p, at); }, a, t.first(used), n);
    const FlatFunction slope = [root = root_, a, at](const std::vector<Lazy>& v) {
      return lazy::jvp([&](const std::vector<Lazy>& p) { return root->at(a, p); }, at,
                       as_unknown(v, root->unknown))
          .tangents;
    };
    const Solver& solver = root_->tangent_solve;
    const std::vector<Lazy> pushed =
        fitting(solver.solve(slope, difference({}, moved, at)), root_->unknown, solver.name, false);
    return with_tangents(out, pushed, n);
  }

 private:
  std::shared_ptr<const Root> root_;
};

std::vector<Lazy> solve_root(const std::shared_ptr<const Root>& root, std::vector<Lazy> operands) {
  std::vector<Lazy> all = without_weakness(std::move(operands));
  const RuleHandle rule(std::make_shared<RootRule>(root, all.size()));
  return call_with_rule([&](const std::vector<Lazy>& p) { return root->search.call(p); }, std::move(all),
                        rule.id());
}

// f of the unknown, in its types.
FlatFunction of_unknown(const Named& f, const Types& unknown) {
  return [f, unknown](const std::vector<Lazy>& x) {
    return fitting(f.f(as_unknown(x, unknown)), unknown, f.name, false);
  };
}

}  // namespace

std::vector<Lazy> custom_linear_solve(const Named& matvec, std::vector<Lazy> b, const Solver& solve,
                                      const std::optional<Solver>& transpose_solve, bool symmetric) {
  b = without_weakness(std::move(b));
  for (const Lazy& x : b)
    if (!hlo::is_inexact(x.value.dtype()))
      throw Error(ErrorKind::kType, str_cat("custom_linear_solve needs float or complex arrays, not ",
                                            text(typed(x)), "; give b another element type"));
  const Types unknown = types_of(b);
  const FlatFunction product = of_unknown(matvec, unknown);
  if (open_scopes().empty()) return fitting(solve.solve(product, b), unknown, solve.name, true);
  const auto system = std::make_shared<System>(unknown, Traced(product, unknown));
  system->solvers[0].emplace(traced_solver(system, solve, false));
  if (symmetric)
    system->solvers[1].emplace(traced_solver(system, solve, false));
  else if (transpose_solve)
    system->solvers[1].emplace(traced_solver(system, *transpose_solve, true));
  return solve_system(system, 0, system->operands(), b);
}

std::vector<Lazy> custom_root(const Named& f, std::vector<Lazy> guess, const Solver& solve,
                              const Solver& tangent_solve) {
  guess = without_weakness(std::move(guess));
  const Types unknown = types_of(guess);
  const FlatFunction residual = of_unknown(f, unknown);
  if (open_scopes().empty()) return fitting(solve.solve(residual, guess), unknown, solve.name, true);
  Traced traced(residual, unknown);
  const size_t n = traced.captured.size();
  Types types = types_of(traced.captured);
  types.insert(types.end(), unknown.begin(), unknown.end());
  const FlatFunction run = [&](const std::vector<Lazy>& p) {
    const std::vector<Lazy> a = cut(p, 0, n);
    const FlatFunction at = [traced, unknown, a](const std::vector<Lazy>& x) {
      return traced.inlined(followed(as_unknown(x, unknown), a));
    };
    return fitting(solve.solve(at, cut(p, n, p.size())), unknown, solve.name, true);
  };
  Traced search(run, types);
  std::vector<Lazy> operands = followed(followed(traced.captured, guess), search.captured);
  return solve_root(std::make_shared<Root>(unknown, std::move(traced), std::move(search), tangent_solve),
                    std::move(operands));
}

}  // namespace lamina::lazy
