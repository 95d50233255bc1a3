// Derivatives, transposes and batching of the elementwise ops.
//
// At points without a derivative the rules follow JAX: a complex abs and sign have 0 at 0, maximum and
// minimum share a tie half and half, clamp passes the tangent strictly inside its bounds only, sqrt is
// infinite at 0, and power is 0 where the formula would be 0 times infinity (exponent 0, or base 0 in the
// derivative by the exponent). Ops without a row (rounding, comparisons, bit operations, next_after) have no
// tangent. Every rule is linear in the tangent and made of ops that have a transpose, so reverse mode needs
// no rules of its own.
#include <array>
#include <cmath>
#include <limits>
#include <numbers>

#include "hlo/once.h"
#include "trace/rules/support.h"

namespace lamina::trace {
namespace {

// One term of a derivative: operands x, tangent t of one of them.
struct At {
  Builder& b;
  const Node& node;
  std::span<const Value> x;
  const Value& t;

  Value y() const { return result_of(b, node, x); }
  Value full(double v) const { return b.full_like(x[0], v); }
  Value scale(const Value& v, double factor) const { return b.multiply(v, b.full_like(v, factor)); }
  Value square(const Value& v) const { return b.multiply(v, v); }
  Value times(const Value& factor) const { return b.multiply(t, factor); }
  Value over(const Value& divisor) const { return b.divide(t, divisor); }
  Value one_minus_square() const { return b.subtract(full(1), square(x[0])); }
  // v where it is not zero, else 1.
  Value nonzero(const Value& v) const {
    return b.select(b.compare(v, b.zeros_like(v), "EQ"), b.full_like(v, 1), v);
  }
  // The tangent where `pred`, else 0.
  Value where(const Value& pred) const { return b.select(pred, t, b.zeros_like(t)); }
};

// The derivative of digamma: recurrence up to 12, then the asymptotic series; reflected below 1/2. As a graph
// of elementwise ops it has derivatives of every order itself.
Value trigamma(Builder& b, const Value& x) {
  auto full = [&](double v) { return b.full_like(x, v); };
  const Value low = b.compare(x, full(0.5), "LT");
  const Value z = b.select(low, b.subtract(full(1), x), x);
  constexpr int kShift = 12;
  Value sum = full(0);
  for (int k = kShift; k-- > 0;) {
    const Value s = b.divide(full(1), b.add(z, full(k)));
    sum = b.add(sum, b.multiply(s, s));
  }
  const Value r = b.divide(full(1), b.add(z, full(kShift))), r2 = b.multiply(r, r);
  // Bernoulli numbers B14 ... B2.
  Value series = full(7.0 / 6);
  for (double c : {-691.0 / 2730, 5.0 / 66, -1.0 / 30, 1.0 / 42, -1.0 / 30, 1.0 / 6})
    series = b.add(full(c), b.multiply(r2, series));
  series = b.add(b.add(r, b.multiply(full(0.5), r2)), b.multiply(b.multiply(r, r2), series));
  const Value positive = b.add(sum, series);
  // From the nearest integer, which is a pole: the product with pi would miss its zero.
  const Value apart = b.select(low, b.subtract(x, b.floor(b.add(x, full(0.5)))), full(0.25));
  const Value s = b.sine(b.multiply(full(std::numbers::pi), apart));
  const Value reflected = b.divide(full(std::numbers::pi * std::numbers::pi), b.multiply(s, s));
  return b.select(low, b.subtract(reflected, positive), positive);
}

Value abs_term(const At& d) {
  const Value& x = d.x[0];
  // At 0 the derivative is that from above, as in JAX.
  if (!is_complex(x.dtype())) return d.times(d.nonzero(d.b.sign(x)));
  const Value size = d.nonzero(d.y());
  const Value direction =
      d.b.complex(d.b.divide(d.b.real(x), size), d.b.negate(d.b.divide(d.b.imag(x), size)));
  return d.b.real(d.times(direction));
}

// z / |z| turns with the part of the tangent that is across z: i s Im(conj(s) t) / |z|. A real sign stays,
// and so does that of 0.
Value sign_term(const At& d) {
  const Value& x = d.x[0];
  if (!is_complex(x.dtype())) return Value();
  const Value s = d.y(), re = d.b.real(s), im = d.b.imag(s);
  const Value across = d.b.imag(d.times(d.b.complex(re, d.b.negate(im))));
  const Value angle = d.b.divide(across, d.nonzero(d.b.abs(x)));
  return d.b.complex(d.b.negate(d.b.multiply(im, angle)), d.b.multiply(re, angle));
}

// maximum and minimum: the operand that is the result gets the tangent, a tie shares it.
template <int kSelf>
Value extremum_term(const At& d) {
  const Value z = d.y();
  const Value tie = d.b.compare(d.x[1 - kSelf], z, "EQ");
  const Value share = d.b.select(tie, d.full(0.5), d.full(1));
  return d.b.select(d.b.compare(d.x[kSelf], z, "EQ"), d.times(share), d.b.zeros_like(d.t));
}

// y x^(y-1), and 0 for 0^0. Only there is anything put in its place: elsewhere the term is to be
// differentiated by the exponent too, at 0 and 1 as well.
Value power_base_term(const At& d) {
  const Value &x = d.x[0], &y = d.x[1], zero = d.b.zeros_like(x);
  const Value none = d.b.and_(d.b.compare(x, zero, "EQ"), d.b.compare(y, zero, "EQ"));
  const Value slope = d.b.multiply(y, d.b.power(d.b.select(none, d.full(1), x), d.b.subtract(y, d.full(1))));
  return d.times(d.b.select(none, zero, slope));
}

// One coordinate over the squared distance, of both scaled by the larger one so that no square overflows or
// vanishes. The quotient does not depend on the scale, so neither do its derivatives.
Value atan2_slope(const At& d, int coordinate) {
  if (is_complex(d.x[0].dtype()))
    return d.b.divide(d.x[coordinate], d.b.add(d.square(d.x[0]), d.square(d.x[1])));
  const Value larger = d.nonzero(d.b.maximum(d.b.abs(d.x[0]), d.b.abs(d.x[1])));
  const Value infinite = d.b.compare(larger, d.full(std::numeric_limits<double>::infinity()), "EQ");
  const Value scale = d.b.stop_gradient(d.b.select(infinite, d.full(1), larger));
  const Value u = d.b.divide(d.x[0], scale), v = d.b.divide(d.x[1], scale);
  return d.b.divide(d.b.divide(coordinate ? v : u, d.b.add(d.square(u), d.square(v))), scale);
}

// x and 1 over the larger of |x| and 1, and that one: so scaled, no square overflows. What the slopes below
// make of them does not depend on the scale, so neither do their derivatives.
struct BesideOne {
  Value x, one, scale;
};
BesideOne beside_one(const At& d) {
  const Value larger = d.b.maximum(d.b.abs(d.x[0]), d.full(1));
  const Value infinite = d.b.compare(larger, d.full(std::numeric_limits<double>::infinity()), "EQ");
  const Value scale = d.b.stop_gradient(d.b.select(infinite, d.full(1), larger));
  return {d.b.divide(d.x[0], scale), d.b.divide(d.full(1), scale), scale};
}

Value asinh_term(const At& d) {
  if (is_complex(d.x[0].dtype())) return d.times(d.b.rsqrt(d.b.add(d.square(d.x[0]), d.full(1))));
  const BesideOne s = beside_one(d);
  return d.times(d.b.divide(d.b.rsqrt(d.b.add(d.square(s.x), d.square(s.one))), s.scale));
}

// Where 1 + x^2 leaves the type the slope is 0, but in float16.
Value atan_term(const At& d) {
  if (d.x[0].dtype() != hlo::DType::kF16) return d.over(d.b.add(d.full(1), d.square(d.x[0])));
  const BesideOne s = beside_one(d);
  const Value part = d.b.divide(s.one, d.b.add(d.square(s.x), d.square(s.one)));
  return d.times(d.b.divide(part, s.scale));
}

Value convert_term(const At& d) { return d.b.convert(d.t, d.node.type()->dtype); }

using Term = Value (*)(const At&);
struct Row {
  Op op;
  int operand;
  Term term;
};

// The derivative by each operand, applied to its tangent.
const Row kTerms[] = {
    {Op::abs, 0, abs_term},
    {Op::acos, 0, [](const At& d) { return d.b.negate(d.times(d.b.rsqrt(d.one_minus_square()))); }},
    {Op::acosh, 0,
     [](const At& d) {
       // Two roots: that of the product lies on the other branch where re(x) < 0.
       return d.times(
           d.b.multiply(d.b.rsqrt(d.b.subtract(d.x[0], d.full(1))), d.b.rsqrt(d.b.add(d.x[0], d.full(1)))));
     }},
    {Op::asin, 0, [](const At& d) { return d.times(d.b.rsqrt(d.one_minus_square())); }},
    {Op::asinh, 0, asinh_term},
    {Op::atan, 0, atan_term},
    {Op::atanh, 0,
     [](const At& d) {
       return d.over(d.b.multiply(d.b.add(d.full(1), d.x[0]), d.b.subtract(d.full(1), d.x[0])));
     }},
    {Op::cbrt, 0,
     [](const At& d) {
       // Of the reciprocal, whose own derivatives at 0 are infinite and not NaN.
       return d.times(d.scale(d.square(d.b.divide(d.full(1), d.y())), 1.0 / 3));
     }},
    {Op::convert, 0, convert_term},
    {Op::cosh, 0, [](const At& d) { return d.times(d.b.sinh(d.x[0])); }},
    {Op::cosine, 0, [](const At& d) { return d.b.negate(d.times(d.b.sine(d.x[0]))); }},
    {Op::digamma, 0, [](const At& d) { return d.times(trigamma(d.b, d.x[0])); }},
    {Op::erf, 0,
     [](const At& d) {
       return d.times(
           d.scale(d.b.exponential(d.b.negate(d.square(d.x[0]))), 2 / std::sqrt(std::numbers::pi)));
     }},
    {Op::erf_inv, 0,
     [](const At& d) {
       return d.times(d.scale(d.b.exponential(d.square(d.y())), std::sqrt(std::numbers::pi) / 2));
     }},
    {Op::erfc, 0,
     [](const At& d) {
       return d.times(
           d.scale(d.b.exponential(d.b.negate(d.square(d.x[0]))), -2 / std::sqrt(std::numbers::pi)));
     }},
    {Op::exponential, 0, [](const At& d) { return d.times(d.y()); }},
    {Op::exponential_minus_one, 0, [](const At& d) { return d.times(d.b.add(d.y(), d.full(1))); }},
    {Op::imag, 0, [](const At& d) { return d.b.imag(d.t); }},
    {Op::lgamma, 0, [](const At& d) { return d.times(d.b.digamma(d.x[0])); }},
    {Op::log, 0, [](const At& d) { return d.over(d.x[0]); }},
    {Op::log_plus_one, 0, [](const At& d) { return d.over(d.b.add(d.full(1), d.x[0])); }},
    {Op::logistic, 0,
     [](const At& d) {
       const Value y = d.y();
       return d.times(d.b.multiply(y, d.b.subtract(d.full(1), y)));
     }},
    {Op::negate, 0, [](const At& d) { return d.b.negate(d.t); }},
    {Op::real, 0, [](const At& d) { return d.b.real(d.t); }},
    {Op::reduce_precision, 0, [](const At& d) { return d.b.remake(d.node, {{d.t}})[0]; }},
    {Op::rsqrt, 0, [](const At& d) { return d.times(d.scale(d.b.divide(d.y(), d.x[0]), -0.5)); }},
    {Op::sign, 0, sign_term},
    {Op::sine, 0, [](const At& d) { return d.times(d.b.cosine(d.x[0])); }},
    {Op::sinh, 0, [](const At& d) { return d.times(d.b.cosh(d.x[0])); }},
    {Op::sqrt, 0, [](const At& d) { return d.times(d.b.divide(d.full(0.5), d.y())); }},
    {Op::tan, 0, [](const At& d) { return d.times(d.b.add(d.full(1), d.square(d.y()))); }},
    {Op::tanh, 0,
     [](const At& d) {
       const Value y = d.y();
       return d.times(d.b.multiply(d.b.add(d.full(1), y), d.b.subtract(d.full(1), y)));
     }},

    {Op::add, 0, [](const At& d) { return d.t; }},
    {Op::add, 1, [](const At& d) { return d.t; }},
    {Op::atan2, 0, [](const At& d) { return d.times(atan2_slope(d, 1)); }},
    {Op::atan2, 1, [](const At& d) { return d.b.negate(d.times(atan2_slope(d, 0))); }},
    {Op::divide, 0, [](const At& d) { return d.over(d.x[1]); }},
    {Op::divide, 1, [](const At& d) { return d.b.negate(d.times(d.b.divide(d.y(), d.x[1]))); }},
    {Op::maximum, 0, extremum_term<0>},
    {Op::maximum, 1, extremum_term<1>},
    {Op::minimum, 0, extremum_term<0>},
    {Op::minimum, 1, extremum_term<1>},
    {Op::multiply, 0, [](const At& d) { return d.times(d.x[1]); }},
    {Op::multiply, 1, [](const At& d) { return d.times(d.x[0]); }},
    {Op::power, 0, power_base_term},
    {Op::power, 1, [](const At& d) { return d.times(d.b.multiply(d.b.log(d.nonzero(d.x[0])), d.y())); }},
    {Op::remainder, 0, [](const At& d) { return d.t; }},
    {Op::remainder, 1,
     [](const At& d) {
       const Value q = d.b.divide(d.x[0], d.x[1]);
       return d.b.negate(d.times(d.b.multiply(d.b.sign(q), d.b.floor(d.b.abs(q)))));
     }},

    // clamp(low, x, high)
    {Op::clamp, 0, [](const At& d) { return d.where(d.b.compare(d.x[0], d.x[1], "GT")); }},
    {Op::clamp, 1,
     [](const At& d) {
       return d.where(d.b.and_(d.b.compare(d.x[1], d.x[0], "GT"), d.b.compare(d.x[1], d.x[2], "LT")));
     }},
    {Op::clamp, 2, [](const At& d) { return d.where(d.b.compare(d.x[2], d.x[1], "LT")); }},
};

using TermTable = std::vector<std::array<Term, 3>>;

const TermTable& terms() {
  static constinit Once<const TermTable> table;
  return table.get([] {
    TermTable t(kNumStaticOps, {nullptr, nullptr, nullptr});
    for (const Row& row : kTerms) t[static_cast<int>(row.op)][row.operand] = row.term;
    return new TermTable(std::move(t));
  });
}

JvpResult elementwise_jvp(Builder& b, const Node& node, std::span<const Value> x,
                          std::span<const Value> tangents) {
  Value sum;
  for (size_t i = 0; i < x.size(); ++i) {
    const size_t op = static_cast<size_t>(node.op());
    const Term term = op < terms().size() ? terms()[op][i] : nullptr;  // an added op may have no derivative
    if (term && tangents[i]) sum = b.add_any(sum, term(At{b, node, x, tangents[i]}));
  }
  return {{sum}, {}};
}

}  // namespace

bool has_derivative(Op elementwise) {
  if (transforms_of(elementwise).jvp != elementwise_jvp) return true;
  const size_t op = static_cast<size_t>(elementwise);
  return op < terms().size() && std::any_of(terms()[op].begin(), terms()[op].end(), [](Term t) { return t; });
}

namespace {

// --- rules of all operands together ---

JvpResult subtract_jvp(Builder& b, const Node&, std::span<const Value>, std::span<const Value> t) {
  if (!t[0]) return {{b.negate(t[1])}, {}};
  return {{t[1] ? b.subtract(t[0], t[1]) : t[0]}, {}};
}

// Where both operands have tangents one division serves them, in reverse mode too.
JvpResult divide_jvp(Builder& b, const Node& node, std::span<const Value> x, std::span<const Value> t) {
  if (!t[0] || !t[1]) return elementwise_jvp(b, node, x, t);
  return {{b.divide(b.subtract(t[0], b.multiply(t[1], result_of(b, node, x))), x[1])}, {}};
}

JvpResult complex_jvp(Builder& b, const Node&, std::span<const Value> x, std::span<const Value> t) {
  return {{b.complex(or_zeros(b, t[0], x[0]), or_zeros(b, t[1], x[1]))}, {}};
}

JvpResult select_jvp(Builder& b, const Node&, std::span<const Value> x, std::span<const Value> t) {
  return {{b.select(x[0], or_zeros(b, t[1], x[1]), or_zeros(b, t[2], x[2]))}, {}};
}

// --- transposes ---

Values add_transpose(Builder&, const Node&, std::span<const Value>, std::span<const bool> linear,
                     std::span<const Value> ct) {
  return {linear[0] ? ct[0] : Value(), linear[1] ? ct[0] : Value()};
}

Values subtract_transpose(Builder& b, const Node&, std::span<const Value>, std::span<const bool> linear,
                          std::span<const Value> ct) {
  return {linear[0] ? ct[0] : Value(), linear[1] ? b.negate(ct[0]) : Value()};
}

Values negate_transpose(Builder& b, const Node&, std::span<const Value>, std::span<const bool>,
                        std::span<const Value> ct) {
  return {b.negate(ct[0])};
}

Values multiply_transpose(Builder& b, const Node&, std::span<const Value> x, std::span<const bool> linear,
                          std::span<const Value> ct) {
  if (linear[0] && linear[1]) {
    b.fail(absl::InvalidArgumentError("cannot transpose a product of two linear values: it is not linear"));
    return Values(2);
  }
  if (linear[0]) return {b.multiply(ct[0], x[1]), Value()};
  return {Value(), b.multiply(x[0], ct[0])};
}

Values divide_transpose(Builder& b, const Node&, std::span<const Value> x, std::span<const bool> linear,
                        std::span<const Value> ct) {
  if (linear[1]) {
    b.fail(absl::InvalidArgumentError("cannot transpose a quotient by a linear value: it is not linear"));
    return Values(2);
  }
  return {b.divide(ct[0], x[1]), Value()};
}

Values select_transpose(Builder& b, const Node&, std::span<const Value> x, std::span<const bool> linear,
                        std::span<const Value> ct) {
  if (linear[0]) {
    b.fail(absl::InvalidArgumentError("cannot transpose a select whose predicate is linear"));
    return Values(3);
  }
  const Value zero = b.zeros_like(ct[0]);
  return {Value(), linear[1] ? b.select(x[0], ct[0], zero) : Value(),
          linear[2] ? b.select(x[0], zero, ct[0]) : Value()};
}

Values convert_transpose(Builder& b, const Node& node, std::span<const Value>, std::span<const bool>,
                         std::span<const Value> ct) {
  const DType to = node.operand_type(0)->dtype;
  return {b.convert(is_complex(ct[0].dtype()) && !is_complex(to) ? b.real(ct[0]) : ct[0], to)};
}

Values reduce_precision_transpose(Builder& b, const Node& node, std::span<const Value>, std::span<const bool>,
                                  std::span<const Value> ct) {
  return {b.remake(node, {{ct[0]}})[0]};
}

// Complex transposes do not conjugate: <ct, f(t)> = <f'(ct), t> with the product that has no conjugate. As in
// JAX the cotangent of a real pair (re, im) is read as re - i im.
Values real_transpose(Builder& b, const Node& node, std::span<const Value>, std::span<const bool>,
                      std::span<const Value> ct) {
  if (!is_complex(node.operand_type(0)->dtype)) return {ct[0]};
  return {b.complex(ct[0], b.zeros_like(ct[0]))};
}

Values imag_transpose(Builder& b, const Node& node, std::span<const Value>, std::span<const bool>,
                      std::span<const Value> ct) {
  if (!is_complex(node.operand_type(0)->dtype)) return {Value()};
  return {b.complex(b.zeros_like(ct[0]), b.negate(ct[0]))};
}

Values complex_transpose(Builder& b, const Node&, std::span<const Value>, std::span<const bool> linear,
                         std::span<const Value> ct) {
  return {linear[0] ? b.real(ct[0]) : Value(), linear[1] ? b.negate(b.imag(ct[0])) : Value()};
}

// --- batching ---

BatchResult elementwise_batch(Builder& b, const Node& node, std::span<const Value> operands,
                              std::span<const bool> batched, int64_t size) {
  return all_batched(b.remake(node, all_with_batch(b, operands, batched, size)));
}

}  // namespace

OpTransforms elementwise_transforms() { return {elementwise_jvp, nullptr, elementwise_batch}; }

void add_elementwise_transforms(TransformTable& table) {
  table[Op::subtract].jvp = subtract_jvp;
  table[Op::divide].jvp = divide_jvp;
  table[Op::complex].jvp = complex_jvp;
  table[Op::select].jvp = select_jvp;

  table[Op::add].transpose = add_transpose;
  table[Op::subtract].transpose = subtract_transpose;
  table[Op::negate].transpose = negate_transpose;
  table[Op::multiply].transpose = multiply_transpose;
  table[Op::divide].transpose = divide_transpose;
  table[Op::select].transpose = select_transpose;
  table[Op::convert].transpose = convert_transpose;
  table[Op::reduce_precision].transpose = reduce_precision_transpose;
  table[Op::real].transpose = real_transpose;
  table[Op::imag].transpose = imag_transpose;
  table[Op::complex].transpose = complex_transpose;
}

}  // namespace lamina::trace
