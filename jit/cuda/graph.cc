#include "jit/cuda/graph.h"

#include "absl/cleanup/cleanup.h"

namespace lamina::jit::cuda {

Graph::~Graph() {
  const Driver& driver = gpu_.driver();
  if (made_) gpu_.call("letting go of a graph", driver.destroy_startable, made_).IgnoreError();
  if (graph_) gpu_.call("letting go of a graph", driver.destroy_graph, graph_).IgnoreError();
}

template <typename Add, typename Change>
absl::Status Graph::put(bool is_call, Add add, Change change) {
  if (made_) {
    if (next_ >= nodes_.size() || nodes_[next_].is_call != is_call)
      return absl::InternalError("a step does not put the same on a graph as before");
    return change(nodes_[next_++].handle);
  }
  if (!graph_)
    if (absl::Status s = gpu_.call("making a graph", gpu_.driver().create_graph, &graph_, 0U); !s.ok())
      return s;
  NodeHandle node = nullptr;
  const NodeHandle* const before = nodes_.empty() ? nullptr : &nodes_.back().handle;
  if (absl::Status s = add(&node, before, before ? size_t{1} : size_t{0}); !s.ok()) return s;
  nodes_.push_back({node, is_call});
  return absl::OkStatus();
}

absl::Status Graph::launch(FunctionHandle function, unsigned blocks, unsigned threads,
                           std::span<void*> parameters) {
  LaunchNode launch;
  launch.function = function;
  launch.grid[0] = blocks;
  launch.block[0] = threads;
  launch.parameters = parameters.data();
  const LaunchNode* const it = &launch;
  return put(
      false,
      [&](NodeHandle* node, const NodeHandle* before, size_t count) {
        return gpu_.call("keeping a kernel", gpu_.driver().add_launch, node, graph_, before, count, it);
      },
      [&](NodeHandle node) {
        return gpu_.call("changing a graph", gpu_.driver().change_launch, made_, node, it);
      });
}

absl::Status Graph::call(absl::FunctionRef<absl::Status(StreamHandle)> work) {
  GraphHandle inner = nullptr;
  const absl::Cleanup let_go = [&] {
    if (inner) gpu_.call("letting go of a graph", gpu_.driver().destroy_graph, inner).IgnoreError();
  };
  if (absl::Status s = capture(work, &inner); !s.ok()) return s;
  // Both copy it.
  return put(
      true,
      [&](NodeHandle* node, const NodeHandle* before, size_t count) {
        return gpu_.call("keeping a call", gpu_.driver().add_graph, node, graph_, before, count, inner);
      },
      [&](NodeHandle node) {
        return gpu_.call("changing a graph", gpu_.driver().change_graph, made_, node, inner);
      });
}

absl::Status Graph::capture(absl::FunctionRef<absl::Status(StreamHandle)> work, GraphHandle* captured) {
  absl::StatusOr<StreamHandle> on = stream_.take_capture_stream();
  if (!on.ok()) return on.status();
  const Driver& driver = gpu_.driver();
  absl::Status status = gpu_.call("capturing", driver.begin_capture, *on, CaptureMode::kRelaxed);
  if (status.ok()) {
    status = gpu_.within([&] { return work(*on); });
    // Whatever became of the work: what was captured of it has to go, and the stream back to itself.
    const absl::Status ended = gpu_.call("capturing", driver.end_capture, *on, captured);
    if (status.ok()) status = ended;
  }
  if (status.ok())
    stream_.give_back_capture_stream(*on);
  else  // nobody knows what state it is in
    gpu_.call("letting go of a stream", driver.destroy_stream, *on).IgnoreError();
  return status;
}

absl::Status Graph::make() {
  return gpu_.call("making a graph", gpu_.driver().make_startable, &made_, graph_, 0ULL);
}

absl::Status Graph::start() { return stream_.enqueue("starting a graph", gpu_.driver().start_graph, made_); }

}  // namespace lamina::jit::cuda
