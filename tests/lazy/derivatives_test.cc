// Jacobians and Hessians over containers, linearize, and functions with derivatives of their own.
#include <array>
#include <catch2/catch.hpp>
#include <cmath>
#include <map>

#include "api_testing.h"
#include "lamina/lamina.h"

namespace {

using namespace lamina;
using namespace lamina::testing;

TEST_CASE("jacobians of tensors", "[api][derivatives]") {
  const Tensor a = array({{1., 2.}, {3., 4.}, {5., 6.}}), x = array({0.5, -2.});
  auto f = [&](const Tensor& v) { return matmul(a, v * v); };
  const Doubles want{1, -8, 3, -16, 5, -24};
  for (const Tensor& j : {jacfwd(f)(x), jacrev(f)(x), jit(jacfwd(f))(x), jacfwd(jit(f))(x)}) {
    CHECK(j.shape() == Shape{3, 2});
    CHECK(doubles(j) == want);
  }
  const Tensor batch = vmap(jacrev(f))(stack({x, 2 * x}));
  CHECK(batch.shape() == Shape{2, 3, 2});
  CHECK(doubles(batch[1]) == Doubles{2, -16, 6, -32, 10, -48});
  auto g = [](const Tensor& v) { return sum(v * v * v); };
  CHECK(doubles(hessian(g)(x)) == Doubles{3, 0, 0, -12});
  CHECK(doubles(jit(hessian(g))(x)) == Doubles{3, 0, 0, -12});
  // Third derivatives: of [2, 2, 2].
  CHECK(doubles(jacfwd(hessian(g))(x)) == Doubles{6, 0, 0, 0, 0, 0, 0, 6});
  CHECK(contains(error_of([&] { jacfwd(f)(arange(2)); }, ErrorKind::kType), "jacfwd needs float inputs"));
  CHECK(contains(error_of([&] { jacrev([](const Tensor& v) { return v > 0; })(x); }, ErrorKind::kType),
                 "jacrev needs float results, not bool[2]"));
}

struct Point {
  Tensor x, y;
  auto fields() { return std::tie(x, y); }
};

TEST_CASE("jacobians over containers", "[api][derivatives]") {
  using Out = std::map<std::string, std::vector<Tensor>>;
  using In = std::pair<Tensor, Tensor>;
  auto f = [](const In& in, const Tensor& scale) {
    return Out{{"a", {in.first * in.second, sum(in.first)}}, {"b", {scale * in.second}}};
  };
  const In at(array({1., 2.}), array(Doubles{3}).reshape({}));
  for (const auto& j : {jacfwd(f)(at, Tensor(5.0)), jacrev(f)(at, Tensor(5.0))}) {
    CHECK(doubles(j.at("a")[0].first) == Doubles{3, 0, 0, 3});
    CHECK(doubles(j.at("a")[0].second) == Doubles{1, 2});
    CHECK(doubles(j.at("a")[1].first) == Doubles{1, 1});
    CHECK(doubles(j.at("a")[1].second) == Doubles{0});
    CHECK(doubles(j.at("b")[0].second) == Doubles{5});
    CHECK(j.at("b")[0].first.shape() == Shape{2});
  }
  // A struct as argument; arrays and tuples as results.
  auto g = [](const Point& p) { return std::tuple(p.x * p.y, std::array<Tensor, 1>{p.y * p.y}); };
  const auto [first, second] = jacrev(g)(Point{Tensor(2.0), Tensor(3.0)});
  CHECK(first.x.item() == 3);
  CHECK(first.y.item() == 2);
  CHECK(second[0].x.item() == 0);
  CHECK(second[0].y.item() == 6);
  // Hessian of a pair: a pair of pairs.
  auto h = [](const In& in) { return sum(in.first * in.first) * in.second; };
  const auto blocks = hessian(h)(at);
  CHECK(doubles(blocks.first.first) == Doubles{6, 0, 0, 6});
  CHECK(doubles(blocks.first.second) == Doubles{2, 4});
  CHECK(doubles(blocks.second.first) == Doubles{2, 4});
  CHECK(doubles(blocks.second.second) == Doubles{0});
}

TEST_CASE("linearize computes the function once", "[api][derivatives]") {
  auto f = [](const Tensor& x, const Tensor& y) { return std::pair(sin(x) * y, y * y); };
  const std::tuple at(array({0.5, 1.}), array({2., 3.}));
  const auto [value, along] = linearize(f, at);
  CHECK(doubles(value.second) == Doubles{4, 9});
  const std::tuple direction(array({1., 0.}), array({0., 1.}));
  const auto tangent = along(direction);
  const auto want = jvp(f, at, direction).second;
  CHECK(doubles(tangent.first) == doubles(want.first));
  CHECK(doubles(tangent.second) == Doubles{0, 6});
  // Linear: twice the direction, twice the tangent; and it can be mapped.
  CHECK(doubles(along(std::tuple(array({2., 0.}), array({0., 2.}))).second) == Doubles{0, 12});
  const auto slope = [&](const Tensor& t) { return along(std::tuple(t, zeros_like(t))).first; };
  CHECK(doubles(vmap(slope)(eye(2, DType::float64)))[0] == Approx(2 * std::cos(0.5)));
}

TEST_CASE("custom_jvp: both modes, second order, loops and batches see the rule", "[api][derivatives]") {
  int ruled = 0;
  // log(1 + exp(x)) with its derivative as it should be written; times 10, so that the rule shows.
  auto f = custom_jvp([](const Tensor& x, double scale) { return scale * log1p(exp(x)); },
                      [&ruled](const std::tuple<Tensor, double>& x, const std::tuple<Tensor, double>& t) {
                        ++ruled;
                        const Tensor& v = std::get<0>(x);
                        return std::pair(std::get<1>(x) * log1p(exp(v)), 10 * sigmoid(v) * std::get<0>(t));
                      });
  const Tensor x = array(Doubles{0.3}).reshape({});
  auto g = [&](const Tensor& v) { return f(v, 2.0); };
  const double s = 1 / (1 + std::exp(-0.3));
  CHECK(g(x).item() == Approx(2 * std::log1p(std::exp(0.3))));
  CHECK(ruled == 0);
  CHECK(grad(g)(x).item() == Approx(10 * s));
  CHECK(jvp(g, std::tuple(x), std::tuple(Tensor(1.0))).second.item() == Approx(10 * s));
  CHECK(grad(grad(g))(x).item() == Approx(10 * s * (1 - s)));
  CHECK(jit(grad(g))(x).item() == Approx(10 * s));
  const Tensor xs = array({0.3, -1., 2.});
  const Doubles slopes = doubles(vmap(grad(g))(xs));
  for (int i = 0; i < 3; ++i) CHECK(slopes[i] == Approx(10 * doubles(sigmoid(xs))[i]));
  auto loop = [&](const Tensor& v) {
    return fori_loop(
        0, 2, [&](const Tensor&, const Tensor& c) { return g(c); }, v);
  };
  const double inner = 2 * std::log1p(std::exp(0.3));
  CHECK(grad(loop)(x).item() == Approx(10 * s * 10 / (1 + std::exp(-inner))));
  CHECK(ruled > 0);
  CHECK(contains(error_of(
                     [&] {
                       grad([&](const Tensor& w) {
                         return custom_jvp([&](const Tensor& v) { return v * w; },
                                           [](const std::tuple<Tensor>& p, const std::tuple<Tensor>& t) {
                                             return std::pair(std::get<0>(p), std::get<0>(t));
                                           })(Tensor(1.0));
                       })(x);
                     },
                     ErrorKind::kType),
                 "from outside that is being differentiated"));
  auto wrong = custom_jvp([](const Tensor& v) { return v; },
                          [](const std::tuple<Tensor>& p, const std::tuple<Tensor>&) {
                            return std::pair(std::get<0>(p), ones({3}));
                          });
  CHECK(
      contains(error_of([&] { grad(wrong)(x); }, ErrorKind::kValue), "has shape [3] where f64[] is needed"));
}

TEST_CASE("custom_vjp: clipped gradients, residuals of any type", "[api][derivatives]") {
  using Residuals = std::map<std::string, Tensor>;
  auto clipped = custom_vjp(
      [](const Point& p, const Tensor& bound) {
        return std::vector<Tensor>{p.x * p.y, p.x + 0 * bound};
      },
      [](const Point& p, const Tensor& bound) {
        return std::pair(std::vector<Tensor>{p.x * p.y, p.x + 0 * bound},
                         Residuals{{"x", p.x}, {"y", p.y}, {"bound", bound}});
      },
      [](const Residuals& r, const std::vector<Tensor>& cotangent) {
        const Tensor& bound = r.at("bound");
        return std::tuple(Point{clip(cotangent[0] * r.at("y") + cotangent[1], -bound, bound),
                                clip(cotangent[0] * r.at("x"), -bound, bound)},
                          Tensor());
      });
  auto loss = [&](const Point& p, const Tensor& bound) {
    const std::vector<Tensor> out = clipped(p, bound);
    return sum(out[0] * 3) + sum(out[1]);
  };
  const Point p{array({1., -4.}), array({2., 0.5})};
  const Point g = grad(loss)(p, Tensor(5.0));
  CHECK(doubles(g.x) == Doubles{5, 2.5});
  CHECK(doubles(g.y) == Doubles{3, -5});
  const Point same = jit(grad(loss))(p, Tensor(5.0));
  CHECK(doubles(same.x) == Doubles{5, 2.5});
  CHECK(doubles(same.y) == Doubles{3, -5});
  // The bound has the derivative zero that its rule says.
  CHECK(grad([&](const Tensor& b) { return loss(p, b); })(Tensor(5.0)).item() == 0);
  const Tensor rows = array({{1., -4.}, {0.1, 0.2}});
  const Point lanes = vmap(grad(loss), {true, false})(Point{rows, ones_like(rows)}, Tensor(5.0));
  CHECK(doubles(lanes.x) == Doubles{4, 4, 4, 4});
  CHECK(doubles(lanes.y)[1] == -5);
  CHECK(doubles(lanes.y)[2] == Approx(0.3));
  // One rule, however often it is called: nothing compiles again.
  auto twice = [&](double v) { return grad(loss)(Point{full({2}, v) * ones({2}), ones({2})}, Tensor(1.0)); };
  for (int i = 0; i < 3; ++i) doubles(twice(0.1 * i).x);
  const cache::Stats before = cache::stats();
  for (int i = 0; i < 20; ++i) doubles(twice(0.01 * i).x);
  CHECK(cache::stats().misses == before.misses);
}

TEST_CASE("a backward rule sees the residuals of its own forward pass", "[api][derivatives]") {
  // What is kept depends on what is differentiated.
  using Kept = std::map<std::string, Tensor>;
  auto product = custom_vjp([](const Tensor& x, const Tensor& y) { return x * y; },
                            [](const std::vector<bool>& differentiated, const Tensor& x, const Tensor& y) {
                              Kept kept;
                              if (differentiated[0]) kept["y"] = y;
                              if (differentiated[1]) kept["x"] = x;
                              return std::pair(x * y, kept);
                            },
                            [](const Kept& kept, const Tensor& g) {
                              return std::tuple(kept.contains("y") ? g * kept.at("y") : Tensor(),
                                                kept.contains("x") ? g * kept.at("x") : Tensor());
                            },
                            {.symbolic_zeros = true});
  auto loss = [&](const Tensor& x) {
    return product(x, Tensor(2.0)) + 7 * product(Tensor(3.0), x) + product(x, x);
  };
  CHECK(grad(loss)(Tensor(5.0)).item() == 2 + 21 + 10);
  CHECK(jit(grad(loss))(Tensor(5.0)).item() == 33);
  CHECK(doubles(vmap(grad(loss))(array({5., 1.}))) == Doubles{33, 25});
  auto loop = [&](const Tensor& x) {
    return fori_loop(
        0, 2, [&](const Tensor&, const Tensor& c) { return product(product(c, c), Tensor(3.0)); }, x);
  };
  CHECK(grad(loop)(Tensor(0.5)).item() == 13.5);

  // A residual that names nothing is one that is not there.
  auto sparse =
      custom_vjp([](const Tensor& x, const Tensor& y) { return x * y; },
                 [](const std::vector<bool>& differentiated, const Tensor& x, const Tensor& y) {
                   return std::pair(
                       x * y, std::pair(differentiated[1] ? x : Tensor(), differentiated[0] ? y : Tensor()));
                 },
                 [](const std::pair<Tensor, Tensor>& kept, const Tensor& g) {
                   const auto& [x, y] = kept;
                   return std::tuple(y.defined() ? g * y : Tensor(), x.defined() ? g * x : Tensor());
                 },
                 {.symbolic_zeros = true});
  auto of_one = [&](const Tensor& x) {
    return sparse(x, Tensor(2.0)) + sparse(Tensor(3.0), x) + sparse(x, x);
  };
  CHECK(grad(of_one)(Tensor(5.0)).item() == 2 + 3 + 10);

  // One function of several shapes, whose rule captures one thing or another.
  auto powers = custom_gradient([](const std::vector<Tensor>& xs) {
    Tensor sum = 0 * xs[0];
    for (const Tensor& x : xs) sum = sum + x;
    return std::pair(sum, [xs](const Tensor& g) {
      std::vector<Tensor> out;
      for (size_t i = 0; i < xs.size(); ++i) out.push_back(g * static_cast<double>(i + 1) * xs[i]);
      return std::tuple(out);
    });
  });
  auto both = [&](const Tensor& x) { return powers(std::vector{x}) + 10 * powers(std::vector{x, x}); };
  CHECK(grad(both)(Tensor(2.0)).item() == 2 + 10 * (2 + 4));
}

TEST_CASE("rules may be told which derivatives are zero", "[api][derivatives]") {
  using Two = std::tuple<Tensor, Tensor>;
  std::vector<std::pair<bool, bool>> told;
  auto product = custom_jvp([](const Tensor& x, const Tensor& y) { return x * y; },
                            [&told](const Two& p, const Two& t) {
                              const auto& [x, y] = p;
                              const auto& [dx, dy] = t;
                              told.emplace_back(dx.defined(), dy.defined());
                              Tensor slope;
                              if (dx.defined()) slope = 10 * dx * y;
                              if (dy.defined()) slope = slope.defined() ? slope + x * dy : x * dy;
                              return std::pair(x * y, slope);
                            },
                            {.symbolic_zeros = true});
  const Tensor x(2.0), y(3.0);
  CHECK(grad<0>(product)(x, y).item() == 30);
  CHECK(grad<1>(product)(x, y).item() == 2);
  const auto [by_x, by_y] = grad<0, 1>(product)(x, y);
  CHECK(by_x.item() == 30);
  CHECK(by_y.item() == 2);
  CHECK(told == std::vector<std::pair<bool, bool>>{{true, false}, {false, true}, {true, true}});

  // What is not differentiated is not kept, and results that do not matter cost nothing.
  std::vector<std::vector<bool>> kept, asked;
  auto pair = custom_vjp([](const Tensor& a, const Tensor& b) { return std::pair(a * b, sin(a)); },
                         [&kept](const std::vector<bool>& differentiated, const Tensor& a, const Tensor& b) {
                           kept.push_back(differentiated);
                           return std::pair(std::pair(a * b, sin(a)), Two(a, b));
                         },
                         [&asked](const Two& r, const std::pair<Tensor, Tensor>& g) {
                           asked.push_back({g.first.defined(), g.second.defined()});
                           const auto& [a, b] = r;
                           Tensor back = g.first.defined() ? 5 * g.first * b : Tensor();
                           if (g.second.defined()) back = g.second * cos(a);
                           return Two(back, g.first.defined() ? g.first * a : Tensor());
                         },
                         {.symbolic_zeros = true});
  CHECK(grad([&](const Tensor& a) { return pair(a, y).first; })(x).item() == 15);
  CHECK(grad([&](const Tensor& a) { return pair(a, y).second; })(x).item() == Approx(std::cos(2.0)));
  CHECK(grad([&](const Tensor& b) { return pair(x, b).second; })(y).item() == 0);
  CHECK(kept == std::vector<std::vector<bool>>{{true, false}, {true, false}, {false, true}});
  CHECK(asked.front() == std::vector<bool>{true, false});
  CHECK(asked[1] == std::vector<bool>{false, true});
}

TEST_CASE("custom_jvps: a rule for each argument", "[api][derivatives]") {
  int by_n = 0;
  // x^n, with 10 times the derivative by x and none by the scale.
  auto power = custom_jvps(
      [](const Tensor& x, const Tensor& n, const Tensor& scale) { return pow(x, n) * scale; },
      std::tuple([](const Tensor& t, const Tensor& out, const Tensor& x, const Tensor& n,
                    const Tensor&) { return 10 * t * n * out / x; },
                 [&by_n](const Tensor& t, const Tensor& out, const Tensor& x, const Tensor&, const Tensor&) {
                   ++by_n;
                   return t * out * log(x);
                 },
                 nullptr));
  const Tensor x(2.0), n(3.0), scale(1.0);
  CHECK(power(x, n, scale).item() == 8);
  CHECK(grad<0>(power)(x, n, scale).item() == Approx(120));
  CHECK(by_n == 0);
  CHECK(grad<1>(power)(x, n, scale).item() == Approx(8 * std::log(2.0)));
  CHECK(grad<2>(power)(x, n, scale).item() == 0);
  CHECK(by_n > 0);
  const auto both = jvp(power, std::tuple(x, n, scale), std::tuple(Tensor(1.0), Tensor(1.0), Tensor(1.0)));
  CHECK(both.second.item() == Approx(120 + 8 * std::log(2.0)));
  // The second derivative goes through the rule, too: 10 n (10 n / x - 1 / x) x^n / x.
  CHECK(grad<0>([&](const Tensor& a) { return grad<0>(power)(a, n, scale); })(x).item() ==
        Approx(10 * 3 * (10 * 3 * 8 / 2.0) / 2 - 10 * 3 * 8 / 4.0));
  CHECK(doubles(vmap(grad<0>(power), {true, false, false})(array({1., 2.}), n, scale)) == Doubles{30, 120});
}

void check_doubles(const Tensor& got, const Doubles& want) {
  const Doubles all = doubles(got);
  REQUIRE(all.size() == want.size());
  for (size_t i = 0; i < want.size(); ++i) CHECK(all[i] == Approx(want[i]));
}

// 2 sin with 3 cos as its derivative, to be seen.
auto doubled() {
  return custom_vjp([](const Tensor& x) { return 2 * sin(x); },
                    [](const Tensor& x) { return std::pair(2 * sin(x), x); },
                    [](const Tensor& x, const Tensor& g) { return std::tuple(3 * g * cos(x)); });
}

TEST_CASE("the linear part of a custom_vjp is transposed and batched", "[api][custom_vjp]") {
  const auto f = doubled();
  const auto g = [f](const Tensor& x) { return f(x); };
  const auto scanned = [f](const Tensor& x) {
    return scan([f](const Tensor& c, const std::tuple<>&) { return std::pair(0.5 * f(c), std::tuple<>{}); },
                x, std::tuple<>{}, {.length = 3})
        .first;
  };
  const Tensor x = array({0.5, -1., 2.}), cotangents = array({1., -2., 0.5});
  const auto test = [&](const auto& h) {
    const auto push = [h](const Tensor& at) {
      return [along = linearize(h, std::tuple(at)).second](const Tensor& t) { return along(std::tuple(t)); };
    };
    const Tensor half(0.5);
    const double slope = grad(h)(half).item();
    CHECK(std::get<0>(linear_transpose(push(half), std::tuple(half))(Tensor(2.0))).item() ==
          Approx(2 * slope));
    Doubles slopes = doubles(vmap(grad(h))(x)), want, at_one;
    for (size_t i = 0; i < 3; ++i) {
      want.push_back(slopes[i] * doubles(cotangents)[i]);
      at_one.push_back(slope * doubles(cotangents)[i]);
    }
    const auto back = [&](const auto& along, const auto& ct) {
      return std::get<0>(linear_transpose(along, std::tuple(zeros_like(ct)))(ct));
    };
    const auto tangents = [&](const Tensor& t) { return vmap(push(half))(t); };
    const auto both = [&](const Tensor& t) {
      return vmap([&](const Tensor& at, const Tensor& d) { return push(at)(d); })(x, t);
    };
    check_doubles(back(tangents, cotangents), at_one);
    check_doubles(jit([&](const Tensor& ct) { return back(tangents, ct); })(cotangents), at_one);
    check_doubles(back(push(x), cotangents), want);
    check_doubles(back(both, cotangents), want);
    check_doubles(jit([&](const Tensor& ct) { return back(both, ct); })(cotangents), want);
    const auto nested = [&](const Tensor& t) { return vmap(vmap(push(half)))(t); };
    check_doubles(back(nested, cotangents.reshape({1, 3})), at_one);
    CHECK(contains(error_of([&] { vmap(push(half))(x).eval(); }, ErrorKind::kType),
                   "custom vjp has no forward-mode derivative"));
  };
  test(g);
  test(scanned);
}

}  // namespace
