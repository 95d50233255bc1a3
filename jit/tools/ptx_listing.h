// The kernels of a program as PTX, on any machine.
#ifndef LAMINA_JIT_TOOLS_PTX_LISTING_H_
#define LAMINA_JIT_TOOLS_PTX_LISTING_H_

#include <string>

#include "absl/status/statusor.h"
#include "jit/program/executable.h"

namespace lamina::jit {

// For each step, and those of loops and branches: text, schedule and PTX of its kernels for a chip such as
// "sm_90", or why it has none. Unavailable where there is no code generator.
absl::StatusOr<std::string> ptx_listing(const Executable& executable, const std::string& chip);

}  // namespace lamina::jit

#endif  // LAMINA_JIT_TOOLS_PTX_LISTING_H_
