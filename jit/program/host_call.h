// Steps that the host does: callbacks, and ops that no target has a form for, by the evaluator's rule.
#ifndef LAMINA_JIT_PROGRAM_HOST_CALL_H_
#define LAMINA_JIT_PROGRAM_HOST_CALL_H_

#include <memory>

#include "jit/program/step.h"

namespace lamina::jit {

// Runs on the thread that enqueues, which waits for the operands: they are read from the device, and the
// results written to it.
std::unique_ptr<Step> make_host_call(const hlo::Node& node, const SlotOf& slot_of);

}  // namespace lamina::jit

#endif  // LAMINA_JIT_PROGRAM_HOST_CALL_H_
