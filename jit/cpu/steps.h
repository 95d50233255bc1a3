// The steps of the CPU.
#ifndef LAMINA_JIT_CPU_STEPS_H_
#define LAMINA_JIT_CPU_STEPS_H_

#include <memory>
#include <span>

#include "absl/status/statusor.h"
#include "cluster/fuse.h"
#include "jit/program/step.h"
#include "jit/program/target.h"

namespace lamina::jit {

class CpuClient;

absl::StatusOr<std::unique_ptr<Step>> make_loop_step(CpuClient& cpu, const cluster::FusionPlan& plan,
                                                     const cluster::Group& group, const SlotOf& slot_of);
// Loop steps as one, as Target::chain.
std::unique_ptr<const Step> make_chain_step(CpuClient& cpu, std::span<const Step* const> steps, int64_t rows,
                                            int64_t block);
// See Target::batch: small loops of one kernel and one extent that follow each other.
Target::Batch make_batch_step(std::span<const Step* const> steps);
// The node by the table of native ops (jit/cpu/native_op.h); null if it has no routine for it.
std::unique_ptr<Step> make_native_step(CpuClient& cpu, const hlo::Node& node, const SlotOf& slot_of);
// By a routine, a dot or a convolution; null for other ops.
std::unique_ptr<Step> make_library_step(CpuClient& cpu, const cluster::Group& group, const SlotOf& slot_of);

}  // namespace lamina::jit

#endif  // LAMINA_JIT_CPU_STEPS_H_
