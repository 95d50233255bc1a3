#include "jit/cuda/fourier.h"

#include <algorithm>
#include <mutex>
#include <utility>

#include "hlo/attributes.h"
#include "hlo/strings.h"
#include "jit/cuda/workspace.h"

namespace lamina::jit::cuda {
namespace {

using hlo::DType;

struct NamedTransform {
  std::string_view target;  // of the call
  TransformKind kind;
  bool is_inverse, of_columns;
  size_t rank = 1;
};
constexpr NamedTransform kNamedTransforms[] = {
    {"lamina.fft", TransformKind::kComplex, false, false},
    {"lamina.ifft", TransformKind::kComplex, true, false},
    {"lamina.fft_columns", TransformKind::kComplex, false, true},
    {"lamina.ifft_columns", TransformKind::kComplex, true, true},
    {"lamina.rfft", TransformKind::kFromReal, false, false},
    {"lamina.irfft", TransformKind::kToReal, true, false},
    {"lamina.fft2", TransformKind::kComplex, false, false, 2},
    {"lamina.ifft2", TransformKind::kComplex, true, false, 2},
    {"lamina.rfft2", TransformKind::kFromReal, false, false, 2},
    {"lamina.fft3", TransformKind::kComplex, false, false, 3},
    {"lamina.ifft3", TransformKind::kComplex, true, false, 3},
    {"lamina.rfft3", TransformKind::kFromReal, false, false, 3},
};

// Columns of more matrices are turned.
constexpr int64_t kMostFourierCalls = 16;

FftType type_of(const TransformForm& form) {
  const bool is_f32 = form.part == DType::kF32;
  switch (form.kind) {
    case TransformKind::kFromReal:
      return is_f32 ? FftType::kF32ToC64 : FftType::kF64ToC128;
    case TransformKind::kToReal:
      return is_f32 ? FftType::kC64ToF32 : FftType::kC128ToF64;
    case TransformKind::kComplex:
      break;
  }
  return is_f32 ? FftType::kC64ToC64 : FftType::kC128ToC128;
}

// Both plan the same; the direction comes with the call.
bool is_one_plan(const TransformForm& a, const TransformForm& b) {
  return type_of(a) == type_of(b) && a.length == b.length && a.outer == b.outer && a.step == b.step &&
         a.distances == b.distances && a.lines == b.lines;
}

}  // namespace

std::optional<TransformForm> transform_form(const hlo::Node& node) {
  if (node.op() != hlo::Op::custom_call) return std::nullopt;
  const std::string& target = node.attrs().string(hlo::Attr::call_target_name);
  const auto* const named = std::find_if(std::begin(kNamedTransforms), std::end(kNamedTransforms),
                                         [&](const NamedTransform& n) { return n.target == target; });
  if (named == std::end(kNamedTransforms)) return std::nullopt;
  const hlo::Dims &from = node.operand_type(0)->dims, &to = node.type()->dims;
  const hlo::Dims& numbers = named->kind == TransformKind::kToReal ? to : from;
  const int64_t elements = hlo::product(numbers);
  TransformForm form{.kind = named->kind,
                     .is_inverse = named->is_inverse,
                     .part = hlo::part_type(node.type()->dtype),
                     .length = numbers.back(),
                     .outer = {},
                     .step = 1,
                     .distances = {from.back(), to.back()},
                     .lines = numbers.back() == 0 ? 0 : elements / numbers.back(),
                     .calls = 1};
  if (named->rank > 1) {
    form.outer.assign(from.end() - static_cast<std::ptrdiff_t>(named->rank), from.end() - 1);
    const int64_t lines = hlo::product(form.outer);
    for (int64_t& distance : form.distances) distance *= lines;
    form.lines = lines == 0 ? 0 : form.lines / lines;
  }
  if (!named->of_columns) return form;
  const int64_t columns = from.back();
  form.length = from[from.size() - 2];
  const int64_t matrix = form.length * columns;
  form.lines = matrix == 0 ? 0 : elements / form.length;
  form.calls = matrix == 0 ? 1 : elements / matrix;
  if (columns > 1 && form.calls > kMostFourierCalls) {
    hlo::Dims order;
    for (size_t d = 0; d < from.size(); ++d) order.push_back(static_cast<int64_t>(d));
    std::swap(order[order.size() - 1], order[order.size() - 2]);
    form.turned = std::move(order);
  }
  if (columns == 1 || form.turned) {
    form.calls = 1;
    form.distances = {form.length, form.length};
  } else {
    form.lines = columns;
    form.step = columns;
    form.distances = {1, 1};
  }
  return form;
}

// A plan of the library, which serves one call at a time.
struct Transform::Plan {
  Plan(const Fft& of, Gpu& on, const TransformForm& planned) : fft(of), gpu(on), form(planned) {}
  ~Plan() {
    if (!handle) return;
    const auto destroy = [&] {
      fft.destroy(*handle);
      return absl::OkStatus();
    };
    gpu.within(destroy).IgnoreError();
  }
  Plan(const Plan&) = delete;
  Plan& operator=(const Plan&) = delete;

  // In the context of the device.
  FftStatus make() {
    FftHandle made = 0;
    if (const FftStatus status = fft.create(&made); status != FftStatus::kSuccess) return status;
    handle = made;
    if (const FftStatus status = fft.set_takes_memory(made, 0); status != FftStatus::kSuccess) return status;
    std::vector<long long> lengths(form.outer.begin(), form.outer.end());
    const long long lines = hlo::product(form.outer);
    lengths.push_back(form.length);
    std::vector<long long> from_lengths = lengths, to_lengths = lengths;
    if (form.kind == TransformKind::kFromReal) to_lengths.back() = form.distances[1] / lines;
    if (form.kind == TransformKind::kToReal) from_lengths.back() = form.distances[0];
    return fft.make_plan(made, static_cast<int>(lengths.size()), lengths.data(), from_lengths.data(),
                         form.step, form.distances[0], to_lengths.data(), form.step, form.distances[1],
                         type_of(form), form.lines, &workspace_bytes);
  }
  FftStatus run(void* from, void* to, int direction) const {
    switch (type_of(form)) {
      case FftType::kC64ToC64:
        return fft.c64_to_c64(*handle, from, to, direction);
      case FftType::kC128ToC128:
        return fft.c128_to_c128(*handle, from, to, direction);
      case FftType::kF32ToC64:
        return fft.f32_to_c64(*handle, from, to);
      case FftType::kF64ToC128:
        return fft.f64_to_c128(*handle, from, to);
      case FftType::kC64ToF32:
        return fft.c64_to_f32(*handle, from, to);
      case FftType::kC128ToF64:
        return fft.c128_to_f64(*handle, from, to);
    }
    return FftStatus::kInvalidValue;
  }

  const Fft& fft;  // stays, and so does the device
  Gpu& gpu;
  const TransformForm form;
  std::optional<FftHandle> handle;
  size_t workspace_bytes = 0;
  hlo::Mutex mutex{hlo::LockRank::kQueues};
};

int64_t Transform::workspace_bytes() const {
  size_t bytes = 0;
  for (const std::shared_ptr<Plan>& plan : plans_) bytes = std::max(bytes, plan->workspace_bytes);
  return workspace_memory(bytes, kFftWorkspaceAlignment);
}

std::string Transform::describe() const {
  const char* const name = form_.kind == TransformKind::kFromReal ? "rfft"
                           : form_.kind == TransformKind::kToReal ? "irfft"
                           : form_.is_inverse                     ? "ifft"
                                                                  : "fft";
  const std::string dimensions = form_.outer.empty() ? "" : str_cat(form_.outer.size() + 1);
  std::string out = str_cat(name, dimensions, " by cuFFT ", fft_->version_text(), " in ",
                            hlo::info(form_.part).name, ", ", form_.lines,
                            form_.step > 1        ? " columns of "
                            : form_.outer.empty() ? " lines of "
                                                  : " arrays of ");
  for (int64_t n : form_.outer) str_append(&out, n, " x ");
  str_append(&out, form_.length);
  if (form_.calls > 1) str_append(&out, ", ", form_.calls, " calls");
  if (form_.turned) out += ", of a turned copy";
  if (const int64_t bytes = workspace_bytes(); bytes > 0) str_append(&out, ", ", bytes, " bytes beside");
  return out;
}

absl::Status Transform::enqueue(CudaQueue& queue, const Operands& at) const {
  if (absl::Status s = queue.gpu().health(); !s.ok()) return s;
  const auto found = std::find_if(plans_.begin(), plans_.end(),
                                  [&](const auto& plan) { return &plan->gpu == &queue.gpu(); });
  if (found == plans_.end()) return absl::InternalError("the transform was planned without this device");
  const Plan& plan = **found;
  const auto alignment = static_cast<uint64_t>(2 * hlo::byte_size(form_.part));
  for (const Address begin : {at.from, at.to})
    if (begin.bits() % alignment != 0)
      return absl::InternalError("an array of a transform lies where none was expected to begin");
  const auto pointer = [](uint64_t bits) { return reinterpret_cast<void*>(bits); };
  const auto part_bytes = static_cast<uint64_t>(form_.length * form_.lines) * alignment;
  return queue.call_library([&](StreamHandle stream) -> absl::Status {
    std::lock_guard lock((*found)->mutex);
    FftStatus status = fft_->set_stream(*plan.handle, stream);
    if (status == FftStatus::kSuccess && plan.workspace_bytes > 0)
      status = fft_->set_workspace(*plan.handle, workspace_in(at.workspace, kFftWorkspaceAlignment));
    for (uint64_t c = 0; c < static_cast<uint64_t>(form_.calls) && status == FftStatus::kSuccess; ++c)
      status = plan.run(pointer(at.from.bits() + c * part_bytes), pointer(at.to.bits() + c * part_bytes),
                        form_.is_inverse ? kFftInverse : kFftForward);
    if (status == FftStatus::kSuccess) return absl::OkStatus();
    const std::string why = str_cat(queue.gpu().name(), " failed transforming: ", words(status));
    return status == FftStatus::kAllocFailed ? absl::ResourceExhaustedError(why) : absl::InternalError(why);
  });
}

void Fourier::serve(std::span<const std::unique_ptr<Gpu>> gpus, int driver_version) {
  LibraryOwner::serve(gpus, driver_version);
  std::lock_guard lock(mutex_);
  plans_.clear();
}

bool Fourier::is_there() {
  std::lock_guard lock(mutex_);
  return opened_locked().ok();
}

size_t Fourier::plans() {
  std::lock_guard lock(mutex_);
  std::erase_if(plans_, [](const auto& plan) { return plan.expired(); });
  return plans_.size();
}

absl::StatusOr<std::shared_ptr<Transform::Plan>> Fourier::plan_for(const Fft& fft, Gpu& gpu,
                                                                   const TransformForm& form) {
  for (const std::weak_ptr<Transform::Plan>& known : plans_)
    if (const auto plan = known.lock(); plan && &plan->gpu == &gpu && is_one_plan(plan->form, form))
      return plan;
  auto plan = std::make_shared<Transform::Plan>(fft, gpu, form);
  const absl::Status made = gpu.within([&]() -> absl::Status {
    const FftStatus status = plan->make();
    if (status == FftStatus::kSuccess) return absl::OkStatus();
    return absl::UnimplementedError(str_cat("it has no plan: ", words(status)));
  });
  if (!made.ok()) return made;
  std::erase_if(plans_, [](const auto& known) { return known.expired(); });
  plans_.push_back(plan);
  return plan;
}

absl::StatusOr<std::unique_ptr<const Transform>> Fourier::plan(const hlo::Node& node) {
  std::optional<TransformForm> form = transform_form(node);
  if (!form || form->lines == 0) return nullptr;
  std::lock_guard lock(mutex_);
  const absl::StatusOr<Opened>& opened = opened_locked();
  if (!opened.ok()) return opened.status();
  auto out = std::make_unique<Transform>();
  out->fft_ = &opened->library;
  for (const std::unique_ptr<Device>& device : opened->devices) {
    Gpu* const gpu = device->gpu;
    if (gpu->is_lost()) continue;
    absl::StatusOr<std::shared_ptr<Transform::Plan>> plan = plan_for(opened->library, *gpu, *form);
    if (plan.ok())
      out->plans_.push_back(*std::move(plan));
    else if (!gpu->is_lost())
      return plan.status();
  }
  out->form_ = *std::move(form);
  return out;
}

}  // namespace lamina::jit::cuda
