// Factorizations of matrices as scans over their rows or columns: ops that every writer knows, where the
// routines of hlo/linalg are calls of this library only.
#include "hlo/linalg/matrix.h"
#include "hlo/rules/support.h"
#include "hlo/stablehlo/compose.h"

namespace lamina::hlo::stablehlo {
namespace {

using linalg::as_type;
using linalg::conj;
using linalg::real_part;
using ComposedStep = std::function<Values(Builder& b, const Value& k, std::span<const Value> parameters)>;

// Batches as one dimension in front, and back.
struct Batched {
  Value x;
  Dims outer;
};
Batched flatten(Builder& b, const Value& x) {
  if (!x) return {};
  if (x.rank() < 2) {
    b.fail(invalid("needs matrices, not ", to_string(*x.type())));
    return {};
  }
  if (!is_inexact(x.dtype()) || is_storage_float(x.dtype())) {
    b.fail(invalid("needs elements of type f32, f64, c64 or c128, not ", info(x.dtype()).name));
    return {};
  }
  const Dims outer(x.dims().begin(), x.dims().end() - 2);
  const int64_t rank = x.rank();
  return {b.reshape(x, Dims{product(outer), x.dims()[rank - 2], x.dims()[rank - 1]}), outer};
}
// From [batch, ...] to the batches' own dimensions.
Value unflatten(Builder& b, const Value& x, const Dims& outer) {
  if (!x) return x;
  Dims dims = outer;
  dims.insert(dims.end(), x.dims().begin() + 1, x.dims().end());
  return b.reshape(x, dims);
}

// A scan over k = 0 ... length-1 with carries and scanned arrays; `step` gets k, carries and slices.
Values scan(Builder& b, std::span<const Value> carries, std::span<const Value> xs, int64_t length,
            bool reverse, const ComposedStep& step) {
  std::vector<const Type*> types;
  for (const Value& c : carries) {
    if (!c) return Values(8);
    types.push_back(c.type());
  }
  types.push_back(scalar_type(DType::kS32));
  for (const Value& x : xs) {
    if (!x) return Values(8);
    types.push_back(array_type_or_die(x.dtype(), std::span(x.dims()).subspan(1)));
  }
  absl::StatusOr<ComputationPtr> body = record_region(types, [&](Builder& inner, std::span<const Value> p) {
    Values parameters(p.begin(), p.begin() + static_cast<int64_t>(carries.size()));
    parameters.insert(parameters.end(), p.begin() + static_cast<int64_t>(carries.size()) + 1, p.end());
    return step(inner, p[carries.size()], parameters);
  });
  if (!body.ok()) {
    b.fail(body.status());
    return Values(8);
  }
  Values scanned{b.iota(DType::kS32, Dims{length}, 0)};
  scanned.insert(scanned.end(), xs.begin(), xs.end());
  return b.scan(*body, carries, scanned, length, reverse);
}

Value index(Builder& b, const Value& like, int64_t d) {
  return like ? b.iota(DType::kS32, like.dims(), d) : Value();
}
Value spread(Builder& b, const Value& scalar, const Value& like) {
  return like ? b.broadcast_scalar(scalar, like.dims()) : Value();
}
Value s32(Builder& b, int64_t value) { return b.scalar_int(DType::kS32, value); }
Value magnitude(Builder& b, const Value& x) {
  return x && is_complex(x.dtype()) ? b.add(b.abs(b.real(x)), b.abs(b.imag(x))) : b.abs(x);
}

// Row or column k of [batch, rows, columns], with its dimension kept.
Value row(Builder& b, const Value& x, const Value& k) {
  if (!x) return x;
  return b.dynamic_slice(x, {{s32(b, 0), k, s32(b, 0)}}, Dims{x.dims()[0], 1, x.dims()[2]});
}
Value column(Builder& b, const Value& x, const Value& k) {
  if (!x) return x;
  return b.dynamic_slice(x, {{s32(b, 0), s32(b, 0), k}}, Dims{x.dims()[0], x.dims()[1], 1});
}
// [batch, 1 or rows, 1 or columns] spread over [batch, rows, columns].
Value over(Builder& b, const Value& x, const Value& like) {
  return like ? b.broadcast_in_dim(x, like.dims(), Dims{0, 1, 2}) : Value();
}
// The first `n` columns as [n, batch, rows], to be scanned, and one of them as [batch, rows, 1].
Value columns(Builder& b, const Value& x, int64_t n) {
  if (!x) return x;
  const Value first = b.slice(x, Dims{0, 0, 0}, Dims{x.dims()[0], x.dims()[1], n});
  return b.transpose(first, Dims{2, 0, 1});
}
Value standing(Builder& b, const Value& x) { return x ? b.reshape(x, Dims{x.dims()[0], x.dims()[1], 1}) : x; }
// conj(v)^T a for v [batch, rows, 1]: [batch, 1, columns].
Value projected(Builder& b, const Value& v, const Value& a) {
  return b.dot_general(conj(b, v), a, {{0}, {0}, {1}, {1}});
}

}  // namespace

Value compose_triangular_solve(Builder& b, const Value& matrix, const Value& right, bool left, bool lower,
                               bool unit, Transpose op) {
  const Batched a = flatten(b, matrix), y = flatten(b, right);
  if (!a.x || !y.x) return Value();
  const int64_t n = a.x.dims()[1];
  if (a.outer != y.outer || a.x.dims()[2] != n || y.x.dims()[left ? 1 : 2] != n || a.x.dtype() != y.x.dtype())
    return b.fail(invalid("the shapes ", to_string(*matrix.type()), " and ", to_string(*right.type()),
                          " do not fit each other"));
  // x a = y is a^T x^T = y^T.
  Value m = op == Transpose::kAdjoint ? conj(b, a.x) : a.x;
  Value rhs = y.x;
  if (!left) rhs = b.transpose(rhs, Dims{0, 2, 1});
  if ((op != Transpose::kNo) == left) {
    m = b.transpose(m, Dims{0, 2, 1});
    lower = !lower;
  }
  // Rows one after the other: those that are not solved yet are zero.
  const Values solved =
      scan(b, {{b.zeros_like(rhs)}}, {{b.transpose(m, Dims{1, 0, 2}), b.transpose(rhs, Dims{1, 0, 2})}}, n,
           !lower, [&](Builder& s, const Value& k, std::span<const Value> p) {
             const Value &x = p[0], &coefficients = p[1], &target = p[2];
             const Value used =
                 s.compare(index(s, coefficients, 1), spread(s, k, coefficients), lower ? "LT" : "GT");
             const Value others = s.select(used, coefficients, s.zeros_like(coefficients));
             Value rest = s.subtract(target, s.dot_general(others, x, {{0}, {0}, {1}, {1}}));
             if (!unit && rest) {
               const Value pivot =
                   s.dynamic_slice(coefficients, {{s32(s, 0), k}}, Dims{coefficients.dims()[0], 1});
               rest = s.divide(rest, s.broadcast_in_dim(pivot, rest.dims(), Dims{0, 1}));
             }
             if (!rest) return Values{rest};
             const Value line = s.reshape(rest, Dims{rest.dims()[0], 1, rest.dims()[1]});
             return Values{s.dynamic_update_slice(x, line, {{s32(s, 0), k, s32(s, 0)}})};
           });
  return unflatten(b, left ? solved[0] : b.transpose(solved[0], Dims{0, 2, 1}), y.outer);
}

Value compose_cholesky(Builder& b, const Value& matrix) {
  const Batched a = flatten(b, matrix);
  if (!a.x) return Value();
  const int64_t n = a.x.dims()[1];
  if (a.x.dims()[2] != n) return b.fail(invalid("needs square matrices, not ", to_string(*matrix.type())));
  const Values out =
      scan(b, {{b.zeros_like(a.x)}}, {{columns(b, a.x, n)}}, n, false,
           [&](Builder& s, const Value& k, std::span<const Value> p) {
             const Value& l = p[0];
             // Column k without what the columns before it make.
             const Value before = s.transpose(conj(s, row(s, l, k)), Dims{0, 2, 1});
             const Value v = s.subtract(standing(s, p[1]), s.dot_general(l, before, {{0}, {0}, {2}, {1}}));
             if (!v) return Values{v};
             const Value root = as_type(s, s.sqrt(real_part(s, row(s, v, k))), v.dtype());
             const Value at = index(s, v, 1), here = spread(s, k, v), wide = over(s, root, v);
             const Value scaled = s.select(s.compare(at, here, "EQ"), wide, s.divide(v, wide));
             const Value kept = s.select(s.compare(at, here, "GE"), scaled, s.zeros_like(v));
             return Values{s.dynamic_update_slice(l, kept, {{s32(s, 0), s32(s, 0), k}})};
           });
  return unflatten(b, out[0], a.outer);
}

Lu compose_lu(Builder& b, const Value& matrix) {
  const Batched a = flatten(b, matrix);
  if (!a.x) return {};
  const int64_t count = a.x.dims()[0], m = a.x.dims()[1], n = a.x.dims()[2], steps = std::min(m, n);
  const DType part = part_type(a.x.dtype());
  const Type *value = scalar_type(part), *place = scalar_type(DType::kS32);
  // The greater magnitude, the earlier place among equal ones.
  absl::StatusOr<ComputationPtr> greater =
      record_region({{value, place, value, place}}, [](Builder& s, std::span<const Value> p) {
        const Value first = s.or_(s.compare(p[0], p[2], "GT"),
                                  s.and_(s.compare(p[0], p[2], "EQ"), s.compare(p[1], p[3], "LT")));
        return Values{s.select(first, p[0], p[2]), s.select(first, p[1], p[3])};
      });
  if (!greater.ok()) {
    b.fail(greater.status());
    return {};
  }
  constexpr int64_t kNone = std::numeric_limits<int32_t>::max();
  const Values out =
      scan(b, {{a.x}}, {}, steps, false, [&](Builder& s, const Value& k, std::span<const Value> p) {
        const Value& x = p[0];
        const Value sizes = s.reshape(magnitude(s, column(s, x, k)), Dims{count, m});
        const Value at = index(s, sizes, 1), here = spread(s, k, sizes);
        const Value candidates = s.select(s.compare(at, here, "GE"), sizes, s.full_like(sizes, -1));
        const Value best =
            s.reduce({{candidates, at}}, {{s.scalar(part, -2), s32(s, kNone)}}, *greater, Dims{1})[1];
        // A column of NaN compares with nothing: no row is chosen, so this one stays.
        const Value none = s.compare(best, s.broadcast_scalar(s32(s, kNone), Dims{count}), "EQ");
        const Value pivot_row = s.select(none, s.broadcast_scalar(k, Dims{count}), best);
        const Value chosen = s.broadcast_in_dim(pivot_row, Dims{count, m}, Dims{0});
        const Value order =
            s.select(s.compare(at, here, "EQ"), chosen, s.select(s.compare(at, chosen, "EQ"), here, at));
        const Value swapped = linalg::take_rows(s, x, order);
        const Value line = column(s, swapped, k), pivot = row(s, line, k);
        if (!pivot) return Values(3);
        const Value zero = s.compare(pivot, s.zeros_like(pivot), "EQ");
        const Value factor = s.select(over(s, zero, line), line, s.divide(line, over(s, pivot, line)));
        const Value wide = over(s, factor, swapped);
        const Value rest = s.subtract(swapped, s.multiply(wide, over(s, row(s, swapped, k), swapped)));
        const Value below = s.compare(index(s, swapped, 1), spread(s, k, swapped), "GT");
        const Value behind = s.compare(index(s, swapped, 2), spread(s, k, swapped), "GT");
        const Value in_column = s.compare(index(s, swapped, 2), spread(s, k, swapped), "EQ");
        const Value next =
            s.select(s.and_(below, behind), rest, s.select(s.and_(below, in_column), wide, swapped));
        const Value one = s.add(k, s32(s, 1));
        const Value singular = s.select(s.reshape(zero, Dims{count}), s.broadcast_scalar(one, Dims{count}),
                                        s.broadcast_scalar(s32(s, kNone), Dims{count}));
        return Values{next, s.add(pivot_row, s.broadcast_scalar(s32(s, 1), Dims{count})), singular};
      });
  if (!b.ok()) return {};
  const Value first = b.reduce(out[2], Op::minimum, s32(b, kNone), Dims{0});
  const Value regular = b.compare(first, b.full_like(first, kNone), "EQ");
  Dims pivots = a.outer;
  pivots.push_back(steps);
  return {unflatten(b, out[0], a.outer), b.reshape(b.transpose(out[1], Dims{1, 0}), pivots),
          b.reshape(b.select(regular, b.zeros_like(first), first), a.outer)};
}

Reflections compose_qr(Builder& b, const Value& matrix) {
  const Batched a = flatten(b, matrix);
  if (!a.x) return {};
  const int64_t count = a.x.dims()[0], steps = std::min(a.x.dims()[1], a.x.dims()[2]);
  const DType t = a.x.dtype();
  const Values out =
      scan(b, {{a.x}}, {}, steps, false, [&](Builder& s, const Value& k, std::span<const Value> p) {
        const Value& x = p[0];
        const Value line = column(s, x, k), alpha = row(s, line, k);
        if (!alpha) return Values(2);
        const Value at = index(s, line, 1), here = spread(s, k, line);
        const Value below = s.compare(at, here, "GT"), diagonal = s.compare(at, here, "EQ");
        const Value tail = s.select(below, line, s.zeros_like(line));
        const Value squares = real_part(s, s.multiply(tail, conj(s, tail)));
        const Value sum = s.reshape(s.reduce_sum(squares, Dims{1}), Dims{count, 1, 1});
        const Value re = real_part(s, alpha);
        const Value im = is_complex(t) ? s.imag(alpha) : s.zeros_like(re);
        const Value norm = s.sqrt(s.add(s.add(s.multiply(re, re), s.multiply(im, im)), sum));
        const Value zero = s.zeros_like(re);
        const Value done = s.and_(s.compare(sum, zero, "EQ"), s.compare(im, zero, "EQ"));
        const Value beta = s.select(s.compare(re, zero, "LT"), norm, s.negate(norm));
        const Value one = s.full_like(re, 1), divisor = s.select(done, one, beta);
        const Value scale_re = s.select(done, zero, s.divide(s.subtract(beta, re), divisor));
        const Value scale = is_complex(t)
                                ? s.complex(scale_re, s.select(done, zero, s.negate(s.divide(im, divisor))))
                                : scale_re;
        const Value lead = s.select(done, s.full_like(alpha, 1), s.subtract(alpha, as_type(s, beta, t)));
        const Value v = s.select(diagonal, s.full_like(line, 1), s.divide(tail, over(s, lead, line)));
        const Value weight = s.multiply(over(s, conj(s, scale), v), v);
        const Value update = s.subtract(x, s.multiply(over(s, weight, x), over(s, projected(s, v, x), x)));
        const Value corner = s.select(done, alpha, as_type(s, beta, t));
        const Value stored = s.select(diagonal, over(s, corner, line), s.select(below, v, line));
        const Value column_at = index(s, x, 2), column_here = spread(s, k, x);
        const Value next = s.select(s.compare(column_at, column_here, "GT"), update,
                                    s.select(s.compare(column_at, column_here, "EQ"), over(s, stored, x), x));
        return Values{next, s.reshape(scale, Dims{count})};
      });
  if (!b.ok()) return {};
  Dims scales = a.outer;
  scales.push_back(steps);
  return {unflatten(b, out[0], a.outer), b.reshape(b.transpose(out[1], Dims{1, 0}), scales)};
}

Value compose_householder_product(Builder& b, const Reflections& r) {
  const Batched a = flatten(b, r.packed);
  if (!a.x || !r.scales) return Value();
  const int64_t count = a.x.dims()[0], n = r.scales.dims().empty() ? 0 : r.scales.dims().back();
  if (n > std::min(a.x.dims()[1], a.x.dims()[2]) || r.scales.type()->num_elements != count * n ||
      r.scales.dtype() != a.x.dtype())
    return b.fail(invalid(to_string(*r.scales.type()), " are no scales for ", to_string(*r.packed.type())));
  const Value eye = b.convert(b.compare(index(b, a.x, 1), index(b, a.x, 2), "EQ"), a.x.dtype());
  const Value scales = b.transpose(b.reshape(r.scales, Dims{count, n}), Dims{1, 0});
  const Values out =
      scan(b, {{eye}}, {{scales, columns(b, a.x, n)}}, n, true,
           [&](Builder& s, const Value& k, std::span<const Value> p) {
             const Value &q = p[0], line = standing(s, p[2]);
             if (!line) return Values(1);
             const Value at = index(s, line, 1), here = spread(s, k, line);
             const Value v = s.select(s.compare(at, here, "EQ"), s.full_like(line, 1),
                                      s.select(s.compare(at, here, "GT"), line, s.zeros_like(line)));
             const Value weight = s.multiply(s.broadcast_in_dim(p[1], v.dims(), Dims{0}), v);
             return Values{s.subtract(q, s.multiply(over(s, weight, q), over(s, projected(s, v, q), q)))};
           });
  return unflatten(b, out[0], a.outer);
}

}  // namespace lamina::hlo::stablehlo
