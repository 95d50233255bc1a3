// What `lamina-run --on=NAME` can run programs on, and what `lamina-opt --stage=NAME` shows of them.
#ifndef LAMINA_JIT_TOOLS_EXECUTORS_H_
#define LAMINA_JIT_TOOLS_EXECUTORS_H_

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "hlo/computation.h"
#include "hlo/literal.h"
#include "jit/program/plan_file.h"

namespace lamina::jit {

struct Executor {
  std::string_view name;
  absl::StatusOr<std::vector<hlo::LiteralPtr>> (*run)(const hlo::ComputationPtr& program,
                                                      std::span<const hlo::LiteralPtr> arguments);
};

std::span<const Executor> executors();

// The program compiled for this machine, as jit/program/listing.h shows it. "ptx", or "ptx:sm_80" and the
// like: the kernels of a CUDA device (of which none is needed), and what such a device has no kernel for.
absl::StatusOr<std::string> compiled_stage(const hlo::ComputationPtr& program, std::string_view stage);
// The same of what a plan file becomes where it is loaded, with its machine code if this machine can run
// that.
absl::StatusOr<std::string> loaded_stage(const PlanFile& file, std::string_view stage);

}  // namespace lamina::jit

#endif  // LAMINA_JIT_TOOLS_EXECUTORS_H_
