// What is asked of cuSOLVER for each factorization: a row for each routine (hlo/linalg/calls.h) that it has a
// part in.
//
// Contract: matrices are column-major, lie densely behind each other, and become what the library makes of
// them. It is asked for one of them after the other, in the context of a device.
#ifndef LAMINA_JIT_CUDA_SOLVER_CALLS_H_
#define LAMINA_JIT_CUDA_SOLVER_CALLS_H_

#include <optional>
#include <string_view>

#include "hlo/graph.h"
#include "jit/cuda/solver.h"

namespace lamina::jit::cuda {

enum class FactorizationKind : uint8_t {
  kCholesky,
  kMeanCholesky,
  kEigen,
  kEigenvalues,
  kLu,
  kSolve,
  kLuSolve,
  kLuSolveTransposed,
  kDeterminant,
  kLogDeterminant,
  kReflections,
  kQr,
  kSingular,
  kSingularValues,
};

// What a node asks for: `count` matrices, or 0 where there is nothing to compute.
struct FactorizationForm {
  FactorizationKind kind;
  hlo::DType type, compute;  // of elements, and what they are computed in
  int64_t rows, columns, count;
  int64_t width;  // columns of what is solved for, of Q, or of left vectors as the library has them

  // What the library works on besides work space: of each matrix so many elements, of these types.
  int64_t matrix_elements, values_elements = 0, left_elements = 0, right_elements = 0;
  hlo::DType values_type = hlo::DType::kF64;  // eigenvalues, pivots, scales, singular values

  int64_t steps() const { return rows < columns ? rows : columns; }
  int64_t longer_side() const { return rows < columns ? columns : rows; }
};
// None for a node that is no such factorization.
std::optional<FactorizationForm> factorization_form(const hlo::Node& node);

// Whom to ask.
struct SolverScope {
  const Solver& solver;
  SolverHandle handle;
  SolverParameters parameters;
};
struct SolverSpaces {
  size_t device_bytes = 0, host_bytes = 0;
};
// One matrix, and what belongs to it.
struct MatrixAt {
  void *matrix, *values, *left, *right;
  int* info;  // 0 if there was a factor
  void *on_device, *on_host;
  SolverSpaces spaces;
};

// Without functions it has no part of the library: kernels of ours do all, from factors that are the
// library's.
struct FactorizationRow {
  std::string_view target;  // of the call
  FactorizationKind kind;
  SolverStatus (*ask)(const SolverScope& scope, const FactorizationForm& form,
                      SolverSpaces& spaces) = nullptr;
  SolverStatus (*run)(const SolverScope& scope, const FactorizationForm& form, const MatrixAt& at) = nullptr;
  // What follows when kernels have taken what it would write over.
  SolverStatus (*finish)(const SolverScope& scope, const FactorizationForm& form,
                         const MatrixAt& at) = nullptr;

  // For people: "cholesky".
  std::string_view name() const { return target.substr(target.find('.') + 1); }
};
const FactorizationRow& row_of(FactorizationKind kind);

}  // namespace lamina::jit::cuda

#endif  // LAMINA_JIT_CUDA_SOLVER_CALLS_H_
