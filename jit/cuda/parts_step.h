// Steps of several parts, one behind the other: calls of a library, and kernels of ours around them.
#ifndef LAMINA_JIT_CUDA_PARTS_STEP_H_
#define LAMINA_JIT_CUDA_PARTS_STEP_H_

#include <functional>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "absl/functional/function_ref.h"
#include "hlo/builder.h"
#include "jit/cuda/queue_step.h"
#include "jit/cuda/user_line.h"
#include "jit/program/node_slots.h"

namespace lamina::jit::cuda {

// What a library is asked to do, with arrays at some addresses.
class LibraryCall {
 public:
  virtual ~LibraryCall() = default;
  virtual absl::Status enqueue(CudaQueue& queue, std::span<const Address> at) const = 0;
};

// The step of a program that becomes one kernel, whose slots are numbered: parameters, then results; so that
// what a reduction begins with is a parameter. In words why there is none.
using MakeKernel =
    absl::FunctionRef<absl::StatusOr<std::unique_ptr<QueueStep>>(const hlo::Computation& program)>;

// That of the program `record` writes: what it makes of parameters of these types.
absl::StatusOr<std::unique_ptr<QueueStep>> make_recorded(
    MakeKernel make_kernel, std::span<const hlo::Type* const> types,
    const std::function<hlo::Value(hlo::Builder&, std::span<const hlo::Value>)>& record);

// A node's step. Its parts work on arrays, which have numbers: operands, results, then memory of the step.
class PartsStep final : public QueueStep {
 public:
  // `reads` as in NodeSlots.
  PartsStep(CudaKernels& kernels, const hlo::Node& node, const SlotOf& slot_of,
            std::span<const hlo::Value> reads = {});

  int operand(size_t i) const { return static_cast<int>(i); }
  const hlo::Type* operand_type(size_t i) const { return slots_.operand_types[i]; }
  int result(size_t i) const { return static_cast<int>(slots_.operands.size() + i); }
  // 0 bytes are none: no array, -1.
  int add_memory(int64_t bytes);
  // By number, in the order of the kernel's slots or of the call's addresses, up to kMostArrays; of no array
  // the address is 0.
  static constexpr size_t kMostArrays = 8;
  void add(std::unique_ptr<QueueStep> kernel, std::vector<int> arrays);
  void add(std::unique_ptr<const LibraryCall> call, std::vector<int> arrays);
  // The result may lie where the operand does: every part bears it.
  void may_overwrite(size_t result, size_t operand);
  void set_description(std::string what) { what_ = std::move(what); }

  absl::Status enqueue_on(CudaQueue& queue, const Frame& frame) const override;
  std::vector<int> used_places() const override;
  size_t calls() const override;
  int64_t kernel_runs() const override;
  std::string describe() const override { return what_; }
  std::vector<MayOverwrite> overwrites() const override { return overwrites_; }
  std::vector<int64_t> scratch_bytes() const override { return memory_; }
  void place(const Placing& placing) override;

 private:
  struct Part {
    std::unique_ptr<QueueStep> kernel;  // or
    std::unique_ptr<const LibraryCall> call;
    std::vector<int> arrays;  // numbers, once placed their places
    std::vector<int> memory;  // of the kernel's own, likewise
  };

  const UserLine line_;
  NodeSlots slots_;
  std::vector<Part> parts_;
  std::vector<int64_t> memory_;
  std::vector<MayOverwrite> overwrites_;
  std::string what_;
};

// The same in no graph: its calls get a stream as their queue.
std::unique_ptr<Step> make_direct(std::unique_ptr<PartsStep> parts);

}  // namespace lamina::jit::cuda

#endif  // LAMINA_JIT_CUDA_PARTS_STEP_H_
