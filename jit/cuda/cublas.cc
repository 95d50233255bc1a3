#include "jit/cuda/cublas.h"

#include <dlfcn.h>

#include "hlo/strings.h"
#include "jit/cuda/libraries.h"

namespace lamina::jit::cuda {
namespace {

constexpr Library::File kCublasFiles[] = {{"../nvidia/cu13/lib/libcublas.so.13", "libcublas.so.13"},
                                          {"../nvidia/cublas/lib/libcublas.so.12", "libcublas.so.12"}};

int property_of(const Cublas& cublas, BlasProperty which) {
  int value = 0;
  cublas.property(which, &value);
  return value;
}

}  // namespace

std::string Cublas::version_text() const {
  return str_cat(property_of(*this, BlasProperty::kMajor), ".", property_of(*this, BlasProperty::kMinor), ".",
                 property_of(*this, BlasProperty::kPatch));
}

std::string Cublas::words(BlasStatus status) const {
  const char* const name = status_name(status);
  return name ? name : str_cat("error ", static_cast<int>(status));
}

absl::StatusOr<Cublas> load_cublas(int driver_version) {
  Cublas cublas;
  const absl::StatusOr<std::string> opened = open_library(
      {"cublas", "LAMINA_CUBLAS", kCublasFiles}, [&](const std::string& path, void* library) -> absl::Status {
        const char* missing = nullptr;
#define LAMINA_CUBLAS_CALL(result, member, symbol, parameters)                        \
  cublas.member = reinterpret_cast<decltype(cublas.member)>(dlsym(library, #symbol)); \
  if (!cublas.member && !missing) missing = #symbol;
#include "jit/cuda/cublas.def"
#undef LAMINA_CUBLAS_CALL
        if (missing) return absl::NotFoundError(str_cat(path, " has no ", missing));
        return serves_driver(path, property_of(cublas, BlasProperty::kMajor), driver_version);
      });
  if (!opened.ok()) return opened.status();
  cublas.library = *opened;
  return cublas;
}

}  // namespace lamina::jit::cuda
