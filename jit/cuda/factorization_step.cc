#include "jit/cuda/factorization_step.h"

#include <utility>

#include "jit/cuda/factorization_parts.h"

namespace lamina::jit::cuda {

absl::StatusOr<std::unique_ptr<Step>> make_factorization_step(Factorizations& factorizations,
                                                              CudaKernels& kernels, const hlo::Node& node,
                                                              std::span<const hlo::Value> reads,
                                                              const SlotOf& slot_of, MakeKernel make_kernel) {
  absl::StatusOr<std::unique_ptr<const Factorization>> planned = factorizations.plan(node);
  if (!planned.ok()) return planned.status();
  if (!*planned) return nullptr;
  FactorizationParts parts(*std::move(planned), kernels, node, reads, slot_of, make_kernel);
  switch (parts.form().kind) {
    case FactorizationKind::kCholesky:
    case FactorizationKind::kMeanCholesky:
    case FactorizationKind::kEigen:
    case FactorizationKind::kEigenvalues:
      add_hermitian_parts(parts);
      break;
    case FactorizationKind::kLu:
    case FactorizationKind::kSolve:
    case FactorizationKind::kLuSolve:
    case FactorizationKind::kLuSolveTransposed:
    case FactorizationKind::kDeterminant:
    case FactorizationKind::kLogDeterminant:
      add_elimination_parts(parts);
      break;
    case FactorizationKind::kReflections:
    case FactorizationKind::kQr:
    case FactorizationKind::kSingular:
    case FactorizationKind::kSingularValues:
      add_orthogonal_parts(parts);
      break;
  }
  return std::move(parts).finish();
}

}  // namespace lamina::jit::cuda
