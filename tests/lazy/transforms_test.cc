// The C++ API's function transforms over trees of tensors.
#include <array>
#include <catch2/catch.hpp>
#include <cmath>
#include <optional>

#include "api_testing.h"
#include "lamina/lamina.h"

namespace {

using namespace lamina;
using namespace lamina::testing;

struct Layer {
  Tensor weight, bias;
  auto fields() { return std::tie(weight, bias); }
};
struct Model {
  std::vector<Layer> layers;
  std::map<std::string, Tensor> scales;
  std::optional<Tensor> extra;
  std::array<std::pair<Tensor, Tensor>, 1> pairs;
  auto fields() { return std::tie(layers, scales, extra, pairs); }
};

Tensor cube(const Tensor& x) { return x * x * x; }

TEST_CASE("grad, to third order", "[api][transforms]") {
  CHECK(grad(cube)(Tensor(2.0)).item() == 12);
  auto second = [](const Tensor& x) { return grad(cube)(x); };
  CHECK(grad(second)(Tensor(2.0)).item() == 12);
  auto third = [&](const Tensor& x) { return grad(second)(x); };
  CHECK(grad(third)(Tensor(2.0)).item() == 6);
  const auto [value, slope] = value_and_grad(
      [](const Tensor& x, const Tensor& y) { return sum(sin(x) * y); })(array({0.5, 1.0}), array({2.0, 3.0}));
  CHECK(value.item() == Approx(2 * std::sin(0.5) + 3 * std::sin(1)));
  CHECK(slope.to_host<double>()[1] == Approx(3 * std::cos(1)));
  const std::string message = error_of([] { grad([](const Tensor& x) { return x * 2; })(ones({3})); });
  CHECK(message.find("one real float, not float32[3]") != std::string::npos);
  CHECK(message.find("transforms_test.cc:") != std::string::npos);
}

TEST_CASE("trees of any nesting go through every transform", "[api][transforms]") {
  const Model model{{{ones({2, 2}), zeros({2})}, {ones({2, 1}), zeros({1})}},
                    {{"in", Tensor(2.0)}, {"out", Tensor(3.0)}},
                    ones({1}),
                    {{{ones({}), zeros({})}}}};
  auto apply = [](const Model& m, const Tensor& x) {
    Tensor h = x * m.scales.at("in");
    for (const Layer& l : m.layers) h = matmul(h, l.weight) + l.bias;
    return sum(h * m.scales.at("out") + *m.extra) * m.pairs[0].first + m.pairs[0].second;
  };
  const Tensor x = array({{1.f, 2.f}});
  CHECK(apply(model, x).item() == 37);
  const Model g = grad(apply)(model, x);
  CHECK(g.scales.at("out").item() == 12);
  CHECK(g.scales.at("in").item() == 18);
  CHECK(floats(g.layers[0].bias) == Floats{3, 3});
  CHECK(floats(*g.extra) == Floats{1});
  CHECK(g.pairs[0].first.item() == 37);
  CHECK(jit(apply)(model, x).item() == 37);
  const Tensor rows = array({{1.f, 2.f}, {3.f, 4.f}}).reshape({2, 1, 2});
  CHECK(floats(vmap(apply, {false, true})(model, rows)) == Floats{37, 85});
  const auto [value, slope] = jvp(apply, std::tuple(model, x), std::tuple(g, zeros_like(x)));
  CHECK(value.item() == 37);
  CHECK(slope.item() > 0);
  auto [primal, pull_back] = vjp(apply, std::tuple(model, x));
  CHECK(primal.item() == 37);
  CHECK(std::get<0>(pull_back(Tensor(1.0))).scales.at("out").item() == 12);
  CHECK(floats(std::get<1>(pull_back(Tensor(2.0)))) == Floats{24, 24});
}

TEST_CASE("jit traces once per signature and compiles once per program", "[api][transforms]") {
  int traced = 0;
  auto f = jit(
      [&traced](const Tensor& x, const Tensor& rate) {
        ++traced;
        return std::pair(x * rate, sum(x));
      },
      "api_step");
  const cache::Stats before = cache::stats();
  for (int i = 0; i < 10; ++i) {
    const auto [scaled, total] = f(ones({3}), Tensor(0.1 * i));  // a new number compiles nothing
    CHECK(floats(scaled)[0] == Approx(0.1 * i));
    CHECK(total.item() == 3);
  }
  CHECK(traced == 1);
  CHECK(f.traces() == 1);
  f(ones({4}), Tensor(1.0));
  CHECK(traced == 2);
  int64_t programs = 0, runs = 0;
  for (const cache::Entry& e : cache::entries()) {
    if (e.name != "api_step") continue;
    ++programs;
    runs += e.runs;
    CHECK(e.where.find("transforms_test.cc:") != std::string::npos);
  }
  CHECK(programs == 2);
  CHECK(runs == 11);
  CHECK(cache::stats().misses > before.misses);
  // The bits are those of plain code.
  auto g = [](const Tensor& x) { return tanh(matmul(x, x.T())) / (1 + exp(x)); };
  const Tensor x = random::normal(random::key(3), {5, 5});
  CHECK(floats(jit(g)(x)) == floats(g(x)));
}

TEST_CASE("transforms nest", "[api][transforms]") {
  const Tensor xs = array({1.f, 2.f, 3.f});
  auto slope = [](const Tensor& x) { return grad(cube)(x); };
  CHECK(floats(vmap(slope)(xs)) == Floats{3, 12, 27});
  auto mapped = [](const Tensor& v) { return vmap([](const Tensor& x) { return jit(cube)(x) + 1; })(v); };
  CHECK(floats(jit(mapped)(xs)) == Floats{2, 9, 28});
  CHECK(floats(grad([](const Tensor& v) { return sum(vmap(cube)(v)); })(xs)) == Floats{3, 12, 27});
  auto again = [](const Tensor& x) { return checkpoint([](const Tensor& y) { return sin(y) * y; })(x); };
  CHECK(grad(again)(Tensor(1.0)).item() == Approx(std::sin(1) + std::cos(1)));
  const auto [value, along] = jvp(slope, std::tuple(Tensor(2.0)), std::tuple(Tensor(1.0)));
  CHECK(value.item() == 12);
  CHECK(along.item() == 12);
}

TEST_CASE("vmap over any dimension, with the lanes of results at any", "[api][transforms]") {
  const Tensor m = arange(6, DType::float64).reshape({2, 3}), v = array({10., 20.});
  const auto weighted = [](const Tensor& column, const Tensor& w) { return column * w; };
  const Tensor out = vmap(weighted, VmapOptions{.in_axes = {1, std::nullopt}, .out_axes = {-1}})(m, v);
  CHECK(out.shape() == Shape{2, 3});
  CHECK(doubles(out) == Doubles{0, 10, 20, 60, 80, 100});
  CHECK(doubles(vmap(weighted, VmapOptions{.in_axes = {-1, std::nullopt}})(m, v)) ==
        Doubles{0, 60, 10, 80, 20, 100});
  // By element of the result; an argument that is a container has one dimension for all.
  const auto parts = [](const std::vector<Tensor>& x) { return std::pair(x[0] + x[1], sum(x[0])); };
  const auto [sums, totals] =
      vmap(parts, VmapOptions{.in_axes = {1}, .out_axes = {1, 0}})(std::vector<Tensor>{m, 2 * m});
  CHECK(doubles(sums) == doubles(3 * m));
  CHECK(sums.shape() == Shape{2, 3});
  CHECK(doubles(totals) == Doubles{3, 5, 7});
  const auto slopes = [&](const Tensor& x) {
    return sum(vmap(weighted, VmapOptions{.in_axes = {1, std::nullopt}, .out_axes = {1}})(x, v) * x);
  };
  CHECK(doubles(jit(grad(slopes))(m)) == Doubles{0, 20, 40, 120, 160, 200});

  const auto refusal = [&](VmapOptions options) {
    return error_of([&] { vmap(weighted, std::move(options))(m, v); }, ErrorKind::kValue);
  };
  CHECK(contains(refusal({.in_axes = {2, std::nullopt}}),
                 "in_axes names dimension 2 of a tensor float64[2,3]"));
  CHECK(contains(refusal({.in_axes = {1, std::nullopt}, .out_axes = {2}}), "out_axes names dimension 2"));
  CHECK(contains(refusal({.in_axes = {1}}), "one of in_axes per argument"));
  CHECK(contains(refusal({.in_axes = {1, std::nullopt}, .out_axes = {0, 1}}), "one of out_axes"));
  CHECK(contains(refusal({.in_axes = {1, 0}}), "3 and 2 rows"));
}

TEST_CASE("in-place updates stay functional inside a transform", "[api][transforms]") {
  auto f = [](const Tensor& x) {
    Tensor y = zeros({3});
    y.set({1}, x);
    y.set({2}, 2 * x);
    return sum(y * y);
  };
  CHECK(grad(f)(Tensor(3.0)).item() == 30);
  CHECK(jit(f)(Tensor(3.0)).item() == 45);
  Tensor outside = zeros({3});
  const std::string message = error_of([&] {
    jit([&](const Tensor& x) {
      outside.set({0}, x);
      return x;
    })(Tensor(1.0));
  });
  CHECK(message.find("made outside of the transform") != std::string::npos);
  CHECK(floats(outside) == Floats{0, 0, 0});
}

TEST_CASE("reading a value inside a trace is an error in words", "[api][transforms]") {
  const std::string message =
      error_of([] { jit([](const Tensor& x) { return x.item() > 0 ? x : -x; })(Tensor(1.0)); });
  INFO(message);
  CHECK(message.find("transforms_test.cc:") != std::string::npos);
  // Outside of jit a value is known, also under grad.
  auto f = [](const Tensor& x) { return x > 0 ? x * 2 : x * 3; };
  CHECK(grad(f)(Tensor(1.0)).item() == 2);
  CHECK(grad(f)(Tensor(-1.0)).item() == 3);
}

TEST_CASE("a number that leaves a derivative is an error, one that it does not depend on is none",
          "[api][transforms]") {
  auto lost = [](const Tensor& x) { return x * x.item(); };
  for (const std::string& message :
       {error_of([&] { grad(lost)(Tensor(2.0)); }), error_of([&] { jvp(lost, Tensor(2.0), Tensor(1.0)); }),
        error_of([&] { vjp(lost, std::tuple{Tensor(2.0)}); }),
        error_of([&] { checkpoint(lost)(Tensor(2.0)); }),
        error_of([&] { grad([](const Tensor& x) { return x * x.to_host<float>()[0]; })(Tensor(2.0)); })}) {
    INFO(message);
    CHECK(message.find("stop_gradient") != std::string::npos);
    CHECK(message.find("transforms_test.cc:") != std::string::npos);
  }
  auto kept = [](const Tensor& x) {
    return x * x * stop_gradient(x).item() * x.item<int>() * (x > 1).item<bool>();
  };
  CHECK(grad(kept)(Tensor(2.0)).item() == 16);
  std::string shown;
  grad([&](const Tensor& x) {
    shown = x.to_string();
    return x * x;
  })(Tensor(2.0));
  CHECK(shown.find("<differentiated") == 0);
}

TEST_CASE("a jitted function is traced once for each numerics", "[api][transforms]") {
  int traces = 0;
  auto f = jit([&](const Tensor& x) {
    ++traces;
    return sum(matmul(x, x));
  });
  const Tensor x = ones({80, 80});  // products of ones are exact in any order
  CHECK(f(x).item() == 80 * 80 * 80);
  {
    const NumericsScope fast(Numerics::kFast);
    CHECK(f(x).item() == 80 * 80 * 80);
    CHECK(f(x).item() == 80 * 80 * 80);
    const NumericsScope same(Numerics::kSame);
    CHECK(f(x).item() == 80 * 80 * 80);
  }
  CHECK(f(x).item() == 80 * 80 * 80);
  CHECK(traces == 2);
}

TEST_CASE("transforms of transforms", "[api][transforms]") {
  auto cube = [](const Tensor& x) { return x * x * x; };
  const Tensor three(3.0), xs = array({1.f, 2.f, 3.f});
  CHECK(grad(grad(cube))(three).item() == 18);
  CHECK(grad(grad(grad(cube)))(three).item() == 6);
  CHECK(jit(grad(cube))(three).item() == 27);
  CHECK(floats(jit(vmap(grad(cube)))(xs)) == Floats{3, 12, 27});
  CHECK(floats(vmap(jit(grad(cube)))(xs)) == Floats{3, 12, 27});
  CHECK(grad(checkpoint(cube))(three).item() == 27);
  CHECK(jit(value_and_grad(cube))(three).first.item() == 27);
  const auto [value, along] = jvp(jit(grad(cube)), std::tuple(three), std::tuple(Tensor(1.0)));
  CHECK(value.item() == 27);
  CHECK(along.item() == 18);
  const auto weighted = [](const Tensor& w, const Tensor& x) { return sum(w * x * x); };
  CHECK(floats(jit(grad(weighted))(xs, xs)) == Floats{1, 4, 9});
}

}  // namespace
