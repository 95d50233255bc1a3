#include "jit/tools/executors.h"

#include "hlo/evaluator.h"

namespace lamina::jit {
namespace {

absl::StatusOr<std::vector<hlo::LiteralPtr>> run_evaluator(const hlo::ComputationPtr& program,
                                                           std::span<const hlo::LiteralPtr> arguments) {
  return hlo::evaluate(*program, arguments);
}

constexpr Executor kExecutors[] = {
    {"evaluator", run_evaluator},
};

}  // namespace

std::span<const Executor> executors() { return kExecutors; }

}  // namespace lamina::jit
