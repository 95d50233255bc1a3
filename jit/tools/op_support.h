// The table of docs/ops.md: what each op of the table has.
#ifndef LAMINA_JIT_TOOLS_OP_SUPPORT_H_
#define LAMINA_JIT_TOOLS_OP_SUPPORT_H_

#include <string>

namespace lamina::jit {

// Markdown, one row per static op, read from the op table and the tables of lowerings and of StableHLO.
std::string op_support_table();

}  // namespace lamina::jit

#endif  // LAMINA_JIT_TOOLS_OP_SUPPORT_H_
