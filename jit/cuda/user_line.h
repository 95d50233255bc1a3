// Errors of steps, with the operation and the user's line.
#ifndef LAMINA_JIT_CUDA_USER_LINE_H_
#define LAMINA_JIT_CUDA_USER_LINE_H_

#include "absl/status/status.h"
#include "hlo/graph.h"

namespace lamina::jit::cuda {

// What a step was made for.
class UserLine {
 public:
  explicit UserLine(const hlo::Node& node) : op_(node.op()), location_(node.location()) {}
  // Says where what failed was recorded. A device that is lost says itself what was going on.
  absl::Status add_to(absl::Status status) const;

 private:
  hlo::Op op_;
  hlo::LocationId location_;
};

}  // namespace lamina::jit::cuda

#endif  // LAMINA_JIT_CUDA_USER_LINE_H_
