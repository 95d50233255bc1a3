// cuSOLVER as this library sees it: its own declarations, and a table of functions that is filled when the
// first factorization wants it.
//
// Contract: as of the driver (jit/cuda/driver.h): nothing links to it, no header of a toolkit is needed, and
// a machine without it is in its normal state. Matrices are column-major there.
#ifndef LAMINA_JIT_CUDA_SOLVER_H_
#define LAMINA_JIT_CUDA_SOLVER_H_

#include <cstddef>
#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "jit/cuda/blas.h"
#include "jit/cuda/driver.h"

namespace lamina::jit::cuda {

// As in the toolkit's headers, where they are cusolverDnHandle_t and cusolverDnParams_t
// (tests/jit/cusolver_headers_test.cc).
using SolverHandle = struct OpaqueSolver*;
using SolverParameters = struct OpaqueSolverParameters*;

enum class SolverStatus : int {
  kSuccess = 0,
  kNotInitialized = 1,
  kAllocFailed = 2,
  kInvalidValue = 3,
  kArchMismatch = 4,
  kExecutionFailed = 6,
  kInternalError = 7,
  kNotSupported = 9,
  kInvalidWorkspace = 31,
};

// Of eigenvalues.
enum class SolverVectors : int { kNone = 0, kAll = 1 };

// Of the work space's address.
inline constexpr int64_t kSolverWorkspaceAlignment = 256;

struct Solver {
#define LAMINA_CUSOLVER_CALL(result, member, symbol, parameters) result(*member) parameters = nullptr;
#include "jit/cuda/solver.def"
#undef LAMINA_CUSOLVER_CALL
  std::string library;  // that it was loaded from

  std::string version_text() const;  // "12.0.4"
};

// "CUSOLVER_STATUS_NOT_SUPPORTED": the library has no words of its own.
std::string words(SolverStatus status);

// The library that $LAMINA_CUSOLVER names (set and empty: none), else as jit/cuda/libraries.h says. NotFound,
// in words, where there is none that serves a driver of this version (1000 * major + 10 * minor).
absl::StatusOr<Solver> load_solver(int driver_version);

}  // namespace lamina::jit::cuda

#endif  // LAMINA_JIT_CUDA_SOLVER_H_
