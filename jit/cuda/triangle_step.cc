#include "jit/cuda/triangle_step.h"

#include <array>
#include <functional>
#include <utility>

#include "hlo/batching.h"
#include "hlo/strings.h"

namespace lamina::jit::cuda {
namespace {

using hlo::Builder;
using hlo::Value;

class CopyCall final : public LibraryCall {
 public:
  explicit CopyCall(int64_t bytes) : bytes_(bytes) {}
  absl::Status enqueue(CudaQueue& queue, std::span<const Address> at) const override {
    Gpu& gpu = queue.gpu();
    return queue.call([&](StreamHandle stream) {
      return gpu.check(
          gpu.driver().copy_here(at[1].bits(), at[0].bits(), static_cast<size_t>(bytes_), stream), "copying");
    });
  }

 private:
  const int64_t bytes_;
};

// Of matrices, what is solved for, addresses, work space.
class TriangleCall final : public LibraryCall {
 public:
  explicit TriangleCall(std::unique_ptr<const TriangularSolution> solution)
      : solution_(std::move(solution)) {}
  absl::Status enqueue(CudaQueue& queue, std::span<const Address> at) const override {
    return solution_->enqueue(queue, {at[0], at[1], at[2], at[3]});
  }

 private:
  const std::unique_ptr<const TriangularSolution> solution_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<Step>> make_triangle_step(Triangles& triangles, CudaKernels& kernels,
                                                         const hlo::Node& node,
                                                         std::span<const hlo::Value> reads,
                                                         const SlotOf& slot_of, MakeKernel make_kernel) {
  absl::StatusOr<std::unique_ptr<const TriangularSolution>> planned = triangles.plan(node, reads);
  if (!planned.ok()) return planned.status();
  if (!*planned) return nullptr;
  const TriangleForm form = (*planned)->form();
  auto step = std::make_unique<PartsStep>(kernels, node, slot_of, reads);
  step->set_description(str_cat((*planned)->describe(), ", ", hlo::to_string(*node.operand_type(0))));
  absl::Status status;
  const auto add = [&](const hlo::Type* of, const std::function<Value(Builder&, const Value&)>& record,
                       std::vector<int> arrays) {
    absl::StatusOr<std::unique_ptr<QueueStep>> kernel = make_recorded(
        make_kernel, std::array{of}, [&](Builder& b, std::span<const Value> x) { return record(b, x[0]); });
    if (kernel.ok())
      step->add(*std::move(kernel), std::move(arrays));
    else
      status = kernel.status();
  };
  const bool converts = form.compute != form.type;
  const auto memory_for = [&](const hlo::Type& type) {
    return step->add_memory(type.num_elements * hlo::byte_size(form.compute));
  };
  const auto converted = [&](Builder& b, const Value& x) { return b.convert(x, form.compute); };
  int matrices = step->operand(0), right = step->result(0);
  if (converts) {
    matrices = memory_for(*node.operand_type(0));
    add(node.operand_type(0), converted, {step->operand(0), matrices});
    right = memory_for(*node.type());
  }
  const hlo::Type &given = *node.operand_type(1), &all = *node.type();
  if (given.dims != all.dims)
    add(&given,
        [&](Builder& b, const Value& y) {
          const Value each = converts ? converted(b, y) : y;
          return b.broadcast_in_dim(each, all.dims, hlo::all_dims(y.rank()));
        },
        {step->operand(1), right});
  else if (converts)
    add(&given, converted, {step->operand(1), right});
  else
    step->add(std::make_unique<CopyCall>(given.bytes()), {step->operand(1), right});
  const int addresses = step->add_memory((*planned)->addresses_bytes()),
            workspace = step->add_memory((*planned)->workspace_bytes());
  step->add(std::make_unique<TriangleCall>(*std::move(planned)), {matrices, right, addresses, workspace});
  if (converts)
    add(hlo::array_type_or_die(form.compute, all.dims),
        [&](Builder& b, const Value& x) { return b.convert(x, form.type); }, {right, step->result(0)});
  if (!status.ok()) return status;
  if (form.at_once) return make_direct(std::move(step));
  return step;
}

}  // namespace lamina::jit::cuda
