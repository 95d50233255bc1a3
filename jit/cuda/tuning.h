// Which of several algorithms of a library is the quickest on a device, where that is asked for.
//
// Contract: LAMINA_CUDA_TUNE=1 in the environment asks for it, when a program is compiled; else nothing is
// timed. Of the algorithms that a library names another than the first is taken only if it gains more than
// kLeastGain: near ties would fall one way or the other. What was taken is kept on disk beside the kernels,
// for the library's version, the kind of device and what is computed, by what the algorithm is and not by its
// place in a list, so that later processes have the same bits, and time nothing. What cannot be measured or
// kept changes no more than that the first algorithm is taken, or times are taken again.
#ifndef LAMINA_JIT_CUDA_TUNING_H_
#define LAMINA_JIT_CUDA_TUNING_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string>

#include "absl/status/status.h"
#include "hlo/strings.h"
#include "jit/client/memory.h"
#include "jit/cuda/gpu.h"

namespace lamina::jit::cuda {

bool is_tuning();

// More are not timed.
inline constexpr size_t kMostTimed = 4;
// A part of the first one's time.
inline constexpr float kLeastGain = 0.02F;

struct TimedAlgorithm {
  std::string name;  // the same in all processes, for one version of the library
  // Enqueues the work, on memory for each of the arrays.
  std::function<absl::Status(StreamHandle stream, std::span<const Address> arrays)> run;
};

// For `what` is computed: "8,3,3".
inline std::string numbers_text(std::span<const int64_t> numbers) {
  std::string out;
  for (int64_t n : numbers) str_append(&out, out.empty() ? "" : ",", n);
  return out;
}

// The number of the one to take. `what`: library, version and all that is computed; the arrays have so many
// bytes. The device's context may be current.
size_t quickest(Gpu& gpu, const std::string& what, std::span<const int64_t> bytes,
                std::span<const TimedAlgorithm> algorithms);

}  // namespace lamina::jit::cuda

#endif  // LAMINA_JIT_CUDA_TUNING_H_
