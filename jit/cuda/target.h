// What CUDA devices have a form for.
#ifndef LAMINA_JIT_CUDA_TARGET_H_
#define LAMINA_JIT_CUDA_TARGET_H_

#include <memory>
#include <string>

#include "jit/cuda/attention.h"
#include "jit/cuda/convolutions.h"
#include "jit/cuda/dnn_library.h"
#include "jit/cuda/factorizations.h"
#include "jit/cuda/fourier.h"
#include "jit/cuda/kernels.h"
#include "jit/cuda/products.h"
#include "jit/cuda/queue_step.h"
#include "jit/cuda/triangles.h"
#include "jit/program/target.h"

namespace lamina::jit::cuda {

// Loops are kernels of the device, large products calls of cublasLt, large convolutions and attention calls
// of cuDNN, Fourier transforms calls of cuFFT, factorizations of few matrices calls of cuSOLVER, and
// triangular solutions calls of cuBLAS. What has no form there, and is no control flow, is the CPU's step, on
// copies of its values.
class CudaTarget final : public Target {
 public:
  // Of all devices there are: the lowest capability, and a word of theirs that is 0; they themselves, and
  // their driver.
  void serve(int capability, Address never, std::span<const std::unique_ptr<Gpu>> gpus, int driver_version) {
    capability_ = capability;
    costs_.reads_float8 = capability >= kLeastFloat8Capability;
    never_ = never;
    kernels_.set_driver_version(driver_version);
    products_.serve(gpus, driver_version);
    dnn_.serve(gpus, driver_version);
    fourier_.serve(gpus, driver_version);
    factorizations_.serve(gpus, driver_version);
    triangles_.serve(gpus, driver_version);
  }
  Products& products() const { return products_; }
  DnnLibrary& dnn() const { return dnn_; }
  Attentions& attentions() const { return attentions_; }
  Convolutions& convolutions() const { return convolutions_; }
  Fourier& fourier() const { return fourier_; }
  Factorizations& factorizations() const { return factorizations_; }
  Triangles& triangles() const { return triangles_; }
  CudaKernels& kernels() const { return kernels_; }
  const cluster::Costs& costs() const override { return costs_; }
  // Of programs compiled from now on, while nobody else compiles: for tests.
  void set_costs(const cluster::Costs& costs) { costs_ = costs; }
  absl::StatusOr<hlo::ComputationPtr> prepared(const hlo::ComputationPtr& program) const override;
  absl::StatusOr<std::unique_ptr<Step>> lower(const cluster::FusionPlan& plan, const cluster::Group& group,
                                              const SlotOf& slot_of) const override;
  std::unique_ptr<const Step> chain(std::span<const Step* const> steps, int64_t rows,
                                    int64_t block) const override;
  HeldRows hold_rows(std::span<const Step* const> steps, int64_t rows, std::span<const int> of_slot,
                     const std::vector<bool>& inner) const override;
  Batch batch(std::span<const Step* const> steps) const override;
  absl::StatusOr<std::string> ir(const KernelText& kernel) const override;
  absl::StatusOr<std::string> assembly(const KernelText& kernel) const override;
  absl::StatusOr<std::string> machine() const override;
  absl::Status check_machine(std::string_view machine) const override;
  absl::StatusOr<KernelCode> code(const KernelText& kernel) const override;
  absl::StatusOr<std::shared_ptr<const void>> adopt(const KernelCode& code) const override;

 private:
  // Null where a library is not asked for or small work is better done without, or in words why it does not
  // take the group's node; `library` gets its name.
  absl::StatusOr<std::unique_ptr<Step>> library_call(const cluster::Group& group, const SlotOf& slot_of,
                                                     const char*& library) const;
  // As MakeKernel of jit/cuda/parts_step.h.
  absl::StatusOr<std::unique_ptr<QueueStep>> kernel(const hlo::Computation& program) const;

  // Of tensor cores that multiply floats of one byte.
  static constexpr int kLeastFloat8Capability = 89;
  // Neighbours in memory are for neighbouring threads. A launch less is worth a chain of any size, but that
  // of few rows leaves most of a device idle. What all blocks touch at a time should stay in its second-level
  // cache, and a block has a half warp for each of some rows.
  cluster::Costs costs_{.most_written_out = 1,
                        .most_columns = 1,
                        .chain_block_bytes = 100 * 1024,
                        .chain_row_bytes = 13 * 1024,
                        .chain_least_bytes = 0,
                        .chain_least_rows = 256,
                        .reads_bytes = true,
                        .reads_turned = true};
  int capability_ = kLeastCapability;
  Address never_;
  mutable CudaKernels kernels_;
  mutable Products products_;
  mutable DnnLibrary dnn_;
  mutable Convolutions convolutions_{dnn_};
  mutable Attentions attentions_{dnn_};
  mutable Fourier fourier_;
  mutable Factorizations factorizations_;
  mutable Triangles triangles_;
};

}  // namespace lamina::jit::cuda

#endif  // LAMINA_JIT_CUDA_TARGET_H_
