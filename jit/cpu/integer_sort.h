// Sorts of unsigned integers on threads: by vectors (jit/cpu/sort_kernels.h) where the machine has them, else
// by radix, least significant digit first (Knuth, The Art of Computer Programming, volume 3, 5.2.5).
//
// Contract: one result on every machine and on any number of threads, as integers that are equal are the
// same.
#ifndef LAMINA_JIT_CPU_INTEGER_SORT_H_
#define LAMINA_JIT_CPU_INTEGER_SORT_H_

#include <algorithm>
#include <cstdint>
#include <vector>

#include "jit/cpu/kernel_context.h"

namespace lamina::jit {

// Elements from which on threads share a loop over them.
inline constexpr int64_t kSharedElements = int64_t{1} << 17;

// f(task, begin, end) for the parts of n elements.
template <typename F>
void share_elements(const ParallelFor& parallel, int64_t n, const F& f) {
  const int64_t tasks = n < kSharedElements ? 1 : std::max(parallel.threads, 1);
  parallel(tasks, [&](int64_t t) { f(t, n * t / tasks, n * (t + 1) / tasks); });
}

// K is uint32_t or uint64_t. The object keeps memory from one run to the next.
class IntegerSort {
 public:
  // Elements of spare memory that `run` takes for n integers.
  template <typename K>
  static int64_t spare(int64_t n, const KernelContext& context);

  // Sorts items[0 ... n-1]. Those that differ in the lowest `ordered_bits` bits only are in order already.
  // Leaves them in some order if the run is cancelled.
  template <typename K>
  void run(K* items, K* spare, int64_t n, int ordered_bits, const KernelContext& context);

 private:
  template <int kBits, typename K>
  void by_digits(K* items, K* spare, int64_t n, int ordered_bits, const KernelContext& context);

  std::vector<uint32_t> counts_;
};

}  // namespace lamina::jit

#endif  // LAMINA_JIT_CPU_INTEGER_SORT_H_
