// Captures and graphs of the stand-in for the CUDA driver (control.h).
#include <algorithm>
#include <atomic>
#include <cstring>
#include <map>
#include <memory>
#include <mutex>
#include <random>
#include <thread>
#include <type_traits>
#include <vector>

#include "hlo/strings.h"
#include "jit/cuda/loop_switch.h"
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

enum class NodeKind { kLaunch, kCopy, kGraph, kLoop };

struct Node {
  std::vector<size_t> after;
  std::vector<Work> works;  // of a kernel one, of a graph inside all
  NodeKind kind;
  // Of a loop: the graph of a turn, and its nodes when all is made.
  GraphHandle turn = nullptr;
  ConditionHandle condition = 0;
  std::shared_ptr<const std::vector<Node>> made_turn = nullptr;
};

}  // namespace

namespace lamina::jit::cuda {

struct OpaqueGraph {
  std::vector<Node> nodes;
  std::vector<std::unique_ptr<OpaqueNode>> handles;
  // Of loops, which it owns.
  std::vector<std::unique_ptr<OpaqueGraph>> turns;
  GraphHandle itself = this;
  GraphHandle whole = this;  // which this is part of
  int startables = 0;
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

  // What kernels set and loops look at. They stay: a graph may end before it has run.
  struct Condition {
    GraphHandle graph, whole;
    ContextHandle context;
    bool has_loop = false, is_set = false, value = false;
  };

  std::mutex mutex;
  std::map<ConditionHandle, Condition> conditions;
  ConditionHandle next_condition = 0x100'0000;
  std::mt19937_64 random{7};
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

Graphs::Condition* condition_of(ConditionHandle handle) {
  std::lock_guard lock(Graphs::get().mutex);
  const auto found = Graphs::get().conditions.find(handle);
  return found == Graphs::get().conditions.end() ? nullptr : &found->second;
}

bool has_loops(const OpaqueGraph& graph) {
  return std::any_of(graph.nodes.begin(), graph.nodes.end(),
                     [](const Node& n) { return n.kind == NodeKind::kLoop; });
}

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
  if (standins::made(kStandinSetsEarly) && !made.works.empty() && !made.after.empty() &&
      made.works[0].what == str_cat("kernel ", kLoopSwitch))
    made.after = graph->nodes[made.after[0]].after;
  graph->handles.push_back(std::make_unique<OpaqueNode>(graph, graph->nodes.size()));
  graph->nodes.push_back(std::move(made));
  *node = graph->handles.back().get();
  return Result::kSuccess;
}

// What nodes one behind the other find and leave.
std::vector<FakeQueues::Touch> touches_of(const std::vector<Node>& nodes) {
  using Access = FakeQueues::Access;
  std::vector<FakeQueues::Touch> out, written;
  for (const Node& node : nodes)
    for (const Work& work : node.works) {
      const std::vector<FakeQueues::Touch> before = written;
      for (const FakeQueues::Touch& t : work.touches) {
        const bool is_own = std::any_of(before.begin(), before.end(), [&](const FakeQueues::Touch& w) {
          return w.at.bits() <= t.at.bits() &&
                 t.at.bits() + static_cast<uint64_t>(t.bytes) <= w.at.bits() + static_cast<uint64_t>(w.bytes);
        });
        if (t.access != Access::kRead || !is_own) out.push_back(t);
        // A loop may have no turn.
        if (t.access != Access::kRead && node.kind != NodeKind::kLoop) written.push_back(t);
      }
    }
  return out;
}

// All of it, in some order that its nodes allow.
void run_nodes(const std::vector<Node>& nodes) {
  std::vector<bool> done(nodes.size());
  for (size_t left = nodes.size(); left > 0; --left) {
    std::vector<size_t> ready;
    for (size_t n = 0; n < nodes.size(); ++n)
      if (!done[n] &&
          std::all_of(nodes[n].after.begin(), nodes[n].after.end(), [&](size_t a) { return done[a]; }))
        ready.push_back(n);
    size_t next = 0;
    {
      std::lock_guard lock(Graphs::get().mutex);
      next = ready[Graphs::get().random() % ready.size()];
    }
    for (const Work& work : nodes[next].works) {
      if (nodes[next].kind != NodeKind::kLoop)
        count(work.kind == FakeQueues::Kind::kLaunch ? &StandinCounts::launches : &StandinCounts::transfers);
      work.run();
    }
    done[next] = true;
  }
}

void run_loop(ConditionHandle handle, const std::vector<Node>& turn) {
  constexpr int kMostTurns = 100'000;
  Graphs::Condition& condition = *condition_of(handle);
  for (int turns = 0;; ++turns) {
    if (!std::exchange(condition.is_set, false))
      return standins::violation(turns == 0 ? "a loop begins before a kernel has said whether it goes on"
                                            : "no kernel of a loop's turn says whether it goes on");
    if (!condition.value) return;
    if (turns == kMostTurns) return standins::violation("a loop does not end");
    count(&StandinCounts::turns);
    run_nodes(turn);
  }
}

// As a graph is when it is made: those inside are part of it, and what they touch is known.
std::vector<Node> made_nodes(const OpaqueGraph& graph) {
  std::vector<Node> out = graph.nodes;
  for (Node& node : out) {
    if (node.kind != NodeKind::kLoop) continue;
    node.made_turn = std::make_shared<const std::vector<Node>>(made_nodes(*node.turn));
    Work loop{FakeQueues::Kind::kLaunch, "a loop", touches_of(*node.made_turn),
              [condition = node.condition, turn = node.made_turn] { run_loop(condition, *turn); }};
    loop.touches.push_back({lamina::jit::Address(node.condition), 8, FakeQueues::Access::kRead});
    node.works = {std::move(loop)};
  }
  return out;
}

void check_turns(const std::vector<Node>& nodes) {
  for (const Node& node : nodes) {
    if (!node.made_turn) continue;
    check_order(*node.made_turn);
    check_turns(*node.made_turn);
  }
}

bool are_loaded(const std::vector<Node>& nodes) {
  return std::all_of(nodes.begin(), nodes.end(), [](const Node& node) {
    return (!node.made_turn || are_loaded(*node.made_turn)) &&
           std::all_of(node.works.begin(), node.works.end(),
                       [](const Work& work) { return !work.function || standins::is_loaded(work.function); });
  });
}

Result launch_of(const LaunchNode& launch, Node* node) {
  if (!launch.function || launch.kernel || launch.extra) return Result::kInvalidValue;
  node->kind = NodeKind::kLaunch;
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

StandinKernel loop_switch() {
  return {kLoopSwitch, 1, 2,
          [](const uint64_t*, void* sink, void (*add)(void*, int, int64_t, bool)) {
            add(sink, 0, 1, false);
            add(sink, 1, 8, true);
          },
          [](const uint64_t* parameters, unsigned, unsigned) {
            if (made(kStandinKeepsConditions)) return;
            Graphs::Condition* const condition = condition_of(parameters[1]);
            if (!condition) return violation("a kernel sets a condition that is none");
            condition->is_set = true;
            condition->value = *reinterpret_cast<const unsigned char*>(parameters[0]) != 0;
          }};
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
        {n == 0 ? std::vector<size_t>() : std::vector<size_t>{n - 1}, {std::move(work)}, NodeKind::kGraph});
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
  std::erase_if(Graphs::get().conditions,
                [&](const auto& c) { return c.second.whole == graph && !c.second.has_loop; });
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
  if (has_loops(*inner)) return Result::kInvalidValue;
  Node made{};
  made.kind = NodeKind::kGraph;
  for (const Node& n : inner->nodes) made.works.insert(made.works.end(), n.works.begin(), n.works.end());
  return add(node, graph, after, number, std::move(made));
}

Result cuGraphAddMemcpyNode(NodeHandle* node, GraphHandle graph, const NodeHandle* after, size_t number,
                            const CopyNode* copy, ContextHandle context) {
  if (const Result r = current("a graph"); r != Result::kSuccess) return r;
  const CopyNode::Side &from = copy->from, &to = copy->to;
  for (const CopyNode::Side* side : {&from, &to})
    if (side->x || side->y || side->z || side->level || side->memory != static_cast<int>(kMemoryOfDevice) ||
        side->host || side->array || side->reserved || !side->device)
      return Result::kInvalidValue;
  if (copy->bytes == 0 || copy->height != 1 || copy->depth != 1 || context != standins::current_context())
    return Result::kInvalidValue;
  Node made{};
  made.kind = NodeKind::kCopy;
  const auto bytes = static_cast<int64_t>(copy->bytes);
  using lamina::jit::Address;
  if (!standins::made(kStandinSkipsCopies))
    made.works.push_back({FakeQueues::Kind::kTransfer,
                          "a copy",
                          {{Address(to.device), bytes, FakeQueues::Access::kWrite},
                           {Address(from.device), bytes, FakeQueues::Access::kRead}},
                          [to = to.device, from = from.device, size = copy->bytes] {
                            std::memcpy(standins::bytes_at(to), standins::bytes_at(from), size);
                          }});
  return add(node, graph, after, number, std::move(made));
}

Result cuGraphConditionalHandleCreate(ConditionHandle* condition, GraphHandle graph, ContextHandle context,
                                      unsigned first_value, unsigned flags) {
  if (const Result r = current("a condition"); r != Result::kSuccess) return r;
  if (const Result r = failure(kStandinMakeLoop); r != Result::kSuccess) return r;
  if (flags != 0 || first_value != 0 || context != standins::current_context()) return Result::kInvalidValue;
  std::lock_guard lock(Graphs::get().mutex);
  // Looks like no address of a device.
  *condition = Graphs::get().next_condition += 16;
  Graphs::get().conditions[*condition] = {graph, graph->whole, context};
  return Result::kSuccess;
}

Result cuGraphAddNode_v2(NodeHandle* node, GraphHandle graph, const NodeHandle* after, const void* edges,
                         size_t number, LoopNode* loop) {
  if (const Result r = current("a loop"); r != Result::kSuccess) return r;
  Graphs::Condition* const condition = condition_of(loop->condition);
  const auto is_zero = [](const auto& values) {
    return std::all_of(std::begin(values), std::end(values), [](auto v) { return v == 0; });
  };
  if (loop->type != LoopNode::kConditional || loop->kind != LoopNode::kWhile || loop->size != 1 || edges ||
      !is_zero(loop->reserved0) || !is_zero(loop->of_other_types) || loop->reserved != 0)
    return Result::kInvalidValue;
  // A condition is of one loop, in the graph that it was made for.
  if (!condition || condition->graph != graph || condition->has_loop || loop->context != condition->context)
    return Result::kInvalidValue;
  condition->has_loop = true;
  OpaqueGraph& turn = *graph->turns.emplace_back(std::make_unique<OpaqueGraph>());
  turn.whole = graph->whole;
  Node made{};
  made.kind = NodeKind::kLoop;
  made.turn = &turn;
  made.condition = loop->condition;
  loop->turn = &turn.itself;
  return add(node, graph, after, number, std::move(made));
}

Result cuGraphInstantiateWithFlags(StartableHandle* made, GraphHandle graph, unsigned long long flags) {
  if (const Result r = current("a graph"); r != Result::kSuccess) return r;
  if (const Result r = failure(kStandinMakeGraph); r != Result::kSuccess) return r;
  if (flags != 0 || graph->whole != graph) return Result::kInvalidValue;
  // One with loops is made once at a time, and each condition is one of a loop.
  if (has_loops(*graph) && graph->startables > 0) return Result::kInvalidValue;
  {
    std::lock_guard lock(Graphs::get().mutex);
    for (const auto& [handle, condition] : Graphs::get().conditions)
      if (!condition.has_loop && condition.whole == graph) return Result::kInvalidValue;
  }
  count(&StandinCounts::graphs);
  ++graph->startables;
  auto startable = std::make_unique<OpaqueStartable>(graph, made_nodes(*graph));
  check_turns(startable->nodes);
  *made = startable.get();
  std::lock_guard lock(Graphs::get().mutex);
  Graphs::get().startables[*made] = std::move(startable);
  return Result::kSuccess;
}

Result cuGraphExecDestroy(StartableHandle graph) {
  check_process();
  std::lock_guard lock(Graphs::get().mutex);
  const auto made = Graphs::get().startables.find(graph);
  if (made != Graphs::get().startables.end()) {
    if (Graphs::get().graphs.contains(graph->of)) --graph->of->startables;
    Graphs::get().startables.erase(made);
    return Result::kSuccess;
  }
  standins::violation("a graph ends twice, or is none");
  return Result::kInvalidValue;
}

Result cuGraphExecKernelNodeSetParams_v2(StartableHandle graph, NodeHandle node, const LaunchNode* launch) {
  Node* it = nullptr;
  if (const Result r = changed(graph, node, &it); r != Result::kSuccess) return r;
  if (it->kind != NodeKind::kLaunch) return Result::kInvalidValue;
  if (standins::made(kStandinForgetsChanges)) return Result::kSuccess;
  return launch_of(*launch, it);
}

Result cuGraphExecChildGraphNodeSetParams(StartableHandle graph, NodeHandle node, GraphHandle inner) {
  Node* it = nullptr;
  if (const Result r = changed(graph, node, &it); r != Result::kSuccess) return r;
  std::vector<Work> works;
  for (const Node& n : inner->nodes) works.insert(works.end(), n.works.begin(), n.works.end());
  if (it->kind != NodeKind::kGraph) return Result::kInvalidValue;
  if (works.size() != it->works.size()) return Result::kGraphUpdateFailure;
  if (!standins::made(kStandinForgetsChanges)) it->works = std::move(works);
  return Result::kSuccess;
}

Result cuGraphLaunch(StartableHandle graph, StreamHandle stream) {
  if (const Result r = standins::enter(stream->context, "a graph"); r != Result::kSuccess) return r;
  if (const Result r = standins::check_uncaptured(stream, "a graph"); r != Result::kSuccess) return r;
  if (const Result r = failure(kStandinStartGraph); r != Result::kSuccess) return r;
  count(&StandinCounts::graph_starts);
  if (!are_loaded(graph->nodes)) {
    standins::violation("a graph starts a kernel whose module is gone");
    return Result::kInvalidHandle;
  }
  check_order(graph->nodes);
  for (const Node& node : graph->nodes)
    for (const Work& work : node.works) standins::run(stream, work);
  return Result::kSuccess;
}
}
#pragma GCC visibility pop

#define LAMINA_CUDA_CALL(member, symbol, parameters)
#define LAMINA_CUDA_GRAPH_CALL(member, symbol, parameters) \
  static_assert(std::is_same_v<decltype(&symbol), decltype(Driver::member)>);
#include "jit/cuda/driver.def"
#undef LAMINA_CUDA_CALL
