// What the graph tells of how large integers can be: positions that are made of a remainder need no tests.
#ifndef LAMINA_HLO_KNOWN_LIMIT_H_
#define LAMINA_HLO_KNOWN_LIMIT_H_

#include <cstdint>
#include <string_view>

#include "hlo/graph.h"

namespace lamina::hlo {

// All elements are in 0 ... limit - 1; 0: not known. Sees constants, bits that are taken out, remainders of
// floored divisions, and what copies or converts these.
int64_t known_limit(Value v);

// Whether the value is x compared with zero by `direction`, x an integer.
bool compares_with_zero(const Value& v, std::string_view direction, Value* x);

}  // namespace lamina::hlo

#endif  // LAMINA_HLO_KNOWN_LIMIT_H_
