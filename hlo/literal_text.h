// Elements and arrays as text, exact to the bit.
#ifndef LAMINA_HLO_LITERAL_TEXT_H_
#define LAMINA_HLO_LITERAL_TEXT_H_

#include <string>
#include <string_view>

#include "hlo/literal.h"

namespace lamina::hlo {

// One real number at `p`: 3, -0, 1.5e-40, inf, nan, nan:0x7fc00001, true.
void append_number(std::string* out, DType real, const void* p);
// Reads what `append_number` writes; also hexadecimal floats (0x1.8p3). `text` is the whole word. False if it
// is no number of that type.
bool parse_number(std::string_view text, DType real, void* p);

// Scalars as numbers, (re, im) for complex; arrays splat(x) or {{...}, {...}}; {...} if longer than `limit`.
void append_literal(std::string* out, const Literal& literal, int64_t limit);

}  // namespace lamina::hlo

#endif  // LAMINA_HLO_LITERAL_TEXT_H_
