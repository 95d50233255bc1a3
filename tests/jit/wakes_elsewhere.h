// Where threads wake: not on the processor of who wakes them.
#ifndef LAMINA_TESTS_JIT_WAKES_ELSEWHERE_H_
#define LAMINA_TESTS_JIT_WAKES_ELSEWHERE_H_

#include <sched.h>

#include <atomic>
#include <catch2/catch.hpp>
#include <chrono>
#include <thread>

namespace lamina::testing {

// One sleep and its end.
struct Waking {
  cpu_set_t allowed;
  std::atomic<int> cpu{-1};
  std::atomic<bool> as_allowed{true};

  // Of the thread that woke.
  void tell() {
    cpu_set_t now;
    as_allowed = sched_getaffinity(0, sizeof(now), &now) == 0 && CPU_EQUAL(&now, &allowed);
    cpu = sched_getcpu();
  }
  // Of its waker, which keeps its processor busy, at most so long.
  void wait(std::chrono::milliseconds most) const {
    const auto end = std::chrono::steady_clock::now() + most;
    while (cpu < 0 && std::chrono::steady_clock::now() < end) std::this_thread::yield();
  }
};

// `wake(waking)` has a thread that slept call waking.tell(), and waits for that. In most rounds that is on
// another processor, in all with the processors that the thread had before.
template <typename Wake>
void check_wakes_elsewhere(Wake wake) {
  constexpr int kRounds = 20;
  Waking waking;
  REQUIRE(sched_getaffinity(0, sizeof(waking.allowed), &waking.allowed) == 0);
  int elsewhere = 0;
  for (int round = 0; round < kRounds; ++round) {
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
    waking.cpu = -1;
    const int here = sched_getcpu();
    wake(waking);
    CHECK(waking.as_allowed);
    elsewhere += waking.cpu >= 0 && waking.cpu != here;
  }
  if (CPU_COUNT(&waking.allowed) > 1) CHECK(elsewhere >= kRounds / 2);
}

}  // namespace lamina::testing

#endif  // LAMINA_TESTS_JIT_WAKES_ELSEWHERE_H_
