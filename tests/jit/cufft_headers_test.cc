// Our declarations of cuFFT are the toolkit's. Compiled where its headers are.
#include <cufft.h>

#include "jit/cuda/fft.h"
#include "tests/jit/toolkit_headers.h"

namespace cuda = lamina::jit::cuda;

namespace {

using lamina::testing::as_int;
using lamina::testing::kSameCall;
using S = cuda::FftStatus;
using T = cuda::FftType;

// Values of ours and the toolkit's.
constexpr int kSame[][2] = {
    {as_int(S::kSuccess), CUFFT_SUCCESS},
    {as_int(S::kInvalidPlan), CUFFT_INVALID_PLAN},
    {as_int(S::kAllocFailed), CUFFT_ALLOC_FAILED},
    {as_int(S::kInvalidValue), CUFFT_INVALID_VALUE},
    {as_int(S::kInternalError), CUFFT_INTERNAL_ERROR},
    {as_int(S::kExecFailed), CUFFT_EXEC_FAILED},
    {as_int(S::kSetupFailed), CUFFT_SETUP_FAILED},
    {as_int(S::kInvalidSize), CUFFT_INVALID_SIZE},
    {as_int(S::kInvalidDevice), CUFFT_INVALID_DEVICE},
    {as_int(S::kNoWorkspace), CUFFT_NO_WORKSPACE},
    {as_int(S::kNotImplemented), CUFFT_NOT_IMPLEMENTED},
    {as_int(S::kNotSupported), CUFFT_NOT_SUPPORTED},
    {as_int(T::kC64ToC64), CUFFT_C2C},
    {as_int(T::kF32ToC64), CUFFT_R2C},
    {as_int(T::kC64ToF32), CUFFT_C2R},
    {as_int(T::kC128ToC128), CUFFT_Z2Z},
    {as_int(T::kF64ToC128), CUFFT_D2Z},
    {as_int(T::kC128ToF64), CUFFT_Z2D},
    {cuda::kFftForward, CUFFT_FORWARD},
    {cuda::kFftInverse, CUFFT_INVERSE},
};
static_assert(lamina::testing::all_same(kSame));

#define LAMINA_CUFFT_CALL(result, member, symbol, parameters) \
  static_assert(kSameCall<&::symbol, decltype(cuda::Fft::member)>);
#include "jit/cuda/fft.def"
#undef LAMINA_CUFFT_CALL

}  // namespace
