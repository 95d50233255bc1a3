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

void check(Prim prim, DType result, const std::vector<DType>& operands, uint64_t imm = 0) {
  const LoopKernel kernel = prim_kernel(prim, result, operands, imm);
  if (!verify(kernel).ok()) return;
  constexpr int64_t kCount = 1003;
  std::mt19937_64 rng(7);
  std::vector<std::vector<char>> inputs;
  std::vector<void*> buffers;
  for (DType t : operands) {
    inputs.push_back(random_elements(t, kCount, rng));
    buffers.push_back(inputs.back().data());
  }
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
        for (uint64_t i = 0; hlo::scalar::table(t, i) != nullptr; ++i) check(prim, t, {DType::kU32}, i);
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
