#include "hlo/linalg/linalg.h"

#include <algorithm>

#include "hlo/linalg/calls.h"
#include "hlo/linalg/matrix.h"
#include "hlo/rules/support.h"

namespace lamina::hlo::linalg {
namespace {

// Whether x holds square matrices; an error otherwise.
bool is_square(Builder& b, std::string_view what, const Value& x) {
  if (!x) return false;
  if (x.rank() >= 2 && x.dims()[x.rank() - 2] == x.dims().back()) return true;
  b.fail(invalid(what, " needs square matrices, not ", to_string(*x.type())));
  return false;
}
bool fit(Builder& b, std::string_view what, const Value& a, const Value& y) {
  if (!y) return false;
  if (y.rank() == a.rank() && y.dtype() == a.dtype() && y.dims()[y.rank() - 2] == a.dims().back() &&
      std::equal(a.dims().begin(), a.dims().end() - 2, y.dims().begin()))
    return true;
  b.fail(invalid(what, ": ", to_string(*a.type()), " and ", to_string(*y.type()), " do not fit each other"));
  return false;
}
bool is_float(Builder& b, std::string_view what, const Value& x) {
  if (is_inexact(x.dtype()) && !is_storage_float(x.dtype())) return true;
  b.fail(invalid(what, " needs elements of type f32, f64, c64 or c128, not ", info(x.dtype()).name));
  return false;
}
bool small(const Value& x) { return is_small(x.dims().back()); }

// The factors of a, through which no derivative goes: the routines that take them have that by a.
Lu constant_factors(Builder& b, const Value& a) { return lu(b, b.stop_gradient(a)); }

}  // namespace

Value cholesky(Builder& b, const Value& a) {
  if (!is_square(b, "cholesky", a) || !is_float(b, "cholesky", a)) return Value();
  return small(a) ? small_cholesky(b, a) : call(b, "lamina.cholesky", {{a}})[0];
}

Value triangular_solve(Builder& b, const Value& a, const Value& y, bool left, bool lower, bool unit,
                       Transpose op) {
  if (!is_square(b, "triangular_solve", a) || !y || !is_float(b, "triangular_solve", a)) return Value();
  if (!left) {
    // x op(a) = y is op(a)^T x^T = y^T.
    const Value turned = op == Transpose::kAdjoint ? conj(b, a) : a;
    const Transpose other = op == Transpose::kNo ? Transpose::kTranspose : Transpose::kNo;
    return transposed(b, triangular_solve(b, turned, transposed(b, y), true, lower, unit, other));
  }
  if (!fit(b, "triangular_solve", a, y)) return Value();
  Value m = op == Transpose::kAdjoint ? conj(b, a) : a;
  if (op != Transpose::kNo) {
    m = transposed(b, m);
    lower = !lower;
  }
  if (!m) return m;
  if (small(m)) return small_triangular_solve(b, m, y, lower, unit);
  return call(b,
              unit    ? lower ? "lamina.solve_unit_lower" : "lamina.solve_unit_upper"
              : lower ? "lamina.solve_lower"
                      : "lamina.solve_upper",
              {{m, y}})[0];
}

Lu lu(Builder& b, const Value& a) {
  const Values out = call(b, "lamina.lu", {{a}});
  return {out[0], out[1], out[2]};
}

Value solve(Builder& b, const Value& a, const Value& y) {
  if (!is_square(b, "solve", a) || !is_float(b, "solve", a) || !fit(b, "solve", a, y)) return Value();
  if (small(a)) return small_solve(b, a, y);
  const Lu f = constant_factors(b, a);
  return call(b, "lamina.lu_solve", {{a, f.packed, f.order, y}})[0];
}

Value inverse(Builder& b, const Value& a) {
  if (!is_square(b, "inv", a)) return Value();
  return solve(b, a, eye_like(b, a));
}

Value determinant(Builder& b, const Value& a) {
  if (!is_square(b, "det", a) || !is_float(b, "det", a)) return Value();
  if (small(a)) return small_determinant(b, a);
  const Lu f = constant_factors(b, a);
  return call(b, "lamina.det", {{a, f.packed, f.order}})[0];
}

SignAndLog log_determinant(Builder& b, const Value& a) {
  if (!is_square(b, "slogdet", a) || !is_float(b, "slogdet", a)) return {};
  if (small(a)) return small_log_determinant(b, a);
  const Lu f = constant_factors(b, a);
  const Values out = call(b, "lamina.slogdet", {{a, f.packed, f.order}});
  return {out[0], out[1]};
}

Qr qr(Builder& b, const Value& a, bool full) {
  if (!a) return {};
  if (a.rank() < 2) {
    b.fail(invalid("qr needs matrices, not ", to_string(*a.type())));
    return {};
  }
  const int64_t m = a.dims()[a.rank() - 2], n = a.dims().back();
  if (m < n && m > 0) {
    // The first columns determine Q (Walter and Lehmann, section 3.3).
    const Values square = call(b, "lamina.qr", {{columns(b, a, 0, m)}});
    const Value rest = product(b, adjoint(b, square[0]), columns(b, a, m, n));
    return {square[0], b.concatenate({{square[1], rest}}, a.rank() - 1)};
  }
  const Values out = call(b, "lamina.qr", {{a}}, full);
  return {out[0], out[1]};
}

}  // namespace lamina::hlo::linalg
