// The stand-in for cublasLt, on the memory and streams of that for the driver. It refuses what the library's
// documentation says is refused, of what is used here: types that do not go together, matrices that do not
// fit, elements of one byte in other layouts than the one that there is (the first matrix transposed, columns
// and addresses at the multiples that tensor cores want), floats of one byte on chips without them, addresses
// and work space that are not as the algorithm wants them, algorithms of another product; and those that were
// not chosen before.
//
// An element is added as hlo/reference_dot.h says, so that what is multiplied with what shows in every bit;
// TF32 rounds the operands before. Sums of integers that may not fit are a violation. Work space is poisoned.
//
// Environment: LAMINA_STANDIN_CUBLASLT, its version (10000 * major + 100 * minor + patch);
// LAMINA_STANDIN_ADDS_BACKWARDS=1: terms are added in another order, as by the library itself; algorithm 41
// adds so in any case.
#include "jit/cuda/blas.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <optional>
#include <type_traits>
#include <utility>
#include <vector>

#include "hlo/literal.h"
#include "hlo/narrow.h"
#include "hlo/reference_chain.h"
#include "hlo/reference_dot.h"
#include "hlo/strings.h"
#include "tests/jit/cuda_standin/standin.h"

namespace lamina::jit::cuda {
struct OpaqueBlas {
  ContextHandle context;
};
struct OpaqueProduct {
  ComputeType compute;
  MatrixType scale;
  int32_t transposes_a = 0, transposes_b = 0;
  Epilogue epilogue = Epilogue::kNone;
  const void* bias = nullptr;
};
struct OpaqueMatrix {
  MatrixType type;
  int64_t rows, columns, stride;
  int32_t batch = 1;
  int64_t batch_stride = 0;
};
struct OpaqueSearch {
  uint64_t most_workspace = 0;
  uint32_t schemes = kReducesInAnyWay;
  std::array<uint32_t, 4> alignment{256, 256, 256, 256};
};
}  // namespace lamina::jit::cuda

namespace {

using namespace lamina;
using namespace lamina::jit::cuda;
using hlo::DType;
using Touch = standins::FakeQueues::Touch;
using Access = standins::FakeQueues::Access;

// As documented of cublasLtMatmul.
struct Combination {
  std::array<ComputeType, 3> compute;
  MatrixType scale;
  DType a, b, d;

  bool is_of_bytes() const { return hlo::byte_size(a) == 1; }
};
constexpr auto kF32 = ComputeType::kF32, kF32Pedantic = ComputeType::kF32Pedantic, kTf32 = ComputeType::kTf32,
               kF64 = ComputeType::kF64, kF64Pedantic = ComputeType::kF64Pedantic, kS32 = ComputeType::kS32;
constexpr Combination kCombinations[] = {
    {{kF32, kF32Pedantic, kTf32}, MatrixType::kF32, DType::kF32, DType::kF32, DType::kF32},
    {{kF32, kF32Pedantic}, MatrixType::kF32, DType::kF16, DType::kF16, DType::kF16},
    {{kF32, kF32Pedantic}, MatrixType::kF32, DType::kBF16, DType::kBF16, DType::kBF16},
    {{kF32, kF32Pedantic, kTf32}, MatrixType::kC64, DType::kC64, DType::kC64, DType::kC64},
    {{kF64, kF64Pedantic}, MatrixType::kF64, DType::kF64, DType::kF64, DType::kF64},
    {{kF64, kF64Pedantic}, MatrixType::kC128, DType::kC128, DType::kC128, DType::kC128},
    {{kS32}, MatrixType::kS32, DType::kS8, DType::kS8, DType::kS32},
    {{kF32}, MatrixType::kF32, DType::kF8E4M3FN, DType::kF8E4M3FN, DType::kF32},
    {{kF32}, MatrixType::kF32, DType::kF8E4M3FN, DType::kF8E4M3FN, DType::kF16},
    {{kF32}, MatrixType::kF32, DType::kF8E4M3FN, DType::kF8E4M3FN, DType::kBF16},
    {{kF32}, MatrixType::kF32, DType::kF8E4M3FN, DType::kF8E5M2, DType::kF32},
    {{kF32}, MatrixType::kF32, DType::kF8E4M3FN, DType::kF8E5M2, DType::kF16},
    {{kF32}, MatrixType::kF32, DType::kF8E4M3FN, DType::kF8E5M2, DType::kBF16},
    {{kF32}, MatrixType::kF32, DType::kF8E5M2, DType::kF8E4M3FN, DType::kF32},
    {{kF32}, MatrixType::kF32, DType::kF8E5M2, DType::kF8E4M3FN, DType::kF16},
    {{kF32}, MatrixType::kF32, DType::kF8E5M2, DType::kF8E4M3FN, DType::kBF16},
};

// A product of column-major matrices that fit: d = a * b.
struct Problem {
  const Combination* types;
  ComputeType compute;
  int64_t m, n, k, batch;
  OpaqueMatrix a, b, d;
  bool transposes_a, transposes_b;
  Epilogue epilogue;
  const void* bias;  // of an element for each row, where it has one

  bool has(Epilogue part) const {
    return (static_cast<uint32_t>(epilogue) & static_cast<uint32_t>(part)) != 0;
  }
  int64_t width() const { return hlo::byte_size(types->d); }
  int64_t operand_width() const { return hlo::byte_size(types->a); }
  // Of addresses and columns.
  int64_t multiple() const {
    return !types->is_of_bytes() ? operand_width() : hlo::is_integer(types->a) ? 4 : 16;
  }
  bool has_layout() const {
    if (!types->is_of_bytes()) return true;
    const int64_t most = multiple();
    if (hlo::is_float(types->a) && standins::capability() < 89) return false;
    const bool of_result = hlo::is_integer(types->a)
                               ? m % most == 0 && d.stride % most == 0
                               : m * width() % most == 0 && d.stride * width() % most == 0;
    return transposes_a && !transposes_b && k % most == 0 && a.stride % most == 0 && b.stride % most == 0 &&
           (batch == 1 || (a.batch_stride % most == 0 && b.batch_stride % most == 0)) && of_result;
  }
  uint64_t hash() const {
    uint64_t sum = 14695981039346656037U;
    for (int64_t v : {m, n, k, batch, a.stride, b.stride, d.stride, a.batch_stride, b.batch_stride,
                      d.batch_stride, static_cast<int64_t>(types - kCombinations),
                      static_cast<int64_t>(compute), static_cast<int64_t>(transposes_a),
                      static_cast<int64_t>(transposes_b), static_cast<int64_t>(epilogue)})
      sum = (sum ^ static_cast<uint64_t>(v)) * 1099511628211U;
    return sum;
  }
};

BlasStatus problem_of(ProductHandle product, MatrixHandle a, MatrixHandle b, MatrixHandle c, MatrixHandle d,
                      std::optional<Problem>& out) {
  if (!product || !a || !b || !c || !d) return BlasStatus::kInvalidValue;
  for (const OpaqueMatrix* x : {a, b, c, d})
    if (x->rows < 1 || x->columns < 1 || x->stride < x->rows || x->batch < 1 || x->batch != a->batch)
      return BlasStatus::kInvalidValue;
  const bool ta = product->transposes_a != 0, tb = product->transposes_b != 0;
  const int64_t m = ta ? a->columns : a->rows, k = ta ? a->rows : a->columns,
                inner = tb ? b->columns : b->rows, n = tb ? b->rows : b->columns;
  const bool fits = inner == k && d->rows == m && d->columns == n && c->rows == m && c->columns == n &&
                    c->stride == d->stride && c->batch_stride == d->batch_stride && c->type == d->type;
  if (!fits || (d->batch > 1 && d->batch_stride < d->stride * (n - 1) + m)) return BlasStatus::kInvalidValue;
  const auto* const types =
      std::find_if(std::begin(kCombinations), std::end(kCombinations), [&](const Combination& x) {
        return std::find(x.compute.begin(), x.compute.end(), product->compute) != x.compute.end() &&
               x.scale == product->scale && matrix_type(x.a) == a->type && matrix_type(x.b) == b->type &&
               matrix_type(x.d) == d->type;
      });
  if (types == std::end(kCombinations)) return BlasStatus::kNotSupported;
  out = Problem{types,        product->compute, m, n, k, d->batch, *a, *b, *d, ta, tb, product->epilogue,
                product->bias};
  if (!out->has_layout()) return BlasStatus::kNotSupported;
  if (out->has(Epilogue::kBias) && (!out->bias || reinterpret_cast<uintptr_t>(out->bias) % 16 != 0))
    return BlasStatus::kInvalidValue;
  const bool is_plain = types->a == types->d && (types->d == DType::kF32 || hlo::byte_size(types->d) == 2);
  if (out->epilogue != Epilogue::kNone && !is_plain) return BlasStatus::kNotSupported;
  return BlasStatus::kSuccess;
}

// What an algorithm's bytes are here.
enum Field { kMagic, kProblem, kAlignment, kWorkspace, kSplits, kNumber, kScheme };
constexpr uint64_t kAddsBackwards = 41;
constexpr uint64_t kIsOne = 0x6c616d696e61;

template <typename T>
BlasStatus set(T& to, const void* value, size_t bytes) {
  if (!value || bytes != sizeof(T)) return BlasStatus::kInvalidValue;
  std::memcpy(&to, value, sizeof(T));
  return BlasStatus::kSuccess;
}

// From the first element of a matrix to its last.
int64_t bytes_of(const OpaqueMatrix& x, int64_t width) {
  return ((x.batch - 1) * x.batch_stride + (x.columns - 1) * x.stride + x.rows) * width;
}

bool holds(const void* value, MatrixType scale, double wanted) {
  double got = 0, imaginary = 0;
  const auto read = [&]<typename T>(T, bool is_complex) {
    T parts[2] = {};
    std::memcpy(parts, value, sizeof(T) * (is_complex ? 2 : 1));
    got = static_cast<double>(parts[0]);
    imaginary = static_cast<double>(parts[1]);
  };
  const bool is_complex = scale == MatrixType::kC64 || scale == MatrixType::kC128;
  if (scale == MatrixType::kS32)
    read(int32_t{}, false);
  else if (scale == MatrixType::kF64 || scale == MatrixType::kC128)
    read(double{}, is_complex);
  else
    read(float{}, is_complex);
  return got == wanted && imaginary == 0;
}

// The operands as TF32 has them: ten bits behind the point, ties away from zero.
std::vector<std::byte> in_tf32(const std::byte* at, int64_t bytes) {
  std::vector<std::byte> out(at, at + bytes);
  for (size_t i = 0; i + sizeof(uint32_t) <= out.size(); i += sizeof(uint32_t)) {
    uint32_t bits;
    std::memcpy(&bits, &out[i], sizeof bits);
    if ((bits & 0x7f800000U) != 0x7f800000U) bits = (bits + 0x1000U) & ~0x1fffU;
    std::memcpy(&out[i], &bits, sizeof bits);
  }
  return out;
}

// Floats of one byte as what they are multiplied in here.
std::vector<std::byte> widened(const std::byte* at, int64_t elements, DType from, DType to) {
  std::vector<std::byte> out(static_cast<size_t>(elements * hlo::byte_size(to)));
  for (int64_t i = 0; i < elements; ++i)
    hlo::store_as<float>(to, out.data(), i, hlo::element_to_f32(from, at + i));
  return out;
}

// The sums in f32, then what the epilogue makes of them, and one rounding.
void end(const Problem& p, const std::vector<std::byte>& sums, const std::byte* bias, std::byte* to) {
  constexpr double kRootOfTwoByPi = 0.79788456080286535588;
  for (int64_t i = 0; i < p.batch * p.n * p.m; ++i) {
    float x = hlo::element_to_f32(DType::kF32, &sums[static_cast<size_t>(i) * sizeof(float)]);
    if (p.has(Epilogue::kBias)) x += hlo::element_to_f32(p.types->d, bias + i % p.m * p.width());
    // It takes the number where the other is none.
    if (p.has(Epilogue::kRelu)) x = std::fmax(x, 0.0F);
    if (p.has(Epilogue::kGelu))
      x = static_cast<float>(0.5 * x * (1 + std::tanh(kRootOfTwoByPi * (x + 0.044715 * x * x * x))));
    const hlo::LiteralPtr rounded = hlo::Literal::scalar(p.types->d, x);
    std::memcpy(to + i * p.width(), rounded->data(), static_cast<size_t>(p.width()));
  }
}

void multiply(const Problem& p, uint64_t algorithm, const std::byte* a, const std::byte* b,
              const std::byte* bias, std::byte* d) {
  std::vector<std::byte> a_rounded, b_rounded;
  DType operand = p.types->a;
  if (p.compute == ComputeType::kTf32) {
    a_rounded = in_tf32(a, bytes_of(p.a, p.width()));
    b_rounded = in_tf32(b, bytes_of(p.b, p.width()));
  } else if (hlo::is_narrow(operand)) {
    operand = p.types->d;
    a_rounded = widened(a, bytes_of(p.a, 1), p.types->a, operand);
    b_rounded = widened(b, bytes_of(p.b, 1), p.types->b, operand);
  }
  if (!a_rounded.empty()) {
    a = a_rounded.data();
    b = b_rounded.data();
  }
  // Columns there are rows here, so the right operand comes first.
  hlo::DotShape shape{.batch = p.batch,
                      .m = p.n,
                      .n = p.m,
                      .k = p.k,
                      .lhs_batch = p.b.batch_stride,
                      .lhs_m = p.transposes_b ? 1 : p.b.stride,
                      .lhs_k = p.transposes_b ? p.b.stride : 1,
                      .rhs_batch = p.a.batch_stride,
                      .rhs_k = p.transposes_a ? 1 : p.a.stride,
                      .rhs_n = p.transposes_a ? p.a.stride : 1};
  const int64_t width = p.width(), column = p.m * width, operand_width = hlo::byte_size(operand);
  if (algorithm == kAddsBackwards || standins::setting("LAMINA_STANDIN_ADDS_BACKWARDS", 0) != 0) {
    b += (p.k - 1) * shape.lhs_k * operand_width;
    a += (p.k - 1) * shape.rhs_k * operand_width;
    shape.lhs_k = -shape.lhs_k;
    shape.rhs_k = -shape.rhs_k;
  }
  std::vector<std::byte> dense(static_cast<size_t>(p.batch * p.n * column));
  const bool has_end = p.epilogue != Epilogue::kNone;
  std::vector<std::byte> sums(has_end ? static_cast<size_t>(p.batch * p.n * p.m) * sizeof(float) : 0);
  if (!hlo::reference_dot(operand, has_end ? DType::kF32 : p.types->d, shape, b, a,
                          has_end ? sums.data() : dense.data())
           .ok())
    standins::violation("a product has no meaning");
  if (has_end) end(p, sums, bias, dense.data());
  for (int64_t i = 0; i < p.batch; ++i)
    for (int64_t j = 0; j < p.n; ++j)
      std::memcpy(d + (i * p.d.batch_stride + j * p.d.stride) * width,
                  &dense[static_cast<size_t>((i * p.n + j) * column)], static_cast<size_t>(column));
}

}  // namespace

#pragma GCC visibility push(default)
extern "C" {

size_t cublasLtGetVersion() {
  return static_cast<size_t>(standins::setting("LAMINA_STANDIN_CUBLASLT", 120402));
}

const char* cublasLtGetStatusName(BlasStatus status) {
  switch (status) {
    case BlasStatus::kNotInitialized:
      return "CUBLAS_STATUS_NOT_INITIALIZED";
    case BlasStatus::kInvalidValue:
      return "CUBLAS_STATUS_INVALID_VALUE";
    case BlasStatus::kExecutionFailed:
      return "CUBLAS_STATUS_EXECUTION_FAILED";
    case BlasStatus::kNotSupported:
      return "CUBLAS_STATUS_NOT_SUPPORTED";
    default:
      return "CUBLAS_STATUS_OF_ANOTHER_KIND";
  }
}

BlasStatus cublasLtCreate(BlasHandle* handle) {
  const ContextHandle context = standins::current_context();
  if (!context || standins::enter(context, "a handle of cublasLt") != Result::kSuccess)
    return BlasStatus::kNotInitialized;
  *handle = new OpaqueBlas{context};
  return BlasStatus::kSuccess;
}

BlasStatus cublasLtMatmulDescCreate(ProductHandle* product, ComputeType compute, MatrixType scale) {
  *product = new OpaqueProduct{compute, scale};
  return BlasStatus::kSuccess;
}
BlasStatus cublasLtMatmulDescDestroy(ProductHandle product) {
  delete product;
  return BlasStatus::kSuccess;
}
BlasStatus cublasLtMatmulDescSetAttribute(ProductHandle product, ProductAttribute attribute,
                                          const void* value, size_t bytes) {
  switch (attribute) {
    case ProductAttribute::kTransposesA:
      return set(product->transposes_a, value, bytes);
    case ProductAttribute::kTransposesB:
      return set(product->transposes_b, value, bytes);
    case ProductAttribute::kEpilogue:
      return set(product->epilogue, value, bytes);
    case ProductAttribute::kBias:
      return set(product->bias, value, bytes);
  }
  return BlasStatus::kInvalidValue;
}

BlasStatus cublasLtMatrixLayoutCreate(MatrixHandle* matrix, MatrixType type, uint64_t rows, uint64_t columns,
                                      int64_t stride) {
  *matrix = new OpaqueMatrix{type, static_cast<int64_t>(rows), static_cast<int64_t>(columns), stride};
  return BlasStatus::kSuccess;
}
BlasStatus cublasLtMatrixLayoutDestroy(MatrixHandle matrix) {
  delete matrix;
  return BlasStatus::kSuccess;
}
BlasStatus cublasLtMatrixLayoutSetAttribute(MatrixHandle matrix, MatrixAttribute attribute, const void* value,
                                            size_t bytes) {
  switch (attribute) {
    case MatrixAttribute::kBatch:
      return set(matrix->batch, value, bytes);
    case MatrixAttribute::kBatchStride:
      return set(matrix->batch_stride, value, bytes);
  }
  return BlasStatus::kInvalidValue;
}

BlasStatus cublasLtMatmulPreferenceCreate(SearchHandle* search) {
  *search = new OpaqueSearch;
  return BlasStatus::kSuccess;
}
BlasStatus cublasLtMatmulPreferenceDestroy(SearchHandle search) {
  delete search;
  return BlasStatus::kSuccess;
}
BlasStatus cublasLtMatmulPreferenceSetAttribute(SearchHandle search, SearchAttribute attribute,
                                                const void* value, size_t bytes) {
  switch (attribute) {
    case SearchAttribute::kMostWorkspace:
      return set(search->most_workspace, value, bytes);
    case SearchAttribute::kReductionSchemes:
      return set(search->schemes, value, bytes);
    case SearchAttribute::kLeastAlignmentOfA:
    case SearchAttribute::kLeastAlignmentOfB:
    case SearchAttribute::kLeastAlignmentOfC:
    case SearchAttribute::kLeastAlignmentOfD:
      return set(search->alignment[static_cast<size_t>(attribute) -
                                   static_cast<size_t>(SearchAttribute::kLeastAlignmentOfA)],
                 value, bytes);
  }
  return BlasStatus::kInvalidValue;
}

// The quickest first, and before it one that turns out not to serve. Long sums are split, if there is work
// space.
BlasStatus cublasLtMatmulAlgoGetHeuristic(BlasHandle handle, ProductHandle product, MatrixHandle a,
                                          MatrixHandle b, MatrixHandle c, MatrixHandle d, SearchHandle search,
                                          int most, FoundAlgorithm* found, int* count) {
  *count = 0;
  if (!handle) return BlasStatus::kNotInitialized;
  if (!search || most < 1) return BlasStatus::kInvalidValue;
  std::optional<Problem> p;
  if (const BlasStatus s = problem_of(product, a, b, c, d, p); s != BlasStatus::kSuccess) return s;
  const uint32_t least = *std::min_element(search->alignment.begin(), search->alignment.end());
  const int64_t width = p->width(), operand = p->operand_width();
  const auto is_vectors = [&](const OpaqueMatrix& x, int64_t bytes) { return x.stride * bytes % 16 == 0; };
  const bool in_vectors =
      least >= 16 && is_vectors(p->a, operand) && is_vectors(p->b, operand) && is_vectors(p->d, width);
  const auto alignment = static_cast<uint64_t>(in_vectors ? 16 : p->multiple());
  if (least < alignment) return BlasStatus::kNotSupported;
  const auto add = [&](uint64_t number, uint64_t splits, uint64_t workspace, uint64_t scheme,
                       BlasStatus state) {
    if (*count == most) return;
    FoundAlgorithm& f = found[(*count)++];
    f = {{{kIsOne, p->hash(), alignment, workspace, splits, number, scheme}}, workspace, state, 1.0F, {}};
  };
  add(99, 1, 0, 0, BlasStatus::kNotSupported);
  constexpr uint64_t kParts = 4;
  const auto split_bytes =
      kParts * static_cast<uint64_t>(p->batch * p->m * p->n * std::max<int64_t>(width, 4));
  if (p->k >= 2 * std::max(p->m, p->n) && (search->schemes & kReducesInComputeType) &&
      split_bytes <= search->most_workspace)
    add(21, kParts, split_bytes, kReducesInComputeType, BlasStatus::kSuccess);
  add(in_vectors ? 31 : 11, 1, 0, 0, BlasStatus::kSuccess);
  add(kAddsBackwards, 1, 0, 0, BlasStatus::kSuccess);
  return BlasStatus::kSuccess;
}

BlasStatus cublasLtMatmulAlgoConfigGetAttribute(const Algorithm* algorithm, AlgorithmAttribute attribute,
                                                void* value, size_t bytes, size_t* written) {
  if (algorithm->data[kMagic] != kIsOne || bytes != sizeof(uint32_t)) return BlasStatus::kInvalidValue;
  uint64_t out = 0;
  switch (attribute) {
    case AlgorithmAttribute::kNumber:
      out = algorithm->data[kNumber];
      break;
    case AlgorithmAttribute::kSplits:
      out = algorithm->data[kSplits];
      break;
    case AlgorithmAttribute::kScheme:
      out = algorithm->data[kScheme];
      break;
    case AlgorithmAttribute::kTile:
    case AlgorithmAttribute::kStages:
      out = 5;
      break;
  }
  const auto number = static_cast<uint32_t>(out);
  std::memcpy(value, &number, sizeof number);
  *written = sizeof number;
  return BlasStatus::kSuccess;
}

BlasStatus cublasLtMatmul(BlasHandle handle, ProductHandle product, const void* alpha, const void* a,
                          MatrixHandle a_matrix, const void* b, MatrixHandle b_matrix, const void* beta,
                          const void* c, MatrixHandle c_matrix, void* d, MatrixHandle d_matrix,
                          const Algorithm* algorithm, void* workspace, size_t workspace_bytes,
                          StreamHandle stream) {
  if (!handle) return BlasStatus::kNotInitialized;
  if (standins::enter(handle->context, "a product") != Result::kSuccess) return BlasStatus::kExecutionFailed;
  if (const int failure = standins::failure(kStandinMultiply); failure != 0)
    return static_cast<BlasStatus>(failure);
  if (standins::context_of(stream) != handle->context) {
    standins::violation("a product on the stream of another device than its handle's");
    return BlasStatus::kInvalidValue;
  }
  std::optional<Problem> p;
  if (const BlasStatus s = problem_of(product, a_matrix, b_matrix, c_matrix, d_matrix, p);
      s != BlasStatus::kSuccess)
    return s;
  // The real one would choose.
  if (!algorithm) {
    standins::violation("a product whose algorithm was not chosen before");
    return BlasStatus::kInvalidValue;
  }
  const uint64_t* const chosen = algorithm->data;
  const auto address = [](const void* at) { return reinterpret_cast<uintptr_t>(at); };
  const uint64_t needed = chosen[kWorkspace];
  bool is_good = chosen[kMagic] == kIsOne && chosen[kProblem] == p->hash() && alpha && beta &&
                 workspace_bytes >= needed &&
                 (needed == 0 || (workspace && address(workspace) % kWorkspaceAlignment == 0));
  for (const void* at : {a, b, c, static_cast<const void*>(d)})
    is_good = is_good && at && address(at) % chosen[kAlignment] == 0;
  if (!is_good) return BlasStatus::kInvalidValue;
  if (!holds(alpha, p->types->scale, 1) || !holds(beta, p->types->scale, 0)) {
    standins::violation("a product that is scaled or added to something");
    return BlasStatus::kNotSupported;
  }
  if (p->types->d == DType::kS32 && p->k > INT32_MAX / (128 * 128))
    standins::violation("a product of integers whose sums may be more than fit");
  const auto touch = [&](const void* at, int64_t bytes, Access access) {
    return Touch{jit::Address(address(at)), bytes, access};
  };
  std::vector<Touch> touches{touch(d, bytes_of(p->d, p->width()), Access::kWrite),
                             touch(a, bytes_of(p->a, p->operand_width()), Access::kRead),
                             touch(b, bytes_of(p->b, p->operand_width()), Access::kRead),
                             touch(workspace, static_cast<int64_t>(needed), Access::kScratch)};
  if (p->has(Epilogue::kBias)) touches.push_back(touch(p->bias, p->m * p->width(), Access::kRead));
  const uint64_t number = chosen[kNumber];
  standins::spend(stream, static_cast<int64_t>(number));
  standins::enqueue(stream, {standins::FakeQueues::Kind::kLaunch,
                             str_cat("a product of ", p->n, " x ", p->k, " and ", p->k, " x ", p->m),
                             std::move(touches), [=, it = *p] {
                               multiply(
                                   it, number, standins::bytes_at(address(a)), standins::bytes_at(address(b)),
                                   it.has(Epilogue::kBias) ? standins::bytes_at(address(it.bias)) : nullptr,
                                   standins::bytes_at(address(d)));
                             }});
  return BlasStatus::kSuccess;
}
}
#pragma GCC visibility pop

#define LAMINA_CUBLASLT_CALL(result, member, symbol, parameters) \
  static_assert(std::is_same_v<decltype(&symbol), decltype(Blas::member)>);
#include "jit/cuda/blas.def"
#undef LAMINA_CUBLASLT_CALL
