// Computations from text, the form of hlo/printer.h.
//
// Contract: any input gives a computation or an error that starts with line:column and says what is wrong
// there; never a crash, and memory is bounded by the limits. Beyond what the printer writes, the parser
// takes: comments (// to the end of the line), types before operands, operation lines without a result type
// (it is inferred anyway; a constant needs one), attributes in any order, hexadecimal floats.
#ifndef LAMINA_HLO_PARSER_H_
#define LAMINA_HLO_PARSER_H_

#include <string_view>

#include "absl/status/statusor.h"
#include "hlo/computation.h"

namespace lamina::hlo {

struct ParseLimits {
  int64_t rank = 64;
  int64_t integers = 1024;                       // entries of an attribute's list
  int64_t integer = int64_t{1} << 59;            // largest magnitude of an integer attribute
  int64_t literal_bytes = int64_t{64} << 20;     // one constant
  int64_t all_literal_bytes = int64_t{1} << 30;  // all constants of the text
};

// The last computation of the text, which is the program.
absl::StatusOr<ComputationPtr> parse(std::string_view text, const ParseLimits& limits = {});

}  // namespace lamina::hlo

#endif  // LAMINA_HLO_PARSER_H_
