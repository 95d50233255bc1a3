// Work that a device keeps and starts as a whole: graphs of the driver.
//
// Contract: of one thread at a time. What is put on a graph becomes its nodes, one behind the other: launches
// as they are, calls of libraries by capture, on a stream of its own and in the mode that lets all threads do
// what they otherwise may. Once made it starts again and again; nodes may be changed, for the runs to come.
// After a failure it is of no more use. Ended while it runs it goes when it has run; what its kernels are of
// has to live until then. Ends at any time, also of a lost device.
#ifndef LAMINA_JIT_CUDA_GRAPH_H_
#define LAMINA_JIT_CUDA_GRAPH_H_

#include <cstddef>
#include <span>
#include <vector>

#include "jit/cuda/stream.h"

namespace lamina::jit::cuda {

class Graph final : public CudaQueue {
 public:
  // For runs on that stream.
  explicit Graph(CudaStream& stream) : CudaQueue(stream.gpu()), stream_(stream) {}
  ~Graph();

  absl::Status launch(FunctionHandle function, unsigned blocks, unsigned threads,
                      std::span<void*> parameters) override;
  absl::Status call(absl::FunctionRef<absl::Status(StreamHandle)> work) override;
  absl::Status find_fault() override { return gpu_.health(); }

  // Of all that was put on it so far.
  absl::Status make();
  // What is put on it from now on takes the place of this node and those behind it.
  void change_from(size_t node) { next_ = node; }
  absl::Status start();

  size_t nodes() const { return nodes_.size(); }
  bool is_call(size_t node) const { return nodes_[node].is_call; }

 private:
  struct Node {
    NodeHandle handle;
    bool is_call;
  };
  // What `add` or, of a graph that is made, `change` does for the next node.
  template <typename Add, typename Change>
  absl::Status put(bool is_call, Add add, Change change);
  absl::Status capture(absl::FunctionRef<absl::Status(StreamHandle)> work, GraphHandle* captured);

  CudaStream& stream_;
  GraphHandle graph_ = nullptr;
  StartableHandle made_ = nullptr;
  std::vector<Node> nodes_;
  size_t next_ = 0;
};

}  // namespace lamina::jit::cuda

#endif  // LAMINA_JIT_CUDA_GRAPH_H_
