#include "jit/cpu/strided_copy.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <cstring>
#include <numeric>
#include <random>

using namespace lamina::jit;

TEST_CASE("arrays are copied in any order of their dimensions") {
  std::mt19937_64 rng(5);
  const auto pick = [&](uint64_t n) { return static_cast<int64_t>(rng() % n); };
  static constexpr int64_t kExtents[] = {1, 2, 3, 7, 8, 9, 16, 31, 63, 64, 65, 130};
  const KernelContext context;
  int with_tiles = 0;
  for (int trial = 0; trial < 400; ++trial) {
    const int64_t width = int64_t{1} << pick(5);
    const size_t rank = 1 + static_cast<size_t>(pick(4));
    std::vector<int64_t> extents, from(rank);
    int64_t budget = 20000;
    for (size_t d = 0; d < rank; ++d) {
      extents.push_back(std::min(kExtents[pick(std::size(kExtents))], budget));
      budget = std::max<int64_t>(budget / extents.back(), 1);
    }
    std::vector<size_t> order(rank);
    std::iota(order.begin(), order.end(), 0);
    std::shuffle(order.begin(), order.end(), rng);
    int64_t size = 1;
    for (size_t d : order) {
      from[d] = size;
      size = size * extents[d] + pick(2);  // rows with something between them, now and then
    }
    std::vector<char> source(static_cast<size_t>(size * width));
    for (char& c : source) c = static_cast<char>(rng());
    const int64_t count = std::accumulate(extents.begin(), extents.end(), int64_t{1}, std::multiplies<>());
    std::vector<char> expected(static_cast<size_t>(count * width)), got = expected;
    for (int64_t i = 0; i < count; ++i) {
      int64_t at = 0, left = i;
      for (size_t d = rank; d-- > 0; left /= extents[d]) at += left % extents[d] * from[d];
      std::memcpy(&expected[i * width], &source[at * width], width);
    }
    const StridedCopy copy(extents, from, width);
    with_tiles += copy.uses_tiles();
    REQUIRE(copy.run(source.data(), got.data(), context).ok());
    INFO("trial " << trial << ", width " << width);
    REQUIRE(got == expected);
  }
  CHECK(with_tiles > 50);
}

TEST_CASE("large results go past the caches to targets at any place") {
  std::mt19937_64 rng(7);
  const KernelContext context;
  for (const int64_t width : {1, 2, 4, 8, 16})
    for (const auto& [rows, columns] :
         {std::pair<int64_t, int64_t>{1031, 4099}, {2048, 2048}, {9, 500'000}}) {
      const StridedCopy copy({rows, columns}, {1, rows}, width);
      REQUIRE(copy.uses_tiles());
      const auto bytes = static_cast<size_t>(rows * columns * width);
      std::vector<char> source(bytes);
      for (size_t i = 0; i + 8 <= bytes; i += 8) {
        const uint64_t word = rng();
        std::memcpy(&source[i], &word, 8);
      }
      for (const size_t offset : {size_t{0}, static_cast<size_t>(3 * width)}) {
        std::vector<char> target(bytes + offset + 64, 'x');
        REQUIRE(copy.run(source.data(), target.data() + offset, context).ok());
        int64_t wrong = 0;
        for (int64_t r = 0; r < rows; ++r)
          for (int64_t c = 0; c < columns; ++c)
            wrong += std::memcmp(&target[offset + static_cast<size_t>((r * columns + c) * width)],
                                 &source[static_cast<size_t>((c * rows + r) * width)],
                                 static_cast<size_t>(width)) != 0;
        INFO("width " << width << ", " << rows << " x " << columns << ", offset " << offset);
        CHECK(wrong == 0);
        CHECK(std::count(target.begin(), target.begin() + static_cast<int64_t>(offset), 'x') ==
              static_cast<int64_t>(offset));
        CHECK(std::count(target.end() - 64, target.end(), 'x') == 64);
      }
    }
}
