#include "jit/cpu/dot.h"

#include <array>
#include <catch2/catch.hpp>
#include <cmath>
#include <cstring>
#include <random>
#include <string>
#include <vector>

#include "hlo/half.h"
#include "hlo/type_error.h"
#include "jit/cpu/gemm.h"
#include "tests/jit/kernel_testing.h"

using namespace lamina;
using namespace lamina::testing;
using hlo::DotShape;

namespace {

std::string describe(DType in, const DotShape& s) {
  return std::string(hlo::info(in).name) + " batch " + std::to_string(s.batch) + " m " + std::to_string(s.m) +
         " n " + std::to_string(s.n) + " k " + std::to_string(s.k);
}

// All ISAs, one and two threads, against the definition.
void check_dot(Pools& pools, DType in, DType out, const DotShape& s, const void* a, const void* b) {
  const size_t bytes = static_cast<size_t>(s.batch * s.m * s.n * hlo::byte_size(out));
  std::vector<char> expected(bytes + 1, 1), actual(bytes + 1);
  REQUIRE(hlo::reference_dot(in, out, s, a, b, expected.data()).ok());
  for (jit::Isa isa : kIsas)
    for (bool threads : {false, true}) {
      std::fill(actual.begin(), actual.end(), char{1});
      const absl::Status status = jit::dot(in, out, s, a, b, actual.data(), pools.context(isa, threads));
      REQUIRE(status.ok());
      if (std::memcmp(expected.data(), actual.data(), bytes + 1) != 0)
        FAIL(describe(in, s) << " isa " << static_cast<int>(isa) << " threads " << threads);
    }
}

// An operand [batch, outer, k] in some memory order, with gaps, or broadcast along the batch.
struct Layout {
  int64_t batch, outer, k, size;
};
Layout random_layout(int64_t batch, int64_t outer, int64_t k, std::mt19937_64& rng) {
  const int64_t gap = static_cast<int64_t>(rng() % 3);
  switch (rng() % 4) {
    case 0:
      return {outer * (k + gap), k + gap, 1, batch * outer * (k + gap)};
    case 1:
      return {k * (outer + gap), 1, outer + gap, batch * k * (outer + gap)};
    case 2:
      return {0, 2 * k, 2, 2 * outer * k};
    default:
      return {1, batch * k, batch, batch * outer * k};
  }
}

}  // namespace

TEST_CASE("dots have the bits of the definition: every type, shape, stride, instruction set, thread count") {
  Pools pools;
  std::mt19937_64 rng(7);
  const std::pair<DType, DType> types[] = {
      {DType::kF32, DType::kF32},   {DType::kF64, DType::kF64},  {DType::kF32, DType::kF32},
      {DType::kF64, DType::kF64},   {DType::kF16, DType::kF16},  {DType::kF16, DType::kF32},
      {DType::kBF16, DType::kBF16}, {DType::kBF16, DType::kF32}, {DType::kC64, DType::kC64},
      {DType::kC128, DType::kC128}, {DType::kS8, DType::kS8},    {DType::kS8, DType::kS32},
      {DType::kU8, DType::kS32},    {DType::kS16, DType::kS64},  {DType::kS32, DType::kS32},
      {DType::kS64, DType::kS64},   {DType::kU16, DType::kU16},  {DType::kU32, DType::kU64},
      {DType::kU8, DType::kU8},     {DType::kS8, DType::kS16},   {DType::kS8, DType::kS64},
      {DType::kU8, DType::kU64},
  };
  for (int i = 0; i < 880; ++i) {
    const auto [in, out] = types[static_cast<size_t>(i) % std::size(types)];
    DotShape s;
    s.batch = pick(rng, {1, 1, 1, 2, 3});
    s.m = pick(rng, {1, 1, 2, 3, 5, 7, 14, 15, 31, 40});
    s.n = pick(rng, {1, 1, 2, 3, 7, 8, 15, 16, 17, 33, 64, 70});
    s.k = pick(rng, {0, 1, 2, 7, 8, 64, 255, 256, 257, 513});
    if (i % 97 == 0) s.m = 0;
    const Layout l = random_layout(s.batch, s.m, s.k, rng), r = random_layout(s.batch, s.n, s.k, rng);
    s.lhs_batch = l.batch, s.lhs_m = l.outer, s.lhs_k = l.k;
    s.rhs_batch = r.batch, s.rhs_n = r.outer, s.rhs_k = r.k;
    const std::vector<char> a = random_array(in, l.size, rng), b = random_array(in, r.size, rng);
    check_dot(pools, in, out, s, a.data(), b.data());
  }
}

TEST_CASE("batches of small products of f16 and bf16 are widened some at a time, shared factors once") {
  Pools pools;
  std::mt19937_64 rng(9);
  for (const DType in : {DType::kF16, DType::kBF16})
    for (const DType out : {in, DType::kF32})
      for (const auto& [batch, m, n, k] : std::vector<std::tuple<int64_t, int64_t, int64_t, int64_t>>{
               {41, 8, 8, 64}, {600, 16, 16, 16}, {70, 1, 33, 20}, {9, 40, 1, 130}, {2, 130, 120, 256}})
        for (const auto& [lhs_batch, rhs_batch] :
             {std::pair{m * k, k * n}, {int64_t{0}, k * n + 5}, {m * k, int64_t{0}}})
          for (const bool turned : {false, true}) {
            const DotShape s{batch, m, n, k, lhs_batch, turned ? 1 : k, turned ? m : 1, rhs_batch, n, 1};
            const std::vector<char> a = random_array(in, std::max(lhs_batch, m * k) * batch, rng),
                                    b = random_array(in, std::max(rhs_batch, k * n) * batch, rng);
            check_dot(pools, in, out, s, a.data(), b.data());
          }
}

TEST_CASE("large dots are cut into blocks and threads without a change of bits") {
  Pools pools;
  std::mt19937_64 rng(8);
  for (const auto& [in, m, n, k] : std::vector<std::tuple<DType, int64_t, int64_t, int64_t>>{
           {DType::kF32, 130, 1100, 300},
           {DType::kF64, 130, 600, 300},
           {DType::kBF16, 600, 530, 20},
           {DType::kF32, 1, 3000, 1000},
           {DType::kF32, 3000, 1, 1000},
           {DType::kF32, 1, 1, 20000},
           {DType::kF64, 1, 1, 5000},
           {DType::kF32, 3000, 3, 257},
           {DType::kC64, 40, 600, 300},
           {DType::kS32, 70, 2100, 260},
           {DType::kS8, 70, 2100, 1100},
           {DType::kU8, 1, 2100, 1100},
           // Vectors times matrices of more than 16 MB.
           {DType::kF32, 4203, 1, 1001},
           {DType::kF64, 2103, 1, 1001},
           // And of rows that lie in the same sets of a cache.
           {DType::kF32, 603, 1, 1024},
           {DType::kF32, 29, 1, 2048},
           {DType::kF64, 29, 1, 1024},
           // Cut along the longer side.
           {DType::kF32, 410, 70, 300},
           {DType::kF64, 70, 410, 300},
           // A in place, and several tiles beside each other.
           {DType::kF32, 6, 300, 4},
           {DType::kF32, 40, 70, 60},
           {DType::kF64, 5, 100, 30},
           // Several blocks of panels, packed and in place; factors of which the next part is asked for.
           {DType::kF32, 520, 520, 510},
           {DType::kF32, 200, 90, 520},
           {DType::kF64, 140, 100, 260},
           {DType::kF32, 530, 290, 530},
           {DType::kF64, 300, 150, 520},
       }) {
    const DotShape s{1, m, n, k, m * k, k, 1, k * n, n, 1};
    const std::vector<char> a = random_array(in, m * k, rng), b = random_array(in, k * n, rng);
    check_dot(pools, in, in, s, a.data(), b.data());
  }
}

TEST_CASE("tiles of 16-bit pairs add the same with and without an instruction of their own") {
  if (hlo::best_isa() != hlo::Isa::kAvx512) return;
  jit::GemmKernels<jit::Int16Pair> plain{}, chosen = jit::gemm_kernels<jit::Int16Pair>(hlo::Isa::kAvx512);
  jit::add_avx512_tiles(plain);
  REQUIRE(chosen.max_rows == plain.max_rows);
  REQUIRE(chosen.lanes == plain.lanes);
  std::mt19937_64 rng(10);
  constexpr int64_t kTerms = 37;
  for (int rows = 1; rows <= plain.max_rows; ++rows)
    for (int64_t n = 1; n <= plain.lanes * plain.max_vecs; ++n)
      for (const bool first : {false, true}) {
        // -32768 twice in both is the one sum of two products that 32 bits do not hold.
        const auto random_pairs = [&](int64_t count) {
          std::vector<jit::Int16Pair> pairs(static_cast<size_t>(count));
          for (jit::Int16Pair& x : pairs)
            x = static_cast<jit::Int16Pair>(rng() % 8 == 0 ? 0x80008000U : static_cast<uint32_t>(rng()));
          return pairs;
        };
        const auto a = random_pairs(kTerms * rows), b = random_pairs(kTerms * n);
        auto expected = random_pairs(rows * n), actual = expected;
        const int64_t vec = (n - 1) / plain.lanes;
        plain.tile[rows - 1][vec](kTerms, a.data(), b.data(), n, expected.data(), n, n, first);
        chosen.tile[rows - 1][vec](kTerms, a.data(), b.data(), n, actual.data(), n, n, first);
        if (expected != actual) FAIL(rows << " rows of " << n << ", first " << first);
      }
}

TEST_CASE("factors of narrow results, and small ones, are read where they lie") {
  const auto in_place = [](jit::Isa isa, int64_t m, int64_t n, int64_t k) {
    const jit::GemmSize size{1, m, n, k, hlo::kDotBlock};
    return jit::plan_gemm<float>(jit::gemm_kernels<float>(isa), size, k, n, false).a_in_place;
  };
  if (jit::gemm_kernels<float>(jit::Isa::kAvx512).in_place_rows[0] == 0) return;  // none on this processor
  CHECK(in_place(jit::Isa::kAvx512, 64, 64, 2048));
  CHECK(in_place(jit::Isa::kAvx512, 128, 1024, 784));
  CHECK(in_place(jit::Isa::kAvx512, 4096, 256, 4096));
  CHECK_FALSE(in_place(jit::Isa::kAvx512, 4096, 300, 4096));
  CHECK(in_place(jit::Isa::kAvx2, 128, 256, 784));
  CHECK_FALSE(in_place(jit::Isa::kAvx2, 128, 1024, 784));
}

TEST_CASE("large dots of transposed factors") {
  Pools pools;
  std::mt19937_64 rng(9);
  constexpr int64_t kM = 140, kN = 300, kK = 270;
  for (const DType in : {DType::kF32, DType::kF64, DType::kBF16, DType::kS32})
    for (const bool left : {false, true})
      for (const bool right : {false, true}) {
        const DotShape s{1, kM, kN, kK, 0, left ? 1 : kK, left ? kM : 1, 0, right ? 1 : kN, right ? kK : 1};
        const std::vector<char> a = random_array(in, kM * kK, rng), b = random_array(in, kK * kN, rng);
        check_dot(pools, in, in, s, a.data(), b.data());
      }
}

TEST_CASE("products read every half as it is") {
  Pools pools;
  constexpr int64_t kHalves = 1 << 16, kColumns = 40;
  for (const DType in : {DType::kF16, DType::kBF16})
    for (const bool across : {false, true}) {
      // (x, 0) times rows of ones: a pair side by side, or all first halves before all second ones.
      std::vector<uint16_t> a(2 * kHalves), b(2 * kColumns, in == DType::kF16 ? 0x3c00 : 0x3f80);
      for (int64_t i = 0; i < kHalves; ++i) a[across ? i : 2 * i] = static_cast<uint16_t>(i);
      const DotShape s{1, kHalves, kColumns, 2, 0, across ? 1 : 2, across ? kHalves : 1, 0, kColumns, 1};
      for (const DType out : {DType::kF32, in}) check_dot(pools, in, out, s, a.data(), b.data());
    }
}

TEST_CASE("many dots of two vectors") {
  Pools pools;
  std::mt19937_64 rng(10);
  for (DType type : {DType::kF32, DType::kF64, DType::kBF16, DType::kS32})
    for (int64_t batch : {2, 7, 8, 9, 64, 65, 143})
      for (int64_t k : {1, 3, 7, 8, 9, 64, 65, 256, 257, 600, 2048})
        for (int64_t gap : {0, 1}) {
          const int64_t row = k + gap;
          // Rows of both; rows of one and one vector; columns of both.
          const DotShape rows{batch, 1, 1, k, row, row, 1, row, 1, row},
              one{batch, 1, 1, k, row, row, 1, 0, 1, k}, columns{batch, 1, 1, k, 1, 1, batch, 1, batch, 1};
          const std::vector<char> a = random_array(type, batch * row, rng),
                                  b = random_array(type, batch * row, rng);
          for (const DotShape& s : {rows, one, columns}) check_dot(pools, type, type, s, a.data(), b.data());
        }
}

TEST_CASE("many products of matrices that fit a vector") {
  Pools pools;
  std::mt19937_64 rng(12);
  for (DType type : {DType::kF32, DType::kF64, DType::kBF16})
    for (int64_t m : {1, 2, 3, 4, 5, 8})
      for (int64_t n : {1, 2, 3, 4, 8})
        for (int64_t k : {1, 2, 3, 4, 5})
          for (int64_t batch : {2, 3, 5, 17, 4097}) {
            if (batch > 17 && (m != n || type == DType::kBF16)) continue;
            const std::vector<char> a = random_array(type, batch * m * k, rng),
                                    b = random_array(type, batch * n * k, rng);
            // As they lie, turned, and one for all.
            const DotShape rows{batch, m, n, k, m * k, k, 1, n * k, n, 1},
                turned{batch, m, n, k, m * k, 1, m, n * k, 1, k}, one{batch, m, n, k, 0, k, 1, n * k, n, 1},
                other{batch, m, n, k, m * k, k, 1, 0, 1, k};
            for (const DotShape& s : {rows, turned, one, other})
              check_dot(pools, type, type, s, a.data(), b.data());
          }
}

TEST_CASE("products that are empty, or of nothing") {
  Pools pools;
  for (int t = 0; t < hlo::kNumDTypes; ++t) {
    const auto type = static_cast<DType>(t);
    if (!hlo::check_dot_types(type, type).ok()) continue;
    for (int64_t batch : {0, 1, 3})
      for (int64_t m : {0, 1, 2, 40})
        for (int64_t n : {0, 1, 2, 40})
          for (int64_t k : {0, 1, 2, 300}) {
            if (batch * m * n * k != 0) continue;
            const std::vector<char> a(static_cast<size_t>(batch * m * k * hlo::byte_size(type))),
                b(static_cast<size_t>(batch * n * k * hlo::byte_size(type)));
            check_dot(pools, type, type, {batch, m, n, k, m * k, k, 1, n * k, n, 1}, a.data(), b.data());
          }
  }
}

TEST_CASE("a row of a dot does not depend on how many rows there are") {
  Pools pools;
  std::mt19937_64 rng(9);
  const int64_t m = 64, n = 33, k = 1000;
  const std::vector<char> a = random_array(DType::kF32, m * k, rng),
                          b = random_array(DType::kF32, k * n, rng);
  std::vector<float> all(m * n), one(n);
  const auto context = pools.context(jit::best_isa(), false);
  REQUIRE(jit::dot(DType::kF32, DType::kF32, {1, m, n, k, 0, k, 1, 0, n, 1}, a.data(), b.data(), all.data(),
                   context)
              .ok());
  for (int64_t row = 0; row < m; ++row) {
    REQUIRE(jit::dot(DType::kF32, DType::kF32, {1, 1, n, k, 0, k, 1, 0, n, 1},
                     reinterpret_cast<const float*>(a.data()) + row * k, b.data(), one.data(), context)
                .ok());
    REQUIRE(std::memcmp(one.data(), all.data() + row * n, n * sizeof(float)) == 0);
  }
}

TEST_CASE("the definition: blocks of 256, first term a product, then fma") {
  // 1 + 2^-24 is lost by a product rounded to f32, kept by fma; written out by hand here.
  std::vector<float> a(600), b(600);
  std::mt19937_64 rng(3);
  for (size_t i = 0; i < 600; ++i) {
    a[i] = static_cast<float>(rng() % 100000) / 7.0F - 5000.0F;
    b[i] = static_cast<float>(rng() % 100000) / 9.0F - 5000.0F;
  }
  float total = 0;
  for (size_t block = 0; block < 3; ++block) {
    const size_t begin = block * 256, end = std::min<size_t>(begin + 256, 600);
    float acc = a[begin] * b[begin];
    for (size_t k = begin + 1; k < end; ++k) acc = std::fma(a[k], b[k], acc);
    total = block == 0 ? acc : total + acc;
  }
  float c;
  const DotShape s{1, 1, 1, 600, 0, 0, 1, 0, 1, 0};
  REQUIRE(hlo::reference_dot(DType::kF32, DType::kF32, s, a.data(), b.data(), &c).ok());
  CHECK(c == total);

  // The sign of a zero product survives; the sum of nothing is +0.
  const float minus_zero = -0.0F, one = 1.0F;
  Pools pools;
  for (jit::Isa isa : kIsas) {
    float z = 1;
    REQUIRE(jit::dot(DType::kF32, DType::kF32, {1, 1, 1, 1, 0, 0, 1, 0, 1, 0}, &minus_zero, &one, &z,
                     pools.context(isa, false))
                .ok());
    CHECK(std::signbit(z));
    REQUIRE(jit::dot(DType::kF32, DType::kF32, {1, 1, 1, 0, 0, 0, 1, 0, 1, 0}, &minus_zero, &one, &z,
                     pools.context(isa, false))
                .ok());
    CHECK_FALSE(std::signbit(z));
    CHECK(z == 0);
  }
}

TEST_CASE("f16 and bf16 conversions agree with the exact values") {
  for (uint32_t bits = 0; bits < 0x10000; ++bits) {
    const hlo::F16 h{static_cast<uint16_t>(bits)};
    const float f = hlo::to_f32(h);
    const uint32_t exponent = (bits >> 10) & 31, fraction = bits & 1023;
    if (exponent == 31) {
      REQUIRE((fraction ? std::isnan(f) : std::isinf(f)));
    } else {
      const double value = exponent ? std::ldexp(1024.0 + fraction, static_cast<int>(exponent) - 25)
                                    : std::ldexp(static_cast<double>(fraction), -24);
      REQUIRE(static_cast<double>(f) == (bits & 0x8000 ? -value : value));
    }
    REQUIRE(std::signbit(f) == ((bits & 0x8000) != 0));
    if (!std::isnan(f)) {
      REQUIRE(hlo::to_f16(f).bits == bits);
      // Halfway to the next value: ties go to the even one; a hair more or less to the nearer.
      if (exponent < 31 && (bits & 0x7FFF) != 0x7BFF) {
        const float next = hlo::to_f32(hlo::F16{static_cast<uint16_t>(bits + 1)});
        const float middle = (f + next) / 2;
        REQUIRE(hlo::to_f16(middle).bits == (bits & 1 ? bits + 1 : bits));
        REQUIRE(hlo::to_f16(std::nextafterf(middle, f)).bits == bits);
        REQUIRE(hlo::to_f16(std::nextafterf(middle, next)).bits == bits + 1);
      }
    } else {
      REQUIRE(std::isnan(hlo::to_f32(hlo::to_f16(f))));
    }
    const hlo::BF16 b{static_cast<uint16_t>(bits)};
    const float g = hlo::to_f32(b);
    if (std::isnan(g)) {
      REQUIRE(std::isnan(hlo::to_f32(hlo::to_bf16(g))));
    } else {
      REQUIRE(hlo::to_bf16(g).bits == bits);
    }
  }
  CHECK(hlo::to_f16(65519.0F).bits == 0x7BFF);
  CHECK(hlo::to_f16(65520.0F).bits == 0x7C00);
  CHECK(hlo::to_bf16(1.00390625F).bits == 0x3F80);  // a tie, to even
  CHECK(hlo::to_bf16(1.01171875F).bits == 0x3F82);  // a tie, to even
  CHECK(hlo::to_bf16(1.0039064F).bits == 0x3F81);
}

TEST_CASE("general dots: dimensions that collapse and dimensions that do not") {
  Pools pools;
  std::mt19937_64 rng(11);
  // lhs [b0=2, k1=5, m0=3, k0=7, m1=4], rhs [k0=7, n0=6, b0=2, k1=5]: nothing collapses.
  hlo::DotGeneralShape s;
  s.batch = {{2, 420, 5}};
  s.m = {{3, 28, 0}, {4, 1, 0}};
  s.n = {{6, 0, 10}};
  s.k = {{7, 4, 60}, {5, 84, 1}};
  const std::vector<char> a = random_array(DType::kF64, 840, rng), b = random_array(DType::kF64, 420, rng);
  const auto* x = reinterpret_cast<const double*>(a.data());
  const auto* y = reinterpret_cast<const double*>(b.data());
  std::vector<double> c(2 * 12 * 6);
  REQUIRE(jit::dot_general(DType::kF64, DType::kF64, s, x, y, c.data(), pools.context(jit::best_isa(), true))
              .ok());
  for (int64_t i = 0; i < 2; ++i)
    for (int64_t m0 = 0; m0 < 3; ++m0)
      for (int64_t m1 = 0; m1 < 4; ++m1)
        for (int64_t n = 0; n < 6; ++n) {
          double acc = -0.0;
          for (int64_t k0 = 0; k0 < 7; ++k0)
            for (int64_t k1 = 0; k1 < 5; ++k1)
              acc = std::fma(x[i * 420 + k1 * 84 + m0 * 28 + k0 * 4 + m1], y[k0 * 60 + n * 10 + i * 5 + k1],
                             acc);
          REQUIRE(c[static_cast<size_t>(((i * 3 + m0) * 4 + m1) * 6 + n)] == acc);
        }
}

TEST_CASE("general dots read matrices of a batch that has no single stride where they are") {
  Pools pools;
  std::mt19937_64 rng(12);
  // lhs [2, t, 3, k], rhs [2, s, 3, k], as heads of attention; one side's matrices are smaller than what is
  // read in place, those of vectors give one number each.
  for (const auto& [t, u, k] :
       {std::array{17, 33, 40}, std::array{1, 40, 70}, std::array{3, 20, 5}, std::array{1, 1, 90}}) {
    hlo::DotGeneralShape s;
    s.batch = {{2, t * 3 * k, u * 3 * k}, {3, k, k}};
    s.m = {{t, 3 * k, 0}};
    s.n = {{u, 0, 3 * k}};
    s.k = {{k, 1, 1}};
    const std::vector<char> a = random_array(DType::kF32, 6 * t * k, rng),
                            b = random_array(DType::kF32, 6 * u * k, rng);
    std::vector<float> expected(static_cast<size_t>(6 * t * u)), c(expected.size());
    for (int64_t i = 0; i < 6; ++i) {
      const DotShape one{1, t, u, k, 0, 3 * k, 1, 0, 1, 3 * k};
      REQUIRE(hlo::reference_dot(DType::kF32, DType::kF32, one,
                                 reinterpret_cast<const float*>(a.data()) + i / 3 * t * 3 * k + i % 3 * k,
                                 reinterpret_cast<const float*>(b.data()) + i / 3 * u * 3 * k + i % 3 * k,
                                 expected.data() + i * t * u)
                  .ok());
    }
    for (jit::Isa isa : kIsas)
      for (bool threads : {false, true}) {
        REQUIRE(jit::dot_general(DType::kF32, DType::kF32, s, a.data(), b.data(), c.data(),
                                 pools.context(isa, threads))
                    .ok());
        CHECK(std::memcmp(c.data(), expected.data(), c.size() * sizeof(float)) == 0);
      }
  }
}

TEST_CASE("dots refuse wrong types, run out of memory and stop in words") {
  Pools pools;
  float x = 0;
  const auto code = [&](DType in, DType out) {
    return jit::dot(in, out, {}, &x, &x, &x, pools.context(jit::best_isa(), false)).code();
  };
  CHECK(code(DType::kBool, DType::kBool) == hlo::kTypeErrorCode);
  CHECK(code(DType::kF32, DType::kF16) == hlo::kTypeErrorCode);
  CHECK(code(DType::kS32, DType::kS8) == hlo::kTypeErrorCode);

  const std::vector<float> big(300 * 300);
  std::vector<float> c(300 * 300);
  const DotShape s{1, 300, 300, 300, 0, 300, 1, 0, 300, 1};
  auto context = pools.context(jit::best_isa(), false);
  const std::atomic<int32_t> stop{1};
  context.cancel = &stop;
  CHECK(jit::dot(DType::kF32, DType::kF32, s, big.data(), big.data(), c.data(), context).code() ==
        absl::StatusCode::kCancelled);
  jit::Memory& memory = jit::host_device().memory();
  memory.set_limit(memory.stats().live_bytes + 1000);
  context.cancel = nullptr;
  CHECK(jit::dot(DType::kF32, DType::kF32, s, big.data(), big.data(), c.data(), context).code() ==
        absl::StatusCode::kResourceExhausted);
  memory.set_limit(std::numeric_limits<int64_t>::max());
}
