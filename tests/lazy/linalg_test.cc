// Linear algebra of the C++ API: identities of the factors, solutions, batches, derivatives to second order
// against finite differences, what does not fit. Small matrices are emitted, larger ones are host routines:
// both sizes.
#include <catch2/catch.hpp>
#include <cmath>
#include <complex>
#include <functional>

#include "api_testing.h"
#include "lamina/complex.h"
#include "lamina/lamina.h"

namespace {

using namespace lamina;
using namespace lamina::testing;
constexpr DType kF64 = DType::float64;

// Numbers between -1 and 1 that look random.
Tensor pattern(const Shape& shape, double seed = 1) {
  int64_t n = 1;
  for (int64_t d : shape) n *= d;
  Doubles out;
  for (int64_t i = 0; i < n; ++i)
    out.push_back(std::sin(12.9898 * (static_cast<double>(i) + seed) + seed * seed));
  return array(out, {n}).reshape(shape);
}
Tensor transposed(const Tensor& a) {
  Axes order;
  for (int64_t d = 0; d < a.ndim(); ++d) order.push_back(d);
  std::swap(order[order.size() - 1], order[order.size() - 2]);
  return a.transpose(order);
}
// Symmetric positive definite, with eigenvalues well apart.
Tensor positive(const Shape& shape, double seed = 1) {
  const Tensor a = pattern(shape, seed);
  const int64_t n = shape.back();
  return matmul(a, transposed(a)) + eye(n, kF64) * arange(1, n + 1, 1, kF64);
}
void check_close(const Tensor& a, const Tensor& b, double tolerance = 1e-11) {
  REQUIRE(a.shape() == b.shape());
  const Doubles x = doubles(a), y = doubles(b);
  for (size_t i = 0; i < x.size(); ++i) CHECK(x[i] == Approx(y[i]).epsilon(tolerance).margin(tolerance));
}
void check_close(double a, double b, double tolerance) {
  CHECK(a == Approx(b).epsilon(tolerance).margin(tolerance));
}

const Shape kShapes[] = {{3, 3}, {6, 6}, {2, 3, 3}, {2, 2, 5, 5}};

TEST_CASE("factors multiply to their matrix", "[api][linalg]") {
  for (const Shape& shape : kShapes) {
    const int64_t n = shape.back();
    INFO(n);
    const Tensor a = pattern(shape) + 2 * eye(n, kF64), s = positive(shape);
    const Tensor one = broadcast_to(eye(n, kF64), shape);
    const Tensor l = linalg::cholesky(s);
    check_close(matmul(l, transposed(l)), s);
    const auto [q, r] = linalg::qr(a);
    check_close(matmul(q, r), a);
    check_close(matmul(transposed(q), q), one);
    const auto [values, vectors] = linalg::eigh(s);
    check_close(matmul(s, vectors), vectors * expand_dims(values, -2), 1e-10);
    check_close(linalg::eigvalsh(s), values);
    const auto [u, w, vh] = linalg::svd(a);
    check_close(matmul(u * expand_dims(w, -2), vh), a);
    check_close(linalg::svdvals(a), w);
    const auto [complex_values, complex_vectors] = linalg::eig(a);
    const Tensor left = matmul(a.astype(DType::complex128), complex_vectors);
    const Tensor right = complex_vectors * expand_dims(complex_values, -2);
    check_close(real(left), real(right), 1e-10);
    check_close(imag(left), imag(right), 1e-10);
    check_close(sum(real(linalg::eigvals(a)), {-1}), sum(a * eye(n, kF64), {-2, -1}));
  }
  // Not square.
  for (const Shape& shape : {Shape{5, 3}, Shape{3, 5}}) {
    const Tensor a = pattern(shape);
    const auto [order, l, u] = linalg::lu(a);
    check_close(matmul(l, u), take(a, order, 0));
    CHECK(l.shape() == Shape{shape[0], 3});
    CHECK(max(abs(l)).item() == 1);  // pivots are the greatest of their columns
    const auto [q, r] = linalg::qr(a);
    check_close(matmul(q, r), a);
    const auto [x, s, y] = linalg::svd(a, true);
    CHECK(x.shape() == Shape{shape[0], shape[0]});
    CHECK(y.shape() == Shape{shape[1], shape[1]});
    check_close(matmul(x[{Slice{}, Slice{0, 3, {}}}] * s, y[{Slice{0, 3, {}}}]), a);
  }
  // The types that results have.
  CHECK(linalg::eigh(ones({2, 2})).values.dtype() == DType::float32);
  CHECK(linalg::eig(ones({2, 2})).values.dtype() == DType::complex64);
  CHECK(linalg::cholesky(eye(2, DType::float16)).dtype() == DType::float16);
  CHECK(linalg::inv(eye(2, DType::int32)).dtype() == DType::float32);
}

TEST_CASE("solutions, inverses, determinants", "[api][linalg]") {
  for (const Shape& shape : kShapes) {
    const int64_t n = shape.back();
    INFO(n);
    const Tensor a = pattern(shape) + 2 * eye(n, kF64), one = broadcast_to(eye(n, kF64), shape);
    Shape wide = shape;
    wide.back() = 2;
    const Tensor y = pattern(wide, 5);
    check_close(matmul(a, linalg::solve(a, y)), y);
    check_close(matmul(a, linalg::inv(a)), one);
    check_close(linalg::pinv(a), linalg::inv(a), 1e-10);
    for (bool lower : {false, true}) {
      const Tensor i = expand_dims(arange(n), 1), j = arange(n);
      const Tensor t = where(lower ? i >= j : i <= j, a, 0);
      check_close(matmul(t, linalg::solve_triangular(a, y, lower)), y);
    }
    const auto [sign, log] = linalg::slogdet(a);
    check_close(sign * exp(log), linalg::det(a));
    check_close(linalg::matrix_power(a, 3), matmul(a, matmul(a, a)));
    check_close(linalg::matrix_power(a, -2), linalg::inv(matmul(a, a)), 1e-9);
    check_close(linalg::matrix_power(a, 0), one);
    check_close(matmul(linalg::expm(a), linalg::expm(-a)), one, 1e-9);
  }
  const Tensor vector = array({1., 2.}), m = array({{2., 1.}, {1., 3.}});
  check_close(linalg::solve(m, vector), array({0.2, 0.6}));
  CHECK(linalg::det(m).item() == Approx(5));
  // Rotations; and a norm that needs many squarings.
  const Tensor turn = array({{0., -1.}, {1., 0.}});
  check_close(linalg::expm(1.5 * turn),
              array({{std::cos(1.5), -std::sin(1.5)}, {std::sin(1.5), std::cos(1.5)}}));
  check_close(linalg::expm(100 * turn),
              array({{std::cos(100.), -std::sin(100.)}, {std::sin(100.), std::cos(100.)}}), 1e-10);
  // Rank one, and the Moore-Penrose conditions.
  const Tensor thin = matmul(pattern({4, 1}), pattern({1, 3})), p = linalg::pinv(thin);
  CHECK(p.shape() == Shape{3, 4});
  check_close(matmul(matmul(thin, p), thin), thin);
  check_close(matmul(matmul(p, thin), p), p);
  check_close(transposed(matmul(p, thin)), matmul(p, thin));
  // A line through points.
  const Tensor design = array({{1., 0.}, {1., 1.}, {1., 2.}, {1., 3.}});
  const auto [x, residuals, rank, s] = linalg::lstsq(design, array({1., 2.9, 5.1, 7.}));
  check_close(x, array({0.97, 2.02}));
  CHECK(rank.item<int>() == 2);
  CHECK(residuals.item() == Approx(0.018));
  check_close(s, linalg::svdvals(design));
  const linalg::Lstsq many = linalg::lstsq(thin, pattern({4, 2}, 3));
  CHECK(many.rank.item<int>() == 1);
  CHECK(isnan(many.residuals[0]).item<bool>());
  check_close(many.x, matmul(p, pattern({4, 2}, 3)));
  // Singular: infinities or NaN, no error.
  CHECK(!isfinite(linalg::inv(ones({2, 2}, kF64))[{0, 0}]).item<bool>());
  CHECK(isnan(linalg::cholesky(-eye(6, kF64))[{5, 5}]).item<bool>());
}

TEST_CASE("norms", "[api][linalg]") {
  const Tensor v = array({3., -4., 0.}), m = array({{1., -2.}, {3., 4.}});
  CHECK(linalg::norm(v).item() == 5);
  CHECK(linalg::norm(v, 1).item() == 7);
  CHECK(linalg::norm(v, 0).item() == 2);
  CHECK(linalg::norm(v, INFINITY).item() == 4);
  CHECK(linalg::norm(v, -INFINITY).item() == 0);
  CHECK(linalg::norm(v, 3).item() == Approx(std::cbrt(91)));
  CHECK(linalg::norm(m).item() == Approx(std::sqrt(30)));
  check_close(linalg::norm(m, 2, {1}), array({std::sqrt(5), 5.}));
  CHECK(linalg::norm(m, 2, {1}, true).shape() == Shape{2, 1});
  using enum linalg::MatrixNorm;
  CHECK(linalg::matrix_norm(m).item() == Approx(std::sqrt(30)));
  CHECK(linalg::matrix_norm(m, kColumns).item() == 6);
  CHECK(linalg::matrix_norm(m, kRows).item() == 7);
  const double large = linalg::svdvals(m)[0].item(), small = linalg::svdvals(m)[1].item();
  CHECK(linalg::matrix_norm(m, kSpectral).item() == Approx(large));
  CHECK(linalg::matrix_norm(m, kNuclear).item() == Approx(large + small));
  CHECK(linalg::norm(array<std::complex<double>>({{3, 4}, {0, 0}})).item() == 5);
  // Derivatives at zero are zero, elsewhere the direction.
  check_close(grad([](const Tensor& x) { return linalg::norm(x); })(v), array({0.6, -0.8, 0.}));
  check_close(grad([](const Tensor& x) { return linalg::norm(x); })(zeros({3}, kF64)), zeros({3}, kF64));
  check_close(grad([](const Tensor& x) { return linalg::norm(x, 3); })(zeros({3}, kF64)), zeros({3}, kF64));
}

TEST_CASE("batches have the bits of a loop, plain and jitted", "[api][linalg]") {
  for (int64_t n : {3, 6}) {
    const Tensor a = positive({4, n, n}), y = pattern({4, n, 2}, 7);
    const std::function<Tensor(const Tensor&, const Tensor&)> functions[] = {
        [](auto& m, auto&) { return linalg::cholesky(m); },
        [](auto& m, auto& b) { return linalg::solve(m, b); },
        [](auto& m, auto&) { return linalg::qr(m).r; },
        [](auto& m, auto&) { return linalg::eigh(m).vectors; },
        [](auto& m, auto&) { return linalg::svd(m).u; },
        [](auto& m, auto&) { return linalg::lu(m).u; },
        [](auto& m, auto&) { return linalg::det(m); },
        [](auto& m, auto&) { return linalg::expm(m * 0.1); },
        [](auto& m, auto&) { return linalg::pinv(m); },
    };
    for (const auto& f : functions) {
      auto typed = [&f](const Tensor& m, const Tensor& b) { return f(m, b); };
      const Doubles whole = doubles(f(a, y));
      CHECK(doubles(vmap(typed)(a, y)) == whole);
      CHECK(doubles(jit(typed)(a, y)) == whole);
      std::vector<Tensor> parts;
      for (int64_t i = 0; i < 4; ++i) parts.push_back(f(a[i], y[i]));
      CHECK(doubles(stack(parts)) == whole);
    }
  }
}

// First and second derivatives of a number along a direction: both modes, against central differences.
void check_derivatives(const char* name, const std::function<Tensor(const Tensor&)>& f, const Tensor& at,
                       const Tensor& direction) {
  INFO(name);
  auto g = [&](const Tensor& x) { return f(x); };
  auto along = [&](double t) { return f(at + t * direction).item(); };
  const double h = 1e-4;
  const double first = (8 * (along(h) - along(-h)) - (along(2 * h) - along(-2 * h))) / (12 * h);
  const double second = (along(10 * h) - 2 * along(0) + along(-10 * h)) / (100 * h * h);
  check_close(sum(grad(g)(at) * direction).item(), first, 1e-7);
  check_close(jvp(g, std::tuple(at), std::tuple(direction)).second.item(), first, 1e-7);
  auto slope = [&](const Tensor& x) { return sum(grad(g)(x) * direction); };
  check_close(sum(grad(slope)(at) * direction).item(), second, 2e-4);
  check_close(jvp(slope, std::tuple(at), std::tuple(direction)).second.item(), second, 2e-4);
}

TEST_CASE("derivatives to second order", "[api][linalg]") {
  for (int64_t n : {2, 5}) {
    const Tensor w = pattern({n, n}, 3), y = pattern({n, 2}, 4), d = pattern({n, n}, 9);
    const Tensor both = d + transposed(d);  // symmetric
    const Tensor a = pattern({n, n}) + 3 * eye(n, kF64), s = positive({n, n});
    const auto weighed = [&](const Tensor& x) { return sum(sin(x) * pattern(x.shape(), 2)); };
    const auto squared = [](const Tensor& x) { return real(x) * real(x) + imag(x) * imag(x); };
    check_derivatives(
        "cholesky", [&](auto& x) { return weighed(linalg::cholesky(x)); }, s, both);
    check_derivatives(
        "qr q", [&](auto& x) { return weighed(linalg::qr(x).q); }, a, d);
    check_derivatives(
        "qr r", [&](auto& x) { return weighed(linalg::qr(x).r); }, a, d);
    check_derivatives(
        "lu",
        [&](auto& x) {
          const linalg::Lu f = linalg::lu(x);
          return weighed(f.l) + weighed(f.u);
        },
        a, d);
    check_derivatives(
        "eigh",
        [&](auto& x) {
          const linalg::Eigh f = linalg::eigh(x);
          return weighed(f.values) + weighed(square(f.vectors));
        },
        s, both);
    check_derivatives(
        "eigvalsh", [&](auto& x) { return weighed(linalg::eigvalsh(x)); }, s, both);
    check_derivatives(
        "eig", [&](auto& x) { return weighed(squared(linalg::eig(x).vectors)); }, s, d);
    check_derivatives(
        "eigvals", [&](auto& x) { return weighed(real(linalg::eigvals(x))); }, s, d);
    check_derivatives(
        "svd",
        [&](auto& x) {
          const linalg::Svd f = linalg::svd(x);
          return weighed(square(f.u)) + weighed(f.s) + weighed(square(f.vh));
        },
        s + 0.3 * w, d);
    check_derivatives(
        "svdvals", [&](auto& x) { return weighed(linalg::svdvals(x)); }, s + 0.3 * w, d);
    check_derivatives(
        "solve", [&](auto& x) { return weighed(linalg::solve(x, y)); }, a, d);
    check_derivatives(
        "solve_triangular", [&](auto& x) { return weighed(linalg::solve_triangular(x, y)); }, a, d);
    check_derivatives(
        "lstsq",
        [&](auto& x) {
          return weighed(linalg::lstsq(concatenate({x, x * x}), concatenate({y, 2 * y})).x);
        },
        a, d);
    check_derivatives(
        "inv", [&](auto& x) { return weighed(linalg::inv(x)); }, a, d);
    check_derivatives(
        "pinv",
        [&](auto& x) {
          return weighed(linalg::pinv(concatenate({x, sin(x)})));
        },
        a, d);
    check_derivatives(
        "det", [&](auto& x) { return sin(linalg::det(x) / 20); }, a, d);
    check_derivatives(
        "slogdet", [&](auto& x) { return linalg::slogdet(x).log; }, a, d);
    check_derivatives(
        "matrix_power", [&](auto& x) { return weighed(linalg::matrix_power(x / 3, 3)); }, a, d);
    check_derivatives(
        "expm", [&](auto& x) { return weighed(linalg::expm(x / 2)); }, a, d);
    check_derivatives(
        "expm, squared", [&](auto& x) { return sum(linalg::expm(-2 * x)); }, a, d);
    check_derivatives(
        "norm", [&](auto& x) { return linalg::norm(x) + linalg::norm(x, 3); }, a, d);
    check_derivatives(
        "nuclear norm", [&](auto& x) { return linalg::matrix_norm(x, linalg::MatrixNorm::kNuclear); },
        s + 0.3 * w, d);
  }
}

TEST_CASE("shapes that do not fit are said", "[api][linalg]") {
  const Tensor tall = ones({3, 2}), square = eye(3), vector = ones({3});
  CHECK(contains(error_of([&] { linalg::cholesky(tall); }, ErrorKind::kValue),
                 "cholesky needs square matrices, not f32[3,2]"));
  CHECK(contains(error_of([&] { linalg::cholesky(tall); }, ErrorKind::kValue), "linalg_test.cc:"));
  for (const auto& f : std::vector<std::function<void()>>{
           [&] { linalg::inv(tall); }, [&] { linalg::det(tall); }, [&] { linalg::slogdet(tall); },
           [&] { linalg::eigh(tall); }, [&] { linalg::eigvalsh(tall); }, [&] { linalg::eig(tall); },
           [&] { linalg::eigvals(tall); }, [&] { linalg::expm(tall); },
           [&] { linalg::matrix_power(tall, 2); }, [&] { linalg::solve(tall, tall); },
           [&] { linalg::solve_triangular(tall, tall); }})
    CHECK(contains(error_of(f, ErrorKind::kValue), "square"));
  for (const auto& f : std::vector<std::function<void()>>{
           [&] { linalg::qr(vector); }, [&] { linalg::lu(vector); }, [&] { linalg::svd(vector); },
           [&] { linalg::svdvals(vector); }, [&] { linalg::pinv(vector); },
           [&] { linalg::matrix_norm(vector); }})
    CHECK(contains(error_of(f, ErrorKind::kValue), "matrices"));
  CHECK(contains(error_of([&] { linalg::solve(square, ones({2, 2})); }, ErrorKind::kValue), "do not fit"));
  CHECK(contains(error_of([&] { linalg::lstsq(tall, ones({2})); }, ErrorKind::kValue), "as many rows"));
  CHECK(contains(error_of([&] { linalg::inv(1.5); }, ErrorKind::kValue), "needs arrays with dimensions"));
}

}  // namespace
