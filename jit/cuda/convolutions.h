// Convolutions by cuDNN: which ones it takes, and how.
//
// Contract: as of plans (jit/cuda/dnn_library.h). Bits need not be the CPU's. Engines that the library would
// compile first are passed over.
//
// Small convolutions are left to our own kernels, which start sooner and have the CPU's bits, and so is what
// the library does not take.
#ifndef LAMINA_JIT_CUDA_CONVOLUTIONS_H_
#define LAMINA_JIT_CUDA_CONVOLUTIONS_H_

#include <array>
#include <atomic>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "hlo/graph.h"
#include "hlo/mutex.h"
#include "jit/cuda/array_copies.h"
#include "jit/cuda/convolution_form.h"
#include "jit/cuda/dnn.h"
#include "jit/cuda/dnn_library.h"
#include "jit/cuda/queue.h"

namespace lamina::jit::cuda {

// A convolution of certain types and shape, with the engine for each device.
class Convolution {
 public:
  struct Operands {
    Address input, filter, result, workspace;
  };

  const ArrayCopies& copies() const { return copies_; }
  // Of the work space, which begins at any address.
  int64_t workspace_bytes() const;
  absl::Status enqueue(CudaQueue& queue, const Operands& at) const;
  // For people: "cuDNN 9.19.0 in f32, forward, engine 70".
  std::string describe() const;

 private:
  friend class Convolutions;
  // What lives as long as the convolution.
  struct Descriptions;
  absl::Status choose(DnnDevice& device, const hlo::Node& convolution, const ConvolutionForm& form);

  const Dnn* dnn_ = nullptr;  // stays
  std::shared_ptr<const Descriptions> descriptions_;
  std::vector<DnnChoice> choices_;
  ArrayCopies copies_;
  std::array<int64_t, 3> alignment_{};  // of the operands and the result
};

class Convolutions {
 public:
  explicit Convolutions(DnnLibrary& library) : library_(library) {}
  // Null where our own kernels are the better choice, or in words why there is none.
  absl::StatusOr<std::unique_ptr<const Convolution>> plan(const hlo::Node& convolution);
  // Convolutions of fewer multiplications are small. Gives what that was.
  double set_least_work(double least) { return least_work_.exchange(least); }
  static constexpr double kLeastWork = 1 << 20;

  // What would be chosen on a device of these properties, as the library writes them, without one: for tests.
  static absl::StatusOr<std::string> chosen_for(const Dnn& dnn, std::string_view properties,
                                                const hlo::Node& convolution);

 private:
  using MadePlan = absl::StatusOr<std::unique_ptr<Convolution>>;

  static MadePlan described(const Dnn& dnn, const hlo::Node& convolution, const ConvolutionForm& form);

  DnnLibrary& library_;
  hlo::Mutex one_plan_{hlo::LockRank::kLibraries};  // at a time, as others take time from one that is timed
  std::atomic<double> least_work_ = kLeastWork;
};

}  // namespace lamina::jit::cuda

#endif  // LAMINA_JIT_CUDA_CONVOLUTIONS_H_
