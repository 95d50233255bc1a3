// The stand-in for cuBLAS, on the memory and streams of that for the driver. It refuses what the library's
// documentation says is refused, of what is used here: negative sizes, matrices whose columns overlap, sides,
// triangles and the like that there are not, work spaces that begin anywhere. Violations are what the library
// leaves open or would do otherwise than is wanted: solutions on no stream, or with a work space of its own,
// which all streams of the handle share; of many systems, ones in a stream that is captured, since their
// addresses are copied there, and addresses that are not the device's.
//
// Systems are solved as by the CPU, in the type that is asked for, so that its bits show; the other triangle,
// and a diagonal of ones, are not read. Of many systems only the addresses are on record as touched: what
// they are is known when it runs. Work space is poisoned.
//
// Environment: LAMINA_STANDIN_CUBLAS, its version (10000 * major + 100 * minor + patch).
#include "jit/cuda/cublas.h"

#include <algorithm>
#include <cstring>
#include <string>
#include <type_traits>
#include <vector>

#include "hlo/strings.h"
#include "tests/jit/cuda_standin/routine.h"
#include "tests/jit/cuda_standin/standin.h"

namespace lamina::jit::cuda {
struct OpaqueCublas {
  ContextHandle context;
  StreamHandle stream = nullptr;
  void* workspace = nullptr;
  size_t workspace_bytes = 0;
};
}  // namespace lamina::jit::cuda

namespace {

using namespace lamina;
using namespace lamina::jit::cuda;
using hlo::Dims;
using hlo::DType;
using standins::Bytes;
using Touch = standins::FakeQueues::Touch;
using Access = standins::FakeQueues::Access;

// op(a) x = b of m rows and n columns, or x op(a) = b.
struct Problem {
  DType type;
  BlasSide side;
  BlasTriangle triangle;
  BlasTurn turn;
  BlasDiagonal diagonal;
  int64_t m, n, stride, right_stride;

  int64_t rows() const { return side == BlasSide::kLeft ? m : n; }
  int64_t width() const { return hlo::byte_size(type); }
  int64_t matrix_bytes() const { return ((rows() - 1) * stride + rows()) * width(); }
  int64_t right_bytes() const { return ((n - 1) * right_stride + m) * width(); }
};

void negate_imaginary(DType type, std::byte* number) {
  if (hlo::is_complex(type)) number[hlo::byte_size(type) - 1] ^= std::byte{0x80};
}

// Systems that stand on the right are those of the transposes.
void solve(const Problem& p, const std::byte* matrix, std::byte* right) {
  const int64_t rows = p.rows();
  const bool is_left = p.side == BlasSide::kLeft, turns = (p.turn != BlasTurn::kNone) == is_left,
             is_lower = (p.triangle == BlasTriangle::kLower) != turns,
             is_unit = p.diagonal == BlasDiagonal::kOnes;
  const auto width = static_cast<size_t>(p.width());
  Bytes a(static_cast<size_t>(rows * rows) * width);
  for (int64_t i = 0; i < rows; ++i)
    for (int64_t j = 0; j < rows; ++j) {
      if ((is_lower ? j > i : j < i) || (is_unit && i == j)) continue;
      std::byte* const to = &a[static_cast<size_t>(i * rows + j) * width];
      std::memcpy(to, matrix + (turns ? i * p.stride + j : j * p.stride + i) * p.width(), width);
      if (p.turn == BlasTurn::kAdjoint) negate_imaginary(p.type, to);
    }
  const int64_t columns = is_left ? p.n : p.m;
  const auto each = [&](auto f) {
    for (int64_t i = 0; i < rows; ++i)
      for (int64_t j = 0; j < columns; ++j)
        f(static_cast<size_t>(i * columns + j) * width,
          right + (is_left ? j * p.right_stride + i : i * p.right_stride + j) * p.width());
  };
  Bytes b(static_cast<size_t>(rows * columns) * width);
  each([&](size_t dense, const std::byte* from) { std::memcpy(&b[dense], from, width); });
  const hlo::Type *const type = hlo::array_type_or_die(p.type, Dims{rows, rows}), *const of_right =
                                                                                      hlo::array_type_or_die(
                                                                                          p.type,
                                                                                          Dims{rows,
                                                                                               columns});
  const std::string name = str_cat("lamina.solve_", is_unit ? "unit_" : "", is_lower ? "lower" : "upper");
  const Bytes x = standins::routine(name.c_str(), {type, of_right}, {a, b}, {of_right})[0];
  each([&](size_t dense, std::byte* to) { std::memcpy(to, &x[dense], width); });
}

bool is_one(DType type, const void* alpha) {
  if (hlo::part_type(type) == DType::kF32) {
    const auto* const x = static_cast<const float*>(alpha);
    return x[0] == 1 && (!hlo::is_complex(type) || x[1] == 0);
  }
  const auto* const x = static_cast<const double*>(alpha);
  return x[0] == 1 && (!hlo::is_complex(type) || x[1] == 0);
}

uintptr_t address(const void* at) { return reinterpret_cast<uintptr_t>(at); }

// Whether it is one to be solved: `status` says why not, or that there is nothing to do.
bool accept(CublasHandle handle, const Problem& p, const void* alpha, int64_t count, BlasStatus& status) {
  status = BlasStatus::kNotInitialized;
  if (!handle) return false;
  status = BlasStatus::kExecutionFailed;
  if (standins::enter(handle->context, "a solution") != Result::kSuccess) return false;
  status = static_cast<BlasStatus>(standins::failure(kStandinSolve));
  if (status != BlasStatus::kSuccess) return false;
  status = BlasStatus::kInvalidValue;
  const auto is_of = [](auto value, int most) {
    return static_cast<int>(value) >= 0 && static_cast<int>(value) <= most;
  };
  if (!is_of(p.side, 1) || !is_of(p.triangle, 1) || !is_of(p.turn, 2) || !is_of(p.diagonal, 1) || p.m < 0 ||
      p.n < 0 || count < 0 || !alpha || p.stride < std::max<int64_t>(p.rows(), 1) ||
      p.right_stride < std::max<int64_t>(p.m, 1))
    return false;
  if (!handle->stream || standins::context_of(handle->stream) != handle->context) {
    standins::violation("a solution on no stream, or one of another device than its handle's");
    return false;
  }
  if (!handle->workspace) standins::violation("a solution in work space that others share");
  if (!is_one(p.type, alpha)) standins::violation("a solution of a multiple");
  status = BlasStatus::kSuccess;
  return p.m > 0 && p.n > 0 && count > 0;
}

void enqueue(CublasHandle handle, const std::string& what, std::vector<Touch> touches,
             std::function<void()> work) {
  if (handle->workspace)
    touches.push_back({jit::Address(address(handle->workspace)),
                       static_cast<int64_t>(handle->workspace_bytes), Access::kScratch});
  standins::enqueue(handle->stream,
                    {standins::FakeQueues::Kind::kLaunch, what, std::move(touches), std::move(work)});
}

BlasStatus solve_one(CublasHandle handle, const Problem& p, const void* alpha, const void* matrix,
                     void* right) {
  BlasStatus status;
  if (!accept(handle, p, alpha, 1, status)) return status;
  if (!matrix || !right) return BlasStatus::kInvalidValue;
  enqueue(handle, str_cat("a solution of ", p.rows(), " rows"),
          {{jit::Address(address(right)), p.right_bytes(), Access::kWrite},
           {jit::Address(address(right)), p.right_bytes(), Access::kRead},
           {jit::Address(address(matrix)), p.matrix_bytes(), Access::kRead}},
          [=] { solve(p, standins::bytes_at(address(matrix)), standins::bytes_at(address(right))); });
  return BlasStatus::kSuccess;
}

BlasStatus solve_each(CublasHandle handle, const Problem& p, const void* alpha, const void* matrices,
                      const void* rights, int count) {
  BlasStatus status;
  if (!accept(handle, p, alpha, count, status)) return status;
  if (!matrices || !rights) return BlasStatus::kInvalidValue;
  if (standins::check_uncaptured(handle->stream, "a solution of many systems") != Result::kSuccess)
    return BlasStatus::kInternalError;
  const int64_t bytes = int64_t{8} * count;
  enqueue(handle, str_cat(count, " solutions of ", p.rows(), " rows"),
          {{jit::Address(address(matrices)), bytes, Access::kRead},
           {jit::Address(address(rights)), bytes, Access::kRead}},
          [=] {
            const auto of = [&](const void* list, int i) {
              uint64_t found;
              std::memcpy(&found, standins::bytes_at(address(list)) + int64_t{8} * i, sizeof found);
              return found;
            };
            for (int i = 0; i < count; ++i) {
              const uint64_t matrix = of(matrices, i), right = of(rights, i);
              if (!standins::FakeQueues::is_ours(jit::Address(matrix)) ||
                  !standins::FakeQueues::is_ours(jit::Address(right)))
                return standins::violation("a solution of systems whose addresses are not the device's");
              solve(p, standins::bytes_at(matrix), standins::bytes_at(right));
            }
          });
  return BlasStatus::kSuccess;
}

int version_part(BlasProperty which) {
  const int version = standins::setting("LAMINA_STANDIN_CUBLAS", 120402);
  return which == BlasProperty::kMajor   ? version / 10'000
         : which == BlasProperty::kMinor ? version / 100 % 100
                                         : version % 100;
}

}  // namespace

#pragma GCC visibility push(default)
extern "C" {

BlasStatus cublasGetProperty(BlasProperty which, int* value) {
  *value = version_part(which);
  return BlasStatus::kSuccess;
}
const char* cublasGetStatusName(BlasStatus status) {
  switch (status) {
    case BlasStatus::kAllocFailed:
      return "CUBLAS_STATUS_ALLOC_FAILED";
    case BlasStatus::kExecutionFailed:
      return "CUBLAS_STATUS_EXECUTION_FAILED";
    default:
      return "CUBLAS_STATUS of another kind";
  }
}

BlasStatus cublasCreate_v2(CublasHandle* handle) {
  const ContextHandle context = standins::current_context();
  if (!context || standins::enter(context, "a handle of cuBLAS") != Result::kSuccess)
    return BlasStatus::kNotInitialized;
  *handle = new OpaqueCublas{context};
  return BlasStatus::kSuccess;
}
BlasStatus cublasSetStream_v2(CublasHandle handle, StreamHandle stream) {
  if (!handle) return BlasStatus::kNotInitialized;
  handle->stream = stream;
  handle->workspace = nullptr;
  return BlasStatus::kSuccess;
}
BlasStatus cublasSetWorkspace_v2(CublasHandle handle, void* workspace, size_t bytes) {
  if (!handle) return BlasStatus::kNotInitialized;
  if (address(workspace) % kCublasWorkspaceAlignment != 0) return BlasStatus::kInvalidValue;
  handle->workspace = workspace;
  handle->workspace_bytes = bytes;
  return BlasStatus::kSuccess;
}

#define LAMINA_SOLVE(letter, type)                                                                          \
  BlasStatus cublas##letter##trsm_v2(CublasHandle handle, BlasSide side, BlasTriangle triangle,             \
                                     BlasTurn turn, BlasDiagonal diagonal, int m, int n, const void* alpha, \
                                     const void* matrix, int stride, void* right, int right_stride) {       \
    return solve_one(handle, {type, side, triangle, turn, diagonal, m, n, stride, right_stride}, alpha,     \
                     matrix, right);                                                                        \
  }                                                                                                         \
  BlasStatus cublas##letter##trsmBatched(CublasHandle handle, BlasSide side, BlasTriangle triangle,         \
                                         BlasTurn turn, BlasDiagonal diagonal, int m, int n,                \
                                         const void* alpha, const void* matrices, int stride,               \
                                         const void* rights, int right_stride, int count) {                 \
    return solve_each(handle, {type, side, triangle, turn, diagonal, m, n, stride, right_stride}, alpha,    \
                      matrices, rights, count);                                                             \
  }
LAMINA_SOLVE(S, DType::kF32)
LAMINA_SOLVE(D, DType::kF64)
LAMINA_SOLVE(C, DType::kC64)
LAMINA_SOLVE(Z, DType::kC128)
#undef LAMINA_SOLVE
}
#pragma GCC visibility pop

#define LAMINA_CUBLAS_CALL(result, member, symbol, parameters) \
  static_assert(std::is_same_v<decltype(&symbol), decltype(Cublas::member)>);
#include "jit/cuda/cublas.def"
#undef LAMINA_CUBLAS_CALL
