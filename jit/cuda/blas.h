// cublasLt as this library sees it: its own declarations, and a table of functions that is filled when the
// first large product wants it.
//
// Contract: as of the driver (jit/cuda/driver.h): nothing links to it, no header of a toolkit is needed, and
// a machine without it is in its normal state. Matrices are column-major there.
#ifndef LAMINA_JIT_CUDA_BLAS_H_
#define LAMINA_JIT_CUDA_BLAS_H_

#include <cstddef>
#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "hlo/dtype.h"
#include "jit/cuda/driver.h"

namespace lamina::jit::cuda {

// As in the toolkit's headers, where they are cublasLtHandle_t, cublasLtMatmulDesc_t and so on
// (tests/jit/cublaslt_headers_test.cc).
using BlasHandle = struct OpaqueBlas*;
using ProductHandle = struct OpaqueProduct*;
using MatrixHandle = struct OpaqueMatrix*;
using SearchHandle = struct OpaqueSearch*;

enum class BlasStatus : int {
  kSuccess = 0,
  kNotInitialized = 1,
  kAllocFailed = 3,
  kInvalidValue = 7,
  kArchMismatch = 8,
  kExecutionFailed = 13,
  kInternalError = 14,
  kNotSupported = 15,
};

enum class MatrixType : int {
  kF32 = 0,
  kF64 = 1,
  kF16 = 2,
  kS8 = 3,
  kC64 = 4,
  kC128 = 5,
  kS32 = 10,
  kBF16 = 14,
  kF8E4M3FN = 28,
  kF8E5M2 = 29,
};
// Of elements of these types; there are no others.
constexpr MatrixType matrix_type(hlo::DType type) {
  switch (type) {
    case hlo::DType::kF64:
      return MatrixType::kF64;
    case hlo::DType::kF16:
      return MatrixType::kF16;
    case hlo::DType::kS8:
      return MatrixType::kS8;
    case hlo::DType::kC64:
      return MatrixType::kC64;
    case hlo::DType::kC128:
      return MatrixType::kC128;
    case hlo::DType::kS32:
      return MatrixType::kS32;
    case hlo::DType::kBF16:
      return MatrixType::kBF16;
    case hlo::DType::kF8E4M3FN:
      return MatrixType::kF8E4M3FN;
    case hlo::DType::kF8E5M2:
      return MatrixType::kF8E5M2;
    default:
      return MatrixType::kF32;
  }
}

// Of cuBLAS and cuSOLVER: which triangle is read, and how a matrix is taken.
enum class BlasTriangle : int { kLower = 0, kUpper = 1 };
enum class BlasTurn : int { kNone = 0, kTransposed = 1, kAdjoint = 2 };

// What products are added in. The pedantic ones compute no product of complex numbers by three of real ones.
enum class ComputeType : int {
  kF32 = 68,
  kF32Pedantic = 69,
  kF64 = 70,
  kF64Pedantic = 71,
  kS32 = 72,
  kTf32 = 77,
};

enum class ProductAttribute : int { kTransposesA = 3, kTransposesB = 4, kEpilogue = 7, kBias = 8 };
inline constexpr int32_t kTransposed = 1;
// What is done with the sums before they are written: a bias is an address, of an element for each row.
enum class Epilogue : uint32_t {
  kNone = 1,
  kRelu = 2,
  kBias = 4,
  kReluBias = 6,
  kGelu = 32,
  kGeluBias = 36,
};

enum class MatrixAttribute : int { kBatch = 5, kBatchStride = 6 };  // int32_t, int64_t in elements

enum class SearchAttribute : int {
  kMostWorkspace = 1,      // uint64_t bytes
  kReductionSchemes = 3,   // uint32_t, of splits of the sum: a mask
  kLeastAlignmentOfA = 5,  // uint32_t bytes, and so on
  kLeastAlignmentOfB = 6,
  kLeastAlignmentOfC = 7,
  kLeastAlignmentOfD = 8,
};
// Parts of the sum are added in the type that products are added in; in any way.
inline constexpr uint32_t kReducesInComputeType = 2, kReducesInAnyWay = 7;

enum class AlgorithmAttribute : int { kNumber = 0, kTile = 1, kSplits = 2, kScheme = 3, kStages = 6 };

// Bytes that may be kept, for the same version of the library.
struct Algorithm {
  uint64_t data[8];
};
struct FoundAlgorithm {
  Algorithm algorithm;
  size_t workspace_bytes;
  BlasStatus state;
  float waves;
  int reserved[4];
};

// Of the workspace's address.
inline constexpr int64_t kWorkspaceAlignment = 256;

struct Blas {
#define LAMINA_CUBLASLT_CALL(result, member, symbol, parameters) result(*member) parameters = nullptr;
#include "jit/cuda/blas.def"
#undef LAMINA_CUBLASLT_CALL
  std::string library;  // that it was loaded from

  std::string version_text() const;  // "13.0.2"
  // "CUBLAS_STATUS_NOT_SUPPORTED".
  std::string words(BlasStatus status) const;
};

// The library that $LAMINA_CUBLASLT names (set and empty: none), else as jit/cuda/libraries.h says. NotFound,
// in words, where there is none that serves a driver of this version (1000 * major + 10 * minor).
absl::StatusOr<Blas> load_blas(int driver_version);

}  // namespace lamina::jit::cuda

#endif  // LAMINA_JIT_CUDA_BLAS_H_
