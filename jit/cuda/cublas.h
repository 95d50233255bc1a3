// cuBLAS as this library sees it, for what cublasLt has nothing: its own declarations, and a table of
// functions that is filled when the first triangular solution wants it.
//
// Contract: as of the driver (jit/cuda/driver.h): nothing links to it, no header of a toolkit is needed, and
// a machine without it is in its normal state. Matrices are column-major there. Coefficients lie on the host.
#ifndef LAMINA_JIT_CUDA_CUBLAS_H_
#define LAMINA_JIT_CUDA_CUBLAS_H_

#include <cstddef>
#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "jit/cuda/blas.h"
#include "jit/cuda/driver.h"

namespace lamina::jit::cuda {

// As in the toolkit's headers, where it is cublasHandle_t (tests/jit/cublas_headers_test.cc).
using CublasHandle = struct OpaqueCublas*;

enum class BlasProperty : int { kMajor = 0, kMinor = 1, kPatch = 2 };
// On which side of what is solved for the triangle stands.
enum class BlasSide : int { kLeft = 0, kRight = 1 };
enum class BlasDiagonal : int { kAny = 0, kOnes = 1 };

// Of the work space's address.
inline constexpr int64_t kCublasWorkspaceAlignment = 256;

struct Cublas {
#define LAMINA_CUBLAS_CALL(result, member, symbol, parameters) result(*member) parameters = nullptr;
#include "jit/cuda/cublas.def"
#undef LAMINA_CUBLAS_CALL
  std::string library;  // that it was loaded from

  std::string version_text() const;  // "13.0.2"
  // "CUBLAS_STATUS_NOT_SUPPORTED".
  std::string words(BlasStatus status) const;
};

// The library that $LAMINA_CUBLAS names (set and empty: none), else as jit/cuda/libraries.h says. NotFound,
// in words, where there is none that serves a driver of this version (1000 * major + 10 * minor).
absl::StatusOr<Cublas> load_cublas(int driver_version);

}  // namespace lamina::jit::cuda

#endif  // LAMINA_JIT_CUDA_CUBLAS_H_
