#include "jit/cuda/dnn.h"

#include <dlfcn.h>

#include <array>

#include "hlo/strings.h"
#include "jit/cuda/libraries.h"

namespace lamina::jit::cuda {
namespace {

constexpr Library::File kDnnFiles[] = {{"../nvidia/cudnn/lib/libcudnn.so.9", "libcudnn.so.9"}};
constexpr size_t kDnnMajor = 9;
// The library's numbers have two digits for the minor version and for the patch.
constexpr size_t kDnnMajorUnit = 10'000;

}  // namespace

std::string Dnn::version_text() const {
  const size_t number = version();
  return str_cat(number / kDnnMajorUnit, ".", number / 100 % 100, ".", number % 100);
}

std::string Dnn::words(DnnStatus status) const {
  const char* const name = status_name(status);
  std::string out = name ? name : str_cat("error ", static_cast<int>(status));
  std::array<char, 512> said{};
  last_error(said.data(), said.size() - 1);
  if (said[0]) str_append(&out, " (", said.data(), ")");
  return out;
}

absl::StatusOr<Dnn> load_dnn(int driver_version) {
  Dnn dnn;
  const absl::StatusOr<std::string> opened = open_library(
      {"cudnn", "LAMINA_CUDNN", kDnnFiles}, [&](const std::string& path, void* library) -> absl::Status {
        const char* missing = nullptr;
#define LAMINA_CUDNN_CALL(result, member, symbol, parameters)                   \
  dnn.member = reinterpret_cast<decltype(dnn.member)>(dlsym(library, #symbol)); \
  if (!dnn.member && !missing) missing = #symbol;
#include "jit/cuda/dnn.def"
#undef LAMINA_CUDNN_CALL
        if (missing) return absl::NotFoundError(str_cat(path, " has no ", missing));
        if (dnn.version() / kDnnMajorUnit != kDnnMajor)
          return absl::NotFoundError(str_cat(path, " is version ", dnn.version_text(), ", and ", kDnnMajor,
                                             " is the one that is known"));
        return serves_driver(path, static_cast<int>(dnn.runtime_version() / 1000), driver_version);
      });
  if (!opened.ok()) return opened.status();
  dnn.library = *opened;
  return dnn;
}

}  // namespace lamina::jit::cuda
