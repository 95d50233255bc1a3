// XLA's HLO text as computations: what XLA prints before and after its optimization runs here.
//
// Contract: any text gives a module or an error that starts with line:column; never a crash, and time and
// memory are linear in the text. Instructions become the operations of hlo/stablehlo/ that mean the same, so
// both notations share every rule: tuples are their elements one after the other, tokens carry nothing,
// collectives are those of one process. Layouts matter to `bitcast` alone; fusions and asynchronous
// computations run in place. Declared shapes are compared with inferred ones. Attributes about layout,
// placement and tuning are skipped (kIgnored in rows.cc says why for each); any other attribute that an
// opcode does not have is an error.
#ifndef LAMINA_HLO_XLA_TEXT_READER_H_
#define LAMINA_HLO_XLA_TEXT_READER_H_

#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "hlo/stablehlo/reader.h"

namespace lamina::hlo::xla_text {

// The module's functions are its computations; entry() is the one marked ENTRY.
absl::StatusOr<stablehlo::Module> parse(std::string text);

// Whether the text starts as XLA's text does, `HloModule name`.
bool looks_like_xla_text(std::string_view text);

// Whether some opcode of XLA is read as our op of that name.
bool can_read(std::string_view op);

}  // namespace lamina::hlo::xla_text

#endif  // LAMINA_HLO_XLA_TEXT_READER_H_
