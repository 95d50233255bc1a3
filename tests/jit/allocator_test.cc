#include "jit/client/allocator.h"

#include <catch2/catch.hpp>
#include <cstring>
#include <random>
#include <thread>
#include <vector>

#include "jit/client/checked.h"

using namespace lamina::jit;

TEST_CASE("checked arithmetic says when a size does not fit") {
  constexpr int64_t kMax = std::numeric_limits<int64_t>::max();
  CHECK(checked_add(kMax - 1, 1) == kMax);
  CHECK_FALSE(checked_add(kMax, 1));
  CHECK_FALSE(checked_mul(int64_t{1} << 32, int64_t{1} << 31));
  CHECK(checked_mul(int64_t{1} << 31, int64_t{1} << 31) == int64_t{1} << 62);
  const auto product = [](std::vector<int64_t> dims) { return checked_product(dims); };
  CHECK(product({}) == 1);
  CHECK(product({3, 4, 5}) == 60);
  CHECK(product({kMax, kMax, 0}) == 0);
  CHECK_FALSE(product({kMax, 2}));
  CHECK_FALSE(product({0, -1}));
  CHECK(checked_bytes(std::vector<int64_t>{1000, 1000}, 8) == 8000000);
  CHECK_FALSE(checked_bytes(std::vector<int64_t>{kMax / 4}, 8));
  CHECK(checked_round_up(65, 64) == 128);
  CHECK(checked_round_up(128, 64) == 128);
  CHECK_FALSE(checked_round_up(kMax, 64));
}

TEST_CASE("blocks are aligned, large enough and waste at most an eighth") {
  Allocator allocator;
  std::mt19937_64 rng(1);
  for (int i = 0; i < 2000; ++i) {
    const int64_t bytes = static_cast<int64_t>(rng() >> (64 - 1 - rng() % 23));
    const int64_t block = Allocator::block_bytes(bytes);
    REQUIRE(block >= bytes);
    REQUIRE(block % 64 == 0);
    if (bytes > 64) REQUIRE(block - bytes <= std::max<int64_t>(63, bytes / 8));
    auto buffer = allocator.allocate(bytes);
    REQUIRE(buffer.ok());
    REQUIRE(reinterpret_cast<uintptr_t>((*buffer)->data()) % (block >= (2 << 20) ? 2 << 20 : 64) == 0);
    REQUIRE((*buffer)->bytes() == bytes);
    std::memset((*buffer)->data(), i, static_cast<size_t>(block));
  }
  CHECK(allocator.stats().live_buffers == 0);
  CHECK(allocator.stats().live_bytes == 0);
  for (int64_t bytes = 0; bytes < 5000; ++bytes)
    REQUIRE(Allocator::block_bytes(bytes) <= Allocator::block_bytes(bytes + 1));
}

TEST_CASE("freed blocks are reused and counted") {
  Allocator allocator;
  void* first;
  {
    auto a = allocator.allocate(1000);
    first = (*a)->data();
    CHECK(allocator.stats().live_bytes == Allocator::block_bytes(1000));
  }
  CHECK(allocator.stats().cached_bytes == Allocator::block_bytes(1000));
  auto b = allocator.allocate(1010);  // the same class
  CHECK((*b)->data() == first);
  AllocatorStats stats = allocator.stats();
  CHECK(stats.allocations == 2);
  CHECK(stats.cache_hits == 1);
  CHECK(stats.system_blocks == 1);
  CHECK(stats.cached_bytes == 0);
  for (int i = 0; i < 100; ++i) REQUIRE(allocator.allocate(4 << 20).ok());
  stats = allocator.stats();
  CHECK(stats.system_blocks == 2);
  CHECK(stats.peak_bytes == Allocator::block_bytes(1010) + (4 << 20));
  allocator.trim();
  CHECK(allocator.stats().cached_bytes == 0);
  allocator.reset_peak();
  CHECK(allocator.stats().peak_bytes == Allocator::block_bytes(1010));
}

TEST_CASE("the memory limit is an error in words and leaves everything usable") {
  Allocator allocator;
  allocator.set_limit(1 << 20);
  { auto cached = allocator.allocate(600 << 10); }
  // Cached memory makes room for live memory.
  auto big = allocator.allocate(900 << 10);
  REQUIRE(big.ok());
  auto refused = allocator.allocate(300 << 10);
  REQUIRE(refused.status().code() == absl::StatusCode::kResourceExhausted);
  CHECK(std::string(refused.status().message()).find("1048576") != std::string::npos);
  big->reset();
  CHECK(allocator.allocate(300 << 10).ok());
  CHECK(allocator.allocate(-1).status().code() == absl::StatusCode::kInvalidArgument);
  CHECK(allocator.allocate(std::numeric_limits<int64_t>::max()).status().code() ==
        absl::StatusCode::kResourceExhausted);
  allocator.set_limit(std::numeric_limits<int64_t>::max());
  CHECK(allocator.allocate(0).ok());
  CHECK(allocator.stats().live_bytes == 0);
}

TEST_CASE("buffers count their holders and foreign memory is released once") {
  Allocator allocator;
  BufferRef a = *allocator.allocate(8);
  CHECK(a->may_reuse());
  BufferRef b = a;
  CHECK(a->use_count() == 2);
  CHECK_FALSE(a->may_reuse());
  b.reset();
  CHECK(a->may_reuse());
  b = std::move(a);
  CHECK_FALSE(static_cast<bool>(a));
  b = b;
  CHECK(b->use_count() == 1);

  int released = 0;
  double foreign[4];
  {
    BufferRef f = foreign_buffer(foreign, sizeof(foreign), [&] { ++released; });
    CHECK(f->data() == foreign);
    CHECK(f->is_foreign());
    CHECK_FALSE(f->may_reuse());
    BufferRef g = f;
    f.reset();
    CHECK(released == 0);
  }
  CHECK(released == 1);
}

TEST_CASE("threads allocate, share and free at the same time") {
  Allocator allocator;
  BufferRef shared = *allocator.allocate(64);
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t)
    threads.emplace_back([&, t] {
      for (int i = 0; i < 2000; ++i) {
        BufferRef copy = shared;
        BufferRef own = *allocator.allocate(64 + (i * 37 + t) % 5000);
        std::memset(own->data(), t, static_cast<size_t>(own->bytes()));
        const auto* bytes = static_cast<const unsigned char*>(own->data());
        if (bytes[0] != t || bytes[own->bytes() - 1] != t) std::abort();
      }
    });
  for (auto& t : threads) t.join();
  CHECK(shared->use_count() == 1);
  CHECK(allocator.stats().live_buffers == 1);
  CHECK(allocator.stats().allocations == 8001);
}
