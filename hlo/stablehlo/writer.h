// Computations as StableHLO text.
//
// Contract: what is written parses and verifies with the StableHLO dialect, and read again gives the same
// computation, except that a scan becomes a while loop, a long constant of one value a broadcast one, and
// that derivative rules of calls are left out. Quantized types are not written: what was read from them is
// written as the operations on integers and floats that it has become. Ops that only this process knows (host
// callbacks, ops added at run time) are Unimplemented errors.
#ifndef LAMINA_HLO_STABLEHLO_WRITER_H_
#define LAMINA_HLO_STABLEHLO_WRITER_H_

#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "hlo/computation.h"

namespace lamina::hlo::stablehlo {

struct WriteOptions {
  std::string_view module = "lamina";
  bool locations = false;  // loc("file.py":3:0) behind each operation
};

// Whether an op can be written; a custom_call only if its target is one that every process knows (lamina.*).
bool can_write(Op op);

// A module whose public function @main is `computation`; calls become private functions.
absl::StatusOr<std::string> write(const Computation& computation, const WriteOptions& options = {});

}  // namespace lamina::hlo::stablehlo

#endif  // LAMINA_HLO_STABLEHLO_WRITER_H_
