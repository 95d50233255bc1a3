#include "jit/cpu/thread_pool.h"

#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <catch2/catch.hpp>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <set>
#include <thread>
#include <vector>

#include "jit/client/cancel.h"
#include "jit/client/client.h"
#include "jit/client/threads.h"
#include "tests/jit/fork_child.h"
#include "tests/jit/wakes_elsewhere.h"

using namespace lamina::jit;

TEST_CASE("what a task throws goes on at the caller, and the pool works on", "[threads]") {
  ThreadPool pool(3);
  for (int64_t bad : {0, 40, 99}) {
    CHECK_THROWS_AS(pool.parallel_for(100,
                                      [&](int64_t i) {
                                        if (i == bad) throw std::bad_alloc();
                                      }),
                    std::bad_alloc);
    std::atomic<int64_t> sum{0};
    pool.parallel_for(100, [&](int64_t i) { sum += i; });
    CHECK(sum == 4950);
    CHECK(pool.usable_threads() == 3);
  }
}

TEST_CASE("a thread that slept wakes on another processor than its waker's, and may run on all again",
          "[threads]") {
  ThreadPool pool(2);
  lamina::testing::check_wakes_elsewhere([&](lamina::testing::Waking& waking) {
    const std::thread::id caller = std::this_thread::get_id();
    pool.parallel_for(2, [&](int64_t i) {
      if (std::this_thread::get_id() != caller)
        waking.tell();
      else if (i == 0)
        waking.wait(std::chrono::milliseconds(100));
    });
  });
}

TEST_CASE("a worker that wakes has its share of a processor on which another thread spins", "[threads]") {
  using Clock = std::chrono::steady_clock;
  const auto busy_for = [](std::chrono::microseconds time) {
    for (const auto end = Clock::now() + time; Clock::now() < end;) {
    }
  };
  cpu_set_t allowed;
  REQUIRE(sched_getaffinity(0, sizeof(allowed), &allowed) == 0);
  if (CPU_COUNT(&allowed) < 2) return;
  ThreadPool pool(2);
  pool.parallel_for(2, [&](int64_t) { busy_for(std::chrono::milliseconds(1)); });
  // The caller on one processor, the other thread on another one, and the worker, of all, there as well.
  cpu_set_t here, there;
  CPU_ZERO(&here);
  CPU_ZERO(&there);
  int cpu = 0;
  while (!CPU_ISSET(cpu, &allowed)) ++cpu;
  CPU_SET(cpu, &here);
  while (!CPU_ISSET(++cpu, &allowed)) {
  }
  CPU_SET(cpu, &there);
  REQUIRE(sched_setaffinity(0, sizeof(here), &here) == 0);
  std::atomic<bool> ended{false};
  std::thread spins([&] {
    sched_setaffinity(0, sizeof(there), &there);
    while (!ended) {
    }
  });
  constexpr int kRounds = 400;
  const std::thread::id caller = std::this_thread::get_id();
  std::atomic<int> shared{0};
  for (int round = 0; round < kRounds; ++round) {
    busy_for(std::chrono::microseconds(150));  // the worker falls asleep
    pool.parallel_for(2, [&](int64_t) {
      shared += std::this_thread::get_id() != caller;
      busy_for(std::chrono::microseconds(300));  // far less than a turn of the thread that spins
    });
  }
  ended = true;
  spins.join();
  CHECK(sched_setaffinity(0, sizeof(allowed), &allowed) == 0);
  CHECK(shared >= kRounds / 5);
}

TEST_CASE("no thread exists before the first job that can use one", "[threads]") {
  ThreadPool pool(3);
  CHECK(pool.started_threads() == 0);
  pool.parallel_for(1, [](int64_t) {});
  pool.parallel_for(0, [](int64_t) {});
  CHECK(pool.started_threads() == 0);
  pool.parallel_for(100, [](int64_t) {});
  CHECK(pool.started_threads() == 2);
}

namespace {

// Those that begin the shares of a job of n tasks on `threads` threads, where each waits for all others.
std::vector<std::thread::id> who_begins(ThreadPool& pool, int64_t n, int threads) {
  std::vector<std::thread::id> who(static_cast<size_t>(threads));
  std::atomic<int> arrived{0};
  pool.parallel_for(n, [&](int64_t i) {
    for (int t = 0; t < threads; ++t) {
      if (i != n * t / threads) continue;
      who[static_cast<size_t>(t)] = std::this_thread::get_id();
      ++arrived;
      while (arrived < threads) std::this_thread::yield();
    }
  });
  return who;
}

}  // namespace

TEST_CASE("a pool ends whatever its workers have come to", "[threads]") {
  std::atomic<int64_t> sum{0};
  const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(2);
  int i = 0;
  for (; i < 20'000 && std::chrono::steady_clock::now() < end; ++i) {
    ThreadPool pool(2);
    if (i % 2 == 0) who_begins(pool, 2, 2);  // the worker is awake
    pool.parallel_for(2, [&](int64_t) { ++sum; });
    for (int wait = i % 64; wait > 0; --wait) ++sum;
  }
  CHECK(sum >= 2 * i);
}

TEST_CASE("every task runs once, and each share is begun by a thread of its own", "[threads]") {
  for (int size : {1, 2, 3, 5}) {
    ThreadPool pool(size);
    for (int64_t n : {1, 2, 3, 4, 7, 64, 1000}) {
      std::vector<int> count(static_cast<size_t>(n), 0);
      for (int repeat = 0; repeat < 20; ++repeat)
        pool.parallel_for(n, [&](int64_t i) { ++count[static_cast<size_t>(i)]; });
      const int threads = static_cast<int>(std::min<int64_t>(size, n));
      for (int64_t i = 0; i < n; ++i) REQUIRE(count[static_cast<size_t>(i)] == 20);
      const std::vector<std::thread::id> who = who_begins(pool, n, threads);
      REQUIRE(std::set<std::thread::id>(who.begin(), who.end()).size() == static_cast<size_t>(threads));
      REQUIRE(who[0] == std::this_thread::get_id());
    }
  }
}

TEST_CASE("what a thread is kept from by a task that takes long, the others do", "[threads]") {
  for (int size : {2, 3, 4}) {
    ThreadPool pool(size);
    for (int64_t slow : {0, 3, 8, 11}) {
      std::atomic<int> others{0};
      pool.parallel_for(12, [&](int64_t i) {
        if (i != slow)
          ++others;
        else
          while (others < 11) std::this_thread::yield();
      });
      CHECK(others == 11);
    }
  }
}

TEST_CASE("work is cut into as many tasks for each thread, and few of small ones", "[threads]") {
  constexpr int64_t kMany = 1'000'000, kEach = ThreadPool::kWorkPerThread;
  CHECK(ThreadPool::tasks_for(1, 100 * kEach, kMany) == 1);
  CHECK(ThreadPool::tasks_for(3, 0, kMany) == 3);
  CHECK(ThreadPool::tasks_for(3, 6 * kEach, kMany) == 6);
  CHECK(ThreadPool::tasks_for(3, 1000 * kEach, kMany) == 3 * ThreadPool::kMostTasks);
  CHECK(ThreadPool::tasks_for(3, 1000 * kEach, 8) == 6);
  CHECK(ThreadPool::tasks_for(3, 1000 * kEach, 2) == 2);
  CHECK(ThreadPool::tasks_for(3, 1000 * kEach, 0) == 1);
}

TEST_CASE("of many short jobs in a row each runs its tasks once, whoever begins a share first", "[threads]") {
  ThreadPool pool(3);
  std::vector<int> count(3);
  for (int repeat = 1; repeat <= 20'000; ++repeat) {
    pool.parallel_for(2 + repeat % 2, [&](int64_t i) { ++count[static_cast<size_t>(i)]; });
    REQUIRE(count == std::vector<int>{repeat, repeat, repeat / 2 + repeat % 2});
  }
}

TEST_CASE("jobs that are not worth waking a worker run alone until they have come to so much", "[threads]") {
  ThreadPool pool(2);
  constexpr int64_t kSome = ThreadPool::kWakingWork / 4;
  CHECK(pool.threads_now(ThreadPool::kLeastParallelWork - 1) == 1);
  CHECK(pool.threads_now(ThreadPool::kWakingWork) == 2);
  CHECK(pool.threads_for(kSome) == 2);
  for (int round = 0; round < 2; ++round)  // nothing runs, so no worker is ever awake
    for (int i = 1; i <= 4; ++i) CHECK(pool.threads_now(kSome) == (i == 4 ? 2 : 1));
  pool.set_least_parallel_work(0);
  CHECK(pool.threads_now(1) == 2);
}

TEST_CASE("jobs inside tasks run inline", "[threads]") {
  ThreadPool pool(2);
  std::atomic<int> total{0};
  std::atomic<bool> elsewhere{false};
  pool.parallel_for(8, [&](int64_t) {
    const auto self = std::this_thread::get_id();
    if (pool.usable_threads() != 1) elsewhere = true;
    pool.parallel_for(10, [&](int64_t) {
      if (std::this_thread::get_id() != self) elsewhere = true;
      ++total;
    });
  });
  CHECK(total == 80);
  CHECK_FALSE(elsewhere);
  CHECK(pool.usable_threads() == 2);
}

TEST_CASE("thread limits are scoped, nest, and are read when the job starts", "[threads]") {
  ThreadPool pool(4);
  const auto threads_used = [&] {
    const int expected = std::min(pool.usable_threads(), 16);
    const std::vector<std::thread::id> who = who_begins(pool, 16, expected);
    return static_cast<int>(std::set<std::thread::id>(who.begin(), who.end()).size());
  };
  CHECK(threads_used() == 4);
  {
    ScopedThreadLimit three(3);
    CHECK(threads_used() == 3);
    {
      ScopedThreadLimit nine(9);
      CHECK(threads_used() == 3);
      ScopedThreadLimit none(0);
      CHECK(threads_used() == 1);
    }
    CHECK(threads_used() == 3);
    std::thread([] { CHECK(current_thread_limit() > 1000); }).join();
  }
  CHECK(threads_used() == 4);
}

TEST_CASE("several threads may use one pool at once", "[threads]") {
  ThreadPool pool(3);
  std::vector<std::thread> callers;
  std::atomic<int64_t> sum{0};
  for (int t = 0; t < 4; ++t)
    callers.emplace_back([&] {
      for (int i = 0; i < 300; ++i) pool.parallel_for(20, [&](int64_t task) { sum += task; });
    });
  for (auto& c : callers) c.join();
  CHECK(sum == 4 * 300 * 190);
}

TEST_CASE("a child of fork has a working pool and memory, a hundred times over", "[threads]") {
  auto& pool = *new ThreadPool(2);  // as in a client: never destroyed
  Memory& memory = host_device().memory();
  std::atomic<int64_t> warm{0};
  pool.parallel_for(10, [&](int64_t) { ++warm; });
  std::atomic<bool> stop{false};
  // Keeps pool and memory busy while the children are made.
  std::thread busy([&] {
    while (!stop) {
      pool.parallel_for(4, [&](int64_t) {
        if (!memory.allocate(100).ok()) std::abort();
      });
    }
  });
  for (int i = 0; i < 100; ++i)
    lamina::testing::check_in_child([&] {
      std::atomic<int64_t> sum{0};
      if (pool.started_threads() != 0) return false;
      pool.parallel_for(10, [&](int64_t t) { sum += t; });
      return sum == 45 && pool.started_threads() == 1 && memory.allocate(5000).ok();
    });
  stop = true;
  busy.join();
}

TEST_CASE("the CPU quota of a control group is found in both versions and in the groups above", "[threads]") {
  namespace fs = std::filesystem;
  const fs::path root = fs::temp_directory_path() / ("lamina_cgroup_" + std::to_string(getpid()));
  const auto write = [&](const std::string& name, const std::string& text) {
    fs::create_directories((root / name).parent_path());
    std::ofstream(root / name) << text;
  };
  CHECK(cgroup_cpu_quota(root.string()) == 0);
  write("proc/self/cgroup", "0::/a/b\n");
  CHECK(cgroup_cpu_quota(root.string()) == 0);
  write("sys/fs/cgroup/a/b/cpu.max", "max 100000\n");
  CHECK(cgroup_cpu_quota(root.string()) == 0);
  write("sys/fs/cgroup/a/b/cpu.max", "250000 100000\n");
  CHECK(cgroup_cpu_quota(root.string()) == 3);
  write("sys/fs/cgroup/a/cpu.max", "150000 100000\n");
  CHECK(cgroup_cpu_quota(root.string()) == 2);
  write("sys/fs/cgroup/cpu.max", "1000 100000\n");
  CHECK(cgroup_cpu_quota(root.string()) == 1);
  CHECK(available_cpus(root.string()) == 1);
  write("sys/fs/cgroup/cpu.max", "nonsense\n");
  CHECK(cgroup_cpu_quota(root.string()) == 2);
  write("proc/self/cgroup", "5:memory:/x\n3:cpu,cpuacct:/x\nbroken\n");
  CHECK(cgroup_cpu_quota(root.string()) == 0);
  write("sys/fs/cgroup/cpu,cpuacct/x/cpu.cfs_quota_us", "400000\n");
  write("sys/fs/cgroup/cpu,cpuacct/x/cpu.cfs_period_us", "100000\n");
  CHECK(cgroup_cpu_quota(root.string()) == 4);
  write("sys/fs/cgroup/cpu,cpuacct/x/cpu.cfs_quota_us", "-1\n");
  CHECK(cgroup_cpu_quota(root.string()) == 0);
  fs::remove_all(root);
}

TEST_CASE("an interruptible run returns its status, polls, and stops when polled true", "[threads]") {
  CancelFlag untouched;
  ScopedThreadLimit one(1);
  const absl::Status plain = run_interruptible(
      untouched, [] { return false; },
      [] { return current_thread_limit() == 1 ? absl::InternalError("mine") : absl::OkStatus(); });
  CHECK(plain.message() == "mine");
  const auto caller = std::this_thread::get_id();
  CHECK_THROWS_AS(run_interruptible(
                      untouched, [] { return false; },
                      [&]() -> absl::Status {
                        if (std::this_thread::get_id() != caller) throw std::bad_alloc();
                        return absl::OkStatus();
                      }),
                  std::bad_alloc);

  CancelFlag cancel;
  int polls = 0;
  const auto begin = std::chrono::steady_clock::now();
  const absl::Status stopped = run_interruptible(
      cancel,
      [&] {
        CHECK(std::this_thread::get_id() == caller);
        return ++polls == 3;
      },
      [&] {
        while (!cancel.requested()) std::this_thread::sleep_for(std::chrono::milliseconds(1));
        return absl::OkStatus();
      });
  CHECK(stopped.code() == absl::StatusCode::kCancelled);
  CHECK(polls == 3);
  CHECK(*cancel.address() != 0);
  CHECK(std::chrono::steady_clock::now() - begin < std::chrono::seconds(5));
}
