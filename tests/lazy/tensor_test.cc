// The C++ API: tensors, promotion, indexing, reductions, products, random numbers, errors.
#include <catch2/catch.hpp>
#include <cmath>
#include <functional>
#include <numeric>
#include <sstream>
#include <thread>

#include "api_testing.h"
#include "lamina/complex.h"
#include "lamina/lamina.h"

namespace {

using namespace lamina;
using namespace lamina::testing;
using Ints = std::vector<int32_t>;

TEST_CASE("tensors are made from host data and read back", "[api]") {
  const Tensor a = array({1.5f, 2.5f, 3.5f});
  CHECK(a.shape() == Shape{3});
  CHECK(a.dtype() == DType::float32);
  CHECK(a.to_host<float>() == Floats{1.5f, 2.5f, 3.5f});
  CHECK(array({{1, 2}, {3, 4}}).shape() == Shape{2, 2});
  CHECK(array({1.0, 2.0}).dtype() == DType::float64);
  CHECK(array({true, false}).to_host<bool>() == std::vector<bool>{true, false});
  CHECK(array(std::vector<int64_t>{1, 2, 3, 4}, {2, -1}).shape() == Shape{2, 2});
  CHECK(floats(arange(4)) == Floats{0, 1, 2, 3});
  CHECK(arange(5, -1, -2).to_host<int32_t>() == Ints{5, 3, 1});
  CHECK(floats(linspace(0, 1, 3)) == Floats{0, 0.5f, 1});
  CHECK(floats(eye(2)) == Floats{1, 0, 0, 1});
  CHECK(floats(full({2}, 7)) == Floats{7, 7});
  CHECK(zeros({0, 3}).size() == 0);
  CHECK(floats(ones_like(array({1, 2}))) == Floats{1, 1});
  CHECK(Tensor(std::complex<double>(1, 2)).dtype() == DType::complex64);
  CHECK(real(Tensor(std::complex<double>(1, 2)) * 2).item() == 2);
  double owned[] = {1, 2};
  bool released = false;
  {
    const Tensor shared = Tensor::alias(
        DType::float64, {2}, owned, [](void* flag) { *static_cast<bool*>(flag) = true; }, &released);
    CHECK((shared + 1.0).to_host<double>() == std::vector<double>{2, 3});
    CHECK(!released);
  }
  CHECK(released);
  CHECK(contains(error_of(
                     [] {
                       array(std::vector<int>{1, 2, 3}, {2, 2});
                     },
                     ErrorKind::kValue),
                 "3 elements"));
  CHECK(contains(error_of([] { arange(3).to_host<float>(); }, ErrorKind::kType), "int32, not float32"));
  CHECK(contains(error_of([] { Tensor().shape(); }, ErrorKind::kValue), "names no value"));
}

TEST_CASE("numbers are weak and types promote as in JAX", "[api]") {
  const Tensor f16 = ones({2}, DType::float16), f32 = ones({2}), f64 = ones({2}, DType::float64);
  const Tensor i8 = ones({2}, DType::int8), i32 = ones({2}, DType::int32), u8 = ones({2}, DType::uint8);
  CHECK((f32 * 2.0).dtype() == DType::float32);
  CHECK((f16 + 1).dtype() == DType::float16);
  CHECK((i8 + 1).dtype() == DType::int8);
  CHECK((i32 + 1.5).dtype() == DType::float32);
  CHECK((i32 + f16).dtype() == DType::float16);
  CHECK((i8 + u8).dtype() == DType::int16);
  CHECK((f32 + f64).dtype() == DType::float64);
  CHECK((i32 / i32).dtype() == DType::float32);
  CHECK((i32 > 0).dtype() == DType::boolean);
  CHECK(Tensor(2.0).dtype() == DType::float32);
  CHECK(Tensor(2).weakly_typed());
  CHECK((f64 * 0.1).to_host<double>()[0] == 0.1);  // not rounded to float32 on the way
  CHECK(Tensor(int64_t{1} << 40).dtype() == DType::int64);
  CHECK(contains(error_of([&] { i8 + 1000; }, ErrorKind::kValue), "1000 does not fit"));
}

TEST_CASE("numbers keep their bits until their type is decided", "[api]") {
  const Tensor x = ones({1}, DType::float64);
  const auto value = [](const Tensor& t) {
    CHECK(t.dtype() == DType::float64);
    return t.to_host<double>()[0];
  };
  CHECK(value(x * Tensor(0.1)) == 0.1);
  CHECK(value(Tensor(0.1).astype(DType::float64).reshape({1})) == 0.1);
  CHECK(value(jit([](const Tensor& a, const Tensor& v) { return a * v; })(x, 0.1)) == 0.1);
  CHECK(value(x * jit([](const Tensor& v) { return v * 1.0; })(Tensor(0.5))) == 0.5);
  CHECK(value(checkpoint([](const Tensor& a, const Tensor& v) { return a * v; })(x, Tensor(0.1))) == 0.1);
  CHECK(value(x.updated({0}, 0.1)) == 0.1);
  CHECK(jit([](const Tensor& a, const Tensor& v) { return a * v; })(ones({1}), 0.1).dtype() ==
        DType::float32);
}

TEST_CASE("one program reads, and one writes, at all places", "[api]") {
  Floats want(40);
  std::iota(want.begin(), want.end(), 0.f);
  Tensor x = array(want).reshape({20, 2});
  const auto step = [&](size_t k) {
    const auto row = static_cast<int64_t>(k);
    CHECK(floats(x[{Slice{2 * row, 2 * row + 2, {}}, 1}]) == Floats{want[4 * k + 1], want[4 * k + 3]});
    x = x.updated({row, Slice{0, 1, {}}}, -1.0).added({-1 - row}, 0.5);
    want[2 * k] = -1;
    for (size_t j : {38 - 2 * k, 39 - 2 * k}) want[j] += 0.5f;
    CHECK(floats(x) == want);
  };
  step(0);  // what made x is part of its programs
  step(1);
  const int64_t before = cache::stats().misses;
  for (size_t k = 2; k < 8; ++k) step(k);
  CHECK(cache::stats().misses == before);
  CHECK(floats(x[{Slice{std::nullopt, std::nullopt, -7}, 0}]) == Floats{want[38], want[24], want[10]});
}

TEST_CASE("64-bit integers become float64, and sums of integers have 64 bits", "[api]") {
  const Tensor i64 = array({int64_t{16777217}}), i32 = array({int32_t{1} << 30, int32_t{1} << 30, 1 << 30});
  CHECK((i64 / 1).to_host<double>()[0] == 16777217);
  CHECK((i64 * 0.5).dtype() == DType::float64);
  CHECK(sqrt(i64).dtype() == DType::float64);
  CHECK(mean(i64).dtype() == DType::float64);
  CHECK(mean(i32).dtype() == DType::float32);
  CHECK(sum(i32).to_host<int64_t>()[0] == int64_t{3} << 30);
  CHECK(prod(i32 / i32).dtype() == DType::float32);
  CHECK(cumsum(i32, 0).to_host<int64_t>()[2] == int64_t{3} << 30);
  CHECK(sum(i32.astype(DType::uint8)).dtype() == DType::uint64);
}

TEST_CASE("types of a byte or less are rounded and wrapped after every operation", "[api]") {
  const Tensor x = array({1.f, 17.f, 448.f, -0.01f}).astype(DType::float8_e4m3fn);
  CHECK(size_of(x.dtype()) == 1);
  CHECK(floats(x) == Floats{1, 16, 448, -0.009765625f});  // 17 lies between 16 and 18
  CHECK(floats(x + 1) == Floats{2, 16, 448, 1});
  CHECK(any(isnan(x * 2)).item<bool>());
  CHECK(!any(isinf(x * 2)).item<bool>());
  CHECK(floats(max(x)) == Floats{448});
  CHECK(floats(sum(x * 0.5)) == Floats{240});  // 232.495, added up in float32
  CHECK(floats(matmul(x, x.astype(DType::float8_e4m3fn)))[0] != 0);
  const Tensor small = array({6.f, -6.f, 100.f}).astype(DType::float4_e2m1fn);
  CHECK(floats(small) == Floats{6, -6, 6});
  CHECK(!any(isinf(small)).item<bool>());
  CHECK(floats(min(small)) == Floats{-6});
  const Tensor i = array({7, -8, 3, -1}).astype(DType::int4);
  CHECK(floats(i + 1) == Floats{-8, -7, 4, 0});
  CHECK(max(i).astype(DType::int32).item<int>() == 7);
  CHECK(floats(sort(i)) == Floats{-8, -1, 3, 7});
  CHECK(contains(error_of([&] { i + 9; }, ErrorKind::kValue), "9 does not fit the element type int4"));
  CHECK(contains(error_of([&] { i + ones({4}); }, ErrorKind::kType), "int4 and float32 have no common one"));
  CHECK(contains(error_of([&] { x + ones({4}, DType::float8_e5m2); }, ErrorKind::kType), "astype"));
  int8_t bytes[] = {0x0F, 0x78, 0x17};
  bool released = false;
  const Tensor shared = Tensor::alias(
      DType::int4, {3}, bytes, [](void* flag) { *static_cast<bool*>(flag) = true; }, &released);
  CHECK(floats(shared) == Floats{-1, -8, 7});
  CHECK(released);
  std::ostringstream out;
  out << x << small << i;
  CHECK(contains(out.str(), "dtype=float8_e4m3fn"));
  CHECK(contains(out.str(), "Tensor([ 7, -8,  3, -1], dtype=int4)"));
}

TEST_CASE("elementwise functions", "[api]") {
  const Tensor x = array({-1.5f, 0.25f, 2.0f});
  const auto check = [&](const Tensor& y, float (*f)(float)) {
    const Floats have = floats(y), at = floats(x);
    for (size_t i = 0; i < at.size(); ++i) {
      if (std::isnan(f(at[i])))
        CHECK(std::isnan(have[i]));
      else
        CHECK(have[i] == Approx(f(at[i])).epsilon(1e-6));
    }
  };
  check(sin(x), std::sin);
  check(cos(x), std::cos);
  check(exp(x), std::exp);
  check(expm1(x), std::expm1);
  check(log(x), std::log);
  check(tanh(x), std::tanh);
  check(sqrt(x), std::sqrt);
  check(erf(x), std::erf);
  check(lgamma(x), std::lgamma);
  check(floor(x), std::floor);
  check(arctan(x), std::atan);
  check(cbrt(x), std::cbrt);
  check(abs(x), std::fabs);
  check(square(x), [](float v) { return v * v; });
  check(relu(x), [](float v) { return v > 0 ? v : 0; });
  check(sigmoid(x), [](float v) { return 1 / (1 + std::exp(-v)); });
  check(softplus(x), [](float v) { return std::log1p(std::exp(v)); });
  check(silu(x), [](float v) { return v / (1 + std::exp(-v)); });
  check(pow(x, 3), [](float v) { return v * v * v; });
  check(pow(x, -2), [](float v) { return 1 / (v * v); });
  check(clip(x, -1, 1), [](float v) { return std::min(std::max(v, -1.f), 1.f); });
  check(-x, [](float v) { return -v; });
  CHECK(floats(floor_divide(array({7, -7}), 2)) == Floats{3, -4});
  CHECK(floats(remainder(array({7, -7}), 3)) == Floats{1, 2});
  CHECK(floats(where(x > 0, x, 0)) == Floats{0, 0.25f, 2});
  CHECK(floats(maximum(x, 0.5)) == Floats{0.5f, 0.5f, 2});
  CHECK(floats(isnan(log(x))) == Floats{1, 0, 0});
  CHECK((~array({true, false}) | array({false, false})).to_host<bool>() == std::vector<bool>{false, true});
  CHECK(arctan2(1.0, 1.0).item() == Approx(0.785398).epsilon(1e-6));
  CHECK(gelu(Tensor(1.0)).item() == Approx(0.841192).epsilon(1e-5));
  Tensor y = x;
  y += 1;
  y *= 2;
  CHECK(floats(y) == Floats{-1, 2.5f, 6});
  CHECK(floats(x)[0] == -1.5f);
}

TEST_CASE("shapes", "[api]") {
  const Tensor x = arange(6).reshape({2, 3});
  CHECK(floats(x.T()) == Floats{0, 3, 1, 4, 2, 5});
  CHECK(x.transpose({1, 0}).shape() == Shape{3, 2});
  CHECK(concatenate({x, x}, 1).shape() == Shape{2, 6});
  CHECK(stack({x, x}, -1).shape() == Shape{2, 3, 2});
  CHECK(expand_dims(x, 1).shape() == Shape{2, 1, 3});
  CHECK(squeeze(expand_dims(x, 1)).shape() == Shape{2, 3});
  CHECK(floats(pad(array({1, 2}), {{1, 2}}, 9)) == Floats{9, 1, 2, 9, 9});
  CHECK(floats(flip(x, {1})) == Floats{2, 1, 0, 5, 4, 3});
  CHECK(broadcast_to(array({1, 2, 3}), {4, 3}).shape() == Shape{4, 3});
  CHECK(contains(error_of([&] { x.reshape({4, -1}); }, ErrorKind::kValue), "int32[2,3] has 6 elements"));
  CHECK(contains(error_of([&] { x.transpose({0, 0}); }, ErrorKind::kValue), "named twice"));
  CHECK(contains(error_of([&] { squeeze(x, {0}); }, ErrorKind::kValue), "has size 2"));
}

TEST_CASE("indexing reads and writes", "[api]") {
  const Tensor x = arange(12).reshape({3, 4});
  CHECK(floats(x[1]) == Floats{4, 5, 6, 7});
  CHECK(floats(x[{-1, 2}]) == Floats{10});
  CHECK(floats(x[{Slice{0, 2, {}}, Slice{{}, {}, 2}}]) == Floats{0, 2, 4, 6});
  CHECK(floats(x[{ellipsis, 0}]) == Floats{0, 4, 8});
  CHECK(floats(x[{Slice{{}, {}, -1}, 0}]) == Floats{8, 4, 0});
  CHECK(x[{newaxis, ellipsis}].shape() == Shape{1, 3, 4});
  CHECK(floats(x[array({2, 0})]) == Floats{8, 9, 10, 11, 0, 1, 2, 3});
  CHECK(floats(x[{array({0, 1}), array({1, -1})}]) == Floats{1, 7});
  CHECK(floats(x[{Slice{}, array({0, 3})}]) == Floats{0, 3, 4, 7, 8, 11});
  CHECK(floats(x[array({99})]) == Floats{8, 9, 10, 11});  // the end
  CHECK(floats(x.updated({0, Slice{1, 3, {}}}, -1)[0]) == Floats{0, -1, -1, 3});
  CHECK(floats(x.updated({Slice{{}, {}, 2}, 0}, array({7, 8}))[{ellipsis, 0}]) == Floats{7, 4, 8});
  CHECK(floats(x.added({array({0, 0, 99})}, 1)[0]) ==
        Floats{2, 3, 4, 5});  // repeated adds; beyond the end nothing
  Tensor y = zeros({3});
  const Tensor same = y;
  y.set({1}, 5);
  CHECK(floats(same) == Floats{0, 5, 0});  // one variable
  CHECK(contains(error_of([&] { x[3]; }, ErrorKind::kIndex),
                 "index 3 is out of bounds for axis 0 with size 3"));
  CHECK(contains(error_of(
                     [&] {
                       x[{0, 0, 0}];
                     },
                     ErrorKind::kIndex),
                 "3 indices for an array of 2 dimensions"));
  CHECK(contains(error_of(
                     [&] {
                       x.updated({0}, array({1, 2}));
                     },
                     ErrorKind::kValue),
                 "[2] and [4] cannot be broadcast"));
}

TEST_CASE("reductions, sorting and what is made of them", "[api]") {
  const Tensor x = array({{3.f, 1.f, 2.f}, {6.f, 5.f, 4.f}});
  CHECK(sum(x).item() == 21);
  CHECK(floats(sum(x, {0})) == Floats{9, 6, 6});
  CHECK(sum(x, {1}, true).shape() == Shape{2, 1});
  CHECK(sum(array({true, true})).dtype() == DType::int32);
  CHECK(prod(x, {-1}).to_host<float>() == Floats{6, 120});
  CHECK(mean(x).item() == 3.5);
  CHECK(mean(ones({100000}, DType::float16)).item() == 1);  // added up in float32
  CHECK(var(x).item() == Approx(35.0 / 12));
  CHECK(floats(max(x, {1})) == Floats{3, 6});
  CHECK(floats(min(x, {0})) == Floats{3, 1, 2});
  CHECK(all(x > 0).item<bool>());
  CHECK(!any(x > 6).item<bool>());
  CHECK(logsumexp(x).item() == Approx(6.4561933));
  CHECK(floats(sum(softmax(x), {-1}))[0] == Approx(1));
  CHECK(floats(log_softmax(x))[0] == Approx(-0.4076059));
  CHECK(argmax(x).to_host<int32_t>() == Ints{0, 0});
  CHECK(argmin(x, 0).to_host<int32_t>() == Ints{0, 0, 0});
  CHECK(floats(sort(array({2.f, NAN, -1.f}), 0))[0] == -1);
  CHECK(argsort(array({2.f, NAN, -1.f})).to_host<int32_t>() == Ints{2, 0, 1});
  CHECK(floats(one_hot(array({1, 0}), 2)) == Floats{0, 1, 1, 0});
  CHECK(contains(error_of([] { max(zeros({0})); }, ErrorKind::kValue), "is empty"));
  CHECK(contains(error_of([&] { sum(x, {2}); }, ErrorKind::kIndex), "axis 2 does not exist"));
}

TEST_CASE("running sums and products", "[api]") {
  const Tensor x = array<float>({{1, 2, 3}, {4, 5, 6}});
  CHECK(floats(cumsum(x, 1)) == Floats{1, 3, 6, 4, 9, 15});
  CHECK(floats(cumsum(x, 0)) == Floats{1, 2, 3, 5, 7, 9});
  CHECK(floats(cumprod(x, -1)) == Floats{1, 2, 6, 4, 20, 120});
  CHECK(cumsum(x > 2, 1).to_host<int32_t>() == Ints{0, 0, 1, 1, 2, 3});
  CHECK(std::signbit(floats(cumsum(array({-0.f, 0.f}), 0))[0]));
  CHECK(cumsum(zeros({0, 3}), 0).shape() == Shape{0, 3});
  CHECK(floats(grad([](const Tensor& v) { return sum(cumsum(v, 0) * v); })(array({1.f, 2.f, 3.f}))) ==
        Floats{7, 8, 9});
  CHECK(contains(error_of([] { cumsum(Tensor(1.0), 0); }, ErrorKind::kValue), "at least one dimension"));
  CHECK(contains(error_of([&] { cumprod(x, 2); }, ErrorKind::kIndex), "axis 2 does not exist"));
}

TEST_CASE("slices by index tensors and masks", "[api]") {
  const Tensor x = array<float>({{1, 2, 3}, {4, 5, 6}});
  CHECK(floats(take(x, array({2, 0}), 1)) == Floats{3, 1, 6, 4});
  CHECK(floats(take(x, array({-1}), 0)) == Floats{4, 5, 6});
  CHECK(take(x, zeros({2, 2}, DType::int32), -1).shape() == Shape{2, 2, 2});
  CHECK(floats(take(x, array({uint64_t{1}, ~uint64_t{0}, uint64_t{1} << 63}), 1)) ==
        Floats{2, 3, 3, 5, 6, 6});
  CHECK(floats(x[x > 2]) == Floats{3, 4, 5, 6});
  CHECK(floats(x[array({false, true})]) == Floats{4, 5, 6});
  CHECK(x[x > 9].shape() == Shape{0});
  CHECK(floats(x.updated({x > 4}, 0.0)) == Floats{1, 2, 3, 4, 0, 0});
  CHECK(floats(x.added({array({true, false})}, array({10.f, 20.f, 30.f}))) == Floats{11, 22, 33, 4, 5, 6});
  const auto clipped = [](const Tensor& v) { return sum(v.updated({v < 2}, 0.0) * 2); };
  CHECK(floats(jit(grad(clipped))(x)) == Floats{0, 2, 2, 2, 2, 2});
  CHECK(contains(error_of(
                     [&] {
                       (void)x[array({true, false, true})];
                     },
                     ErrorKind::kIndex),
                 "a mask of shape [3] for an array of shape [2,3]"));
  CHECK(contains(error_of([&] { jit([](const Tensor& v) { return v[v > 2]; })(x); }, ErrorKind::kType),
                 "tensor_test.cc:"));
  CHECK(contains(error_of([&] { take(x, array({0.5f}), 0); }, ErrorKind::kIndex),
                 "index tensors hold integers"));
}

TEST_CASE("products", "[api]") {
  const Tensor a = arange(6).reshape({2, 3}).astype(DType::float32), b = ones({3, 2});
  CHECK(floats(matmul(a, b)) == Floats{3, 3, 12, 12});
  CHECK(matmul(ones({5, 2, 3}), ones({3, 4})).shape() == Shape{5, 2, 4});
  CHECK(matmul(ones({5, 1, 2, 3}), ones({7, 3, 4})).shape() == Shape{5, 7, 2, 4});
  CHECK(matmul(array({1.f, 2.f}), array({3.f, 4.f})).item() == 11);
  CHECK(floats(einsum("ij,jk->ki", {a, b})) == Floats{3, 12, 3, 12});
  CHECK(floats(einsum("ij->j", {a})) == Floats{3, 5, 7});
  CHECK(floats(einsum("bij,bjk->bik", {ones({2, 1, 3}), ones({2, 3, 1})})) == Floats{3, 3});
  CHECK(einsum("i,j,k->kji", {ones({2}), ones({3}), ones({4})}).shape() == Shape{4, 3, 2});
  const Tensor image = arange(9).reshape({1, 1, 3, 3}).astype(DType::float32);
  CHECK(floats(conv(image, ones({1, 1, 2, 2}))) == Floats{8, 12, 20, 24});
  CHECK(conv(image, ones({4, 1, 3, 3}), {.strides = {2, 2}, .padding = {{1, 1}, {1, 1}}}).shape() ==
        Shape{1, 4, 2, 2});
  const std::string message = error_of([&] { matmul(a, a); }, ErrorKind::kValue);
  CHECK(contains(message, "float32[2,3] @ float32[2,3]: 3 != 2"));
  CHECK(contains(message, "tensor_test.cc:"));
  CHECK(contains(error_of([&] { einsum("ij,jk->il", {a, b}); }, ErrorKind::kValue), "names 'l' wrongly"));
}

TEST_CASE("errors name the shapes and the caller's line", "[api]") {
  const Tensor a = ones({3}), b = ones({4});
  const int line = __LINE__ + 1;
  const std::string message = error_of([&] { a + b; }, ErrorKind::kValue);
  CHECK(contains(message, "[3] and [4] cannot be broadcast"));
  CHECK(contains(message, std::string("tensor_test.cc:") + std::to_string(line)));
  // Functions that are made of others, indices and compound assignments too.
  CHECK(error_of([&] { softmax(a, 5); }, ErrorKind::kIndex).find("tests/lazy/tensor_test.cc:") < 60);
  CHECK(error_of([&] { a[7]; }, ErrorKind::kIndex).find("tests/lazy/tensor_test.cc:") < 60);
  CHECK(error_of([&] { a[{0, 0}]; }, ErrorKind::kIndex).find("tests/lazy/tensor_test.cc:") < 60);
  Tensor c = a;
  CHECK(error_of([&] { c += b; }, ErrorKind::kValue).find("tests/lazy/tensor_test.cc:") < 60);
}

TEST_CASE("random numbers have JAX's streams", "[api]") {
  const Tensor key = random::key(0);
  // What jax.random.split(jax.random.key(0)) holds.
  CHECK(random::split(key).to_host<uint32_t>() ==
        std::vector<uint32_t>{1797259609u, 2579123966u, 928981903u, 3453687069u});
  const Tensor u = random::uniform(key, {1000});
  CHECK(all((u >= 0) & (u < 1)).item<bool>());
  CHECK(mean(u).item() == Approx(0.5).margin(0.03));
  CHECK(var(random::normal(key, {4000})).item() == Approx(1).margin(0.1));
  CHECK(mean(random::bernoulli(key, 0.25, {4000}).astype(DType::float32)).item() ==
        Approx(0.25).margin(0.03));
  const Tensor n = random::randint(key, {1000}, -3, 4);
  CHECK(min(n).item<int>() == -3);
  CHECK(max(n).item<int>() == 3);
  CHECK(floats(random::uniform(random::fold_in(key, 1), {3})) !=
        floats(random::uniform(random::fold_in(key, 2), {3})));
  CHECK(contains(error_of([] { random::bits(ones({2}), {1}); }, ErrorKind::kType), "a key is uint32[2]"));
}

TEST_CASE("printing", "[api]") {
  const auto text = [](const Tensor& t) {
    std::ostringstream out;
    out << t;
    return out.str();
  };
  CHECK(text(array({1.f, 2.5f})) == "Tensor([ 1., 2.5], dtype=float32)");
  CHECK(text(array({{1, 2}, {3, 4}})) == "Tensor([[1, 2],\n        [3, 4]], dtype=int32)");
  CHECK(text(Tensor(true)) == "Tensor(true, dtype=bool)");
  CHECK(text(zeros({0})) == "Tensor([], shape=[0], dtype=float32)");
  CHECK(contains(text(arange(2000)), "0,    1,    2, ..., 1997, 1998, 1999"));
}

TEST_CASE("much recorded work stays bounded", "[api]") {
  const Tensor one = ones({4});
  Tensor x = zeros({4});
  for (int i = 0; i < 100000; ++i) x = x + one;
  CHECK(floats(x)[0] == 100000);
  // A million steps without a read: computed on the way, so memory stays small.
  Tensor y = zeros({});
  const int64_t before = cache::memory().live_bytes;
  for (int i = 0; i < 1000000; ++i) y = y + 1;
  CHECK(cache::memory().live_bytes - before < (1 << 20));
  CHECK(y.item() == 1000000);
}

TEST_CASE("what is dropped is never computed", "[api]") {
  const Tensor x = ones({100, 100}).eval();
  const auto runs = [] {
    int64_t n = 0;
    for (const cache::Entry& e : cache::entries()) n += e.runs;
    return n;
  };
  const int64_t before = runs();
  for (int i = 0; i < 50; ++i) matmul(x, x);
  CHECK(runs() == before);
}

TEST_CASE("threads record and compute at the same time", "[api]") {
  std::vector<std::thread> threads;
  std::vector<double> results(4);
  for (size_t k = 0; k < results.size(); ++k)
    threads.emplace_back([&results, k] {
      Tensor x = full({64}, static_cast<double>(k));
      for (int i = 0; i < 100; ++i) x = x + 1;
      results[k] = sum(x).item();
    });
  for (std::thread& t : threads) t.join();
  for (size_t k = 0; k < results.size(); ++k) CHECK(results[k] == 64 * (100 + static_cast<double>(k)));
}

template <typename A, typename B>
concept LogicalOr = requires(const A& a, const B& b) {
  a || b;
};
template <typename A, typename B>
concept LogicalAnd = requires(const A& a, const B& b) {
  a&& b;
};
template <typename A>
concept LogicalNot = requires(const A& a) {
  !a;
};

TEST_CASE("logical operators on tensors do not compile", "[api]") {
  static_assert(!LogicalOr<Tensor, Tensor>);
  static_assert(!LogicalOr<Tensor, bool>);
  static_assert(!LogicalOr<bool, Tensor>);
  static_assert(!LogicalAnd<Tensor, Tensor>);
  static_assert(!LogicalAnd<Tensor, bool>);
  static_assert(!LogicalAnd<bool, Tensor>);
  static_assert(!LogicalNot<Tensor>);
  static_assert(LogicalOr<bool, bool>);
  const Tensor n = array({1, 3, 5}), g = array({1, 0, 0});
  CHECK(((n == 3) | (g == 1)).to_host<bool>() == std::vector<bool>{true, true, false});
  CHECK((n % 3).to_host<int>() == std::vector<int>{1, 0, 2});
  CHECK((-n % 3).to_host<int>() == std::vector<int>{2, 0, 1});
  if (sum(n) > 8) CHECK(true);
}

TEST_CASE("roll and dot", "[api]") {
  const Tensor x = array({{1, 2, 3}, {4, 5, 6}});
  CHECK(roll(x, 1).flatten().to_host<int>() == std::vector<int>{6, 1, 2, 3, 4, 5});
  CHECK(roll(x, -1, {1}).flatten().to_host<int>() == std::vector<int>{2, 3, 1, 5, 6, 4});
  CHECK(roll(x, 4, {0, -1}).flatten().to_host<int>() == std::vector<int>{3, 1, 2, 6, 4, 5});
  CHECK(roll(zeros({0}), 3).size() == 0);
  CHECK_THROWS_AS(roll(x, 1, {2}), Error);
  const Tensor v = array({1, 0, 2});
  CHECK(dot(v, v).item() == 5);
  CHECK(dot(x, v).to_host<int>() == std::vector<int>{7, 16});
  CHECK(dot(x, 2).shape() == Shape{2, 3});
  CHECK(dot(zeros({4, 2, 3}), zeros({5, 3, 6})).shape() == Shape{4, 2, 5, 6});
  CHECK_THROWS_AS(dot(x, x), Error);
}

}  // namespace
