#include "hlo/once.h"

#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <catch2/catch.hpp>
#include <chrono>
#include <stdexcept>
#include <thread>
#include <vector>

using lamina::hlo::Once;

TEST_CASE("an object is made once, by one of the threads that want it", "[threads]") {
  static constinit Once<int> once;
  std::atomic<int> made{0};
  std::vector<std::thread> threads;
  std::atomic<int> sum{0};
  for (int i = 0; i < 8; ++i)
    threads.emplace_back([&] {
      sum += once.get([&] {
        std::this_thread::sleep_for(std::chrono::milliseconds(5));
        return new int(++made);
      });
    });
  for (std::thread& t : threads) t.join();
  CHECK(made == 1);
  CHECK(sum == 8);
}

TEST_CASE("what could not be made is made by the next caller") {
  static constinit Once<int> once;
  CHECK_THROWS_AS(once.get([]() -> int* { throw std::runtime_error("no"); }), std::runtime_error);
  CHECK(once.get([] { return new int(7); }) == 7);
  CHECK(once.get([] { return new int(8); }) == 7);
}

TEST_CASE("a fork waits for what another thread is making", "[threads]") {
  static constinit Once<int> once;
  std::atomic<bool> begun{false};
  std::thread maker([&] {
    once.get([&] {
      begun = true;
      std::this_thread::sleep_for(std::chrono::milliseconds(50));
      return new int(3);
    });
  });
  while (!begun) std::this_thread::yield();
  const pid_t child = fork();
  if (child == 0) {
    alarm(20);  // a child that waits for the thread it does not have
    _exit(once.get([] { return new int(4); }) == 3 ? 0 : 1);
  }
  int status = 0;
  REQUIRE(waitpid(child, &status, 0) == child);
  CHECK(status == 0);
  maker.join();
}
