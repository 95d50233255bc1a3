// Types, constants and names as StableHLO text.
#ifndef LAMINA_HLO_STABLEHLO_ELEMENTS_TEXT_H_
#define LAMINA_HLO_STABLEHLO_ELEMENTS_TEXT_H_

#include <span>
#include <string>
#include <string_view>

#include "hlo/literal.h"

namespace lamina::hlo::stablehlo {

// tensor<2x3xf32>
std::string type_text(const Type& type);
// dense<...>, exact to the bit; long arrays in hexadecimal.
std::string dense_text(const Literal& literal);
// A finite float as a decimal that is read to the same bits, by way of a double too; empty for others.
std::string finite_text(DType t, const std::byte* p);
// A name or path between quotes, as locations have it; control characters are left out.
std::string string_text(std::string_view name);
// array<i64: 1, 2>
std::string ints_text(std::span<const int64_t> values);

}  // namespace lamina::hlo::stablehlo

#endif  // LAMINA_HLO_STABLEHLO_ELEMENTS_TEXT_H_
