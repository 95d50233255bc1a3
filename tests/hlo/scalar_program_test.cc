// Recorder, listing, interpreter and primitive semantics.
#include <catch2/catch.hpp>
#include <cfenv>
#include <cstring>
#include <random>
#include <string>

#include "hlo/scalar/kernels.h"
#include "hlo/scalar/primitives.h"
#include "hlo/scalar/schedule.h"
#include "tests/hlo/scalar_testing.h"

namespace lamina::hlo::scalar {
namespace {

using testing::eval;
using testing::record_function;
using testing::run;

TEST_CASE("the recorder deduplicates, folds and drops dead code", "[scalar]") {
  const std::array inputs{DType::kF32, DType::kF32};
  ScalarRecorder r(inputs);
  const Scalar x = r.input(0), y = r.input(1);
  const Scalar sum = x + y;
  REQUIRE((y + x).id() == sum.id());
  REQUIRE((x - y).id() != (y - x).id());
  const Scalar two = constant(x, 1) + constant(x, 1);
  const ScalarProgram p = r.finish(std::array{sum * two});
  REQUIRE(p.code.size() == 3);  // add, constant 2, mul
  REQUIRE(to_string(p) ==
          "%0: f32 = input\n%1: f32 = input\n%2: f32 = add %0, %1\n%3: f32 = constant 0x40000000 (2)\n"
          "%4: f32 = mul %2, %3\nreturn %4\n");
}

TEST_CASE("a primitive has a kernel for the types that it exists for and for no others", "[scalar]") {
  int64_t exist = 0;
  for (int p = 0; p <= static_cast<int>(Prim::convert); ++p) {
    const auto prim = static_cast<Prim>(p);
    if (prim == Prim::constant) continue;
    for (int r = 0; r < kNumDTypes; ++r)
      for (int o = 0; o < kNumDTypes; ++o) {
        const auto result = static_cast<DType>(r), operand = static_cast<DType>(o);
        if (is_select(prim) && r != o) continue;
        std::vector<DType> operands(static_cast<size_t>(prim_arity(prim)), operand);
        if (is_select(prim)) operands[0] = DType::kBool;
        const std::string fault = prim_fault(prim, result, operands, 0);
        INFO(prim_name(prim) << " of " << info(operand).name << " to " << info(result).name << ": " << fault);
        REQUIRE(fault.empty() == (!is_complex(result) && !is_complex(operand) &&
                                  find_kernel(prim, result, operand) != nullptr));
        exist += fault.empty();
      }
  }
  CHECK(exist > 500);
}

TEST_CASE("folding keeps what floats keep", "[scalar]") {
  const ScalarProgram p = record_function([](Scalar x) { return x * 0 + 0; }, DType::kF64);
  const auto y = run<double>(p, std::vector<double>{INFINITY, -1.0});
  REQUIRE(std::isnan(y[0]));
  REQUIRE(std::bit_cast<uint64_t>(y[1]) == 0);  // -0 + 0
}

TEST_CASE("a program can be inlined into another", "[scalar]") {
  const ScalarProgram inner = record_function([](Scalar x) { return x * x; }, DType::kF32);
  const std::array inputs{DType::kF32};
  ScalarRecorder r(inputs);
  const Scalar once = r.inline_program(inner, std::array{r.input(0)})[0];
  const Scalar twice = r.inline_program(inner, std::array{once})[0];
  const ScalarProgram p = r.finish(std::array{twice});
  REQUIRE(run<float>(p, std::vector<float>{3.f})[0] == 81.f);
}

// A random program, the same twice: with every choice rare, and with none.
ScalarProgram random_choices(uint32_t seed, bool rare) {
  std::mt19937 random(seed);
  const std::array inputs{DType::kF32, DType::kF32};
  ScalarRecorder r(inputs);
  std::vector<Scalar> values{r.input(0), r.input(1)};
  auto any = [&] { return values[random() % values.size()]; };
  for (int i = 0; i < 25; ++i) {
    const Scalar a = any(), b = any();
    switch (random() % 4) {
      case 0:
        values.push_back(a * b + 0.25);
        break;
      case 1:
        values.push_back(a - b);
        break;
      default: {
        const Scalar p = any() < any();
        values.push_back(rare ? select_rare(p, a * 1.5 - b, b) : select(p, a * 1.5 - b, b));
      }
    }
  }
  return r.finish(std::array{values.back(), values[values.size() / 2]});
}

TEST_CASE("a rare choice gives the bits of a plain one, nested and shared", "[scalar]") {
  std::mt19937 random(3);
  std::uniform_real_distribution<float> near(-2, 2);
  for (uint32_t seed = 0; seed < 200; ++seed) {
    const int64_t n = 1 + seed * 7;
    std::vector<float> a(n), b(n), plain[2], rare[2];
    // Blocks where a condition holds everywhere, somewhere and nowhere.
    const float spread = seed % 3 == 0 ? 0.f : 1.f;
    for (int64_t i = 0; i < n; ++i) a[i] = spread * near(random) + 1, b[i] = spread * near(random) + 1;
    for (auto* side : {plain, rare}) {
      for (int k : {0, 1}) side[k].resize(n);
      const std::array<const void*, 2> in{a.data(), b.data()};
      const std::array<void*, 2> out{side[0].data(), side[1].data()};
      interpret(random_choices(seed, side == rare), in, out, n);
    }
    for (int k : {0, 1}) REQUIRE(std::memcmp(plain[k].data(), rare[k].data(), n * sizeof(float)) == 0);
  }
}

TEST_CASE("what only a rare choice needs stands behind its guard", "[scalar]") {
  // 0: condition; 1: shared with the usual side; 2, 3: dear; 4: select_rare(0, 3, 1)
  const std::vector<ScheduleInput> ordered{{}, {}, {{1}}, {{2, 1}}, {{0, 3, 1}, 3}};
  const std::vector<Scheduled> order = schedule(ordered, std::vector<bool>(5, false));
  std::vector<std::pair<uint32_t, uint32_t>> seen;
  for (const Scheduled& s : order) seen.emplace_back(s.instr, s.guarded);
  REQUIRE(seen == std::vector<std::pair<uint32_t, uint32_t>>{{0, 0}, {1, 0}, {4, 2}, {2, 0}, {3, 0}, {4, 0}});
  std::vector<bool> read(5, false);
  read[2] = true;  // an instruction that is read elsewhere is not set apart
  const std::vector<Scheduled> other = schedule(ordered, read);
  REQUIRE(other.size() == 6);
  REQUIRE((other[2].instr == 2 && other[3].instr == 4 && other[3].guarded == 1));
}

TEST_CASE("what two rare choices share stands behind the guards of both", "[scalar]") {
  // 0: condition; 1: usual; 2: dear, read by 3 and 4; 5: select_rare(0, 3, 1); 6: select_rare(0, 4, 1)
  const std::vector<ScheduleInput> code{{}, {}, {{1}}, {{2}}, {{2, 1}}, {{0, 3, 1}, 3}, {{0, 4, 1}, 4}};
  std::vector<bool> read(7, false);
  read[5] = read[6] = true;
  std::vector<std::pair<uint32_t, uint32_t>> seen;
  for (const Scheduled& s : schedule(code, read)) seen.emplace_back(s.instr, s.guarded);
  REQUIRE(seen == std::vector<std::pair<uint32_t, uint32_t>>{
                      {0, 0}, {1, 0}, {5, 2}, {2, 0}, {3, 0}, {5, 0}, {6, 2}, {2, 0}, {4, 0}, {6, 0}});
  // With a user that is not guarded it is needed in any case.
  read[4] = true;
  for (const Scheduled& s : schedule(code, read)) REQUIRE((s.instr == 5 || s.guarded == 0));
}

TEST_CASE("outputs may be the inputs' arrays", "[scalar]") {
  const std::array inputs{DType::kS32, DType::kS32};
  ScalarRecorder r(inputs);
  const ScalarProgram swap = r.finish(std::array{r.input(1), r.input(0)});
  std::vector<int32_t> a(1000), b(1000);
  for (int i = 0; i < 1000; ++i) a[i] = i, b[i] = -i;
  const std::array<const void*, 2> in{a.data(), b.data()};
  const std::array<void*, 2> out{a.data(), b.data()};
  interpret(swap, in, out, 1000);
  for (int i = 0; i < 1000; ++i) REQUIRE((a[i] == -i && b[i] == i));
}

TEST_CASE("constants survive from block to block beside recycled scratch", "[scalar]") {
  const auto f = [](Scalar x) {
    for (int i = 0; i < 20; ++i) x = (x + 1) * (i + 2) - x;
    return x;
  };
  std::vector<int64_t> x(1000);
  for (int i = 0; i < 1000; ++i) x[i] = i * 7 - 300;
  const auto y = run<int64_t>(record_function(f, DType::kS64), x);
  for (int k = 0; k < 1000; ++k) {
    uint64_t v = static_cast<uint64_t>(x[k]);
    for (int i = 0; i < 20; ++i) v = (v + 1) * (i + 2) - v;
    REQUIRE(static_cast<uint64_t>(y[k]) == v);
  }
}

template <typename T>
void check_integer_prims() {
  const T low = std::numeric_limits<T>::lowest(), high = std::numeric_limits<T>::max();
  const T ones = static_cast<T>(-1);
  const auto div = [](Scalar a, Scalar b) { return a / b; };
  const auto rem = [](Scalar a, Scalar b) { return a % b; };
  REQUIRE(eval(div, high, T{0}) == ones);
  REQUIRE(eval(rem, high, T{0}) == high);
  if (std::is_signed_v<T>) {
    REQUIRE(eval(div, low, ones) == low);
    REQUIRE(eval(rem, low, ones) == 0);
    REQUIRE(eval(div, static_cast<T>(-7), T{2}) == static_cast<T>(-3));
    REQUIRE(eval(rem, static_cast<T>(-7), T{2}) == ones);
    REQUIRE(eval([](Scalar a) { return abs(a); }, low) == low);
    REQUIRE(eval([](Scalar a) { return sign(a); }, low) == ones);
  }
  REQUIRE(eval([](Scalar a, Scalar b) { return a + b; }, high, T{1}) == low);
  REQUIRE(eval([](Scalar a, Scalar b) { return a * b; }, high, high) == 1);
  REQUIRE(eval([](Scalar a) { return -a; }, low) == low);
  const T width = sizeof(T) * 8;
  for (T shift : {width, static_cast<T>(width + 1), ones}) {
    REQUIRE(eval([](Scalar a, Scalar b) { return shift_left(a, b); }, ones, shift) == 0);
    REQUIRE(eval([](Scalar a, Scalar b) { return shift_right_logical(a, b); }, ones, shift) == 0);
    REQUIRE(eval([](Scalar a, Scalar b) { return shift_right_arithmetic(a, b); }, ones, shift) == ones);
    REQUIRE(eval([](Scalar a, Scalar b) { return shift_right_arithmetic(a, b); }, T{5}, shift) == 0);
  }
  REQUIRE(eval([](Scalar a, Scalar b) { return shift_right_logical(a, b); }, ones,
               static_cast<T>(width - 1)) == 1);
  REQUIRE(eval([](Scalar a) { return popcnt(a); }, ones) == width);
  REQUIRE(eval([](Scalar a) { return count_leading_zeros(a); }, T{0}) == width);
  REQUIRE(eval([](Scalar a) { return count_leading_zeros(a); }, T{1}) == static_cast<T>(width - 1));
  REQUIRE(eval([](Scalar a) { return not_(a); }, T{5}) == static_cast<T>(~T{5}));
}

TEST_CASE("integer primitives are total", "[scalar]") {
  check_integer_prims<int8_t>();
  check_integer_prims<int16_t>();
  check_integer_prims<int32_t>();
  check_integer_prims<int64_t>();
  check_integer_prims<uint8_t>();
  check_integer_prims<uint16_t>();
  check_integer_prims<uint32_t>();
  check_integer_prims<uint64_t>();
}

TEST_CASE("mul_high", "[scalar]") {
  std::mt19937_64 random(1);
  std::vector<uint64_t> a(1000), b(1000);
  for (size_t i = 0; i < a.size(); ++i)
    a[i] = random() | (i < 10 ? ~0ull : 0), b[i] = random() | (i < 5 ? ~0ull : 0);
  const auto high = run<uint64_t>(record_function(mul_high, DType::kU64, DType::kU64), a, b);
  __extension__ using Wide = unsigned __int128;
  for (size_t i = 0; i < a.size(); ++i)
    REQUIRE(high[i] == static_cast<uint64_t>((static_cast<Wide>(a[i]) * b[i]) >> 64));
  REQUIRE(eval(mul_high, 0xffffffffu, 0xffffffffu) == 0xfffffffeu);
}

template <typename To, typename From>
To converted(From x) {
  const ScalarProgram p = record_function([](Scalar v) { return convert_to(v, testing::Native<To>::type); },
                                          testing::Native<From>::type);
  return run<To>(p, std::vector<From>{x})[0];
}

TEST_CASE("float to integer saturates", "[scalar]") {
  REQUIRE(converted<int8_t>(127.9f) == 127);
  REQUIRE(converted<int8_t>(128.f) == 127);
  REQUIRE(converted<int8_t>(-128.9f) == -128);
  REQUIRE(converted<int8_t>(-300.f) == -128);
  REQUIRE(converted<uint8_t>(-1.f) == 0);
  REQUIRE(converted<uint8_t>(-0.5f) == 0);
  REQUIRE(converted<uint8_t>(255.5f) == 255);
  REQUIRE(converted<int32_t>(NAN) == 0);
  REQUIRE(converted<int32_t>(INFINITY) == INT32_MAX);
  REQUIRE(converted<int64_t>(-0x1p63) == INT64_MIN);
  REQUIRE(converted<int64_t>(0x1p63) == INT64_MAX);
  REQUIRE(converted<uint64_t>(0x1.fffffffffffffp63) == 0xfffffffffffff800u);
  REQUIRE(converted<uint64_t>(0x1p64) == UINT64_MAX);
  REQUIRE(converted<int32_t>(-7.99) == -7);
  REQUIRE(converted<uint8_t>(int32_t{-1}) == 255);
}

// Oracle: decodes by the definition of the format, in double.
double decode(uint16_t bits, int mantissa_bits) {
  const int exponent_bits = 15 - mantissa_bits, bias = (1 << (exponent_bits - 1)) - 1;
  const int exponent = (bits & 0x7fff) >> mantissa_bits, mantissa = bits & ((1 << mantissa_bits) - 1);
  double v;
  if (exponent == (1 << exponent_bits) - 1)
    v = mantissa != 0 ? NAN : INFINITY;
  else if (exponent == 0)
    v = std::ldexp(mantissa, 1 - bias - mantissa_bits);
  else
    v = std::ldexp(mantissa + (1 << mantissa_bits), exponent - bias - mantissa_bits);
  return bits & 0x8000 ? -v : v;
}

TEST_CASE("16-bit floats: exact decode, and each conversion rounds once", "[scalar]") {
  for (const auto& [type, mantissa] : {std::pair{DType::kF16, 10}, std::pair{DType::kBF16, 7}}) {
    std::vector<uint16_t> all(65536);
    for (int i = 0; i < 65536; ++i) all[i] = static_cast<uint16_t>(i);
    const auto wide =
        run<double>(record_function([](Scalar x) { return convert_to(x, DType::kF64); }, type), all);
    const auto single =
        run<float>(record_function([](Scalar x) { return convert_to(x, DType::kF32); }, type), all);
    for (int i = 0; i < 65536; ++i) {
      const double v = decode(all[i], mantissa);
      if (std::isnan(v)) {
        REQUIRE((std::isnan(wide[i]) && std::isnan(single[i])));
        continue;
      }
      REQUIRE(std::bit_cast<uint64_t>(wide[i]) == std::bit_cast<uint64_t>(v));
      REQUIRE(static_cast<double>(single[i]) == v);
    }
    // Around every midpoint of neighbours, the smallest steps of f64 and f32 to either side decide.
    const DType target = type;
    const auto narrow = [target](Scalar x) { return convert_to(x, target); };
    const ScalarProgram from64 = record_function(narrow, DType::kF64),
                        from32 = record_function(narrow, DType::kF32);
    const uint16_t infinity = static_cast<uint16_t>(((1 << (15 - mantissa)) - 1) << mantissa);
    std::vector<double> x64;
    std::vector<float> x32;
    std::vector<uint16_t> expected;
    for (uint16_t i = 0; i < infinity; ++i) {
      const double a = decode(i, mantissa);
      const double next = i + 1 == infinity ? 2 * a - decode(i - 1, mantissa) : decode(i + 1, mantissa);
      const double mid = (a + next) / 2;
      for (double s : {1.0, -1.0}) {
        const uint16_t sign = s < 0 ? 0x8000 : 0;
        const uint16_t even = static_cast<uint16_t>(i & 1 ? i + 1 : i);
        x64.insert(x64.end(),
                   {s * a, s * std::nextafter(mid, 0), s * mid, s * std::nextafter(mid, INFINITY)});
        const float m = static_cast<float>(mid);
        x32.insert(x32.end(),
                   {static_cast<float>(s * a), static_cast<float>(s) * std::nextafterf(m, 0),
                    static_cast<float>(s) * m, static_cast<float>(s) * std::nextafterf(m, INFINITY)});
        for (int e : {int{i}, int{i}, int{even}, i + 1}) expected.push_back(static_cast<uint16_t>(e | sign));
      }
    }
    REQUIRE(run<uint16_t>(from64, x64) == expected);
    REQUIRE(run<uint16_t>(from32, x32) == expected);
    const auto nan = run<uint16_t>(from64, std::vector<double>{NAN, -NAN, INFINITY, 1e300, 5e-324});
    REQUIRE(std::isnan(decode(nan[0], mantissa)));
    REQUIRE(std::isnan(decode(nan[1], mantissa)));
    REQUIRE((nan[2] == infinity && nan[3] == infinity && nan[4] == 0));
    // A signalling payload in the low bits must not become infinity.
    const auto low = run<uint16_t>(from32, std::vector<float>{std::bit_cast<float>(0x7f800001u)});
    REQUIRE(std::isnan(decode(low[0], mantissa)));
  }
}

TEST_CASE("64-bit integers to 16-bit floats round once", "[scalar]") {
  // 2^40 + 2^32 is the midpoint of two bf16 neighbours; one more lies beyond it but is lost in f32.
  const auto to_bf16 = [](Scalar x) { return convert_to(x, DType::kBF16); };
  const int64_t mid = (int64_t{1} << 40) + (int64_t{1} << 32);
  const std::vector<int64_t> x{mid, mid + 1, mid - 1, -mid, -mid - 1, INT64_MIN};
  const auto y = run<uint16_t>(record_function(to_bf16, DType::kS64), x);
  REQUIRE(y == std::vector<uint16_t>{0x5380, 0x5381, 0x5380, 0xd380, 0xd381, 0xdf00});
  const std::vector<uint64_t> u{UINT64_MAX, (uint64_t{1} << 63) + (uint64_t{1} << 55),
                                (uint64_t{1} << 63) + (uint64_t{1} << 55) + 1};
  REQUIRE(run<uint16_t>(record_function(to_bf16, DType::kU64), u) ==
          std::vector<uint16_t>{0x5f80, 0x5f00, 0x5f01});
  REQUIRE(run<uint16_t>(record_function([](Scalar v) { return convert_to(v, DType::kF16); }, DType::kS32),
                        std::vector<int32_t>{2049, 2051, 65519, 65520}) ==
          std::vector<uint16_t>{0x6800, 0x6802, 0x7bff, 0x7c00});
}

TEST_CASE("both copies of the kernels give the same bits", "[scalar]") {
#if defined(__x86_64__)
  if (!__builtin_cpu_supports("fma") || !__builtin_cpu_supports("avx2")) return;
  std::mt19937_64 random(7);
  std::vector<uint64_t> a(256), b(256), c(256), out1(256), out2(256);
  for (int round = 0; round < 8; ++round)
    for (int p = 0; p <= static_cast<int>(Prim::convert); ++p)
      for (int t = 0; t < kNumDTypes; ++t)
        for (int r = 0; r < kNumDTypes; ++r) {
          const Prim prim = static_cast<Prim>(p);
          const DType operand = static_cast<DType>(t), result = static_cast<DType>(r);
          const auto k1 = kernels_baseline::find_kernel(prim, result, operand);
          const auto k2 = kernels_fma::find_kernel(prim, result, operand);
          REQUIRE((k1 == nullptr) == (k2 == nullptr));
          if (k1 == nullptr) continue;
          const bool bytes = operand == DType::kBool;
          for (auto* v : {&a, &b, &c})
            for (auto& e : *v) e = bytes ? random() & 0x0101010101010101u : random();
          if (is_select(prim))
            for (auto& e : a) e = random() & 0x0101010101010101u;
          std::fill(out1.begin(), out1.end(), 0);
          std::fill(out2.begin(), out2.end(), 0);
          k1(out1.data(), a.data(), b.data(), c.data(), 256);
          k2(out2.data(), a.data(), b.data(), c.data(), 256);
          const bool floats = is_float(result) && !is_storage_float(result);
          for (int i = 0; i < 256; ++i) {
            if (out1[i] == out2[i]) continue;
            INFO(prim_name(prim) << " " << info(operand).name.data() << " " << info(result).name.data());
            REQUIRE(floats);  // only NaN payloads may differ
            if (result == DType::kF64) {
              REQUIRE(
                  (std::isnan(std::bit_cast<double>(out1[i])) && std::isnan(std::bit_cast<double>(out2[i]))));
            } else {
              for (int h : {0, 32}) {
                const uint32_t u1 = static_cast<uint32_t>(out1[i] >> h),
                               u2 = static_cast<uint32_t>(out2[i] >> h);
                if (u1 != u2)
                  REQUIRE((std::isnan(std::bit_cast<float>(u1)) && std::isnan(std::bit_cast<float>(u2))));
              }
            }
          }
        }
#endif
}

}  // namespace
}  // namespace lamina::hlo::scalar
