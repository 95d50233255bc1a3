// Checks in traced programs.
#include <catch2/catch.hpp>

#include "api_testing.h"
#include "lamina/lamina.h"

namespace {

using namespace lamina;
using namespace lamina::testing;

Tensor root(const Tensor& x) {
  check(x >= 0, "the root of {}", {x});
  return sqrt(x);
}

TEST_CASE("a check throws where it does not hold, under every transform", "[api][checks]") {
  CHECK(root(Tensor(4.0)).item() == 2);
  CHECK(jit(root)(Tensor(4.0)).item() == 2);
  const Tensor bad(-4.0), rows = array({1.f, 4.f, -9.f});
  for (const std::string& message : {error_of([&] { root(bad); }, ErrorKind::kValue),
                                     error_of([&] { jit(root)(bad).eval(); }, ErrorKind::kValue),
                                     error_of([&] { grad(root)(bad); }, ErrorKind::kValue),
                                     error_of([&] { vmap(root)(rows); }, ErrorKind::kValue)}) {
    CHECK(contains(message, "the root of -"));
    CHECK(contains(message, "checks_test.cc:13"));
  }
  CHECK(contains(error_of([&] { check(rows > 0, "all"); }, ErrorKind::kType),
                 "check takes a scalar, not bool[3]"));
  CHECK(contains(error_of([&] { check(Tensor(true), "{}"); }, ErrorKind::kValue),
                 "check: '{}' has 1 places for 0"));
}

TEST_CASE("checkify tells the first failure beside the result", "[api][checks]") {
  const auto checked = checkify(root);
  const auto [fine, two] = checked(Tensor(4.0));
  CHECK(two.item() == 2);
  CHECK(!fine.message());
  fine.raise();
  for (const auto& [error, value] : {checked(Tensor(-4.0)), jit(checkify(root))(Tensor(-4.0))}) {
    CHECK(contains(error.message().value_or(""), "the root of -4"));
    CHECK(contains(error.message().value_or(""), "checks_test.cc:13"));
    CHECK(contains(error_of([&] { error.raise(); }, ErrorKind::kValue), "the root of -4"));
    CHECK(value.size() == 1);
  }
  const auto [lanes, values] = vmap(checkify(root))(array({1.f, -4.f, 9.f, -16.f}));
  const std::string text = lanes.message().value_or("");
  CHECK(contains(text, "at mapped index 1: the root of -4"));
  CHECK(contains(text, "at mapped index 3: the root of -16"));
  CHECK(floats(values)[2] == 3);
  // In loops, branches and derivatives.
  auto loop = [](const Tensor& x) {
    return fori_loop(
        0, 5,
        [](const Tensor& i, const Tensor& c) {
          check(i < 3, "step {}", {i});
          return c + 1;
        },
        x);
  };
  CHECK(contains(checkify(loop)(Tensor(0.0)).first.message().value_or(""), "step 3"));
  auto slope = [](const Tensor& x) { return grad(root)(x); };
  CHECK(contains(checkify(slope)(Tensor(-1.0)).first.message().value_or(""), "the root of -1"));
  CHECK(checkify(slope)(Tensor(4.0)).second.item() == Approx(0.25));
}

TEST_CASE("checkify looks for NaN and division by zero where it is asked to", "[api][checks]") {
  auto f = [](const Tensor& x) { return log(x) / x; };
  CHECK(!checkify(f)(Tensor(-1.0)).first.message());
  CHECK(contains(checkify(f, {.nan = true})(Tensor(-1.0)).first.message().value_or(""), "a NaN from log"));
  CHECK(contains(checkify(f, {.division = true})(Tensor(0.0)).first.message().value_or(""),
                 "a division by zero in divide"));
  CHECK(contains(checkify(f, {.nan = true})(Tensor(-1.0)).first.message().value_or(""), "checks_test.cc:"));
}

TEST_CASE("checkify looks at indices where it is asked to", "[api][checks]") {
  const auto get = [](const Tensor& x, const Tensor& i) { return x[i]; };
  const auto checked = checkify(get, {.index = true});
  const Tensor x = arange(5) * 1.0;
  const auto message = [](const auto& out) { return out.first.message().value_or(""); };
  for (const int i : {0, 4, -5}) CHECK(message(checked(x, Tensor(i))).empty());
  const std::string high = message(checked(x, Tensor(7)));
  CHECK(contains(high, "index 7 is out of bounds for axis 0 with size 5"));
  CHECK(contains(high, "checks_test.cc:"));
  CHECK(contains(message(checked(x, array({1, -6, 2}))), "index -6 is out of bounds"));
  CHECK(message(checkify(get)(x, Tensor(7))).empty());
  // A jitted function is traced for it, and without it again.
  const auto compiled = jit(get);
  const auto call = [&](const Tensor& v, const Tensor& i) { return compiled(v, i); };
  CHECK(call(x, Tensor(7)).item() == 4);
  CHECK(contains(message(jit(checkify(call, {.index = true}))(x, Tensor(7))), "index 7"));
  CHECK(call(x, Tensor(7)).item() == 4);
  CHECK(contains(message(vmap(checked, {false, true})(x, array({1, 9}))), "at mapped index 1: index 9"));
  // In loops, updates, derivatives, and along another axis beside an integer.
  const auto looped = [](const Tensor& v) {
    return fori_loop(
        0, 7, [&](const Tensor& i, const Tensor& c) { return c + v[i]; }, Tensor(0.0));
  };
  CHECK(contains(message(checkify(looped, {.index = true})(x)), "index 5"));
  const auto added = [](const Tensor& v, const Tensor& i) { return v.added({i}, Tensor(1.0)); };
  CHECK(contains(message(checkify(added, {.index = true})(x, Tensor(5))), "index 5"));
  const auto slope = [&](const Tensor& v, const Tensor& i) {
    return grad([&](const Tensor& w) { return get(w, i); })(v);
  };
  CHECK(contains(message(checkify(slope, {.index = true})(x, Tensor(8))), "index 8"));
  const auto second = [](const Tensor& v, const Tensor& i) { return v.at({0, i}); };
  CHECK(contains(message(checkify(second, {.index = true})(x.reshape({1, 5}), Tensor(6))),
                 "index 6 is out of bounds for axis 1 with size 5"));
}

TEST_CASE("a scope checks what runs in it", "[api][checks]") {
  const auto get = [](const Tensor& x, const Tensor& i) { return x[i]; };
  const auto logarithm = [](const Tensor& x) { return log(x); };
  const auto compiled = jit(get);
  const Tensor x = arange(5) * 1.0, seven(7), minus(-1.0);
  CHECK(compiled(x, seven).item() == 4);
  {
    const ChecksScope scope({.nan = true});
    for (const std::string& message :
         {error_of([&] { logarithm(minus).item(); }, ErrorKind::kFloatingPoint),
          error_of([&] { jit(logarithm)(minus).item(); }, ErrorKind::kFloatingPoint),
          error_of([&] { grad([](const Tensor& v) { return sqrt(v) * 0.0; })(minus).item(); },
                   ErrorKind::kFloatingPoint)}) {
      CHECK(contains(message, "invalid value (nan) encountered in "));
      CHECK(contains(message, "checks_test.cc:"));
    }
    CHECK(logarithm(Tensor(1.0)).item() == 0);
    CHECK(compiled(x, seven).item() == 4);
  }
  {
    const ChecksScope scope({.index = true});
    for (const std::string& message : {error_of([&] { get(x, seven).eval(); }, ErrorKind::kIndex),
                                       error_of([&] { compiled(x, seven).eval(); }, ErrorKind::kIndex),
                                       error_of(
                                           [&] {
                                             vmap(get, {false, true})(x, array({1, 7})).eval();
                                           },
                                           ErrorKind::kIndex)}) {
      CHECK(contains(message, "index 7 is out of bounds for axis 0 with size 5"));
      CHECK(contains(message, "checks_test.cc:"));
    }
    CHECK(compiled(x, Tensor(-5)).item() == 0);
    const ChecksScope none({});
    CHECK(get(x, seven).item() == 4);
  }
  CHECK(compiled(x, seven).item() == 4);
  CHECK(floats(isnan(logarithm(minus))) == Floats{1});
}

}  // namespace
