#include "jit/cuda/chain.h"

#include <utility>
#include <vector>

#include "absl/container/inlined_vector.h"
#include "hlo/strings.h"
#include "jit/cuda/launch.h"
#include "jit/cuda/stream.h"
#include "jit/kernel/grid_chain.h"

namespace lamina::jit::cuda {
namespace {

// Instructions of all kernels: the time to assemble them grows faster than their number.
constexpr size_t kMostInstructions = 1000;

class StepsInTurn final : public Step {
 public:
  explicit StepsInTurn(std::span<const Step* const> steps) : steps_(steps.begin(), steps.end()) {}
  absl::Status enqueue(Frame& frame) const override {
    for (const Step* step : steps_)
      if (absl::Status s = step->enqueue(frame); !s.ok()) return s;
    return absl::OkStatus();
  }
  int64_t work() const override {
    int64_t work = 0;
    for (const Step* step : steps_) work += step->work();
    return work;
  }
  bool may_take_long() const override { return false; }
  std::string describe() const override { return str_cat(steps_.size(), " loops"); }
  void place(const Placing&) override {}

 private:
  const std::vector<const Step*> steps_;
};

class ChainStep final : public Step {
 public:
  ChainStep(std::span<const Step* const> steps, std::shared_ptr<const CudaKernel> kernel,
            std::vector<ChainedLaunch> launches, const ChainPlan& plan, int64_t rows)
      : steps_(steps),
        kernel_(std::move(kernel)),
        launches_(std::move(launches)),
        block_rows_(plan.block_rows),
        blocks_(plan.blocks),
        rows_(rows) {
    for (const GridSchedule& s : plan.schedules) exact_ |= s.exact;
  }

  absl::Status enqueue(Frame& frame) const override {
    auto& stream = static_cast<CudaStream&>(frame.device.stream());
    const absl::StatusOr<FunctionHandle> function = kernel_->function(stream.gpu(), kGridChain);
    if (!function.ok()) return launches_[0].line.add_to(function.status());
    absl::InlinedVector<uint64_t, 32> values;
    uint64_t odd = 0;
    for (const ChainedLaunch& l : launches_) {
      for (int place : l.places) odd |= values.emplace_back(frame.at[place].bits()) % kGridAlign;
      for (int64_t arg : l.args) values.push_back(static_cast<uint64_t>(arg));
      values.push_back(static_cast<uint64_t>(chain_units(*l.kernel, l.args, rows_)));
    }
    values.push_back(static_cast<uint64_t>(rows_));
    values.push_back(static_cast<uint64_t>(block_rows_));
    if (exact_ && odd != 0) return steps_.enqueue(frame);
    kernel_->count_run();
    absl::InlinedVector<void*, 32> parameters;
    for (uint64_t& v : values) parameters.push_back(&v);
    return launches_[0].line.add_to(stream.launch(*function, static_cast<unsigned>(blocks_), kGridThreads,
                                                  {parameters.data(), parameters.size()}));
  }
  int64_t work() const override { return steps_.work(); }
  bool may_take_long() const override { return false; }
  std::vector<const KernelText*> kernels() const override { return {&kernel_->text()}; }
  std::string describe() const override {
    return str_cat(launches_.size(), " loops over ", rows_, " rows, ", block_rows_, " at a time");
  }
  void place(const Placing&) override {}  // its steps have been

 private:
  const StepsInTurn steps_;
  const std::shared_ptr<const CudaKernel> kernel_;
  const std::vector<ChainedLaunch> launches_;  // of steps that the executable keeps
  const int64_t block_rows_, blocks_, rows_;
  bool exact_ = false;  // whether a schedule is
};

}  // namespace

std::unique_ptr<const Step> make_chain_step(CudaKernels& kernels, int capability,
                                            std::span<const Step* const> steps, int64_t rows) {
  std::vector<ChainedLaunch> launches;
  std::vector<ChainedKernel> chain;
  size_t parameters = 2, instructions = 0;
  for (const Step* step : steps) {
    const ChainedLaunch& l = launches.emplace_back(chained(*step));
    chain.push_back({l.kernel, l.args});
    parameters += l.kernel->buffers.size() + l.kernel->num_args + 1;
    instructions += l.kernel->body.size() + l.kernel->epilogue.size();
  }
  if (parameters * sizeof(int64_t) <= kMostGridParameters && instructions <= kMostInstructions) {
    const ChainPlan plan = chain_plan(chain, rows);
    std::vector<GridPart> parts;
    for (size_t i = 0; i < chain.size(); ++i) parts.push_back({*chain[i].kernel, plan.schedules[i]});
    absl::StatusOr<std::shared_ptr<const CudaKernel>> kernel =
        kernels.get(std::move(parts), capability, CudaKernels::Code::kNow);
    if (kernel.ok())
      return std::make_unique<ChainStep>(steps, *std::move(kernel), std::move(launches), plan, rows);
  }
  return std::make_unique<StepsInTurn>(steps);
}

}  // namespace lamina::jit::cuda
