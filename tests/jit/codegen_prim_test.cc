// Every primitive on every type it takes: machine code (vectors and the scalar rest, two targets) against the
// interpreter.
#include <catch2/catch.hpp>

#include "hlo/scalar/tables.h"
#include "tests/jit/kernel_util.h"

using namespace lamina::jit;
using lamina::hlo::Prim;
namespace hlo = lamina::hlo;

namespace {

std::vector<DType> part_types() {
  std::vector<DType> types;
  for (int i = 0; i < hlo::kNumDTypes; ++i)
    if (!hlo::is_complex(static_cast<DType>(i))) types.push_back(static_cast<DType>(i));
  return types;
}

// One kernel out[i] = prim(a[i], b[i], c[i]).
LoopKernel prim_kernel(Prim prim, DType result, const std::vector<DType>& operands, uint64_t imm) {
  KernelBuilder k(1, 0);
  KernelInstr instr{KernelOp::kPrim, prim, result};
  for (size_t i = 0; i < operands.size(); ++i)
    instr.operands[i] = k.load(k.access(k.buffer(operands[i]), {{0, true, 0}}));
  instr.imm = imm;
  const uint32_t value = k.add(instr);
  k.store(k.access(k.buffer(result, true), {{0, true, 0}}), value);
  return k.kernel;
}

constexpr int64_t kCount = 1003;
using Elements = std::vector<char>;

// Operands that Prim::scale is for; some results overflow, and some are subnormal.
template <typename T>
std::vector<Elements> scale_operands(T bias, int per, int most, std::mt19937_64& rng) {
  constexpr T kNan = std::numeric_limits<T>::quiet_NaN();
  constexpr T kNumbers[] = {1, 1.5, -1.25, T{0.75}, T{-0.5}, 0, T{-0.0}, kNan};
  std::vector<Elements> result(2, Elements(kCount * sizeof(T)));
  for (int64_t i = 0; i < kCount; ++i) {
    const int e = static_cast<int>(rng() % (2 * most * per + 1)) - most * per;
    const T drawn = std::ldexp(static_cast<T>(rng() >> 11), -53) + T{0.5};
    const T size = i % 3 == 0 ? kNumbers[i / 3 % std::size(kNumbers)] : i % 3 == 1 ? drawn : -drawn;
    const T counted = std::isnan(size) && i % 2 == 0 ? kNan : bias + static_cast<T>(e);
    std::memcpy(&result[0][i * sizeof(T)], &size, sizeof(T));
    std::memcpy(&result[1][i * sizeof(T)], &counted, sizeof(T));
  }
  return result;
}

void check(Prim prim, DType result, const std::vector<DType>& operands, uint64_t imm = 0) {
  const LoopKernel kernel = prim_kernel(prim, result, operands, imm);
  if (!verify(kernel).ok()) return;
  std::mt19937_64 rng(7);
  std::vector<Elements> inputs;
  if (prim == Prim::scale)
    inputs = result == DType::kF32 ? scale_operands<float>(0x1.8p23F + 4 * 254, 4, 250, rng)
                                   : scale_operands<double>(0x1.8p52 + 8 * 2046, 8, 2040, rng);
  else
    for (DType t : operands) inputs.push_back(random_elements(t, kCount, rng));
  std::vector<void*> buffers;
  for (Elements& input : inputs) buffers.push_back(input.data());
  const int64_t size = hlo::byte_size(result);
  std::vector<char> expected(kCount * size), got(kCount * size);
  const int64_t args[] = {kCount};
  const int32_t cancel = 0;
  buffers.push_back(expected.data());
  REQUIRE(interpret_kernel(kernel, buffers.data(), args, 0, 1, 0, kCount, &cancel) == 0);
  buffers.back() = got.data();
  for (const char* cpu : {"", kLeastCpu}) {
    auto compiled = generator(cpu).compile(to_string(kernel));
    INFO(to_string(kernel));
    if (!compiled.ok()) FAIL(compiled.status().message());
    std::fill(got.begin(), got.end(), 0x55);
    REQUIRE(compiled->entry()(buffers.data(), args, 0, 1, 0, kCount, &cancel) == 0);
    int64_t wrong = 0;
    for (int64_t i = 0; i < kCount && wrong < 3; ++i) {
      if (same_element(result, &expected[i * size], &got[i * size])) continue;
      ++wrong;
      uint64_t a[3] = {0, 0, 0}, e = 0, g = 0;
      for (size_t k = 0; k < operands.size(); ++k)
        std::memcpy(&a[k], &inputs[k][i * hlo::byte_size(operands[k])], hlo::byte_size(operands[k]));
      std::memcpy(&e, &expected[i * size], size);
      std::memcpy(&g, &got[i * size], size);
      UNSCOPED_INFO(cpu << " element " << i << std::hex << " of " << a[0] << " " << a[1] << " " << a[2]
                        << ": " << e << " expected, got " << g);
    }
    CHECK(wrong == 0);
  }
}

}  // namespace

TEST_CASE("machine code of every primitive has the interpreter's bits", "[codegen]") {
  for (DType t : part_types()) {
    for (int p = 0; p <= static_cast<int>(Prim::convert); ++p) {
      const Prim prim = static_cast<Prim>(p);
      const bool compares = prim >= Prim::eq && prim <= Prim::le;
      if (prim == Prim::select) {
        check(prim, t, {DType::kBool, t, t});
      } else if (prim == Prim::lookup) {
        for (uint64_t i = 0; hlo::scalar::table(t, i) != nullptr; ++i)
          check(prim, t, {t == DType::kF64 ? DType::kU64 : DType::kU32}, i);
      } else if (prim == Prim::constant) {
        check(prim, t, {}, 1);
      } else if (prim == Prim::convert || prim == Prim::bitcast) {
        for (DType to : part_types()) check(prim, to, {t});
      } else {
        check(prim, compares ? DType::kBool : t, std::vector<DType>(hlo::prim_arity(prim), t));
      }
    }
  }
}

TEST_CASE("scaling by a power of two rounds once", "[codegen]") {
  std::mt19937_64 rng(3);
  const std::vector<Elements> inputs = scale_operands<double>(0x1.8p52 + 8 * 2046, 8, 2040, rng);
  std::vector<double> got(kCount);
  void* buffers[] = {const_cast<char*>(inputs[0].data()), const_cast<char*>(inputs[1].data()), got.data()};
  const LoopKernel kernel = prim_kernel(Prim::scale, DType::kF64, {DType::kF64, DType::kF64}, 0);
  const int64_t args[] = {kCount};
  const int32_t cancel = 0;
  REQUIRE(interpret_kernel(kernel, buffers, args, 0, 1, 0, kCount, &cancel) == 0);
  for (int64_t i = 0; i < kCount; ++i) {
    double size, counted;
    std::memcpy(&size, &inputs[0][i * sizeof(double)], sizeof(double));
    std::memcpy(&counted, &inputs[1][i * sizeof(double)], sizeof(double));
    if (std::isnan(size))
      CHECK(std::isnan(got[i]));
    else
      CHECK(got[i] == std::ldexp(size, static_cast<int>(std::floor((counted - (0x1.8p52 + 8 * 2046)) / 8))));
  }
}
