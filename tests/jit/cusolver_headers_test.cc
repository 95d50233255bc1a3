// Our declarations of cuSOLVER are the toolkit's. Compiled where its headers are.
#include <cusolverDn.h>

#include "jit/cuda/solver.h"
#include "tests/jit/toolkit_headers.h"

namespace cuda = lamina::jit::cuda;

namespace {

using lamina::testing::as_int;
using lamina::testing::kSameCall;
using S = cuda::SolverStatus;

// Values of ours and the toolkit's.
constexpr int kSame[][2] = {
    {as_int(S::kSuccess), CUSOLVER_STATUS_SUCCESS},
    {as_int(S::kNotInitialized), CUSOLVER_STATUS_NOT_INITIALIZED},
    {as_int(S::kAllocFailed), CUSOLVER_STATUS_ALLOC_FAILED},
    {as_int(S::kInvalidValue), CUSOLVER_STATUS_INVALID_VALUE},
    {as_int(S::kArchMismatch), CUSOLVER_STATUS_ARCH_MISMATCH},
    {as_int(S::kExecutionFailed), CUSOLVER_STATUS_EXECUTION_FAILED},
    {as_int(S::kInternalError), CUSOLVER_STATUS_INTERNAL_ERROR},
    {as_int(S::kNotSupported), CUSOLVER_STATUS_NOT_SUPPORTED},
    {as_int(S::kInvalidWorkspace), CUSOLVER_STATUS_INVALID_WORKSPACE},
    {as_int(cuda::SolverVectors::kNone), CUSOLVER_EIG_MODE_NOVECTOR},
    {as_int(cuda::SolverVectors::kAll), CUSOLVER_EIG_MODE_VECTOR},
};
static_assert(lamina::testing::all_same(kSame));

#define LAMINA_CUSOLVER_CALL(result, member, symbol, parameters) \
  static_assert(kSameCall<&::symbol, decltype(cuda::Solver::member)>);
#include "jit/cuda/solver.def"
#undef LAMINA_CUSOLVER_CALL

}  // namespace
