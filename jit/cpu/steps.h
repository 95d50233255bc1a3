// The steps of the CPU.
#ifndef LAMINA_JIT_CPU_STEPS_H_
#define LAMINA_JIT_CPU_STEPS_H_

#include <memory>
#include <span>

#include "absl/status/statusor.h"
#include "cluster/fuse.h"
#include "jit/cpu/kernel_store.h"
#include "jit/program/step.h"
#include "jit/program/target.h"

namespace lamina::jit {

class CpuClient;

// A step that may be part of a chain: those with a leading extent.
class RowStep : public Step {
 public:
  // How it is to run, asked once for a run of the chain.
  virtual Tier row_tier() const = 0;
  // The part [begin, end) of the leading dimension, on the calling thread.
  virtual absl::Status run_rows(const Frame& frame, const Tier& tier, int64_t begin, int64_t end) const = 0;
};

absl::StatusOr<std::unique_ptr<Step>> make_loop_step(CpuClient& cpu, const cluster::FusionPlan& plan,
                                                     const cluster::Group& group, const SlotOf& slot_of);
// RowSteps as one, as Target::chain.
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
