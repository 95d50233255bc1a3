// Closed programs from recorded values.
#ifndef LAMINA_LAZY_REBUILD_H_
#define LAMINA_LAZY_REBUILD_H_

#include <span>
#include <vector>

#include "absl/status/statusor.h"
#include "hlo/computation.h"
#include "jit/program/specialization_cache.h"

namespace lamina::lazy {

// The graph between `leaves` (whole nodes) and `roots` with fresh parameters, one per result of each leaf.
absl::StatusOr<hlo::ComputationPtr> rebuild_with_parameters(std::span<const hlo::Value> roots,
                                                            std::span<const hlo::Value> leaves);

// The graph between `inputs` and `outputs` as a closed program: values from below `floor` that it uses are
// appended to `captured` and become further parameters; constants are copied.
absl::StatusOr<hlo::ComputationPtr> close_at_floor(std::span<const hlo::Value> outputs,
                                                   std::span<const hlo::Value> inputs, uint32_t floor,
                                                   std::vector<hlo::Value>* captured);

// With `giving_up`, as jit::Executable::run_giving_up. `lines`: of this run (lazy/profiled_lines.h).
absl::Status run_program(const jit::SpecializationPtr& entry, std::span<jit::BufferRef> arguments,
                         bool giving_up, std::vector<jit::BufferRef>& results, uint32_t lines = 0);

}  // namespace lamina::lazy

#endif  // LAMINA_LAZY_REBUILD_H_
