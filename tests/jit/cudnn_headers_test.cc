// Our declarations of cuDNN are its headers'. Compiled where these are.
#include <cudnn.h>

#include "jit/cuda/dnn.h"
#include "tests/jit/toolkit_headers.h"

namespace cuda = lamina::jit::cuda;

namespace {

using lamina::testing::as_int;
using lamina::testing::kSameCall;
using A = cuda::DnnAttribute;
using T = cuda::DnnAttributeType;
using K = cuda::DnnKind;
using N = cuda::DnnNumericalNote;
using S = cuda::DnnStatus;

// Values of ours and the library's.
constexpr int kSame[][2] = {
    {as_int(S::kSuccess), CUDNN_STATUS_SUCCESS},
    {as_int(S::kNotInitialized), CUDNN_STATUS_NOT_INITIALIZED},
    {as_int(S::kBadParam), CUDNN_STATUS_BAD_PARAM},
    {as_int(S::kMisalignedPointer), CUDNN_STATUS_BAD_PARAM_MISALIGNED_POINTER},
    {as_int(S::kNotFinalized), CUDNN_STATUS_BAD_PARAM_NOT_FINALIZED},
    {as_int(S::kSizeInsufficient), CUDNN_STATUS_BAD_PARAM_SIZE_INSUFFICIENT},
    {as_int(S::kShapeMismatch), CUDNN_STATUS_BAD_PARAM_SHAPE_MISMATCH},
    {as_int(S::kAttributeType), CUDNN_STATUS_BAD_PARAM_ATTRIBUTE_TYPE},
    {as_int(S::kNotSupported), CUDNN_STATUS_NOT_SUPPORTED},
    {as_int(S::kHostAllocFailed), CUDNN_STATUS_INTERNAL_ERROR_HOST_ALLOCATION_FAILED},
    {as_int(S::kDeviceAllocFailed), CUDNN_STATUS_INTERNAL_ERROR_DEVICE_ALLOCATION_FAILED},
    {as_int(S::kExecutionFailed), CUDNN_STATUS_EXECUTION_FAILED},
    {as_int(K::kConvolution), CUDNN_BACKEND_CONVOLUTION_DESCRIPTOR},
    {as_int(K::kEngine), CUDNN_BACKEND_ENGINE_DESCRIPTOR},
    {as_int(K::kEngineConfig), CUDNN_BACKEND_ENGINECFG_DESCRIPTOR},
    {as_int(K::kHeuristic), CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR},
    {as_int(K::kPlan), CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR},
    {as_int(K::kForward), CUDNN_BACKEND_OPERATION_CONVOLUTION_FORWARD_DESCRIPTOR},
    {as_int(K::kBackwardFilter), CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_FILTER_DESCRIPTOR},
    {as_int(K::kBackwardData), CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_DATA_DESCRIPTOR},
    {as_int(K::kGraph), CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR},
    {as_int(K::kArrays), CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR},
    {as_int(K::kTensor), CUDNN_BACKEND_TENSOR_DESCRIPTOR},
    {as_int(A::kComputeType), CUDNN_ATTR_CONVOLUTION_COMP_TYPE},
    {as_int(A::kConvolutionMode), CUDNN_ATTR_CONVOLUTION_CONV_MODE},
    {as_int(A::kDilations), CUDNN_ATTR_CONVOLUTION_DILATIONS},
    {as_int(A::kStrides), CUDNN_ATTR_CONVOLUTION_FILTER_STRIDES},
    {as_int(A::kPaddingAfter), CUDNN_ATTR_CONVOLUTION_POST_PADDINGS},
    {as_int(A::kPaddingBefore), CUDNN_ATTR_CONVOLUTION_PRE_PADDINGS},
    {as_int(A::kSpatialDims), CUDNN_ATTR_CONVOLUTION_SPATIAL_DIMS},
    {as_int(A::kHeuristicMode), CUDNN_ATTR_ENGINEHEUR_MODE},
    {as_int(A::kHeuristicGraph), CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH},
    {as_int(A::kHeuristicResults), CUDNN_ATTR_ENGINEHEUR_RESULTS},
    {as_int(A::kConfigEngine), CUDNN_ATTR_ENGINECFG_ENGINE},
    {as_int(A::kPlanHandle), CUDNN_ATTR_EXECUTION_PLAN_HANDLE},
    {as_int(A::kPlanConfig), CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG},
    {as_int(A::kPlanWorkspace), CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE},
    {as_int(A::kForwardAlpha), CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_ALPHA},
    {as_int(A::kForwardBeta), CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_BETA},
    {as_int(A::kForwardConvolution), CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_CONV_DESC},
    {as_int(A::kForwardFilter), CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_W},
    {as_int(A::kForwardInput), CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_X},
    {as_int(A::kForwardOutput), CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_Y},
    {as_int(A::kDataAlpha), CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_ALPHA},
    {as_int(A::kDataBeta), CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_BETA},
    {as_int(A::kDataConvolution), CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_CONV_DESC},
    {as_int(A::kDataFilter), CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_W},
    {as_int(A::kDataInput), CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DX},
    {as_int(A::kDataOutput), CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DY},
    {as_int(A::kFilterAlpha), CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_ALPHA},
    {as_int(A::kFilterBeta), CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_BETA},
    {as_int(A::kFilterConvolution), CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_CONV_DESC},
    {as_int(A::kFilterFilter), CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_DW},
    {as_int(A::kFilterInput), CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_X},
    {as_int(A::kFilterOutput), CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_DY},
    {as_int(A::kGraphHandle), CUDNN_ATTR_OPERATIONGRAPH_HANDLE},
    {as_int(A::kGraphOperations), CUDNN_ATTR_OPERATIONGRAPH_OPS},
    {as_int(A::kTensorAlignment), CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT},
    {as_int(A::kTensorType), CUDNN_ATTR_TENSOR_DATA_TYPE},
    {as_int(A::kTensorDims), CUDNN_ATTR_TENSOR_DIMENSIONS},
    {as_int(A::kTensorStrides), CUDNN_ATTR_TENSOR_STRIDES},
    {as_int(A::kTensorId), CUDNN_ATTR_TENSOR_UNIQUE_ID},
    {as_int(A::kArraysIds), CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS},
    {as_int(A::kArraysPointers), CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS},
    {as_int(A::kArraysWorkspace), CUDNN_ATTR_VARIANT_PACK_WORKSPACE},
    {as_int(A::kEngineNumber), CUDNN_ATTR_ENGINE_GLOBAL_INDEX},
    {as_int(A::kEngineNumericalNotes), CUDNN_ATTR_ENGINE_NUMERICAL_NOTE},
    {as_int(A::kEngineBehaviorNotes), CUDNN_ATTR_ENGINE_BEHAVIOR_NOTE},
    {as_int(T::kHandle), CUDNN_TYPE_HANDLE},
    {as_int(T::kDataType), CUDNN_TYPE_DATA_TYPE},
    {as_int(T::kInt64), CUDNN_TYPE_INT64},
    {as_int(T::kFloat), CUDNN_TYPE_FLOAT},
    {as_int(T::kDouble), CUDNN_TYPE_DOUBLE},
    {as_int(T::kPointer), CUDNN_TYPE_VOID_PTR},
    {as_int(T::kConvolutionMode), CUDNN_TYPE_CONVOLUTION_MODE},
    {as_int(T::kHeuristicMode), CUDNN_TYPE_HEUR_MODE},
    {as_int(T::kNumericalNote), CUDNN_TYPE_NUMERICAL_NOTE},
    {as_int(T::kDescriptor), CUDNN_TYPE_BACKEND_DESCRIPTOR},
    {as_int(T::kBehaviorNote), CUDNN_TYPE_BEHAVIOR_NOTE},
    {as_int(T::kChar), CUDNN_TYPE_CHAR},
    {as_int(cuda::DnnType::kF32), CUDNN_DATA_FLOAT},
    {as_int(cuda::DnnType::kF64), CUDNN_DATA_DOUBLE},
    {as_int(cuda::DnnType::kF16), CUDNN_DATA_HALF},
    {as_int(cuda::DnnType::kBF16), CUDNN_DATA_BFLOAT16},
    {as_int(cuda::DnnConvolutionMode::kConvolution), CUDNN_CONVOLUTION},
    {as_int(cuda::DnnConvolutionMode::kCrossCorrelation), CUDNN_CROSS_CORRELATION},
    {as_int(cuda::DnnHeuristic::kB), CUDNN_HEUR_MODE_B},
    {as_int(cuda::DnnHeuristic::kFallback), CUDNN_HEUR_MODE_FALLBACK},
    {as_int(cuda::DnnHeuristic::kA), CUDNN_HEUR_MODE_A},
    {as_int(N::kTensorCore), CUDNN_NUMERICAL_NOTE_TENSOR_CORE},
    {as_int(N::kDownConvertsInputs), CUDNN_NUMERICAL_NOTE_DOWN_CONVERT_INPUTS},
    {as_int(N::kReducesInLessPrecision), CUDNN_NUMERICAL_NOTE_REDUCED_PRECISION_REDUCTION},
    {as_int(N::kFft), CUDNN_NUMERICAL_NOTE_FFT},
    {as_int(N::kNondeterministic), CUDNN_NUMERICAL_NOTE_NONDETERMINISTIC},
    {as_int(N::kWinograd), CUDNN_NUMERICAL_NOTE_WINOGRAD},
    {as_int(N::kWinograd4), CUDNN_NUMERICAL_NOTE_WINOGRAD_TILE_4x4},
    {as_int(N::kWinograd6), CUDNN_NUMERICAL_NOTE_WINOGRAD_TILE_6x6},
    {as_int(N::kWinograd13), CUDNN_NUMERICAL_NOTE_WINOGRAD_TILE_13x13},
    {as_int(cuda::DnnBehaviorNote::kCompiledAtRunTime), CUDNN_BEHAVIOR_NOTE_RUNTIME_COMPILATION},
// What stands for a device where there is none came later.
#if CUDNN_VERSION >= 90800
    {as_int(K::kDeviceProperties), CUDNN_BACKEND_DEVICEPROP_DESCRIPTOR},
    {as_int(A::kHeuristicDevice), CUDNN_ATTR_ENGINEHEUR_DEVICEPROP},
    {as_int(A::kPlanDevice), CUDNN_ATTR_EXECUTION_PLAN_DEVICEPROP},
    {as_int(A::kPropertiesText), CUDNN_ATTR_DEVICEPROP_JSON_REPRESENTATION},
#endif
};
static_assert(lamina::testing::all_same(kSame));
static_assert(cuda::kMostNumericalNotes >= CUDNN_NUMERICAL_NOTE_TYPE_COUNT);
static_assert(cuda::kMostBehaviorNotes >= CUDNN_BEHAVIOR_NOTE_TYPE_COUNT);

#define LAMINA_CUDNN_CALL(result, member, symbol, parameters) \
  static_assert(kSameCall<&::symbol, decltype(cuda::Dnn::member)>);
#include "jit/cuda/dnn.def"
#undef LAMINA_CUDNN_CALL

}  // namespace
