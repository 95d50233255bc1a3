#include "jit/cuda/gpu.h"

#include <algorithm>
#include <array>

#include "hlo/strings.h"

namespace lamina::jit::cuda {
namespace {

// After these the context does nothing any more.
constexpr std::array kFaults = {
    Result::kDeinitialized,
    Result::kDeviceUnavailable,
    Result::kEccUncorrectable,
    Result::kNvlinkUncorrectable,
    Result::kContained,
    Result::kIllegalAddress,
    Result::kLaunchTimeout,
    Result::kContextIsDestroyed,
    Result::kAssert,
    Result::kHardwareStackError,
    Result::kIllegalInstruction,
    Result::kMisalignedAddress,
    Result::kInvalidAddressSpace,
    Result::kInvalidPc,
    Result::kLaunchFailed,
    Result::kTensorMemoryLeak,
    Result::kUnknown,
};

}  // namespace

thread_local constinit const Gpu* Gpu::Current::inside_ = nullptr;

void Gpu::Current::enter(const Gpu& gpu) {
  inside_ = &gpu;
  ContextHandle now = nullptr;
  if (gpu.driver_.current_context(&now) == Result::kSuccess && now == gpu.context_) return;
  pushed_ = gpu.driver_.push_context(gpu.context_) == Result::kSuccess;
}

void Gpu::Current::leave() {
  ContextHandle mine = nullptr;
  if (pushed_) inside_->driver_.pop_context(&mine);
  inside_ = outer_;
}

Gpu::Gpu(const Driver& driver, int number)
    : driver_(driver), number_(number), name_(str_cat("cuda:", number)) {}

absl::StatusOr<std::unique_ptr<Gpu>> Gpu::open(const Driver& driver, int number) {
  std::unique_ptr<Gpu> gpu(new Gpu(driver, number));
  const auto refused = [&](std::string_view why) {
    const std::string& model = gpu->facts_.model;
    return absl::FailedPreconditionError(
        str_cat(gpu->name_, model.empty() ? "" : str_cat(" (", model, ")"), " cannot serve: ", why));
  };
  int device = 0;
  std::array<char, 256> model{};
  size_t bytes = 0;
  Result result = driver.device(&device, number);
  if (result == Result::kSuccess) result = driver.device_name(model.data(), model.size() - 1, device);
  if (result == Result::kSuccess) result = driver.device_memory(&bytes, device);
  gpu->facts_.model = model.data();
  gpu->facts_.bytes = static_cast<int64_t>(bytes);
  int major = 0, minor = 0, has_pools = 0;
  for (const auto& [attribute, value] :
       {std::pair(Attribute::kCapabilityMajor, &major), std::pair(Attribute::kCapabilityMinor, &minor),
        std::pair(Attribute::kMultiprocessors, &gpu->facts_.multiprocessors),
        std::pair(Attribute::kMemoryPools, &has_pools)})
    if (result == Result::kSuccess) result = driver.device_attribute(value, attribute, device);
  if (result != Result::kSuccess) return refused(driver.words(result));
  gpu->facts_.capability = 10 * major + minor;
  if (gpu->facts_.capability < kLeastCapability)
    return refused(str_cat("its compute capability is ", major, ".", minor, ", and ", kLeastCapability / 10,
                           ".", kLeastCapability % 10, " is the lowest that kernels are written for"));
  if (!has_pools) return refused("it has no memory pools, as some virtual devices have none");
  result = driver.retain_context(&gpu->context_, device);
  if (result != Result::kSuccess) return refused(driver.words(result));
  return gpu;
}

void Gpu::lose(std::string_view why) {
  const absl::Status* none = nullptr;
  auto reason =
      std::make_unique<const absl::Status>(absl::UnavailableError(str_cat(name_, " was lost: ", why)));
  if (lost_.compare_exchange_strong(none, reason.get(), std::memory_order_acq_rel))
    static_cast<void>(reason.release());  // stays
}

absl::Status Gpu::check(Result result, std::string_view doing) {
  if (result == Result::kSuccess) return absl::OkStatus();
  if (is_lost()) return health();
  const std::string words = driver_.words(result);
  if (std::find(kFaults.begin(), kFaults.end(), result) != kFaults.end()) {
    lose(str_cat(words, ", noticed ", doing));
    return health();
  }
  const std::string text = str_cat(name_, " failed ", doing, ": ", words);
  return result == Result::kOutOfMemory ? absl::ResourceExhaustedError(text) : absl::InternalError(text);
}

}  // namespace lamina::jit::cuda
