#include "jit/cuda/product_step.h"

#include <algorithm>
#include <array>
#include <utility>
#include <vector>

#include "hlo/strings.h"
#include "jit/cuda/user_line.h"
#include "jit/program/node_slots.h"

namespace lamina::jit::cuda {
namespace {

// Of a dense copy of an operand: batches, its own dimensions, those that are summed.
hlo::Dims order_of(const hlo::Node& dot, size_t operand) {
  const hlo::Attrs& a = dot.attrs();
  const auto& batch =
      a.ints(operand == 0 ? hlo::Attr::lhs_batching_dimensions : hlo::Attr::rhs_batching_dimensions);
  const auto& summed =
      a.ints(operand == 0 ? hlo::Attr::lhs_contracting_dimensions : hlo::Attr::rhs_contracting_dimensions);
  hlo::Dims out = batch;
  const auto is_in = [](const hlo::Dims& list, int64_t d) {
    return std::find(list.begin(), list.end(), d) != list.end();
  };
  for (int64_t d = 0; d < static_cast<int64_t>(dot.operand_type(operand)->dims.size()); ++d)
    if (!is_in(batch, d) && !is_in(summed, d)) out.push_back(d);
  out.insert(out.end(), summed.begin(), summed.end());
  return out;
}

class ProductStep final : public QueueStep {
 public:
  using Copies = std::array<std::unique_ptr<QueueStep>, 2>;  // null where there is none

  ProductStep(CudaKernels& kernels, std::unique_ptr<const Product> product, Copies copies,
              const hlo::Node& dot, const SlotOf& slot_of)
      : QueueStep(kernels),
        product_(std::move(product)),
        copies_(std::move(copies)),
        line_(dot),
        slots_(dot, slot_of) {
    if (const int64_t bytes = product_->workspace_bytes(); bytes > 0) workspace_ = add_scratch(bytes);
    for (size_t i = 0; i < copies_.size(); ++i)
      if (copies_[i]) copied_[i] = add_scratch(slots_.operand_types[i]->bytes());
  }

  absl::Status enqueue_on(CudaQueue& queue, const Frame& frame) const override {
    const auto at = [&](int p) { return frame.at[static_cast<size_t>(p)]; };
    for (const std::unique_ptr<QueueStep>& copy : copies_)
      if (copy)
        if (absl::Status s = copy->enqueue_on(queue, frame); !s.ok()) return s;
    return line_.add_to(product_->enqueue(queue, {at(operand(0)), at(operand(1)), at(slots_.results[0]),
                                                  workspace_ < 0 ? Address() : at(workspace_)}));
  }
  std::vector<int> used_places() const override {
    std::vector<int> out{operand(0), operand(1), slots_.results[0]};
    if (workspace_ >= 0) out.push_back(workspace_);
    for (size_t i = 0; i < copies_.size(); ++i)
      if (copies_[i]) out.push_back(slots_.operands[i]);
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
    return str_cat("dot by ", product_->describe(), ", ", hlo::to_string(*slots_.operand_types[0]), " ",
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
      const std::array<int, 2> places{slots_.operands[i], copied_[i]};
      copies_[i]->place({places, StepPlan(), 0});
    }
  }

 private:
  // Where the product finds it.
  int operand(size_t i) const { return copies_[i] ? copied_[i] : slots_.operands[i]; }
  int add_scratch(int64_t bytes) {
    scratch_.push_back(bytes);
    return static_cast<int>(scratch_.size()) - 1;
  }

  const std::unique_ptr<const Product> product_;
  const Copies copies_;
  const UserLine line_;
  NodeSlots slots_;
  std::vector<int64_t> scratch_;
  // Numbers of parts of it, once placed their places; -1: none.
  int workspace_ = -1;
  std::array<int, 2> copied_{-1, -1};
};

}  // namespace

absl::StatusOr<std::unique_ptr<Step>> make_product_step(Products& products, CudaKernels& kernels,
                                                        const hlo::Node& dot, const SlotOf& slot_of,
                                                        MakeCopy make_copy) {
  absl::StatusOr<std::unique_ptr<const Product>> product = products.plan(dot);
  if (!product.ok()) return product.status();
  if (!*product) return nullptr;
  ProductStep::Copies copies;
  for (size_t i = 0; i < copies.size(); ++i) {
    if (!(*product)->copied()[i]) continue;
    absl::StatusOr<std::unique_ptr<QueueStep>> copy = make_copy(dot.operand_type(i), order_of(dot, i));
    if (!copy.ok()) return copy.status();
    if (!(*copy)->scratch_bytes().empty()) return absl::UnimplementedError("a copy needs memory of its own");
    copies[i] = *std::move(copy);
  }
  return std::make_unique<ProductStep>(kernels, *std::move(product), std::move(copies), dot, slot_of);
}

}  // namespace lamina::jit::cuda
