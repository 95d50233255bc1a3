// Functions with forms of their own under vmap.
#include <catch2/catch.hpp>
#include <cmath>
#include <set>
#include <tuple>
#include <utility>
#include <vector>

#include "api_testing.h"
#include "lamina/lamina.h"

namespace {

using namespace lamina;
using namespace lamina::testing;

const Doubles kPoints{0.5, -1.0, 2.0};
Tensor points() { return array(kPoints); }

template <typename F>
Doubles of_points(F f) {
  Doubles out;
  for (const double x : kPoints) out.push_back(f(x));
  return out;
}
Doubles ten_sines() {
  return of_points([](double x) { return 10 * std::sin(x); });
}
Doubles ten_cosines() {
  return of_points([](double x) { return 10 * std::cos(x); });
}
void check_near(const Tensor& got, const Doubles& want) {
  const Doubles all = doubles(got);
  REQUIRE(all.size() == want.size());
  for (size_t i = 0; i < want.size(); ++i) CHECK(all[i] == Approx(want[i]));
}

// sin, whose form in lanes is 10 sin, to be seen.
auto sine() {
  return custom_vmap([](const Tensor& x) { return sin(x); },
                     [](int64_t size, const std::vector<bool>& batched, const Tensor& x) {
                       CHECK(batched.size() == 1);
                       if (batched[0]) CHECK(x.shape()[0] == size);
                       return std::pair(10 * sin(x), bool(batched[0]));
                     });
}

TEST_CASE("custom_vmap: the form is for lanes alone", "[api][custom_vmap]") {
  const auto f = sine();
  const auto g = [f](const Tensor& x) { return f(x); };
  const Doubles sines = of_points([](double x) { return std::sin(x); });
  check_near(f(points()), sines);
  check_near(jit(g)(points()), sines);
  check_near(vmap(g)(points()), ten_sines());
  check_near(jit(vmap(g))(points()), ten_sines());
  check_near(vmap([f](const Tensor& x) { return f(x) + f(Tensor(1.0)); })(points()),
             of_points([](double x) { return 10 * std::sin(x) + std::sin(1.0); }));
  const Tensor grid = arange(6).reshape({2, 3}) * 0.25;
  const Tensor nested = vmap(vmap(g))(grid);
  CHECK(nested.shape() == Shape{2, 3});
  for (int i = 0; i < 6; ++i) CHECK(doubles(nested)[i] == Approx(10 * std::sin(0.25 * i)));
  // In loops.
  const auto twice = [f](const Tensor& x) {
    return fori_loop(
        0, 2, [f](const Tensor&, const Tensor& c) { return f(c); }, x);
  };
  check_near(vmap(twice)(points()), of_points([](double x) { return 10 * std::sin(10 * std::sin(x)); }));
}

TEST_CASE("custom_vmap: derivatives of lanes are the form's", "[api][custom_vmap]") {
  const auto f = sine();
  const auto g = [f](const Tensor& x) { return f(x); };
  const Tensor x = points();
  const auto of_lanes = [g](const Tensor& v) { return vmap(g)(v); };
  const auto along = [g](const Tensor& v) { return jvp(g, std::tuple(v), std::tuple(ones_like(v))).second; };
  for (const auto& [value, dot] : {jvp(of_lanes, std::tuple(x), std::tuple(ones_like(x)))}) {
    check_near(value, ten_sines());
    check_near(dot, ten_cosines());
  }
  check_near(vmap(along)(x), ten_cosines());
  check_near(jit(vmap(along))(x), ten_cosines());
  const auto total = [of_lanes](const Tensor& v) { return sum(of_lanes(v)); };
  check_near(grad(total)(x), ten_cosines());
  check_near(jit(grad(total))(x), ten_cosines());
  // Of second order, in lanes, and a tangent per lane at one point.
  const auto twice = [along](const Tensor& v) {
    return jvp(along, std::tuple(v), std::tuple(ones_like(v))).second;
  };
  check_near(vmap(twice)(x), of_points([](double v) { return -10 * std::sin(v); }));
  const auto at_half = [g](const Tensor& t) { return jvp(g, std::tuple(Tensor(0.5)), std::tuple(t)).second; };
  check_near(vmap(at_half)(x), of_points([](double t) { return 10 * std::cos(0.5) * t; }));
  // Reverse ones of the function are the function's, and their lanes are.
  CHECK(grad(g)(Tensor(0.5)).item() == Approx(std::cos(0.5)));
  check_near(vmap(grad(g))(x), of_points([](double v) { return std::cos(v); }));
  check_near(vmap(grad(grad(g)))(x), of_points([](double v) { return -std::sin(v); }));
}

TEST_CASE("custom_vmap: arguments have lanes as wholes, results where the form says", "[api][custom_vmap]") {
  using Pair = std::pair<Tensor, Tensor>;
  const auto f = custom_vmap(
      [](const Tensor& w, const Pair& p) {
        return Pair{w * p.first + p.second, w};
      },
      [](int64_t size, const std::vector<bool>& batched, const Tensor& w, const Pair& p) {
        CHECK(batched == std::vector<bool>{false, true});
        CHECK(w.ndim() == 0);
        CHECK(p.first.shape() == Shape{size, 2});
        CHECK(p.second.shape() == Shape{size, 2});
        return std::pair(Pair{w * p.first + p.second, broadcast_to(w, {size})}, true);
      });
  const Tensor rows = array({{0., 1.}, {2., 3.}, {4., 5.}}), w(3.0);
  // One tensor of the pair has lanes.
  const auto mapped = [&](const Tensor& v) {
    return vmap([&](const Tensor& row) { return f(v, Pair{row, array({10., 20.})}); })(rows);
  };
  const auto [sums, repeated] = mapped(w);
  check_near(sums, {10, 23, 16, 29, 22, 35});
  check_near(repeated, {3, 3, 3});
  CHECK(grad([&](const Tensor& v) { return sum(mapped(v).first); })(w).item() == Approx(15));

  const auto wrong =
      custom_vmap([](const Tensor& x) { return 2 * x; },
                  [](int64_t, const std::vector<bool>&, const Tensor& x) { return std::pair(x[0], true); });
  const std::string message =
      error_of([&] { vmap([&](const Tensor& x) { return wrong(x); })(points()).eval(); });
  CHECK(contains(message, "results of a batch 0 f64[] where f64[3] is needed"));
  CHECK(contains(message, "batched_form_test.cc:"));
}

TEST_CASE("custom_vmap: nothing compiles again", "[api][custom_vmap]") {
  const auto f = sine();
  const auto slopes = [&](double s) {
    return vmap([&](const Tensor& x) {
      return jvp([&](const Tensor& v) { return f(v); }, std::tuple(x), std::tuple(ones_like(x))).second;
    })(points() * s);
  };
  for (int i = 0; i < 3; ++i) slopes(0.1 * i).eval();
  const cache::Stats before = cache::stats();
  for (int i = 0; i < 20; ++i) slopes(0.01 * i).eval();
  CHECK(cache::stats().misses == before.misses);
}

TEST_CASE("sequential_vmap runs one lane after another", "[api][custom_vmap]") {
  std::set<Shape> seen;
  const auto f = sequential_vmap([&seen](const Tensor& x, const Tensor& y) {
    seen.insert(x.shape());
    return std::pair(sin(x) + y, y);
  });
  const auto first = [f](const Tensor& x, const Tensor& y) { return f(x, y).first; };
  const Tensor x = points(), one(1.0);
  const Doubles want = of_points([](double v) { return std::sin(v) + 1; });
  check_near(vmap(first, {true, false})(x, one), want);
  check_near(jit(vmap(first, {true, false}))(x, one), want);
  const Tensor nested = vmap(vmap(first, {true, false}), {false, true})(x, x);
  for (size_t i = 0; i < 9; ++i)
    CHECK(doubles(nested)[i] == Approx(std::sin(kPoints[i % 3]) + kPoints[i / 3]));
  check_near(vmap(grad([&](const Tensor& v) { return first(v, one); }))(x),
             of_points([](double v) { return std::cos(v); }));
  check_near(grad([&](const Tensor& v) {
               return sum(vmap(first, {true, false})(v, one));
             })(x),
             of_points([](double v) { return std::cos(v); }));
  check_near(vmap([&](const Tensor& t) {
               return jvp([&](const Tensor& v) { return first(v, one); }, std::tuple(Tensor(0.5)),
                          std::tuple(t))
                   .second;
             })(x),
             of_points([](double t) { return std::cos(0.5) * t; }));
  CHECK(seen == std::set<Shape>{Shape{}});
}

}  // namespace
