#include "jit/cuda/chain.h"

#include <utility>
#include <vector>

#include "absl/container/inlined_vector.h"
#include "hlo/strings.h"
#include "jit/cuda/launch.h"
#include "jit/kernel/grid_chain.h"
#include "jit/kernel/grid_held.h"

namespace lamina::jit::cuda {
namespace {

// Instructions of all kernels: the time to assemble them grows faster than their number.
constexpr size_t kMostInstructions = 1000;

class ChainStep final : public QueueStep {
 public:
  ChainStep(CudaKernels& kernels, AlignedKernel kernel, std::span<const ChainedLaunch> launches,
            int64_t blocks, int64_t block_rows, int64_t rows, int64_t work)
      : QueueStep(kernels),
        kernel_(std::move(kernel)),
        line_(launches[0].line),
        blocks_(blocks),
        work_(work) {
    for (const ChainedLaunch& l : launches) {
      for (int place : l.places) {
        addresses_.emplace_back(values_.size(), place);
        values_.push_back(0);
      }
      for (int64_t arg : l.args) values_.push_back(static_cast<uint64_t>(arg));
      values_.push_back(static_cast<uint64_t>(chain_units(*l.kernel, l.args, rows)));
    }
    values_.push_back(static_cast<uint64_t>(rows));
    values_.push_back(static_cast<uint64_t>(block_rows));
    what_ = str_cat(launches.size(), " loops over ", rows, " rows, ", block_rows, " at a time");
  }

  absl::Status enqueue_on(CudaQueue& queue, const Frame& frame) const override {
    absl::InlinedVector<uint64_t, 32> values(values_.begin(), values_.end());
    uint64_t begins = 0;
    for (const auto& [at, place] : addresses_) begins |= values[at] = frame.at[place].bits();
    const absl::StatusOr<FunctionHandle> function = kernel_.of(begins).function(queue.gpu(), kGridChain);
    if (!function.ok()) return line_.add_to(function.status());
    absl::InlinedVector<void*, 32> parameters;
    for (uint64_t& v : values) parameters.push_back(&v);
    return line_.add_to(queue.launch(*function, static_cast<unsigned>(blocks_), kGridThreads,
                                     {parameters.data(), parameters.size()}));
  }
  std::vector<int> used_places() const override {
    std::vector<int> out;
    for (const auto& [at, place] : addresses_) out.push_back(place);
    return out;
  }
  size_t calls() const override { return 1; }
  int64_t kernel_runs() const override { return 1; }
  int64_t work() const override { return work_; }
  std::vector<const KernelText*> kernels() const override { return {&kernel_.kernel->text()}; }
  std::string describe() const override { return what_; }
  // Where its steps have not been.
  void place(const Placing& placing) override {
    for (auto& [at, place] : addresses_) place = placing.of_slot[place];
  }

 private:
  const AlignedKernel kernel_;
  const UserLine line_;
  const int64_t blocks_, work_;
  std::vector<uint64_t> values_;                   // of parameters, but for addresses
  std::vector<std::pair<size_t, int>> addresses_;  // which parameters they are, and their places
  std::string what_;
};

// Steps that may become one launch.
struct Launches {
  explicit Launches(std::span<const Step* const> steps) {
    for (const Step* step : steps) {
      const ChainedLaunch& l = all.emplace_back(chained(*step));
      parameters += l.kernel->buffers.size() + l.kernel->num_args + 1;
      instructions += l.kernel->body.size() + l.kernel->epilogue.size();
      work += step->work();
    }
  }
  bool fit_one_kernel() const {
    return parameters * sizeof(int64_t) <= kMostGridParameters && instructions <= kMostInstructions;
  }

  std::vector<ChainedLaunch> all;
  size_t parameters = 2, instructions = 0;
  int64_t work = 0;
};

// Of an executable, which keeps them.
class StepsInTurn final : public QueueStep {
 public:
  StepsInTurn(CudaKernels& kernels, std::span<const Step* const> steps) : QueueStep(kernels) {
    for (const Step* step : steps) steps_.push_back(static_cast<const QueueStep*>(step));
  }
  absl::Status enqueue_on(CudaQueue& queue, const Frame& frame) const override {
    for (const QueueStep* step : steps_)
      if (absl::Status s = step->enqueue_on(queue, frame); !s.ok()) return s;
    return absl::OkStatus();
  }
  std::vector<int> used_places() const override {
    std::vector<int> out;
    for (const QueueStep* step : steps_) {
      const std::vector<int> used = step->used_places();
      out.insert(out.end(), used.begin(), used.end());
    }
    return out;
  }
  size_t calls() const override {
    return sum<size_t>([](const QueueStep& s) { return s.calls(); });
  }
  int64_t kernel_runs() const override {
    return sum<int64_t>([](const QueueStep& s) { return s.kernel_runs(); });
  }
  int64_t work() const override {
    return sum<int64_t>([](const QueueStep& s) { return s.work(); });
  }
  std::string describe() const override { return str_cat(steps_.size(), " loops"); }
  void place(const Placing&) override {}

 private:
  template <typename T, typename F>
  T sum(F of) const {
    T all = 0;
    for (const QueueStep* step : steps_) all += of(*step);
    return all;
  }
  std::vector<const QueueStep*> steps_;
};

}  // namespace

std::unique_ptr<const Step> make_chain_step(CudaKernels& kernels, int capability,
                                            std::span<const Step* const> steps, int64_t rows, int64_t block) {
  const Launches launches(steps);
  if (launches.fit_one_kernel()) {
    std::vector<ChainedKernel> chain;
    for (const ChainedLaunch& l : launches.all) chain.push_back({l.kernel, l.args});
    const ChainPlan plan = chain_plan(chain, rows, block);
    std::vector<GridPart> parts;
    for (size_t i = 0; i < chain.size(); ++i) parts.push_back({*chain[i].kernel, plan.schedules[i]});
    absl::StatusOr<AlignedKernel> kernel =
        kernels.get_aligned(std::move(parts), capability, CudaKernels::Code::kNow);
    if (kernel.ok())
      return std::make_unique<ChainStep>(kernels, *std::move(kernel), launches.all, plan.blocks,
                                         plan.block_rows, rows, launches.work);
  }
  return std::make_unique<StepsInTurn>(kernels, steps);
}

Target::HeldRows make_held_step(CudaKernels& kernels, int capability, std::span<const Step* const> steps,
                                int64_t rows, std::span<const int> of_slot, const std::vector<bool>& inner) {
  const auto refused = [](const auto& why) {
    return Target::HeldRows{nullptr, {}, str_cat("each step reads its rows anew: ", why)};
  };
  const Launches launches(steps);
  if (!launches.fit_one_kernel()) return refused("they have more code or parameters than one kernel should");
  std::vector<std::vector<int>> places;
  std::vector<PlacedKernel> chain;
  for (const ChainedLaunch& l : launches.all) {
    std::vector<int>& own = places.emplace_back();
    for (int slot : l.places) own.push_back(of_slot[static_cast<size_t>(slot)]);
    chain.push_back({l.kernel, l.args, own});
  }
  absl::StatusOr<HeldPlan> plan = held_plan(chain, rows, inner);
  if (!plan.ok()) return refused(plan.status().message());
  const int64_t threads = held_threads(plan->parts[line_kernel(plan->parts)].schedule);
  absl::StatusOr<AlignedKernel> kernel =
      kernels.get_aligned(std::move(plan->parts), capability, CudaKernels::Code::kNow);
  if (!kernel.ok()) return refused(kernel.status().message());
  return {
      std::make_unique<ChainStep>(kernels, *std::move(kernel), launches.all, plan->blocks, plan->block_rows,
                                  rows, launches.work),
      std::move(plan->unwritten),
      str_cat(plan->reads_once ? "each row" : "what is made of each row", " held by ", threads, " threads")};
}

}  // namespace lamina::jit::cuda
