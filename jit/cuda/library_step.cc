#include "jit/cuda/library_step.h"

#include <array>
#include <utility>
#include <vector>

#include "hlo/strings.h"
#include "jit/cuda/user_line.h"
#include "jit/program/node_slots.h"

namespace lamina::jit::cuda {
namespace {

// By array of the call; null where it takes the array itself.
using Copies = std::array<std::unique_ptr<QueueStep>, 3>;
constexpr size_t kResult = 2;

// A call of a `Product` or `Convolution`.
template <typename Call>
class LibraryStep final : public QueueStep {
 public:
  LibraryStep(CudaKernels& kernels, const char* name, std::unique_ptr<const Call> call, Copies copies,
              const hlo::Node& node, const SlotOf& slot_of)
      : QueueStep(kernels),
        name_(name),
        call_(std::move(call)),
        copies_(std::move(copies)),
        line_(node),
        slots_(node, slot_of) {
    if (const int64_t bytes = call_->workspace_bytes(); bytes > 0) workspace_ = add_scratch(bytes);
    for (size_t i = 0; i < copies_.size(); ++i)
      if (copies_[i])
        copied_[i] = add_scratch((i == kResult ? slots_.result_types[0] : slots_.operand_types[i])->bytes());
  }

  absl::Status enqueue_on(CudaQueue& queue, const Frame& frame) const override {
    const auto at = [&](int p) { return frame.at[static_cast<size_t>(p)]; };
    const auto copy = [&](size_t i) {
      return copies_[i] ? copies_[i]->enqueue_on(queue, frame) : absl::OkStatus();
    };
    absl::Status status = copy(0);
    if (status.ok()) status = copy(1);
    if (status.ok())
      status = call_->enqueue(queue, {at(place_of(0)), at(place_of(1)), at(place_of(kResult)),
                                      workspace_ < 0 ? Address() : at(workspace_)});
    if (status.ok()) status = copy(kResult);
    return line_.add_to(status);
  }
  std::vector<int> used_places() const override {
    std::vector<int> out;
    if (workspace_ >= 0) out.push_back(workspace_);
    for (size_t i = 0; i < copies_.size(); ++i) {
      out.push_back(place_of(i));
      if (copies_[i]) out.push_back(array(i));
    }
    return out;
  }
  size_t calls() const override {
    size_t count = 1;
    for (const std::unique_ptr<QueueStep>& copy : copies_)
      if (copy) count += copy->calls();
    return count;
  }
  int64_t kernel_runs() const override {
    int64_t runs = 0;
    for (const std::unique_ptr<QueueStep>& copy : copies_)
      if (copy) runs += copy->kernel_runs();
    return runs;
  }
  std::string describe() const override {
    return str_cat(name_, " by ", call_->describe(), ", ", hlo::to_string(*slots_.operand_types[0]), " ",
                   hlo::to_string(*slots_.operand_types[1]));
  }
  std::vector<int64_t> scratch_bytes() const override { return scratch_; }
  void place(const Placing& placing) override {
    const auto part = [&](int number) { return placing.plan.scratch[static_cast<size_t>(number)].place; };
    slots_.place(placing.of_slot);
    if (workspace_ >= 0) workspace_ = part(workspace_);
    for (size_t i = 0; i < copies_.size(); ++i) {
      if (!copies_[i]) continue;
      copied_[i] = part(copied_[i]);
      std::array<int, 2> from_to{array(i), copied_[i]};
      if (i == kResult) std::swap(from_to[0], from_to[1]);
      copies_[i]->place({from_to, StepPlan(), 0});
    }
  }

 private:
  int array(size_t i) const { return i == kResult ? slots_.results[0] : slots_.operands[i]; }
  // Where the call finds it.
  int place_of(size_t i) const { return copies_[i] ? copied_[i] : array(i); }
  int add_scratch(int64_t bytes) {
    scratch_.push_back(bytes);
    return static_cast<int>(scratch_.size()) - 1;
  }

  const char* const name_;
  const std::unique_ptr<const Call> call_;
  const Copies copies_;
  const UserLine line_;
  NodeSlots slots_;
  std::vector<int64_t> scratch_;
  // Numbers of parts of it, once placed their places; -1: none.
  int workspace_ = -1;
  std::array<int, 3> copied_{-1, -1, -1};
};

hlo::Dims inverse(const hlo::Dims& order) {
  hlo::Dims out(order.size());
  for (size_t i = 0; i < order.size(); ++i) out[static_cast<size_t>(order[i])] = static_cast<int64_t>(i);
  return out;
}

template <typename Call>
absl::StatusOr<std::unique_ptr<Step>> make_step(const char* name,
                                                absl::StatusOr<std::unique_ptr<const Call>> call,
                                                CudaKernels& kernels, const hlo::Node& node,
                                                const SlotOf& slot_of, MakeCopy make_copy) {
  if (!call.ok()) return call.status();
  if (!*call) return nullptr;
  Copies copies;
  for (size_t i = 0; i < copies.size(); ++i) {
    const std::optional<hlo::Dims>& order = (*call)->copies()[i];
    if (!order) continue;
    absl::StatusOr<std::unique_ptr<QueueStep>> copy = nullptr;
    if (i == kResult) {
      hlo::Dims dims;
      for (int64_t d : *order) dims.push_back(node.type()->dims[static_cast<size_t>(d)]);
      const absl::StatusOr<const hlo::Type*> written = hlo::array_type(node.type()->dtype, dims);
      if (!written.ok()) return written.status();
      copy = make_copy(*written, inverse(*order));
    } else {
      copy = make_copy(node.operand_type(i), *order);
    }
    if (!copy.ok()) return copy.status();
    if (!(*copy)->scratch_bytes().empty()) return absl::UnimplementedError("a copy needs memory of its own");
    copies[i] = *std::move(copy);
  }
  return std::make_unique<LibraryStep<Call>>(kernels, name, *std::move(call), std::move(copies), node,
                                             slot_of);
}

}  // namespace

absl::StatusOr<std::unique_ptr<Step>> make_product_step(Products& products, CudaKernels& kernels,
                                                        const hlo::Node& dot, const SlotOf& slot_of,
                                                        MakeCopy make_copy) {
  return make_step("dot", products.plan(dot), kernels, dot, slot_of, make_copy);
}

absl::StatusOr<std::unique_ptr<Step>> make_convolution_step(Convolutions& convolutions, CudaKernels& kernels,
                                                            const hlo::Node& convolution,
                                                            const SlotOf& slot_of, MakeCopy make_copy) {
  return make_step("convolution", convolutions.plan(convolution), kernels, convolution, slot_of, make_copy);
}

}  // namespace lamina::jit::cuda
