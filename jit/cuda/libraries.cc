#include "jit/cuda/libraries.h"

#include <dlfcn.h>

#include <cstdlib>
#include <vector>

#include "hlo/strings.h"
#include "jit/client/library_path.h"

namespace lamina::jit::cuda {
namespace {

constexpr const char* kToolkit = "/usr/local/cuda/lib64/";

}  // namespace

absl::StatusOr<std::string> open_library(
    const Library& library, absl::FunctionRef<absl::Status(const std::string& path, void* handle)> taken) {
  const char* const named = std::getenv(library.variable);
  if (named && !*named) return absl::NotFoundError(str_cat(library.variable, " says that there is none"));
  std::vector<std::string> places;
  if (named) places.emplace_back(named);
  for (const Library::File& file : library.files)
    if (!named)
      places.insert(places.end(), {library_path("", file.wheel), file.name, str_cat(kToolkit, file.name)});
  absl::Status why =
      absl::NotFoundError(named ? str_cat(named, ", which ", library.variable, " names, cannot be loaded")
                                : str_cat("lib", library.name, " was not found"));
  for (const std::string& place : places) {
    void* const handle = dlopen(place.c_str(), RTLD_NOW | RTLD_LOCAL);
    if (!handle) continue;
    const absl::Status answer = taken(place, handle);
    if (answer.ok()) return place;
    why = absl::NotFoundError(answer.message());
  }
  return why;
}

absl::Status serves_driver(const std::string& path, int major, int driver_version) {
  if (1000 * major <= driver_version) return absl::OkStatus();
  return absl::NotFoundError(str_cat(path, " is for drivers of CUDA ", major, ", and this one is older"));
}

std::string ToolkitVersion::text() const {
  return str_cat(number / 1000, ".", number / 100 % 10, ".", number % 100);
}

}  // namespace lamina::jit::cuda
