// Sorts of unsigned integers against std::sort: every instruction set that the machine has, patterns that
// quicksorts and radix sorts dislike, one thread and several.
#include "jit/cpu/integer_sort.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <cstdint>
#include <random>
#include <vector>

#include "jit/cpu/thread_pool.h"

namespace lamina {
namespace {

using jit::IntegerSort;
using jit::Isa;
using jit::KernelContext;

constexpr int kPatterns = 9;

template <typename K>
std::vector<K> pattern(int which, int64_t n) {
  std::mt19937_64 random(static_cast<uint64_t>(which * 1000 + n));
  std::vector<K> keys(n);
  for (int64_t i = 0; i < n; ++i) {
    const auto any = static_cast<K>(random());
    switch (which) {
      case 0:
        keys[i] = any;
        break;
      case 1:
        keys[i] = static_cast<K>(i);
        break;
      case 2:
        keys[i] = static_cast<K>(n - i);
        break;
      case 3:
        keys[i] = any % 3;
        break;
      case 4:  // the greatest keys, which fill vectors that are not full
        keys[i] = static_cast<K>(~K{0}) - any % 2;
        break;
      case 5:
        keys[i] = 7;
        break;
      case 6:  // up and down again
        keys[i] = static_cast<K>(std::min(i, n - i));
        break;
      case 7:  // upper bits only
        keys[i] = static_cast<K>(any << (8 * sizeof(K) - 9));
        break;
      default:  // one that differs
        keys[i] = i == n / 2 ? 0 : 1;
    }
  }
  return keys;
}

template <typename K>
void check_sorts(Isa isa, std::initializer_list<int64_t> sizes, jit::ThreadPool* pool) {
  KernelContext context;
  context.isa = isa;
  if (pool) context.parallel = pool->parallel();
  IntegerSort sort;
  for (const int64_t n : sizes)
    for (int which = 0; which < kPatterns; ++which) {
      const std::vector<K> keys = pattern<K>(which, n);
      std::vector<K> expected = keys;
      std::sort(expected.begin(), expected.end());
      const K mark = static_cast<K>(0x5A5A5A5A);
      std::vector<K> room(n + IntegerSort::spare<K>(n, context) + 1, mark);
      std::copy(keys.begin(), keys.end(), room.begin());
      sort.run(room.data(), room.data() + n, n, 0, context);
      CAPTURE(n, which, static_cast<int>(isa), sizeof(K));
      CHECK(std::equal(expected.begin(), expected.end(), room.begin()));
      CHECK(room.back() == mark);
    }
}

template <typename K>
void check_sorts(std::initializer_list<int64_t> sizes, jit::ThreadPool* pool) {
  for (const Isa isa : {Isa::kPortable, Isa::kAvx2, Isa::kAvx512})
    if (jit::usable_isa(isa) == isa) check_sorts<K>(isa, sizes, pool);
}

TEST_CASE("Integers are sorted by every instruction set", "[sort]") {
  const std::initializer_list<int64_t> sizes = {0,   1,   2,   3,   7,   8,    9,    15,   16,   17,   31,
                                                33,  40,  41,  63,  64,  65,   127,  128,  129,  255,  256,
                                                257, 300, 511, 513, 777, 1000, 4096, 5000, 8192, 20011};
  check_sorts<uint32_t>(sizes, nullptr);
  check_sorts<uint64_t>(sizes, nullptr);
}

TEST_CASE("Threads share sorts of many integers", "[sort]") {
  jit::ThreadPool pool(3);
  check_sorts<uint32_t>({131072, 300007}, &pool);
  check_sorts<uint64_t>({131072, 300007}, &pool);
}

TEST_CASE("Digits that are in order already are left out", "[sort]") {
  constexpr int64_t kCount = 10000;
  constexpr int kPlaceBits = 14;
  std::mt19937_64 random(5);
  std::vector<uint64_t> items(kCount);
  for (int64_t i = 0; i < kCount; ++i) items[i] = random() % 5 << kPlaceBits | static_cast<uint64_t>(i);
  std::vector<uint64_t> expected = items;
  std::sort(expected.begin(), expected.end());
  for (const Isa isa : {Isa::kPortable, jit::best_isa()}) {
    KernelContext context;
    context.isa = isa;
    std::vector<uint64_t> room = items;
    room.resize(kCount + IntegerSort::spare<uint64_t>(kCount, context));
    IntegerSort().run(room.data(), room.data() + kCount, kCount, kPlaceBits, context);
    CHECK(std::equal(expected.begin(), expected.end(), room.begin()));
  }
}

}  // namespace
}  // namespace lamina
