// Threads that compile at the same time: what one compiles, others neither compile again nor wait for without
// need.
#include <dlfcn.h>

#include <atomic>
#include <catch2/catch.hpp>
#include <chrono>
#include <memory>
#include <thread>

#include "blocking_generator.h"
#include "hlo/builder.h"
#include "jit/cpu/client.h"
#include "jit/cpu/compile_queue.h"
#include "jit/cpu/kernel_store.h"
#include "jit/program/specialization_cache.h"
#include "tests/build_paths.h"
#include "tests/jit/wakes_elsewhere.h"

using namespace lamina;
using namespace lamina::jit;

namespace {

// x + 1 + ... + 1, with `terms` ones.
hlo::ComputationPtr program_of(int terms) {
  hlo::Builder b;
  const hlo::Value x = hlo::make_parameter(*hlo::array_type(hlo::DType::kF32, hlo::Dims{8}));
  hlo::Value y = x;
  for (int i = 0; i < terms; ++i) y = b.make(hlo::Op::add, {{y, x}});
  return *hlo::Computation::make({{x}}, {{y}});
}

}  // namespace

TEST_CASE("a program that two threads ask for at once is compiled once", "[threads]") {
  SpecializationCache cache;
  const std::vector<uint64_t> key{1, 2, 3};
  const auto origin = [] { return SpecializationCache::Origin{"jit", "f", "here"}; };
  std::atomic<int> compiles{0}, asked{0};
  std::vector<SpecializationPtr> got(4);
  std::vector<std::thread> threads;
  for (size_t i = 0; i < got.size(); ++i)
    threads.emplace_back([&, i] {
      ++asked;
      got[i] = *cache.get(
          host_device(), key,
          [&]() -> absl::StatusOr<hlo::ComputationPtr> {
            ++compiles;
            while (asked < 4) std::this_thread::yield();
            std::this_thread::sleep_for(std::chrono::milliseconds(50));  // the others come to wait
            return program_of(1);
          },
          origin);
    });
  for (std::thread& t : threads) t.join();
  CHECK(compiles == 1);
  for (const SpecializationPtr& entry : got) CHECK(entry == got[0]);
  CHECK(cache.stats().misses == 1);
  CHECK(cache.stats().hits == 3);
}

TEST_CASE("whoever waits for a compile that fails compiles itself", "[threads]") {
  SpecializationCache cache;
  const auto origin = [] { return SpecializationCache::Origin{"jit", "f", "here"}; };
  std::atomic<bool> under_way{false};
  bool failed = false;  // Catch2 counts on one thread
  std::thread first([&] {
    const auto got = cache.get(
        host_device(), {7},
        [&]() -> absl::StatusOr<hlo::ComputationPtr> {
          under_way = true;
          std::this_thread::sleep_for(std::chrono::milliseconds(50));
          return absl::InternalError("not today");
        },
        origin);
    failed = !got.ok();
  });
  while (!under_way) std::this_thread::yield();
  bool waited = false;
  const auto second = cache.get(
      host_device(), {7}, [] { return absl::StatusOr<hlo::ComputationPtr>(program_of(2)); }, origin,
      [&] { waited = true; });
  first.join();
  CHECK(failed);
  CHECK(second.ok());
  CHECK(waited);
}

TEST_CASE("a thread that holds the graph lock does not wait for a compile", "[threads]") {
  SpecializationCache cache;
  const auto origin = [] { return SpecializationCache::Origin{"jit", "f", "here"}; };
  std::atomic<bool> under_way{false}, may_end{false};
  bool compiled = false;
  std::thread first([&] {
    const auto got = cache.get(
        host_device(), {7},
        [&]() -> absl::StatusOr<hlo::ComputationPtr> {
          under_way = true;
          while (!may_end) std::this_thread::yield();
          return program_of(2);
        },
        origin);
    compiled = got.ok();
  });
  while (!under_way) std::this_thread::yield();
  {
    const hlo::GraphLock lock;
    CHECK(
        cache
            .get(
                host_device(), {7}, [] { return absl::StatusOr<hlo::ComputationPtr>(program_of(2)); }, origin)
            .ok());
  }
  may_end = true;
  first.join();
  CHECK(compiled);
}

namespace {

// A store whose generator compiles nothing and waits at its gate.
struct Gated {
  KernelStore store;
  BlockingGenerator* gate = nullptr;

  Gated() {
    void* const library = dlopen(kBlockingGenerator, RTLD_NOW);
    REQUIRE(library);
    const auto get = reinterpret_cast<BlockingGenerator* (*)()>(dlsym(library, "blocking_generator"));
    REQUIRE(get);
    gate = get();
    gate->calls = 0;
    gate->may_end = false;
    CodeGeneratorOptions options;
    options.library_path = kBlockingGenerator;
    store.set_generator_options(options);
  }
  std::shared_ptr<Kernel> kernel(uint32_t number) {
    LoopKernel k;
    k.parallel_rank = 1;
    k.num_args = number;
    return store.get(k, {});
  }
};

constexpr int64_t kMuch = 1'000'000'000;  // element operations: worth any compile

}  // namespace

TEST_CASE("nobody waits for a compile: the most urgent kernel is compiled aside", "[threads]") {
  Gated gated;
  KernelStore& store = gated.store;
  const std::shared_ptr<Kernel> first = gated.kernel(1), little = gated.kernel(2), much = gated.kernel(3);
  CHECK(store.tier_for(*gated.kernel(4), 1).code == nullptr);
  CHECK(store.is_settled());  // one short run is worth nothing
  CHECK(store.tier_for(*first, kMuch).code == nullptr);
  while (gated.gate->calls == 0) std::this_thread::yield();
  // While it is compiled, others run and wait; so does what runs again.
  for (int i = 0; i < 3; ++i) CHECK(store.tier_for(*first, kMuch).code == nullptr);
  CHECK(store.tier_for(*little, kMuch / 10).code == nullptr);
  CHECK(store.tier_for(*much, kMuch).code == nullptr);
  CHECK(much->urgency() > little->urgency());
  CHECK(store.stats().pending == 3);
  CHECK(gated.gate->calls == 1);
  gated.gate->may_end = true;
  while (!store.is_settled()) std::this_thread::yield();
  CHECK(gated.gate->calls == 3);
  CHECK(store.unavailable() != "");
  CHECK(store.stats().interpreted_runs == 7);
}

TEST_CASE("kernels are looked up and run while another thread compiles", "[threads]") {
  Gated gated;
  KernelStore& store = gated.store;
  BlockingGenerator& gate = *gated.gate;
  const std::shared_ptr<Kernel> kernel = gated.kernel(1);
  store.set_eager(true);
  bool interpreted = false;
  std::thread compiles([&] {
    interpreted = store.tier_for(*kernel, 1).code == nullptr;  // this generator can compile nothing
  });
  while (gate.calls == 0) std::this_thread::yield();
  store.set_eager(false);
  CHECK(gated.kernel(1) == kernel);
  CHECK(store.tier_for(*gated.kernel(2), 1).code == nullptr);
  CHECK(store.tier_for(*kernel, 1).code == nullptr);
  CHECK(store.stats().kernels == 2);
  CHECK(store.stats().interpreted_runs == 2);
  gate.may_end = true;
  compiles.join();
  CHECK(interpreted);
  // Refused once, it is not tried again.
  store.set_eager(true);
  CHECK(store.tier_for(*kernel, 1).code == nullptr);
  CHECK(gate.calls == 1);
  CHECK(store.unavailable() != "");
}

TEST_CASE("the thread that compiles wakes on another processor than that of the thread that asks",
          "[threads]") {
  struct Served {
    CompileQueue* queue = nullptr;
    testing::Waking* waking = nullptr;
  } served;
  CompileQueue queue([&](Kernel& kernel) {
    served.queue->settle(kernel);
    served.waking->tell();
  });
  served.queue = &queue;
  testing::check_wakes_elsewhere([&](testing::Waking& waking) {
    served.waking = &waking;
    const auto kernel = std::make_shared<Kernel>(LoopKernel{}, Schedule{});
    REQUIRE(queue.add(kernel));
    waking.wait(std::chrono::seconds(5));
  });
}
