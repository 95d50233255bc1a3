#include "jit/cuda/graph.h"

#include "absl/cleanup/cleanup.h"

namespace lamina::jit::cuda {

Graph::~Graph() {
  const Driver& driver = gpu_.driver();
  if (made_) gpu_.call("letting go of a graph", driver.destroy_startable, made_).IgnoreError();
  if (!levels_.empty())
    gpu_.call("letting go of a graph", driver.destroy_graph, levels_.front().graph).IgnoreError();
}

absl::StatusOr<std::span<const NodeHandle>> Graph::before_next() {
  if (levels_.empty()) {
    GraphHandle graph = nullptr;
    if (absl::Status s = gpu_.call("making a graph", gpu_.driver().create_graph, &graph, 0U); !s.ok())
      return s;
    levels_.push_back({graph});
  }
  const NodeHandle& last = levels_.back().last;
  return std::span(&last, last ? 1 : 0);
}

template <typename Add, typename Change>
absl::Status Graph::put(bool is_call, Add add, Change change) {
  if (made_) {
    if (next_ >= nodes_.size() || nodes_[next_].is_call != is_call)
      return absl::InternalError("a step does not put the same on a graph as before");
    return change(nodes_[next_++].handle);
  }
  const absl::StatusOr<std::span<const NodeHandle>> before = before_next();
  if (!before.ok()) return before.status();
  NodeHandle node = nullptr;
  if (absl::Status s = add(&node, before->data(), before->size()); !s.ok()) return s;
  levels_.back().last = node;
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
        return gpu_.call("keeping a kernel", gpu_.driver().add_launch, node, levels_.back().graph, before,
                         count, it);
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
        return gpu_.call("keeping a call", gpu_.driver().add_graph, node, levels_.back().graph, before, count,
                         inner);
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

absl::Status Graph::copy(Address to, Address from, int64_t bytes) {
  if (bytes == 0) return absl::OkStatus();
  CopyNode copy;
  copy.from.device = from.bits();
  copy.to.device = to.bits();
  copy.bytes = static_cast<size_t>(bytes);
  const absl::StatusOr<std::span<const NodeHandle>> before = before_next();
  if (!before.ok()) return before.status();
  NodeHandle node = nullptr;
  const absl::Status status =
      gpu_.call("keeping a copy", gpu_.driver().add_copy, &node, levels_.back().graph, before->data(),
                before->size(), static_cast<const CopyNode*>(&copy), gpu_.context());
  levels_.back().last = node;
  return status;
}

absl::Status Graph::repeat(FunctionHandle loop_switch, Address answer,
                           absl::FunctionRef<absl::Status()> turn) {
  if (const auto made = before_next(); !made.ok()) return made.status();
  LoopNode loop;
  loop.context = gpu_.context();
  // Without a first value: it is set whenever the graph comes here.
  if (absl::Status s = gpu_.call("keeping a loop", gpu_.driver().create_condition, &loop.condition,
                                 levels_.back().graph, loop.context, 0U, 0U);
      !s.ok())
    return s;
  const auto set = [&] {
    uint64_t at = answer.bits();
    void* parameters[] = {&at, &loop.condition};
    return launch(loop_switch, 1, 1, parameters);
  };
  if (absl::Status s = set(); !s.ok()) return s;
  const absl::StatusOr<std::span<const NodeHandle>> before = before_next();
  NodeHandle node = nullptr;
  if (absl::Status s = gpu_.call("keeping a loop", gpu_.driver().add_loop, &node, levels_.back().graph,
                                 before->data(), static_cast<const void*>(nullptr), before->size(), &loop);
      !s.ok())
    return s;
  levels_.back().last = node;
  levels_.push_back({loop.turn[0]});
  absl::Status status = turn();
  if (status.ok()) status = set();
  levels_.pop_back();
  return status;
}

absl::Status Graph::make() {
  return gpu_.call("making a graph", gpu_.driver().make_startable, &made_, levels_.front().graph, 0ULL);
}

absl::Status Graph::start() { return stream_.enqueue("starting a graph", gpu_.driver().start_graph, made_); }

}  // namespace lamina::jit::cuda
