#include "jit/cuda/factorizations.h"

#include <algorithm>
#include <cstddef>
#include <mutex>
#include <utility>

#include "hlo/strings.h"
#include "jit/cuda/workspace.h"

namespace lamina::jit::cuda {
namespace {

// Of a call each; the host has several processors for more.
constexpr int64_t kMostMatrices = 64;

}  // namespace

int64_t Factorization::host_stride(const Choice& choice) {
  constexpr size_t kAlignment = alignof(std::max_align_t);
  return static_cast<int64_t>((choice.spaces.host_bytes + kAlignment - 1) / kAlignment * kAlignment);
}

int64_t Factorization::workspace_bytes() const {
  size_t bytes = 0;
  for (const Choice& c : choices_) bytes = std::max(bytes, c.spaces.device_bytes);
  return workspace_memory(bytes, kSolverWorkspaceAlignment);
}

std::string Factorization::describe() const {
  const FactorizationRow& row = row_of(form_.kind);
  std::string out =
      str_cat(row.name(), row.run ? str_cat(" by cuSOLVER ", solver_->version_text()) : " of factors", " in ",
              hlo::info(hlo::part_type(form_.compute)).name, ", ", form_.count, " of ", form_.rows, " rows");
  if (form_.columns != form_.rows) str_append(&out, " and ", form_.columns, " columns");
  if (const int64_t bytes = workspace_bytes(); bytes > 0) str_append(&out, ", ", bytes, " bytes beside");
  return out;
}

SolverStatus Factorization::call(const Choice& choice, const Operands& at, bool last, void* workspace,
                                 std::byte* on_host, StreamHandle stream) const {
  const FactorizationRow& row = row_of(form_.kind);
  const auto work = last ? row.finish : row.run;
  const SolverScope scope{*solver_, choice.device->handle, choice.device->parameters};
  SolverStatus status = solver_->set_stream(scope.handle, stream);
  for (int64_t i = 0; i < form_.count && status == SolverStatus::kSuccess; ++i) {
    const auto pointer = [&](Address begin, int64_t elements, hlo::DType type) {
      return reinterpret_cast<void*>((begin + i * elements * hlo::byte_size(type)).bits());
    };
    status = work(scope, form_,
                  {pointer(at.matrices, form_.matrix_elements, form_.compute),
                   pointer(at.values, form_.values_elements, form_.values_type),
                   pointer(at.left, form_.left_elements, form_.compute),
                   pointer(at.right, form_.right_elements, form_.compute),
                   static_cast<int*>(pointer(at.infos, 1, hlo::DType::kS32)), workspace,
                   on_host + i * host_stride(choice), choice.spaces});
  }
  return status;
}

absl::Status Factorization::enqueue(CudaQueue& queue, const Operands& at, bool last) const {
  if (absl::Status s = queue.gpu().health(); !s.ok()) return s;
  const auto choice = std::find_if(choices_.begin(), choices_.end(),
                                   [&](const Choice& c) { return c.device->gpu == &queue.gpu(); });
  if (choice == choices_.end())
    return absl::InternalError("the factorization was planned without this device");
  // The library may come back to it when the call has returned: each matrix has its own.
  const auto on_host =
      std::make_shared<std::vector<std::byte>>(static_cast<size_t>(form_.count * host_stride(*choice)));
  const absl::Status called = queue.call_library([&](StreamHandle stream) -> absl::Status {
    std::lock_guard lock(choice->device->mutex);
    const SolverStatus status = call(*choice, at, last, workspace_in(at.workspace, kSolverWorkspaceAlignment),
                                     on_host->data(), stream);
    if (status == SolverStatus::kSuccess) return absl::OkStatus();
    const std::string why = str_cat(queue.gpu().name(), " failed factoring: ", words(status));
    return status == SolverStatus::kAllocFailed ? absl::ResourceExhaustedError(why)
                                                : absl::InternalError(why);
  });
  if (!on_host->empty()) queue.stream()->keep(on_host);
  return called;
}

std::string SolverRow::start(const Solver& library, Device& device) {
  SolverStatus status = library.create(&device.handle);
  if (status == SolverStatus::kSuccess) status = library.create_parameters(&device.parameters);
  return status == SolverStatus::kSuccess ? "" : words(status);
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
  const Solver& solver = opened->library;
  out->solver_ = &solver;
  out->form_ = *form;
  const FactorizationRow& row = row_of(form->kind);
  if (!row.ask) return out;
  for (const std::unique_ptr<Device>& device : opened->devices) {
    if (!device->serves()) continue;
    Factorization::Choice choice{device.get(), {}};
    const absl::Status asked = device->gpu->within([&]() -> absl::Status {
      const SolverStatus status = row.ask({solver, device->handle, device->parameters}, *form, choice.spaces);
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
