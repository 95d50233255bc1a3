// Functions that call themselves as deep as traced values say.
#include <array>
#include <catch2/catch.hpp>
#include <cmath>

#include "api_testing.h"
#include "lamina/lamina.h"

namespace {

using namespace lamina;
using namespace lamina::testing;

auto factorial() {
  return recursive<Tensor(Tensor)>([](const auto& self, const Tensor& n) {
    return cond(
        n < 2, [](const Tensor&) { return Tensor(1.0); }, [&](const Tensor& m) { return m * self(m - 1); },
        n);
  });
}
auto fibonacci() {
  return recursive<Tensor(Tensor)>([](const auto& self, const Tensor& n) {
    return cond(
        n < 2, [](const Tensor& m) { return m; }, [&](const Tensor& m) { return self(m - 1) + self(m - 2); },
        n);
  });
}

TEST_CASE("recursion: values", "[api][recursion]") {
  for (int n : {0, 1, 5, 10}) {
    CHECK(factorial()(Tensor(n)).item() == std::tgamma(n + 1));
    CHECK(jit(factorial())(Tensor(n)).item() == std::tgamma(n + 1));
  }
  const Doubles want{0, 1, 1, 2, 3, 5, 8, 13, 21, 34, 55};
  CHECK(doubles(vmap(fibonacci())(arange(11))) == want);
  CHECK(doubles(jit(vmap(fibonacci()))(arange(11))) == want);
  CHECK(fibonacci()(Tensor(12)).dtype() == DType::int32);
  // The greatest common divisor, of two arguments; what it uses from outside is not passed on.
  const Tensor zero(0);
  auto gcd = recursive<Tensor(Tensor, Tensor)>([&](const auto& self, const Tensor& a, const Tensor& b) {
    return cond(
        b == zero, [](const Tensor& x, const Tensor&) { return x; },
        [&](const Tensor& x, const Tensor& y) { return self(y, remainder(x, y)); }, a, b);
  });
  CHECK(gcd(Tensor(1071), Tensor(462)).item() == 21);
}

TEST_CASE("recursion: derivatives of both modes and second order", "[api][recursion]") {
  // x^n with n as deep as the data say.
  auto power = recursive<Tensor(Tensor, Tensor)>([](const auto& self, const Tensor& x, const Tensor& n) {
    return cond(
        n < 1, [](const Tensor& y, const Tensor&) { return ones_like(y); },
        [&](const Tensor& y, const Tensor& m) { return y * self(y, m - 1); }, x, n);
  });
  const Tensor x = array(Doubles{1.5}).reshape({}), n(5);
  CHECK(power(x, n).item() == Approx(std::pow(1.5, 5)));
  CHECK(grad(power)(x, n).item() == Approx(5 * std::pow(1.5, 4)));
  CHECK(jit(grad(power))(x, n).item() == Approx(5 * std::pow(1.5, 4)));
  auto of_x = [&](const Tensor& v) { return power(v, n); };
  CHECK(jvp(of_x, std::tuple(x), std::tuple(Tensor(1.0))).second.item() == Approx(5 * std::pow(1.5, 4)));
  CHECK(grad(grad(of_x))(x).item() == Approx(20 * std::pow(1.5, 3)));
  CHECK(hessian(of_x)(x).item() == Approx(20 * std::pow(1.5, 3)));
  const Tensor xs = array({0.5, 1., 2.}), ns = array({0, 3, 6});
  const Doubles slopes = doubles(vmap(grad(power))(xs, ns));
  CHECK(slopes[0] == 0);
  CHECK(slopes[1] == Approx(3));
  CHECK(slopes[2] == Approx(6 * 32));
  // What the function captures is differentiated too.
  auto scaled = [&](const Tensor& w) {
    return recursive<Tensor(Tensor)>([&](const auto& self, const Tensor& m) {
      return cond(
          m < 1, [&](const Tensor&) { return w; }, [&](const Tensor& k) { return w * self(k - 1); }, m);
    })(Tensor(3));
  };
  CHECK(grad(scaled)(x).item() == Approx(4 * std::pow(1.5, 3)));
}

struct Tree {
  Tensor total;
  std::array<Tensor, 1> depth;
  auto fields() { return std::tie(total, depth); }
};

TEST_CASE("recursion: containers, calls in loops and in branches of switches", "[api][recursion]") {
  // The sum of a heap's numbers below a node, and how deep it is.
  const Tensor values = array({1., 2., 3., 4., 5., 6., 7., 8., 9., 10.});
  auto below = recursive<Tree(Tensor)>([&](const auto& self, const Tensor& i) {
    return cond(
        i < 10,
        [&](const Tensor& k) {
          const Tree a = self(2 * k + 1), b = self(2 * k + 2);
          return Tree{values[k] + a.total + b.total, {1 + maximum(a.depth[0], b.depth[0])}};
        },
        [](const Tensor&) {
          return Tree{Tensor(0.0), {Tensor(0)}};
        },
        i);
  });
  const Tree all = below(Tensor(0));
  CHECK(all.total.item() == 55);
  CHECK(all.depth[0].item() == 4);
  CHECK(jit(below)(Tensor(1)).total.item() == 2 + 4 + 5 + 8 + 9 + 10);
  // Ordered trees of n nodes, counted in a loop over how the rest is divided.
  auto catalan = recursive<Tensor(Tensor)>([](const auto& self, const Tensor& n) {
    return cond(
        n < 1, [](const Tensor&) { return Tensor(1); },
        [&](const Tensor& m) {
          return fori_loop(
              Tensor(0), m,
              [&](const Tensor& k, const Tensor& sum) { return sum + self(k) * self(m - 1 - k); }, Tensor(0));
        },
        n);
  });
  CHECK(doubles(vmap(catalan)(arange(7))) == Doubles{1, 1, 2, 5, 14, 42, 132});
  // The Collatz steps of a number, with a switch of three.
  auto collatz = recursive<Tensor(Tensor)>([](const auto& self, const Tensor& n) {
    const Tensor which = where(n < 2, Tensor(0), 1 + remainder(n, 2));
    return switch_case(which,
                       std::tuple([](const Tensor&) { return Tensor(0); },
                                  [&](const Tensor& m) { return 1 + self(floor_divide(m, 2)); },
                                  [&](const Tensor& m) { return 1 + self(3 * m + 1); }),
                       n);
  });
  CHECK(collatz(Tensor(27)).item() == 111);
}

TEST_CASE("recursion: functions that call each other, and one inside another", "[api][recursion]") {
  auto even = recursive<Tensor(Tensor)>([](const auto& is_even, const Tensor& n) {
    auto odd = recursive<Tensor(Tensor)>([&](const auto&, const Tensor& m) {
      return cond(
          m < 1, [](const Tensor&) { return Tensor(false); }, [&](const Tensor& k) { return is_even(k - 1); },
          m);
    });
    return cond(
        n < 1, [](const Tensor&) { return Tensor(true); }, [&](const Tensor& m) { return odd(m - 1); }, n);
  });
  CHECK(doubles(vmap(even)(arange(5))) == Doubles{1, 0, 1, 0, 1});
  // Ackermann's function: a recursion in a recursion.
  auto ackermann = recursive<Tensor(Tensor, Tensor)>([](const auto& self, const Tensor& m, const Tensor& n) {
    return cond(
        m < 1, [](const Tensor&, const Tensor& b) { return b + 1; },
        [&](const Tensor& a, const Tensor& b) {
          return cond(
              b < 1, [&](const Tensor& c, const Tensor&) { return self(c - 1, Tensor(1)); },
              [&](const Tensor& c, const Tensor& d) { return self(c - 1, self(c, d - 1)); }, a, b);
        },
        m, n);
  });
  CHECK(ackermann(Tensor(2), Tensor(3)).item() == 9);
  // Sums of factorials: an own recursion in each call of another.
  auto sums = recursive<Tensor(Tensor)>([](const auto& self, const Tensor& n) {
    const auto own = factorial();
    return cond(
        n < 1, [](const Tensor&) { return Tensor(0.0); },
        [&](const Tensor& m) { return own(m) + self(m - 1); }, n);
  });
  CHECK(sums(Tensor(5)).item() == 1 + 2 + 6 + 24 + 120);
}

TEST_CASE("recursion: numbers take the types that they meet", "[api][recursion]") {
  // The first call gives an integer, those inside floats.
  auto halves = recursive<Tensor(Tensor)>([](const auto& self, const Tensor& x) {
    return cond(
        x < 1, [](const Tensor& y) { return y; }, [&](const Tensor& y) { return self(y / 2); }, x);
  });
  CHECK(halves(Tensor(5)).item() == Approx(0.625));
  CHECK(halves(array(Doubles{5}).reshape({})).dtype() == DType::float64);
}

TEST_CASE("recursion: mistakes are told in words, with the line", "[api][recursion]") {
  auto endless = recursive<Tensor(Tensor)>([](const auto& self, const Tensor& n) { return self(n - 1); });
  std::string message = error_of([&] { endless(Tensor(1)); }, ErrorKind::kValue);
  CHECK(contains(message, "calls itself on every path"));
  CHECK(contains(message, "recursion_test.cc:"));
  auto growing = recursive<Tensor(Tensor)>([](const auto& self, const Tensor& x) {
    return cond(
        sum(x) > 10, [](const Tensor& y) { return sum(y); },
        [&](const Tensor& y) {
          return self(concatenate({y, y}));
        },
        x);
  });
  message = error_of([&] { growing(ones({2})); }, ErrorKind::kType);
  CHECK(contains(message, "float32[2] in one call and float32[4] in another"));
  CHECK(contains(message, "recursion_test.cc:"));
  auto counted = recursive<Tensor(int, Tensor)>([](const auto& self, int k, const Tensor& x) {
    return cond(
        x < 1, [](const Tensor& y) { return y; }, [&](const Tensor& y) { return self(k + 1, y - 1); }, x);
  });
  CHECK(contains(error_of([&] { counted(1, Tensor(3.0)); }, ErrorKind::kType),
                 "make a number that changes a Tensor"));
  auto deep = recursive<Tensor(Tensor)>(
      [](const auto& self, const Tensor& n) {
        return cond(
            n < 1, [](const Tensor& m) { return m; }, [&](const Tensor& m) { return 1 + self(m - 1); }, n);
      },
      {.depth = 50});
  CHECK(deep(Tensor(40)).item() == 40);
  for (const std::string& text : {error_of([&] { deep(Tensor(60)); }, ErrorKind::kValue),
                                  error_of([&] { jit(deep)(Tensor(60)).item(); }, ErrorKind::kValue),
                                  error_of(
                                      [&] {
                                        vmap(deep)(array({1, 60, 2})).to_host<int32_t>();
                                      },
                                      ErrorKind::kValue)}) {
    CHECK(contains(text, "deeper than 50 calls"));
    CHECK(contains(text, "recursion_test.cc:"));
  }
  CHECK(contains(checkify(deep)(Tensor(60)).first.message().value_or(""), "deeper than 50 calls"));
  CHECK(contains(error_of(
                     [] {
                       recursive<Tensor(Tensor)>([](const auto&, const Tensor& x) { return x; },
                                                 {.depth = 0})(Tensor(1));
                     },
                     ErrorKind::kValue),
                 "at least 1, not 0"));
}

}  // namespace
