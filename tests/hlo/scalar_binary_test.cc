// Binary functions: power, atan2, remainder against references; selection, comparison and bit-level
// functions.
#include <catch2/catch.hpp>
#include <cstdio>
#include <cstdlib>

#include "tests/hlo/scalar_reference.h"
#include "tests/hlo/scalar_testing.h"

namespace lamina::hlo::scalar::testing {
namespace {

template <typename T>
bool same(T a, T b) {
  if (std::isnan(a) || std::isnan(b)) return std::isnan(a) && std::isnan(b);
  return a == b && std::signbit(a) == std::signbit(b);
}

template <typename T>
std::vector<T> specials() {
  using L = std::numeric_limits<T>;
  std::vector<T> v{0,         0.5,       1,
                   1.5,       2,         3,
                   4,         5,         T(1e10),
                   T(0.999),  T(1.001),  L::denorm_min(),
                   L::min(),  L::max(),  L::infinity(),
                   T(0x1p52), T(0x1p53), T(0x1p54) + 4};
  const size_t n = v.size();
  for (size_t i = 0; i < n; ++i) v.push_back(-v[i]);
  v.push_back(L::quiet_NaN());
  return v;
}

template <typename T>
struct Pairs {
  std::vector<T> x, y;
};
// Every pair of special values, random bits, and random values of moderate size.
template <typename T>
Pairs<T> pairs(int n) {
  using Bits = std::conditional_t<sizeof(T) == 8, uint64_t, uint32_t>;
  Pairs<T> p;
  for (T a : specials<T>())
    for (T b : specials<T>()) p.x.push_back(a), p.y.push_back(b);
  std::mt19937_64 random(3);
  std::uniform_real_distribution<double> unit(-1, 1);
  for (int i = 0; i < n; ++i) {
    p.x.push_back(std::bit_cast<T>(static_cast<Bits>(random())));
    p.y.push_back(std::bit_cast<T>(static_cast<Bits>(random())));
    p.x.push_back(static_cast<T>(std::ldexp(unit(random), static_cast<int>(random() % 40) - 20)));
    p.y.push_back(static_cast<T>(std::ldexp(unit(random), static_cast<int>(random() % 40) - 20)));
    p.x.push_back(static_cast<T>(1 + std::ldexp(unit(random), -static_cast<int>(random() % 30))));
    p.y.push_back(static_cast<T>(std::ldexp(unit(random), static_cast<int>(random() % 40) - 10)));
  }
  return p;
}

template <typename T>
double worst_ulps(const char* name, Scalar (*rule)(Scalar, Scalar), Quad (*reference)(Quad, Quad), int n) {
  const Pairs<T> p = pairs<T>(n);
  const DType type = Native<T>::type;
  const std::vector<T> z = run<T>(record_function(rule, type, type), p.x, p.y);
  double worst = 0;
  size_t at = 0;
  for (size_t i = 0; i < z.size(); ++i) {
    const Quad r = reference(p.x[i], p.y[i]);
    const double e = sizeof(T) == 8 ? ulps64(z[i], r) : ulps32(static_cast<float>(z[i]), r);
    if (e > worst) worst = e, at = i;
  }
  if (std::getenv("LAMINA_ULP_REPORT") != nullptr)
    std::printf("f%d  %-22s %.4f at %a, %a = %.17g\n", static_cast<int>(sizeof(T)) * 8, name, worst,
                static_cast<double>(p.x[at]), static_cast<double>(p.y[at]), static_cast<double>(z[at]));
  INFO(name << " of " << p.x[at] << ", " << p.y[at] << " gives " << z[at]);
  CHECK(worst <= 1e6);
  return worst;
}

TEST_CASE("power, atan2 and remainder are within their bounds", "[scalar][ulp]") {
  CHECK(worst_ulps<double>("power", power, powq, 30000) <= 0.6);
  CHECK(worst_ulps<float>("power", power, powq, 30000) <= 0.75);
  CHECK(worst_ulps<double>("atan2", atan2, atan2q, 30000) <= 1.0);
  CHECK(worst_ulps<float>("atan2", atan2, atan2q, 30000) <= 0.501);
  CHECK(worst_ulps<double>("remainder", remainder, fmodq, 10000) == 0);
  CHECK(worst_ulps<float>("remainder", remainder, fmodq, 10000) == 0);
}

template <typename T>
void check_special_values() {
  const Pairs<T> p = pairs<T>(500);
  const DType type = Native<T>::type;
  const auto of = [&](Scalar (*rule)(Scalar, Scalar)) {
    return run<T>(record_function(rule, type, type), p.x, p.y);
  };
  const auto pow_ = of(power), atan2_ = of(atan2), rem = of(remainder), next = of(next_after),
             hi = of(maximum), lo = of(minimum);
  for (size_t i = 0; i < p.x.size(); ++i) {
    const T x = p.x[i], y = p.y[i];
    INFO(x << ", " << y);
    // Signs of zeros, infinities and NaN are exact; finite values are the ulp test's business.
    const auto agrees = [](T got, T want) {
      return std::isfinite(want) && want != 0 ? std::isfinite(got) && std::signbit(got) == std::signbit(want)
                                              : same(got, want);
    };
    CHECK(agrees(pow_[i], std::pow(x, y)));
    CHECK(agrees(atan2_[i], std::atan2(x, y)));
    CHECK(same(rem[i], std::fmod(x, y)));
    CHECK(same(next[i], std::nextafter(x, y)));
    const bool nan = std::isnan(x) || std::isnan(y);
    const T larger = x == y ? (std::signbit(x) ? y : x) : std::fmax(x, y);
    const T smaller = x == y ? (std::signbit(x) ? x : y) : std::fmin(x, y);
    CHECK(same(hi[i], nan ? std::numeric_limits<T>::quiet_NaN() : larger));
    CHECK(same(lo[i], nan ? std::numeric_limits<T>::quiet_NaN() : smaller));
  }
}

TEST_CASE("special values of binary functions follow IEEE 754 and C", "[scalar]") {
  check_special_values<double>();
  check_special_values<float>();
}

TEST_CASE("signs of zeros of the unary functions", "[scalar]") {
  for (const UnaryCase& c : kUnaryCases) {
    const auto y64 = run<double>(record_function(c.rule, DType::kF64), std::vector<double>{0.0, -0.0});
    const auto y32 = run<float>(record_function(c.rule, DType::kF32), std::vector<float>{0.0f, -0.0f});
    if (y64[0] != 0) continue;
    INFO(c.name);
    const bool even = c.reference == square_reference || c.reference == static_cast<Quad (*)(Quad)>(fabsq);
    const bool flips = c.reference == negate_reference;
    CHECK(std::signbit(y64[0]) == flips);
    CHECK(std::signbit(y64[1]) == (!flips && !even));
    CHECK(std::signbit(y32[0]) == flips);
    CHECK(std::signbit(y32[1]) == (!flips && !even));
  }
}

TEST_CASE("comparison and total order", "[scalar]") {
  // NaNs of all signs and payloads are one value, above infinity.
  const std::vector<float> order{-INFINITY,
                                 -1.f,
                                 -0.f,
                                 0.f,
                                 1e-45f,
                                 2.f,
                                 INFINITY,
                                 NAN,
                                 std::bit_cast<float>(0xffc00000u),
                                 std::bit_cast<float>(0xffffffffu)};
  const auto rank = [](size_t i) { return std::min<size_t>(i, 7); };
  std::vector<float> a, b;
  for (float x : order)
    for (float y : order) a.push_back(x), b.push_back(y);
  for (int d = 0; d < 6; ++d) {
    const Direction direction = static_cast<Direction>(d);
    const auto holds = [d](auto x, auto y) {
      return d == 0 ? x == y : d == 1 ? x != y : d == 2 ? x < y : d == 3 ? x <= y : d == 4 ? x > y : x >= y;
    };
    const auto plain =
        run<uint8_t>(record_function([=](Scalar x, Scalar y) { return compare(x, y, direction); },
                                     DType::kF32, DType::kF32),
                     a, b);
    const auto total =
        run<uint8_t>(record_function([=](Scalar x, Scalar y) { return compare_total_order(x, y, direction); },
                                     DType::kF32, DType::kF32),
                     a, b);
    for (size_t i = 0; i < a.size(); ++i) {
      CHECK(plain[i] == holds(a[i], b[i]));
      CHECK(total[i] == holds(rank(i / order.size()), rank(i % order.size())));
    }
  }
}

TEST_CASE("reduce_precision rounds like a conversion", "[scalar]") {
  std::mt19937_64 random(5);
  std::vector<float> x{0.f,     -0.f,    INFINITY, -INFINITY, NAN,     65504.f,
                       65519.f, 65520.f, -70000.f, 1e-45f,    0x1p-14f};
  for (int i = 0; i < 20000; ++i) x.push_back(std::bit_cast<float>(static_cast<uint32_t>(random())));
  const auto bf16 =
      run<float>(record_function([](Scalar v) { return reduce_precision(v, 8, 7); }, DType::kF32), x);
  const auto through = run<float>(
      record_function([](Scalar v) { return convert_to(convert_to(v, DType::kBF16), DType::kF32); },
                      DType::kF32),
      x);
  for (size_t i = 0; i < x.size(); ++i) REQUIRE(same(bf16[i], through[i]));
  const auto f16 =
      run<float>(record_function([](Scalar v) { return reduce_precision(v, 5, 10); }, DType::kF32), x);
  const auto half =
      run<float>(record_function([](Scalar v) { return convert_to(convert_to(v, DType::kF16), DType::kF32); },
                                 DType::kF32),
                 x);
  for (size_t i = 0; i < x.size(); ++i) {
    // The reduced format has no subnormals.
    const float expected = std::fabs(half[i]) < 0x1p-14f ? std::copysign(0.f, half[i]) : half[i];
    if (std::fabs(x[i]) < 0x1p-14f && std::fabs(half[i]) == 0x1p-14f) continue;
    INFO(x[i]);
    REQUIRE(same(f16[i], expected));
  }
}

TEST_CASE("integer power", "[scalar]") {
  const auto of = [](int32_t x, int32_t y) {
    return eval(static_cast<Scalar (*)(Scalar, Scalar)>(power), x, y);
  };
  CHECK(of(3, 4) == 81);
  CHECK(of(-3, 3) == -27);
  CHECK(of(7, 0) == 1);
  CHECK(of(0, 0) == 1);
  CHECK(of(2, -1) == 0);
  CHECK(of(0, -1) == 0);
  CHECK(of(1, -5) == 1);
  CHECK(of(-1, -5) == -1);
  CHECK(of(-1, -4) == 1);
  CHECK(of(-1, INT32_MIN) == 1);
  CHECK(of(3, 40) == static_cast<int32_t>(12157665459056928801u));
  CHECK(eval(static_cast<Scalar (*)(Scalar, Scalar)>(power), uint8_t{3}, uint8_t{255}) == 171);
}

TEST_CASE("f16 and bf16 arithmetic is correctly rounded", "[scalar]") {
  for (DType type : {DType::kF16, DType::kBF16}) {
    std::mt19937_64 random(9);
    std::vector<uint16_t> a(200000), b(200000);
    for (size_t i = 0; i < a.size(); ++i)
      a[i] = static_cast<uint16_t>(random()), b[i] = static_cast<uint16_t>(random());
    const auto exact = [type](auto f) {
      return [type, f](Scalar x, Scalar y) {
        return convert_to(f(convert_to(x, DType::kF64), convert_to(y, DType::kF64)), type);
      };
    };
    // f64 holds sums and products exactly up to far more digits than the 16-bit rounding needs.
    const auto check = [&](Scalar (*rule)(Scalar, Scalar), auto f) {
      const auto got = run<uint16_t>(record_function(rule, type, type), a, b);
      const auto want = run<uint16_t>(record_function(exact(f), type, type), a, b);
      const uint16_t inf = type == DType::kF16 ? 0x7c00 : 0x7f80;
      for (size_t i = 0; i < a.size(); ++i) {
        const bool nan = (got[i] & 0x7fff) > inf && (want[i] & 0x7fff) > inf;
        if (!nan && got[i] != want[i]) REQUIRE(got[i] == want[i]);
      }
    };
    check(add, [](Scalar x, Scalar y) { return x + y; });
    check(subtract, [](Scalar x, Scalar y) { return x - y; });
    check(multiply, [](Scalar x, Scalar y) { return x * y; });
    check(divide, [](Scalar x, Scalar y) { return x / y; });
  }
}

}  // namespace
}  // namespace lamina::hlo::scalar::testing
