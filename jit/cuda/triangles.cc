#include "jit/cuda/triangles.h"

#include <algorithm>
#include <limits>
#include <mutex>
#include <utility>

#include "cluster/read_through.h"
#include "hlo/attributes.h"
#include "hlo/strings.h"
#include "jit/cuda/stream.h"
#include "jit/cuda/workspace.h"

namespace lamina::jit::cuda {
namespace {

using hlo::DType;

struct NamedTriangle {
  std::string_view target;  // of the call
  bool is_lower, has_unit_diagonal;
};
constexpr NamedTriangle kNamedTriangles[] = {
    {"lamina.solve_lower", true, false},
    {"lamina.solve_upper", false, false},
    {"lamina.solve_unit_lower", true, true},
    {"lamina.solve_unit_upper", false, true},
};

// The call for all systems at once has a block of threads for each: of larger ones a call each is better,
// which has all of the device.
constexpr int64_t kMostSideAtOnce = 256;

// As the library's documentation wants it for all devices but the largest, which it also serves. What it
// would take by itself depends on the device, and is shared by all streams of a handle.
constexpr size_t kWorkspaceBytes = size_t{4} << 20;

struct SolveCalls {
  decltype(Cublas::f64_solve) one;
  decltype(Cublas::f64_solve_each) each;
};
SolveCalls solve_calls(const Cublas& c, DType type) {
  switch (type) {
    case DType::kF32:
      return {c.f32_solve, c.f32_solve_each};
    case DType::kC64:
      return {c.c64_solve, c.c64_solve_each};
    case DType::kC128:
      return {c.c128_solve, c.c128_solve_each};
    default:
      return {c.f64_solve, c.f64_solve_each};
  }
}

BlasTurn turn_of(cluster::Turned turned) {
  switch (turned) {
    case cluster::Turned::kTransposed:
      return BlasTurn::kTransposed;
    case cluster::Turned::kAdjoint:
      return BlasTurn::kAdjoint;
    default:
      return BlasTurn::kNone;
  }
}

// 1, also as a complex number.
const void* one_of(DType type) {
  static constexpr float kOneF32[] = {1, 0};
  static constexpr double kOneF64[] = {1, 0};
  if (hlo::part_type(type) == DType::kF32) return kOneF32;
  return kOneF64;
}

// Of systems with these dimensions before those of the matrix, the number of each one's among the operand's.
std::vector<int64_t> numbers_among(const hlo::Dims& own, const hlo::Dims& all, size_t rank, int64_t count) {
  std::vector<int64_t> out(static_cast<size_t>(count));
  for (int64_t i = 0; i < count; ++i) {
    int64_t rest = i, stride = 1, at = 0;
    for (size_t d = rank; d-- > 0;) {
      if (own[d] != 1) at += rest % all[d] * stride;
      rest /= all[d];
      stride *= own[d];
    }
    out[static_cast<size_t>(i)] = at;
  }
  return out;
}

}  // namespace

std::optional<TriangleForm> triangle_form(const hlo::Node& node, std::span<const hlo::Value> reads) {
  if (node.op() != hlo::Op::custom_call) return std::nullopt;
  const std::string& target = node.attrs().string(hlo::Attr::call_target_name);
  const auto* const named = std::ranges::find(kNamedTriangles, target, &NamedTriangle::target);
  if (named == std::end(kNamedTriangles)) return std::nullopt;
  const hlo::Type &a = *node.operand_type(0), &x = *node.type();
  const size_t batch = x.dims.size() - 2;
  TriangleForm form{.is_lower = named->is_lower,
                    .has_unit_diagonal = named->has_unit_diagonal,
                    .turn = turn_of(cluster::turned(node, reads)),
                    .type = a.dtype,
                    .compute = node.numerics() == hlo::Numerics::kFast ? a.dtype
                               : hlo::is_complex(a.dtype)              ? DType::kC128
                                                                       : DType::kF64,
                    .rows = x.dims[batch],
                    .width = x.dims[batch + 1],
                    .count = 0,
                    .matrix_of = {},
                    .at_once = false};
  if (x.num_elements == 0) return form;
  form.count = x.num_elements / (form.rows * form.width);
  form.matrix_of = numbers_among(a.dims, x.dims, batch, form.count);
  form.at_once = form.count > 1 && std::max(form.rows, form.width) <= kMostSideAtOnce;
  return form;
}

int64_t TriangularSolution::addresses_bytes() const {
  return form_.at_once ? 2 * form_.count * static_cast<int64_t>(sizeof(uint64_t)) : 0;
}
int64_t TriangularSolution::workspace_bytes() const {
  return workspace_memory(kWorkspaceBytes, kCublasWorkspaceAlignment);
}

std::string TriangularSolution::describe() const {
  std::string out =
      str_cat("solve_", form_.has_unit_diagonal ? "unit_" : "", form_.is_lower ? "lower" : "upper",
              form_.turn == BlasTurn::kNone         ? ""
              : form_.turn == BlasTurn::kTransposed ? " of the transpose"
                                                    : " of the adjoint",
              " by cuBLAS ", cublas_->version_text(), " in ", hlo::info(hlo::part_type(form_.compute)).name,
              ", ", form_.count, " of ", form_.rows, " rows and ", form_.width, " columns");
  if (form_.count > 1) out += form_.at_once ? ", at once" : ", one by one";
  return str_cat(out, ", ", workspace_bytes(), " bytes beside");
}

BlasStatus TriangularSolution::call(CublasHandle handle, const Operands& at) const {
  // Its columns are rows here: it sees the transposes of all, so that the triangle stands on the right and is
  // the other one, unless what is read is turned already.
  constexpr BlasSide kSide = BlasSide::kRight;
  const bool is_lower = form_.is_lower == (form_.turn != BlasTurn::kNone);
  const BlasTriangle triangle = is_lower ? BlasTriangle::kLower : BlasTriangle::kUpper;
  const BlasDiagonal diagonal = form_.has_unit_diagonal ? BlasDiagonal::kOnes : BlasDiagonal::kAny;
  const auto rows = static_cast<int>(form_.rows), width = static_cast<int>(form_.width);
  const auto pointer = [](Address a) { return reinterpret_cast<void*>(a.bits()); };
  const SolveCalls calls = solve_calls(*cublas_, form_.compute);
  if (form_.at_once)
    return calls.each(handle, kSide, triangle, form_.turn, diagonal, width, rows, one_of(form_.compute),
                      pointer(at.addresses), rows,
                      pointer(at.addresses + form_.count * static_cast<int64_t>(sizeof(uint64_t))), width,
                      static_cast<int>(form_.count));
  const int64_t bytes = hlo::byte_size(form_.compute);
  BlasStatus status = BlasStatus::kSuccess;
  for (int64_t i = 0; i < form_.count && status == BlasStatus::kSuccess; ++i) {
    const int64_t matrix = form_.matrix_of[static_cast<size_t>(i)] * form_.rows * form_.rows,
                  right = i * form_.rows * form_.width;
    status = calls.one(handle, kSide, triangle, form_.turn, diagonal, width, rows, one_of(form_.compute),
                       pointer(at.matrices + matrix * bytes), rows, pointer(at.right + right * bytes), width);
  }
  return status;
}

absl::Status TriangularSolution::enqueue(CudaQueue& queue, const Operands& at) const {
  if (absl::Status s = queue.gpu().health(); !s.ok()) return s;
  const auto found =
      std::ranges::find(devices_, &queue.gpu(), [](const Device* d) -> const Gpu* { return d->gpu; });
  if (found == devices_.end()) return absl::InternalError("the solution was planned without this device");
  Device& device = **found;
  if (form_.at_once) {
    std::vector<uint64_t> addresses;
    const int64_t bytes = hlo::byte_size(form_.compute);
    for (int64_t matrix : form_.matrix_of)
      addresses.push_back((at.matrices + matrix * form_.rows * form_.rows * bytes).bits());
    for (int64_t i = 0; i < form_.count; ++i)
      addresses.push_back((at.right + i * form_.rows * form_.width * bytes).bits());
    const absl::Status written = queue.stream()->write(at.addresses, addresses.data(), addresses_bytes());
    if (!written.ok()) return written;
  }
  return queue.call_library([&](StreamHandle stream) -> absl::Status {
    std::lock_guard lock(device.mutex);
    BlasStatus status = cublas_->set_stream(device.handle, stream);
    // In this order: a stream brings the library's own work space back.
    if (status == BlasStatus::kSuccess)
      status = cublas_->set_workspace(device.handle, workspace_in(at.workspace, kCublasWorkspaceAlignment),
                                      kWorkspaceBytes);
    if (status == BlasStatus::kSuccess) status = call(device.handle, at);
    if (status == BlasStatus::kSuccess) return absl::OkStatus();
    const std::string why = str_cat(queue.gpu().name(), " failed solving: ", cublas_->words(status));
    return status == BlasStatus::kAllocFailed ? absl::ResourceExhaustedError(why) : absl::InternalError(why);
  });
}

std::string CublasRow::start(const Cublas& library, Device& device) {
  const BlasStatus status = library.create(&device.handle);
  return status == BlasStatus::kSuccess ? "" : library.words(status);
}

absl::StatusOr<std::unique_ptr<const TriangularSolution>> Triangles::plan(const hlo::Node& node,
                                                                          std::span<const hlo::Value> reads) {
  std::optional<TriangleForm> form = triangle_form(node, reads);
  if (!form || form->count == 0) return nullptr;
  constexpr int64_t kMost = std::numeric_limits<int>::max();
  if (std::max({form->rows, form->width, form->at_once ? form->count : 0}) > kMost)
    return absl::UnimplementedError("it takes sizes of up to 2^31 - 1");
  std::lock_guard lock(mutex_);
  const absl::StatusOr<Opened>& opened = opened_locked();
  if (!opened.ok()) return opened.status();
  auto out = std::make_unique<TriangularSolution>();
  out->cublas_ = &opened->library;
  for (const std::unique_ptr<Device>& device : opened->devices)
    if (device->serves()) out->devices_.push_back(device.get());
  out->form_ = *std::move(form);
  return out;
}

}  // namespace lamina::jit::cuda
