// custom_root and custom_linear_solve: closed forms, linalg::solve, and what is refused.
#include <catch2/catch.hpp>
#include <cmath>
#include <tuple>
#include <utility>
#include <vector>

#include "api_testing.h"
#include "lamina/lamina.h"

namespace {

using namespace lamina;
using namespace lamina::testing;

Tensor matrix() { return array({{4., 1., -0.5}, {0.5, 5., 1.}, {-1., 0.25, 3.}}); }
Tensor right_side() { return array({1., -2., 0.5}); }

// Richardson's iteration.
constexpr auto kIterate = [](const auto& matvec, const Tensor& b) {
  return fori_loop(
      0, 400, [&](const Tensor&, const Tensor& x) { return x + 0.15 * (b - matvec(x)); }, zeros_like(b));
};
Tensor solved(const Tensor& a, const Tensor& b) {
  return custom_linear_solve([&](const Tensor& x) { return matmul(a, x); }, b, kIterate, kIterate);
}
Tensor exact(const Tensor& a, const Tensor& b) { return linalg::solve(a, b); }

void check_close(const Tensor& got, const Tensor& want) {
  REQUIRE(got.shape() == want.shape());
  const Doubles g = doubles(got), w = doubles(want);
  for (size_t i = 0; i < g.size(); ++i) CHECK(g[i] == Approx(w[i]).epsilon(1e-8).margin(1e-9));
}

TEST_CASE("custom_linear_solve has the derivatives of the solution", "[api][implicit]") {
  const Tensor a = matrix(), b = right_side();
  const auto cubes = [](auto solve) {
    return [solve](const Tensor& m, const Tensor& v) {
      const Tensor x = solve(m, v);
      return sum(x * x * x);
    };
  };
  const auto f = cubes(solved), g = cubes(exact);
  check_close(solved(a, b), exact(a, b));
  const auto compare = [&](const auto& d) {
    const auto got = d(f)(a, b), want = d(g)(a, b);
    check_close(std::get<0>(got), std::get<0>(want));
    check_close(std::get<1>(got), std::get<1>(want));
  };
  compare([](const auto& h) { return grad<0, 1>(h); });
  compare([](const auto& h) { return jit(grad<0, 1>(h)); });
  compare([](const auto& h) { return jacfwd<0, 1>(h); });
  const auto second = [](const auto& h) {
    return [h](const Tensor& m, const Tensor& v) {
      return std::tuple(hessian([&](const Tensor& w) { return h(w, v); })(m),
                        jacrev(grad([&](const Tensor& w) { return h(m, w); }))(v));
    };
  };
  compare(second);
  // In lanes of either.
  const Tensor as = stack({a, a + 0.1, a.transpose({1, 0})}), bs = stack({b, 2 * b, b * b});
  for (const auto& mapped : std::vector<std::vector<bool>>{{true, true}, {false, true}, {true, false}}) {
    const Tensor& m = mapped[0] ? as : a;
    const Tensor& v = mapped[1] ? bs : b;
    check_close(vmap(solved, mapped)(m, v), vmap(exact, mapped)(m, v));
    check_close(vmap(grad<0>(f), mapped)(m, v), vmap(grad<0>(g), mapped)(m, v));
    check_close(vmap(grad<1>(f), mapped)(m, v), vmap(grad<1>(g), mapped)(m, v));
  }
}

TEST_CASE("custom_linear_solve of containers, with what the solver gives besides", "[api][implicit]") {
  using Pair = std::pair<Tensor, Tensor>;
  const Pair b{ones({2, 2}), Tensor(3.0)};
  const auto f = [&](const Tensor& s) {
    const auto [x, steps] = custom_linear_solve(
        [&](const Pair& v) {
          return Pair{2 * s * v.first, 2 * s * v.second};
        },
        b,
        [&](const auto& matvec, const Pair& given) {
          const Pair twice = matvec(given);
          CHECK(twice.first.shape() == Shape{2, 2});
          return std::pair(Pair{given.first / (2 * s), given.second / (2 * s)}, Tensor(7));
        },
        {.symmetric = true});
    CHECK(steps.dtype() == DType::int32);
    return sum(x.first) + x.second;
  };
  CHECK(f(Tensor(1.0)).item() == Approx(3.5));
  CHECK(grad(f)(Tensor(1.0)).item() == Approx(-3.5));
  CHECK(grad(grad(f))(Tensor(1.0)).item() == Approx(7));
  CHECK(jvp(f, std::tuple(Tensor(1.0)), std::tuple(Tensor(2.0))).second.item() == Approx(-7));
}

Tensor cube_root(const Tensor& a) {
  return custom_root([&](const Tensor& x) { return x * x * x - a; }, ones_like(a),
                     [](const auto& f, const Tensor& guess) {
                       return fori_loop(
                           0, 60, [&](const Tensor&, const Tensor& x) { return x - f(x) / (3 * x * x); },
                           guess);
                     },
                     [](const auto& g, const Tensor& y) { return y / g(ones_like(y)); });
}

TEST_CASE("custom_root has derivatives of every order", "[api][implicit]") {
  const Tensor eight = array(Doubles{8.0}).reshape({});
  const Tensor many = array({8., 2., 1.});
  const auto compare = [&](const auto& f, double scale, double power) {
    const auto want = [&](double a) { return scale * std::pow(a, power); };
    CHECK(f(eight).item() == Approx(want(8)).epsilon(1e-11));
    CHECK(jit(f)(eight).item() == Approx(want(8)).epsilon(1e-11));
    const Doubles lanes = doubles(vmap(f)(many));
    for (size_t i = 0; i < 3; ++i) CHECK(lanes[i] == Approx(want(doubles(many)[i])).epsilon(1e-11));
  };
  compare(cube_root, 1, 1. / 3);
  compare(grad(cube_root), 1. / 3, -2. / 3);
  compare(grad(grad(cube_root)), -2. / 9, -5. / 3);
  compare(jacfwd(cube_root), 1. / 3, -2. / 3);
  compare(jacfwd(grad(cube_root)), -2. / 9, -5. / 3);
}

TEST_CASE("custom_root of a system goes by custom_linear_solve", "[api][implicit]") {
  // x + 0.1 sin(A x) = b, by its fixed point.
  const auto f = [](const Tensor& a, const Tensor& b) {
    return custom_root([&](const Tensor& x) { return x + 0.1 * sin(matmul(a, x)) - b; }, b,
                       [](const auto& residual, const Tensor& guess) {
                         return fori_loop(
                             0, 100, [&](const Tensor&, const Tensor& x) { return x - residual(x); }, guess);
                       },
                       [](const auto& slope, const Tensor& y) {
                         return custom_linear_solve(
                             slope, y,
                             [](const auto& g, const Tensor& v) {
                               return linalg::solve(jacfwd([&](const Tensor& x) { return g(x); })(v), v);
                             },
                             [](const auto& g, const Tensor& v) {
                               return linalg::solve(jacfwd([&](const Tensor& x) { return g(x); })(v), v);
                             });
                       });
  };
  const Tensor a = matrix(), b = right_side();
  const auto loss = [&](const Tensor& m, const Tensor& v) { return sum(f(m, v) * array({1., 2., 3.})); };
  const auto [by_a, by_b] = grad<0, 1>(loss)(a, b);
  const double h = 1e-5;
  for (int64_t i = 0; i < 3; ++i) {
    const Tensor step = h * eye(3, DType::float64)[i];
    CHECK(doubles(by_b)[i] ==
          Approx((loss(a, b + step).item() - loss(a, b - step).item()) / (2 * h)).epsilon(1e-7));
    const Tensor entry = step.reshape({1, 3}) * array({{0.}, {1.}, {0.}});
    CHECK(
        doubles(by_a)[3 + i] ==
        Approx((loss(a + entry, b).item() - loss(a - entry, b).item()) / (2 * h)).epsilon(1e-7).margin(1e-9));
  }
}

TEST_CASE("equations that do not fit are refused", "[api][implicit]") {
  const auto twice = [](const Tensor& x) { return 2 * x; };
  const auto half = [](const auto&, const Tensor& b) { return b / 2; };
  const auto message_of = [](const auto& f) {
    const std::string message = error_of(f, ErrorKind::kType);
    CHECK(contains(message, "implicit_test.cc:"));
    return message;
  };
  CHECK(contains(message_of([&] {
                   grad([&](const Tensor& b) { return sum(custom_linear_solve(twice, b, half)); })(ones({2}));
                 }),
                 "custom_linear_solve needs transpose_solve, or"));
  CHECK(contains(message_of([&] { custom_linear_solve(twice, arange(3), half); }),
                 "needs float or complex arrays, not int32[3]"));
  const auto shorter = [](const auto&, const Tensor& b) { return b.at({Slice{0, 2, 1}}); };
  CHECK(contains(message_of([&] { custom_linear_solve(twice, ones({3}), shorter); }),
                 "solve returned float32[2] where float32[3] is needed"));
  const auto longer = [](const auto& f, const Tensor& x) { return f(stack({x, x})); };
  const auto divided = [](const auto& g, const Tensor& y) { return y / g(ones_like(y)); };
  for (const auto& run : {0, 1})
    CHECK(contains(message_of([&] {
                     const auto f = [&](const Tensor& a) {
                       return custom_root([&](const Tensor& x) { return x - a; }, Tensor(1.0), longer,
                                          divided);
                     };
                     run ? grad(f)(Tensor(2.0)) : f(Tensor(2.0));
                   }),
                   "is called with float32[2], and is solved for float32[]"));
  const auto wrong = [](const auto&, const Tensor& y) { return stack({y, y}); };
  CHECK(contains(message_of([&] {
                   grad([&](const Tensor& a) {
                     return custom_root([&](const Tensor& x) { return x - a; }, Tensor(1.0),
                                        [](const auto& f, const Tensor& x) { return x - f(x); }, wrong);
                   })(Tensor(2.0));
                 }),
                 "tangent_solve returned float32[2] where float32[] is needed"));
}

}  // namespace
