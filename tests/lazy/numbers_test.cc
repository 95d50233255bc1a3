// C++ numbers, and what is made of numbers alone, keep their bits until their element type is decided: beside
// a float64 tensor every function gives what the same computation in doubles does. Default element types.
#include <catch2/catch.hpp>
#include <cmath>
#include <complex>
#include <functional>
#include <thread>

#include "lamina/complex.h"
#include "lamina/lamina.h"

namespace {

using namespace lamina;

// The element of a result made of numbers: weak, so that a float64 tensor shows all its bits.
double wide(const Tensor& t) {
  CHECK(t.weakly_typed());
  CHECK(t.dtype() == DType::float32);
  const Tensor one = ones({1}, DType::float64) * t.flatten()[0];
  CHECK(one.dtype() == DType::float64);
  return one.to_host<double>()[0];
}

constexpr double kA = 0.1, kB = 0.7;
double sigmoid_of(double x) { return 1 / (1 + std::exp(-x)); }

TEST_CASE("functions of numbers are computed in double precision", "[api][numbers]") {
  struct Row {
    const char* name;
    std::function<Tensor(const Tensor&, const Tensor&)> f;
    double want;
  };
  const Shape two{2};
  const auto pair = [two](const Tensor& a, const Tensor& b) { return stack({a, b}); };
  const Row rows[] = {
      {"+", [](auto& a, auto& b) { return a + b; }, kA + kB},
      {"-", [](auto& a, auto& b) { return a - b; }, kA - kB},
      {"*", [](auto& a, auto& b) { return a * b; }, kA * kB},
      {"/", [](auto& a, auto& b) { return a / b; }, kA / kB},
      {"%", [](auto& a, auto& b) { return b % a; }, std::fmod(kB, kA)},
      {"number / number", [](auto&, auto&) { return Tensor(1) / 3; }, 1.0 / 3},
      {"tensor + number", [](auto& a, auto&) { return a + 0.2; }, kA + 0.2},
      {"number * tensor", [](auto& a, auto&) { return 3 * a; }, 3 * kA},
      {"negate", [](auto& a, auto&) { return -a; }, -kA},
      {"+=",
       [](auto& a, auto& b) {
         Tensor c = a;
         c += b;
         c *= 3.3;
         return c;
       },
       (kA + kB) * 3.3},
      {"abs", [](auto& a, auto&) { return abs(-a); }, kA},
      {"arccos", [](auto& a, auto&) { return arccos(a); }, std::acos(kA)},
      {"arcsinh", [](auto& a, auto&) { return arcsinh(a); }, std::asinh(kA)},
      {"arctan", [](auto& a, auto&) { return arctan(a); }, std::atan(kA)},
      {"arctan2", [](auto& a, auto& b) { return arctan2(a, b); }, std::atan2(kA, kB)},
      {"cbrt", [](auto& a, auto&) { return cbrt(a); }, std::cbrt(kA)},
      {"cos", [](auto& a, auto&) { return cos(a); }, std::cos(kA)},
      {"erf", [](auto& a, auto&) { return erf(a); }, std::erf(kA)},
      {"exp", [](auto& a, auto&) { return exp(a); }, std::exp(kA)},
      {"expm1", [](auto& a, auto&) { return expm1(a); }, std::expm1(kA)},
      {"lgamma", [](auto& a, auto&) { return lgamma(a); }, std::lgamma(kA)},
      {"log", [](auto& a, auto&) { return log(a); }, std::log(kA)},
      {"log1p", [](auto& a, auto&) { return log1p(a); }, std::log1p(kA)},
      {"rsqrt", [](auto& a, auto&) { return rsqrt(a); }, 1 / std::sqrt(kA)},
      {"sigmoid", [](auto& a, auto&) { return sigmoid(a); }, sigmoid_of(kA)},
      {"sin", [](auto& a, auto&) { return sin(a); }, std::sin(kA)},
      {"sqrt", [](auto& a, auto&) { return sqrt(a); }, std::sqrt(kA)},
      {"sqrt of an integer", [](auto&, auto&) { return sqrt(2); }, std::sqrt(2)},
      {"square", [](auto& a, auto&) { return square(a); }, kA * kA},
      {"tan", [](auto& a, auto&) { return tan(a); }, std::tan(kA)},
      {"tanh", [](auto& a, auto&) { return tanh(a); }, std::tanh(kA)},
      {"relu", [](auto& a, auto&) { return relu(a); }, kA},
      {"softplus", [](auto& a, auto&) { return softplus(a); }, std::log1p(std::exp(-kA)) + kA},
      {"silu", [](auto& a, auto&) { return silu(a); }, kA * sigmoid_of(kA)},
      {"stop_gradient", [](auto& a, auto&) { return stop_gradient(a); }, kA},
      {"maximum", [](auto& a, auto& b) { return maximum(a, b); }, kB},
      {"minimum", [](auto& a, auto&) { return minimum(a, 0.7); }, kA},
      {"pow", [](auto& a, auto& b) { return pow(a, b); }, std::pow(kA, kB)},
      {"pow of a fraction", [](auto& a, auto&) { return pow(a, 0.5); }, std::sqrt(kA)},
      {"pow of an integer", [](auto& a, auto&) { return pow(a, 3); }, kA * (kA * kA)},
      {"pow of a negative integer", [](auto& a, auto&) { return pow(a, -2); }, 1 / (kA * kA)},
      {"floor_divide", [](auto& a, auto& b) { return floor_divide(b, a); }, 6},
      {"where", [](auto& a, auto& b) { return where(a > b, a, b); }, kB},
      {"clip", [](auto& a, auto&) { return clip(a, 0.3, 0.9); }, 0.3},
      {"full", [](auto& a, auto&) { return full({3}, a); }, kA},
      {"full of a number", [](auto&, auto&) { return full({3}, 0.1); }, kA},
      {"broadcast_to", [](auto& a, auto&) { return broadcast_to(a, {2, 2}); }, kA},
      {"expand_dims", [](auto& a, auto&) { return expand_dims(a, 0); }, kA},
      {"squeeze", [](auto& a, auto&) { return squeeze(full({1, 1}, a)); }, kA},
      {"reshape", [](auto& a, auto&) { return full({4}, a).reshape({2, 2}); }, kA},
      {"transpose", [](auto& a, auto&) { return full({2, 3}, a).T(); }, kA},
      {"concatenate", [](auto& a, auto& b) { return concatenate({full({1}, a), full({1}, b)}); }, kA},
      {"stack", [&](auto& a, auto& b) { return pair(a, b); }, kA},
      {"pad", [](auto& a, auto&) { return pad(full({1}, a), {{1, 0}}, 0.3); }, 0.3},
      {"flip", [&](auto& a, auto& b) { return flip(pair(b, a)); }, kA},
      {"roll", [&](auto& a, auto& b) { return roll(pair(b, a), 1); }, kA},
      {"take", [&](auto& a, auto& b) { return take(pair(b, a), array({1}), 0); }, kA},
      {"index", [&](auto& a, auto& b) { return pair(b, a)[1]; }, kA},
      {"slice", [&](auto& a, auto& b) { return pair(b, a)[Slice{1, {}, {}}]; }, kA},
      {"updated", [&](auto& a, auto& b) { return pair(b, b).updated({0}, a); }, kA},
      {"updated by an index tensor",
       [&](auto& a, auto& b) { return pair(b, b).updated({array({0})}, a)[0]; }, kA},
      {"added", [&](auto& a, auto& b) { return pair(b, b).added({0}, a); }, kB + kA},
      {"updated by a mask", [&](auto& a, auto& b) { return pair(b, b).updated({array({true, false})}, a); }, kA},
      {"sum", [&](auto& a, auto& b) { return sum(pair(a, b)); }, kA + kB},
      {"prod", [&](auto& a, auto& b) { return prod(pair(a, b)); }, kA * kB},
      {"mean", [&](auto& a, auto& b) { return mean(pair(a, b)); }, (kA + kB) / 2},
      {"var", [&](auto& a, auto& b) { return var(pair(a, b)); }, std::pow((kB - kA) / 2, 2)},
      {"max", [&](auto& a, auto& b) { return max(pair(a, b)); }, kB},
      {"min", [&](auto& a, auto& b) { return min(pair(a, b)); }, kA},
      {"logsumexp", [&](auto& a, auto& b) { return logsumexp(pair(a, b)); },
       std::log(std::exp(kA - kB) + 1) + kB},
      {"softmax", [&](auto& a, auto& b) { return softmax(pair(a, b)); },
       std::exp(kA - kB) / (std::exp(kA - kB) + 1)},
      {"log_softmax", [&](auto& a, auto& b) { return log_softmax(pair(a, b)); },
       kA - kB - std::log(std::exp(kA - kB) + 1)},
      {"cumsum", [&](auto& a, auto& b) { return cumsum(pair(a, b), 0)[1]; }, kA + kB},
      {"cumprod", [&](auto& a, auto& b) { return cumprod(pair(a, b), 0)[1]; }, kA * kB},
      {"sort", [&](auto& a, auto& b) { return sort(pair(b, a)); }, kA},
      {"matmul", [&](auto& a, auto& b) { return matmul(pair(a, b), pair(b, a)); }, 2 * kA * kB},
      {"dot", [&](auto& a, auto& b) { return dot(pair(a, b), pair(b, a)); }, 2 * kA * kB},
      {"einsum", [&](auto& a, auto& b) { return einsum("i,i->i", {pair(a, b), pair(b, a)}); }, kA * kB},
      {"jit", [](auto& a, auto& b) { return jit([](const Tensor& x, const Tensor& y) { return x / y; })(a, b); },
       kA / kB},
      {"vmap", [&](auto& a, auto& b) { return vmap([](const Tensor& x) { return x * x; })(pair(a, b)); }, kA * kA},
      {"grad", [](auto& a, auto&) { return grad([](const Tensor& x) { return x * x * x; })(a); }, 3 * kA * kA},
      {"jvp", [](auto& a, auto& b) {
         return jvp([](const Tensor& x) { return x * x; }, std::tuple(a), std::tuple(b)).second;
       }, 2 * kA * kB},
      {"checkpoint", [](auto& a, auto&) { return checkpoint([](const Tensor& x) { return exp(x); })(a); },
       std::exp(kA)},
      {"scan", [](auto& a, auto& b) {
         return fori_loop(0, 3, [&](const Tensor&, const Tensor& c) { return c * b; }, a);
       }, kA * kB * kB * kB},
      {"cond", [](auto& a, auto& b) {
         return cond(a < b, [](const Tensor& x) { return x / 3; }, [](const Tensor& x) { return x; }, a);
       }, kA / 3},
  };
  const Tensor a(kA), b(kB);
  for (const Row& row : rows) {
    INFO(row.name);
    CHECK(wide(row.f(a, b)) == Approx(row.want).epsilon(4e-16).margin(1e-17));
  }
  CHECK((Tensor(0.1) + 0.2).item() == 0.1 + 0.2);
  CHECK((Tensor(std::complex<double>(0.1, 0.2)) * 3).item<std::complex<double>>() ==
        std::complex<double>(0.1, 0.2) * 3.0);
}

TEST_CASE("what is compared, counted or ordered is what was meant", "[api][numbers]") {
  // Both are 0.1f in float32.
  CHECK((Tensor(0.1) < 0.1 + 1e-12).item<bool>());
  CHECK(argmax(stack({Tensor(0.1), Tensor(0.1 + 1e-12)})).item<int>() == 1);
  CHECK(any(full({2}, 1e-60)).item<bool>());
  CHECK(isfinite(Tensor(1e300)).item<bool>());
  CHECK(cond(
            1e-60, [] { return 1; }, [] { return 2; })
            .item<int>() == 1);
  // A type that is decided stays: the bits below it are gone for good.
  const Tensor rounded = Tensor(0.1).astype(DType::float32);
  CHECK((ones({1}, DType::float64) * rounded).to_host<double>()[0] == 0.1f);
  CHECK((full({1}, 0.1) * ones({1})).astype(DType::float64).to_host<double>()[0] == 0.1f);
  // Integers beyond 32 bits and sums of many.
  CHECK((Tensor(1 << 30) * 4 + array({int64_t{1}})).to_host<int64_t>()[0] == (int64_t{1} << 32) + 1);
  CHECK(sum(full({4}, 1 << 30)).item<int64_t>() == int64_t{1} << 32);
}

TEST_CASE("a scope of default types", "[api][numbers]") {
  auto f = jit([](const Tensor& x) { return x / 3; });
  CHECK(f(Tensor(1)).dtype() == DType::float32);
  {
    const DefaultTypesScope doubles({.floating = DType::float64});
    CHECK(Tensor(0.1).dtype() == DType::float64);
    CHECK(Tensor(1).dtype() == DType::int32);
    CHECK(zeros({2}).dtype() == DType::float64);
    CHECK(ones({2}).dtype() == DType::float64);
    CHECK(eye(2).dtype() == DType::float64);
    CHECK(linspace(0, 1, 3).dtype() == DType::float64);
    CHECK(linspace(0, 1, 11).to_host<double>()[3] == Approx(0.3).epsilon(1e-15));
    CHECK((arange(3) / arange(3)).dtype() == DType::float64);
    CHECK(sqrt(arange(3)).dtype() == DType::float64);
    CHECK(Tensor(std::complex<double>(0, 1)).dtype() == DType::complex128);
    CHECK(f(Tensor(1)).dtype() == DType::float64);
    CHECK((ones({2}, DType::float32) * 0.1).dtype() == DType::float32);
    {
      const DefaultTypesScope longs({.integer = DType::int64});
      CHECK(arange(3).dtype() == DType::int64);
      CHECK(Tensor(1).dtype() == DType::int64);
      CHECK(Tensor(1.0).dtype() == DType::float64);
    }
    CHECK(arange(3).dtype() == DType::int32);
    std::thread([] { CHECK(Tensor(0.1).dtype() == DType::float32); }).join();
    try {
      const DefaultTypesScope wrong({.floating = DType::int32});
      FAIL("nothing was thrown");
    } catch (const Error& e) {
      CHECK(e.kind() == ErrorKind::kType);
      CHECK(std::string(e.what()).find("int32 cannot be the default float") != std::string::npos);
      CHECK(std::string(e.what()).find("numbers_test.cc:") != std::string::npos);
    }
    CHECK(zeros({2}).dtype() == DType::float64);
  }
  CHECK(zeros({2}).dtype() == DType::float32);
  CHECK(f(Tensor(1)).dtype() == DType::float32);
  CHECK(f.traces() == 2);
}

}  // namespace
