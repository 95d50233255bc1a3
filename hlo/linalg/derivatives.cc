// Sources: M. Giles, "An extended collection of matrix derivative results" (2008), for solutions,
// determinants, inverses, eigenvalues and singular values; I. Murray, "Differentiation of the Cholesky
// decomposition" (2016); S. Walter and L. Lehmann, "Algorithmic differentiation of linear algebra functions"
// (2010), for QR.
//
// Where values coincide, vectors and their derivatives are not determined: the quotients by differences of
// values are infinite then, and what depends on them is NaN.
#include "hlo/linalg/derivatives.h"

#include "hlo/batching.h"
#include "hlo/linalg/calls.h"
#include "hlo/linalg/linalg.h"
#include "hlo/linalg/matrix.h"
#include "hlo/nodes.h"
#include "hlo/rules/support.h"

namespace lamina::hlo::linalg {
namespace {

using Ops = std::span<const Value>;

JvpResult tangents(std::initializer_list<Value> list) { return {Values(list), {}}; }

// x - y, either of which may be absent.
Value minus(Builder& b, const Value& x, const Value& y) {
  if (!y) return x;
  return x ? b.subtract(x, y) : b.negate(y);
}
Value maybe_product(Builder& b, const Value& x, const Value& y) {
  return x && y ? product(b, x, y) : Value();
}
// 1 / (v_j - v_i) off the diagonal, 0 on it.
Value inverse_differences(Builder& b, const Value& v, const Value& like) {
  const Value differences = b.subtract(along_columns(b, v, like), along_rows(b, v, like));
  const Value eye = eye_like(b, differences);
  if (!eye) return eye;
  return b.subtract(b.divide(b.full_like(eye, 1), b.add(differences, eye)), eye);
}
// x with x u = y for an upper triangular u.
Value right_upper_solve(Builder& b, const Value& u, const Value& y) {
  return transposed(b, call(b, "lamina.solve_lower", {{transposed(b, u), transposed(b, y)}})[0]);
}

std::string_view target(const Node& node) { return node.attrs().string(Attr::call_target_name); }

}  // namespace

JvpResult cholesky_jvp(Builder& b, const Node& node, Ops x, Ops t) {
  const Value l = result_of(b, node, x);
  const Value half = call(b, "lamina.solve_lower", {{l, hermitian(b, t[0])}})[0];
  const Value m = adjoint(b, call(b, "lamina.solve_lower", {{l, adjoint(b, half)}})[0]);
  if (!m) return tangents({m});
  const Value strict = lower_part(b, m, -1), on = b.multiply(m, eye_like(b, m));
  const Value phi = b.add(strict, b.multiply(on, b.full_like(on, 0.5)));
  return tangents({product(b, l, phi)});
}

JvpResult lu_jvp(Builder& b, const Node& node, Ops x, Ops t) {
  const Values out = results_of(b, node, x);
  const Value& packed = out[0];
  if (!packed) return tangents({Value(), Value(), Value()});
  const int64_t m = packed.dims()[packed.rank() - 2], n = packed.dims().back(), k = std::min(m, n);
  // The factors as square matrices, with ones where they have no element.
  auto padded = [&](const Value& v, int64_t size, bool of_rows) {
    Dims low(v.rank(), 0), high(v.rank(), 0);
    (of_rows ? high[v.rank() - 2] : high.back()) = size - k;
    return b.pad(v, b.scalar(v.dtype(), 0), low, high);
  };
  Value l = padded(lower_part(b, columns(b, packed, 0, k), -1), m, false);
  l = b.add(l, eye_like(b, l));
  Value u = padded(upper_part(b, rows(b, packed, 0, k)), n, true);
  if (!l || !u) return tangents({Value(), Value(), Value()});
  if (n > k) {
    const Value eye = eye_like(b, u);
    const Value beyond =
        b.compare(b.iota(DType::kS32, u.dims(), u.rank() - 1),
                  b.full(array_type_or_die(DType::kS32, u.dims()), static_cast<double>(k)), "GE");
    u = b.add(u, b.select(beyond, eye, b.zeros_like(eye)));
  }
  const Value left = call(b, "lamina.solve_unit_lower", {{l, take_rows(b, t[0], out[2])}})[0];
  const Value both = right_upper_solve(b, u, left);
  return tangents({b.add_any(product(b, l, lower_part(b, both, -1)), product(b, upper_part(b, both), u)),
                   Value(), Value()});
}

// The factors belong to a, so that the derivative by a is that of the solution.
JvpResult lu_solve_jvp(Builder& b, const Node& node, Ops x, Ops t) {
  const Value solution = result_of(b, node, x);
  const Value right = minus(b, t[3], maybe_product(b, t[0], solution));
  if (!right) return tangents({Value()});
  return tangents({call(b, "lamina.lu_solve", {{x[0], x[1], x[2], right}})[0]});
}
JvpResult lu_solve_transposed_jvp(Builder& b, const Node& node, Ops x, Ops t) {
  const Value solution = result_of(b, node, x);
  const Value right = minus(b, t[3], maybe_product(b, transposed(b, t[0]), solution));
  if (!right) return tangents({Value()});
  return tangents({call(b, "lamina.lu_solve_transposed", {{x[0], x[1], x[2], right}})[0]});
}
Values lu_solve_transpose(Builder& b, const Node&, Ops x, std::span<const bool>, Ops ct) {
  if (!ct[0]) return Values(4);
  return {Value(), Value(), Value(), call(b, "lamina.lu_solve_transposed", {{x[0], x[1], x[2], ct[0]}})[0]};
}
Values lu_solve_transposed_transpose(Builder& b, const Node&, Ops x, std::span<const bool>, Ops ct) {
  if (!ct[0]) return Values(4);
  return {Value(), Value(), Value(), call(b, "lamina.lu_solve", {{x[0], x[1], x[2], ct[0]}})[0]};
}

JvpResult det_jvp(Builder& b, const Node&, Ops x, Ops t) {
  if (!t[0]) return tangents({Value()});
  return tangents({trace(b, product(b, call(b, "lamina.adjugate", {{x[0]}})[0], t[0]))});
}

JvpResult slogdet_jvp(Builder& b, const Node& node, Ops x, Ops t) {
  if (!t[0]) return tangents({Value(), Value()});
  const Value change = trace(b, call(b, "lamina.lu_solve", {{x[0], x[1], x[2], t[0]}})[0]);
  if (!change || !is_complex(change.dtype())) return tangents({Value(), change});
  const Value turn = b.complex(b.zeros_like(b.real(change)), b.imag(change));
  return tangents({b.multiply(results_of(b, node, x)[0], turn), b.real(change)});
}

JvpResult adjugate_jvp(Builder& b, const Node& node, Ops x, Ops t) {
  const Value adj = result_of(b, node, x), first = product(b, adj, t[0]);
  const Value det = determinant(b, x[0]);
  if (!first || !det) return tangents({Value()});
  const Dims outer = all_dims(det.rank());
  const Value sum = b.broadcast_in_dim(trace(b, first), adj.dims(), outer);
  const Value rest = b.subtract(b.multiply(sum, adj), product(b, first, adj));
  return tangents({b.divide(rest, b.broadcast_in_dim(det, adj.dims(), outer))});
}

namespace {

// Tangents of Q with as many columns as R, and of that R.
std::pair<Value, Value> reduced_qr_tangents(Builder& b, const Value& q, const Value& r, const Value& t) {
  const Value dx = right_upper_solve(b, r, t);
  const Value c = product(b, adjoint(b, q), dx);
  const Value strict = lower_part(b, c, -1);
  Value turn = minus(b, strict, adjoint(b, strict));
  // R keeps a real diagonal.
  if (c && is_complex(c.dtype())) {
    const Value imaginary = b.complex(b.zeros_like(b.real(c)), b.imag(c));
    turn = b.add_any(turn, b.multiply(imaginary, eye_like(b, c)));
  }
  if (!turn) return {};
  return {b.add(product(b, q, b.subtract(turn, c)), dx), product(b, b.subtract(c, turn), r)};
}

// The tangent of the columns of Q that stand beside q. As a product of reflections Q = I - V T V^H, of which
// V (unit lower triangular above) and T V_1^H are the factors of E - q (E: the first columns of I; V_1,
// ..._1: the upper rows): the columns beside it are E_2 + (E - q) X with (I - q_1)^H X = q_2^H.
Value completed_tangent(Builder& b, const Value& q, const Value& dq) {
  const int64_t m = q.dims()[q.rank() - 2], n = q.dims().back();
  const Value distance = b.subtract(eye_like(b, q), q);
  const Value upper = adjoint(b, rows(b, distance, 0, n));
  const Value x = solve(b, upper, adjoint(b, rows(b, q, n, m)));
  const Value dx =
      solve(b, upper, b.add(adjoint(b, rows(b, dq, n, m)), product(b, adjoint(b, rows(b, dq, 0, n)), x)));
  return b.subtract(product(b, distance, dx), product(b, dq, x));
}

}  // namespace

JvpResult qr_jvp(Builder& b, const Node& node, Ops x, Ops t) {
  const Values out = results_of(b, node, x);
  const Value &q = out[0], &r = out[1];
  if (!q || !r) return tangents({Value(), Value()});
  const int64_t m = r.dims()[r.rank() - 2], n = r.dims().back();
  if (m == n) {
    const auto [dq, dr] = reduced_qr_tangents(b, q, r, t[0]);
    return tangents({dq, dr});
  }
  const Value first = columns(b, q, 0, n);
  const auto [dq, dr] = reduced_qr_tangents(b, first, rows(b, r, 0, n), t[0]);
  if (!dq || !dr) return tangents({Value(), Value()});
  return tangents({b.concatenate({{dq, completed_tangent(b, first, dq)}}, q.rank() - 1),
                   b.concatenate({{dr, b.zeros_like(rows(b, r, n, m))}}, r.rank() - 2)});
}

namespace {

// lamina.solve_[unit_](lower|upper).
struct Triangle {
  bool lower, unit;
};
Triangle triangle_of(const Node& node) {
  return {target(node).ends_with("lower"), target(node).find("unit") != std::string_view::npos};
}
Value triangle_call(Builder& b, Triangle t, const Value& a, const Value& y) {
  return call(b,
              t.unit    ? t.lower ? "lamina.solve_unit_lower" : "lamina.solve_unit_upper"
              : t.lower ? "lamina.solve_lower"
                        : "lamina.solve_upper",
              {{a, y}})[0];
}

}  // namespace

JvpResult triangular_jvp(Builder& b, const Node& node, Ops x, Ops t) {
  const Triangle kind = triangle_of(node);
  Value change;
  if (t[0]) {
    const Value part =
        kind.lower ? lower_part(b, t[0], kind.unit ? -1 : 0) : upper_part(b, t[0], kind.unit ? 1 : 0);
    change = product(b, part, result_of(b, node, x));
  }
  const Value right = minus(b, t[1], change);
  return tangents({right ? triangle_call(b, kind, x[0], right) : Value()});
}
Values triangular_transpose(Builder& b, const Node& node, Ops x, std::span<const bool>, Ops ct) {
  if (!ct[0]) return Values(2);
  const Triangle kind = triangle_of(node);
  return {Value(), triangle_call(b, {!kind.lower, kind.unit}, transposed(b, x[0]), ct[0])};
}

namespace {

// v^H h v for the Hermitian tangent h of a.
Value turned(Builder& b, const Value& v, const Value& t) {
  return product(b, adjoint(b, v), product(b, hermitian(b, t), v));
}

}  // namespace

JvpResult eigh_jvp(Builder& b, const Node& node, Ops x, Ops t) {
  const Values out = results_of(b, node, x);
  const Value c = turned(b, out[0], t[0]);
  if (!c) return tangents({Value(), Value()});
  const Value f = inverse_differences(b, out[1], c);
  return tangents(
      {product(b, out[0], b.multiply(as_type(b, f, c.dtype()), c)), real_part(b, diagonal(b, c))});
}

JvpResult eigvalsh_jvp(Builder& b, const Node&, Ops x, Ops t) {
  const Value v = call(b, "lamina.eigh", {{x[0]}})[0];
  return tangents({real_part(b, diagonal(b, turned(b, v, t[0])))});
}

JvpResult svd_jvp(Builder& b, const Node& node, Ops x, Ops t) {
  const JvpResult none = tangents({Value(), Value(), Value()});
  const Values out = results_of(b, node, x);
  const Value &s = out[0], &u = out[1], &vh = out[2];
  if (!s || !u || !vh) return none;
  const int64_t m = u.dims()[u.rank() - 2], n = vh.dims().back(), k = s.dims().back();
  if (u.dims().back() != k || vh.dims()[vh.rank() - 2] != k) {
    b.fail(
        absl::UnimplementedError("svd of matrices that are not square has no derivative with "
                                 "full_matrices=True: the added vectors are "
                                 "not determined; use full_matrices=False"));
    return none;
  }
  const DType type = u.dtype();
  const Value uh = adjoint(b, u), v = adjoint(b, vh);
  const Value ds = product(b, product(b, uh, t[0]), v);
  if (!ds) return none;
  const Value eye = eye_like(b, real_part(b, ds)), one = b.full_like(eye, 1);
  const Value in_columns = along_columns(b, s, eye), in_rows = along_rows(b, s, eye);
  const Value gaps = b.multiply(b.add(in_columns, in_rows), b.subtract(in_columns, in_rows));
  const Value f = as_type(b, b.subtract(b.divide(one, b.add(gaps, eye)), eye), type);
  const Value right = b.multiply(as_type(b, in_columns, type), ds);
  const Value left = b.multiply(as_type(b, in_rows, type), ds);
  // What is imaginary on the diagonal turns the left vectors.
  const Value zero = b.compare(in_columns, b.zeros_like(in_columns), "EQ");
  const Value safe = b.select(zero, one, in_columns);
  const Value inverses = b.multiply(b.select(zero, b.zeros_like(one), b.divide(one, safe)), eye);
  const Value skew = b.subtract(ds, adjoint(b, ds));
  const Value phase = b.multiply(b.multiply(skew, b.full_like(skew, 0.5)), as_type(b, inverses, type));
  Value du = product(b, u, b.add(b.multiply(f, b.add(right, adjoint(b, right))), phase));
  Value dv = product(b, v, b.multiply(f, b.add(left, adjoint(b, left))));
  // What leaves the span of the vectors.
  auto beyond = [&](const Value& a, const Value& base, const Value& other) {
    const Value reached = product(b, a, other);
    const Value rest = b.subtract(reached, product(b, base, product(b, adjoint(b, base), reached)));
    return b.divide(rest, as_type(b, along_columns(b, s, rest), type));
  };
  if (m > n) du = b.add_any(du, beyond(t[0], u, v));
  if (n > m) dv = b.add_any(dv, beyond(adjoint(b, t[0]), v, u));
  return tangents({real_part(b, diagonal(b, ds)), du, adjoint(b, dv)});
}

JvpResult svdvals_jvp(Builder& b, const Node&, Ops x, Ops t) {
  const Values out = call(b, "lamina.svd", {{x[0]}});
  return tangents(
      {real_part(b, diagonal(b, product(b, product(b, adjoint(b, out[1]), t[0]), adjoint(b, out[2]))))});
}

namespace {

// v^-1 a v.
Value in_basis(Builder& b, const Value& v, const Value& a) { return solve(b, v, product(b, a, v)); }

// Of the vectors v of a matrix whose tangent in their basis is c: they keep their length and the real largest
// entry.
Value vectors_tangent(Builder& b, const Value& values, const Value& v, const Value& c) {
  if (!c || !v) return Value();
  const Value free = product(b, v, b.multiply(inverse_differences(b, values, c), c));
  if (!free) return free;
  const int64_t last = v.rank() - 1;
  const Value along = b.multiply(conj(b, v), free);
  const Value growth = b.reduce_sum(b.real(along), Dims{last - 1});
  const Value sizes = b.add(b.multiply(b.real(v), b.real(v)), b.multiply(b.imag(v), b.imag(v)));
  const Value most = b.reduce(sizes, Op::maximum, b.scalar(sizes.dtype(), 0), Dims{last - 1});
  const Value at = b.iota(DType::kS32, v.dims(), last - 1);
  const Value far = b.full_like(at, static_cast<double>(v.dims()[last]));
  const Value candidates = b.select(b.compare(sizes, along_columns(b, most, sizes), "EQ"), at, far);
  const Value first = b.reduce(candidates, Op::minimum, b.scalar_int(DType::kS32, INT32_MAX), Dims{last - 1});
  const Value lead = b.compare(at, along_columns(b, first, at), "EQ");
  auto led = [&](const Value& part) {
    return b.reduce_sum(b.select(lead, part, b.zeros_like(part)), Dims{last - 1});
  };
  const Value turn = b.divide(led(b.imag(free)), led(b.real(v)));
  const Value change = b.complex(along_columns(b, growth, sizes), along_columns(b, turn, sizes));
  return b.subtract(free, b.multiply(v, change));
}

}  // namespace

JvpResult eig_jvp(Builder& b, const Node& node, Ops x, Ops t) {
  const Values out = results_of(b, node, x);
  if (!out[0]) return tangents({Value(), Value(), Value()});
  const Value da = as_type(b, t[0], out[0].dtype());
  const Value right = in_basis(b, out[2], da), left = in_basis(b, out[1], adjoint(b, da));
  return tangents({diagonal(b, right), vectors_tangent(b, conj(b, out[0]), out[1], left),
                   vectors_tangent(b, out[0], out[2], right)});
}

JvpResult eigvals_jvp(Builder& b, const Node&, Ops x, Ops t) {
  const Values out = call(b, "lamina.eig", {{x[0]}});
  if (!out[0]) return tangents({Value()});
  return tangents({diagonal(b, in_basis(b, out[2], as_type(b, t[0], out[0].dtype())))});
}

JvpResult sylvester_jvp(Builder& b, const Node& node, Ops x, Ops t) {
  const Value solution = result_of(b, node, x);
  const Value right =
      minus(b, minus(b, t[2], maybe_product(b, t[0], solution)), maybe_product(b, solution, t[1]));
  return tangents({right ? call(b, "lamina.sylvester", {{x[0], x[1], right}})[0] : Value()});
}
Values sylvester_transpose(Builder& b, const Node&, Ops x, std::span<const bool>, Ops ct) {
  if (!ct[0]) return Values(3);
  return {Value(), Value(),
          call(b, "lamina.sylvester", {{transposed(b, x[0]), transposed(b, x[1]), ct[0]}})[0]};
}

JvpResult sqrtm_jvp(Builder& b, const Node& node, Ops x, Ops t) {
  const Value root = result_of(b, node, x);
  if (!root) return tangents({root});
  return tangents({call(b, "lamina.sylvester", {{root, root, as_type(b, t[0], root.dtype())}})[0]});
}

}  // namespace lamina::hlo::linalg
