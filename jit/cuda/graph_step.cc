#include "jit/cuda/graph_step.h"

#include <algorithm>
#include <atomic>
#include <limits>
#include <memory>
#include <utility>
#include <vector>

#include "hlo/hash_map.h"
#include "hlo/strings.h"
#include "jit/cuda/graph.h"
#include "jit/cuda/queue_step.h"

namespace lamina::jit::cuda {
namespace {

// What the driver takes, in tenths of a microsecond, about: what is compared is far apart.
constexpr int64_t kLaunch = 20, kCall = 40;               // on a stream
constexpr int64_t kChangeLaunch = 10, kChangeCall = 150;  // in a graph
constexpr int64_t kStart = 50;                            // of a graph
// Where changes take so small a part of what the steps do, another graph would save nothing.
constexpr int64_t kSmallPart = 8;

std::atomic<int64_t> plain_runs{kPlainRuns};

class GraphStep final : public Step {
 public:
  explicit GraphStep(std::vector<const QueueStep*> steps) : steps_(std::move(steps)) {
    HashMap<int, size_t> number;
    for (const QueueStep* step : steps_) {
      std::vector<size_t>& uses = uses_.emplace_back();
      for (int place : step->used_places()) {
        const auto [it, is_new] = number.try_emplace(place, places_.size());
        if (is_new) places_.push_back(place);
        uses.push_back(it->second);
      }
      kernel_runs_ += step->kernel_runs();
      work_ += step->work();
    }
  }

  absl::Status enqueue(Frame& frame) const override {
    auto& stream = static_cast<CudaStream&>(frame.device.stream());
    store().count_runs(kernel_runs_);
    return stream.gpu().within([&] {
      if (Graphs* const graphs = graphs_of(frame); graphs && graphs->run(*this, stream, frame))
        return absl::OkStatus();
      for (const QueueStep* step : steps_)
        if (absl::Status s = step->enqueue_on(stream, frame); !s.ok()) return s;
      return absl::OkStatus();
    });
  }
  int64_t work() const override { return work_; }
  bool may_take_long() const override { return false; }
  std::string describe() const override { return str_cat(steps_.size(), " steps as one graph"); }
  void place(const Placing&) override {}  // its steps know

 private:
  // Graphs of one frame.
  class Graphs final : public StepState {
   public:
    // Whether a graph runs in place of the steps.
    bool run(const GraphStep& step, CudaStream& stream, const Frame& frame) {
      if (++runs_ <= plain_until_) return false;
      Made* best = nullptr;
      int64_t least = 0;
      for (const std::unique_ptr<Made>& made : made_) {
        const int64_t cost = step.cost_of_changes(*made, frame);
        if (cost == 0) {
          pause_ = 1;
          return start(step, *made);
        }
        if (!best || cost < least || (cost == least && made->last_run < best->last_run)) {
          best = made.get();
          least = cost;
        }
      }
      if (!best || (made_.size() < kMostGraphs && least * kSmallPart > best->plain_cost))
        return make(step, stream, frame);
      if (least + kStart >= best->plain_cost) {
        plain_until_ = runs_ + std::exchange(pause_, std::min(2 * pause_, kLongestPause));
        return false;
      }
      if (!step.change(*best, frame).ok()) return refused(step);
      return start(step, *best);
    }

   private:
    friend class GraphStep;
    struct Made {
      explicit Made(CudaStream& stream) : graph(stream) {}
      Graph graph;
      std::vector<Address> at;     // by number of places_
      std::vector<size_t> begins;  // by step its first node; then their number
      int64_t plain_cost = 0;
      int64_t last_run = 0;
    };

    bool make(const GraphStep& step, CudaStream& stream, const Frame& frame) {
      auto made = std::make_unique<Made>(stream);
      if (!step.record(*made, frame).ok()) return refused(step);
      step.store().count_graph();
      made_.push_back(std::move(made));
      return start(step, *made_.back());
    }
    bool start(const GraphStep& step, Made& made) {
      if (!made.graph.start().ok()) return refused(step);
      made.last_run = runs_;
      step.store().count_graph_run();
      return true;
    }
    bool refused(const GraphStep& step) {
      made_.clear();
      plain_until_ = std::numeric_limits<int64_t>::max();
      step.store().count_refused_graph();
      return false;
    }

    std::vector<std::unique_ptr<Made>> made_;
    int64_t runs_ = 0, plain_until_ = plain_runs.load(), pause_ = 1;
  };

  CudaKernels& store() const { return steps_.front()->store(); }

  // Null where there can be none.
  Graphs* graphs_of(Frame& frame) const {
    for (const auto& [owner, state] : frame.states)
      if (owner == this) return static_cast<Graphs*>(state.get());
    const bool has_graphs = static_cast<CudaStream&>(frame.device.stream()).gpu().driver().has_graphs;
    frame.states.emplace_back(this, has_graphs ? std::make_unique<Graphs>() : nullptr);
    return static_cast<Graphs*>(frame.states.back().second.get());
  }

  absl::Status record(Graphs::Made& made, const Frame& frame) const {
    for (const QueueStep* step : steps_) {
      made.begins.push_back(made.graph.nodes());
      if (absl::Status s = step->enqueue_on(made.graph, frame); !s.ok()) return s;
    }
    made.begins.push_back(made.graph.nodes());
    for (size_t n = 0; n < made.graph.nodes(); ++n)
      made.plain_cost += made.graph.is_call(n) ? kCall : kLaunch;
    made.at = addresses(frame);
    return made.graph.make();
  }
  absl::Status change(Graphs::Made& made, const Frame& frame) const {
    for (size_t s = 0; s < steps_.size(); ++s) {
      if (!differs(made, s, frame)) continue;
      made.graph.change_from(made.begins[s]);
      if (absl::Status status = steps_[s]->enqueue_on(made.graph, frame); !status.ok()) return status;
    }
    made.at = addresses(frame);
    return absl::OkStatus();
  }
  // 0: it has the addresses of the frame.
  int64_t cost_of_changes(const Graphs::Made& made, const Frame& frame) const {
    size_t first = 0;
    while (first < places_.size() && made.at[first] == at(frame, first)) ++first;
    if (first == places_.size()) return 0;
    int64_t cost = 0;
    for (size_t s = 0; s < steps_.size(); ++s)
      if (differs(made, s, frame))
        for (size_t n = made.begins[s]; n < made.begins[s + 1]; ++n)
          cost += made.graph.is_call(n) ? kChangeCall : kChangeLaunch;
    return cost;
  }
  bool differs(const Graphs::Made& made, size_t step, const Frame& frame) const {
    return std::any_of(uses_[step].begin(), uses_[step].end(),
                       [&](size_t use) { return made.at[use] != at(frame, use); });
  }
  Address at(const Frame& frame, size_t use) const { return frame.at[static_cast<size_t>(places_[use])]; }
  std::vector<Address> addresses(const Frame& frame) const {
    std::vector<Address> out;
    for (size_t i = 0; i < places_.size(); ++i) out.push_back(at(frame, i));
    return out;
  }

  const std::vector<const QueueStep*> steps_;
  std::vector<int> places_;                // of all steps, each once
  std::vector<std::vector<size_t>> uses_;  // by step: numbers of places_
  int64_t kernel_runs_ = 0, work_ = 0;
};

}  // namespace

int64_t set_plain_runs(int64_t runs) { return plain_runs.exchange(runs); }

Target::Batch make_graph_step(std::span<const Step* const> steps) {
  std::vector<const QueueStep*> out;
  size_t calls = 0;
  for (const Step* step : steps) {
    const auto* const next = dynamic_cast<const QueueStep*>(step);
    if (!next) break;
    out.push_back(next);
    calls += next->calls();
  }
  if (calls < kLeastCalls) return {};
  const size_t count = out.size();
  return {std::make_unique<GraphStep>(std::move(out)), count};
}

}  // namespace lamina::jit::cuda
