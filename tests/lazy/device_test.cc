// The C++ API on several devices: where values are made, what may meet, what waits.
#include <catch2/catch.hpp>

#include "api_testing.h"
#include "lamina/lamina.h"

namespace {

using namespace lamina;
using namespace lamina::testing;

TEST_CASE("tensors are put on devices, and what is made of them is made there", "[api][devices]") {
  CHECK(devices("fake") == std::vector<std::string>{"fake:0", "fake:1"});
  const Tensor w = array({1.0f, 2.0f, 3.0f}).on("fake:1");
  CHECK(w.device() == "fake:1");
  const Tensor y = exp(w * 0) + w;
  CHECK(y.device() == "fake:1");  // before it is computed, and afterwards
  CHECK(floats(y) == Floats{2, 3, 4});
  CHECK(y.device() == "fake:1");
  CHECK(y.on("cpu").device() == "cpu:0");
  CHECK(floats(y.on("cpu") + arange(3)) == Floats{2, 4, 6});
  CHECK_THROWS_AS(w.on("moon"), Error);
  const Tensor slope = grad([&](const Tensor& x) { return sum(x * x * w); })(array({1.0f, 1.0f, 2.0f}));
  CHECK(slope.device() == "fake:1");
  CHECK(floats(slope) == Floats{2, 4, 12});
}

TEST_CASE("tensors on different devices do not meet", "[api][devices]") {
  const Tensor a = arange(3).on("fake:0"), b = arange(3).on("fake:1");
  CHECK_THROWS_WITH(
      a + b, Catch::Contains("fake:0") && Catch::Contains("fake:1") && Catch::Contains("device_test.cc"));
  auto product = jit([](const Tensor& x, const Tensor& y) { return x * y; });
  CHECK_THROWS_WITH(product(a, b), Catch::Contains("different devices"));
  CHECK(product(a, b.on("fake:0")).device() == "fake:0");
  CHECK(product(a.on("fake:1"), b).device() == "fake:1");
}

TEST_CASE("default devices nest", "[api][devices]") {
  const std::string usual = default_device();
  Tensor inner, outer;
  {
    const DefaultDevice first("fake:0");
    outer = arange(4) * 2;
    {
      const DefaultDevice second("fake:1");
      CHECK(default_device() == "fake:1");
      inner = arange(4) * 3;
    }
    CHECK(default_device() == "fake:0");
  }
  CHECK(default_device() == usual);
  CHECK(inner.device() == "fake:1");
  CHECK(outer.device() == "fake:0");
  CHECK(floats(inner + outer) == Floats{0, 5, 10, 15});
  CHECK_THROWS_AS(DefaultDevice("moon"), Error);
}

TEST_CASE("a value on a queue is waited for", "[api][devices]") {
  Tensor x = ones({16, 16}).on("fake:0");
  for (int i = 0; i < 10; ++i) x = matmul(x, x) / 16;
  CHECK(!x.is_ready());
  CHECK(x.eval().is_ready());
  CHECK(floats(x) == Floats(256, 1.0f));
}

TEST_CASE("the cache says where an entry runs", "[api][devices]") {
  cache::clear();
  auto f = jit([](const Tensor& x) { return x * 2 + 1; });
  f(arange(5).on("cpu")).eval();
  f(arange(5).on("fake:0")).eval();
  f(arange(5).on("fake:0")).eval();
  std::vector<std::string> seen;
  std::string reason;
  for (const cache::Entry& e : cache::entries())
    if (e.kind == "jit") {
      seen.push_back(e.device);
      if (e.device == "fake:0") reason = e.reason;
    }
  CHECK(seen == std::vector<std::string>{"fake:0", "cpu:0"});
  CHECK_THAT(reason, Catch::StartsWith("runs on fake:0, entry "));
}

}  // namespace
