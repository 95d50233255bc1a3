// Transforms while other threads compute, and children of a fork.
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <catch2/catch.hpp>
#include <thread>

#include "api_testing.h"
#include "lamina/lamina.h"

namespace {

using namespace lamina;
using namespace lamina::testing;

void compute_elsewhere() {
  std::thread([] { (void)floats(ones({4}) + ones({4})); }).join();
}

}  // namespace

TEST_CASE("a gradient is whole while another thread computes", "[api][threads]") {
  const auto f = [](const Tensor& x) {
    const Tensor y = x * x;
    compute_elsewhere();
    return sum(y * y);
  };
  CHECK(floats(grad(f)(ones({3}))) == Floats{4, 4, 4});
  CHECK(floats(grad([&](const Tensor& x) { return sum(grad(f)(x)); })(ones({3}))) == Floats{12, 12, 12});
}

TEST_CASE("a gradient goes through another thread", "[api][threads]") {
  const auto f = [](const Tensor& x) {
    Tensor y;
    std::thread([&] { y = x * x; }).join();
    return sum(y * x);
  };
  CHECK(floats(grad(f)(ones({3}))) == Floats{3, 3, 3});
}

TEST_CASE("a child of fork records and computes while a thread of its parent did", "[api][threads]") {
  std::atomic<bool> stop{false};
  std::thread busy([&] {
    for (int i = 1; !stop; ++i) (void)floats(sin(ones({i % 50 + 1})) * 2);
  });
  for (int i = 0; i < 20; ++i) {
    const pid_t child = fork();
    REQUIRE(child >= 0);
    if (child == 0) {
      alarm(20);
      const auto cube = [](const Tensor& x) { return sum(x * x * x); };
      _exit(floats(jit(grad(cube))(ones({i + 60}))) == Floats(i + 60, 3.0f) ? 0 : 1);
    }
    int status = -1;
    REQUIRE(waitpid(child, &status, 0) == child);
    CHECK(status == 0);
  }
  stop = true;
  busy.join();
}
