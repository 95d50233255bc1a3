// What this machine can do at most, measured: bytes to and from memory, floating-point operations.
//
// Contract: measured once per number of threads, in about a tenth of a second, on the threads that the caller
// may use: the best of a few rounds of a loop that does nothing else. Arrays that stay in a cache are read
// faster than memory, so what works on them may exceed the first limit.
#ifndef LAMINA_JIT_CPU_MACHINE_LIMITS_H_
#define LAMINA_JIT_CPU_MACHINE_LIMITS_H_

#include <vector>

#include "hlo/mutex.h"
#include "jit/cpu/parallel.h"

namespace lamina::jit {

struct MachineLimits {
  int threads = 0;
  double bytes_per_s = 0;
  double flops_per_s = 0;         // of float32
  double double_flops_per_s = 0;  // of float64
};

// Owned by the CPU's client.
class MeasuredLimits {
 public:
  MachineLimits get(const ParallelFor& parallel);

 private:
  hlo::Mutex mutex_{hlo::LockRank::kLibraries};
  std::vector<MachineLimits> known_;
};

}  // namespace lamina::jit

#endif  // LAMINA_JIT_CPU_MACHINE_LIMITS_H_
