// cuFFT as this library sees it: its own declarations, and a table of functions that is filled when the first
// Fourier transform wants it.
//
// Contract: as of the driver (jit/cuda/driver.h): nothing links to it, no header of a toolkit is needed, and
// a machine without it is in its normal state.
#ifndef LAMINA_JIT_CUDA_FFT_H_
#define LAMINA_JIT_CUDA_FFT_H_

#include <cstddef>
#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "jit/cuda/driver.h"

namespace lamina::jit::cuda {

// As in the toolkit's headers, where it is cufftHandle (tests/jit/cufft_headers_test.cc).
using FftHandle = int;

enum class FftStatus : int {
  kSuccess = 0,
  kInvalidPlan = 1,
  kAllocFailed = 2,
  kInvalidValue = 4,
  kInternalError = 5,
  kExecFailed = 6,
  kSetupFailed = 7,
  kInvalidSize = 8,
  kInvalidDevice = 11,
  kNoWorkspace = 13,
  kNotImplemented = 14,
  kNotSupported = 16,
};

enum class FftType : int {
  kC64ToC64 = 0x29,
  kF32ToC64 = 0x2a,
  kC64ToF32 = 0x2c,
  kC128ToC128 = 0x69,
  kF64ToC128 = 0x6a,
  kC128ToF64 = 0x6c,
};

// The sign of the exponent; nothing is divided by the length.
inline constexpr int kFftForward = -1, kFftInverse = 1;

// Of the work space's address.
inline constexpr int64_t kFftWorkspaceAlignment = 256;

struct Fft {
#define LAMINA_CUFFT_CALL(result, member, symbol, parameters) result(*member) parameters = nullptr;
#include "jit/cuda/fft.def"
#undef LAMINA_CUFFT_CALL
  std::string library;  // that it was loaded from

  std::string version_text() const;  // "12.0.0"
};

// "CUFFT_EXEC_FAILED": the library has no words of its own.
std::string words(FftStatus status);

// The library that $LAMINA_CUFFT names (set and empty: none), else as jit/cuda/libraries.h says. NotFound, in
// words, where there is none that serves a driver of this version (1000 * major + 10 * minor).
absl::StatusOr<Fft> load_fft(int driver_version);

}  // namespace lamina::jit::cuda

#endif  // LAMINA_JIT_CUDA_FFT_H_
