// Our declarations of cublasLt are the toolkit's. Compiled where its headers are.
#include <cublasLt.h>

#include <cstddef>

#include "jit/cuda/blas.h"
#include "tests/jit/toolkit_headers.h"

namespace cuda = lamina::jit::cuda;

namespace {

using lamina::testing::as_int;
using lamina::testing::kSameCall;

// Values of ours and the toolkit's.
constexpr int kSame[][2] = {
    {as_int(cuda::BlasStatus::kSuccess), CUBLAS_STATUS_SUCCESS},
    {as_int(cuda::BlasStatus::kNotInitialized), CUBLAS_STATUS_NOT_INITIALIZED},
    {as_int(cuda::BlasStatus::kAllocFailed), CUBLAS_STATUS_ALLOC_FAILED},
    {as_int(cuda::BlasStatus::kInvalidValue), CUBLAS_STATUS_INVALID_VALUE},
    {as_int(cuda::BlasStatus::kArchMismatch), CUBLAS_STATUS_ARCH_MISMATCH},
    {as_int(cuda::BlasStatus::kExecutionFailed), CUBLAS_STATUS_EXECUTION_FAILED},
    {as_int(cuda::BlasStatus::kInternalError), CUBLAS_STATUS_INTERNAL_ERROR},
    {as_int(cuda::BlasStatus::kNotSupported), CUBLAS_STATUS_NOT_SUPPORTED},
    {as_int(cuda::MatrixType::kF32), CUDA_R_32F},
    {as_int(cuda::MatrixType::kF64), CUDA_R_64F},
    {as_int(cuda::MatrixType::kF16), CUDA_R_16F},
    {as_int(cuda::MatrixType::kC64), CUDA_C_32F},
    {as_int(cuda::MatrixType::kC128), CUDA_C_64F},
    {as_int(cuda::MatrixType::kBF16), CUDA_R_16BF},
    {as_int(cuda::MatrixType::kS8), CUDA_R_8I},
    {as_int(cuda::MatrixType::kS32), CUDA_R_32I},
    {as_int(cuda::MatrixType::kF8E4M3FN), CUDA_R_8F_E4M3},
    {as_int(cuda::MatrixType::kF8E5M2), CUDA_R_8F_E5M2},
    {as_int(cuda::ComputeType::kF32), CUBLAS_COMPUTE_32F},
    {as_int(cuda::ComputeType::kF32Pedantic), CUBLAS_COMPUTE_32F_PEDANTIC},
    {as_int(cuda::ComputeType::kF64), CUBLAS_COMPUTE_64F},
    {as_int(cuda::ComputeType::kF64Pedantic), CUBLAS_COMPUTE_64F_PEDANTIC},
    {as_int(cuda::ComputeType::kS32), CUBLAS_COMPUTE_32I},
    {as_int(cuda::ComputeType::kTf32), CUBLAS_COMPUTE_32F_FAST_TF32},
    {as_int(cuda::ProductAttribute::kTransposesA), CUBLASLT_MATMUL_DESC_TRANSA},
    {as_int(cuda::ProductAttribute::kTransposesB), CUBLASLT_MATMUL_DESC_TRANSB},
    {as_int(cuda::ProductAttribute::kEpilogue), CUBLASLT_MATMUL_DESC_EPILOGUE},
    {as_int(cuda::ProductAttribute::kBias), CUBLASLT_MATMUL_DESC_BIAS_POINTER},
    {as_int(cuda::Epilogue::kNone), CUBLASLT_EPILOGUE_DEFAULT},
    {as_int(cuda::Epilogue::kRelu), CUBLASLT_EPILOGUE_RELU},
    {as_int(cuda::Epilogue::kBias), CUBLASLT_EPILOGUE_BIAS},
    {as_int(cuda::Epilogue::kReluBias), CUBLASLT_EPILOGUE_RELU_BIAS},
    {as_int(cuda::Epilogue::kGelu), CUBLASLT_EPILOGUE_GELU},
    {as_int(cuda::Epilogue::kGeluBias), CUBLASLT_EPILOGUE_GELU_BIAS},
    {cuda::kTransposed, CUBLAS_OP_T},
    {as_int(cuda::MatrixAttribute::kBatch), CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT},
    {as_int(cuda::MatrixAttribute::kBatchStride), CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET},
    {as_int(cuda::SearchAttribute::kMostWorkspace), CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES},
    {as_int(cuda::SearchAttribute::kReductionSchemes), CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK},
    {as_int(cuda::SearchAttribute::kLeastAlignmentOfA), CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES},
    {as_int(cuda::SearchAttribute::kLeastAlignmentOfB), CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES},
    {as_int(cuda::SearchAttribute::kLeastAlignmentOfC), CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES},
    {as_int(cuda::SearchAttribute::kLeastAlignmentOfD), CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES},
    {as_int(cuda::kReducesInComputeType), CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE},
    {as_int(cuda::kReducesInAnyWay), CUBLASLT_REDUCTION_SCHEME_MASK},
    {as_int(cuda::AlgorithmAttribute::kNumber), CUBLASLT_ALGO_CONFIG_ID},
    {as_int(cuda::AlgorithmAttribute::kTile), CUBLASLT_ALGO_CONFIG_TILE_ID},
    {as_int(cuda::AlgorithmAttribute::kSplits), CUBLASLT_ALGO_CONFIG_SPLITK_NUM},
    {as_int(cuda::AlgorithmAttribute::kScheme), CUBLASLT_ALGO_CONFIG_REDUCTION_SCHEME},
    {as_int(cuda::AlgorithmAttribute::kStages), CUBLASLT_ALGO_CONFIG_STAGES_ID},
};
static_assert(lamina::testing::all_same(kSame));

static_assert(sizeof(cuda::Algorithm) == sizeof(cublasLtMatmulAlgo_t));
static_assert(sizeof(cuda::FoundAlgorithm) == sizeof(cublasLtMatmulHeuristicResult_t));
static_assert(offsetof(cuda::FoundAlgorithm, workspace_bytes) ==
              offsetof(cublasLtMatmulHeuristicResult_t, workspaceSize));
static_assert(offsetof(cuda::FoundAlgorithm, state) == offsetof(cublasLtMatmulHeuristicResult_t, state));

#define LAMINA_CUBLASLT_CALL(result, member, symbol, parameters) \
  static_assert(kSameCall<&::symbol, decltype(cuda::Blas::member)>);
#include "jit/cuda/blas.def"
#undef LAMINA_CUBLASLT_CALL

}  // namespace
