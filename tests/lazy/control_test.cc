// Loops and branches of the C++ API: trees as carries, nesting, derivatives, what does not fit.
#include <array>
#include <catch2/catch.hpp>
#include <cmath>
#include <functional>
#include <map>

#include "api_testing.h"
#include "lamina/lamina.h"

namespace {

using namespace lamina;
using namespace lamina::testing;

struct State {
  Tensor position, velocity;
  int order = 2;  // a number: fixed
  auto fields() { return std::tie(position, velocity, order); }
};

TEST_CASE("scan carries and stacks trees", "[api][control]") {
  const Tensor xs = array({1., 2., 3., 4.});
  const auto [total, sums] =
      scan([](const Tensor& c, const Tensor& x) { return std::pair(c + x, c * x); }, Tensor(0.0), xs);
  CHECK(doubles(total) == Doubles{10});
  CHECK(doubles(sums) == Doubles{0, 2, 9, 24});
  // The number took the type of what it met.
  CHECK(total.dtype() == DType::float64);

  // Structs, pairs, arrays, vectors and maps, nested.
  using Carry = std::pair<State, std::map<std::string, std::vector<Tensor>>>;
  using Item = std::tuple<Tensor, std::array<Tensor, 2>>;
  const Carry start{{zeros({2}), ones({2})}, {{"seen", {Tensor(0), zeros({})}}}};
  const Item items{array({1.f, 2.f, 3.f}), {array({0.f, 1.f, 0.f}), ones({3, 2})}};
  const auto [last, ys] = scan(
      [](const Carry& c, const Item& x) {
        Carry next = c;
        next.first.position = c.first.position + std::get<0>(x) * c.first.velocity;
        next.second["seen"][0] = c.second.at("seen")[0] + 1;
        next.second["seen"][1] = c.second.at("seen")[1] + sum(std::get<1>(x)[1]);
        return std::tuple(next, std::vector<Tensor>{std::get<1>(x)[0], c.first.position});
      },
      start, items);
  CHECK(floats(last.first.position) == Floats{6, 6});
  CHECK(last.first.order == 2);
  CHECK(last.second.at("seen")[0].item<int>() == 3);
  CHECK(last.second.at("seen")[1].item() == 6);
  CHECK(floats(ys.at(0)) == Floats{0, 1, 0});
  CHECK(floats(ys.at(1)) == Floats{0, 0, 1, 1, 3, 3});

  // From the end; without items; a map.
  const auto reversed = scan([](const Tensor& c, const Tensor& x) { return std::pair(c + x, c + x); },
                             Tensor(0.0), xs, {.reverse = true});
  CHECK(doubles(reversed.second) == Doubles{10, 9, 7, 4});
  const auto doubled =
      scan([](const Tensor& c, const std::tuple<>&) { return std::pair(c * 2, std::tuple<>{}); }, Tensor(1.0),
           std::tuple<>{}, {.length = 10});
  CHECK(doubled.first.item() == 1024);
  CHECK(doubles(map([](const Tensor& x) { return x * x; }, xs)) == Doubles{1, 4, 9, 16});
}

TEST_CASE("associative_scan", "[api][control]") {
  const auto product = [](const Tensor& a, const Tensor& b) { return a * b; };
  for (int n : {0, 1, 2, 3, 4, 7, 8, 13}) {
    Doubles x, forward(n), backward(n);
    for (int i = 0; i < n; ++i) x.push_back(1 + 0.5 * i);
    for (int i = 0; i < n; ++i) forward[i] = x[i] * (i ? forward[i - 1] : 1);
    for (int i = n; i-- > 0;) backward[i] = x[i] * (i + 1 < n ? backward[i + 1] : 1);
    const Doubles got = doubles(associative_scan(product, array(x))),
                  turned = doubles(associative_scan(product, array(x), {.reverse = true}));
    for (int i = 0; i < n; ++i) {
      CHECK(got[i] == Approx(forward[i]).epsilon(1e-14));
      CHECK(turned[i] == Approx(backward[i]).epsilon(1e-14));
    }
  }
  // A linear recurrence, with its derivative: s' = a s + b.
  using Step = std::pair<Tensor, Tensor>;
  const auto last = [](const Tensor& a) {
    const Step all = associative_scan(
        [](const Step& x, const Step& y) {
          return Step{x.first * y.first, y.first * x.second + y.second};
        },
        Step{a, ones({4}, DType::float64)});
    return all.second[3];
  };
  const Tensor a = array({0.5, 0.25, 2., 3.});
  CHECK(last(a).item() == Approx(1 + 3 * (1 + 2 * (1 + 0.25))));
  const Doubles slope = doubles(grad(last)(a));
  const Doubles want{0, 3 * 2 * 1, 3 * 1.25, 3.5};
  for (int i = 0; i < 4; ++i) CHECK(slope[i] == Approx(want[i]));
  CHECK_THROWS_WITH(
      associative_scan([](const Step& x, const Step&) { return x; }, Step{ones({2}), ones({3})}),
      Catch::Matchers::Contains("elems.second has shape [3]"));
}

TEST_CASE("while_loop and fori_loop", "[api][control]") {
  // Newton's iteration, in double precision.
  auto root = [](const Tensor& a) {
    return while_loop([&](const Tensor& x) { return abs(x * x - a) > 1e-12; },
                      [&](const Tensor& x) { return 0.5 * (x + a / x); }, a);
  };
  CHECK(root(array(Doubles{2}).reshape({})).item() == Approx(std::sqrt(2)).epsilon(1e-15));
  CHECK(jit(root)(array(Doubles{9}).reshape({})).item() == Approx(3).epsilon(1e-15));
  // Lanes stop by themselves.
  const Doubles lanes = doubles(vmap(root)(array({4., 9., 16.})));
  for (int i = 0; i < 3; ++i) CHECK(lanes[i] == Approx(i + 2).epsilon(1e-12));
  const auto [value, slope] = jvp(root, std::tuple(array(Doubles{2}).reshape({})), std::tuple(Tensor(1.0)));
  CHECK(slope.item() == Approx(0.5 / std::sqrt(2)).epsilon(1e-9));

  // In reverse, whatever number of states is kept.
  for (const LoopOptions& options :
       {LoopOptions{}, LoopOptions{.checkpoint = 1}, LoopOptions{.checkpoint = 2},
        LoopOptions{.checkpoint = checkpoint_sqrt}}) {
    auto kept = [&](const Tensor& a) {
      return while_loop([&](const Tensor& x) { return abs(x * x - a) > 1e-12; },
                        [&](const Tensor& x) { return 0.5 * (x + a / x); }, a, options);
    };
    CHECK(grad(kept)(array(Doubles{2}).reshape({})).item() == Approx(0.5 / std::sqrt(2)).epsilon(1e-9));
    CHECK(jit(grad(grad(kept)))(array(Doubles{2}).reshape({})).item() ==
          Approx(-0.25 * std::pow(2, -1.5)).epsilon(1e-9));
    const Doubles slopes = doubles(vmap(grad(kept))(array({4., 9.})));
    CHECK(slopes[0] == Approx(0.25).epsilon(1e-9));
    CHECK(slopes[1] == Approx(1. / 6).epsilon(1e-9));
  }
  CHECK_THROWS_WITH(while_loop([](const Tensor& x) { return x < 3; }, [](const Tensor& x) { return x + 1; },
                               0, {.checkpoint = 0}),
                    Catch::Matchers::Contains("at least 1, not 0"));

  auto factorial = [](const Tensor& i, const std::pair<Tensor, Tensor>& c) {
    return std::pair(c.first * (i + 1), c.second + i);
  };
  const auto [product, places] = fori_loop(0, 5, factorial, std::pair<Tensor, Tensor>(1, 0));
  CHECK(product.item() == 120);
  CHECK(places.item() == 10);
  const Tensor n(5);
  CHECK(fori_loop(0, n, factorial, std::pair<Tensor, Tensor>(1, 0)).first.item() == 120);
  CHECK(fori_loop(3, 3, factorial, std::pair<Tensor, Tensor>(7, 0)).first.item() == 7);
  // A number as carry.
  CHECK(fori_loop(
            0, 3, [](const Tensor&, const Tensor& c) { return c * 2; }, 1)
            .item<int>() == 8);
}

TEST_CASE("cond and switch_case run one branch", "[api][control]") {
  const Tensor x = array({1.f, 2.f});
  auto f = [&](const Tensor& p, const Tensor& other) {
    return cond(
        p, [&](const Tensor& v) { return std::pair(v * 2, other); },
        [](const Tensor& v) { return std::pair(v + 10, Tensor(0)); }, x);
  };
  CHECK(floats(f(true, Tensor(1)).first) == Floats{2, 4});
  CHECK(floats(f(false, Tensor(1)).first) == Floats{11, 12});
  CHECK(contains(error_of([&] { f(true, x); }, ErrorKind::kType),
                 "result.second is int32[] from the false branch and float32[2] from the true branch"));
  auto g = [](const Tensor& p, const Tensor& v) {
    return cond(
        p > 0, [](const Tensor& u) { return u * u; }, [&](const Tensor& u) { return u - p; }, v);
  };
  CHECK(floats(g(Tensor(-3.0), x)) == Floats{4, 5});
  CHECK(floats(jit(g)(Tensor(1.0), x)) == Floats{1, 4});
  CHECK(floats(vmap(g)(array({-1.f, 1.f}), array({3.f, 3.f}))) == Floats{4, 9});
  // Only the branch taken has a derivative: 0 * infinity does not appear.
  auto safe = [](const Tensor& v) {
    return cond(
        v > 0, [](const Tensor& u) { return sqrt(u); }, [](const Tensor& u) { return 0 * u; }, v);
  };
  CHECK(grad(safe)(Tensor(0.0)).item() == 0);
  CHECK(grad(safe)(Tensor(4.0)).item() == 0.25);
  // The result of both branches: numbers take the other's type.
  CHECK(cond(
            true, [] { return 1.5; }, [] { return 2; })
            .item() == 1.5);

  const auto branches = std::tuple([](const Tensor& v) { return v; }, [](const Tensor& v) { return 2 * v; },
                                   [](const Tensor& v) { return v * v; });
  for (const auto& [index, want] : {std::pair(-1, 3.f), {0, 3.f}, {1, 6.f}, {2, 9.f}, {7, 9.f}})
    CHECK(switch_case(index, branches, Tensor(3.0)).item() == want);
  const std::vector<std::function<Tensor(const Tensor&, const Tensor&)>> binary{
      [](const Tensor& a, const Tensor& b) { return a + b; },
      [](const Tensor& a, const Tensor& b) { return a - b; }};
  CHECK(switch_case(Tensor(1), binary, Tensor(3.0), 1.0).item() == 2);
  CHECK(contains(error_of([&] { switch_case(1.5, branches, Tensor(3.0)); }, ErrorKind::kType),
                 "integer scalar as its index"));
  CHECK(contains(error_of(
                     [&] {
                       cond(
                           x, [] { return 1; }, [] { return 2; });
                     },
                     ErrorKind::kType),
                 "scalar condition, not float32[2]"));
}

// The sum of x[k] c[k] with c[k+1] = sin(c[k]) w, and its derivatives, in plain C++.
double reference(double w, const Doubles& xs) {
  double c = 1, total = 0;
  for (double x : xs) {
    total += x * c;
    c = std::sin(c) * w;
  }
  return total;
}

TEST_CASE("loops under every transform, in any nesting", "[api][control]") {
  const Doubles data{0.5, -1, 2, 0.25};
  const Tensor xs = array(data), w = array(Doubles{1.3}).reshape({});
  auto f = [](const Tensor& weight, const Tensor& v) {
    return sum(scan(  // the weight is captured
                   [&](const Tensor& c, const Tensor& x) { return std::pair(sin(c) * weight, x * c); },
                   Tensor(1.0), v)
                   .second);
  };
  CHECK(f(w, xs).item() == Approx(reference(1.3, data)).epsilon(1e-14));
  const double h = 1e-5;
  const double first = (reference(1.3 + h, data) - reference(1.3 - h, data)) / (2 * h);
  const double second =
      (reference(1.3 + 1e-4, data) - 2 * reference(1.3, data) + reference(1.3 - 1e-4, data)) / 1e-8;
  CHECK(grad(f)(w, xs).item() == Approx(first).epsilon(1e-9));
  CHECK(grad(grad(f))(w, xs).item() == Approx(second).epsilon(1e-6));
  CHECK(jit(grad(f))(w, xs).item() == grad(f)(w, xs).item());
  CHECK(jvp(f, std::tuple(w, xs), std::tuple(ones_like(w), zeros_like(xs))).second.item() ==
        Approx(first).epsilon(1e-9));
  CHECK(hessian(f)(w, xs).item() == Approx(second).epsilon(1e-6));
  const Tensor ws = array({1.3, 0.2, -2.});
  const Doubles lanes = doubles(vmap(grad(f), {true, false})(ws, xs));
  for (int i = 0; i < 3; ++i) CHECK(lanes[i] == grad(f)(ws[i], xs).item());
  CHECK(doubles(jit(vmap(grad(f), {true, false}))(ws, xs)) == lanes);
  // Loops in loops, with a branch in them, under a checkpoint.
  auto nest = [&](const Tensor& x) {
    return fori_loop(
        0, 3,
        [&](const Tensor& i, const Tensor& c) {
          const Tensor inner = while_loop([](const Tensor& v) { return v > 2; },
                                          [](const Tensor& v) { return v / 2; }, stop_gradient(c));
          return cond(
              i == 1, [&](const Tensor& v) { return v * x + inner; }, [](const Tensor& v) { return v + 1; },
              c);
        },
        x);
  };
  // ((x + 1) x + y) + 1, y = (x + 1) halved until it is at most 2.
  const Tensor three = array(Doubles{3}).reshape({});
  CHECK(nest(three).item() == 3 * 4 + 2 + 1);
  CHECK(grad(nest)(three).item() == 7);
  CHECK(grad(checkpoint(nest))(three).item() == 7);
  CHECK(jit(grad(nest))(three).item() == 7);
}

TEST_CASE("what does not fit is said with the leaf, both types and the line", "[api][control]") {
  using Carry = std::tuple<Tensor, std::vector<Tensor>>;
  const Carry start{zeros({2}), {zeros({3}), zeros({})}};
  int line = 0;
  std::string message = error_of(
      [&] {
        line = __LINE__ + 1;
        scan(
            [](const Carry& c, const Tensor& x) {
              return std::pair(Carry{std::get<0>(c), {std::get<1>(c)[0], std::get<1>(c)[1] + x}}, x);
            },
            start, ones({4, 2}));
      },
      ErrorKind::kType);
  CHECK(contains(message, "scan: the body must return a carry of the type it was given"));
  CHECK(contains(message, "carry<1>[1] is float32[] going in but float32[2] coming out"));
  CHECK(contains(message, "control_test.cc:" + std::to_string(line)));

  message = error_of(
      [&] {
        fori_loop(
            0, 2, [](const Tensor&, const Tensor& c) { return c * 0.5; }, arange(3));
      },
      ErrorKind::kType);
  CHECK(contains(message, "carry is int32[3] going in but float32[3] coming out"));
  message = error_of(
      [&] {
        while_loop([](const Tensor& c) { return c; }, [](const Tensor& c) { return c * 2; }, ones({2}));
      },
      ErrorKind::kType);
  CHECK(contains(message, "the condition must return one bool scalar, not float32[2]"));
  message = error_of(
      [&] {
        while_loop([](const std::vector<Tensor>& c) { return c[0] > 0; },
                   [](std::vector<Tensor> c) {
                     c.push_back(c[0]);
                     return c;
                   },
                   std::vector<Tensor>{ones({})});
      },
      ErrorKind::kType);
  CHECK(contains(message, "while_loop: the body must keep the lengths"));
  message = error_of(
      [&] {
        scan(
            [](const State& s, const Tensor&) {
              return std::pair(State{s.position, s.velocity, 3}, Tensor(0));
            },
            State{ones({}), ones({})}, ones({2}));
      },
      ErrorKind::kType);
  CHECK(contains(message, "numbers of containers alike"));
  const auto sum_both = [](const Tensor& c, const std::pair<Tensor, Tensor>& x) {
    return std::pair(c + x.first + x.second, c);
  };
  message =
      error_of([&] { scan(sum_both, Tensor(0.0), std::pair(ones({3}), ones({4}))); }, ErrorKind::kValue);
  CHECK(contains(message, "length 3: xs.first float32[3]; length 4: xs.second float32[4]"));
  message = error_of([&] { scan(sum_both, Tensor(0.0), std::pair(ones({3}), ones({}))); }, ErrorKind::kValue);
  CHECK(contains(message, "xs.second is the scalar float32[]"));
  message = error_of([&] { scan(sum_both, Tensor(0.0), std::pair(ones({3}), ones({3})), {.length = 5}); },
                     ErrorKind::kValue);
  CHECK(contains(message, "length=5 does not fit xs.first float32[3] of length 3"));
  message = error_of(
      [&] {
        scan([](const Tensor& c, const std::tuple<>&) { return std::pair(c, c); }, Tensor(1.0),
             std::tuple<>{});
      },
      ErrorKind::kValue);
  CHECK(contains(message, "needs `length`"));
  // An error of the user's function keeps its own place.
  message = error_of(
      [&] {
        scan([](const Tensor& c, const Tensor& x) { return std::pair(c, matmul(x, c)); }, ones({3}),
             ones({2, 2}));
      },
      ErrorKind::kValue);
  CHECK(contains(message, "matmul"));
  // Nothing stays open after an error.
  CHECK(grad([](const Tensor& x) { return x * x; })(Tensor(3.0)).item() == 6);
}

TEST_CASE("a loop in a loop of calls compiles once and keeps nothing", "[api][control]") {
  auto run = [](const Tensor& x) {
    return scan([&](const Tensor& c, const Tensor& v) { return std::pair(c * x + v, c); }, Tensor(1.0),
                ones({5}))
        .first.item();
  };
  for (int i = 0; i < 3; ++i)
    run(Tensor(0.5));  // the ones that are made each time become an array that is kept
  const cache::Stats before = cache::stats();
  for (int i = 0; i < 50; ++i) run(Tensor(0.01 * i));
  CHECK(cache::stats().misses == before.misses);
}

TEST_CASE("map takes some elements at a time", "[api][control]") {
  const auto square = [](const Tensor& x) { return std::pair(x * x, sum(x)); };
  const Tensor xs = arange(7) * 0.5;
  const Tensor rows = stack({xs, xs + 1}, 1);
  for (const int64_t batch : {1, 2, 3, 7, 10}) {
    const auto mapped = [&](const Tensor& x) { return map(square, x, {.batch_size = batch}); };
    for (const auto& [squares, sums] : {mapped(rows), jit(mapped)(rows)}) {
      CHECK(squares.shape() == Shape{7, 2});
      CHECK(floats(squares) == floats(rows * rows));
      CHECK(floats(sums) == floats(2 * xs + 1));
    }
    const auto total = [&](const Tensor& x) { return sum(mapped(x).first); };
    CHECK(floats(grad(total)(rows)) == floats(2 * rows));
    CHECK(floats(vmap(total)(stack({rows, rows}))) == floats(full({2}, sum(rows * rows).item())));
    CHECK(map(square, zeros({0, 2}), {.batch_size = batch}).first.shape() == Shape{0, 2});
  }
  const std::string none = error_of([&] { map(square, xs, {.batch_size = 0}); }, ErrorKind::kValue);
  CHECK(contains(none, "map: a batch has at least 1 row, not 0"));
  CHECK(contains(none, "control_test.cc:"));
  const auto added = [](const std::pair<Tensor, Tensor>& p) { return p.first + p.second; };
  for (const MapOptions options : {MapOptions{}, MapOptions{.batch_size = 2}})
    CHECK(
        contains(error_of([&] { map(added, std::pair(xs, ones({3})), options); }, ErrorKind::kValue),
                 "map needs xs of one length along axis 0, but got length 7: xs.first float32[7]; length 3"));
}

}  // namespace
