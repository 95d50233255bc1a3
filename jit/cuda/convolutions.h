// Convolutions by cuDNN: which ones it takes, and how.
//
// Contract: an engine is chosen when a program is compiled, by the library's heuristics and without timing,
// so that the bits of a program depend on the version of the library, the kind of device, types and shape.
// They need not be the CPU's. Engines that add in no certain order, or are compiled for seconds when they are
// first wanted, are passed over; in `same` numerics also those that round before they multiply, as to TF32,
// add in less than the type that products are added in, or compute by transforms (Winograd, FFT). Work space
// comes with each call. Any thread may call anything.
//
// Small convolutions are left to our own kernels, which start sooner and have the CPU's bits, and so is what
// the library does not take.
#ifndef LAMINA_JIT_CUDA_CONVOLUTIONS_H_
#define LAMINA_JIT_CUDA_CONVOLUTIONS_H_

#include <array>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "hlo/graph.h"
#include "hlo/mutex.h"
#include "jit/client/client.h"
#include "jit/cuda/array_copies.h"
#include "jit/cuda/convolution_form.h"
#include "jit/cuda/dnn.h"
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
  struct Plan;
  // Where it runs: a handle of the library, which serves one call at a time.
  struct Device {
    Gpu* gpu;
    DnnHandle handle;
    hlo::Mutex mutex{hlo::LockRank::kQueues};
  };
  struct Choice {
    Device* device;  // stays
    std::shared_ptr<const Plan> plan;
  };

  const Dnn* dnn_ = nullptr;  // stays
  std::shared_ptr<const Descriptions> descriptions_;
  std::vector<Choice> choices_;
  ArrayCopies copies_;
  std::array<int64_t, 3> alignment_{};  // of the operands and the result
};

class Convolutions {
 public:
  // Of all devices that there are; the driver's version. They stay.
  void serve(std::span<const std::unique_ptr<Gpu>> gpus, int driver_version);
  // Null where our own kernels are the better choice, or in words why there is none.
  absl::StatusOr<std::unique_ptr<const Convolution>> plan(const hlo::Node& convolution);
  // What convolves, in words.
  std::string library();
  // Convolutions of fewer multiplications are small. Gives what that was.
  double set_least_work(double least);
  static constexpr double kLeastWork = 1 << 20;

  // What would be chosen on a device of these properties, as the library writes them, without one: for tests.
  static absl::StatusOr<std::string> chosen_for(const Dnn& dnn, std::string_view properties,
                                                const hlo::Node& convolution);

 private:
  struct Opened {
    Dnn dnn;
    std::vector<std::unique_ptr<Convolution::Device>> devices;  // without a handle where one was lost
  };
  using MadePlan = absl::StatusOr<std::unique_ptr<Convolution>>;

  const absl::StatusOr<Opened>& opened_locked();
  static MadePlan described(const Dnn& dnn, const hlo::Node& convolution, const ConvolutionForm& form);

  hlo::Mutex mutex_{hlo::LockRank::kLibraries};
  std::span<const std::unique_ptr<Gpu>> gpus_;
  int driver_version_ = 0;
  double least_work_ = kLeastWork;
  // Convolutions point into it: it is made anew for tests only, and the old one stays.
  const absl::StatusOr<Opened>* opened_ = nullptr;
};

}  // namespace lamina::jit::cuda

#endif  // LAMINA_JIT_CUDA_CONVOLUTIONS_H_
