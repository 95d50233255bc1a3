#include "jit/cuda/host_step.h"

#include <optional>
#include <utility>
#include <vector>

#include "hlo/strings.h"
#include "jit/cuda/stream.h"

namespace lamina::jit::cuda {
namespace {

class HostStep final : public Step {
 public:
  HostStep(std::unique_ptr<Step> step, std::string why) : step_(std::move(step)), why_(std::move(why)) {}

  absl::Status enqueue(Frame& frame) const override {
    auto& stream = static_cast<CudaStream&>(frame.device.stream());
    Frame here(frame, host_device());
    here.control = frame.control;
    std::vector<BufferRef> blocks;
    absl::Status status;
    const auto take = [&](const std::vector<Use>& uses) {
      for (const Use& use : uses) {
        if (here.at[use.place] || !status.ok()) continue;
        absl::StatusOr<BufferRef> block = host_device().memory().allocate(use.bytes);
        if (!block.ok()) {
          status = block.status();
          continue;
        }
        here.at[use.place] = (*block)->address();
        blocks.push_back(*std::move(block));
      }
    };
    for (const std::vector<Use>* uses : {&plan_->in, &plan_->out, &plan_->scratch}) take(*uses);
    std::vector<CudaStream::Part> parts;
    for (const Use& use : plan_->in) parts.push_back({frame.at[use.place], use.bytes, host_bytes(here, use)});
    if (status.ok()) status = stream.read_all(parts, nullptr);
    if (status.ok()) status = step_->enqueue(here);
    for (const Use& use : plan_->out)
      if (status.ok()) status = stream.write(frame.at[use.place], host_bytes(here, use), use.bytes);
    return status;
  }
  int64_t work() const override { return step_->work(); }
  bool may_take_long() const override { return true; }
  std::string describe() const override { return str_cat(step_->describe(), ", on the host: ", why_); }
  std::vector<MayOverwrite> overwrites() const override { return step_->overwrites(); }
  std::vector<std::pair<int, int>> same_memory() const override { return step_->same_memory(); }
  std::vector<int64_t> scratch_bytes() const override { return step_->scratch_bytes(); }
  void place(const Placing& placing) override {
    plan_ = &placing.plan;
    step_->place(placing);
  }

 private:
  static void* host_bytes(const Frame& here, const Use& use) {
    return reinterpret_cast<void*>(
        here.at[use.place].bits());  // memory of the host is what it reads in place
  }

  const std::unique_ptr<Step> step_;
  const std::string why_;
  const StepPlan* plan_ = nullptr;
};

}  // namespace

std::unique_ptr<Step> make_host_step(std::unique_ptr<Step> step, std::string why) {
  return std::make_unique<HostStep>(std::move(step), std::move(why));
}

}  // namespace lamina::jit::cuda
