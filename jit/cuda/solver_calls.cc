#include "jit/cuda/solver_calls.h"

#include <algorithm>
#include <limits>

#include "hlo/attributes.h"

namespace lamina::jit::cuda {
namespace {

using hlo::DType;
using Kind = FactorizationKind;

MatrixType matrix_type(const FactorizationForm& form) { return cuda::matrix_type(form.compute); }
MatrixType values_type(const FactorizationForm& form) { return cuda::matrix_type(form.values_type); }

// The library's columns are rows here, so that it finds their lower triangle in its upper one.
constexpr BlasTriangle kRowsLower = BlasTriangle::kUpper;

SolverStatus ask_nothing(const SolverScope&, const FactorizationForm&, SolverSpaces&) {
  return SolverStatus::kSuccess;
}

SolverStatus ask_cholesky(const SolverScope& s, const FactorizationForm& form, SolverSpaces& spaces) {
  const MatrixType type = matrix_type(form);
  return s.solver.cholesky_bytes(s.handle, s.parameters, kRowsLower, form.rows, type, nullptr, form.rows,
                                 type, &spaces.device_bytes, &spaces.host_bytes);
}
SolverStatus run_cholesky(const SolverScope& s, const FactorizationForm& form, const MatrixAt& at) {
  const MatrixType type = matrix_type(form);
  return s.solver.cholesky(s.handle, s.parameters, kRowsLower, form.rows, type, at.matrix, form.rows, type,
                           at.on_device, at.spaces.device_bytes, at.on_host, at.spaces.host_bytes, at.info);
}

SolverVectors vectors_of(const FactorizationForm& form) {
  return form.kind == Kind::kEigen ? SolverVectors::kAll : SolverVectors::kNone;
}
SolverStatus ask_eigen(const SolverScope& s, const FactorizationForm& form, SolverSpaces& spaces) {
  const MatrixType type = matrix_type(form);
  return s.solver.eigen_bytes(s.handle, s.parameters, vectors_of(form), kRowsLower, form.rows, type, nullptr,
                              form.rows, values_type(form), nullptr, type, &spaces.device_bytes,
                              &spaces.host_bytes);
}
SolverStatus run_eigen(const SolverScope& s, const FactorizationForm& form, const MatrixAt& at) {
  const MatrixType type = matrix_type(form);
  return s.solver.eigen(s.handle, s.parameters, vectors_of(form), kRowsLower, form.rows, type, at.matrix,
                        form.rows, values_type(form), at.values, type, at.on_device, at.spaces.device_bytes,
                        at.on_host, at.spaces.host_bytes, at.info);
}

SolverStatus ask_lu(const SolverScope& s, const FactorizationForm& form, SolverSpaces& spaces) {
  const MatrixType type = matrix_type(form);
  return s.solver.lu_bytes(s.handle, s.parameters, form.rows, form.columns, type, nullptr, form.rows, type,
                           &spaces.device_bytes, &spaces.host_bytes);
}
SolverStatus run_lu(const SolverScope& s, const FactorizationForm& form, const MatrixAt& at) {
  const MatrixType type = matrix_type(form);
  return s.solver.lu(s.handle, s.parameters, form.rows, form.columns, type, at.matrix, form.rows,
                     static_cast<int64_t*>(at.values), type, at.on_device, at.spaces.device_bytes, at.on_host,
                     at.spaces.host_bytes, at.info);
}
SolverStatus run_lu_solve(const SolverScope& s, const FactorizationForm& form, const MatrixAt& at) {
  const MatrixType type = matrix_type(form);
  const BlasTurn turn = form.kind == Kind::kLuSolveTransposed ? BlasTurn::kTransposed : BlasTurn::kNone;
  return s.solver.lu_solve(s.handle, s.parameters, turn, form.rows, form.width, type, at.matrix, form.rows,
                           static_cast<const int64_t*>(at.values), type, at.right, form.rows, at.info);
}
SolverStatus run_solve(const SolverScope& s, const FactorizationForm& form, const MatrixAt& at) {
  const SolverStatus status = run_lu(s, form, at);
  return status == SolverStatus::kSuccess ? run_lu_solve(s, form, at) : status;
}

SolverStatus ask_reflections(const SolverScope& s, const FactorizationForm& form, SolverSpaces& spaces) {
  const MatrixType type = matrix_type(form);
  return s.solver.reflections_bytes(s.handle, s.parameters, form.rows, form.columns, type, nullptr, form.rows,
                                    type, nullptr, type, &spaces.device_bytes, &spaces.host_bytes);
}
SolverStatus run_reflections(const SolverScope& s, const FactorizationForm& form, const MatrixAt& at) {
  const MatrixType type = matrix_type(form);
  return s.solver.reflections(s.handle, s.parameters, form.rows, form.columns, type, at.matrix, form.rows,
                              type, at.values, type, at.on_device, at.spaces.device_bytes, at.on_host,
                              at.spaces.host_bytes, at.info);
}

// The columns of Q have no function of 64-bit sizes, nor one for all types.
struct ColumnCalls {
  decltype(Solver::f64_columns_elements) ask;
  decltype(Solver::f64_columns) run;
};
ColumnCalls column_calls(const Solver& s, DType type) {
  switch (type) {
    case DType::kF32:
      return {s.f32_columns_elements, s.f32_columns};
    case DType::kC64:
      return {s.c64_columns_elements, s.c64_columns};
    case DType::kC128:
      return {s.c128_columns_elements, s.c128_columns};
    default:
      return {s.f64_columns_elements, s.f64_columns};
  }
}
SolverStatus ask_qr(const SolverScope& s, const FactorizationForm& form, SolverSpaces& spaces) {
  if (form.matrix_elements > std::numeric_limits<int>::max()) return SolverStatus::kInvalidValue;
  const int m = static_cast<int>(form.rows), n = static_cast<int>(form.width),
            k = static_cast<int>(form.steps());
  int elements = 0;
  SolverStatus status = ask_reflections(s, form, spaces);
  if (status == SolverStatus::kSuccess)
    status = column_calls(s.solver, form.compute).ask(s.handle, m, n, k, nullptr, m, nullptr, &elements);
  spaces.device_bytes = std::max(
      spaces.device_bytes, static_cast<size_t>(elements) * static_cast<size_t>(hlo::byte_size(form.compute)));
  return status;
}
SolverStatus run_columns(const SolverScope& s, const FactorizationForm& form, const MatrixAt& at) {
  const int m = static_cast<int>(form.rows), n = static_cast<int>(form.width),
            k = static_cast<int>(form.steps());
  const size_t elements = at.spaces.device_bytes / static_cast<size_t>(hlo::byte_size(form.compute));
  return column_calls(s.solver, form.compute)
      .run(s.handle, m, n, k, at.matrix, m, at.values, at.on_device,
           static_cast<int>(std::min<size_t>(elements, std::numeric_limits<int>::max())), at.info);
}

// By QR iterations: the polar decomposition (gesvdp) perturbs small singular values, and tells only the host
// by how much; Jacobi's (gesvdj) has no function for all types. It has fewer columns than rows, or as many.
signed char left_job(const FactorizationForm& form) {
  if (form.kind == Kind::kSingularValues) return 'N';
  return form.width > form.steps() ? 'A' : 'S';
}
signed char right_job(const FactorizationForm& form) {
  return form.kind == Kind::kSingularValues ? 'N' : 'S';
}
SolverStatus ask_singular(const SolverScope& s, const FactorizationForm& form, SolverSpaces& spaces) {
  const MatrixType type = matrix_type(form);
  const int64_t m = form.longer_side(), n = form.steps();
  return s.solver.singular_bytes(s.handle, s.parameters, left_job(form), right_job(form), m, n, type, nullptr,
                                 m, values_type(form), nullptr, type, nullptr, m, type, nullptr, n, type,
                                 &spaces.device_bytes, &spaces.host_bytes);
}
SolverStatus run_singular(const SolverScope& s, const FactorizationForm& form, const MatrixAt& at) {
  const MatrixType type = matrix_type(form);
  const int64_t m = form.longer_side(), n = form.steps();
  return s.solver.singular(s.handle, s.parameters, left_job(form), right_job(form), m, n, type, at.matrix, m,
                           values_type(form), at.values, type, at.left, m, type, at.right, n, type,
                           at.on_device, at.spaces.device_bytes, at.on_host, at.spaces.host_bytes, at.info);
}

constexpr FactorizationRow kRows[] = {
    {"lamina.cholesky", Kind::kCholesky, ask_cholesky, run_cholesky},
    {"lamina.mean_cholesky", Kind::kMeanCholesky, ask_cholesky, run_cholesky},
    {"lamina.eigh", Kind::kEigen, ask_eigen, run_eigen},
    {"lamina.eigvalsh", Kind::kEigenvalues, ask_eigen, run_eigen},
    {"lamina.lu", Kind::kLu, ask_lu, run_lu},
    {"lamina.solve", Kind::kSolve, ask_lu, run_solve},
    {"lamina.lu_solve", Kind::kLuSolve, ask_nothing, run_lu_solve},
    {"lamina.lu_solve_transposed", Kind::kLuSolveTransposed, ask_nothing, run_lu_solve},
    {"lamina.det", Kind::kDeterminant},
    {"lamina.slogdet", Kind::kLogDeterminant},
    {"lamina.geqrf", Kind::kReflections, ask_reflections, run_reflections},
    {"lamina.qr", Kind::kQr, ask_qr, run_reflections, run_columns},
    {"lamina.svd", Kind::kSingular, ask_singular, run_singular},
    {"lamina.svdvals", Kind::kSingularValues, ask_singular, run_singular},
};

void set_elements(FactorizationForm& form) {
  form.matrix_elements = form.rows * form.columns;
  switch (form.kind) {
    case Kind::kCholesky:
    case Kind::kMeanCholesky:
    case Kind::kDeterminant:
    case Kind::kLogDeterminant:
      return;
    case Kind::kEigen:
    case Kind::kEigenvalues:
      form.values_elements = form.rows;
      form.values_type = hlo::part_type(form.compute);
      return;
    case Kind::kLu:
    case Kind::kSolve:
    case Kind::kLuSolve:
    case Kind::kLuSolveTransposed:
      form.values_elements = form.steps();
      form.values_type = DType::kS64;
      form.right_elements = form.rows * form.width;
      return;
    case Kind::kReflections:
    case Kind::kQr:
      form.matrix_elements = form.rows * std::max(form.columns, form.width);
      form.values_elements = form.steps();
      form.values_type = form.compute;
      return;
    case Kind::kSingular:
      form.left_elements = form.longer_side() * form.width;
      form.right_elements = form.steps() * form.steps();
      [[fallthrough]];
    case Kind::kSingularValues:
      form.values_elements = form.steps();
      form.values_type = hlo::part_type(form.compute);
      return;
  }
}

}  // namespace

const FactorizationRow& row_of(FactorizationKind kind) {
  return *std::ranges::find(kRows, kind, &FactorizationRow::kind);
}

std::optional<FactorizationForm> factorization_form(const hlo::Node& node) {
  if (node.op() != hlo::Op::custom_call) return std::nullopt;
  const std::string& target = node.attrs().string(hlo::Attr::call_target_name);
  const FactorizationRow* const row = std::ranges::find(kRows, target, &FactorizationRow::target);
  if (row == std::end(kRows)) return std::nullopt;
  const hlo::Type &a = *node.operand_type(0), &last = *node.operand_type(node.operands().size() - 1);
  FactorizationForm form{};
  form.kind = row->kind;
  form.type = a.dtype;
  form.compute = node.numerics() == hlo::Numerics::kFast ? a.dtype
                 : hlo::is_complex(a.dtype)              ? DType::kC128
                                                         : DType::kF64;
  const auto batch = a.dims.size() - 2;
  form.rows = a.dims[batch];
  form.columns = a.dims[batch + 1];
  form.count = 1;
  for (size_t d = 0; d < batch; ++d) form.count *= node.result_type(0)->dims[d];
  switch (form.kind) {
    case Kind::kSolve:
    case Kind::kLuSolve:
    case Kind::kLuSolveTransposed:
      form.width = last.dims.back();
      break;
    case Kind::kQr:
      form.width = node.result_type(0)->dims.back();
      break;
    case Kind::kSingular: {
      const int64_t asked =
          form.rows < form.columns ? node.result_type(2)->dims[batch] : node.result_type(1)->dims.back();
      form.width = asked > form.steps() ? form.longer_side() : form.steps();
      break;
    }
    default:
      form.width = form.columns;
  }
  if (form.rows * form.columns * form.width == 0) form.count = 0;
  set_elements(form);
  return form;
}

}  // namespace lamina::jit::cuda
