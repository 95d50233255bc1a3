#include "jit/cuda/loop.h"

#include <algorithm>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "hlo/strings.h"
#include "jit/cuda/graph.h"
#include "jit/cuda/graph_step.h"
#include "jit/cuda/parts_step.h"
#include "jit/cuda/queue_step.h"

namespace lamina::jit::cuda {
namespace {

// All of whose steps are queue steps.
class Putting final : public LoopQueue {
 public:
  Putting(Graph& graph, FunctionHandle loop_switch) : graph_(graph), loop_switch_(loop_switch) {}

  absl::Status put(const Step& step, const Frame& frame) override {
    return static_cast<const QueueStep&>(step).enqueue_on(graph_, frame);
  }
  absl::Status copy(Address to, Address from, int64_t bytes) override { return graph_.copy(to, from, bytes); }
  absl::Status repeat(Address answer, absl::FunctionRef<absl::Status()> turn) override {
    return graph_.repeat(loop_switch_, answer, turn);
  }

 private:
  Graph& graph_;
  const FunctionHandle loop_switch_;
};

class LoopGraphs final : public Target::Loop {
 public:
  LoopGraphs(CudaKernels& kernels, LoopSwitch& loop_switch, bool has_calls)
      : kernels_(kernels), loop_switch_(loop_switch), plain_runs_(has_calls ? 1 : 0) {}

  absl::StatusOr<bool> enqueue(Frame& frame, std::span<const Address> touched,
                               absl::FunctionRef<absl::Status(LoopQueue&)> put) const override {
    auto& stream = static_cast<CudaStream&>(frame.device.stream());
    if (absl::Status health = stream.gpu().health(); !health.ok()) return health;
    Kept& kept = kept_of(frame);
    if (++kept.runs <= kept.plain_until) return false;
    const absl::Status status = stream.gpu().within([&] { return start(kept, stream, touched, put); });
    if (status.ok()) return true;
    kept.made.clear();
    kept.plain_until = std::numeric_limits<int64_t>::max();
    kernels_.count_refused_graph();
    return false;
  }

 private:
  struct Made {
    explicit Made(CudaStream& stream) : graph(stream) {}
    Graph graph;
    std::vector<Address> touched;
    int64_t last_run = 0;
  };
  // Of one frame.
  struct Kept final : public StepState {
    explicit Kept(int64_t plain) : plain_until(plain) {}
    std::vector<std::unique_ptr<Made>> made;
    int64_t runs = 0, plain_until;
  };

  Kept& kept_of(Frame& frame) const {
    for (const auto& [owner, state] : frame.states)
      if (owner == this) return static_cast<Kept&>(*state);
    frame.states.emplace_back(this, std::make_unique<Kept>(plain_runs_));
    return static_cast<Kept&>(*frame.states.back().second);
  }

  absl::Status start(Kept& kept, CudaStream& stream, std::span<const Address> touched,
                     absl::FunctionRef<absl::Status(LoopQueue&)> put) const {
    auto it = std::find_if(kept.made.begin(), kept.made.end(), [&](const std::unique_ptr<Made>& m) {
      return std::equal(touched.begin(), touched.end(), m->touched.begin(), m->touched.end());
    });
    if (it == kept.made.end()) {
      auto made = std::make_unique<Made>(stream);
      const absl::StatusOr<FunctionHandle> loop_switch = loop_switch_.function(kernels_, stream.gpu());
      if (!loop_switch.ok()) return loop_switch.status();
      Putting queue(made->graph, *loop_switch);
      absl::Status status = put(queue);
      if (status.ok()) status = made->graph.make();
      if (!status.ok()) return status;
      kernels_.count_graph();
      made->touched.assign(touched.begin(), touched.end());
      if (kept.made.size() == kMostGraphs)
        kept.made.erase(
            std::min_element(kept.made.begin(), kept.made.end(),
                             [](const auto& a, const auto& b) { return a->last_run < b->last_run; }));
      it = kept.made.insert(kept.made.end(), std::move(made));
    }
    if (absl::Status status = (*it)->graph.start(); !status.ok()) return status;
    (*it)->last_run = kept.runs;
    kernels_.count_graph_run();
    kernels_.count_loop_run();
    return absl::OkStatus();
  }

  CudaKernels& kernels_;
  LoopSwitch& loop_switch_;
  // Libraries load their code when they are first called, which is not for a capture.
  const int64_t plain_runs_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<const Target::Loop>> make_loop(CudaKernels& kernels, LoopSwitch& loop_switch,
                                                              Gpu& gpu, std::span<const Step* const> steps,
                                                              int64_t copied) {
  if (!gpu.driver().has_loops)
    return absl::UnimplementedError("loops in graphs came with CUDA 12.4, and the driver is older");
  bool has_calls = false;
  for (const Step* step : steps) {
    const std::string what = step->describe();
    if (!dynamic_cast<const QueueStep*>(step))
      return absl::UnimplementedError(str_cat("the device cannot start a step of it (", what, ")"));
    has_calls = has_calls || dynamic_cast<const PartsStep*>(step);
  }
  if (copied > kMostCopied)
    return absl::UnimplementedError(
        str_cat("each would copy ", copied, " bytes for the next, which takes longer"));
  if (const absl::Status s = loop_switch.function(kernels, gpu).status(); !s.ok())
    return absl::UnimplementedError(str_cat("no kernel that ends a loop: ", s.message()));
  return std::make_unique<const LoopGraphs>(kernels, loop_switch, has_calls);
}

}  // namespace lamina::jit::cuda
