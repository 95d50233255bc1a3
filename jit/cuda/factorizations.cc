#include "jit/cuda/factorizations.h"

#include <algorithm>
#include <mutex>
#include <utility>

#include "hlo/attributes.h"
#include "hlo/strings.h"
#include "jit/cuda/workspace.h"

namespace lamina::jit::cuda {
namespace {

using hlo::DType;

struct NamedFactorization {
  std::string_view target;  // of the call
  FactorizationKind kind;
  const char* name;
};
constexpr NamedFactorization kNamedFactorizations[] = {
    {"lamina.cholesky", FactorizationKind::kCholesky, "cholesky"},
    {"lamina.mean_cholesky", FactorizationKind::kMeanCholesky, "mean_cholesky"},
    {"lamina.eigh", FactorizationKind::kEigen, "eigh"},
    {"lamina.eigvalsh", FactorizationKind::kEigenvalues, "eigvalsh"},
};

// Of a call each; the host has several processors for more.
constexpr int64_t kMostMatrices = 64;

MatrixType matrix_type(DType type) {
  switch (type) {
    case DType::kF32:
      return MatrixType::kF32;
    case DType::kC64:
      return MatrixType::kC64;
    case DType::kC128:
      return MatrixType::kC128;
    default:
      return MatrixType::kF64;
  }
}

// The library's columns are rows here, so that it finds their lower triangle in its upper one.
constexpr SolverTriangle kRowsLower = SolverTriangle::kUpper;

}  // namespace

std::optional<FactorizationForm> factorization_form(const hlo::Node& node) {
  if (node.op() != hlo::Op::custom_call) return std::nullopt;
  const std::string& target = node.attrs().string(hlo::Attr::call_target_name);
  const auto* const named = std::find_if(std::begin(kNamedFactorizations), std::end(kNamedFactorizations),
                                         [&](const NamedFactorization& n) { return n.target == target; });
  if (named == std::end(kNamedFactorizations)) return std::nullopt;
  const hlo::Type& a = *node.operand_type(0);
  const DType compute = node.numerics() == hlo::Numerics::kFast ? a.dtype
                        : hlo::is_complex(a.dtype)              ? DType::kC128
                                                                : DType::kF64;
  const int64_t n = a.dims.back();
  return FactorizationForm{named->kind, a.dtype, compute, n, n == 0 ? 0 : a.num_elements / (n * n)};
}

int64_t Factorization::workspace_bytes() const {
  size_t bytes = 0;
  for (const Choice& c : choices_) bytes = std::max(bytes, c.device_bytes);
  return workspace_memory(bytes, kSolverWorkspaceAlignment);
}

std::string Factorization::describe() const {
  const auto* const named = std::find_if(std::begin(kNamedFactorizations), std::end(kNamedFactorizations),
                                         [&](const NamedFactorization& n) { return n.kind == form_.kind; });
  std::string out =
      str_cat(named->name, " by cuSOLVER ", solver_->version_text(), " in ",
              hlo::info(hlo::part_type(form_.compute)).name, ", ", form_.count, " of ", form_.n, " rows");
  if (const int64_t bytes = workspace_bytes(); bytes > 0) str_append(&out, ", ", bytes, " bytes beside");
  return out;
}

SolverStatus Factorization::call(const Choice& choice, const Operands& at, void* workspace,
                                 StreamHandle stream) const {
  const SolverHandle handle = choice.device->handle;
  const SolverParameters parameters = choice.device->parameters;
  const MatrixType type = matrix_type(form_.compute), part = matrix_type(hlo::part_type(form_.compute));
  const int64_t width = hlo::byte_size(form_.compute),
                part_width = hlo::byte_size(hlo::part_type(form_.compute));
  std::vector<std::byte> on_host(choice.host_bytes);
  SolverStatus status = solver_->set_stream(handle, stream);
  for (int64_t i = 0; i < form_.count && status == SolverStatus::kSuccess; ++i) {
    const auto pointer = [](Address begin) { return reinterpret_cast<void*>(begin.bits()); };
    void* const matrix = pointer(at.matrices + i * form_.n * form_.n * width);
    int* const info = static_cast<int*>(pointer(at.infos + i * static_cast<int64_t>(sizeof(int32_t))));
    if (form_.is_eigen()) {
      const auto vectors =
          form_.kind == FactorizationKind::kEigen ? SolverVectors::kAll : SolverVectors::kNone;
      status = solver_->eigen(handle, parameters, vectors, kRowsLower, form_.n, type, matrix, form_.n, part,
                              pointer(at.values + i * form_.n * part_width), type, workspace,
                              choice.device_bytes, on_host.data(), on_host.size(), info);
    } else {
      status = solver_->cholesky(handle, parameters, kRowsLower, form_.n, type, matrix, form_.n, type,
                                 workspace, choice.device_bytes, on_host.data(), on_host.size(), info);
    }
  }
  return status;
}

absl::Status Factorization::enqueue(CudaQueue& queue, const Operands& at) const {
  if (absl::Status s = queue.gpu().health(); !s.ok()) return s;
  const auto choice = std::find_if(choices_.begin(), choices_.end(),
                                   [&](const Choice& c) { return c.device->gpu == &queue.gpu(); });
  if (choice == choices_.end())
    return absl::InternalError("the factorization was planned without this device");
  return queue.call_library([&](StreamHandle stream) -> absl::Status {
    std::lock_guard lock(choice->device->mutex);
    const SolverStatus status =
        call(*choice, at, workspace_in(at.workspace, kSolverWorkspaceAlignment), stream);
    if (status == SolverStatus::kSuccess) return absl::OkStatus();
    const std::string why = str_cat(queue.gpu().name(), " failed factoring: ", words(status));
    return status == SolverStatus::kAllocFailed ? absl::ResourceExhaustedError(why)
                                                : absl::InternalError(why);
  });
}

void Factorizations::serve(std::span<const std::unique_ptr<Gpu>> gpus, int driver_version) {
  std::lock_guard lock(mutex_);
  gpus_ = gpus;
  driver_version_ = driver_version;
  opened_ = nullptr;
}

const absl::StatusOr<Factorizations::Opened>& Factorizations::opened_locked() {
  if (opened_) return *opened_;
  const auto open = [&]() -> absl::StatusOr<Opened> {
    absl::StatusOr<Solver> solver = load_solver(driver_version_);
    if (!solver.ok()) return solver.status();
    Opened out{*std::move(solver), {}};
    for (const std::unique_ptr<Gpu>& gpu : gpus_) {
      auto device = std::make_unique<Factorization::Device>(gpu.get(), nullptr, nullptr);
      SolverStatus status = SolverStatus::kSuccess;
      const absl::Status entered = gpu->within([&] {
        status = out.solver.create(&device->handle);
        if (status == SolverStatus::kSuccess) status = out.solver.create_parameters(&device->parameters);
        return absl::OkStatus();
      });
      if (entered.ok() && status != SolverStatus::kSuccess)
        return absl::NotFoundError(
            str_cat(out.solver.library, " does not start on ", gpu->name(), ": ", words(status)));
      out.devices.push_back(std::move(device));
    }
    return out;
  };
  opened_ = new absl::StatusOr<Opened>(open());
  return *opened_;
}

std::string Factorizations::library() {
  std::lock_guard lock(mutex_);
  const absl::StatusOr<Opened>& opened = opened_locked();
  return opened.ok() ? str_cat(opened->solver.library, ", version ", opened->solver.version_text())
                     : str_cat("on the host: ", opened.status().message());
}

absl::StatusOr<std::unique_ptr<const Factorization>> Factorizations::plan(const hlo::Node& node) {
  const std::optional<FactorizationForm> form = factorization_form(node);
  if (!form || form->count == 0) return nullptr;
  if (form->count > kMostMatrices)
    return absl::UnimplementedError(
        str_cat("it factors one matrix after the other, and these are ", form->count));
  std::lock_guard lock(mutex_);
  const absl::StatusOr<Opened>& opened = opened_locked();
  if (!opened.ok()) return opened.status();
  auto out = std::make_unique<Factorization>();
  const Solver& solver = opened->solver;
  out->solver_ = &solver;
  out->form_ = *form;
  const MatrixType type = matrix_type(form->compute), part = matrix_type(hlo::part_type(form->compute));
  for (const std::unique_ptr<Factorization::Device>& device : opened->devices) {
    if (!device->handle || device->gpu->is_lost()) continue;
    Factorization::Choice choice{device.get(), 0, 0};
    const absl::Status asked = device->gpu->within([&]() -> absl::Status {
      const SolverStatus status =
          form->is_eigen()
              ? solver.eigen_bytes(
                    device->handle, device->parameters,
                    form->kind == FactorizationKind::kEigen ? SolverVectors::kAll : SolverVectors::kNone,
                    kRowsLower, form->n, type, nullptr, form->n, part, nullptr, type, &choice.device_bytes,
                    &choice.host_bytes)
              : solver.cholesky_bytes(device->handle, device->parameters, kRowsLower, form->n, type, nullptr,
                                      form->n, type, &choice.device_bytes, &choice.host_bytes);
      if (status == SolverStatus::kSuccess) return absl::OkStatus();
      return absl::UnimplementedError(str_cat("it refuses the matrices: ", words(status)));
    });
    if (asked.ok())
      out->choices_.push_back(choice);
    else if (!device->gpu->is_lost())
      return asked;
  }
  return out;
}

}  // namespace lamina::jit::cuda
