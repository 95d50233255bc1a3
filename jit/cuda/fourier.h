// Fourier transforms by cuFFT: which ones it takes, and how.
//
// Contract: a plan is made when a program is compiled, once for those of one layout; for one version of the
// library and one kind of device the bits of a transform depend on types and shape alone. They need not be
// the CPU's. Work space comes with each call. Any thread may call anything.
//
// The library transforms lines, columns by strides, and arrays of two or three dimensions that lie densely.
// It divides nothing by the length, and writes over the numbers that it makes real ones of: kernels beside
// the call see to both (jit/cuda/library_step.h). Columns of many matrices, each of which would be a call,
// are turned to lines before.
#ifndef LAMINA_JIT_CUDA_FOURIER_H_
#define LAMINA_JIT_CUDA_FOURIER_H_

#include <array>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "hlo/graph.h"
#include "jit/client/client.h"
#include "jit/cuda/fft.h"
#include "jit/cuda/library_owner.h"
#include "jit/cuda/queue.h"

namespace lamina::jit::cuda {

enum class TransformKind : uint8_t { kComplex, kFromReal, kToReal };

// What a node asks for, in elements.
struct TransformForm {
  TransformKind kind;
  bool is_inverse;
  hlo::DType part;  // f32 or f64
  int64_t length;
  hlo::Dims outer;  // lengths of further dimensions of what is transformed at once, whose last one has lines
  // Between neighbours of a line, and between neighbouring lines, of the operand and of the result.
  int64_t step;
  std::array<int64_t, 2> distances;
  int64_t lines;  // of a call, or arrays of several dimensions
  int64_t calls;  // over parts of the arrays, one behind the other
  // The order of dimensions in which the operand is copied before, and the result made in.
  std::optional<hlo::Dims> turned = std::nullopt;

  int64_t numbers() const { return length * hlo::product(outer); }  // of what is transformed at once
};
// None for a node that is no such transform.
std::optional<TransformForm> transform_form(const hlo::Node& node);

// One of certain types and shape, with the plan for each device.
class Transform {
 public:
  struct Operands {
    Address from, to, workspace;
  };

  const TransformForm& form() const { return form_; }
  // Of the work space, which begins at any address.
  int64_t workspace_bytes() const;
  absl::Status enqueue(CudaQueue& queue, const Operands& at) const;
  // For people: "fft by cuFFT 12.0.0 in f32, 64 x 1000".
  std::string describe() const;

 private:
  friend class Fourier;
  struct Plan;

  const Fft* fft_ = nullptr;  // stays
  TransformForm form_;
  std::vector<std::shared_ptr<Plan>> plans_;  // of devices
};

// Its plans take the place of handles.
struct FftRow {
  using Library = Fft;
  struct Device {
    Gpu* gpu;
  };
  static absl::StatusOr<Fft> load(int driver_version) { return load_fft(driver_version); }
  static std::string start(const Fft&, Device&) { return ""; }
  static constexpr const char* kOtherwise = "on the host";
};

class Fourier : public LibraryOwner<FftRow> {
 public:
  void serve(std::span<const std::unique_ptr<Gpu>> gpus, int driver_version);
  // Null where there is nothing to transform, or in words why there is none.
  absl::StatusOr<std::unique_ptr<const Transform>> plan(const hlo::Node& node);
  bool is_there();
  // That are alive, of all devices.
  size_t plans();

 private:
  absl::StatusOr<std::shared_ptr<Transform::Plan>> plan_for(const Fft& fft, Gpu& gpu,
                                                            const TransformForm& form);

  std::vector<std::weak_ptr<Transform::Plan>> plans_;
};

}  // namespace lamina::jit::cuda

#endif  // LAMINA_JIT_CUDA_FOURIER_H_
