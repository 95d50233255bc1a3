// Which arguments derivatives are by, values beside them, complex and integer arguments, transposes.
#include <catch2/catch.hpp>
#include <cmath>
#include <complex>

#include "api_testing.h"
#include "lamina/complex.h"
#include "lamina/lamina.h"

namespace {

using namespace lamina;
using namespace lamina::testing;
using Complex = std::complex<double>;

struct Line {
  Tensor slope, shift;
  auto fields() { return std::tie(slope, shift); }
};

// sum(w x^2) + shift y
Tensor form(const Tensor& x, const Line& line, const Tensor& y) {
  return sum(line.slope * x * x) + line.shift * y;
}

TEST_CASE("derivatives by chosen arguments", "[api][derivatives]") {
  const Tensor at = array({1., 2.}), factor = array(Doubles{5}).reshape({});
  const Line line{array({3., 4.}), array(Doubles{7}).reshape({})};
  CHECK(doubles(grad<0>(form)(at, line, factor)) == Doubles{6, 16});
  const Line by_line = grad<1>(form)(at, line, factor);
  CHECK(doubles(by_line.slope) == Doubles{1, 4});
  CHECK(by_line.shift.item() == 5);
  const auto check = [](const std::tuple<Tensor, Line>& g) {
    CHECK(std::get<0>(g).item() == 7);
    CHECK(doubles(std::get<1>(g).slope) == Doubles{1, 4});
  };
  check(grad<2, 1>(form)(at, line, factor));
  check(jit(grad<2, 1>(form))(at, line, factor));
  check(value_and_grad<2, 1>(form)(at, line, factor).second);
  const Tensor batch = stack({at, 2 * at});
  const auto mapped = vmap(grad<2, 0>(form), {true, false, false})(batch, line, factor);
  CHECK(doubles(std::get<0>(mapped)) == Doubles{7, 7});
  CHECK(doubles(std::get<1>(mapped)) == Doubles{6, 16, 12, 32});

  auto f = [](const Tensor& x, const Tensor& y) { return x * x * y; };
  const Tensor x = array(Doubles{3}).reshape({}), y = array(Doubles{2}).reshape({});
  for (const auto& [dx, dy] : {jacfwd<0, 1>(f)(x, y), jacrev<0, 1>(f)(x, y), grad<0, 1>(f)(x, y)}) {
    CHECK(dx.item() == 12);
    CHECK(dy.item() == 9);
  }
  CHECK(jacrev<1>(f)(x, y).item() == 9);
  const auto h = hessian<0, 1>(f)(x, y);
  CHECK(std::get<0>(std::get<0>(h)).item() == 4);
  CHECK(std::get<1>(std::get<0>(h)).item() == 6);
  CHECK(std::get<0>(std::get<1>(h)).item() == 6);
  CHECK(std::get<1>(std::get<1>(h)).item() == 0);
  // A Hessian-vector product without the Hessian.
  CHECK(doubles(jvp(grad([](const Tensor& v) { return sum(v * v * v); }), std::tuple(at),
                    std::tuple(array({1., -1.})))
                    .second) == Doubles{6, -12});
}

TEST_CASE("values beside a derivative", "[api][derivatives]") {
  auto f = [](const Tensor& x, const Tensor& y) { return std::pair(sum(x * x * y), Line{x + y, y}); };
  const Tensor x = array({1., 2.}), y = array({3., 4.});
  const auto [slope, aux] = grad(f, has_aux)(x, y);
  CHECK(doubles(slope) == Doubles{6, 16});
  CHECK(doubles(aux.slope) == Doubles{4, 6});
  const auto by_y = jit(grad<1>(f, has_aux))(x, y);
  CHECK(doubles(by_y.first) == Doubles{1, 4});
  CHECK(doubles(by_y.second.shift) == Doubles{3, 4});

  const auto [value, pull_back, kept] = vjp(f, std::tuple(x, y), has_aux);
  CHECK(value.item() == 19);
  CHECK(doubles(kept.slope) == Doubles{4, 6});
  CHECK(doubles(std::get<1>(pull_back(Tensor(2.0)))) == Doubles{2, 8});
  const std::tuple direction(array({1., 0.}), array({0., 1.}));
  const auto [again, along, beside] = jvp(f, std::tuple(x, y), direction, has_aux);
  CHECK(again.item() == 19);
  CHECK(along.item() == 10);
  CHECK(doubles(beside.shift) == Doubles{3, 4});
  const auto [same, push, held] = linearize(f, std::tuple(x, y), has_aux);
  CHECK(same.item() == 19);
  CHECK(push(direction).item() == 10);
  CHECK(doubles(held.shift) == Doubles{3, 4});

  auto g = [](const Tensor& v) { return std::pair(v * v, std::pair(v + 1, Tensor(2.0))); };
  for (const auto& [j, rest] : {jacfwd(g, has_aux)(x), jacrev(g, has_aux)(x), jit(jacfwd(g, has_aux))(x)}) {
    CHECK(doubles(j) == Doubles{2, 0, 0, 4});
    CHECK(doubles(rest.first) == Doubles{2, 3});
    CHECK(rest.second.item() == 2);
  }
  const auto [second, rest] = hessian(g, has_aux)(x);
  CHECK(doubles(second) == Doubles{2, 0, 0, 0, 0, 0, 0, 2});
  CHECK(doubles(rest.first) == Doubles{2, 3});
  const Tensor none = zeros({0}, DType::float64);
  CHECK(jacfwd(g, has_aux)(none).second.second.item() == 2);
}

TEST_CASE("holomorphic derivatives", "[api][derivatives]") {
  auto cube = [](const Tensor& z) { return z * z * z; };
  const Complex at(1, 2), want = 3.0 * at * at;
  const Tensor z = Tensor::from_host<Complex>(std::vector{at}, {});
  const DerivativeOptions holomorphic{.holomorphic = true};
  const auto is = [](const Tensor& t, Complex value) {
    const Complex got = t.item<Complex>();
    CHECK(std::abs(got - value) < 1e-12);
  };
  is(grad(cube, holomorphic)(z), want);
  is(jit(grad(cube, holomorphic))(z), want);
  is(grad(grad(cube, holomorphic), holomorphic)(z), 6.0 * at);
  is(jacfwd(cube, holomorphic)(z), want);
  is(jacrev(cube, holomorphic)(z), want);
  is(hessian(cube, holomorphic)(z), 6.0 * at);
  const Tensor zs = stack({z, 2 * z});
  is(vmap(grad(cube, holomorphic))(zs)[1], 4.0 * want);
  // Of a real value, by both parts: d|z|^2 = 2 (x - iy) as one number.
  is(grad([](const Tensor& v) { return real(v) * real(v) + imag(v) * imag(v); })(z), 2.0 * std::conj(at));

  CHECK(contains(error_of([&] { grad(cube)(z); }, ErrorKind::kType),
                 "pass {.holomorphic = true} if it is holomorphic"));
  CHECK(contains(error_of([&] { grad(cube, holomorphic)(Tensor(2.0)); }, ErrorKind::kType),
                 "grad needs complex inputs, but argument 0 is float32[]"));
  CHECK(contains(error_of([&] { jacfwd(cube)(z); }, ErrorKind::kType), "jacfwd needs float inputs"));
  CHECK(contains(error_of([&] { jacrev(cube)(z); }, ErrorKind::kType), "jacrev needs float results"));
}

TEST_CASE("integers among what is differentiated", "[api][derivatives]") {
  auto f = [](const std::pair<Tensor, Tensor>& p) { return sum(p.first * p.second); };
  const std::pair both(array({2., 3.}), array({4, 5}));
  const std::string message = error_of([&] { grad(f)(both); }, ErrorKind::kType);
  CHECK(contains(message, "grad needs float inputs, but argument 0.second is int32[2]"));
  CHECK(contains(message, "grad_options_test.cc:"));
  const DerivativeOptions options{.allow_int = true};
  const auto slope = grad(f, options)(both);
  CHECK(doubles(slope.first) == Doubles{4, 5});
  CHECK(slope.second.dtype() == DType::int32);
  CHECK(doubles(slope.second) == Doubles{0, 0});
  const auto rows = jit(jacrev(f, options))(both);
  CHECK(doubles(rows.first) == Doubles{4, 5});
  CHECK(doubles(rows.second) == Doubles{0, 0});
  CHECK(contains(error_of([&] { jacfwd(f, options)(both); }, ErrorKind::kType), "argument 0.second"));
}

TEST_CASE("the transpose of a linear function", "[api][derivatives]") {
  const Tensor a = array({{1., 2.}, {3., 4.}, {5., 6.}});
  auto f = [&](const Tensor& x, const Tensor& y) { return matmul(a, x) + y; };
  const auto transposed =
      linear_transpose(f, std::tuple(zeros({2}, DType::float64), zeros({3}, DType::float64)));
  const auto [x, y] = transposed(array({1., 0., 1.}));
  CHECK(doubles(x) == Doubles{6, 8});
  CHECK(doubles(y) == Doubles{1, 0, 1});
  CHECK(contains(
      error_of([] { linear_transpose([](const Tensor& n) { return 2 * n; }, std::tuple(arange(3))); },
               ErrorKind::kType),
      "linear_transpose needs real or complex arguments, not int32[3]"));
}

}  // namespace
