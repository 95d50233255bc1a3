#include "jit/cuda/driver.h"

#include <dlfcn.h>

#include <cstdlib>

#include "hlo/strings.h"

namespace lamina::jit::cuda {
namespace {

constexpr const char* kLibrary = "libcuda.so.1";
constexpr const char* kVariable = "LAMINA_CUDA_DRIVER";

std::string version_text(int version) { return str_cat(version / 1000, ".", version % 1000 / 10); }

}  // namespace

std::string Driver::words(Result result) const {
  const char *name = nullptr, *text = nullptr;
  if (error_name(result, &name) != Result::kSuccess || !name)
    return str_cat("error ", static_cast<int>(result));
  if (error_text(result, &text) != Result::kSuccess || !text) return name;
  return str_cat(name, ", ", text);
}

absl::StatusOr<Driver> load_driver() {
  const char* const wanted = std::getenv(kVariable);
  const bool is_named = wanted && *wanted;
  Driver driver;
  driver.library = is_named ? wanted : kLibrary;
  void* const handle = dlopen(driver.library.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (!handle) {
    const char* const why = dlerror();
    return absl::NotFoundError(is_named ? str_cat("the CUDA driver that ", kVariable,
                                                  " names cannot be loaded: ", why ? why : driver.library)
                                        : str_cat("no NVIDIA driver: ", kLibrary, " was not found"));
  }
  const char* missing = nullptr;
#define LAMINA_CUDA_CALL(member, symbol, parameters)                                 \
  driver.member = reinterpret_cast<decltype(driver.member)>(dlsym(handle, #symbol)); \
  if (!driver.member && !missing) missing = #symbol;
#define LAMINA_CUDA_GRAPH_CALL(member, symbol, parameters)                           \
  driver.member = reinterpret_cast<decltype(driver.member)>(dlsym(handle, #symbol)); \
  driver.has_graphs = driver.has_graphs && driver.member;
#include "jit/cuda/driver.def"
#undef LAMINA_CUDA_CALL
  const std::string it = str_cat("the NVIDIA driver ", driver.library);
  const std::string least = str_cat(version_text(kLeastDriverVersion), ", the oldest that serves");
  if (missing)
    return absl::NotFoundError(str_cat(it, " has no ", missing, ": it is older than CUDA ", least));
  const Result begun = driver.init(0);
  if (begun == Result::kStubLibrary)
    return absl::NotFoundError(str_cat("no NVIDIA driver: ", driver.library,
                                       " is the stub of a CUDA toolkit, which programs are linked with"));
  if (begun == Result::kNoDevice) return absl::NotFoundError(str_cat(it, " sees no device"));
  if (begun != Result::kSuccess)
    return absl::NotFoundError(str_cat(it, " does not start: ", driver.words(begun)));
  if (driver.driver_version(&driver.version) != Result::kSuccess || driver.version < kLeastDriverVersion)
    return absl::NotFoundError(
        str_cat(it, " supports CUDA ", version_text(driver.version), ", which is older than ", least));
  return driver;
}

}  // namespace lamina::jit::cuda
