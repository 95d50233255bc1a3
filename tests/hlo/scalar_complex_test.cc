// Complex functions against 113-bit references, and adapters.
#include <catch2/catch.hpp>
#include <complex>
#include <cstdio>
#include <cstdlib>
#include <string>

#include "tests/hlo/scalar_reference.h"
#include "tests/hlo/scalar_testing.h"

namespace lamina::hlo::scalar::testing {
namespace {

QuadComplex make(Quad re, Quad im) {
  QuadComplex z;
  __real__ z = re;
  __imag__ z = im;
  return z;
}
QuadComplex one_over(QuadComplex z) {
  const Quad d = crealq(z) * crealq(z) + cimagq(z) * cimagq(z);
  return make(crealq(z) / d, -cimagq(z) / d);
}
QuadComplex expm1_reference(QuadComplex z) {
  const Quad s = sinq(cimagq(z) / 2);
  return make(expm1q(crealq(z)) * cosq(cimagq(z)) - 2 * s * s, expq(crealq(z)) * sinq(cimagq(z)));
}
QuadComplex log1p_reference(QuadComplex z) {
  const Quad a = crealq(z), b = cimagq(z);
  return make(log1pq(2 * a + a * a + b * b) / 2, atan2q(b, 1 + a));
}
QuadComplex logistic_reference(QuadComplex z) {
  const QuadComplex e = cexpq(make(-crealq(z), -cimagq(z)));
  return one_over(make(1 + crealq(e), cimagq(e)));
}
QuadComplex rsqrt_reference(QuadComplex z) { return one_over(csqrtq(z)); }
QuadComplex sign_reference(QuadComplex z) { return make(crealq(z) / cabsq(z), cimagq(z) / cabsq(z)); }
QuadComplex square_reference(QuadComplex z) { return z * z; }

struct ComplexCase {
  const char* name;
  ScalarRule rule;
  QuadComplex (*reference)(QuadComplex);
  double bound;  // |error| / |exact|, in units of 2^-53
};

// The error of the pair as a whole, relative to its absolute value.
const ComplexCase kCases[] = {
    {"exponential", LAMINA_SCALAR_UNARY(exponential), cexpq, 4},
    {"exponential_minus_one", LAMINA_SCALAR_UNARY(exponential_minus_one), expm1_reference, 4},
    {"log", LAMINA_SCALAR_UNARY(log), clogq, 4},
    {"log_plus_one", LAMINA_SCALAR_UNARY(log_plus_one), log1p_reference, 4},
    {"logistic", LAMINA_SCALAR_UNARY(logistic), logistic_reference, 16},
    {"sqrt", LAMINA_SCALAR_UNARY(sqrt), csqrtq, 4},
    {"rsqrt", LAMINA_SCALAR_UNARY(rsqrt), rsqrt_reference, 8},
    {"sine", LAMINA_SCALAR_UNARY(sine), csinq, 4},
    {"cosine", LAMINA_SCALAR_UNARY(cosine), ccosq, 4},
    {"tan", LAMINA_SCALAR_UNARY(tan), ctanq, 8},
    {"tanh", LAMINA_SCALAR_UNARY(tanh), ctanhq, 8},
    {"asin", LAMINA_SCALAR_UNARY(asin), casinq, 4},
    {"acos", LAMINA_SCALAR_UNARY(acos), cacosq, 4},
    {"atan", LAMINA_SCALAR_UNARY(atan), catanq, 4},
    {"sinh", LAMINA_SCALAR_UNARY(sinh), csinhq, 4},
    {"cosh", LAMINA_SCALAR_UNARY(cosh), ccoshq, 4},
    {"asinh", LAMINA_SCALAR_UNARY(asinh), casinhq, 4},
    {"acosh", LAMINA_SCALAR_UNARY(acosh), cacoshq, 4},
    {"atanh", LAMINA_SCALAR_UNARY(atanh), catanhq, 4},
    {"sign", LAMINA_SCALAR_UNARY(sign), sign_reference, 4},
    {"square", LAMINA_SCALAR_UNARY(square), square_reference, 4},
};

template <typename T>
void run_complex(const ScalarProgram& p, const std::vector<std::vector<T>>& in, std::vector<T>& re,
                 std::vector<T>& im) {
  std::vector<const void*> inputs;
  for (const auto& v : in) inputs.push_back(v.data());
  re.resize(in[0].size());
  im.resize(in[0].size());
  const std::array<void*, 2> outputs{re.data(), im.data()};
  interpret(p, inputs, outputs, static_cast<int64_t>(re.size()));
}

TEST_CASE("complex functions are within their bounds", "[scalar][ulp]") {
  std::mt19937_64 random(21);
  std::uniform_real_distribution<double> unit(-1, 1);
  const auto any = [&] { return std::ldexp(unit(random), static_cast<int>(random() % 36) - 30); };
  std::vector<double> a, b;
  for (int i = 0; i < 4000; ++i) {
    a.push_back(any()), b.push_back(any());
    a.push_back(4 * unit(random)), b.push_back(4 * unit(random));
    const double angle = 4 * unit(random);  // near the unit circle, where log |z| is small
    a.push_back(std::cos(angle) * (1 + 1e-6 * unit(random))),
        b.push_back(std::sin(angle) * (1 + 1e-6 * unit(random)));
  }
  for (const ComplexCase& c : kCases) {
    const std::array types{DType::kC128};
    std::vector<double> re, im;
    run_complex<double>(record_rule(c.rule, types, DType::kC128), {a, b}, re, im);
    double worst = 0;
    size_t at = 0;
    for (size_t i = 0; i < a.size(); ++i) {
      const QuadComplex w = c.reference(make(a[i], b[i]));
      const QuadComplex d = make(re[i] - crealq(w), im[i] - cimagq(w));
      double e = static_cast<double>(ldexpq(cabsq(d) / cabsq(w), 53));
      if (std::isnan(e)) e = INFINITY;
      if (e > worst) worst = e, at = i;
    }
    if (std::getenv("LAMINA_ULP_REPORT") != nullptr)
      std::printf("c128 %-22s %.3f at %.17g, %.17g = %.17g, %.17g\n", c.name, worst, a[at], b[at], re[at],
                  im[at]);
    INFO(c.name << " at " << a[at] << ", " << b[at]);
    CHECK(worst <= c.bound);
  }
}

std::complex<double> apply(ScalarRule rule, std::complex<double> x) {
  const std::array types{DType::kC128};
  std::vector<double> re, im;
  run_complex<double>(record_rule(rule, types, DType::kC128), {{x.real()}, {x.imag()}}, re, im);
  return {re[0], im[0]};
}
std::complex<double> apply(ScalarRule rule, std::complex<double> x, std::complex<double> y) {
  const std::array types{DType::kC128, DType::kC128};
  std::vector<double> re, im;
  run_complex<double>(record_rule(rule, types, DType::kC128),
                      {{x.real()}, {x.imag()}, {y.real()}, {y.imag()}}, re, im);
  return {re[0], im[0]};
}

TEST_CASE("complex division and products", "[scalar]") {
  using C = std::complex<double>;
  const ScalarRule divide_rule = LAMINA_SCALAR_BINARY(divide), multiply_rule = LAMINA_SCALAR_BINARY(multiply);
  CHECK(apply(divide_rule, C(1, 2), C(3, -4)) == C(-0.2, 0.4));
  CHECK(apply(divide_rule, C(1e300, 1e300), C(1e300, 1e300)) == C(1, 0));
  CHECK(apply(divide_rule, C(1e-300, 1e-300), C(1e-300, 1e-300)) == C(1, 0));
  CHECK(std::isinf(apply(divide_rule, C(1, 0), C(0, 0)).real()));
  CHECK(apply(divide_rule, C(1, 1), C(INFINITY, 0)) == C(0, 0));
  CHECK(apply(multiply_rule, C(1, 2), C(3, 4)) == C(-5, 10));
  CHECK(apply(multiply_rule, C(1e200, 0), C(1e200, 0)).real() == INFINITY);
  const C p = apply(LAMINA_SCALAR_BINARY(power), C(0, 1), C(2, 0));
  CHECK(std::abs(p - C(-1, 0)) < 1e-15);
  CHECK(apply(LAMINA_SCALAR_BINARY(power), C(0, 0), C(0, 0)) == C(1, 0));
  CHECK(apply(LAMINA_SCALAR_BINARY(add), C(1, 2), C(3, 4)) == C(4, 6));
}

TEST_CASE("complex special values", "[scalar]") {
  using C = std::complex<double>;
  CHECK(apply(LAMINA_SCALAR_UNARY(sqrt), C(-4, 0.0)) == C(0, 2));
  CHECK(apply(LAMINA_SCALAR_UNARY(sqrt), C(-4, -0.0)) == C(0, -2));
  CHECK(apply(LAMINA_SCALAR_UNARY(sqrt), C(-INFINITY, 1)) == C(0, INFINITY));
  CHECK(apply(LAMINA_SCALAR_UNARY(exponential), C(-INFINITY, NAN)) == C(0, 0));
  CHECK(apply(LAMINA_SCALAR_UNARY(log), C(0, 0)).real() == -INFINITY);
  CHECK(apply(LAMINA_SCALAR_UNARY(tanh), C(1000, 1)) == C(1, 0));
  const C large = apply(LAMINA_SCALAR_UNARY(exponential), C(710, 1.5707963));
  CHECK(std::isfinite(large.real()));
  const std::array types{DType::kC128};
  const ScalarProgram abs_program = record_rule(LAMINA_SCALAR_UNARY(abs), types, DType::kF64);
  CHECK(run<double>(abs_program, std::vector<double>{0x3p600, 5e-324, INFINITY},
                    std::vector<double>{0x4p600, 0, NAN}) == std::vector<double>{0x5p600, 5e-324, INFINITY});
}

TEST_CASE("c64 is computed in f64 and rounded once per part", "[scalar]") {
  std::mt19937_64 random(4);
  std::uniform_real_distribution<float> unit(-3, 3);
  std::vector<float> a{3e38f, 1e-40f}, b{2e38f, 1e-42f};
  for (int i = 0; i < 1000; ++i) a.push_back(unit(random)), b.push_back(unit(random));
  const std::vector<double> a64(a.begin(), a.end()), b64(b.begin(), b.end());
  for (const ComplexCase& c : kCases) {
    std::vector<float> re, im;
    std::vector<double> re64, im64;
    run_complex<float>(record_rule(c.rule, std::array{DType::kC64}, DType::kC64), {a, b}, re, im);
    run_complex<double>(record_rule(c.rule, std::array{DType::kC128}, DType::kC128), {a64, b64}, re64, im64);
    for (size_t i = 0; i < a.size(); ++i) {
      INFO(c.name << " at " << a[i] << ", " << b[i]);
      CHECK((re[i] == static_cast<float>(re64[i]) || (std::isnan(re[i]) && std::isnan(re64[i]))));
      CHECK((im[i] == static_cast<float>(im64[i]) || (std::isnan(im[i]) && std::isnan(im64[i]))));
    }
  }
  const ScalarProgram abs_program =
      record_rule(LAMINA_SCALAR_UNARY(abs), std::array{DType::kC64}, DType::kF32);
  CHECK(run<float>(abs_program, std::vector<float>{0x3p124f}, std::vector<float>{0x4p124f})[0] == 0x5p124f);
}

TEST_CASE("adapters pass types on", "[scalar]") {
  const std::array from{DType::kC64};
  CHECK(record_rule(convert_rule, from, DType::kF16).outputs.size() == 1);
  CHECK(record_rule(convert_rule, std::array{DType::kS8}, DType::kC128).outputs.size() == 2);
  CHECK(record_rule(select_rule, std::array{DType::kBool, DType::kC64, DType::kC64}, DType::kC64)
            .inputs.size() == 5);
  CHECK(record_rule(compare_rule<Direction::kLt>, std::array{DType::kBF16, DType::kBF16}, DType::kBool)
            .outputs.size() == 1);
  CHECK(record_rule(bitcast_convert_rule, std::array{DType::kS16}, DType::kF16).code.size() == 1);
  // Every unary rule records for every float type.
  for (const UnaryCase& c : kUnaryCases)
    for (DType t : {DType::kF16, DType::kBF16, DType::kF32, DType::kF64})
      CHECK(record_function(c.rule, t).outputs.size() == 1);
  const auto reduce = [](std::span<const RuleArg> args, DType) {
    return to_rule_arg(reduce_precision(args[0].re, 5, 10));
  };
  CHECK(record_rule(reduce, std::array{DType::kF32}, DType::kF32).inputs.size() == 1);
}

}  // namespace
}  // namespace lamina::hlo::scalar::testing
