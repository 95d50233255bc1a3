// Our declarations of the CUDA driver are the toolkit's. Compiled where its headers are.
#include <cuda.h>

#include <catch2/catch.hpp>
#include <cstddef>

#include "jit/cuda/driver.h"
#include "tests/jit/toolkit_headers.h"

namespace cuda = lamina::jit::cuda;

namespace {

using lamina::testing::as_int;
using lamina::testing::kSameCall;

// Values of ours and the toolkit's.
constexpr int kSame[][2] = {
    {as_int(cuda::Result::kSuccess), CUDA_SUCCESS},
    {as_int(cuda::Result::kInvalidValue), CUDA_ERROR_INVALID_VALUE},
    {as_int(cuda::Result::kOutOfMemory), CUDA_ERROR_OUT_OF_MEMORY},
    {as_int(cuda::Result::kNotInitialized), CUDA_ERROR_NOT_INITIALIZED},
    {as_int(cuda::Result::kDeinitialized), CUDA_ERROR_DEINITIALIZED},
    {as_int(cuda::Result::kStubLibrary), CUDA_ERROR_STUB_LIBRARY},
    {as_int(cuda::Result::kDeviceUnavailable), CUDA_ERROR_DEVICE_UNAVAILABLE},
    {as_int(cuda::Result::kNoDevice), CUDA_ERROR_NO_DEVICE},
    {as_int(cuda::Result::kInvalidDevice), CUDA_ERROR_INVALID_DEVICE},
    {as_int(cuda::Result::kInvalidImage), CUDA_ERROR_INVALID_IMAGE},
    {as_int(cuda::Result::kInvalidContext), CUDA_ERROR_INVALID_CONTEXT},
    {as_int(cuda::Result::kNoBinaryForDevice), CUDA_ERROR_NO_BINARY_FOR_GPU},
    {as_int(cuda::Result::kEccUncorrectable), CUDA_ERROR_ECC_UNCORRECTABLE},
    {as_int(cuda::Result::kNvlinkUncorrectable), CUDA_ERROR_NVLINK_UNCORRECTABLE},
    {as_int(cuda::Result::kContained), CUDA_ERROR_CONTAINED},
    {as_int(cuda::Result::kInvalidHandle), CUDA_ERROR_INVALID_HANDLE},
    {as_int(cuda::Result::kNotFound), CUDA_ERROR_NOT_FOUND},
    {as_int(cuda::Result::kNotReady), CUDA_ERROR_NOT_READY},
    {as_int(cuda::Result::kIllegalAddress), CUDA_ERROR_ILLEGAL_ADDRESS},
    {as_int(cuda::Result::kLaunchTimeout), CUDA_ERROR_LAUNCH_TIMEOUT},
    {as_int(cuda::Result::kContextIsDestroyed), CUDA_ERROR_CONTEXT_IS_DESTROYED},
    {as_int(cuda::Result::kAssert), CUDA_ERROR_ASSERT},
    {as_int(cuda::Result::kHardwareStackError), CUDA_ERROR_HARDWARE_STACK_ERROR},
    {as_int(cuda::Result::kIllegalInstruction), CUDA_ERROR_ILLEGAL_INSTRUCTION},
    {as_int(cuda::Result::kMisalignedAddress), CUDA_ERROR_MISALIGNED_ADDRESS},
    {as_int(cuda::Result::kInvalidAddressSpace), CUDA_ERROR_INVALID_ADDRESS_SPACE},
    {as_int(cuda::Result::kInvalidPc), CUDA_ERROR_INVALID_PC},
    {as_int(cuda::Result::kLaunchFailed), CUDA_ERROR_LAUNCH_FAILED},
    {as_int(cuda::Result::kTensorMemoryLeak), CUDA_ERROR_TENSOR_MEMORY_LEAK},
    {as_int(cuda::Result::kIllegalState), CUDA_ERROR_ILLEGAL_STATE},
    {as_int(cuda::Result::kCaptureUnsupported), CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED},
    {as_int(cuda::Result::kCaptureInvalidated), CUDA_ERROR_STREAM_CAPTURE_INVALIDATED},
    {as_int(cuda::Result::kGraphUpdateFailure), CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE},
    {as_int(cuda::Result::kUnknown), CUDA_ERROR_UNKNOWN},
    {as_int(cuda::CaptureMode::kGlobal), CU_STREAM_CAPTURE_MODE_GLOBAL},
    {as_int(cuda::CaptureMode::kThreadLocal), CU_STREAM_CAPTURE_MODE_THREAD_LOCAL},
    {as_int(cuda::CaptureMode::kRelaxed), CU_STREAM_CAPTURE_MODE_RELAXED},
    {as_int(cuda::Attribute::kMultiprocessors), CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT},
    {as_int(cuda::Attribute::kCapabilityMajor), CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR},
    {as_int(cuda::Attribute::kCapabilityMinor), CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR},
    {as_int(cuda::Attribute::kMemoryPools), CU_DEVICE_ATTRIBUTE_MEMORY_POOLS_SUPPORTED},
    {as_int(cuda::PoolAttribute::kReleaseThreshold), CU_MEMPOOL_ATTR_RELEASE_THRESHOLD},
    {as_int(cuda::PointerAttribute::kMemoryType), CU_POINTER_ATTRIBUTE_MEMORY_TYPE},
    {as_int(cuda::PointerAttribute::kDeviceNumber), CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL},
    {cuda::kMemoryOfDevice, CU_MEMORYTYPE_DEVICE},
    {cuda::MemoryLocation::kDevice, CU_MEM_LOCATION_TYPE_DEVICE},
    {cuda::PoolProperties::kPinned, CU_MEM_ALLOCATION_TYPE_PINNED},
    {cuda::PoolAccess::kReadWrite, CU_MEM_ACCESS_FLAGS_PROT_READWRITE},
    {cuda::kStreamNonBlocking, CU_STREAM_NON_BLOCKING},
    {cuda::kEventWithoutTime, CU_EVENT_DISABLE_TIMING},
    {cuda::kPinnedForAllContexts, CU_MEMHOSTALLOC_PORTABLE},
};
static_assert(lamina::testing::all_same(kSame));

static_assert(sizeof(cuda::PoolProperties) == sizeof(CUmemPoolProps));
static_assert(offsetof(cuda::PoolProperties, allocation) == offsetof(CUmemPoolProps, allocType));
static_assert(offsetof(cuda::PoolProperties, handles) == offsetof(CUmemPoolProps, handleTypes));
static_assert(offsetof(cuda::PoolProperties, location) == offsetof(CUmemPoolProps, location));
static_assert(offsetof(cuda::PoolProperties, security) == offsetof(CUmemPoolProps, win32SecurityAttributes));
static_assert(offsetof(cuda::PoolProperties, most_bytes) == offsetof(CUmemPoolProps, maxSize));
static_assert(offsetof(cuda::PoolProperties, usage) == offsetof(CUmemPoolProps, usage));
static_assert(sizeof(cuda::PoolAccess) == sizeof(CUmemAccessDesc));
static_assert(offsetof(cuda::PoolAccess, flags) == offsetof(CUmemAccessDesc, flags));
static_assert(offsetof(cuda::MemoryLocation, number) == offsetof(CUmemLocation, id));
static_assert(sizeof(cuda::LaunchNode) == sizeof(CUDA_KERNEL_NODE_PARAMS_v2));
static_assert(offsetof(cuda::LaunchNode, function) == offsetof(CUDA_KERNEL_NODE_PARAMS_v2, func));
static_assert(offsetof(cuda::LaunchNode, grid) == offsetof(CUDA_KERNEL_NODE_PARAMS_v2, gridDimX));
static_assert(offsetof(cuda::LaunchNode, block) == offsetof(CUDA_KERNEL_NODE_PARAMS_v2, blockDimX));
static_assert(offsetof(cuda::LaunchNode, shared_bytes) ==
              offsetof(CUDA_KERNEL_NODE_PARAMS_v2, sharedMemBytes));
static_assert(offsetof(cuda::LaunchNode, parameters) == offsetof(CUDA_KERNEL_NODE_PARAMS_v2, kernelParams));
static_assert(offsetof(cuda::LaunchNode, extra) == offsetof(CUDA_KERNEL_NODE_PARAMS_v2, extra));
static_assert(offsetof(cuda::LaunchNode, kernel) == offsetof(CUDA_KERNEL_NODE_PARAMS_v2, kern));
static_assert(offsetof(cuda::LaunchNode, context) == offsetof(CUDA_KERNEL_NODE_PARAMS_v2, ctx));

#define LAMINA_CUDA_CALL(member, symbol, parameters) \
  static_assert(kSameCall<&::symbol, decltype(cuda::Driver::member)>);
#include "jit/cuda/driver.def"
#undef LAMINA_CUDA_CALL

}  // namespace

TEST_CASE("the version of the toolkit's headers is one that the driver's functions are in", "[cuda]") {
  CHECK(CUDA_VERSION >= cuda::kLeastDriverVersion);
}
