// Opcodes and attributes of nodes as XLA's text spells them.
#ifndef LAMINA_HLO_XLA_TEXT_ATTRIBUTES_TEXT_H_
#define LAMINA_HLO_XLA_TEXT_ATTRIBUTES_TEXT_H_

#include <span>
#include <string>
#include <string_view>

#include "hlo/graph.h"

namespace lamina::hlo::xla_text {

// Empty for an elementwise op that XLA has no opcode for.
std::string_view opcode_of(Op op);
// ", name={1,2}"
std::string ints_text(std::string_view name, std::span<const int64_t> values);
// ", key=value, ..." of all attributes but computations.
std::string attributes_text(const Node& node);
// ", metadata={...}" of a node with a location.
std::string metadata_text(const Node& node);

}  // namespace lamina::hlo::xla_text

#endif  // LAMINA_HLO_XLA_TEXT_ATTRIBUTES_TEXT_H_
