// cuDNN as this library sees it: its own declarations, and a table of functions that is filled when the first
// large convolution or attention wants it.
//
// Contract: as of the driver (jit/cuda/driver.h): nothing links to it, no header of a toolkit is needed, and
// a machine without it is in its normal state. Of the library's two interfaces this is that of descriptors:
// one is created, gets its attributes, and is finalized before others refer to it.
#ifndef LAMINA_JIT_CUDA_DNN_H_
#define LAMINA_JIT_CUDA_DNN_H_

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <type_traits>
#include <utility>

#include "absl/status/statusor.h"
#include "jit/cuda/driver.h"

namespace lamina::jit::cuda {

// As in the library's headers, where they are cudnnHandle_t, cudnnBackendDescriptor_t and so on
// (tests/jit/cudnn_headers_test.cc).
using DnnHandle = struct OpaqueDnn*;
using DnnDescriptor = struct OpaqueDnnDescriptor*;

enum class DnnStatus : int {
  kSuccess = 0,
  kNotInitialized = 1001,
  kBadParam = 2000,
  kMisalignedPointer = 2003,
  kNotFinalized = 2004,
  kSizeInsufficient = 2006,
  kShapeMismatch = 2008,
  kAttributeType = 2010,
  kNotSupported = 3000,
  kHostAllocFailed = 4003,
  kDeviceAllocFailed = 4004,
  kExecutionFailed = 5000,
};

// Kinds of descriptors.
enum class DnnKind : int {
  kPointwise = 0,
  kConvolution = 1,
  kEngine = 2,
  kEngineConfig = 3,
  kHeuristic = 4,
  kPlan = 5,
  kKnobChoice = 7,
  kForward = 10,
  kBackwardFilter = 11,
  kBackwardData = 12,
  kPointwiseOperation = 13,
  kGraph = 15,
  kArrays = 16,
  kTensor = 17,
  kProduct = 18,
  kProductOperation = 19,
  kReduction = 21,
  kReductionOperation = 22,
  kDeviceProperties = 38,
};

enum class DnnAttribute : int {
  kPointwiseMode = 0,
  kPointwiseType = 1,
  kPointwiseAxis = 9,

  kComputeType = 100,
  kConvolutionMode = 101,
  kDilations = 102,
  kStrides = 103,
  kPaddingAfter = 104,
  kPaddingBefore = 105,
  kSpatialDims = 106,

  kHeuristicMode = 200,
  kHeuristicGraph = 201,
  kHeuristicResults = 202,
  kHeuristicDevice = 204,

  kConfigEngine = 300,
  kConfigKnobs = 302,

  kPlanHandle = 400,
  kPlanConfig = 401,
  kPlanWorkspace = 402,
  kPlanDevice = 407,

  kKnobType = 600,
  kKnobValue = 601,

  // Of each operation: what the result is multiplied by, what is there already, the convolution; the arrays.
  kForwardAlpha = 700,
  kForwardBeta = 701,
  kForwardConvolution = 702,
  kForwardFilter = 703,
  kForwardInput = 704,
  kForwardOutput = 705,
  kDataAlpha = 706,
  kDataBeta = 707,
  kDataConvolution = 708,
  kDataFilter = 709,
  kDataInput = 710,
  kDataOutput = 711,
  kFilterAlpha = 712,
  kFilterBeta = 713,
  kFilterConvolution = 714,
  kFilterFilter = 715,
  kFilterInput = 716,
  kFilterOutput = 717,

  // Of elementwise operations: how, operands, result; what is chosen by.
  kPointwiseHow = 750,
  kPointwiseX = 751,
  kPointwiseB = 752,
  kPointwiseY = 753,
  kPointwiseChoice = 758,

  kGraphHandle = 800,
  kGraphOperations = 801,

  kTensorAlignment = 900,
  kTensorType = 901,
  kTensorDims = 902,
  kTensorStrides = 903,
  kTensorId = 906,
  kTensorIsVirtual = 907,  // between operations, in no memory
  kTensorIsByValue = 908,  // one number, which the host has

  kArraysIds = 1000,
  kArraysPointers = 1001,
  kArraysWorkspace = 1003,

  kEngineNumber = 1301,
  kEngineNumericalNotes = 1303,
  kEngineBehaviorNotes = 1305,

  kProductType = 1500,
  kProductA = 1520,
  kProductB = 1521,
  kProductC = 1522,
  kProductHow = 1523,

  kReductionMode = 1600,
  kReductionType = 1601,
  kReductionX = 1610,
  kReductionY = 1611,
  kReductionHow = 1612,

  kPropertiesText = 2702,
};

enum class DnnAttributeType : int {
  kHandle = 0,
  kDataType = 1,
  kBoolean = 2,
  kInt64 = 3,
  kFloat = 4,
  kDouble = 5,
  kPointer = 6,
  kConvolutionMode = 7,
  kHeuristicMode = 8,
  kKnobType = 9,
  kNumericalNote = 11,
  kPointwiseMode = 14,
  kDescriptor = 15,
  kReductionMode = 18,
  kBehaviorNote = 19,
  kChar = 24,
};

enum class DnnType : int { kF32 = 0, kF64 = 1, kF16 = 2, kS32 = 4, kBF16 = 9, kPred = 11 };

enum class DnnPointwise : int {
  kAdd = 0,
  kMultiply = 1,
  kDivide = 6,
  kSubtract = 9,
  kExponential = 13,
  kLogarithm = 15,
  kGreaterOrEqual = 303,
  kIndex = 501,
  kSelect = 601,
};

enum class DnnReduction : int { kAdd = 0, kMaximum = 3 };

// A convolution, in the library's words, reads its filter backwards along the spatial dimensions.
enum class DnnConvolutionMode : int { kConvolution = 0, kCrossCorrelation = 1 };

enum class DnnHeuristic : int { kB = 1, kFallback = 2, kA = 3 };

// What an engine does to numbers.
enum class DnnNumericalNote : int {
  kTensorCore = 0,
  kDownConvertsInputs = 1,
  kReducesInLessPrecision = 2,
  kFft = 3,
  kNondeterministic = 4,
  kWinograd = 5,
  kWinograd4 = 6,
  kWinograd6 = 7,
  kWinograd13 = 8,
};
inline constexpr int64_t kMostNumericalNotes = 10;

enum class DnnBehaviorNote : int { kCompiledAtRunTime = 0 };
inline constexpr int64_t kMostBehaviorNotes = 5;

// What of an engine can be set, by number.
enum class DnnKnob : int {};
inline constexpr int64_t kMostKnobs = 64;

// Of the workspace's address.
inline constexpr int64_t kDnnWorkspaceAlignment = 256;

// The type by which the library knows what attributes are given as.
template <typename T>
constexpr DnnAttributeType attribute_type() {
  if constexpr (std::is_same_v<T, DnnHandle>) return DnnAttributeType::kHandle;
  if constexpr (std::is_same_v<T, DnnType>) return DnnAttributeType::kDataType;
  if constexpr (std::is_same_v<T, int64_t>) return DnnAttributeType::kInt64;
  if constexpr (std::is_same_v<T, float>) return DnnAttributeType::kFloat;
  if constexpr (std::is_same_v<T, double>) return DnnAttributeType::kDouble;
  if constexpr (std::is_same_v<T, void*>) return DnnAttributeType::kPointer;
  if constexpr (std::is_same_v<T, DnnConvolutionMode>) return DnnAttributeType::kConvolutionMode;
  if constexpr (std::is_same_v<T, DnnHeuristic>) return DnnAttributeType::kHeuristicMode;
  if constexpr (std::is_same_v<T, DnnKnob>) return DnnAttributeType::kKnobType;
  if constexpr (std::is_same_v<T, DnnNumericalNote>) return DnnAttributeType::kNumericalNote;
  if constexpr (std::is_same_v<T, DnnDescriptor>) return DnnAttributeType::kDescriptor;
  if constexpr (std::is_same_v<T, DnnBehaviorNote>) return DnnAttributeType::kBehaviorNote;
  if constexpr (std::is_same_v<T, char>) return DnnAttributeType::kChar;
  if constexpr (std::is_same_v<T, bool>) return DnnAttributeType::kBoolean;
  if constexpr (std::is_same_v<T, DnnPointwise>) return DnnAttributeType::kPointwiseMode;
  if constexpr (std::is_same_v<T, DnnReduction>) return DnnAttributeType::kReductionMode;
}

struct Dnn {
#define LAMINA_CUDNN_CALL(result, member, symbol, parameters) result(*member) parameters = nullptr;
#include "jit/cuda/dnn.def"
#undef LAMINA_CUDNN_CALL
  std::string library;  // that it was loaded from

  std::string version_text() const;  // "9.19.0"
  // "CUDNN_STATUS_NOT_SUPPORTED", and what the library said of this thread's last error, if it did.
  std::string words(DnnStatus status) const;
};

// A descriptor, destroyed with this. Once something failed nothing is done any more, and `status` stays.
class DnnObject {
 public:
  DnnObject(const Dnn& dnn, DnnKind kind) : dnn_(&dnn), status_(dnn.create_descriptor(kind, &handle_)) {}
  ~DnnObject() {
    if (handle_) dnn_->destroy_descriptor(handle_);
  }
  DnnObject(DnnObject&& other) noexcept
      : dnn_(other.dnn_), handle_(std::exchange(other.handle_, nullptr)), status_(other.status_) {}
  DnnObject& operator=(DnnObject&&) = delete;

  template <typename T>
  DnnObject& set(DnnAttribute attribute, std::span<const T> values) {
    if (status_ == DnnStatus::kSuccess)
      status_ = dnn_->set_attribute(handle_, attribute, attribute_type<T>(),
                                    static_cast<int64_t>(values.size()), values.data());
    return *this;
  }
  template <typename T>
  DnnObject& set(DnnAttribute attribute, const T& value) {
    return set(attribute, std::span<const T>(&value, 1));
  }
  DnnObject& set(DnnAttribute attribute, const DnnObject& other) { return set(attribute, other.handle_); }
  DnnObject& finalize() {
    if (status_ == DnnStatus::kSuccess) status_ = dnn_->finalize(handle_);
    return *this;
  }
  // How many there are, of which those that fit `values` are put there.
  template <typename T>
  int64_t get(DnnAttribute attribute, std::span<T> values) {
    int64_t count = 0;
    if (status_ == DnnStatus::kSuccess)
      status_ = dnn_->get_attribute(handle_, attribute, attribute_type<T>(),
                                    static_cast<int64_t>(values.size()), &count, values.data());
    return status_ == DnnStatus::kSuccess ? count : 0;
  }
  template <typename T>
  T get(DnnAttribute attribute) {
    T value{};
    get(attribute, std::span<T>(&value, 1));
    return value;
  }

  DnnStatus status() const { return status_; }
  bool ok() const { return status_ == DnnStatus::kSuccess; }
  DnnDescriptor handle() const { return handle_; }

 private:
  const Dnn* dnn_;  // stays
  DnnDescriptor handle_ = nullptr;
  DnnStatus status_;
};

// The library that $LAMINA_CUDNN names (set and empty: none), else as jit/cuda/libraries.h says. NotFound, in
// words, where there is none that serves a driver of this version (1000 * major + 10 * minor).
absl::StatusOr<Dnn> load_dnn(int driver_version);

}  // namespace lamina::jit::cuda

#endif  // LAMINA_JIT_CUDA_DNN_H_
