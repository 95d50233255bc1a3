#include "jit/cpu/integer_sort.h"

#include <algorithm>
#include <utility>

#include "jit/cpu/sort_kernels.h"

namespace lamina::jit {
namespace {

// Up to here an insertion sort beats counting digits; from there digits of 11 bits beat digits of 8.
constexpr int64_t kInsertion = 40, kWideDigits = 8192;
// Pieces per thread that a shared sort ends with.
constexpr int64_t kPieces = 4;

// Null where there are none.
template <typename K>
const SortKernels<K>* kernels(Isa isa) {
#if defined(__x86_64__)
  if (isa == Isa::kAvx512) return &sort_kernels_avx512(K{});
  if (isa == Isa::kAvx2) return &sort_kernels_avx2(K{});
#endif
  return nullptr;
}

template <typename K>
void insertion_sort(K* items, int64_t n) {
  for (int64_t i = 1; i < n; ++i) {
    const K x = items[i];
    int64_t at = i;
    for (; at > 0 && x < items[at - 1]; --at) items[at] = items[at - 1];
    items[at] = x;
  }
}

template <typename K>
void sort_piece(const SortKernels<K>& by, K* items, int64_t n) {
  if (!by.sort(items, n)) std::sort(items, items + n);
}

// Pieces are split at once, by twice as many threads each time, and then sorted.
template <typename K>
void sort_in_pieces(const SortKernels<K>& by, K* items, int64_t n, const KernelContext& context) {
  const int64_t wanted = kPieces * context.parallel.threads;
  std::vector<int64_t> ends = {n};  // of pieces in their order
  const auto begin = [&](size_t i) { return i == 0 ? 0 : ends[i - 1]; };
  for (size_t before = 0; std::ssize(ends) < wanted && ends.size() > before && !context.cancelled();) {
    before = ends.size();
    std::vector<int64_t> split(before);  // where pieces end that a piece begins with
    context.parallel(std::ssize(ends), [&](int64_t i) {
      const int64_t first = begin(i), size = ends[i] - first;
      split[i] = size < kSharedElements / kPieces ? ends[i] : first + by.split(items + first, size);
    });
    ends.insert(ends.end(), split.begin(), split.end());
    std::sort(ends.begin(), ends.end());
    ends.erase(std::unique(ends.begin(), ends.end()), ends.end());
  }
  context.parallel(std::ssize(ends), [&](int64_t i) {
    if (!context.cancelled()) sort_piece(by, items + begin(i), ends[i] - begin(i));
  });
}

}  // namespace

template <typename K>
int64_t IntegerSort::spare(int64_t n, const KernelContext& context) {
  return kernels<K>(context.isa) || n <= kInsertion ? 0 : n;
}

template <typename K>
void IntegerSort::run(K* items, K* spare, int64_t n, int ordered_bits, const KernelContext& context) {
  const SortKernels<K>* const by = kernels<K>(context.isa);
  if (by && n >= kSharedElements && context.parallel.threads > 1)
    sort_in_pieces(*by, items, n, context);
  else if (by)
    sort_piece(*by, items, n);
  else if (n <= kInsertion)
    insertion_sort(items, n);
  else if (n < kWideDigits)
    by_digits<8>(items, spare, n, ordered_bits, context);
  else
    by_digits<11>(items, spare, n, ordered_bits, context);
}

template <int kBits, typename K>
void IntegerSort::by_digits(K* items, K* spare, int64_t n, int ordered_bits, const KernelContext& context) {
  constexpr int64_t kBuckets = int64_t{1} << kBits;
  const int digits = (static_cast<int>(8 * sizeof(K)) - ordered_bits + kBits - 1) / kBits;
  const auto digit = [=](K item, int d) {
    return static_cast<int64_t>((item >> (ordered_bits + d * kBits)) & static_cast<K>(kBuckets - 1));
  };
  counts_.assign(static_cast<size_t>(digits) * kBuckets, 0);
  for (int64_t i = 0; i < n; ++i)
    for (int d = 0; d < digits; ++d) ++counts_[d * kBuckets + digit(items[i], d)];
  K *from = items, *to = spare;
  for (int d = 0; d < digits && !context.cancelled(); ++d) {
    uint32_t* const next = counts_.data() + d * kBuckets;
    if (next[digit(from[0], d)] == static_cast<uint64_t>(n)) continue;  // all share the digit
    uint32_t sum = 0;
    for (int64_t b = 0; b < kBuckets; ++b) sum += std::exchange(next[b], sum);
    for (int64_t i = 0; i < n; ++i) to[next[digit(from[i], d)]++] = from[i];
    std::swap(from, to);
  }
  if (from != items) std::copy_n(from, n, items);
}

template int64_t IntegerSort::spare<uint32_t>(int64_t, const KernelContext&);
template int64_t IntegerSort::spare<uint64_t>(int64_t, const KernelContext&);
template void IntegerSort::run(uint32_t*, uint32_t*, int64_t, int, const KernelContext&);
template void IntegerSort::run(uint64_t*, uint64_t*, int64_t, int, const KernelContext&);

}  // namespace lamina::jit
