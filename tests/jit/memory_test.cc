#include "jit/client/memory.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <cstdlib>
#include <cstring>
#include <random>
#include <thread>
#include <vector>

#include "jit/client/checked.h"
#include "jit/client/client.h"
#include "jit/fake/client.h"
#include "tests/jit/fork_child.h"
#include "tests/jit/host_data.h"

using namespace lamina::jit;
using lamina::testing::host_data;

namespace {

// Counts its blocks, and has none left when told so.
struct CountedBlocks final : BlockSource {
  Address allocate(int64_t bytes) override {
    if (empty) return Address();
    ++blocks;
    return Address(reinterpret_cast<uintptr_t>(std::aligned_alloc(64, static_cast<size_t>(bytes))));
  }
  void free(Address block, int64_t) override {
    --blocks;
    std::free(pointer(block));
  }
  std::atomic<int64_t> blocks{0};
  bool empty = false;
};

// Memories are never destroyed.
struct Place {
  CountedBlocks& source = *new CountedBlocks;
  Memory& memory = *new Memory(host(), source, host_device().stream());
};

}  // namespace

TEST_CASE("where work runs later, the free block of the lowest address comes first") {
  CountedBlocks& source = *new CountedBlocks;
  Device& later = *FakeClient::get().devices()[0];
  Memory& memory = *new Memory(later.client(), source, later.stream());
  std::mt19937_64 rng(2);
  // Kept by the thread, and shared.
  for (const int64_t bytes : {int64_t{8 * 1024}, 4 * Memory::kThreadBytes}) {
    std::vector<BufferRef> held;
    const auto take = [&](size_t count) {
      std::vector<Address> at;
      for (size_t i = 0; i < count; ++i)
        at.push_back((held.emplace_back(*memory.allocate(bytes)))->address());
      return at;
    };
    std::vector<Address> first = take(12);
    std::sort(first.begin(), first.end(), [](Address a, Address b) { return a.bits() < b.bits(); });
    for (int round = 0; round < 5; ++round) {
      std::shuffle(held.begin(), held.end(), rng);
      held.clear();
      CHECK(take(12) == first);
    }
    held.clear();
    std::vector<BufferRef> some(5);
    REQUIRE(memory.allocate(std::vector<int64_t>(5, bytes), some).ok());
    for (size_t i = 0; i < some.size(); ++i) CHECK(some[i]->address() == first[i]);
  }
  CHECK(source.blocks == 24);
  memory.trim();
  CHECK(source.blocks == 0);
}

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

TEST_CASE("blocks are aligned, large enough and waste at most an eighth", "[memory]") {
  Memory& memory = host_device().memory();  // whose large blocks begin on huge pages
  const int64_t live = memory.stats().live_buffers;
  std::mt19937_64 rng(1);
  for (int i = 0; i < 2000; ++i) {
    const int64_t bytes = static_cast<int64_t>(rng() >> (64 - 1 - rng() % 23));
    const int64_t block = Memory::block_bytes(bytes);
    REQUIRE(block >= bytes);
    REQUIRE(block % 64 == 0);
    if (bytes > 64) REQUIRE(block - bytes <= std::max<int64_t>(63, bytes / 8));
    auto buffer = memory.allocate(bytes);
    REQUIRE(buffer.ok());
    REQUIRE((*buffer)->address().bits() % (block >= (2 << 20) ? 2 << 20 : 64) == 0);
    REQUIRE((*buffer)->bytes() == bytes);
    std::memset(host_data(*buffer), i, static_cast<size_t>(block));
  }
  CHECK(memory.stats().live_buffers == live);
  for (int64_t bytes = 0; bytes < 80'000; ++bytes)
    REQUIRE(Memory::block_bytes(bytes) <= Memory::block_bytes(bytes + 1));
}

TEST_CASE("freed blocks are reused and counted", "[memory]") {
  Memory& memory = Place().memory;
  Address first;
  {
    auto a = memory.allocate(1000);
    first = (*a)->address();
    CHECK(memory.stats().live_bytes == Memory::block_bytes(1000));
  }
  CHECK(memory.stats().cached_bytes == Memory::block_bytes(1000));
  auto b = memory.allocate(1010);  // the same class
  CHECK((*b)->address() == first);
  CHECK((*b)->bytes() == 1010);
  MemoryStats stats = memory.stats();
  CHECK(stats.allocations == 2);
  CHECK(stats.cache_hits == 1);
  CHECK(stats.system_blocks == 1);
  CHECK(stats.cached_bytes == 0);
  for (int i = 0; i < 100; ++i) REQUIRE(memory.allocate(4 << 20).ok());
  stats = memory.stats();
  CHECK(stats.system_blocks == 2);
  CHECK(stats.peak_bytes == Memory::block_bytes(1010) + (4 << 20));
  memory.trim();
  CHECK(memory.stats().cached_bytes == 0);
  memory.reset_peak();
  CHECK(memory.stats().peak_bytes == Memory::block_bytes(1010));
}

TEST_CASE("sizes that nothing asks for any more make room for those in use", "[memory]") {
  auto [source, memory] = Place();
  constexpr int64_t kLarge = int64_t{200} << 20, kUsed = int64_t{5} << 20;
  {
    auto one = memory.allocate(kLarge), two = memory.allocate(kLarge + kLarge / 2);
    REQUIRE((one.ok() && two.ok()));
  }
  const int64_t kept = memory.stats().cached_bytes;
  CHECK(kept == memory.stats().peak_bytes);  // and not a block more
  for (int i = 0; i < 10; ++i) REQUIRE(memory.allocate(kUsed).ok());
  CHECK(memory.stats().system_blocks == 3);
  CHECK(memory.stats().cache_hits == 9);
  // The one of the two that was let go of first went; the other is still there.
  CHECK(source.blocks == 2);
  CHECK(memory.allocate(kLarge).ok());
  CHECK(memory.stats().system_blocks == 3);
}

TEST_CASE("a thread keeps some small blocks of a size, and takes them again without the lock", "[memory]") {
  CHECK(Memory::thread_blocks(64) == 256);  // as many as small results of a program may be
  CHECK(Memory::thread_blocks(512) == 32);
  constexpr int64_t kBytes = 4096;
  constexpr int kKept = Memory::thread_blocks(kBytes);
  CHECK(kKept == 8);
  auto [source, memory] = Place();
  std::vector<BufferRef> held;
  for (int i = 0; i < 12; ++i) held.push_back(*memory.allocate(kBytes));
  held.clear();
  for (int i = 0; i < 12; ++i) held.push_back(*memory.allocate(kBytes));
  MemoryStats stats = memory.stats();
  CHECK(stats.allocations == 24);
  CHECK(stats.cache_hits == 12);
  CHECK(stats.thread_hits == kKept);
  CHECK(stats.live_buffers == 12);
  CHECK(source.blocks == 12);
  // Another thread finds none of them, and what it keeps goes back when it ends.
  held.clear();
  std::thread([&memory] {
    for (int i = 0; i < 3; ++i) CHECK(memory.allocate(kBytes).ok());
    CHECK(memory.stats().thread_hits == kKept + 2);
  }).join();
  stats = memory.stats();
  CHECK(stats.allocations == 27);
  CHECK(stats.thread_hits == kKept + 2);
  CHECK(stats.live_buffers == 0);
  CHECK(stats.system_blocks == 12);
  // Large ones are everybody's.
  { auto large = memory.allocate(Memory::kThreadBytes + 1); }
  { auto large = memory.allocate(Memory::kThreadBytes + 1); }
  CHECK(memory.stats().thread_hits == kKept + 2);
  memory.trim();
  CHECK(source.blocks == 0);
  CHECK(memory.stats().cached_bytes == 0);
}

TEST_CASE("several blocks are taken at once and counted one by one", "[memory]") {
  const Place place;
  const std::vector<int64_t> bytes{64, 10, 100, 0, 1 << 20, 64};
  int64_t blocks = 0;
  for (int64_t b : bytes) blocks += Memory::block_bytes(b);
  for (int round = 0; round < 3; ++round) {
    std::vector<BufferRef> out(bytes.size());
    REQUIRE(place.memory.allocate(bytes, out).ok());
    for (size_t i = 0; i < out.size(); ++i) {
      CHECK(out[i]->bytes() == bytes[i]);
      CHECK(out[i]->use_count() == 1);
      for (size_t j = 0; j < i; ++j) CHECK(out[i]->address() != out[j]->address());
    }
    const MemoryStats s = place.memory.stats();
    CHECK(s.allocations == 6 * (round + 1));
    CHECK(s.thread_hits == 5 * round);
    CHECK(s.live_buffers == 6);
    CHECK(s.live_bytes == blocks);
    CHECK(s.peak_bytes == blocks);
  }
  CHECK(place.memory.stats().live_bytes == 0);
  place.memory.set_limit(1 << 20);
  std::vector<BufferRef> out(2);
  CHECK(absl::IsResourceExhausted(place.memory.allocate(std::vector<int64_t>{64, 1 << 21}, out)));
  out.clear();
  CHECK(place.memory.stats().live_buffers == 0);
}

TEST_CASE("what is live is known to the byte, and its peak where one thread allocates", "[memory]") {
  const Place place;
  constexpr int64_t kSmall = 1024, kLarge = 1 << 20;
  constexpr int kMany = 4 * Memory::kUntoldBytes / kSmall;
  std::vector<BufferRef> held;
  for (int round = 0; round < 3; ++round) {
    place.memory.reset_peak();
    for (int i = 0; i < kMany; ++i) {
      held.push_back(*place.memory.allocate(kSmall));
      CHECK(place.memory.stats().live_bytes == (i + 1) * kSmall);
    }
    held.clear();
    CHECK(place.memory.stats().live_bytes == 0);
    held.push_back(*place.memory.allocate(kLarge));
    CHECK(place.memory.stats().live_bytes == kLarge);
    CHECK(place.memory.stats().peak_bytes == std::max<int64_t>(kLarge, kMany * kSmall));
    held.push_back(*place.memory.allocate(kSmall));
    CHECK(place.memory.stats().peak_bytes == kLarge + kSmall);
    held.clear();
    CHECK(place.memory.stats().live_bytes == 0);
    CHECK(place.memory.stats().peak_bytes == kLarge + kSmall);
  }
  std::thread other([&] {
    for (int i = 0; i < 10; ++i) held.push_back(*place.memory.allocate(kSmall));
  });
  other.join();
  CHECK(place.memory.stats().live_bytes == 10 * kSmall);
  held.clear();
  CHECK(place.memory.stats().live_bytes == 0);
  CHECK(place.memory.stats().live_buffers == 0);
}

TEST_CASE("trim takes what other threads keep, at any moment", "[memory]") {
  auto [source, memory] = Place();
  std::atomic<bool> stop{false};
  std::atomic<int> waiting{0};
  std::vector<std::thread> threads;
  for (int t = 0; t < 3; ++t)
    threads.emplace_back([&, &memory = memory] {
      for (int i = 0; !stop; ++i) {
        BufferRef a = *memory.allocate(100), b = *memory.allocate(100 + i % 3000);
        std::memset(host_data(a), i, 100);
        std::memset(host_data(b), i, static_cast<size_t>(b->bytes()));
        if (static_cast<char*>(host_data(a))[99] != static_cast<char>(i)) std::abort();
      }
      ++waiting;
      while (stop) std::this_thread::yield();
    });
  for (int i = 0; i < 300; ++i) memory.trim();
  stop = true;
  while (waiting != 3) std::this_thread::yield();
  memory.trim();  // they are idle and still there
  CHECK(source.blocks == 0);
  CHECK(memory.stats().live_bytes == 0);
  CHECK(memory.stats().cached_bytes == 0);
  stop = false;
  for (std::thread& t : threads) t.join();
}

TEST_CASE("the memory limit is an error in words and leaves everything usable", "[memory]") {
  Memory& memory = Place().memory;
  memory.set_limit(1 << 20);
  { auto cached = memory.allocate(600 << 10); }
  // Cached memory makes room for live memory.
  auto big = memory.allocate(900 << 10);
  REQUIRE(big.ok());
  auto refused = memory.allocate(300 << 10);
  REQUIRE(refused.status().code() == absl::StatusCode::kResourceExhausted);
  CHECK(std::string(refused.status().message()).find("1048576") != std::string::npos);
  big->reset();
  CHECK(memory.allocate(300 << 10).ok());
  CHECK(memory.allocate(-1).status().code() == absl::StatusCode::kInvalidArgument);
  CHECK(memory.allocate(std::numeric_limits<int64_t>::max()).status().code() ==
        absl::StatusCode::kResourceExhausted);
  memory.set_limit(std::numeric_limits<int64_t>::max());
  CHECK(memory.allocate(0).ok());
  CHECK(memory.stats().live_bytes == 0);
}

TEST_CASE("a limit counts the blocks that threads keep", "[memory]") {
  auto [source, memory] = Place();
  memory.set_limit(100'000);
  {
    auto a = memory.allocate(40'000), b = memory.allocate(40'000);
    REQUIRE((a.ok() && b.ok()));
  }
  // They lie with this thread, and make room.
  CHECK(memory.stats().cached_bytes == 2 * Memory::block_bytes(40'000));
  auto large = memory.allocate(90'000);
  REQUIRE(large.ok());
  CHECK(memory.stats().cached_bytes == 0);
  CHECK(source.blocks == 1);
  // Less than is live: nothing is given out, and what ends is not kept.
  memory.set_limit(1000);
  CHECK(memory.allocate(10).status().code() == absl::StatusCode::kResourceExhausted);
  large->reset();
  CHECK(source.blocks == 0);
  auto small = memory.allocate(10);
  REQUIRE(small.ok());
  memory.set_limit(10);
  CHECK(memory.allocate(10).status().code() == absl::StatusCode::kResourceExhausted);
  small->reset();
  CHECK(source.blocks == 0);
  memory.set_limit(1000);
  CHECK(memory.allocate(10).ok());
}

TEST_CASE("memory that runs out is an error, and kept blocks are used up before", "[memory]") {
  auto [source, memory] = Place();
  { auto kept = memory.allocate(500); }
  source.empty = true;
  const auto refused = memory.allocate(5000);
  CHECK(refused.status().code() == absl::StatusCode::kResourceExhausted);
  CHECK(source.blocks == 0);
  CHECK(memory.stats().live_buffers == 0);
  source.empty = false;
  CHECK(memory.allocate(5000).ok());
}

TEST_CASE("a child of fork goes on with the blocks of its thread", "[memory]") {
  Memory& memory = Place().memory;
  std::atomic<bool> stop{false};
  std::thread busy([&] {
    while (!stop)
      if (!memory.allocate(100).ok()) std::abort();
  });
  { auto kept = memory.allocate(100); }
  for (int i = 0; i < 20; ++i)
    lamina::testing::check_in_child([&] {
      const int64_t hits = memory.stats().thread_hits;
      const bool ok =
          memory.allocate(100).ok() && memory.allocate(3000).ok() && memory.stats().thread_hits == hits + 1;
      memory.trim();
      return ok && memory.allocate(100).ok();
    });
  stop = true;
  busy.join();
}

TEST_CASE("buffers count their holders and foreign memory is released once", "[memory]") {
  Memory& memory = Place().memory;
  BufferRef a = *memory.allocate(8);
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
    BufferRef f =
        memory.adopt(Address(reinterpret_cast<uintptr_t>(foreign)), sizeof(foreign), [&] { ++released; });
    CHECK(host_data(f) == foreign);
    CHECK(f->is_foreign());
    CHECK_FALSE(f->may_reuse());
    BufferRef g = f;
    f.reset();
    CHECK(released == 0);
  }
  CHECK(released == 1);
  CHECK(memory.stats().live_buffers == 1);
}

TEST_CASE("threads allocate, share and free at the same time", "[memory]") {
  Memory& memory = Place().memory;
  BufferRef shared = *memory.allocate(64);
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t)
    threads.emplace_back([&, t] {
      for (int i = 0; i < 2000; ++i) {
        BufferRef copy = shared;
        BufferRef own = *memory.allocate(64 + (i * 37 + t) % 5000);
        std::memset(host_data(own), t, static_cast<size_t>(own->bytes()));
        const auto* bytes = static_cast<const unsigned char*>(host_data(own));
        if (bytes[0] != t || bytes[own->bytes() - 1] != t) std::abort();
      }
    });
  for (auto& t : threads) t.join();
  CHECK(shared->use_count() == 1);
  CHECK(memory.stats().live_buffers == 1);
  CHECK(memory.stats().allocations == 8001);
}
