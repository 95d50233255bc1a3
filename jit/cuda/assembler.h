// NVIDIA's assembler as a library (nvJitLink): PTX to the machine code of one chip, in this process.
//
// Contract: nothing links to it; it is opened when the first kernel wants it, and stays. Where there is none,
// or it does not serve the driver at hand, the driver assembles PTX itself when that is loaded: the same
// code, made again in each process. Any thread may call anything.
#ifndef LAMINA_JIT_CUDA_ASSEMBLER_H_
#define LAMINA_JIT_CUDA_ASSEMBLER_H_

#include <string>
#include <utility>

#include "absl/status/statusor.h"

namespace lamina::jit::cuda {

class Assembler {
 public:
  // The library that $LAMINA_NVJITLINK names (set and empty: none), else that of a Python environment, of the
  // loader's path, or of /usr/local/cuda. NotFound, in words, where there is none that code for a driver of
  // this version (1000 * major + 10 * minor) comes from.
  static absl::StatusOr<Assembler> open(int driver_version);

  const std::string& library() const { return library_; }  // that it was loaded from
  const std::string& version() const { return version_; }  // "13.0"
  // For devices of this capability and no other. InternalError with the assembler's words where it refuses.
  absl::StatusOr<std::string> assemble(const std::string& ptx, int capability) const;

 private:
  struct Calls;
  Assembler(std::string library, std::string version, const Calls* calls)
      : library_(std::move(library)), version_(std::move(version)), calls_(calls) {}

  std::string library_, version_;
  const Calls* calls_;  // stays
};

}  // namespace lamina::jit::cuda

#endif  // LAMINA_JIT_CUDA_ASSEMBLER_H_
