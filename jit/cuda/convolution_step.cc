#include "jit/cuda/convolution_step.h"

#include <utility>
#include <vector>

#include "hlo/strings.h"
#include "jit/cuda/user_line.h"
#include "jit/program/node_slots.h"

namespace lamina::jit::cuda {
namespace {

class ConvolutionStep final : public QueueStep {
 public:
  ConvolutionStep(CudaKernels& kernels, std::unique_ptr<const Convolution> convolution, const hlo::Node& node,
                  const SlotOf& slot_of)
      : QueueStep(kernels), convolution_(std::move(convolution)), line_(node), slots_(node, slot_of) {}

  absl::Status enqueue_on(CudaQueue& queue, const Frame& frame) const override {
    const auto at = [&](int p) { return frame.at[static_cast<size_t>(p)]; };
    return line_.add_to(
        convolution_->enqueue(queue, {at(slots_.operands[0]), at(slots_.operands[1]), at(slots_.results[0]),
                                      workspace_ < 0 ? Address() : at(workspace_)}));
  }
  std::vector<int> used_places() const override {
    std::vector<int> out{slots_.operands[0], slots_.operands[1], slots_.results[0]};
    if (workspace_ >= 0) out.push_back(workspace_);
    return out;
  }
  size_t calls() const override { return 1; }
  int64_t kernel_runs() const override { return 0; }
  std::string describe() const override {
    return str_cat("convolution by ", convolution_->describe(), ", ",
                   hlo::to_string(*slots_.operand_types[0]), " ", hlo::to_string(*slots_.operand_types[1]));
  }
  std::vector<int64_t> scratch_bytes() const override {
    const int64_t bytes = convolution_->workspace_bytes();
    return bytes > 0 ? std::vector<int64_t>{bytes} : std::vector<int64_t>();
  }
  void place(const Placing& placing) override {
    slots_.place(placing.of_slot);
    if (convolution_->workspace_bytes() > 0) workspace_ = placing.plan.scratch[0].place;
  }

 private:
  const std::unique_ptr<const Convolution> convolution_;
  const UserLine line_;
  NodeSlots slots_;
  int workspace_ = -1;  // its place; none where there is none
};

}  // namespace

absl::StatusOr<std::unique_ptr<Step>> make_convolution_step(Convolutions& convolutions, CudaKernels& kernels,
                                                            const hlo::Node& convolution,
                                                            const SlotOf& slot_of) {
  absl::StatusOr<std::unique_ptr<const Convolution>> planned = convolutions.plan(convolution);
  if (!planned.ok()) return planned.status();
  if (!*planned) return nullptr;
  return std::make_unique<ConvolutionStep>(kernels, *std::move(planned), convolution, slot_of);
}

}  // namespace lamina::jit::cuda
