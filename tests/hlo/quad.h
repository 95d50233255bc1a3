// 113-bit floats and their functions under libquadmath's names: that library on x86, and `long double` where
// it has as many bits.
#ifndef LAMINA_TESTS_HLO_QUAD_H_
#define LAMINA_TESTS_HLO_QUAD_H_

#include <cfloat>

#if LDBL_MANT_DIG == 113

namespace lamina::hlo::scalar::testing {

using Quad = long double;
__extension__ using QuadComplex = _Complex long double;

#define LAMINA_QUAD(name) \
  inline Quad name##q(Quad x) { return __builtin_##name##l(x); }
LAMINA_QUAD(acos)
LAMINA_QUAD(acosh)
LAMINA_QUAD(asin)
LAMINA_QUAD(asinh)
LAMINA_QUAD(atan)
LAMINA_QUAD(atanh)
LAMINA_QUAD(cbrt)
LAMINA_QUAD(ceil)
LAMINA_QUAD(cos)
LAMINA_QUAD(cosh)
LAMINA_QUAD(erf)
LAMINA_QUAD(erfc)
LAMINA_QUAD(exp)
LAMINA_QUAD(exp2)
LAMINA_QUAD(expm1)
LAMINA_QUAD(fabs)
LAMINA_QUAD(floor)
LAMINA_QUAD(lgamma)
LAMINA_QUAD(log)
LAMINA_QUAD(log1p)
LAMINA_QUAD(rint)
LAMINA_QUAD(round)
LAMINA_QUAD(sin)
LAMINA_QUAD(sinh)
LAMINA_QUAD(sqrt)
LAMINA_QUAD(tan)
LAMINA_QUAD(tanh)
#undef LAMINA_QUAD

inline Quad atan2q(Quad y, Quad x) { return __builtin_atan2l(y, x); }
inline Quad fmodq(Quad x, Quad y) { return __builtin_fmodl(x, y); }
inline Quad powq(Quad x, Quad y) { return __builtin_powl(x, y); }
inline Quad frexpq(Quad x, int* exponent) { return __builtin_frexpl(x, exponent); }
inline Quad ldexpq(Quad x, int exponent) { return __builtin_ldexpl(x, exponent); }
inline Quad nanq(const char*) { return __builtin_nanl(""); }
inline bool isinfq(Quad x) { return __builtin_isinf(x); }
inline bool isnanq(Quad x) { return __builtin_isnan(x); }

inline Quad cabsq(QuadComplex z) { return __builtin_cabsl(z); }
inline Quad crealq(QuadComplex z) { return __builtin_creall(z); }
inline Quad cimagq(QuadComplex z) { return __builtin_cimagl(z); }
#define LAMINA_QUAD(name) \
  inline QuadComplex name##q(QuadComplex z) { return __builtin_##name##l(z); }
LAMINA_QUAD(ccos)
LAMINA_QUAD(cexp)
LAMINA_QUAD(clog)
LAMINA_QUAD(csin)
LAMINA_QUAD(csqrt)
LAMINA_QUAD(cacos)
LAMINA_QUAD(cacosh)
LAMINA_QUAD(casin)
LAMINA_QUAD(casinh)
LAMINA_QUAD(catan)
LAMINA_QUAD(catanh)
LAMINA_QUAD(ccosh)
LAMINA_QUAD(csinh)
LAMINA_QUAD(ctan)
LAMINA_QUAD(ctanh)
#undef LAMINA_QUAD

}  // namespace lamina::hlo::scalar::testing

#else

#include <quadmath.h>

namespace lamina::hlo::scalar::testing {

__extension__ using Quad = __float128;
__extension__ using QuadComplex = __complex128;

}  // namespace lamina::hlo::scalar::testing

#endif

#endif  // LAMINA_TESTS_HLO_QUAD_H_
