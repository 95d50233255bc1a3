// Captures and graphs of the stand-in for the CUDA driver (control.h).
#include <algorithm>
#include <atomic>
#include <map>
#include <memory>
#include <mutex>
#include <thread>
#include <type_traits>
#include <vector>

#include "hlo/strings.h"
#include "tests/jit/cuda_standin/standin.h"

using namespace lamina::jit::cuda;
using lamina::str_cat;
using standins::check_process;
using standins::count;
using standins::FakeQueues;
using standins::Work;

namespace lamina::jit::cuda {

struct Capture {
  CaptureMode mode;
  std::thread::id thread;
  std::vector<Work> works;  // one behind the other
  bool is_broken = false;
};

struct OpaqueNode {
  GraphHandle graph;
  size_t number;
};

}  // namespace lamina::jit::cuda

namespace {

struct Node {
  std::vector<size_t> after;
  std::vector<Work> works;  // of a kernel one, of a graph inside all
  bool is_launch;
};

}  // namespace

namespace lamina::jit::cuda {

struct OpaqueGraph {
  std::vector<Node> nodes;
  std::vector<std::unique_ptr<OpaqueNode>> handles;
};

struct OpaqueStartable {
  GraphHandle of;
  std::vector<Node> nodes;
};

}  // namespace lamina::jit::cuda

namespace {

std::atomic<int> disturbed_by_all{0};
thread_local int disturbed_here = 0;

// Those that there are.
class Graphs {
 public:
  static Graphs& get() {
    static auto* const graphs = new Graphs;
    return *graphs;
  }

  std::mutex mutex;
  std::map<GraphHandle, std::unique_ptr<OpaqueGraph>> graphs;
  std::map<StartableHandle, std::unique_ptr<OpaqueStartable>> startables;

  GraphHandle add(std::unique_ptr<OpaqueGraph> made) {
    std::lock_guard lock(mutex);
    const GraphHandle handle = made.get();
    graphs[handle] = std::move(made);
    return handle;
  }
  bool lives(GraphHandle graph) {
    std::lock_guard lock(mutex);
    return graphs.contains(graph);
  }
};

Result current(const char* what) {
  check_process();
  if (!standins::current_context()) {
    standins::violation(str_cat(what, " while no context is current"));
    return Result::kInvalidContext;
  }
  return standins::enter(standins::current_context(), what);
}

Result failure(StandinCall call) { return static_cast<Result>(standins::failure(call)); }

bool collide(const Work& a, const Work& b) {
  using Access = FakeQueues::Access;
  for (const auto& x : a.touches)
    for (const auto& y : b.touches)
      if ((x.access != Access::kRead || y.access != Access::kRead) &&
          x.at.bits() < y.at.bits() + static_cast<uint64_t>(y.bytes) &&
          y.at.bits() < x.at.bits() + static_cast<uint64_t>(x.bytes))
        return true;
  return false;
}

// Dependencies are on nodes that were there before.
void check_order(const std::vector<Node>& nodes) {
  std::vector<std::vector<bool>> known(nodes.size(), std::vector<bool>(nodes.size()));
  for (size_t n = 0; n < nodes.size(); ++n) {
    for (size_t a : nodes[n].after) {
      known[n][a] = true;
      for (size_t i = 0; i < a; ++i) known[n][i] = known[n][i] || known[a][i];
    }
    for (size_t other = 0; other < n; ++other)
      for (const Work& x : nodes[n].works)
        for (const Work& y : nodes[other].works)
          if (!known[n][other] && collide(x, y)) {
            standins::violation(str_cat("nothing orders two nodes of a graph, ", y.what, " and ", x.what));
            return;
          }
  }
}

Result add(NodeHandle* node, GraphHandle graph, const NodeHandle* after, size_t number, Node made) {
  if (!standins::made(kStandinForgetsOrder))
    for (size_t i = 0; i < number; ++i) {
      if (after[i]->graph != graph) return Result::kInvalidValue;
      made.after.push_back(after[i]->number);
    }
  graph->handles.push_back(std::make_unique<OpaqueNode>(graph, graph->nodes.size()));
  graph->nodes.push_back(std::move(made));
  *node = graph->handles.back().get();
  return Result::kSuccess;
}

Result launch_of(const LaunchNode& launch, Node* node) {
  if (!launch.function || launch.kernel || launch.extra) return Result::kInvalidValue;
  node->is_launch = true;
  node->works.resize(1);
  return standins::work_of(launch.function, launch.grid, launch.block, launch.parameters, &node->works[0]);
}

// The node that is to be changed.
Result changed(StartableHandle graph, NodeHandle node, Node** out) {
  if (const Result r = current("a change of a graph"); r != Result::kSuccess) return r;
  if (const Result r = failure(kStandinChangeGraph); r != Result::kSuccess) return r;
  count(&StandinCounts::graph_changes);
  if (!Graphs::get().lives(graph->of)) {
    standins::violation("a graph is changed by a node of one that is gone");
    return Result::kInvalidValue;
  }
  if (node->graph != graph->of) return Result::kInvalidValue;
  *out = &graph->nodes[node->number];
  return Result::kSuccess;
}

}  // namespace

namespace standins {

void enqueue(StreamHandle stream, Work work) {
  if (stream->capture)
    stream->capture->works.push_back(std::move(work));
  else
    run(stream, std::move(work));
}

Result check_undisturbed(const char* what) {
  if (disturbed_here == 0 && disturbed_by_all == 0) return Result::kSuccess;
  violation(str_cat(what, " during a capture that this disturbs"));
  return Result::kCaptureUnsupported;
}

Result check_uncaptured(StreamHandle stream, const char* what) {
  if (!stream->capture) return Result::kSuccess;
  stream->capture->is_broken = true;
  violation(str_cat(what, " on a stream that is captured"));
  return Result::kCaptureUnsupported;
}

int64_t live_graphs() {
  Graphs& all = Graphs::get();
  std::lock_guard lock(all.mutex);
  return static_cast<int64_t>(all.graphs.size() + all.startables.size());
}

}  // namespace standins

#pragma GCC visibility push(default)
extern "C" {

Result cuStreamBeginCapture_v2(StreamHandle stream, CaptureMode mode) {
  if (const Result r = standins::enter(stream->context, "a capture"); r != Result::kSuccess) return r;
  if (const Result r = failure(kStandinCapture); r != Result::kSuccess) return r;
  if (stream->capture) return Result::kIllegalState;
  if (mode != CaptureMode::kRelaxed)
    standins::violation("a capture that restricts what threads of the process may do");
  if (mode == CaptureMode::kGlobal) ++disturbed_by_all;
  if (mode == CaptureMode::kThreadLocal) ++disturbed_here;
  count(&StandinCounts::captures);
  stream->capture = new Capture{mode, std::this_thread::get_id(), {}};
  return Result::kSuccess;
}

Result cuStreamEndCapture(StreamHandle stream, GraphHandle* graph) {
  *graph = nullptr;
  if (const Result r = standins::enter(stream->context, "a capture"); r != Result::kSuccess) return r;
  if (!stream->capture) return Result::kIllegalState;
  const std::unique_ptr<Capture> capture(std::exchange(stream->capture, nullptr));
  if (capture->thread != std::this_thread::get_id())
    standins::violation("a capture is ended by another thread than began it");
  if (capture->mode == CaptureMode::kGlobal) --disturbed_by_all;
  if (capture->mode == CaptureMode::kThreadLocal) --disturbed_here;
  if (const Result r = failure(kStandinEndCapture); r != Result::kSuccess) return r;
  if (capture->is_broken) return Result::kCaptureInvalidated;
  auto made = std::make_unique<OpaqueGraph>();
  for (Work& work : capture->works) {
    const size_t n = made->nodes.size();
    made->nodes.push_back(
        {n == 0 ? std::vector<size_t>() : std::vector<size_t>{n - 1}, {std::move(work)}, false});
  }
  *graph = Graphs::get().add(std::move(made));
  return Result::kSuccess;
}

Result cuGraphCreate(GraphHandle* graph, unsigned flags) {
  if (const Result r = current("a graph"); r != Result::kSuccess) return r;
  if (flags != 0) return Result::kInvalidValue;
  *graph = Graphs::get().add(std::make_unique<OpaqueGraph>());
  return Result::kSuccess;
}

Result cuGraphDestroy(GraphHandle graph) {
  check_process();
  std::lock_guard lock(Graphs::get().mutex);
  if (Graphs::get().graphs.erase(graph) == 1) return Result::kSuccess;
  standins::violation("a graph ends twice, or is none");
  return Result::kInvalidValue;
}

Result cuGraphAddKernelNode_v2(NodeHandle* node, GraphHandle graph, const NodeHandle* after, size_t number,
                               const LaunchNode* launch) {
  if (const Result r = current("a graph"); r != Result::kSuccess) return r;
  Node made{};
  if (const Result r = launch_of(*launch, &made); r != Result::kSuccess) return r;
  return add(node, graph, after, number, std::move(made));
}

Result cuGraphAddChildGraphNode(NodeHandle* node, GraphHandle graph, const NodeHandle* after, size_t number,
                                GraphHandle inner) {
  if (const Result r = current("a graph"); r != Result::kSuccess) return r;
  Node made{};
  for (const Node& n : inner->nodes) made.works.insert(made.works.end(), n.works.begin(), n.works.end());
  return add(node, graph, after, number, std::move(made));
}

Result cuGraphInstantiateWithFlags(StartableHandle* made, GraphHandle graph, unsigned long long flags) {
  if (const Result r = current("a graph"); r != Result::kSuccess) return r;
  if (const Result r = failure(kStandinMakeGraph); r != Result::kSuccess) return r;
  if (flags != 0) return Result::kInvalidValue;
  count(&StandinCounts::graphs);
  auto startable = std::make_unique<OpaqueStartable>(graph, graph->nodes);
  *made = startable.get();
  std::lock_guard lock(Graphs::get().mutex);
  Graphs::get().startables[*made] = std::move(startable);
  return Result::kSuccess;
}

Result cuGraphExecDestroy(StartableHandle graph) {
  check_process();
  std::lock_guard lock(Graphs::get().mutex);
  if (Graphs::get().startables.erase(graph) == 1) return Result::kSuccess;
  standins::violation("a graph ends twice, or is none");
  return Result::kInvalidValue;
}

Result cuGraphExecKernelNodeSetParams_v2(StartableHandle graph, NodeHandle node, const LaunchNode* launch) {
  Node* it = nullptr;
  if (const Result r = changed(graph, node, &it); r != Result::kSuccess) return r;
  if (!it->is_launch) return Result::kInvalidValue;
  if (standins::made(kStandinForgetsChanges)) return Result::kSuccess;
  return launch_of(*launch, it);
}

Result cuGraphExecChildGraphNodeSetParams(StartableHandle graph, NodeHandle node, GraphHandle inner) {
  Node* it = nullptr;
  if (const Result r = changed(graph, node, &it); r != Result::kSuccess) return r;
  std::vector<Work> works;
  for (const Node& n : inner->nodes) works.insert(works.end(), n.works.begin(), n.works.end());
  if (it->is_launch) return Result::kInvalidValue;
  if (works.size() != it->works.size()) return Result::kGraphUpdateFailure;
  if (!standins::made(kStandinForgetsChanges)) it->works = std::move(works);
  return Result::kSuccess;
}

Result cuGraphLaunch(StartableHandle graph, StreamHandle stream) {
  if (const Result r = standins::enter(stream->context, "a graph"); r != Result::kSuccess) return r;
  if (const Result r = standins::check_uncaptured(stream, "a graph"); r != Result::kSuccess) return r;
  if (const Result r = failure(kStandinStartGraph); r != Result::kSuccess) return r;
  count(&StandinCounts::graph_starts);
  check_order(graph->nodes);
  for (const Node& node : graph->nodes)
    for (const Work& work : node.works) {
      if (work.function && !standins::is_loaded(work.function)) {
        standins::violation("a graph starts a kernel whose module is gone");
        return Result::kInvalidHandle;
      }
      standins::run(stream, work);
    }
  return Result::kSuccess;
}
}
#pragma GCC visibility pop

#define LAMINA_CUDA_CALL(member, symbol, parameters)
#define LAMINA_CUDA_GRAPH_CALL(member, symbol, parameters) \
  static_assert(std::is_same_v<decltype(&symbol), decltype(Driver::member)>);
#include "jit/cuda/driver.def"
#undef LAMINA_CUDA_CALL
