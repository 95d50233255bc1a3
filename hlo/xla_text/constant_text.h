// Types and constants as XLA's text.
#ifndef LAMINA_HLO_XLA_TEXT_CONSTANT_TEXT_H_
#define LAMINA_HLO_XLA_TEXT_CONSTANT_TEXT_H_

#include <string>

#include "hlo/literal.h"

namespace lamina::hlo::xla_text {

// f32[2,3]
std::string type_text(const Type& type);
// { {1, 2}, {3, 4} } without spaces, exact to the bit but for the quiet bit of a NaN that has no other. XLA's
// reader multiplies complex parts, so an infinite or NaN part must not be written this way (see needs_parts).
std::string constant_text(const Literal& literal);
// Whether a complex constant must be written as its parts.
bool needs_parts(const Literal& literal);

}  // namespace lamina::hlo::xla_text

#endif  // LAMINA_HLO_XLA_TEXT_CONSTANT_TEXT_H_
