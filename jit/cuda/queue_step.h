// Steps that do nothing but put work on a queue.
#ifndef LAMINA_JIT_CUDA_QUEUE_STEP_H_
#define LAMINA_JIT_CUDA_QUEUE_STEP_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "jit/cuda/kernels.h"
#include "jit/cuda/stream.h"
#include "jit/program/step.h"

namespace lamina::jit::cuda {

// Contract: run after run a step makes the same calls of the queue, which differ in nothing but the addresses
// of its places. So they may be kept and made anew without the step (jit/cuda/graph.h).
class QueueStep : public Step {
 public:
  explicit QueueStep(CudaKernels& kernels) : kernels_(kernels) {}

  absl::Status enqueue(Frame& frame) const final {
    kernels_.count_runs(kernel_runs());
    return enqueue_on(static_cast<CudaStream&>(frame.device.stream()), frame);
  }
  bool may_take_long() const final { return false; }

  virtual absl::Status enqueue_on(CudaQueue& queue, const Frame& frame) const = 0;
  // Whose addresses it gives the queue, once the step is placed; some more than once.
  virtual std::vector<int> used_places() const = 0;
  // Of the queue.
  virtual size_t calls() const = 0;
  // Of kernels of ours, as counters have them.
  virtual int64_t kernel_runs() const = 0;
  CudaKernels& store() const { return kernels_; }

 private:
  CudaKernels& kernels_;
};

}  // namespace lamina::jit::cuda

#endif  // LAMINA_JIT_CUDA_QUEUE_STEP_H_
