// Steps that run programs inside: while, scan and case.
#ifndef LAMINA_JIT_PROGRAM_CONTROL_H_
#define LAMINA_JIT_PROGRAM_CONTROL_H_

#include <memory>

#include "absl/status/statusor.h"
#include "jit/program/step.h"

namespace lamina::jit {

absl::StatusOr<std::unique_ptr<Step>> make_control_step(Device& device, const hlo::Node& node,
                                                        const SlotOf& slot_of);

}  // namespace lamina::jit

#endif  // LAMINA_JIT_PROGRAM_CONTROL_H_
