// The kinds of steps an executable is made of.
#ifndef LAMINA_JIT_PROGRAM_STEPS_H_
#define LAMINA_JIT_PROGRAM_STEPS_H_

#include <functional>
#include <memory>

#include "absl/status/statusor.h"
#include "jit/kernel/lower.h"
#include "jit/program/executable.h"
#include "jit/program/kernel_store.h"

namespace lamina::jit {

// Gives the slot of a value.
using SlotOf = std::function<int(const hlo::Value&)>;

absl::StatusOr<std::unique_ptr<Step>> make_loop_step(Engine& engine, const cluster::Plan& plan,
                                                     const cluster::Group& group, const SlotOf& slot_of);
// The node by the table of native ops (jit/cpu/native_op.h); null if it has no routine for it.
std::unique_ptr<Step> make_native_step(const hlo::Node& node, const SlotOf& slot_of);
// A dot, a convolution, a loop, a branch, or any other op by the evaluator's rule.
absl::StatusOr<std::unique_ptr<Step>> make_library_step(Engine& engine, const hlo::Node& node,
                                                        const SlotOf& slot_of);
// While, scan and case.
absl::StatusOr<std::unique_ptr<Step>> make_control_step(Engine& engine, const hlo::Node& node,
                                                        const SlotOf& slot_of);

}  // namespace lamina::jit

#endif  // LAMINA_JIT_PROGRAM_STEPS_H_
