// Operators and small helpers over `Scalar` handles, so that a rule reads like arithmetic.
//
// Contract: each operator records one primitive; both operands have one type, and a number beside a handle
// becomes a constant of the handle's type. f16 and bf16 have no arithmetic: use `with_f32_arithmetic` or
// `via_f64`.
#ifndef LAMINA_HLO_SCALAR_OPS_H_
#define LAMINA_HLO_SCALAR_OPS_H_

#include <array>
#include <concepts>
#include <initializer_list>
#include <limits>
#include <span>

#include "hlo/scalar/program.h"

namespace lamina::hlo::scalar {

// A complex element: two values of one float type.
struct ScalarComplex {
  Scalar re, im;
};

template <typename... S>
Scalar record(Prim prim, DType result, Scalar first, S... rest) {
  const std::array<Scalar, 1 + sizeof...(S)> operands{first, rest...};
  return first.recorder()->emit(prim, result, operands);
}

// Constants of the type of `like`.
inline Scalar constant(Scalar like, double value) { return like.recorder()->constant(like.type(), value); }
inline Scalar constant_bits(Scalar like, uint64_t bits) {
  return like.recorder()->constant_bits(like.type(), bits);
}
inline Scalar bool_constant(Scalar like, bool value) {
  return like.recorder()->constant_bits(DType::kBool, value);
}

template <typename T>
concept Number = std::is_arithmetic_v<T>;

#define LAMINA_SCALAR_OPERATOR(symbol, prim, result)                                             \
  inline Scalar operator symbol(Scalar a, Scalar b) { return record(Prim::prim, result, a, b); } \
  inline Scalar operator symbol(Scalar a, Number auto b) {                                       \
    return a symbol constant(a, static_cast<double>(b));                                         \
  }                                                                                              \
  inline Scalar operator symbol(Number auto a, Scalar b) {                                       \
    return constant(b, static_cast<double>(a)) symbol b;                                         \
  }
LAMINA_SCALAR_OPERATOR(+, add, a.type())
LAMINA_SCALAR_OPERATOR(-, sub, a.type())
LAMINA_SCALAR_OPERATOR(*, mul, a.type())
LAMINA_SCALAR_OPERATOR(/, div, a.type())
LAMINA_SCALAR_OPERATOR(%, rem, a.type())
LAMINA_SCALAR_OPERATOR(&, bit_and, a.type())
LAMINA_SCALAR_OPERATOR(|, bit_or, a.type())
LAMINA_SCALAR_OPERATOR(^, bit_xor, a.type())
LAMINA_SCALAR_OPERATOR(<<, shl, a.type())
LAMINA_SCALAR_OPERATOR(==, eq, DType::kBool)
LAMINA_SCALAR_OPERATOR(!=, ne, DType::kBool)
LAMINA_SCALAR_OPERATOR(<, lt, DType::kBool)
LAMINA_SCALAR_OPERATOR(<=, le, DType::kBool)
#undef LAMINA_SCALAR_OPERATOR

inline Scalar operator>(Scalar a, Scalar b) { return b < a; }
inline Scalar operator>=(Scalar a, Scalar b) { return b <= a; }
inline Scalar operator>(Scalar a, Number auto b) { return constant(a, static_cast<double>(b)) < a; }
inline Scalar operator>=(Scalar a, Number auto b) { return constant(a, static_cast<double>(b)) <= a; }
inline Scalar operator-(Scalar a) { return record(Prim::neg, a.type(), a); }
inline Scalar operator~(Scalar a) { return record(Prim::bit_not, a.type(), a); }
// Arithmetic for signed, logical for unsigned types.
inline Scalar operator>>(Scalar a, Scalar b) {
  return record(is_signed(a.type()) ? Prim::shr_arithmetic : Prim::shr_logical, a.type(), a, b);
}
inline Scalar operator>>(Scalar a, Number auto b) { return a >> constant(a, static_cast<double>(b)); }

// A handle or a number, where a helper takes both.
class ScalarOrNumber {
 public:
  ScalarOrNumber(Scalar s) : scalar_(s) {}                                   // NOLINT: implicit on purpose
  ScalarOrNumber(Number auto value) : value_(static_cast<double>(value)) {}  // NOLINT
  Scalar as(Scalar like) const { return scalar_.recorder() != nullptr ? scalar_ : constant(like, value_); }

 private:
  Scalar scalar_;
  double value_ = 0;
};

inline Scalar fma(Scalar a, ScalarOrNumber b, ScalarOrNumber c) {
  return record(Prim::fma, a.type(), a, b.as(a), c.as(a));
}
inline Scalar select(Scalar p, Scalar a, ScalarOrNumber b) {
  return record(Prim::select, a.type(), p, a, b.as(a));
}
inline Scalar select(Scalar p, Number auto a, Scalar b) {
  return select(p, constant(b, static_cast<double>(a)), b);
}
// As select, where `p` seldom holds: put everything dear that only those elements need beneath `a`.
inline Scalar select_rare(Scalar p, Scalar a, Scalar b) {
  return record(Prim::select_rare, a.type(), p, a, b);
}
inline Scalar convert_to(Scalar x, DType type) { return record(Prim::convert, type, x); }
inline Scalar bitcast(Scalar x, DType type) { return record(Prim::bitcast, type, x); }
inline Scalar trunc(Scalar x) { return record(Prim::trunc, x.type(), x); }
inline Scalar round_even(Scalar x) { return record(Prim::round_even, x.type(), x); }
inline Scalar mul_high(Scalar a, Scalar b) { return record(Prim::mul_high, a.type(), a, b); }
// size * 2^e as Prim::scale says.
inline Scalar scale(Scalar size, Scalar counted) { return record(Prim::scale, size.type(), size, counted); }
inline Scalar clz(Scalar a) { return record(Prim::count_leading_zeros, a.type(), a); }
// Number `index` mod 16 of a table (tables.h); `index` is u32 for f32 and u64 for f64.
inline Scalar lookup(Scalar index, uint64_t table) {
  const DType type = index.type() == DType::kU64 ? DType::kF64 : DType::kF32;
  return index.recorder()->emit(Prim::lookup, type, std::array{index}, table);
}
inline Scalar is_nan(Scalar x) { return x != x; }
inline Scalar nan_like(Scalar x) { return constant(x, std::numeric_limits<double>::quiet_NaN()); }
inline Scalar infinity_like(Scalar x) { return constant(x, std::numeric_limits<double>::infinity()); }

inline Scalar sign_mask(Scalar bits) {
  return constant_bits(bits, uint64_t{1} << (bit_width(bits.type()) - 1));
}
inline Scalar to_bits(Scalar x) { return bitcast(x, bits_type(x.type())); }
// `x`, where every NaN is the canonical one: quiet, positive, without a payload. Which NaN an operation gives
// is left open, so this stands wherever the sign or the payload of an operand would decide a result that is
// no NaN.
Scalar canonical_nan(Scalar x);
// `magnitude` (not negative) with the sign of `sign` added: negative where `sign` is. Where `sign` may be a
// NaN and the result is none, `sign` must be canonical.
inline Scalar with_sign_of(Scalar magnitude, Scalar sign) {
  const Scalar s = to_bits(sign);
  return bitcast(to_bits(magnitude) | (s & sign_mask(s)), magnitude.type());
}

// Exact double-width steps. fast_: |a| >= |b| or a == 0.
struct Sum {
  Scalar hi, lo;
};
inline Sum fast_two_sum(Scalar a, Scalar b) {
  const Scalar s = a + b;
  return {s, b - (s - a)};
}
inline Sum two_sum(Scalar a, Scalar b) {
  const Scalar s = a + b, t = s - a;
  return {s, (a - (s - t)) + (b - t)};
}
inline Sum two_product(Scalar a, Scalar b) {
  const Scalar p = a * b;
  return {p, fma(a, b, -p)};
}

// Horner's rule; coefficients from the constant term up.
inline Scalar polynomial(Scalar x, std::span<const double> c) {
  Scalar p = constant(x, c.back());
  for (size_t i = c.size() - 1; i-- > 0;) p = fma(p, x, c[i]);
  return p;
}
// The same with z = x^2: even and odd powers side by side, so that half as many steps wait for each other.
// The constant term comes last all the same, which is more exact.
inline Scalar polynomial_by_halves(Scalar x, Scalar z, std::span<const double> c) {
  Scalar halves[2] = {constant(x, c[c.size() - 1]), constant(x, c[c.size() - 2])};
  for (size_t i = c.size() - 2; i-- > 1;) {
    Scalar& half = halves[(c.size() - 1 - i) & 1];
    half = fma(half, z, c[i]);
  }
  const Scalar last = halves[(c.size() - 2) & 1], other = halves[(c.size() - 1) & 1];
  return fma(fma(other, x, last), x, c[0]);
}
inline Scalar polynomial(Scalar x, std::initializer_list<double> c) {
  return polynomial(x, std::span<const double>(c.begin(), c.size()));
}

// The one place where 16-bit floats get their arithmetic: operands are converted to f32, `f` runs, and its
// float results are rounded once. add, subtract, multiply, divide and sqrt come out correctly rounded this
// way, since f32 has more than twice the digits.
template <typename F, typename... S>
Scalar with_f32_arithmetic(F f, Scalar x, S... rest) {
  const DType type = x.type();
  if (!is_storage_float(type)) return f(x, rest...);
  const Scalar r = f(convert_to(x, DType::kF32), convert_to(rest, DType::kF32)...);
  return r.type() == DType::kF32 ? convert_to(r, type) : r;
}

// The same through f64: for functions whose f64 value decides the rounding of a narrower type.
template <typename F, typename... S>
Scalar via_f64(F f, Scalar x, S... rest) {
  const DType type = x.type();
  if (type == DType::kF64) return f(x, rest...);
  return convert_to(f(convert_to(x, DType::kF64), convert_to(rest, DType::kF64)...), type);
}

}  // namespace lamina::hlo::scalar

#endif  // LAMINA_HLO_SCALAR_OPS_H_
