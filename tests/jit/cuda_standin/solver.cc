// The stand-in for cuSOLVER, on the memory and streams of that for the driver. It refuses what the library's
// documentation says is refused, of what is used here: matrices whose columns overlap, types that do not go
// together, work spaces that are too small. Violations are what the library leaves open: factorizations on no
// stream, or one that is captured, of numbers that are not finite, with a work space that begins anywhere.
//
// Matrices are factored as by the CPU, in the type that is asked for, so that its bits show. Of a matrix
// without a factor, and where only values are asked for, the numbers are lost.
//
// Environment: LAMINA_STANDIN_CUSOLVER, its version (1000 * major + 100 * minor + patch).
#include "jit/cuda/solver.h"

#include <array>
#include <cmath>
#include <cstring>
#include <type_traits>
#include <vector>

#include "hlo/linalg/calls.h"
#include "hlo/strings.h"
#include "tests/jit/cuda_standin/standin.h"

namespace lamina::jit::cuda {
struct OpaqueSolver {
  ContextHandle context;
  StreamHandle stream = nullptr;
};
struct OpaqueSolverParameters {};
}  // namespace lamina::jit::cuda

namespace {

using namespace lamina;
using namespace lamina::jit::cuda;
using hlo::Dims;
using hlo::DType;
using Touch = standins::FakeQueues::Touch;
using Access = standins::FakeQueues::Access;

constexpr unsigned char kLost = 0xd7;

DType dtype_of(MatrixType type) {
  switch (type) {
    case MatrixType::kF32:
      return DType::kF32;
    case MatrixType::kC64:
      return DType::kC64;
    case MatrixType::kC128:
      return DType::kC128;
    default:
      return DType::kF64;
  }
}

// Square matrices, of which the upper triangle is read; that of rows is the lower one.
struct Problem {
  DType type;
  int64_t n, stride;

  int64_t width() const { return hlo::byte_size(type); }
  int64_t bytes() const { return ((n - 1) * stride + n) * width(); }
};

// The parts of element `i`.
std::array<double, 2> number_at(DType type, const std::byte* data, int64_t i) {
  const int64_t parts = hlo::num_parts(type);
  std::array<double, 2> out{};
  for (int64_t p = 0; p < parts; ++p) {
    if (hlo::part_type(type) == DType::kF32) {
      float x;
      std::memcpy(&x, data + (i * parts + p) * 4, 4);
      out[static_cast<size_t>(p)] = static_cast<double>(x);
    } else {
      std::memcpy(&out[static_cast<size_t>(p)], data + (i * parts + p) * 8, 8);
    }
  }
  return out;
}

bool is_finite(DType type, const std::byte* data, int64_t i) {
  const std::array<double, 2> x = number_at(type, data, i);
  return std::isfinite(x[0]) && std::isfinite(x[1]);
}

void negate_imaginary(DType type, std::byte* number) {
  if (!hlo::is_complex(type)) return;
  std::byte& last = number[hlo::byte_size(type) - 1];
  last ^= std::byte{0x80};
}

// What the CPU makes of dense rows.
std::vector<std::vector<std::byte>> routine(const char* name, const hlo::Type* operand,
                                            const std::vector<std::byte>& rows,
                                            const std::vector<const hlo::Type*>& results) {
  std::vector<std::vector<std::byte>> out;
  std::vector<void*> to;
  for (const hlo::Type* t : results) out.emplace_back(static_cast<size_t>(t->bytes()));
  for (std::vector<std::byte>& o : out) to.push_back(o.data());
  const void* const from[] = {rows.data()};
  const auto call =
      hlo::linalg::MatrixCall::make(*hlo::linalg::find_routine(name), std::array{operand}, results);
  const auto in_turn = [](int64_t count, const std::function<void(int64_t)>& one) {
    for (int64_t i = 0; i < count; ++i) one(i);
  };
  if (!call.ok() || !call->run(from, to.data(), 0, 1, in_turn).ok())
    standins::violation("a factorization has no meaning");
  return out;
}

std::vector<std::byte> rows_of(const Problem& p, const std::byte* matrix) {
  std::vector<std::byte> out(static_cast<size_t>(p.n * p.n * p.width()));
  for (int64_t i = 0; i < p.n; ++i) {
    std::memcpy(&out[static_cast<size_t>(i * p.n * p.width())], matrix + i * p.stride * p.width(),
                static_cast<size_t>((i + 1) * p.width()));
    for (int64_t j = 0; j <= i; ++j)
      if (!is_finite(p.type, matrix, i * p.stride + j)) {
        standins::violation("a factorization of numbers that are not finite");
        return out;
      }
  }
  return out;
}

void lose(const Problem& p, std::byte* matrix) {
  for (int64_t i = 0; i < p.n; ++i)
    std::memset(matrix + i * p.stride * p.width(), kLost, static_cast<size_t>(p.n * p.width()));
}

void cholesky(const Problem& p, std::byte* matrix, std::byte* info) {
  const hlo::Type* const type = hlo::array_type_or_die(p.type, Dims{p.n, p.n});
  const std::vector<std::byte> factor = routine("lamina.cholesky", type, rows_of(p, matrix), {type})[0];
  const int32_t fails = is_finite(p.type, factor.data(), 0) ? 0 : 1;
  std::memcpy(info, &fails, sizeof fails);
  lose(p, matrix);
  for (int64_t i = 0; i < p.n && fails == 0; ++i)
    std::memcpy(matrix + i * p.stride * p.width(), &factor[static_cast<size_t>(i * p.n * p.width())],
                static_cast<size_t>((i + 1) * p.width()));
}

void eigen(const Problem& p, bool vectors, std::byte* matrix, std::byte* values, std::byte* info) {
  const hlo::Type* const type = hlo::array_type_or_die(p.type, Dims{p.n, p.n});
  const hlo::Type* const of_values = hlo::array_type_or_die(hlo::part_type(p.type), Dims{p.n});
  const std::vector<std::byte> rows = rows_of(p, matrix);
  std::vector<std::vector<std::byte>> found = vectors ? routine("lamina.eigh", type, rows, {type, of_values})
                                                      : routine("lamina.eigvalsh", type, rows, {of_values});
  std::memcpy(values, found.back().data(), found.back().size());
  constexpr int32_t kNone = 0;
  std::memcpy(info, &kNone, sizeof kNone);
  lose(p, matrix);
  // The matrix that the library sees is the conjugate of that of rows.
  const auto width = static_cast<size_t>(p.width());
  for (int64_t i = 0; i < p.n && vectors; ++i)
    for (int64_t j = 0; j < p.n; ++j) {
      std::byte* const to = matrix + (j * p.stride + i) * p.width();
      std::memcpy(to, &found[0][static_cast<size_t>(i * p.n + j) * width], width);
      negate_imaginary(p.type, to);
    }
}

struct Spaces {
  size_t device, host;
};
Spaces spaces_of(const Problem& p, bool is_eigen) {
  const auto bytes = static_cast<size_t>(p.n * p.width());
  return is_eigen ? Spaces{2 * bytes * static_cast<size_t>(p.n), 16 * static_cast<size_t>(p.n)}
                  : Spaces{bytes, 0};
}

SolverStatus problem_of(SolverHandle handle, SolverParameters parameters, SolverTriangle triangle, int64_t n,
                        MatrixType type, int64_t stride, MatrixType part, MatrixType compute, Problem& out) {
  if (!handle) return SolverStatus::kNotInitialized;
  if (standins::enter(handle->context, "a factorization") != Result::kSuccess)
    return SolverStatus::kExecutionFailed;
  if (!parameters || n < 1 || stride < n) return SolverStatus::kInvalidValue;
  if (triangle != SolverTriangle::kUpper || type != compute ||
      dtype_of(part) != hlo::part_type(dtype_of(type)))
    return SolverStatus::kNotSupported;
  out = {dtype_of(type), n, stride};
  return SolverStatus::kSuccess;
}

// What is common to the calls that work, but what runs.
SolverStatus enqueue(SolverHandle handle, const Problem& p, bool is_eigen, void* matrix, void* values,
                     void* on_device, size_t device_bytes, void* on_host, size_t host_bytes, int* info,
                     std::function<void(std::byte* matrix, std::byte* values, std::byte* info)> work) {
  if (const int failure = standins::failure(kStandinFactor); failure != 0)
    return static_cast<SolverStatus>(failure);
  if (!handle->stream || standins::context_of(handle->stream) != handle->context) {
    standins::violation("a factorization on no stream, or one of another device than its handle's");
    return SolverStatus::kInvalidValue;
  }
  if (standins::check_uncaptured(handle->stream, "a factorization") != Result::kSuccess)
    return SolverStatus::kInternalError;
  const auto address = [](const void* at) { return reinterpret_cast<uintptr_t>(at); };
  const Spaces needed = spaces_of(p, is_eigen);
  if (device_bytes < needed.device || host_bytes < needed.host || (needed.host > 0 && !on_host))
    return SolverStatus::kInvalidWorkspace;
  if (!matrix || !info || !on_device) return SolverStatus::kInvalidValue;
  if (address(on_device) % kSolverWorkspaceAlignment != 0)
    standins::violation("a work space of cuSOLVER that begins anywhere");
  std::vector<Touch> touches{
      {jit::Address(address(matrix)), p.bytes(), Access::kWrite},
      {jit::Address(address(matrix)), p.bytes(), Access::kRead},
      {jit::Address(address(info)), 4, Access::kWrite},
      {jit::Address(address(on_device)), static_cast<int64_t>(needed.device), Access::kScratch}};
  if (is_eigen)
    touches.push_back(
        {jit::Address(address(values)), p.n * hlo::byte_size(hlo::part_type(p.type)), Access::kWrite});
  standins::enqueue(handle->stream, {standins::FakeQueues::Kind::kLaunch,
                                     str_cat("a factorization of ", p.n, " rows"), std::move(touches), [=] {
                                       work(standins::bytes_at(address(matrix)),
                                            is_eigen ? standins::bytes_at(address(values)) : nullptr,
                                            standins::bytes_at(address(info)));
                                     }});
  return SolverStatus::kSuccess;
}

}  // namespace

#pragma GCC visibility push(default)
extern "C" {

SolverStatus cusolverGetVersion(int* version) {
  *version = standins::setting("LAMINA_STANDIN_CUSOLVER", 11602);
  return SolverStatus::kSuccess;
}

SolverStatus cusolverDnCreate(SolverHandle* handle) {
  const ContextHandle context = standins::current_context();
  if (!context || standins::enter(context, "a handle of cuSOLVER") != Result::kSuccess)
    return SolverStatus::kNotInitialized;
  *handle = new OpaqueSolver{context};
  return SolverStatus::kSuccess;
}
SolverStatus cusolverDnCreateParams(SolverParameters* parameters) {
  *parameters = new OpaqueSolverParameters;
  return SolverStatus::kSuccess;
}
SolverStatus cusolverDnSetStream(SolverHandle handle, StreamHandle stream) {
  if (!handle) return SolverStatus::kNotInitialized;
  handle->stream = stream;
  return SolverStatus::kSuccess;
}

SolverStatus cusolverDnXpotrf_bufferSize(SolverHandle handle, SolverParameters parameters,
                                         SolverTriangle triangle, int64_t n, MatrixType type, const void*,
                                         int64_t stride, MatrixType compute, size_t* device_bytes,
                                         size_t* host_bytes) {
  Problem p{};
  const SolverStatus status = problem_of(handle, parameters, triangle, n, type, stride,
                                         type == MatrixType::kC64    ? MatrixType::kF32
                                         : type == MatrixType::kC128 ? MatrixType::kF64
                                                                     : type,
                                         compute, p);
  if (status != SolverStatus::kSuccess) return status;
  const Spaces spaces = spaces_of(p, false);
  *device_bytes = spaces.device;
  *host_bytes = spaces.host;
  return status;
}

SolverStatus cusolverDnXpotrf(SolverHandle handle, SolverParameters parameters, SolverTriangle triangle,
                              int64_t n, MatrixType type, void* matrix, int64_t stride, MatrixType compute,
                              void* on_device, size_t device_bytes, void* on_host, size_t host_bytes,
                              int* info) {
  Problem p{};
  const SolverStatus status = problem_of(handle, parameters, triangle, n, type, stride,
                                         type == MatrixType::kC64    ? MatrixType::kF32
                                         : type == MatrixType::kC128 ? MatrixType::kF64
                                                                     : type,
                                         compute, p);
  if (status != SolverStatus::kSuccess) return status;
  return enqueue(handle, p, false, matrix, nullptr, on_device, device_bytes, on_host, host_bytes, info,
                 [p](std::byte* a, std::byte*, std::byte* i) { cholesky(p, a, i); });
}

SolverStatus cusolverDnXsyevd_bufferSize(SolverHandle handle, SolverParameters parameters, SolverVectors,
                                         SolverTriangle triangle, int64_t n, MatrixType type, const void*,
                                         int64_t stride, MatrixType values_type, const void*,
                                         MatrixType compute, size_t* device_bytes, size_t* host_bytes) {
  Problem p{};
  const SolverStatus status =
      problem_of(handle, parameters, triangle, n, type, stride, values_type, compute, p);
  if (status != SolverStatus::kSuccess) return status;
  const Spaces spaces = spaces_of(p, true);
  *device_bytes = spaces.device;
  *host_bytes = spaces.host;
  return status;
}

SolverStatus cusolverDnXsyevd(SolverHandle handle, SolverParameters parameters, SolverVectors vectors,
                              SolverTriangle triangle, int64_t n, MatrixType type, void* matrix,
                              int64_t stride, MatrixType values_type, void* values, MatrixType compute,
                              void* on_device, size_t device_bytes, void* on_host, size_t host_bytes,
                              int* info) {
  Problem p{};
  const SolverStatus status =
      problem_of(handle, parameters, triangle, n, type, stride, values_type, compute, p);
  if (status != SolverStatus::kSuccess) return status;
  if (!values) return SolverStatus::kInvalidValue;
  return enqueue(handle, p, true, matrix, values, on_device, device_bytes, on_host, host_bytes, info,
                 [p, vectors](std::byte* a, std::byte* w, std::byte* i) {
                   eigen(p, vectors == SolverVectors::kAll, a, w, i);
                 });
}
}
#pragma GCC visibility pop

#define LAMINA_CUSOLVER_CALL(result, member, symbol, parameters) \
  static_assert(std::is_same_v<decltype(&symbol), decltype(Solver::member)>);
#include "jit/cuda/solver.def"
#undef LAMINA_CUSOLVER_CALL
