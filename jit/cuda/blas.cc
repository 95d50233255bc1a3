#include "jit/cuda/blas.h"

#include <dlfcn.h>

#include "hlo/strings.h"
#include "jit/cuda/libraries.h"

namespace lamina::jit::cuda {
namespace {

constexpr Library::File kBlasFiles[] = {{"../nvidia/cu13/lib/libcublasLt.so.13", "libcublasLt.so.13"},
                                        {"../nvidia/cublas/lib/libcublasLt.so.12", "libcublasLt.so.12"}};

// The library's numbers have two digits for the minor version.
size_t major_of(size_t version) { return version / 10'000; }

}  // namespace

std::string Blas::version_text() const {
  const size_t number = version();
  return str_cat(major_of(number), ".", number / 100 % 100, ".", number % 100);
}

std::string Blas::words(BlasStatus status) const {
  const char* const name = status_name(status);
  return name ? name : str_cat("error ", static_cast<int>(status));
}

absl::StatusOr<Blas> load_blas(int driver_version) {
  Blas blas;
  const absl::StatusOr<std::string> opened =
      open_library({"cublasLt", "LAMINA_CUBLASLT", kBlasFiles},
                   [&](const std::string& path, void* library) -> absl::Status {
                     const char* missing = nullptr;
#define LAMINA_CUBLASLT_CALL(result, member, symbol, parameters)                  \
  blas.member = reinterpret_cast<decltype(blas.member)>(dlsym(library, #symbol)); \
  if (!blas.member && !missing) missing = #symbol;
#include "jit/cuda/blas.def"
#undef LAMINA_CUBLASLT_CALL
                     if (missing) return absl::NotFoundError(str_cat(path, " has no ", missing));
                     return serves_driver(path, static_cast<int>(major_of(blas.version())), driver_version);
                   });
  if (!opened.ok()) return opened.status();
  blas.library = *opened;
  return blas;
}

}  // namespace lamina::jit::cuda
