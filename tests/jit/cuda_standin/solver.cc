// The stand-in for cuSOLVER, on the memory and streams of that for the driver. It refuses what the library's
// documentation says is refused, of what is used here: matrices whose columns overlap, types that do not go
// together, work spaces that are too small, more columns than rows where there may not be. Violations are
// what the library leaves open: factorizations on no stream, or one that is captured, of numbers that are not
// finite, with a work space that begins anywhere or, of the host, is another's before it has run; solutions
// with pivots that name no row.
//
// Matrices are factored as by the CPU, in the type that is asked for, so that its bits show. Of a matrix
// without a factor, and where only values are asked for, the numbers are lost.
//
// Environment: LAMINA_STANDIN_CUSOLVER, its version (1000 * major + 100 * minor + patch).
#include "jit/cuda/solver.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <cmath>
#include <complex>
#include <cstring>
#include <numeric>
#include <type_traits>
#include <vector>

#include "hlo/strings.h"
#include "tests/jit/cuda_standin/routine.h"
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

// A matrix of m rows and n columns.
struct Problem {
  DType type;
  int64_t m, n, stride;

  int64_t width() const { return hlo::byte_size(type); }
  int64_t bytes() const { return ((n - 1) * stride + m) * width(); }
  std::byte* at(std::byte* matrix, int64_t i, int64_t j) const { return matrix + (j * stride + i) * width(); }
  const hlo::Type* of(Dims dims) const { return hlo::array_type_or_die(type, dims); }
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

using standins::Bytes;
using standins::routine;
Bytes to_bytes(const std::vector<int32_t>& numbers) {
  Bytes out(numbers.size() * sizeof(int32_t));
  std::memcpy(out.data(), numbers.data(), out.size());
  return out;
}
std::vector<int32_t> to_numbers(const Bytes& bytes) {
  std::vector<int32_t> out(bytes.size() / sizeof(int32_t));
  std::memcpy(out.data(), bytes.data(), bytes.size());
  return out;
}

// Of symmetric matrices the upper triangle is read; that of rows is the lower one.
Bytes triangle_of(const Problem& p, const std::byte* matrix) {
  Bytes out(static_cast<size_t>(p.n * p.n * p.width()));
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

Bytes rows_of(const Problem& p, std::byte* matrix) {
  const auto width = static_cast<size_t>(p.width());
  Bytes out(static_cast<size_t>(p.m * p.n) * width);
  for (int64_t i = 0; i < p.m; ++i)
    for (int64_t j = 0; j < p.n; ++j)
      std::memcpy(&out[static_cast<size_t>(i * p.n + j) * width], p.at(matrix, i, j), width);
  return out;
}
void set_rows(const Problem& p, std::byte* matrix, const Bytes& rows) {
  const auto width = static_cast<size_t>(p.width());
  for (int64_t i = 0; i < p.m; ++i)
    for (int64_t j = 0; j < p.n; ++j)
      std::memcpy(p.at(matrix, i, j), &rows[static_cast<size_t>(i * p.n + j) * width], width);
}
void check_finite(const Problem& p, std::byte* matrix) {
  for (int64_t i = 0; i < p.m; ++i)
    for (int64_t j = 0; j < p.n; ++j)
      if (!is_finite(p.type, p.at(matrix, i, j), 0))
        return standins::violation("a factorization of numbers that are not finite");
}

void lose(const Problem& p, std::byte* matrix) {
  for (int64_t j = 0; j < p.n; ++j)
    std::memset(p.at(matrix, 0, j), kLost, static_cast<size_t>(p.m * p.width()));
}

void cholesky(const Problem& p, std::byte* matrix, std::byte* info) {
  const hlo::Type* const type = p.of({p.n, p.n});
  const Bytes factor = routine("lamina.cholesky", {type}, {triangle_of(p, matrix)}, {type})[0];
  const int32_t fails = is_finite(p.type, factor.data(), 0) ? 0 : 1;
  std::memcpy(info, &fails, sizeof fails);
  lose(p, matrix);
  for (int64_t i = 0; i < p.n && fails == 0; ++i)
    std::memcpy(matrix + i * p.stride * p.width(), &factor[static_cast<size_t>(i * p.n * p.width())],
                static_cast<size_t>((i + 1) * p.width()));
}

void eigen(const Problem& p, bool vectors, std::byte* matrix, std::byte* values, std::byte* info) {
  const hlo::Type* const type = p.of({p.n, p.n});
  const hlo::Type* const of_values = hlo::array_type_or_die(hlo::part_type(p.type), Dims{p.n});
  const Bytes rows = triangle_of(p, matrix);
  const std::vector<Bytes> found = vectors ? routine("lamina.eigh", {type}, {rows}, {type, of_values})
                                           : routine("lamina.eigvalsh", {type}, {rows}, {of_values});
  std::memcpy(values, found.back().data(), found.back().size());
  constexpr int32_t kNone = 0;
  std::memcpy(info, &kNone, sizeof kNone);
  lose(p, matrix);
  if (!vectors) return;
  // The matrix that the library sees is the conjugate of that of rows.
  set_rows(p, matrix, found[0]);
  for (int64_t i = 0; i < p.n; ++i)
    for (int64_t j = 0; j < p.n; ++j) negate_imaginary(p.type, p.at(matrix, i, j));
}

void lu(const Problem& p, std::byte* matrix, std::byte* pivots, std::byte* info) {
  check_finite(p, matrix);
  const int64_t steps = std::min(p.m, p.n);
  const hlo::Type* const type = p.of({p.m, p.n});
  const auto integers = [](int64_t n) { return hlo::array_type_or_die(DType::kS32, Dims{n}); };
  const std::vector<Bytes> found =
      routine("lamina.lu", {type}, {rows_of(p, matrix)}, {type, integers(steps), integers(p.m)});
  set_rows(p, matrix, found[0]);
  int32_t first_zero = 0;
  const std::vector<int32_t> zero_based = to_numbers(found[1]);
  for (int64_t k = 0; k < steps; ++k) {
    const int64_t pivot = zero_based[static_cast<size_t>(k)] + 1;
    std::memcpy(pivots + k * 8, &pivot, sizeof pivot);
    if (first_zero == 0 && number_at(p.type, p.at(matrix, k, k), 0) == std::array<double, 2>{})
      first_zero = static_cast<int32_t>(k + 1);
  }
  std::memcpy(info, &first_zero, sizeof first_zero);
}

void lu_solve(const Problem& p, const Problem& right, bool transposed, std::byte* matrix, std::byte* pivots,
              std::byte* b, std::byte* info) {
  std::vector<int32_t> order(static_cast<size_t>(p.n));
  std::iota(order.begin(), order.end(), 0);
  for (int64_t k = 0; k < p.n; ++k) {
    int64_t pivot;
    std::memcpy(&pivot, pivots + k * 8, sizeof pivot);
    if (pivot <= k || pivot > p.n) return standins::violation("pivots that name no row");
    std::swap(order[static_cast<size_t>(k)], order[static_cast<size_t>(pivot - 1)]);
  }
  const hlo::Type *const type = p.of({p.n, p.n}), *const of_right = p.of({right.m, right.n});
  const Bytes packed = rows_of(p, matrix);
  set_rows(right, b,
           routine(transposed ? "lamina.lu_solve_transposed" : "lamina.lu_solve",
                   {type, type, hlo::array_type_or_die(DType::kS32, Dims{p.n}), of_right},
                   {packed, packed, to_bytes(order), rows_of(right, b)}, {of_right})[0]);
  constexpr int32_t kNone = 0;
  std::memcpy(info, &kNone, sizeof kNone);
}

void reflections(const Problem& p, std::byte* matrix, std::byte* scales, std::byte* info) {
  check_finite(p, matrix);
  const hlo::Type *const type = p.of({p.m, p.n}), *const of_scales = p.of({std::min(p.m, p.n)});
  const std::vector<Bytes> found = routine("lamina.geqrf", {type}, {rows_of(p, matrix)}, {type, of_scales});
  set_rows(p, matrix, found[0]);
  std::memcpy(scales, found[1].data(), found[1].size());
  constexpr int32_t kNone = 0;
  std::memcpy(info, &kNone, sizeof kNone);
}

using Complex = std::complex<double>;
Complex complex_at(DType type, const std::byte* number) {
  const std::array<double, 2> parts = number_at(type, number, 0);
  return {parts[0], parts[1]};
}
void set_complex(DType type, std::byte* number, Complex x) {
  const double parts[] = {x.real(), x.imag()};
  for (int64_t p = 0; p < hlo::num_parts(type); ++p) {
    const auto narrow = static_cast<float>(parts[p]);
    if (hlo::part_type(type) == DType::kF32)
      std::memcpy(number + p * 4, &narrow, 4);
    else
      std::memcpy(number + p * 8, &parts[p], 8);
  }
}

// The product of k reflections 1 - scale v v^H, where v begins with 1 and goes on below the diagonal.
void columns(const Problem& p, int64_t k, std::byte* matrix, const std::byte* scales, std::byte* info) {
  std::vector<std::vector<Complex>> q;
  for (int64_t j = 0; j < p.n; ++j) q.emplace_back(static_cast<size_t>(p.m))[static_cast<size_t>(j)] = 1;
  for (int64_t r = k; r-- > 0;) {
    const Complex scale = complex_at(p.type, scales + r * p.width());
    const auto v = [&](int64_t i) { return i == r ? Complex(1) : complex_at(p.type, p.at(matrix, i, r)); };
    for (std::vector<Complex>& column : q) {
      Complex sum = 0;
      for (int64_t i = r; i < p.m; ++i) sum += std::conj(v(i)) * column[static_cast<size_t>(i)];
      for (int64_t i = r; i < p.m; ++i) column[static_cast<size_t>(i)] -= scale * sum * v(i);
    }
  }
  for (int64_t j = 0; j < p.n; ++j)
    for (int64_t i = 0; i < p.m; ++i)
      set_complex(p.type, p.at(matrix, i, j), q[static_cast<size_t>(j)][static_cast<size_t>(i)]);
  constexpr int32_t kNone = 0;
  std::memcpy(info, &kNone, sizeof kNone);
}

void singular(const Problem& p, const Problem& left, const Problem& right, bool has_vectors,
              std::byte* matrix, std::byte* values, std::byte* u, std::byte* v, std::byte* info) {
  check_finite(p, matrix);
  const hlo::Type* const type = p.of({p.m, p.n});
  const hlo::Type* const of_values = hlo::array_type_or_die(hlo::part_type(p.type), Dims{p.n});
  const Bytes rows = rows_of(p, matrix);
  lose(p, matrix);
  const std::vector<Bytes> found =
      has_vectors ? routine("lamina.svd", {type}, {rows},
                            {of_values, p.of({left.m, left.n}), p.of({right.m, right.n})})
                  : routine("lamina.svdvals", {type}, {rows}, {of_values});
  std::memcpy(values, found[0].data(), found[0].size());
  if (has_vectors) {
    set_rows(left, u, found[1]);
    set_rows(right, v, found[2]);
  }
  constexpr int32_t kNone = 0;
  std::memcpy(info, &kNone, sizeof kNone);
}

struct Spaces {
  size_t device, host;
};
// What the calls ask for is up to the library.
Spaces spaces_of(const Problem& p, bool is_iterated) {
  const auto bytes = static_cast<size_t>(p.n * p.width());
  return is_iterated ? Spaces{2 * bytes * static_cast<size_t>(p.n), 16 * static_cast<size_t>(p.n)}
                     : Spaces{bytes, 0};
}
SolverStatus give(const Spaces& spaces, size_t* device_bytes, size_t* host_bytes) {
  *device_bytes = spaces.device;
  *host_bytes = spaces.host;
  return SolverStatus::kSuccess;
}

SolverStatus problem_of(SolverHandle handle, SolverParameters parameters, int64_t m, int64_t n,
                        MatrixType type, int64_t stride, MatrixType compute, Problem& out) {
  if (!handle) return SolverStatus::kNotInitialized;
  if (standins::enter(handle->context, "a factorization") != Result::kSuccess)
    return SolverStatus::kExecutionFailed;
  if (!parameters || m < 1 || n < 1 || stride < m) return SolverStatus::kInvalidValue;
  if (type != compute) return SolverStatus::kNotSupported;
  out = {dtype_of(type), m, n, stride};
  return SolverStatus::kSuccess;
}
SolverStatus symmetric_problem_of(SolverHandle handle, SolverParameters parameters, BlasTriangle triangle,
                                  int64_t n, MatrixType type, int64_t stride, MatrixType compute,
                                  Problem& out) {
  const SolverStatus status = problem_of(handle, parameters, n, n, type, stride, compute, out);
  return status == SolverStatus::kSuccess && triangle != BlasTriangle::kUpper ? SolverStatus::kNotSupported
                                                                              : status;
}

// An array of a call.
struct Argument {
  const void* at;
  int64_t bytes;
  bool is_read, is_written;
};
uintptr_t address(const void* at) { return reinterpret_cast<uintptr_t>(at); }
std::byte* memory_at(const void* at) { return standins::bytes_at(address(at)); }

struct GivenSpaces {
  void* on_device;
  size_t device_bytes;
  void* on_host;
  size_t host_bytes;
};

// What is common to the calls that work, but what runs, which finds its arrays by `memory_at`.
SolverStatus enqueue(SolverHandle handle, int64_t rows, const Spaces& needed, const GivenSpaces& given,
                     std::vector<Argument> arguments, int* info, std::function<void()> work) {
  if (const int failure = standins::failure(kStandinFactor); failure != 0)
    return static_cast<SolverStatus>(failure);
  if (!handle->stream || standins::context_of(handle->stream) != handle->context) {
    standins::violation("a factorization on no stream, or one of another device than its handle's");
    return SolverStatus::kInvalidValue;
  }
  if (standins::check_uncaptured(handle->stream, "a factorization") != Result::kSuccess)
    return SolverStatus::kInternalError;
  if (given.device_bytes < needed.device || given.host_bytes < needed.host ||
      (needed.host > 0 && !given.on_host))
    return SolverStatus::kInvalidWorkspace;
  if (needed.device > 0 && !given.on_device) return SolverStatus::kInvalidValue;
  if (address(given.on_device) % kSolverWorkspaceAlignment != 0)
    standins::violation("a work space of cuSOLVER that begins anywhere");
  std::vector<Touch> touches;
  arguments.push_back({info, sizeof *info, false, true});
  for (const Argument& a : arguments) {
    if (!a.at) return SolverStatus::kInvalidValue;
    if (a.is_written) touches.push_back({jit::Address(address(a.at)), a.bytes, Access::kWrite});
    if (a.is_read) touches.push_back({jit::Address(address(a.at)), a.bytes, Access::kRead});
  }
  if (needed.device > 0)
    touches.push_back(
        {jit::Address(address(given.on_device)), static_cast<int64_t>(needed.device), Access::kScratch});
  auto* const on_host = static_cast<unsigned char*>(given.on_host);
  static std::atomic<unsigned char> calls{0};
  const unsigned char own = ++calls;
  if (needed.host > 0) std::memset(on_host, own, needed.host);
  standins::enqueue(handle->stream,
                    {standins::FakeQueues::Kind::kLaunch, str_cat("a factorization of ", rows, " rows"),
                     std::move(touches), [=, size = needed.host, work = std::move(work)] {
                       if (std::any_of(on_host, on_host + size, [=](unsigned char c) { return c != own; }))
                         standins::violation("a work space of the host that was taken back too early");
                       work();
                     }});
  return SolverStatus::kSuccess;
}

SolverStatus singular_problem_of(SolverHandle handle, SolverParameters parameters, signed char left_job,
                                 signed char right_job, MatrixType values_type, int64_t left_stride,
                                 int64_t right_stride, int64_t m, int64_t n, MatrixType type, int64_t stride,
                                 MatrixType compute, Problem& p, Problem& left, Problem& right) {
  const SolverStatus status = problem_of(handle, parameters, m, n, type, stride, compute, p);
  if (status != SolverStatus::kSuccess) return status;
  const bool has_vectors = left_job != 'N';
  if (m < n || has_vectors != (right_job != 'N')) return SolverStatus::kInvalidValue;
  if (has_vectors && (left_stride < m || right_stride < n)) return SolverStatus::kInvalidValue;
  if (dtype_of(values_type) != hlo::part_type(p.type)) return SolverStatus::kNotSupported;
  left = {p.type, m, left_job == 'A' ? m : n, left_stride};
  right = {p.type, n, n, right_stride};
  return SolverStatus::kSuccess;
}

SolverStatus columns_of(SolverHandle handle, int m, int n, int k, MatrixType type, int stride, Problem& out) {
  OpaqueSolverParameters none;
  const SolverStatus status = problem_of(handle, &none, m, n, type, stride, type, out);
  return status == SolverStatus::kSuccess && (n > m || k > n || k < 0) ? SolverStatus::kInvalidValue : status;
}
SolverStatus ask_columns(SolverHandle handle, int m, int n, int k, MatrixType type, int stride,
                         int* elements) {
  Problem p{};
  const SolverStatus status = columns_of(handle, m, n, k, type, stride, p);
  if (status == SolverStatus::kSuccess) *elements = 3 * n;
  return status;
}
SolverStatus enqueue_columns(SolverHandle handle, int m, int n, int k, MatrixType type, void* matrix,
                             int stride, const void* scales, void* on_device, int elements, int* info) {
  Problem p{};
  const SolverStatus status = columns_of(handle, m, n, k, type, stride, p);
  if (status != SolverStatus::kSuccess) return status;
  const auto bytes = [&](int64_t count) { return static_cast<size_t>(count * p.width()); };
  return enqueue(handle, m, {bytes(int64_t{3} * n), 0}, {on_device, bytes(elements), nullptr, 0},
                 {{matrix, p.bytes(), true, true}, {scales, k * p.width(), true, false}}, info,
                 [=] { columns(p, k, memory_at(matrix), memory_at(scales), memory_at(info)); });
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
                                         BlasTriangle triangle, int64_t n, MatrixType type, const void*,
                                         int64_t stride, MatrixType compute, size_t* device_bytes,
                                         size_t* host_bytes) {
  Problem p{};
  const SolverStatus status = symmetric_problem_of(handle, parameters, triangle, n, type, stride, compute, p);
  return status == SolverStatus::kSuccess ? give(spaces_of(p, false), device_bytes, host_bytes) : status;
}

SolverStatus cusolverDnXpotrf(SolverHandle handle, SolverParameters parameters, BlasTriangle triangle,
                              int64_t n, MatrixType type, void* matrix, int64_t stride, MatrixType compute,
                              void* on_device, size_t device_bytes, void* on_host, size_t host_bytes,
                              int* info) {
  Problem p{};
  const SolverStatus status = symmetric_problem_of(handle, parameters, triangle, n, type, stride, compute, p);
  if (status != SolverStatus::kSuccess) return status;
  return enqueue(handle, n, spaces_of(p, false), {on_device, device_bytes, on_host, host_bytes},
                 {{matrix, p.bytes(), true, true}}, info,
                 [=] { cholesky(p, memory_at(matrix), memory_at(info)); });
}

SolverStatus cusolverDnXsyevd_bufferSize(SolverHandle handle, SolverParameters parameters, SolverVectors,
                                         BlasTriangle triangle, int64_t n, MatrixType type, const void*,
                                         int64_t stride, MatrixType values_type, const void*,
                                         MatrixType compute, size_t* device_bytes, size_t* host_bytes) {
  Problem p{};
  const SolverStatus status = symmetric_problem_of(handle, parameters, triangle, n, type, stride, compute, p);
  if (status != SolverStatus::kSuccess) return status;
  if (dtype_of(values_type) != hlo::part_type(p.type)) return SolverStatus::kNotSupported;
  return give(spaces_of(p, true), device_bytes, host_bytes);
}

SolverStatus cusolverDnXsyevd(SolverHandle handle, SolverParameters parameters, SolverVectors vectors,
                              BlasTriangle triangle, int64_t n, MatrixType type, void* matrix, int64_t stride,
                              MatrixType values_type, void* values, MatrixType compute, void* on_device,
                              size_t device_bytes, void* on_host, size_t host_bytes, int* info) {
  Problem p{};
  const SolverStatus status = symmetric_problem_of(handle, parameters, triangle, n, type, stride, compute, p);
  if (status != SolverStatus::kSuccess) return status;
  if (dtype_of(values_type) != hlo::part_type(p.type)) return SolverStatus::kNotSupported;
  return enqueue(
      handle, n, spaces_of(p, true), {on_device, device_bytes, on_host, host_bytes},
      {{matrix, p.bytes(), true, true}, {values, n * hlo::byte_size(hlo::part_type(p.type)), false, true}},
      info, [=] {
        eigen(p, vectors == SolverVectors::kAll, memory_at(matrix), memory_at(values), memory_at(info));
      });
}

SolverStatus cusolverDnXgetrf_bufferSize(SolverHandle handle, SolverParameters parameters, int64_t m,
                                         int64_t n, MatrixType type, const void*, int64_t stride,
                                         MatrixType compute, size_t* device_bytes, size_t* host_bytes) {
  Problem p{};
  const SolverStatus status = problem_of(handle, parameters, m, n, type, stride, compute, p);
  return status == SolverStatus::kSuccess ? give(spaces_of(p, false), device_bytes, host_bytes) : status;
}

SolverStatus cusolverDnXgetrf(SolverHandle handle, SolverParameters parameters, int64_t m, int64_t n,
                              MatrixType type, void* matrix, int64_t stride, int64_t* pivots,
                              MatrixType compute, void* on_device, size_t device_bytes, void* on_host,
                              size_t host_bytes, int* info) {
  Problem p{};
  const SolverStatus status = problem_of(handle, parameters, m, n, type, stride, compute, p);
  if (status != SolverStatus::kSuccess) return status;
  return enqueue(handle, m, spaces_of(p, false), {on_device, device_bytes, on_host, host_bytes},
                 {{matrix, p.bytes(), true, true}, {pivots, 8 * std::min(m, n), false, true}}, info,
                 [=] { lu(p, memory_at(matrix), memory_at(pivots), memory_at(info)); });
}

SolverStatus cusolverDnXgetrs(SolverHandle handle, SolverParameters parameters, BlasTurn turn, int64_t n,
                              int64_t columns, MatrixType type, const void* matrix, int64_t stride,
                              const int64_t* pivots, MatrixType right_type, void* right, int64_t right_stride,
                              int* info) {
  Problem p{}, b{};
  SolverStatus status = problem_of(handle, parameters, n, n, type, stride, type, p);
  if (status == SolverStatus::kSuccess)
    status = problem_of(handle, parameters, n, columns, right_type, right_stride, type, b);
  if (status != SolverStatus::kSuccess) return status;
  return enqueue(
      handle, n, {0, 0}, {},
      {{matrix, p.bytes(), true, false}, {pivots, 8 * n, true, false}, {right, b.bytes(), true, true}}, info,
      [=] {
        lu_solve(p, b, turn == BlasTurn::kTransposed, memory_at(matrix), memory_at(pivots), memory_at(right),
                 memory_at(info));
      });
}

SolverStatus cusolverDnXgeqrf_bufferSize(SolverHandle handle, SolverParameters parameters, int64_t m,
                                         int64_t n, MatrixType type, const void*, int64_t stride,
                                         MatrixType scales_type, const void*, MatrixType compute,
                                         size_t* device_bytes, size_t* host_bytes) {
  Problem p{};
  const SolverStatus status = problem_of(handle, parameters, m, n, type, stride, compute, p);
  if (status != SolverStatus::kSuccess) return status;
  if (scales_type != type) return SolverStatus::kNotSupported;
  return give(spaces_of(p, false), device_bytes, host_bytes);
}

SolverStatus cusolverDnXgeqrf(SolverHandle handle, SolverParameters parameters, int64_t m, int64_t n,
                              MatrixType type, void* matrix, int64_t stride, MatrixType scales_type,
                              void* scales, MatrixType compute, void* on_device, size_t device_bytes,
                              void* on_host, size_t host_bytes, int* info) {
  Problem p{};
  const SolverStatus status = problem_of(handle, parameters, m, n, type, stride, compute, p);
  if (status != SolverStatus::kSuccess) return status;
  if (scales_type != type) return SolverStatus::kNotSupported;
  return enqueue(handle, m, spaces_of(p, false), {on_device, device_bytes, on_host, host_bytes},
                 {{matrix, p.bytes(), true, true}, {scales, std::min(m, n) * p.width(), false, true}}, info,
                 [=] { reflections(p, memory_at(matrix), memory_at(scales), memory_at(info)); });
}

SolverStatus cusolverDnXgesvd_bufferSize(SolverHandle handle, SolverParameters parameters,
                                         signed char left_job, signed char right_job, int64_t m, int64_t n,
                                         MatrixType type, const void*, int64_t stride, MatrixType values_type,
                                         const void*, MatrixType, const void*, int64_t left_stride,
                                         MatrixType, const void*, int64_t right_stride, MatrixType compute,
                                         size_t* device_bytes, size_t* host_bytes) {
  Problem p{}, left{}, right{};
  const SolverStatus status =
      singular_problem_of(handle, parameters, left_job, right_job, values_type, left_stride, right_stride, m,
                          n, type, stride, compute, p, left, right);
  return status == SolverStatus::kSuccess ? give(spaces_of(p, true), device_bytes, host_bytes) : status;
}

SolverStatus cusolverDnXgesvd(SolverHandle handle, SolverParameters parameters, signed char left_job,
                              signed char right_job, int64_t m, int64_t n, MatrixType type, void* matrix,
                              int64_t stride, MatrixType values_type, void* values, MatrixType left_type,
                              void* u, int64_t left_stride, MatrixType right_type, void* v,
                              int64_t right_stride, MatrixType compute, void* on_device, size_t device_bytes,
                              void* on_host, size_t host_bytes, int* info) {
  Problem p{}, left{}, right{};
  const SolverStatus status =
      singular_problem_of(handle, parameters, left_job, right_job, values_type, left_stride, right_stride, m,
                          n, type, stride, compute, p, left, right);
  if (status != SolverStatus::kSuccess) return status;
  if (left_type != type || right_type != type) return SolverStatus::kNotSupported;
  const bool has_vectors = left_job != 'N';
  std::vector<Argument> arguments{{matrix, p.bytes(), true, true},
                                  {values, n * hlo::byte_size(hlo::part_type(p.type)), false, true}};
  if (has_vectors) {
    arguments.push_back({u, left.bytes(), false, true});
    arguments.push_back({v, right.bytes(), false, true});
  }
  return enqueue(handle, m, spaces_of(p, true), {on_device, device_bytes, on_host, host_bytes},
                 std::move(arguments), info, [=] {
                   singular(p, left, right, has_vectors, memory_at(matrix), memory_at(values),
                            has_vectors ? memory_at(u) : nullptr, has_vectors ? memory_at(v) : nullptr,
                            memory_at(info));
                 });
}

#define LAMINA_COLUMNS(symbol, type)                                                                  \
  SolverStatus symbol##_bufferSize(SolverHandle handle, int m, int n, int k, const void*, int stride, \
                                   const void*, int* elements) {                                      \
    return ask_columns(handle, m, n, k, type, stride, elements);                                      \
  }                                                                                                   \
  SolverStatus symbol(SolverHandle handle, int m, int n, int k, void* matrix, int stride,             \
                      const void* scales, void* on_device, int elements, int* info) {                 \
    return enqueue_columns(handle, m, n, k, type, matrix, stride, scales, on_device, elements, info); \
  }
LAMINA_COLUMNS(cusolverDnSorgqr, MatrixType::kF32)
LAMINA_COLUMNS(cusolverDnDorgqr, MatrixType::kF64)
LAMINA_COLUMNS(cusolverDnCungqr, MatrixType::kC64)
LAMINA_COLUMNS(cusolverDnZungqr, MatrixType::kC128)
#undef LAMINA_COLUMNS
}
#pragma GCC visibility pop

#define LAMINA_CUSOLVER_CALL(result, member, symbol, parameters) \
  static_assert(std::is_same_v<decltype(&symbol), decltype(Solver::member)>);
#include "jit/cuda/solver.def"
#undef LAMINA_CUSOLVER_CALL
