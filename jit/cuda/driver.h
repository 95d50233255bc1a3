// The CUDA driver as this library sees it: its own declarations, and a table of functions that is filled when
// a CUDA device is first asked for.
//
// Contract: nothing links to the driver and no header of a toolkit is needed. A machine without driver or
// device is in its normal state: what is missing is told in one sentence.
#ifndef LAMINA_JIT_CUDA_DRIVER_H_
#define LAMINA_JIT_CUDA_DRIVER_H_

#include <cstddef>
#include <cstdint>
#include <string>

#include "absl/status/statusor.h"

namespace lamina::jit::cuda {

// As in the toolkit's headers, where they are CUdeviceptr, CUcontext and so on
// (tests/jit/cuda_headers_test.cc).
using DevicePointer = unsigned long long;
using ContextHandle = struct OpaqueContext*;
using PoolHandle = struct OpaquePool*;
using StreamHandle = struct OpaqueStream*;
using EventHandle = struct OpaqueEvent*;
using ModuleHandle = struct OpaqueModule*;
using FunctionHandle = struct OpaqueFunction*;
using GraphHandle = struct OpaqueGraph*;
using NodeHandle = struct OpaqueNode*;
using StartableHandle = struct OpaqueStartable*;

enum class Result : int {
  kSuccess = 0,
  kInvalidValue = 1,
  kOutOfMemory = 2,
  kNotInitialized = 3,
  kDeinitialized = 4,
  kStubLibrary = 34,
  kDeviceUnavailable = 46,
  kNoDevice = 100,
  kInvalidDevice = 101,
  kInvalidImage = 200,
  kInvalidContext = 201,
  kNoBinaryForDevice = 209,
  kEccUncorrectable = 214,
  kNvlinkUncorrectable = 220,
  kContained = 226,
  kInvalidHandle = 400,
  kIllegalState = 401,
  kNotFound = 500,
  kNotReady = 600,
  kIllegalAddress = 700,
  kLaunchTimeout = 702,
  kContextIsDestroyed = 709,
  kAssert = 710,
  kHardwareStackError = 714,
  kIllegalInstruction = 715,
  kMisalignedAddress = 716,
  kInvalidAddressSpace = 717,
  kInvalidPc = 718,
  kLaunchFailed = 719,
  kTensorMemoryLeak = 721,
  kCaptureUnsupported = 900,
  kCaptureInvalidated = 901,
  kGraphUpdateFailure = 910,
  kUnknown = 999,
};

enum class Attribute : int {
  kMultiprocessors = 16,
  kCapabilityMajor = 75,
  kCapabilityMinor = 76,
  kMemoryPools = 115,
};

enum class PoolAttribute : int { kReleaseThreshold = 4 };

enum class PointerAttribute : int { kMemoryType = 2, kDeviceNumber = 9 };
inline constexpr unsigned kMemoryOfDevice = 2;

struct MemoryLocation {
  int type = kDevice;
  int number = 0;
  static constexpr int kDevice = 1;
};
struct PoolProperties {
  int allocation = kPinned;
  int handles = 0;  // none are exported
  MemoryLocation location;
  void* security = nullptr;
  size_t most_bytes = 0;  // no limit
  unsigned short usage = 0;
  unsigned char reserved[54] = {};
  static constexpr int kPinned = 1;
};
struct PoolAccess {
  MemoryLocation by;
  int flags = kReadWrite;
  static constexpr int kReadWrite = 3;
};

// A kernel in a graph, as `launch` has it.
struct LaunchNode {
  FunctionHandle function = nullptr;
  unsigned grid[3] = {1, 1, 1}, block[3] = {1, 1, 1};
  unsigned shared_bytes = 0;
  void** parameters = nullptr;
  void** extra = nullptr;
  void* kernel = nullptr;  // where there is no function
  ContextHandle context = nullptr;
};

// What threads may do while a stream is captured; relaxed: all that they otherwise may.
enum class CaptureMode : int { kGlobal = 0, kThreadLocal = 1, kRelaxed = 2 };

inline constexpr unsigned kStreamNonBlocking = 1;
// The handle, on every device, of the stream that waits for all work of others but for that on streams of the
// kind above.
inline constexpr int64_t kLegacyStream = 1;
inline constexpr unsigned kEventWithoutTime = 2;
inline constexpr unsigned kPinnedForAllContexts = 1;

struct Driver {
#define LAMINA_CUDA_CALL(member, symbol, parameters) Result(*member) parameters = nullptr;
#include "jit/cuda/driver.def"
#undef LAMINA_CUDA_CALL
  std::string library;  // that it was loaded from
  int version = 0;      // of CUDA that it supports: 1000 * major + 10 * minor
  bool has_graphs = true;

  // "CUDA_ERROR_OUT_OF_MEMORY, out of memory".
  std::string words(Result result) const;
};

// The version that PTX 7.8, which kernels are written in, came with.
inline constexpr int kLeastDriverVersion = 11080;

// The driver that $LAMINA_CUDA_DRIVER names, else libcuda.so.1 where the loader finds it. It stays loaded.
// NotFound, in words, where there is no driver, it does not work, is too old, or has no device.
absl::StatusOr<Driver> load_driver();

}  // namespace lamina::jit::cuda

#endif  // LAMINA_JIT_CUDA_DRIVER_H_
