// Where the work of a step goes: a stream (jit/cuda/stream.h), or a graph in the making (jit/cuda/graph.h).
#ifndef LAMINA_JIT_CUDA_QUEUE_H_
#define LAMINA_JIT_CUDA_QUEUE_H_

#include <span>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "jit/cuda/gpu.h"

namespace lamina::jit::cuda {

class CudaStream;

class CudaQueue {
 public:
  explicit CudaQueue(Gpu& gpu) : gpu_(gpu) {}
  CudaQueue(const CudaQueue&) = delete;
  CudaQueue& operator=(const CudaQueue&) = delete;

  Gpu& gpu() const { return gpu_; }
  // Null for a graph in the making.
  virtual CudaStream* stream() { return nullptr; }
  // Blocks and their threads have one dimension, and shared memory of a fixed size.
  virtual absl::Status launch(FunctionHandle function, unsigned blocks, unsigned threads,
                              std::span<void*> parameters) = 0;
  // What `work` enqueues on the stream that it is given. It waits for nothing and takes no memory; the
  // device's context is current.
  virtual absl::Status call(absl::FunctionRef<absl::Status(StreamHandle)> work) = 0;
  // The same of a library: where the work fails, the device's fault if there is one.
  absl::Status call_library(absl::FunctionRef<absl::Status(StreamHandle)> work) {
    bool has_failed = false;
    const absl::Status enqueued = call([&](StreamHandle stream) {
      const absl::Status status = work(stream);
      has_failed = !status.ok();
      return status;
    });
    const absl::Status fault = has_failed ? find_fault() : absl::OkStatus();
    return fault.ok() ? enqueued : fault;
  }

 protected:
  ~CudaQueue() = default;

  // Whether it is the device that fails.
  virtual absl::Status find_fault() = 0;

  Gpu& gpu_;
};

}  // namespace lamina::jit::cuda

#endif  // LAMINA_JIT_CUDA_QUEUE_H_
