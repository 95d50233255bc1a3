// Host callbacks of C++: values, order, once each, under transforms; what they throw; how long they live.
#include <catch2/catch.hpp>
#include <cmath>
#include <iostream>
#include <memory>
#include <sstream>
#include <stdexcept>

#include "api_testing.h"
#include "lamina/lamina.h"

namespace {

using namespace lamina;
using namespace lamina::testing;

// A function that the library does not have.
Tensor with_lgamma(const Tensor& x) {
  std::vector<double> v = x.to_host<double>();
  for (double& e : v) e = std::lgamma(e);
  return Tensor::from_host<double>(v, x.shape());
}

TEST_CASE("pure_callback computes with values", "[api][effects]") {
  const Tensor x = array({0.5, 1.5, 3.0});
  const auto f = [](const Tensor& v) { return pure_callback(with_lgamma, std::tuple(v), v) * 2; };
  const Doubles want{2 * std::lgamma(0.5), 2 * std::lgamma(1.5), 2 * std::lgamma(3.0)};
  CHECK(doubles(f(x)) == want);
  const auto jitted = jit(f);
  CHECK(doubles(jitted(x)) == want);
  CHECK(doubles(jitted(x + 0.0)) == want);
  CHECK(doubles(vmap(f)(x)) == want);
  CHECK(doubles(jit(vmap(f))(x.reshape({3, 1}))) == want);

  // Two arguments, one a number that stays one; two results.
  const auto [low, high] =
      pure_callback([](const Tensor& v, int k) { return std::pair(v.astype(DType::float32), v * k); },
                    std::tuple(x, 3), std::pair(zeros({3}), x));
  CHECK(floats(low) == Floats{0.5, 1.5, 3.0});
  CHECK(doubles(high) == Doubles{1.5, 4.5, 9});

  // All lanes in one call.
  auto calls = std::make_shared<int>(0);
  const auto counted = [&](CallbackLanes lanes) {
    *calls = 0;
    return doubles(vmap([&](const Tensor& v) {
      return pure_callback(
          [calls](const Tensor& a, const Tensor& b) {
            ++*calls;
            return a * b;
          },
          std::tuple(v, Tensor(2.0)), v, lanes);
    })(x));
  };
  CHECK(counted(CallbackLanes::kOneByOne) == Doubles{1, 3, 6});
  CHECK(*calls == 3);
  CHECK(counted(CallbackLanes::kExpanded) == Doubles{1, 3, 6});
  CHECK(*calls == 1);
  CHECK(counted(CallbackLanes::kRepeated) == Doubles{1, 3, 6});
  CHECK(*calls == 1);
}

TEST_CASE("a callback has the derivative that a rule gives it", "[api][effects]") {
  const auto call = [](const Tensor& v) {
    return pure_callback([](const Tensor& u) { return exp(u); }, std::tuple(v), v);
  };
  const auto with_rule = custom_jvp(call, [=](const std::tuple<Tensor>& p, const std::tuple<Tensor>& t) {
    const Tensor y = call(std::get<0>(p));
    return std::pair(y, y * std::get<0>(t));
  });
  CHECK(grad([&](const Tensor& v) { return sum(with_rule(v)); })(array({0., 1.})).shape() == Shape{2});
  CHECK(doubles(grad([&](const Tensor& v) { return sum(with_rule(v)); })(array({0.})))[0] == Approx(1.0));
  CHECK(contains(error_of([&] { grad([&](const Tensor& v) { return sum(call(v)); })(array({0.})); }),
                 "pure_callback has no derivative"));
}

TEST_CASE("io_callback runs once each, in order", "[api][effects]") {
  auto seen = std::make_shared<Doubles>();
  const auto note = [seen](const Tensor& v) { seen->push_back(v.item()); };
  const auto f = jit([&](const Tensor& x) {
    io_callback(note, std::tuple(x));
    io_callback(note, std::tuple(x * 2));
    io_callback(note, std::tuple(x));  // equal to the first, and run too
    return x + 1;
  });
  CHECK(f(Tensor(3.0)).item() == 4);
  effects_barrier();
  CHECK(*seen == Doubles{3, 6, 3});
  seen->clear();
  f(Tensor(4.0)).eval();
  CHECK(*seen == Doubles{4, 8, 4});

  seen->clear();
  io_callback(note, std::tuple(Tensor(1.0)));
  CHECK(*seen == Doubles{1});
  vmap([&](const Tensor& x) {
    io_callback(note, std::tuple(x));
    return x;
  })(array({1., 2., 3.}))
      .eval();
  CHECK(*seen == Doubles{1, 1, 2, 3});
  seen->clear();
  scan(
      [&](const Tensor& c, const Tensor& x) {
        io_callback(note, std::tuple(c));
        return std::pair(c + x, c);
      },
      Tensor(0.0), array({1., 2., 3.}))
      .first.eval();
  CHECK(*seen == Doubles{0, 1, 3});
  seen->clear();
  const Tensor g = grad([&](const Tensor& x) {
    io_callback(note, std::tuple(stop_gradient(x)));
    return x * x;
  })(Tensor(3.0));
  CHECK(g.item() == 6);
  CHECK(*seen == Doubles{3});

  // With a result, which a later one sees.
  auto last = std::make_shared<double>(0);
  const auto next = [last] { return Tensor(*last += 1).astype(DType::float64); };
  const auto twice = jit([&](const Tensor& x) {
    const Tensor a = io_callback(next, std::tuple<>{}, zeros({}, DType::float64));
    const Tensor b = io_callback(next, std::tuple<>{}, zeros({}, DType::float64));
    return x + 10 * a + b;
  });
  CHECK(twice(Tensor(0.0)).item() == 12);
  CHECK(twice(Tensor(0.0)).item() == 34);
}

TEST_CASE("callbacks throw what they throw", "[api][effects]") {
  const auto throws = [](const Tensor&) -> Tensor { throw std::out_of_range("no such row"); };
  CHECK_THROWS_AS(pure_callback(throws, std::tuple(ones({2})), ones({2})).eval(), std::out_of_range);
  // Only where it is read.
  const Tensor fails = pure_callback(throws, std::tuple(ones({2})), ones({2}));
  const Tensor beside = ones({2}) + 1;
  CHECK(floats(beside) == Floats{2, 2});
  CHECK_THROWS_AS(fails.eval(), std::out_of_range);
  CHECK_THROWS_AS((fails + 1).eval(), std::out_of_range);
  const auto jitted = jit([&](const Tensor& x) { return pure_callback(throws, std::tuple(x), x); });
  CHECK_THROWS_AS(jitted(ones({2})).eval(), std::out_of_range);
  CHECK_THROWS_AS(jitted(ones({2})).eval(), std::out_of_range);
  const auto returns = [](Tensor result) {
    return error_of(
        [&] {
          pure_callback([&](const Tensor&) { return result; }, std::tuple(ones({2})), ones({2})).eval();
        },
        ErrorKind::kType);
  };
  CHECK(contains(returns(ones({3})),
                 "the callback returned float32[3] as result 0 where f32[2] was described"));
  CHECK(contains(returns(ones({2}, DType::float64)), "returned float64[2]"));
}

TEST_CASE("a callback goes when nobody calls it any more", "[api][effects]") {
  const auto held = std::make_shared<int>(1);
  {
    const auto f = jit([held](const Tensor& x) {
      return pure_callback([held](const Tensor& v) { return v + *held; }, std::tuple(x), x);
    });
    CHECK(f(Tensor(1.0)).item() == 2);
    CHECK(held.use_count() > 2);
  }
  for (int i = 0; i < 100; ++i)
    pure_callback([held](const Tensor& v) { return v; }, std::tuple(Tensor(1.0)), Tensor(1.0)).eval();
  CHECK(held.use_count() < 50);
}

TEST_CASE("debug_print writes lines in order", "[api][effects]") {
  std::ostringstream text;
  std::streambuf* const before = std::cout.rdbuf(text.rdbuf());
  const auto f = jit([](const Tensor& x) {
    debug_print("x = {} {{of 2}}", {x});
    debug_print("sum {} of {}", {sum(x), x});
    return x;
  });
  f(array({1.f, 2.f})).eval();
  std::cout.rdbuf(before);
  CHECK(text.str() == "x = [1., 2.] {of 2}\nsum 3. of [1., 2.]\n");
  CHECK(contains(error_of([] { debug_print("{} {}", {Tensor(1)}); }, ErrorKind::kValue),
                 "2 places for 1 values"));
  CHECK(contains(error_of([] { debug_print("{x}", {Tensor(1)}); }, ErrorKind::kValue),
                 "neither {} nor doubled"));
}

}  // namespace
