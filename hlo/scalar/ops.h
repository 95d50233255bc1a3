// Operators on scalar handles, so that rules read like formulas. A double operand is a constant of the other's type.
#ifndef LAMINA_HLO_SCALAR_OPS_H_
#define LAMINA_HLO_SCALAR_OPS_H_

#include <initializer_list>

#include "hlo/scalar/program.h"

namespace lamina::hlo::scalar {

inline Scalar emit(Prim p, DType type, std::initializer_list<Scalar> operands) {
  return operands.begin()->recorder()->emit(p, type, std::span(operands.begin(), operands.size()));
}
// A constant of the type of `like`.
inline Scalar constant_like(Scalar like, double v) { return like.recorder()->constant(like.type(), v); }
inline Scalar bits_like(Scalar like, uint64_t bits) { return like.recorder()->constant_bits(like.type(), bits); }

#define LAMINA_SCALAR_BINARY(name, prim, type)                                               \
  inline Scalar name(Scalar a, Scalar b) { return emit(Prim::prim, type, {a, b}); }          \
  inline Scalar name(Scalar a, double b) { return name(a, constant_like(a, b)); }            \
  inline Scalar name(double a, Scalar b) { return name(constant_like(b, a), b); }
LAMINA_SCALAR_BINARY(operator+, add, a.type())
LAMINA_SCALAR_BINARY(operator-, sub, a.type())
LAMINA_SCALAR_BINARY(operator*, mul, a.type())
LAMINA_SCALAR_BINARY(operator/, div, a.type())
LAMINA_SCALAR_BINARY(operator&, bit_and, a.type())
LAMINA_SCALAR_BINARY(operator|, bit_or, a.type())
LAMINA_SCALAR_BINARY(operator^, bit_xor, a.type())
LAMINA_SCALAR_BINARY(operator==, eq, DType::kBool)
LAMINA_SCALAR_BINARY(operator!=, ne, DType::kBool)
LAMINA_SCALAR_BINARY(operator<, lt, DType::kBool)
LAMINA_SCALAR_BINARY(operator<=, le, DType::kBool)
LAMINA_SCALAR_BINARY(rem, rem, a.type())
LAMINA_SCALAR_BINARY(shl, shl, a.type())
LAMINA_SCALAR_BINARY(shr_logical, shr_logical, a.type())
LAMINA_SCALAR_BINARY(shr_arithmetic, shr_arithmetic, a.type())
LAMINA_SCALAR_BINARY(mul_high, mul_high, a.type())
#undef LAMINA_SCALAR_BINARY
inline Scalar operator>(Scalar a, Scalar b) { return b < a; }
inline Scalar operator>(Scalar a, double b) { return b < a; }
inline Scalar operator>=(Scalar a, Scalar b) { return b <= a; }
inline Scalar operator>=(Scalar a, double b) { return b <= a; }
inline Scalar operator-(Scalar a) { return emit(Prim::neg, a.type(), {a}); }
inline Scalar operator~(Scalar a) { return emit(Prim::bit_not, a.type(), {a}); }

inline Scalar fma(Scalar a, Scalar b, Scalar c) { return emit(Prim::fma, a.type(), {a, b, c}); }
inline Scalar fma(Scalar a, double b, Scalar c) { return fma(a, constant_like(a, b), c); }
inline Scalar fma(Scalar a, Scalar b, double c) { return fma(a, b, constant_like(a, c)); }
inline Scalar fma(Scalar a, double b, double c) { return fma(a, constant_like(a, b), constant_like(a, c)); }
inline Scalar magnitude(Scalar a) { return emit(Prim::abs, a.type(), {a}); }
inline Scalar square_root(Scalar a) { return emit(Prim::sqrt, a.type(), {a}); }
inline Scalar truncate(Scalar a) { return emit(Prim::trunc, a.type(), {a}); }
inline Scalar round_even(Scalar a) { return emit(Prim::round_even, a.type(), {a}); }
inline Scalar choose(Scalar condition, Scalar yes, Scalar no) {
  return emit(Prim::select, yes.type(), {condition, yes, no});
}
inline Scalar choose(Scalar condition, Scalar yes, double no) { return choose(condition, yes, constant_like(yes, no)); }
inline Scalar choose(Scalar condition, double yes, Scalar no) { return choose(condition, constant_like(no, yes), no); }
inline Scalar convert_to(DType type, Scalar a) {
  return a.type() == type ? a : emit(Prim::convert, type, {a});
}
inline Scalar bitcast_to(DType type, Scalar a) {
  return a.type() == type ? a : emit(Prim::bitcast, type, {a});
}
inline Scalar is_nan(Scalar a) { return a != a; }
inline Scalar sign_bit(Scalar a) {  // of a float, as bool
  const DType bits = bits_type(a.type());
  const Scalar u = bitcast_to(bits, a);
  return shr_logical(u, bits_like(u, bit_width(a.type()) - 1)) != bits_like(u, 0);
}
// |a| with the sign of b.
inline Scalar copy_sign(Scalar a, Scalar b) {
  const DType bits = bits_type(a.type());
  const uint64_t top = uint64_t{1} << (bit_width(a.type()) - 1);
  const Scalar ua = bitcast_to(bits, a), ub = bitcast_to(bits, b);
  return bitcast_to(a.type(), (ua & bits_like(ua, top - 1)) | (ub & bits_like(ub, top)));
}
// Horner's scheme on fma, coefficients from the constant term up.
inline Scalar polynomial(Scalar x, std::span<const double> coefficients) {
  Scalar p = constant_like(x, coefficients.back());
  for (size_t i = coefficients.size() - 1; i-- > 0;) p = fma(p, x, coefficients[i]);
  return p;
}

}  // namespace lamina::hlo::scalar

#endif  // LAMINA_HLO_SCALAR_OPS_H_
