// Our declarations of cuBLAS are the toolkit's. Compiled where its headers are.
#include <cublas_v2.h>

#include "jit/cuda/cublas.h"
#include "tests/jit/toolkit_headers.h"

namespace cuda = lamina::jit::cuda;

namespace {

using lamina::testing::as_int;
using lamina::testing::kSameCall;

// Values of ours and the toolkit's.
constexpr int kSame[][2] = {
    {as_int(cuda::BlasProperty::kMajor), MAJOR_VERSION},
    {as_int(cuda::BlasProperty::kMinor), MINOR_VERSION},
    {as_int(cuda::BlasProperty::kPatch), PATCH_LEVEL},
    {as_int(cuda::BlasSide::kLeft), CUBLAS_SIDE_LEFT},
    {as_int(cuda::BlasSide::kRight), CUBLAS_SIDE_RIGHT},
    {as_int(cuda::BlasTriangle::kLower), CUBLAS_FILL_MODE_LOWER},
    {as_int(cuda::BlasTriangle::kUpper), CUBLAS_FILL_MODE_UPPER},
    {as_int(cuda::BlasTurn::kNone), CUBLAS_OP_N},
    {as_int(cuda::BlasTurn::kTransposed), CUBLAS_OP_T},
    {as_int(cuda::BlasTurn::kAdjoint), CUBLAS_OP_C},
    {as_int(cuda::BlasDiagonal::kAny), CUBLAS_DIAG_NON_UNIT},
    {as_int(cuda::BlasDiagonal::kOnes), CUBLAS_DIAG_UNIT},
};
static_assert(lamina::testing::all_same(kSame));

#define LAMINA_CUBLAS_CALL(result, member, symbol, parameters) \
  static_assert(kSameCall<&::symbol, decltype(cuda::Cublas::member)>);
#include "jit/cuda/cublas.def"
#undef LAMINA_CUBLAS_CALL

}  // namespace
