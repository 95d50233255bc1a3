// Vector kernels that sort unsigned integers: one set per instruction set.
//
// Contract: quicksort (Hoare 1962) whose partitions compress vectors by the outcome of a comparison (Bramas
// 2017, "A novel hybrid quicksort algorithm vectorized using AVX-512"), and sorting networks in registers
// below (Batcher 1968, "Sorting networks and their applications"). Nothing is allocated.
#ifndef LAMINA_JIT_CPU_SORT_KERNELS_H_
#define LAMINA_JIT_CPU_SORT_KERNELS_H_

#include <cstdint>

namespace lamina::jit {

// A network of registers sorts fewer.
inline constexpr int64_t kLeastSplit = 1024;

template <typename K>
struct SortKernels {
  // Sorts keys[0 ... n-1]. False if bad luck with pivots ended it: the keys are in some order then.
  bool (*sort)(K* keys, int64_t n);
  // Puts keys first that are below all others, or the least ones if all others are: how many they are, 0 < so
  // many <= n. n >= kLeastSplit.
  int64_t (*split)(K* keys, int64_t n);
};

// Only where the machine has the instructions.
const SortKernels<uint32_t>& sort_kernels_avx2(uint32_t);
const SortKernels<uint64_t>& sort_kernels_avx2(uint64_t);
const SortKernels<uint32_t>& sort_kernels_avx512(uint32_t);
const SortKernels<uint64_t>& sort_kernels_avx512(uint64_t);

}  // namespace lamina::jit

#endif  // LAMINA_JIT_CPU_SORT_KERNELS_H_
