// Library ops as loop kernels: for devices that run those, and have no routine for the op.
//
// Contract: the bits are the evaluator's (hlo/rules). Every element of a result is computed by itself, or
// every row of a sort, so that any number of threads may share the work. A sort is one kernel, a scatter of
// many vectors a sort of their targets and another one, a running sum two for each power of the group's size.
// Says in words what has no such form, or one that is much too slow.
#ifndef LAMINA_JIT_KERNEL_LOWER_CALL_H_
#define LAMINA_JIT_KERNEL_LOWER_CALL_H_

#include <vector>

#include "jit/kernel/lower.h"

namespace lamina::jit {

// Kernels that run one after the other.
struct KernelSequence {
  struct Part {
    LoweredLoop loop;
    std::vector<int> shared;  // by buffer: the number of the memory that it is; -1: that of its value
  };
  std::vector<Part> parts;
  std::vector<int64_t> shared_bytes;  // of the memory that they share, by number
};

absl::StatusOr<KernelSequence> lower_call(const cluster::FusionPlan& plan, const cluster::Group& group);
// Of a group of either kind: a loop is a sequence of one.
absl::StatusOr<KernelSequence> lower_group(const cluster::FusionPlan& plan, const cluster::Group& group);

// By subject; lower_call has the table.
absl::StatusOr<KernelSequence> lower_dot(const cluster::FusionPlan& plan, const cluster::Group& group);
absl::StatusOr<KernelSequence> lower_convolution(const cluster::FusionPlan& plan,
                                                 const cluster::Group& group);
absl::StatusOr<KernelSequence> lower_reduce_window(const cluster::FusionPlan& plan,
                                                   const cluster::Group& group);
absl::StatusOr<KernelSequence> lower_select_and_scatter(const cluster::FusionPlan& plan,
                                                        const cluster::Group& group);
absl::StatusOr<KernelSequence> lower_sort(const cluster::FusionPlan& plan, const cluster::Group& group);
absl::StatusOr<KernelSequence> lower_cumsum(const cluster::FusionPlan& plan, const cluster::Group& group);
absl::StatusOr<KernelSequence> lower_scatter(const cluster::FusionPlan& plan, const cluster::Group& group);

}  // namespace lamina::jit

#endif  // LAMINA_JIT_KERNEL_LOWER_CALL_H_
