#include "jit/cuda/fft.h"

#include <dlfcn.h>

#include "hlo/strings.h"
#include "jit/cuda/libraries.h"

namespace lamina::jit::cuda {
namespace {

constexpr Library::File kFftFiles[] = {{"../nvidia/cu13/lib/libcufft.so.12", "libcufft.so.12"},
                                       {"../nvidia/cufft/lib/libcufft.so.11", "libcufft.so.11"}};

ToolkitVersion version_of(const Fft& fft) {
  ToolkitVersion version{0};
  fft.version(&version.number);
  return version;
}

}  // namespace

std::string Fft::version_text() const { return version_of(*this).text(); }

std::string words(FftStatus status) {
  switch (status) {
    case FftStatus::kSuccess:
      return "CUFFT_SUCCESS";
    case FftStatus::kInvalidPlan:
      return "CUFFT_INVALID_PLAN";
    case FftStatus::kAllocFailed:
      return "CUFFT_ALLOC_FAILED";
    case FftStatus::kInvalidValue:
      return "CUFFT_INVALID_VALUE";
    case FftStatus::kInternalError:
      return "CUFFT_INTERNAL_ERROR";
    case FftStatus::kExecFailed:
      return "CUFFT_EXEC_FAILED";
    case FftStatus::kSetupFailed:
      return "CUFFT_SETUP_FAILED";
    case FftStatus::kInvalidSize:
      return "CUFFT_INVALID_SIZE";
    case FftStatus::kInvalidDevice:
      return "CUFFT_INVALID_DEVICE";
    case FftStatus::kNoWorkspace:
      return "CUFFT_NO_WORKSPACE";
    case FftStatus::kNotImplemented:
      return "CUFFT_NOT_IMPLEMENTED";
    case FftStatus::kNotSupported:
      return "CUFFT_NOT_SUPPORTED";
  }
  return str_cat("error ", static_cast<int>(status));
}

absl::StatusOr<Fft> load_fft(int driver_version) {
  Fft fft;
  const absl::StatusOr<std::string> opened = open_library(
      {"cufft", "LAMINA_CUFFT", kFftFiles}, [&](const std::string& path, void* library) -> absl::Status {
        const char* missing = nullptr;
#define LAMINA_CUFFT_CALL(result, member, symbol, parameters)                   \
  fft.member = reinterpret_cast<decltype(fft.member)>(dlsym(library, #symbol)); \
  if (!fft.member && !missing) missing = #symbol;
#include "jit/cuda/fft.def"
#undef LAMINA_CUFFT_CALL
        if (missing) return absl::NotFoundError(str_cat(path, " has no ", missing));
        return serves_driver(path, version_of(fft).cuda_major(), driver_version);
      });
  if (!opened.ok()) return opened.status();
  fft.library = *opened;
  return fft;
}

}  // namespace lamina::jit::cuda
