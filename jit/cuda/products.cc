#include "jit/cuda/products.h"

#include <algorithm>
#include <cstring>
#include <mutex>
#include <numeric>
#include <utility>

#include "hlo/dot_shape.h"
#include "hlo/strings.h"
#include "jit/cuda/tuning.h"
#include "jit/cuda/workspace.h"
#include "jit/program/memory_plan.h"

namespace lamina::jit::cuda {
namespace {

using hlo::DotDim;
using hlo::DotShape;
using hlo::DType;
using hlo::Node;

// What results are scaled by; complex numbers have two parts.
constexpr float kOneF32[2] = {1, 0};
constexpr double kOneF64[2] = {1, 0};
constexpr int32_t kOneS32 = 1;
// And what is added to them: 0 of any type.
constexpr double kZero[2] = {0, 0};

// What is multiplied: elements of the result's type, or others.
enum class Factors { kOwn, kBytes, kFloat8 };
// Those of one byte are taken where the summed elements of each row and column lie side by side, so many of
// them at multiples of so many bytes.
int64_t multiple_of(Factors factors) {
  return factors == Factors::kOwn ? 1 : factors == Factors::kBytes ? 4 : 16;
}
// And where the rows of the result have multiples of so many bytes.
constexpr int64_t kResultRowBytes = 16;

// The types that products have, in `same` numerics and in `fast` ones.
struct Types {
  Factors factors;
  DType result;
  MatrixType scale;
  ComputeType same, fast;
  const void* one;
};
constexpr Types kTypes[] = {
    {Factors::kOwn, DType::kF32, MatrixType::kF32, ComputeType::kF32, ComputeType::kTf32, kOneF32},
    {Factors::kOwn, DType::kF64, MatrixType::kF64, ComputeType::kF64, ComputeType::kF64, kOneF64},
    {Factors::kOwn, DType::kF16, MatrixType::kF32, ComputeType::kF32, ComputeType::kF32, kOneF32},
    {Factors::kOwn, DType::kBF16, MatrixType::kF32, ComputeType::kF32, ComputeType::kF32, kOneF32},
    {Factors::kOwn, DType::kC64, MatrixType::kC64, ComputeType::kF32Pedantic, ComputeType::kTf32, kOneF32},
    {Factors::kOwn, DType::kC128, MatrixType::kC128, ComputeType::kF64Pedantic, ComputeType::kF64, kOneF64},
    {Factors::kBytes, DType::kS32, MatrixType::kS32, ComputeType::kS32, ComputeType::kS32, &kOneS32},
    {Factors::kFloat8, DType::kF32, MatrixType::kF32, ComputeType::kF32, ComputeType::kF32, kOneF32},
    {Factors::kFloat8, DType::kF16, MatrixType::kF32, ComputeType::kF32, ComputeType::kF32, kOneF32},
    {Factors::kFloat8, DType::kBF16, MatrixType::kF32, ComputeType::kF32, ComputeType::kF32, kOneF32},
};
// Null where it has none.
const Types* types_of(const std::array<DType, 2>& factors, DType result) {
  const bool is_own = factors[0] == result && factors[1] == result;
  if (!is_own && hlo::is_integer(result)) {
    if (factors != std::array{DType::kS8, DType::kS8}) return nullptr;
    // Of the same bits.
    if (result == DType::kU32) result = DType::kS32;
  }
  const Factors kind = is_own ? Factors::kOwn : hlo::is_integer(result) ? Factors::kBytes : Factors::kFloat8;
  const auto* const found = std::find_if(std::begin(kTypes), std::end(kTypes), [&](const Types& t) {
    return t.factors == kind && t.result == result;
  });
  return found == std::end(kTypes) ? nullptr : found;
}
// Sums of more products of s8 might not fit 32 bits, where the library stays at the largest number.
constexpr int64_t kMostBytesSummed = INT32_MAX / (128 * 128);

const char* name_of(ComputeType type) {
  switch (type) {
    case ComputeType::kF32:
    case ComputeType::kF32Pedantic:
      return "f32";
    case ComputeType::kF64:
    case ComputeType::kF64Pedantic:
      return "f64";
    case ComputeType::kS32:
      return "s32";
    case ComputeType::kTf32:
      return "tf32";
  }
  return "";
}

struct EpilogueName {
  Epilogue epilogue;
  const char* name;
  bool has_bias;
};
constexpr EpilogueName kEpilogues[] = {
    {Epilogue::kNone, "", false},
    {Epilogue::kRelu, ", with relu", false},
    {Epilogue::kBias, ", with a bias", true},
    {Epilogue::kReluBias, ", with a bias and relu", true},
    {Epilogue::kGelu, ", with gelu", false},
    {Epilogue::kGeluBias, ", with a bias and gelu", true},
};
const EpilogueName& name_of(Epilogue epilogue) {
  return *std::find_if(std::begin(kEpilogues), std::end(kEpilogues),
                       [&](const EpilogueName& e) { return e.epilogue == epilogue; });
}

constexpr uint64_t kMostWorkspace = 32 << 20;
// Batches that are no single step in memory take a call for each step of the outer ones.
constexpr int64_t kMostCalls = 64;
constexpr int kMostFound = 8;
// Copies that only these factors need pay where the product multiplies each element so often.
constexpr double kLeastUses = 16;

// A column-major matrix of the library, which may take it transposed.
struct Matrix {
  int64_t rows, columns, stride;
  bool transposed;
};
// Of elements that lie so far apart along rows and columns.
std::optional<Matrix> matrix_of(int64_t rows, int64_t row_stride, int64_t columns, int64_t column_stride) {
  Matrix out{rows, columns, column_stride, false};
  if (rows > 1 && row_stride != 1) {
    if (columns > 1 && column_stride != 1) return std::nullopt;
    out = {columns, rows, row_stride, true};
  }
  if (out.columns == 1) out.stride = std::max(out.stride, out.rows);
  if (out.stride < out.rows) return std::nullopt;
  return out;
}

// How a product lies in memory. Outer batches that are no step of the inner ones are calls of their own.
struct Layout {
  DotShape inner;
  Matrix left, right;
  std::vector<DotDim> outer;
};

// How the operands of a product lie, each by itself.
struct Side {
  int64_t DotDim::*stride;
  std::vector<DotDim> hlo::DotGeneralShape::*rows;  // or columns: those that only this operand has
};
constexpr Side kSides[] = {{&DotDim::lhs_stride, &hlo::DotGeneralShape::m},
                           {&DotDim::rhs_stride, &hlo::DotGeneralShape::n}};

bool is_matrix(const hlo::DotGeneralShape& shape, const Side& side) {
  const auto batch = hlo::collapsed(shape.batch, side.stride), k = hlo::collapsed(shape.k, side.stride),
             rows = hlo::collapsed(shape.*side.rows, side.stride);
  if (!batch || !k || !rows) return false;
  const int64_t num_rows = hlo::total_extent(shape.*side.rows), terms = hlo::total_extent(shape.k);
  return matrix_of(num_rows, *rows, terms, *k).has_value();
}

// Of a dense copy of an operand: batches, its own dimensions, those that are summed.
hlo::Dims dense_order(const Node& dot, size_t operand) {
  using hlo::Attr;
  const hlo::Attrs& a = dot.attrs();
  const auto& batch = a.ints(operand == 0 ? Attr::lhs_batching_dimensions : Attr::rhs_batching_dimensions);
  const auto& summed =
      a.ints(operand == 0 ? Attr::lhs_contracting_dimensions : Attr::rhs_contracting_dimensions);
  hlo::Dims out = batch;
  const auto is_in = [](const hlo::Dims& list, int64_t d) {
    return std::find(list.begin(), list.end(), d) != list.end();
  };
  for (int64_t d = 0; d < static_cast<int64_t>(dot.operand_type(operand)->dims.size()); ++d)
    if (!is_in(batch, d) && !is_in(summed, d)) out.push_back(d);
  out.insert(out.end(), summed.begin(), summed.end());
  return out;
}
// How much larger the sums and rows of copies are, those of the result among them.
struct Padded {
  int64_t terms, columns;
};
// How that lies.
void make_dense(hlo::DotGeneralShape& shape, const Side& side, const Padded& padded) {
  const std::vector<DotDim>& rows = shape.*side.rows;
  const int64_t num_rows = side.stride == &DotDim::rhs_stride ? padded.columns : hlo::total_extent(rows);
  int64_t begin = 1;
  for (const auto& [dims, size] :
       {std::pair(&shape.k, padded.terms), std::pair(&(shape.*side.rows), num_rows),
        std::pair(&shape.batch, int64_t{1})}) {
    int64_t stride = begin;
    for (size_t i = dims->size(); i-- > 0;) {
      (*dims)[i].*side.stride = stride;
      stride *= (*dims)[i].extent;
    }
    begin *= size;
  }
}
// Whether what is summed lies side by side, and all that begins does at multiples of so many elements.
bool lies_in_multiples(const hlo::DotGeneralShape& shape, const Side& side, int64_t multiple) {
  const auto k = hlo::collapsed(shape.k, side.stride), rows = hlo::collapsed(shape.*side.rows, side.stride);
  if (!k || *k != 1 || !rows || *rows % multiple != 0) return false;
  return std::all_of(shape.batch.begin(), shape.batch.end(),
                     [&](const DotDim& d) { return d.extent == 1 || d.*side.stride % multiple == 0; });
}

std::optional<Layout> layout_of(hlo::DotGeneralShape shape, const Padded& padded) {
  Layout out;
  std::optional<DotShape> plain;
  while (!(plain = hlo::collapsed(shape)) && !shape.batch.empty()) {
    out.outer.push_back(shape.batch.front());
    shape.batch.erase(shape.batch.begin());
  }
  if (!plain || hlo::total_extent(out.outer) > kMostCalls) return std::nullopt;
  for (const Side& side : kSides)
    if (!is_matrix(shape, side)) return std::nullopt;
  DotShape& s = out.inner = *plain;
  s.k = padded.terms;
  s.n = padded.columns;
  out.left = *matrix_of(s.k, s.lhs_k, s.m, s.lhs_m);
  out.right = *matrix_of(s.n, s.rhs_n, s.k, s.rhs_k);
  return out;
}

// For keys, all that enters the library's choice.
std::string to_string(const Layout& layout) {
  const DotShape& s = layout.inner;
  std::string out = numbers_text(
      std::array{s.batch, s.m, s.n, s.k, s.lhs_batch, s.rhs_batch, layout.left.stride, layout.right.stride,
                 int64_t{layout.left.transposed}, int64_t{layout.right.transposed}});
  for (const DotDim& d : layout.outer)
    str_append(&out, " ", numbers_text(std::array{d.extent, d.lhs_stride, d.rhs_stride}));
  return out;
}

// The largest power of 2 that divides all, up to what parts of an arena have.
int64_t alignment_of(std::initializer_list<int64_t> bytes) {
  int64_t out = kArenaAlignment;
  for (int64_t b : bytes)
    if (b != 0) out = std::min(out, b & -b);
  return out;
}

// Where each call begins: bytes of the operands and the result.
using Places = std::array<int64_t, 3>;

struct Calls {
  std::vector<Places> begins{{0, 0, 0}};
  Places alignment;  // of all of these
};
Calls calls_of(const Layout& layout, const Places& widths, const Places& alignment) {
  Calls out{.alignment = alignment};
  const DotShape& s = layout.inner;
  int64_t result_step = s.batch * s.m * s.n * widths[2];
  for (size_t i = layout.outer.size(); i-- > 0;) {
    const DotDim& dim = layout.outer[i];
    const Places step{dim.lhs_stride * widths[0], dim.rhs_stride * widths[1], result_step};
    std::vector<Places> begins;
    for (int64_t b = 0; b < dim.extent; ++b)
      for (const Places& c : out.begins)
        begins.push_back({c[0] + b * step[0], c[1] + b * step[1], c[2] + b * step[2]});
    out.begins = std::move(begins);
    for (size_t o = 0; o < step.size(); ++o) out.alignment[o] = alignment_of({out.alignment[o], step[o]});
    result_step *= dim.extent;
  }
  return out;
}

}  // namespace

// Descriptors of the library, whose attributes are set once.
struct Product::Descriptions {
  explicit Descriptions(const Blas& of) : blas(of) {}
  ~Descriptions() {
    for (MatrixHandle m : {left, right, result})
      if (m) blas.destroy_matrix(m);
    if (product) blas.destroy_product(product);
    if (search) blas.destroy_search(search);
  }
  Descriptions(const Descriptions&) = delete;
  Descriptions& operator=(const Descriptions&) = delete;

  BlasStatus make(const Types& types, const std::array<DType, 2>& factors, ComputeType compute,
                  const Layout& layout, const Places& alignment, uint32_t schemes, Epilogue epilogue) {
    BlasStatus status = BlasStatus::kSuccess;
    const auto then = [&](auto function, auto... arguments) {
      if (status == BlasStatus::kSuccess) status = function(arguments...);
    };
    const auto make_matrix = [&](MatrixHandle* matrix, MatrixType type, const Matrix& m, int64_t step) {
      then(blas.create_matrix, matrix, type, static_cast<uint64_t>(m.rows), static_cast<uint64_t>(m.columns),
           m.stride);
      const auto batch = static_cast<int32_t>(layout.inner.batch);
      if (batch == 1) return;
      then(blas.set_matrix, *matrix, MatrixAttribute::kBatch, &batch, sizeof batch);
      then(blas.set_matrix, *matrix, MatrixAttribute::kBatchStride, &step, sizeof step);
    };
    const DotShape& s = layout.inner;
    make_matrix(&left, matrix_type(factors[0]), layout.left, s.lhs_batch);
    make_matrix(&right, matrix_type(factors[1]), layout.right, s.rhs_batch);
    make_matrix(&result, matrix_type(types.result), {s.n, s.m, s.n, false}, s.m * s.n);
    then(blas.create_product, &product, compute, types.scale);
    for (const auto& [matrix, attribute] : {std::pair(&layout.right, ProductAttribute::kTransposesA),
                                            std::pair(&layout.left, ProductAttribute::kTransposesB)})
      if (matrix->transposed) then(blas.set_product, product, attribute, &kTransposed, sizeof kTransposed);
    if (epilogue != Epilogue::kNone)
      then(blas.set_product, product, ProductAttribute::kEpilogue, &epilogue, sizeof epilogue);
    // Some address, without which the library takes it that there is no bias.
    const void* const somewhere = &one;
    if (name_of(epilogue).has_bias)
      then(blas.set_product, product, ProductAttribute::kBias, &somewhere, sizeof somewhere);
    then(blas.create_search, &search);
    then(blas.set_search, search, SearchAttribute::kMostWorkspace, &kMostWorkspace, sizeof kMostWorkspace);
    then(blas.set_search, search, SearchAttribute::kReductionSchemes, &schemes, sizeof schemes);
    for (const auto& [attribute, place] : {std::pair(SearchAttribute::kLeastAlignmentOfA, 1),
                                           std::pair(SearchAttribute::kLeastAlignmentOfB, 0),
                                           std::pair(SearchAttribute::kLeastAlignmentOfC, 2),
                                           std::pair(SearchAttribute::kLeastAlignmentOfD, 2)}) {
      const auto bytes = static_cast<uint32_t>(alignment[static_cast<size_t>(place)]);
      then(blas.set_search, search, attribute, &bytes, sizeof bytes);
    }
    return status;
  }
  // The first `most` that serve, of those that the library names.
  absl::StatusOr<std::vector<FoundAlgorithm>> serving(BlasHandle handle, size_t most) const {
    std::array<FoundAlgorithm, kMostFound> found{};
    int count = 0;
    const BlasStatus status =
        blas.search(handle, product, right, left, result, result, search, kMostFound, found.data(), &count);
    std::vector<FoundAlgorithm> out;
    for (size_t i = 0; i < static_cast<size_t>(count) && status == BlasStatus::kSuccess; ++i)
      if (found[i].state == BlasStatus::kSuccess && out.size() < most) out.push_back(found[i]);
    if (!out.empty()) return out;
    return absl::UnimplementedError(str_cat("it has no algorithm", status == BlasStatus::kSuccess ? "" : ": ",
                                            status == BlasStatus::kSuccess ? "" : blas.words(status)));
  }

  // Where the next call finds its bias.
  BlasStatus set_bias(void* bias) const {
    return blas.set_product(product, ProductAttribute::kBias, &bias, sizeof bias);
  }

  const Blas& blas;
  mutable hlo::Mutex one_call{hlo::LockRank::kQueues};  // with a bias
  alignas(kArenaAlignment) float one = 1;
  ProductHandle product = nullptr;
  MatrixHandle left = nullptr, right = nullptr, result = nullptr;
  SearchHandle search = nullptr;
};

int64_t Product::workspace_bytes() const {
  size_t bytes = 0;
  for (const Choice& c : choices_) bytes = std::max(bytes, c.found.workspace_bytes);
  return workspace_memory(bytes, kWorkspaceAlignment);
}

std::string Product::describe() const {
  std::string out = str_cat("cublasLt ", blas_->version_text(), " in ", words_);
  for (const Choice& c : choices_) {
    // Devices of one kind have one choice.
    if (&c != &choices_[0] &&
        std::memcmp(&c.found.algorithm, &choices_[0].found.algorithm, sizeof(Algorithm)) == 0)
      continue;
    if (&c != &choices_[0]) str_append(&out, "; on ", c.gpu->name());
    for (const auto& [attribute, name] :
         {std::pair(AlgorithmAttribute::kNumber, "algorithm"), std::pair(AlgorithmAttribute::kTile, "tile"),
          std::pair(AlgorithmAttribute::kStages, "stages"), std::pair(AlgorithmAttribute::kSplits, "splits"),
          std::pair(AlgorithmAttribute::kScheme, "scheme")}) {
      int32_t value = 0;
      size_t written = 0;
      if (blas_->of_algorithm(&c.found.algorithm, attribute, &value, sizeof value, &written) ==
          BlasStatus::kSuccess)
        str_append(&out, ", ", name, " ", value);
    }
    if (c.timed > 1) str_append(&out, ", the quickest of ", c.timed);
    if (c.found.workspace_bytes > 0) str_append(&out, ", ", c.found.workspace_bytes, " bytes beside");
  }
  if (calls_.size() > 1) str_append(&out, ", ", calls_.size(), " calls");
  str_append(&out, name_of(epilogue_).name);
  return out + cuda::describe(copies_, {"left operand", "right operand", "result"});
}

absl::Status Product::enqueue(CudaQueue& queue, const Operands& at) const {
  if (absl::Status s = queue.gpu().health(); !s.ok()) return s;
  const auto choice =
      std::find_if(choices_.begin(), choices_.end(), [&](const Choice& c) { return c.gpu == &queue.gpu(); });
  if (choice == choices_.end()) return absl::InternalError("the product was planned without this device");
  const std::array<Address, 3> arrays{at.left, at.right, at.result};
  for (size_t i = 0; i < arrays.size(); ++i)
    if (arrays[i].bits() % static_cast<uint64_t>(alignment_[i]) != 0)
      return absl::InternalError("an array of a product lies where none was expected to begin");
  return queue.call_library([&](StreamHandle stream) -> absl::Status {
    const BlasStatus status = multiply(*choice, at, stream);
    if (status == BlasStatus::kSuccess) return absl::OkStatus();
    const std::string why = str_cat(queue.gpu().name(), " failed multiplying: ", blas_->words(status));
    return status == BlasStatus::kAllocFailed ? absl::ResourceExhaustedError(why) : absl::InternalError(why);
  });
}

BlasStatus Product::multiply(const Choice& choice, const Operands& at, StreamHandle stream) const {
  const Descriptions& d = *descriptions_;
  void* const workspace = workspace_in(at.workspace, kWorkspaceAlignment);
  const bool has_bias = name_of(epilogue_).has_bias;
  std::unique_lock lock(d.one_call, std::defer_lock);
  if (has_bias) lock.lock();
  BlasStatus status = has_bias ? d.set_bias(reinterpret_cast<void*>(at.bias.bits())) : BlasStatus::kSuccess;
  for (const std::array<int64_t, 3>& call : calls_) {
    const auto place = [](Address begin, int64_t bytes) {
      return reinterpret_cast<void*>((begin + bytes).bits());
    };
    void* const result = place(at.result, call[2]);
    // The library's matrices have columns where ours have rows: it multiplies the other way round.
    if (status == BlasStatus::kSuccess)
      status = blas_->multiply(choice.handle, d.product, one_, place(at.right, call[1]), d.right,
                               place(at.left, call[0]), d.left, kZero, result, d.result, result, d.result,
                               &choice.found.algorithm, workspace, choice.found.workspace_bytes, stream);
  }
  return status;
}

std::string BlasRow::start(const Blas& library, Device& device) {
  const BlasStatus status = library.create(&device.handle);
  return status == BlasStatus::kSuccess ? "" : library.words(status);
}

double Products::set_least_work(double least) {
  std::lock_guard lock(mutex_);
  return std::exchange(least_work_, least);
}

absl::StatusOr<std::unique_ptr<const Product>> Products::plan(const Node& dot,
                                                              std::span<const hlo::Value> reads,
                                                              Epilogue epilogue) {
  std::lock_guard lock(mutex_);
  if (static_cast<double>(hlo::multiplications(dot)) < std::max(least_work_, 1.0)) return nullptr;
  const ReadTypes own{dot.operand_type(0)->dtype, dot.operand_type(1)->dtype};
  if (reads.empty()) return plan_locked(dot, own, own, epilogue);
  const ReadTypes read{reads[0].dtype(), reads[1].dtype()};
  absl::StatusOr<std::unique_ptr<Product>> product = plan_locked(dot, read, read, epilogue);
  if (product.ok() || !hlo::is_float(dot.type()->dtype)) return product;
  absl::StatusOr<std::unique_ptr<Product>> wider = plan_locked(dot, read, own, epilogue);
  if (!wider.ok()) return product.status();
  str_append(&(*wider)->words_, ", not of one byte: ", product.status().message());
  return wider;
}

absl::StatusOr<std::unique_ptr<Product>> Products::plan_locked(const Node& dot, ReadTypes read,
                                                               ReadTypes factors, Epilogue epilogue) {
  const DType type = dot.type()->dtype;
  const Types* const types = types_of(factors, type);
  if (!types) return absl::UnimplementedError(str_cat("it has no products of ", hlo::info(factors[0]).name));
  hlo::DotGeneralShape shape = hlo::dot_shape(dot);
  const int64_t terms = hlo::total_extent(shape.k), columns = hlo::total_extent(shape.n),
                multiple = multiple_of(types->factors);
  if (types->factors == Factors::kBytes && terms > kMostBytesSummed)
    return absl::UnimplementedError("sums of so many bytes might be more than it has room for");
  const auto up_to = [](int64_t n, int64_t step) { return (n + step - 1) / step * step; };
  Padded padded{terms, columns};
  if (multiple > 1) padded = {up_to(terms, multiple), up_to(columns, kResultRowBytes / hlo::byte_size(type))};
  const bool pads[] = {padded.terms != terms, padded.terms != terms || padded.columns != columns};
  ArrayCopies copies;
  double copied = 0;
  const auto copy = [&](size_t i) {
    ArrayCopy& made = copies[i].emplace(dense_order(dot, i), factors[i]);
    make_dense(shape, kSides[i], padded);
    const int64_t rows = hlo::total_extent(shape.*kSides[i].rows), batch = hlo::total_extent(shape.batch);
    copied += static_cast<double>(batch) * static_cast<double>(rows) * static_cast<double>(terms);
    if (!pads[i]) return;
    made.merged = {batch, rows, terms};
    made.padded = {batch, i == 0 ? rows : padded.columns, padded.terms};
  };
  for (size_t i = 0; i < std::size(kSides); ++i)
    if (pads[i] || read[i] != factors[i] ||
        (multiple > 1 && (dot.operand_type(i)->num_elements % multiple != 0 ||
                          !lies_in_multiples(shape, kSides[i], multiple))))
      copy(i);
  std::optional<Layout> layout = layout_of(shape, padded);
  if (!layout) {
    for (size_t i = 0; i < std::size(kSides); ++i)
      if (!copies[i] && !is_matrix(shape, kSides[i])) copy(i);
    layout = layout_of(shape, padded);
  }
  if (!layout || layout->inner.batch > INT32_MAX) return absl::UnimplementedError("it has no such matrices");
  if (padded.columns != columns) {
    const int64_t rows = dot.type()->num_elements / columns;
    hlo::Dims order(dot.type()->dims.size());
    std::iota(order.begin(), order.end(), int64_t{0});
    copies[2] = {std::move(order), type, {rows, columns}, {rows, padded.columns}};
    copied += static_cast<double>(dot.type()->num_elements);
  }
  if (multiple > 1 && copied * kLeastUses > static_cast<double>(hlo::multiplications(dot)))
    return absl::UnimplementedError(
        str_cat("it wants what is summed side by side, ", multiple, " by ", multiple,
                ", and copies that have it so would take as long as the product"));

  const absl::StatusOr<Opened>& opened = opened_locked();
  if (!opened.ok()) return opened.status();
  const Blas& blas = opened->library;
  const bool is_fast = dot.numerics() == hlo::Numerics::kFast;
  const ComputeType compute = is_fast ? types->fast : types->same;
  auto product = std::make_unique<Product>();
  product->blas_ = &blas;
  product->one_ = types->one;
  product->epilogue_ = epilogue;
  product->words_ = name_of(compute);
  // Operands may be slices of arrays, one after the other.
  const Places widths{hlo::byte_size(factors[0]), hlo::byte_size(factors[1]), hlo::byte_size(type)},
      elements{dot.operand_type(0)->num_elements, dot.operand_type(1)->num_elements,
               dot.type()->num_elements};
  for (size_t i = 0; i < widths.size(); ++i)
    product->alignment_[i] = copies[i] ? kArenaAlignment : alignment_of({elements[i] * widths[i]});
  product->copies_ = std::move(copies);
  Calls calls = calls_of(*layout, widths, product->alignment_);
  product->calls_ = std::move(calls.begins);
  auto made = std::make_shared<Product::Descriptions>(blas);
  if (const BlasStatus status = made->make(*types, factors, compute, *layout, calls.alignment,
                                           is_fast ? kReducesInAnyWay : kReducesInComputeType, epilogue);
      status != BlasStatus::kSuccess)
    return absl::UnimplementedError(str_cat("it refuses to describe the product: ", blas.words(status)));
  product->descriptions_ = made;
  const bool times = is_tuning();
  for (const std::unique_ptr<Device>& device : opened->devices) {
    if (!device->serves()) continue;
    const BlasHandle handle = device->handle;
    Gpu& gpu = *device->gpu;
    const absl::Status chosen = gpu.within([&] {
      const absl::StatusOr<std::vector<FoundAlgorithm>> found = made->serving(handle, times ? kMostTimed : 1);
      if (!found.ok()) return found.status();
      std::array<int64_t, 5> bytes{};  // as Product::Operands
      for (size_t i = 0; i < widths.size(); ++i) bytes[i] = elements[i] * widths[i];
      for (size_t i = 0; i < widths.size(); ++i)
        if (product->copies_[i])
          bytes[i] = product->copies_[i]->bytes(i < 2 ? *dot.operand_type(i) : *dot.type());
      if (name_of(epilogue).has_bias) bytes[4] = layout->inner.n * widths[2];
      std::vector<TimedAlgorithm> algorithms;
      for (const FoundAlgorithm& f : *found) {
        bytes[3] = std::max(bytes[3], workspace_memory(f.workspace_bytes, kWorkspaceAlignment));
        const auto* const name = reinterpret_cast<const char*>(&f.algorithm);
        algorithms.push_back(
            {{name, sizeof f.algorithm}, [&](StreamHandle stream, std::span<const Address> at) {
               const BlasStatus status =
                   product->multiply({&gpu, handle, f}, {at[0], at[1], at[2], at[3], at[4]}, stream);
               return status == BlasStatus::kSuccess ? absl::OkStatus()
                                                     : absl::InternalError(blas.words(status));
             }});
      }
      const size_t taken = quickest(
          gpu,
          str_cat("cublasLt ", blas.version_text(), " in ", product->words_, is_fast ? " fast" : "", " ",
                  hlo::info(factors[0]).name, " ", hlo::info(factors[1]).name, " ", hlo::info(type).name, " ",
                  to_string(*layout), " alignment ", numbers_text(calls.alignment), name_of(epilogue).name),
          bytes, algorithms);
      product->choices_.push_back({&gpu, handle, (*found)[taken], found->size()});
      return absl::OkStatus();
    });
    if (!chosen.ok() && !gpu.is_lost()) return chosen;
  }
  return product;
}

}  // namespace lamina::jit::cuda
