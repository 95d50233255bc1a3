// Error bounds of the unary functions in f64 and f32, and correct rounding of all 65,536 inputs in f16 and
// bf16.
#include <algorithm>
#include <catch2/catch.hpp>
#include <cstdio>
#include <cstdlib>
#include <string>

#include "tests/hlo/scalar_reference.h"
#include "tests/hlo/scalar_testing.h"

namespace lamina::hlo::scalar::testing {
namespace {

// LAMINA_ULP_SAMPLES scales the number of samples; with LAMINA_ULP_REPORT each worst case is printed.
int64_t samples(int64_t standard) {
  const char* s = std::getenv("LAMINA_ULP_SAMPLES");
  return s != nullptr ? static_cast<int64_t>(static_cast<double>(standard) * std::atof(s)) : standard;
}
void report(const char* type, const char* name, double worst, double at, double y) {
  if (std::getenv("LAMINA_ULP_REPORT") != nullptr)
    std::printf("%-4s %-22s %.4f at %a (%.9g) = %.17g\n", type, name, worst, at, at, y);
}

// Relative accuracy is not promised near zeros on the negative axis, which no float reaches exactly; samples
// beyond this bound are mirrored.
double least_sample(const UnaryCase& c) {
  return c.reference == lgammaq ? -1 : c.reference == digamma_reference ? -0.25 : -INFINITY;
}

template <typename T>
std::vector<T> sample_points(const UnaryCase& c, int64_t n) {
  using Bits = std::conditional_t<sizeof(T) == 8, uint64_t, uint32_t>;
  std::mt19937_64 random(11);
  std::vector<T> x{T(0),
                   T(-0.0),
                   T(1),
                   T(-1),
                   T(0.5),
                   T(2),
                   std::numeric_limits<T>::infinity(),
                   -std::numeric_limits<T>::infinity(),
                   std::numeric_limits<T>::quiet_NaN(),
                   std::numeric_limits<T>::denorm_min(),
                   std::numeric_limits<T>::min(),
                   std::numeric_limits<T>::max(),
                   std::numeric_limits<T>::lowest()};
  std::uniform_real_distribution<double> inside(c.low, c.high), unit(0, 1), wide(-800, 800);
  for (int64_t i = 0; i < n; ++i) {
    x.push_back(static_cast<T>(inside(random)));
    x.push_back(std::bit_cast<T>(static_cast<Bits>(random())));
    if (i % 4 == 0) {
      x.push_back(static_cast<T>(wide(random)));
      x.push_back(static_cast<T>(std::ldexp(1 + unit(random), static_cast<int>(random() % 24) - 20)));
      x.push_back(static_cast<T>(1 + std::ldexp(unit(random) - 0.5, -static_cast<int>(random() % 50))));
      x.push_back(static_cast<T>(2 + std::ldexp(unit(random) - 0.5, -static_cast<int>(random() % 50))));
      x.push_back(static_cast<T>(-unit(random)));
    }
  }
  for (T& v : x)
    if (v < static_cast<T>(least_sample(c))) v = -v;
  return x;
}

TEST_CASE("f64: unary functions are within their bounds", "[scalar][ulp]") {
  for (const UnaryCase& c : kUnaryCases) {
    const std::vector<double> x = sample_points<double>(c, samples(6000));
    const std::vector<double> y = run<double>(record_function(c.rule, DType::kF64), x);
    double worst = 0;
    size_t at = 0;
    for (size_t i = 0; i < x.size(); ++i) {
      const double e = ulps64(y[i], c.reference(x[i]));
      if (e > worst) worst = e, at = i;
    }
    report("f64", c.name, worst, x[at], y[at]);
    INFO(c.name << " at " << x[at] << " gives " << y[at]);
    CHECK(worst <= c.bound64);
  }
}

// Next to what decides the rounding of an f32, 2^-24, their errors count little; results that no f32 holds
// may be off.
TEST_CASE("f64: the short forms of functions are good to 2^-38", "[scalar][ulp]") {
  static constexpr struct {
    const char* of;
    Scalar (*rule)(Scalar);
  } kShort[] = {
      {"exponential", short_exponential},
      {"exponential_minus_one", short_exponential_minus_one},
      {"logistic", short_logistic},
      {"log", short_log},
      {"log_plus_one", short_log_plus_one},
      {"erfc", short_erfc},
      {"lgamma", short_lgamma},
      {"digamma", short_digamma},
  };
  constexpr double kBound = 1 << 15, kLeast = 0x1p-149, kMost = 0x1p128;
  for (const UnaryCase& c : kUnaryCases) {
    const auto found =
        std::ranges::find_if(kShort, [&](const auto& s) { return std::string(s.of) == c.name; });
    if (found == std::end(kShort)) continue;
    std::vector<double> x = sample_points<double>(c, samples(6000));
    // Numbers as f32 has them, and those between.
    for (size_t i = 0; i < x.size(); i += 2) x[i] = static_cast<float>(x[i]);
    const std::vector<double> y = run<double>(record_function(found->rule, DType::kF64), x);
    double worst = 0;
    size_t at = 0;
    for (size_t i = 0; i < x.size(); ++i) {
      const Quad expected = c.reference(x[i]);
      const bool is_small = fabsq(expected) < kLeast && std::abs(y[i]) <= kLeast;
      const bool is_large = fabsq(expected) >= kMost && std::abs(y[i]) >= kMost;
      const double e = is_small || is_large ? 0 : ulps64(y[i], expected);
      if (e > worst) worst = e, at = i;
    }
    report("short", c.name, worst, x[at], y[at]);
    INFO(c.name << " at " << x[at] << " gives " << y[at]);
    CHECK(worst <= kBound);
  }
}

TEST_CASE("f32: unary functions are within their bounds", "[scalar][ulp]") {
  for (const UnaryCase& c : kUnaryCases) {
    const std::vector<float> x = sample_points<float>(c, samples(6000));
    const std::vector<float> y = run<float>(record_function(c.rule, DType::kF32), x);
    double worst = 0;
    size_t at = 0;
    for (size_t i = 0; i < x.size(); ++i) {
      const double e = ulps32(y[i], c.reference(x[i]));
      if (e > worst) worst = e, at = i;
    }
    report("f32", c.name, worst, x[at], y[at]);
    INFO(c.name << " at " << x[at] << " gives " << y[at]);
    CHECK(worst <= c.bound32);
  }
}

// Every f32 input against the f64 rule, which the test above ties to the references: minutes a function,
// so only on request: lamina_tests "[exhaustive]"; LAMINA_ULP_STRIDE takes every n-th input.
TEST_CASE("f32: every input", "[.][exhaustive]") {
  const char* stride_text = std::getenv("LAMINA_ULP_STRIDE");
  const uint64_t stride = stride_text != nullptr ? std::strtoull(stride_text, nullptr, 10) : 1;
  for (const UnaryCase& c : kUnaryCases) {
    const PreparedProgram narrow(record_function(c.rule, DType::kF32)),
        wide(record_function(c.rule, DType::kF64));
    constexpr size_t kChunk = 1 << 16;
    std::vector<float> x(kChunk), y(kChunk);
    std::vector<double> x64(kChunk), y64(kChunk);
    double worst = 0, at = 0;
    for (uint64_t next = 0; next < uint64_t{1} << 32;) {
      size_t n = 0;
      for (; n < kChunk && next < uint64_t{1} << 32; ++n, next += stride) {
        x[n] = std::bit_cast<float>(static_cast<uint32_t>(next));
        x64[n] = x[n];
      }
      const std::array<const void*, 1> in32{x.data()}, in64{x64.data()};
      const std::array<void*, 1> out32{y.data()}, out64{y64.data()};
      narrow.run(in32, out32, static_cast<int64_t>(n));
      wide.run(in64, out64, static_cast<int64_t>(n));
      for (size_t i = 0; i < n; ++i) {
        if (static_cast<double>(y[i]) == y64[i]) continue;
        const double e = ulps32(y[i], y64[i]);
        if (e > worst) worst = e, at = x64[i];
      }
    }
    report("all", c.name, worst, at, 0);
    INFO(c.name << " at " << at);
    CHECK(worst <= std::max(c.bound32, 0.501));
  }
}

struct HalfFormat {
  DType type;
  int mantissa, bias;
};

Quad decode(uint16_t bits, const HalfFormat& f) {
  const int exponent = (bits & 0x7fff) >> f.mantissa, mantissa = bits & ((1 << f.mantissa) - 1);
  const int special = 0x7fff >> f.mantissa;
  Quad v;
  if (exponent == special)
    v = mantissa != 0 ? nanq("") : static_cast<Quad>(INFINITY);
  else if (exponent == 0)
    v = ldexpq(mantissa, 1 - f.bias - f.mantissa);
  else
    v = ldexpq(mantissa + (1 << f.mantissa), exponent - f.bias - f.mantissa);
  return bits & 0x8000 ? -v : v;
}

// `v` rounded to the format, nearest even, as a number.
Quad round_to(Quad v, const HalfFormat& f) {
  if (isnanq(v) || isinfq(v) || v == 0) return v;
  int e = 0;
  (void)frexpq(v, &e);
  const int least = 2 - f.bias;
  const Quad unit = ldexpq(1, (e > least ? e : least) - f.mantissa - 1);
  const Quad r = rintq(v / unit) * unit;
  return fabsq(r) >= ldexpq(1, f.bias + 1) ? (v < 0 ? -1 : 1) * static_cast<Quad>(INFINITY) : r;
}

TEST_CASE("f16 and bf16: every unary result is the correctly rounded one", "[scalar][ulp]") {
  std::vector<uint16_t> all(65536);
  for (int i = 0; i < 65536; ++i) all[i] = static_cast<uint16_t>(i);
  for (const HalfFormat& f : {HalfFormat{DType::kF16, 10, 15}, HalfFormat{DType::kBF16, 7, 127}})
    for (const UnaryCase& c : kUnaryCases) {
      const std::vector<uint16_t> y = run<uint16_t>(record_function(c.rule, f.type), all);
      int wrong = 0;
      double first = 0;
      for (int i = 0; i < 65536; ++i) {
        const Quad x = decode(all[i], f), got = decode(y[i], f), want = round_to(c.reference(x), f);
        const bool same = isnanq(want) ? isnanq(got) : got == want;
        if (!same && wrong++ == 0) first = static_cast<double>(x);
      }
      if (wrong != 0) report(f.mantissa == 10 ? "f16" : "bf16", c.name, wrong, first, 0);
      INFO(c.name << ' ' << info(f.type).name.data() << " first wrong at " << first);
      CHECK(wrong == 0);
    }
}

}  // namespace
}  // namespace lamina::hlo::scalar::testing
