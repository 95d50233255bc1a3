// Computations as XLA's HLO text.
//
// Contract: XLA's own parser takes what is written, and read again it gives the same computation, except that
// a scan becomes a while loop, a long constant of one value a broadcast one, that a dimension to be stretched
// is dropped first, and that operations XLA has no opcode for are written as others: erf_inv, lgamma and the
// like, and ops added at run time, as the primitives they consist of, where a fused multiply-add is one of
// f64 or two roundings. Derivative rules of calls are left out. Host callbacks that only this process knows
// are Unimplemented errors.
#ifndef LAMINA_HLO_XLA_TEXT_WRITER_H_
#define LAMINA_HLO_XLA_TEXT_WRITER_H_

#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "hlo/computation.h"

namespace lamina::hlo::xla_text {

struct WriteOptions {
  std::string_view module = "lamina";  // and its entry
  bool locations = false;              // metadata={source_file="file.py" source_line=3}
};

// Whether an op can be written; a custom_call only if its target is one that every process knows (lamina.*).
bool can_write(Op op);

// A module whose entry is `computation`; several results are one tuple.
absl::StatusOr<std::string> write(const Computation& computation, const WriteOptions& options = {});

}  // namespace lamina::hlo::xla_text

#endif  // LAMINA_HLO_XLA_TEXT_WRITER_H_
