// cuDNN on the devices that there are, and its plans: what it was asked to compute, by an engine of its own.
//
// Contract: an engine is chosen when a program is compiled, by the library's heuristics and without timing,
// unless that is asked for (jit/cuda/tuning.h), so that the bits of a program depend on the version of the
// library, the kind of device, types and shape. Work space comes with each call. Any thread may call
// anything.
#ifndef LAMINA_JIT_CUDA_DNN_LIBRARY_H_
#define LAMINA_JIT_CUDA_DNN_LIBRARY_H_

#include <cstdint>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/statusor.h"
#include "jit/client/client.h"
#include "jit/cuda/dnn.h"
#include "jit/cuda/library_owner.h"
#include "jit/cuda/queue.h"

namespace lamina::jit::cuda {

// Where plans run.
using DnnDevice = LibraryDevice<DnnHandle>;

struct DnnRow {
  using Library = Dnn;
  using Device = DnnDevice;
  static absl::StatusOr<Dnn> load(int driver_version) { return load_dnn(driver_version); }
  static std::string start(const Dnn& library, Device& device);
  static constexpr const char* kOtherwise = "our own kernels";
};

class DnnLibrary : public LibraryOwner<DnnRow> {
 public:
  using LibraryOwner::Opened;

  // At the first call. What it gives stays, also where the library is opened anew, which tests do.
  const absl::StatusOr<Opened>& opened() {
    std::lock_guard lock(mutex_);
    return opened_locked();
  }
};

// What an engine may be. None is that adds in no certain order or rounds operands; unless it may be `fast`,
// none that adds in less than the type that products are added in or computes by transforms (Winograd, FFT),
// nor, of f32, one on tensor cores, which rounds to TF32.
struct DnnEngineRules {
  bool is_fast, is_f32;
  bool may_be_compiled;  // by the library, when the plan is made
};

// What stands for a device: a handle, or else what its properties are.
struct DnnTarget {
  DnnHandle handle;
  const DnnObject* properties;
};

struct DnnEngine {
  std::shared_ptr<const DnnObject> graph;
  DnnObject config;
  int64_t number;
  bool on_tensor_cores;
};
// Calls `take` with each that the rules allow, the library's first choice first, until it returns true. Else
// in words why none is taken: what `take` left in `why`, or that there is none.
absl::Status find_engine(const Dnn& dnn, std::span<const DnnDescriptor> operations, const DnnTarget& target,
                         const DnnEngineRules& rules,
                         absl::FunctionRef<bool(DnnEngine engine, std::string& why)> take);

// What runs on one device, and what it is made of.
struct DnnPlan {
  DnnEngine engine;
  DnnObject plan;
  int64_t workspace_bytes;
  std::string name;  // of several: "70 2=8", the engine and what is set of it
};
// By the first `most` engines that serve; at least one.
absl::StatusOr<std::vector<std::shared_ptr<const DnnPlan>>> plans_serving(
    const Dnn& dnn, std::span<const DnnDescriptor> operations, const DnnTarget& target,
    const DnnEngineRules& rules, size_t most);
// The first of these.
absl::StatusOr<std::shared_ptr<const DnnPlan>> choose_plan(const Dnn& dnn,
                                                           std::span<const DnnDescriptor> operations,
                                                           const DnnTarget& target,
                                                           const DnnEngineRules& rules);

// What is computed has a plan for each device.
struct DnnChoice {
  DnnDevice* device;  // stays
  std::shared_ptr<const DnnPlan> plan;
  size_t timed = 1;  // so many, of which it is the quickest
};
// Null where there is none for the device.
const DnnChoice* choice_for(std::span<const DnnChoice> choices, const Gpu& gpu);
// Of work space for any of them, which begins at any address.
int64_t workspace_for(std::span<const DnnChoice> choices);
// For people: "cuDNN 9.19.0 in f32, engine 70", where `how` gives " in f32".
std::string describe_choices(const Dnn& dnn, std::span<const DnnChoice> choices,
                             absl::FunctionRef<std::string(const DnnPlan&)> how);

// Arrays by the numbers that the plan knows them by; the work space begins at any address.
DnnStatus execute_plan(const Dnn& dnn, DnnDevice& device, const DnnPlan& plan, std::span<const int64_t> ids,
                       std::span<void* const> arrays, Address workspace, StreamHandle stream);
// `doing` says what failed.
absl::Status enqueue_plan(CudaQueue& queue, const Dnn& dnn, DnnDevice& device, const DnnPlan& plan,
                          std::span<const int64_t> ids, std::span<void* const> arrays, Address workspace,
                          const char* doing);

}  // namespace lamina::jit::cuda

#endif  // LAMINA_JIT_CUDA_DNN_LIBRARY_H_
