// What a program became, stage by stage, as text for people and tools.
#ifndef LAMINA_JIT_PROGRAM_LISTING_H_
#define LAMINA_JIT_PROGRAM_LISTING_H_

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "jit/program/executable.h"

namespace lamina::jit {

// "steps": what runs, the fusion groups and why others were not fused; "plan": where values lie, what each
// step reads and writes, and which steps it waits for; "kernels": the kernel texts with their schedules; "ir"
// and "assembly": what the code generator makes of them on this machine.
std::span<const std::string_view> listing_stages();

// Kernels come once, in the order of the steps, those of loops and branches after the step that holds them,
// each under a line that names the steps ("// step 2, step 4 / 1"). InvalidArgument for a stage that does not
// exist; Unavailable where "ir" or "assembly" is asked for and there is no code generator.
absl::StatusOr<std::string> listing(const Executable& executable, std::string_view stage);

// The kernels of the program and of the programs inside its steps, each once, in the order of the steps.
std::vector<const KernelText*> kernels_of(const Executable& executable);

}  // namespace lamina::jit

#endif  // LAMINA_JIT_PROGRAM_LISTING_H_
