// From a fused group to a loop kernel and the run-time arguments of this shape.
//
// Contract: the kernel holds structure only (see kernel.h); two shapes of one structure give equal
// kernels and differ in `args` and extents. Dimensions of size 1 are dropped and neighbours that every access
// walks contiguously are joined.
#ifndef LAMINA_JIT_KERNEL_LOWER_H_
#define LAMINA_JIT_KERNEL_LOWER_H_

#include <vector>

#include "absl/status/statusor.h"
#include "cluster/fuse.h"
#include "jit/kernel/kernel.h"

namespace lamina::jit {

struct LoweredLoop {
  LoopKernel kernel;
  std::vector<hlo::Value> buffers;  // what each kernel buffer holds; none for memory of the kernel's own
  std::vector<int64_t> own_bytes;   // of which this is the size, by buffer
  std::vector<int64_t> args;
  int64_t outer = 1, inner = 1;  // output elements: outer x inner
  int64_t work = 0;              // elements visited times instructions
  int64_t instructions = 0;      // that one element runs, those of all steps of its loops among them
};

absl::StatusOr<LoweredLoop> lower_loop(const cluster::FusionPlan& plan, const cluster::Group& group);

}  // namespace lamina::jit

#endif  // LAMINA_JIT_KERNEL_LOWER_H_
