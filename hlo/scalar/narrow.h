// Primitives over narrow element types (see is_narrow), written over those of the integers in their bytes.
//
// Contract: every value recorded is canonical: integers extended by their sign or zeros, floats by zeros. A
// conversion to a float rounds to nearest even once, from any source type; what lies beyond the largest
// number gives infinity where the format has one, else NaN, else the largest number. NaN gives NaN, or -0
// where there is none. What is not positive has no place among scales (FloatSpecials::kScale) and gives NaN;
// below the least scale is the least one.
#ifndef LAMINA_HLO_SCALAR_NARROW_H_
#define LAMINA_HLO_SCALAR_NARROW_H_

#include <span>

#include "hlo/scalar/program.h"

namespace lamina::hlo::scalar {

// `prim` where an operand or the result is narrow; neither constant, bitcast nor select. Fails a check where
// the primitive does not exist for the types: narrow floats are converted only.
Scalar record_narrow(Prim prim, DType result, std::span<const Scalar> operands);

// A byte holding any bits as a value of narrow type `to`.
Scalar narrow_from_bits(Scalar byte, DType to);
// The bits of a narrow value in a u8, those above its width zero.
Scalar narrow_bits(Scalar x);

}  // namespace lamina::hlo::scalar

#endif  // LAMINA_HLO_SCALAR_NARROW_H_
