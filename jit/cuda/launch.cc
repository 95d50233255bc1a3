#include "jit/cuda/launch.h"

#include <utility>
#include <vector>

#include "absl/container/inlined_vector.h"
#include "hlo/strings.h"
#include "jit/cuda/stream.h"
#include "jit/kernel/in_place.h"
#include "jit/kernel/lower.h"

namespace lamina::jit::cuda {
namespace {

class LaunchStep final : public Step {
 public:
  LaunchStep(std::shared_ptr<const CudaKernel> kernel, GridPlan plan, LoweredLoop loop, Address never,
             const SlotOf& slot_of)
      : kernel_(std::move(kernel)),
        plan_(std::move(plan)),
        overwritable_(overwritable(kernel_->spec(), loop)),
        args_(std::move(loop.args)),
        outer_(loop.outer),
        inner_(loop.inner),
        work_(loop.work),
        never_(never) {
    for (const hlo::Value& v : loop.buffers) places_.push_back(slot_of(v));
  }

  absl::Status enqueue(Frame& frame) const override {
    auto& stream = static_cast<CudaStream&>(frame.device.stream());
    // As jit/kernel/grid.h says.
    absl::InlinedVector<uint64_t, 32> values;
    for (int place : places_) values.push_back(frame.at[place].bits());
    for (int64_t arg : args_) values.push_back(static_cast<uint64_t>(arg));
    if (holds_question(kernel_->spec())) values.push_back(never_.bits());
    const size_t common = values.size();
    for (const GridLaunch& launch : plan_.launches) {
      absl::StatusOr<FunctionHandle> function = kernel_->function(stream.gpu(), launch.entry);
      if (!function.ok()) return function.status();
      values.resize(common);
      if (scratch_ >= 0) {
        const Address scratch = frame.at[scratch_];
        for (uint64_t v : {(scratch + launch.from).bits(), (scratch + launch.to).bits(),
                           static_cast<uint64_t>(launch.count)})
          values.push_back(v);
      }
      absl::InlinedVector<void*, 32> parameters;
      for (uint64_t& v : values) parameters.push_back(&v);
      if (absl::Status s = stream.launch(*function, static_cast<unsigned>(launch.blocks), kGridThreads,
                                         {parameters.data(), parameters.size()});
          !s.ok())
        return s;
    }
    return absl::OkStatus();
  }
  int64_t work() const override { return work_; }
  bool may_take_long() const override { return false; }
  const KernelText* kernel() const override { return &kernel_->text(); }
  std::string describe() const override {
    const LoopKernel& k = kernel_->spec();
    std::string schedule = to_string(kernel_->schedule());
    schedule.pop_back();
    return str_cat("loop ", outer_, " x ", inner_, k.has_reduction ? " reducing" : "",
                   k.repeats.empty() ? "" : " in steps", ", ", k.body.size(), "+", k.epilogue.size(),
                   " instructions, ", k.buffers.size(), " buffers, ", schedule);
  }
  std::vector<MayOverwrite> overwrites() const override {
    std::vector<MayOverwrite> out;
    for (const auto& [w, r] : overwritable_) out.push_back({places_[w], places_[r], false});
    return out;
  }
  std::vector<int64_t> scratch_bytes() const override {
    return plan_.scratch_bytes > 0 ? std::vector{plan_.scratch_bytes} : std::vector<int64_t>();
  }
  void place(const Placing& placing) override {
    for (int& p : places_) p = placing.of_slot[p];
    if (plan_.scratch_bytes > 0) scratch_ = placing.plan.scratch[0].place;
  }

 private:
  const std::shared_ptr<const CudaKernel> kernel_;
  const GridPlan plan_;
  const std::vector<std::pair<size_t, size_t>> overwritable_;
  const std::vector<int64_t> args_;
  const int64_t outer_, inner_, work_;
  const Address never_;
  std::vector<int> places_;  // by buffer of the kernel
  int scratch_ = -1;
};

}  // namespace

absl::StatusOr<std::unique_ptr<Step>> make_launch_step(CudaKernels& kernels, int capability, Address never,
                                                       const cluster::FusionPlan& plan,
                                                       const cluster::Group& group, const SlotOf& slot_of) {
  absl::StatusOr<LoweredLoop> loop = lower_loop(plan, group);
  if (!loop.ok()) return loop.status();
  for (int64_t bytes : loop->own_bytes)
    if (bytes > 0) return absl::UnimplementedError("kernels with memory of their own have no form on CUDA");
  if (absl::Status s = grid_takes(loop->kernel); !s.ok()) return s;
  const GridSchedule schedule = favoured_grid(loop->kernel, loop->args);
  absl::StatusOr<GridPlan> launches = grid_plan(loop->kernel, schedule, loop->args);
  if (!launches.ok()) return launches.status();
  absl::StatusOr<std::shared_ptr<const CudaKernel>> kernel = kernels.get(loop->kernel, schedule, capability);
  if (!kernel.ok()) return kernel.status();
  return std::make_unique<LaunchStep>(*std::move(kernel), *std::move(launches), *std::move(loop), never,
                                      slot_of);
}

}  // namespace lamina::jit::cuda
