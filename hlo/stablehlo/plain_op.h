// Which operations are written by their names and operands alone.
#ifndef LAMINA_HLO_STABLEHLO_PLAIN_OP_H_
#define LAMINA_HLO_STABLEHLO_PLAIN_OP_H_

#include <algorithm>

#include "hlo/op.h"

namespace lamina::hlo::stablehlo {

// An elementwise operation that needs no attributes.
inline bool is_plain(const OpDef& def) {
  return def.is_elementwise() && std::ranges::all_of(def.attrs, [](const AttrSpec& a) { return a.optional; });
}

}  // namespace lamina::hlo::stablehlo

#endif  // LAMINA_HLO_STABLEHLO_PLAIN_OP_H_
