#include "jit/cuda/parts_step.h"

#include <algorithm>
#include <array>
#include <utility>

namespace lamina::jit::cuda {
namespace {

class DirectStep final : public Step {
 public:
  explicit DirectStep(std::unique_ptr<PartsStep> parts) : parts_(std::move(parts)) {}

  absl::Status enqueue(Frame& frame) const override { return parts_->enqueue(frame); }
  bool may_take_long() const override { return true; }
  std::string describe() const override { return parts_->describe(); }
  std::vector<MayOverwrite> overwrites() const override { return parts_->overwrites(); }
  std::vector<int64_t> scratch_bytes() const override { return parts_->scratch_bytes(); }
  void place(const Placing& placing) override { parts_->place(placing); }

 private:
  const std::unique_ptr<PartsStep> parts_;
};

}  // namespace

std::unique_ptr<Step> make_direct(std::unique_ptr<PartsStep> parts) {
  return std::make_unique<DirectStep>(std::move(parts));
}

absl::StatusOr<std::unique_ptr<QueueStep>> make_recorded(
    MakeKernel make_kernel, std::span<const hlo::Type* const> types,
    const std::function<hlo::Value(hlo::Builder&, std::span<const hlo::Value>)>& record) {
  const absl::StatusOr<hlo::ComputationPtr> program = hlo::record_region(
      types, [&](hlo::Builder& b, std::span<const hlo::Value> x) { return hlo::Values{record(b, x)}; });
  return program.ok() ? make_kernel(**program) : program.status();
}

PartsStep::PartsStep(CudaKernels& kernels, const hlo::Node& node, const SlotOf& slot_of,
                     std::span<const hlo::Value> reads)
    : QueueStep(kernels), line_(node), slots_(node, slot_of, reads) {}

int PartsStep::add_memory(int64_t bytes) {
  if (bytes == 0) return -1;
  memory_.push_back(bytes);
  return static_cast<int>(slots_.operands.size() + slots_.results.size() + memory_.size()) - 1;
}

void PartsStep::add(std::unique_ptr<QueueStep> kernel, std::vector<int> arrays) {
  std::vector<int> memory;
  for (int64_t bytes : kernel->scratch_bytes()) memory.push_back(add_memory(std::max<int64_t>(bytes, 1)));
  parts_.push_back({std::move(kernel), nullptr, std::move(arrays), std::move(memory)});
}
void PartsStep::add(std::unique_ptr<const LibraryCall> call, std::vector<int> arrays) {
  parts_.push_back({nullptr, std::move(call), std::move(arrays), {}});
}

void PartsStep::may_overwrite(size_t result, size_t operand) {
  overwrites_.push_back({slots_.results[result], slots_.operands[operand], false});
}

absl::Status PartsStep::enqueue_on(CudaQueue& queue, const Frame& frame) const {
  for (const Part& part : parts_) {
    std::array<Address, kMostArrays> at{};
    for (size_t i = 0; i < part.arrays.size(); ++i)
      if (part.arrays[i] >= 0) at[i] = frame.at[static_cast<size_t>(part.arrays[i])];
    const absl::Status status =
        part.call ? part.call->enqueue(queue, at) : part.kernel->enqueue_on(queue, frame);
    if (!status.ok()) return line_.add_to(status);
  }
  return absl::OkStatus();
}

std::vector<int> PartsStep::used_places() const {
  std::vector<int> out;
  for (const Part& part : parts_)
    for (const std::vector<int>* places : {&part.arrays, &part.memory})
      for (int place : *places)
        if (place >= 0) out.push_back(place);
  return out;
}

size_t PartsStep::calls() const {
  size_t count = 0;
  for (const Part& part : parts_) count += part.kernel ? part.kernel->calls() : 1;
  return count;
}

int64_t PartsStep::kernel_runs() const {
  int64_t runs = 0;
  for (const Part& part : parts_)
    if (part.kernel) runs += part.kernel->kernel_runs();
  return runs;
}

void PartsStep::place(const Placing& placing) {
  slots_.place(placing.of_slot);
  std::vector<int> places = slots_.operands;
  places.insert(places.end(), slots_.results.begin(), slots_.results.end());
  const size_t first_memory = places.size();
  for (const Use& use : placing.plan.scratch) places.push_back(use.place);
  for (Part& part : parts_) {
    for (int& array : part.arrays) array = array < 0 ? array : places[static_cast<size_t>(array)];
    StepPlan plan;
    for (int& memory : part.memory) {
      const Use& use = placing.plan.scratch[static_cast<size_t>(memory) - first_memory];
      memory = use.place;
      plan.scratch.push_back(use);
    }
    if (part.kernel) part.kernel->place({part.arrays, plan, 0});
  }
}

}  // namespace lamina::jit::cuda
