// Where NVIDIA's libraries are that are opened at first use.
#ifndef LAMINA_JIT_CUDA_LIBRARIES_H_
#define LAMINA_JIT_CUDA_LIBRARIES_H_

#include <span>
#include <string>

#include "absl/functional/function_ref.h"
#include "absl/status/statusor.h"

namespace lamina::jit::cuda {

struct Library {
  const char* name;      // for people: "nvJitLink"
  const char* variable;  // of the environment: the one library to open; set and empty: none
  // Versions, the latest first: where it lies in a Python environment, beside this package, and its name.
  struct File {
    const char *wheel, *name;
  };
  std::span<const File> files;
};

// Opens those that are found, until one is `taken`, and gives the path of that: the library that the variable
// names, else that of a Python environment, of the loader's path, or of /usr/local/cuda. It stays loaded.
// NotFound where none is taken: in words of `taken` if there was one.
absl::StatusOr<std::string> open_library(
    const Library& library, absl::FunctionRef<absl::Status(const std::string& path, void* handle)> taken);

// OK where a library of this major version serves a driver of that version (1000 * major + 10 * minor).
absl::Status serves_driver(const std::string& path, int major, int driver_version);

// The numbers of cuFFT and cuSOLVER: 1000 * major + 100 * minor + patch; the major version is one less than
// that of the CUDA that they come with.
struct ToolkitVersion {
  int number;
  int cuda_major() const { return number / 1000 + 1; }
  std::string text() const;  // "12.0.4"
};

}  // namespace lamina::jit::cuda

#endif  // LAMINA_JIT_CUDA_LIBRARIES_H_
