#include "jit/cuda/kernels.h"

#include <algorithm>
#include <array>

#include "hlo/strings.h"

namespace lamina::jit::cuda {
namespace {

// Chips that code can be made for; what is made for one runs on all later ones.
constexpr std::array kChips = {75, 80, 86, 87, 89, 90};

std::string chip_for(int capability) {
  const auto later = std::upper_bound(kChips.begin(), kChips.end(), capability);
  return str_cat("sm_", later == kChips.begin() ? kChips.front() : *(later - 1));
}

// The text as comments.
std::string commented(std::string_view text) {
  std::string out;
  while (!text.empty()) {
    const size_t end = std::min(text.find('\n'), text.size());
    str_append(&out, "// ", text.substr(0, end), "\n");
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return out;
}

}  // namespace

CudaKernel::~CudaKernel() {
  for (const Loaded& l : loaded_)
    l.gpu->call("unloading code", l.gpu->driver().unload_module, l.module).IgnoreError();
}

absl::StatusOr<FunctionHandle> CudaKernel::function(Gpu& gpu, std::string_view entry) const {
  std::lock_guard lock(mutex_);
  auto loaded = std::find_if(loaded_.begin(), loaded_.end(), [&](const Loaded& l) { return l.gpu == &gpu; });
  if (loaded == loaded_.end()) {
    ModuleHandle module = nullptr;
    const absl::Status status = gpu.call("loading a kernel's code", gpu.driver().load_module, &module,
                                         static_cast<const void*>(ptx_.c_str()));
    if (!status.ok()) return status;
    loaded = loaded_.insert(loaded_.end(), {&gpu, module, {}});
  }
  if (const auto known = loaded->functions.find(entry); known != loaded->functions.end())
    return known->second;
  const std::string name(entry);
  FunctionHandle function = nullptr;
  const absl::Status status = gpu.call("looking for a kernel's entry", gpu.driver().function, &function,
                                       loaded->module, name.c_str());
  if (!status.ok()) return status;
  loaded->functions.emplace(name, function);
  return function;
}

absl::StatusOr<std::shared_ptr<const CudaKernel>> CudaKernels::get(const LoopKernel& spec,
                                                                   const GridSchedule& schedule,
                                                                   int capability) {
  if (absl::Status s = grid_takes(spec); !s.ok()) return s;
  std::pair key(to_string(spec), to_string(schedule));
  std::lock_guard lock(mutex_);
  if (const auto known = kernels_.find(key); known != kernels_.end())
    if (std::shared_ptr<const CudaKernel> alive = known->second.lock()) return alive;
  if (!generator_) generator_ = PtxGenerator::create(library_);
  if (!generator_->ok()) return generator_->status();
  absl::StatusOr<std::string> ptx = (*generator_)->ptx(key.first, schedule, chip_for(capability));
  if (!ptx.ok()) return ptx.status();
  auto made = std::make_shared<const CudaKernel>(spec, schedule, key.first,
                                                 str_cat(commented(key.first), commented(key.second), *ptx));
  std::erase_if(kernels_, [](const auto& k) { return k.second.expired(); });
  kernels_[std::move(key)] = made;
  return made;
}

void CudaKernels::set_library(std::string path) {
  std::lock_guard lock(mutex_);
  if (path == library_) return;
  library_ = std::move(path);
  generator_.reset();
}

absl::StatusOr<std::string> CudaKernels::ptx(const std::string& text) {
  std::lock_guard lock(mutex_);
  for (const auto& [key, kernel] : kernels_)
    if (key.first == text)
      if (const std::shared_ptr<const CudaKernel> alive = kernel.lock()) return alive->ptx();
  return absl::UnavailableError("there is no code of this kernel");
}

}  // namespace lamina::jit::cuda
