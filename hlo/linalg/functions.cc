// Functions of matrices that are made of the routines.
#include <array>
#include <cmath>
#include <limits>
#include <memory>

#include "hlo/batching.h"
#include "hlo/custom_rule.h"
#include "hlo/linalg/calls.h"
#include "hlo/linalg/linalg.h"
#include "hlo/linalg/matrix.h"
#include "hlo/nodes.h"
#include "hlo/rules/support.h"

namespace lamina::hlo::linalg {
namespace {

// [...] spread over the matrices [..., m, n] of `like`.
Value over(Builder& b, const Value& v, const Value& like) {
  return v && like ? b.broadcast_in_dim(v, like.dims(), all_dims(v.rank())) : Value();
}
Value larger(Builder& b, const Value& x, double than) { return b.compare(x, b.full_like(x, than), "GT"); }
Value largest_last(Builder& b, const Value& x) {
  return b.reduce(x, Op::maximum, b.scalar(x.dtype(), -std::numeric_limits<double>::infinity()),
                  Dims{x.rank() - 1});
}

// The matrices p[0], squared where the step p[2] is one of their p[1] squarings.
Value squared_where_more(Builder& b, std::span<const Value> p) {
  const auto square = [](Builder& s, std::span<const Value> q) {
    const Value more = s.compare(q[1], s.broadcast_scalar(q[2], q[1].dims()), "GT");
    // Matrices that are done are not squared: what overflows there would make derivatives NaN.
    const Value each = over(s, more, q[0]);
    const Value base = s.select(each, q[0], s.zeros_like(q[0]));
    return s.select(each, product(s, base, base), q[0]);
  };
  // Of smaller matrices a product costs less than a branch.
  constexpr int64_t kLeastBranched = 16;
  if (p[0].dims().back() < kLeastBranched) return square(b, p);
  const Type* const types[] = {p[0].type(), p[1].type(), p[2].type()};
  const absl::StatusOr<ComputationPtr> some =
      record_region(types, [&](Builder& s, std::span<const Value> q) { return Values{square(s, q)}; });
  const absl::StatusOr<ComputationPtr> none =
      record_region(types, [](Builder&, std::span<const Value> q) { return Values{q[0]}; });
  for (const auto* branch : {&some, &none})
    if (!branch->ok()) return b.fail(branch->status());
  const Value more = b.compare(p[1], b.broadcast_scalar(p[2], p[1].dims()), "GT");
  const Value any = b.reduce(more, Op::or_, b.scalar_int(DType::kBool, 0), all_dims(more.rank()));
  return b.conditional(b.convert(any, DType::kS32), {{*none, *some}}, p)[0];
}

}  // namespace

Value expm(Builder& b, const Value& a, int64_t max_squarings) {
  if (!a) return a;
  if (a.rank() < 2 || a.dims()[a.rank() - 2] != a.dims().back() || is_storage_float(a.dtype()) ||
      !is_inexact(a.dtype()))
    return b.fail(invalid("expm needs square matrices of f32, f64, c64 or c128, not ", to_string(*a.type())));
  if (a.dims().back() == 0) return a;
  // Up to this 1-norm the quotient of polynomials is exact to double precision (table 2.3).
  constexpr double kLargest = 5.371920351148152;
  static constexpr std::array<double, 14> kPade = {64764752532480000.0,
                                                   32382376266240000.0,
                                                   7771770303897600.0,
                                                   1187353796428800.0,
                                                   129060195264000.0,
                                                   10559470521600.0,
                                                   670442572800.0,
                                                   33522128640.0,
                                                   1323241920.0,
                                                   40840800.0,
                                                   960960.0,
                                                   16380.0,
                                                   182.0,
                                                   1.0};
  const Value size = largest_last(b, b.reduce_sum(b.abs(a), Dims{a.rank() - 2}));
  const Value finite = b.compare(size, b.full_like(size, std::numeric_limits<double>::infinity()), "LT");
  const Value ratio = b.select(b.and_(finite, larger(b, size, kLargest)),
                               b.divide(size, b.full_like(size, kLargest)), b.full_like(size, 1));
  const Value log2 = b.divide(b.make(Op::log, {{ratio}}), b.full_like(ratio, std::log(2.0)));
  const Value squarings =
      b.stop_gradient(b.make(Op::maximum, {{b.make(Op::ceil, {{log2}}), b.zeros_like(ratio)}}));
  const Value scale = b.make(Op::power, {{b.full_like(squarings, 2), b.negate(squarings)}});
  const Value x = b.multiply(a, over(b, as_type(b, scale, a.dtype()), a));
  const Value x2 = product(b, x, x), x4 = product(b, x2, x2), x6 = product(b, x4, x2), one = eye_like(b, x);
  auto sum = [&](std::initializer_list<std::pair<int, Value>> terms) {
    Value all;
    // Of the order of 1, by a power of two: derivatives in f32 divide by the polynomials again and again.
    for (const auto& [k, v] : terms)
      all = b.add_any(all, b.multiply(b.full_like(v, std::ldexp(kPade[k], -56)), v));
    return all;
  };
  const Value odd = product(
      b, x,
      b.add(product(b, x6, sum({{13, x6}, {11, x4}, {9, x2}})), sum({{7, x6}, {5, x4}, {3, x2}, {1, one}})));
  const Value even =
      b.add(product(b, x6, sum({{12, x6}, {10, x4}, {8, x2}})), sum({{6, x6}, {4, x4}, {2, x2}, {0, one}}));
  Value power = solve(b, b.subtract(even, odd), b.add(even, odd));
  if (!power) return power;
  if (max_squarings > 0) {
    const Type* types[] = {power.type(), squarings.type(), scalar_type(squarings.dtype())};
    absl::StatusOr<ComputationPtr> body = record_region(types, [](Builder& s, std::span<const Value> p) {
      return Values{squared_where_more(s, p), p[1]};
    });
    if (!body.ok()) return b.fail(body.status());
    const Value steps = b.iota(squarings.dtype(), Dims{max_squarings}, 0);
    power = b.scan(*body, {{power, squarings}}, {{steps}}, max_squarings, false)[0];
  }
  const Value beyond = larger(b, squarings, static_cast<double>(max_squarings));
  return b.select(over(b, beyond, power), b.full_like(power, std::numeric_limits<double>::quiet_NaN()),
                  power);
}

namespace {

// The inverse by singular values, or by the eigenvalues of Hermitian matrices.
Value pinv_by_values(Builder& b, const Value& a, const Value& rtol, bool hermitian) {
  const Values f = call(b, hermitian ? "lamina.eigh" : "lamina.svd", {{a}});
  if (!b.ok()) return Value();
  const Value &s = hermitian ? f[1] : f[0], &u = hermitian ? f[0] : f[1];
  const Value vh = hermitian ? adjoint(b, u) : f[2];
  if (s.dims().back() == 0) return transposed(b, a);
  const Value size = b.abs(s), largest = largest_last(b, size);
  Dims trailing = all_dims(rtol.rank());
  for (int64_t& d : trailing) d += largest.rank() - rtol.rank();
  const Value limit = b.multiply(b.broadcast_in_dim(rtol, largest.dims(), trailing), largest);
  const Value kept = b.compare(size, b.broadcast_in_dim(limit, s.dims(), all_dims(limit.rank())), "GT");
  const Value one = b.full_like(s, 1), known = b.compare(s, s, "EQ");
  const Value inverse =
      b.select(kept, b.divide(one, b.select(kept, s, one)), b.select(known, b.zeros_like(s), s));
  const Value v = adjoint(b, vh);
  return product(b, b.multiply(v, along_columns(b, as_type(b, inverse, v.dtype()), v)), adjoint(b, u));
}

// Golub and Pereyra, "The differentiation of pseudo-inverses and nonlinear least squares problems whose
// variables separate" (1973), at constant rank: right where singular values coincide.
class PinvRule final : public CustomRule {
 public:
  explicit PinvRule(bool hermitian) : hermitian_(hermitian) {}
  Kind kind() const override { return Kind::kJvp; }
  JvpResult jvp(Builder& b, std::span<const Value> x, std::span<const Value> t) override {
    const Value &a = x[0], &da = t[0];
    const Value p = pinv(b, a, x[1], hermitian_);
    if (!p || !da) return {};
    // Of three matrices n x m, m x n and n x m, those two first whose product is the smaller one.
    const bool wide = a.dims()[a.rank() - 2] <= a.dims()[a.rank() - 1];
    auto of_three = [&](const Value& l, const Value& c, const Value& r) {
      return wide ? product(b, l, product(b, c, r)) : product(b, product(b, l, c), r);
    };
    const Value ph = adjoint(b, p), dah = adjoint(b, da);
    const Value rows = b.subtract(dah, of_three(dah, a, p));
    const Value columns = b.subtract(dah, of_three(p, a, dah));
    const Value change =
        b.subtract(b.add(of_three(p, ph, rows), of_three(columns, ph, p)), of_three(p, da, p));
    return {Values{change}, Values{p}};
  }

 private:
  bool hermitian_;
};

int64_t pinv_rule(bool hermitian) {
  static const std::array<int64_t, 2> ids = {register_custom_rule(std::make_shared<PinvRule>(false)),
                                             register_custom_rule(std::make_shared<PinvRule>(true))};
  return ids[hermitian];
}

}  // namespace

Value pinv(Builder& b, const Value& a, const Value& rtol, bool hermitian) {
  if (!a || !rtol) return Value();
  if (a.rank() < 2) return b.fail(invalid("pinv needs matrices, not ", to_string(*a.type())));
  const int64_t batch = a.rank() - 2, before = batch - rtol.rank();
  bool fits = before >= 0;
  for (int64_t d = 0; fits && d < rtol.rank(); ++d)
    fits = rtol.dims()[d] == 1 || rtol.dims()[d] == a.dims()[before + d];
  if (!fits)
    return b.fail(invalid("pinv: a tolerance of type ", to_string(*rtol.type()),
                          " is not one for each matrix of ", to_string(*a.type())));
  const Type* types[] = {a.type(), rtol.type()};
  absl::StatusOr<ComputationPtr> body = record_region(types, [&](Builder& s, std::span<const Value> p) {
    return Values{pinv_by_values(s, p[0], p[1], hermitian)};
  });
  if (!body.ok()) return b.fail(body.status());
  return custom_call_with_rule(b, pinv_rule(hermitian), *body, {{a, rtol}})[0];
}

}  // namespace lamina::hlo::linalg
