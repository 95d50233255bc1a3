// What a processor must have to run code of the generator, by the names that LLVM gives its features, and
// which processor this is.
#ifndef LAMINA_JIT_CPU_CPU_FEATURES_H_
#define LAMINA_JIT_CPU_CPU_FEATURES_H_

#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"

namespace lamina::jit {

// "x86_64 avx avx2 ...": the machine and the features that code for `target` (CodeGenerator::target) may use,
// those aside that no arithmetic compiles to. Unimplemented for targets of which they are not known.
absl::StatusOr<std::string> machine_line(std::string_view target);

// FailedPrecondition, naming what is missing, unless this machine, as LAMINA_ISA lets it appear, has all of
// that.
absl::Status check_machine_line(std::string_view line);

// All that a compiler can learn of this processor: two with equal words run, and get, the same code. Empty on
// machines other than x86-64, of which that is not known.
std::string processor_words();

}  // namespace lamina::jit

#endif  // LAMINA_JIT_CPU_CPU_FEATURES_H_
