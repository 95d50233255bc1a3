// Kernels that read and write arrays in the order of their code: the same bits on both tiers, and refusals.
#include <catch2/catch.hpp>
#include <random>

#include "tests/jit/kernel_util.h"

namespace lamina::testing {
namespace {

using hlo::DType;
using hlo::Prim;
using jit::CancelQuestion;
using jit::KernelInstr;
using jit::KernelOp;
using jit::LoopKernel;
using jit::Repeat;

constexpr int64_t kSize = 8, kExtent = 9;

// Two arrays of random elements that are copied to three others, and random loads, stores and copies in them,
// in nests of loops.
class RandomArrays {
 public:
  RandomArrays(uint64_t seed, DType type) : rng_(seed), type_(type) {
    for (int b = 0; b < 5; ++b) {
      kernel.buffers.push_back({type, b > 1});
      memory.push_back(jit::random_elements(type, kSize, rng_));
    }
    kernel.num_args = 0;
    for (uint32_t b = 2; b < 5; ++b) copy(kernel.body, b, pick(2));
    nest(kernel.body, 3, 2);
    kernel.num_args = static_cast<uint32_t>(kernel.repeats.size());
    args.assign(kernel.repeats.size(), kExtent);
  }

  LoopKernel kernel;
  std::vector<int64_t> args;
  std::vector<std::vector<char>> memory;

 private:
  using Code = std::vector<KernelInstr>;

  uint32_t pick(int n) { return static_cast<uint32_t>(rng_() % static_cast<uint64_t>(n)); }
  static uint32_t add(Code& code, const KernelInstr& i) {
    code.push_back(i);
    return static_cast<uint32_t>(code.size() - 1);
  }
  static uint32_t prim(Code& code, Prim p, DType t, std::initializer_list<uint32_t> operands,
                       uint64_t imm = 0) {
    KernelInstr i{KernelOp::kPrim, p, t};
    std::copy(operands.begin(), operands.end(), i.operands);
    i.imm = imm;
    return add(code, i);
  }
  static void copy(Code& code, uint32_t to, uint32_t from) {
    KernelInstr i{KernelOp::kCopy, Prim::constant, DType::kS64};
    i.operands[0] = prim(code, Prim::constant, DType::kS64, {}, kSize);
    i.imm = jit::copy_of(from, to);
    add(code, i);
  }
  // Some position, which depends on the step of a loop around if there is one.
  uint32_t position(Code& code, int dims) {
    uint32_t at = prim(code, Prim::constant, DType::kS64, {}, pick(kSize));
    if (dims > 0) {
      KernelInstr i{KernelOp::kIndex, Prim::constant, DType::kS64};
      i.imm = around_[pick(dims)];
      at = prim(code, Prim::add, DType::kS64, {at, add(code, i)});
    }
    return prim(code, Prim::bit_and, DType::kS64,
                {at, prim(code, Prim::constant, DType::kS64, {}, kSize - 1)});
  }

  void nest(Code& code, int statements, int depth) {
    const int dims = static_cast<int>(around_.size());
    std::vector<uint32_t> values{prim(code, Prim::constant, type_, {}, rng_())};
    for (int s = 0; s < statements + 2; ++s) {
      const uint32_t changing = 2 + pick(3);
      KernelInstr load{KernelOp::kLoadAt, Prim::constant, type_};
      load.operands[0] = position(code, dims);
      load.imm = pick(5);
      values.push_back(add(code, load));
      const uint32_t a = values[pick(static_cast<int>(values.size()))], b = values.back();
      values.push_back(prim(code, Prim::bit_xor, type_, {a, b}));
      const uint32_t less = prim(code, Prim::lt, DType::kBool, {a, b});
      KernelInstr store{KernelOp::kStoreAt, Prim::constant, type_, pick(2) == 0};
      store.operands[0] = position(code, dims);
      store.operands[1] = values[pick(static_cast<int>(values.size()))];
      store.operands[2] = store.predicated ? less : 0;
      store.imm = changing;
      add(code, store);
      if (pick(4) == 0) copy(code, changing, changing == 2 ? 3 : 2);
      if (depth > 0 && pick(2) == 0 && kernel.repeats.size() < 6) repeat(code, values, depth);
    }
  }
  void repeat(Code& code, std::vector<uint32_t>& values, int depth) {
    const size_t number = kernel.repeats.size();
    kernel.repeats.emplace_back();
    around_.push_back(static_cast<uint32_t>(number));
    Repeat r;
    r.init = {values.back()};
    nest(r.body, 1, depth - 1);
    KernelInstr carried{KernelOp::kCarried, Prim::constant, type_};
    const uint32_t before = add(r.body, carried);
    KernelInstr load{KernelOp::kLoadAt, Prim::constant, type_};
    load.operands[0] = position(r.body, static_cast<int>(around_.size()));
    load.imm = 2 + pick(3);
    r.next = {prim(r.body, Prim::bit_xor, type_, {before, add(r.body, load)})};
    around_.pop_back();
    KernelInstr run{KernelOp::kRepeat, Prim::constant, DType::kS64};
    run.imm = number;
    KernelInstr last{KernelOp::kRepeated, Prim::constant, type_};
    last.operands[0] = add(code, run);
    values.push_back(add(code, last));
    kernel.repeats[number] = std::move(r);
  }

  std::mt19937_64 rng_;
  DType type_;
  std::vector<uint32_t> around_;
};

template <class F>
std::vector<std::vector<char>> run(const RandomArrays& c, F&& entry) {
  std::vector<std::vector<char>> memory = c.memory;
  std::vector<void*> buffers;
  for (auto& m : memory) buffers.push_back(m.data());
  CancelQuestion question;
  REQUIRE(entry(buffers.data(), c.args.data(), 0, 1, 0, 1, &question.flag) == 0);
  return memory;
}

TEST_CASE("Loads, stores and copies of arrays keep their order on every tier and target",
          "[repeat][codegen]") {
  static constexpr DType kTypes[] = {DType::kS32, DType::kU8, DType::kS64, DType::kU16};
  for (uint64_t seed = 0; seed < 60; ++seed) {
    RandomArrays c(seed, kTypes[seed % 4]);
    INFO("seed " << seed << "\n" << to_string(c.kernel));
    const absl::Status status = verify(c.kernel);
    if (!status.ok()) FAIL(status.message());
    CHECK(jit::reads_back(c.kernel));
    CHECK(changes_arrays(c.kernel));
    const jit::KernelInterpreter interpreter(c.kernel);
    const auto want = run(c, [&](auto... a) { return interpreter.run(a...); });
    LoopKernel less = c.kernel;
    drop_unused(less);
    REQUIRE(verify(less).ok());
    const jit::KernelInterpreter pruned(less);
    CHECK(want == run(c, [&](auto... a) { return pruned.run(a...); }));
    for (const char* cpu : {"", jit::kLeastCpu}) {
      auto compiled = jit::generator(cpu).compile(to_string(less));
      if (!compiled.ok()) FAIL(compiled.status().message());
      INFO(cpu);
      REQUIRE(want == run(c, compiled->entry()));
    }
  }
}

TEST_CASE("Malformed stores and copies are refused with their fault", "[repeat]") {
  const auto good = [] {
    LoopKernel k;
    k.buffers = {{DType::kS32, false}, {DType::kS32, true}, {DType::kU8, true}};
    k.body = {{KernelOp::kPrim, Prim::constant, DType::kS64},
              {KernelOp::kCopy, Prim::constant, DType::kS64, false, {0}, jit::copy_of(0, 1)},
              {KernelOp::kPrim, Prim::constant, DType::kS32},
              {KernelOp::kStoreAt, Prim::constant, DType::kS32, false, {0, 2}, 1}};
    return k;
  };
  REQUIRE(verify(good()).ok());
  const auto fault = [&](auto&& change) {
    LoopKernel k = good();
    change(k);
    return std::string(verify(k).message());
  };
  using Catch::Contains;
  CHECK_THAT(fault([](LoopKernel& k) { k.body[3].imm = 0; }), Contains("no written buffer 0"));
  CHECK_THAT(fault([](LoopKernel& k) { k.body[3].imm = 9; }), Contains("no written buffer 9"));
  CHECK_THAT(fault([](LoopKernel& k) { k.body[3].imm = 2; }), Contains("type differs"));
  CHECK_THAT(fault([](LoopKernel& k) { k.body[3].operands[0] = 2; }), Contains("is not s64"));
  CHECK_THAT(fault([](LoopKernel& k) { k.body[3].operands[1] = 1; }), Contains("has no value"));
  CHECK_THAT(fault([](LoopKernel& k) { k.body[3].predicated = true; }), Contains("predicate"));
  CHECK_THAT(fault([](LoopKernel& k) { k.body[1].imm = jit::copy_of(0, 0); }),
             Contains("no written buffer 0"));
  CHECK_THAT(fault([](LoopKernel& k) { k.body[1].imm = jit::copy_of(1, 1); }),
             Contains("a copy of buffer 1"));
  CHECK_THAT(fault([](LoopKernel& k) { k.body[1].imm = jit::copy_of(2, 1); }),
             Contains("a copy of buffer 2"));
  CHECK_THAT(fault([](LoopKernel& k) { k.body[1].imm = jit::copy_of(7, 1); }),
             Contains("a copy of buffer 7"));
  CHECK_THAT(fault([](LoopKernel& k) { k.parallel_rank = 1, k.num_args = 1; }), Contains("by many elements"));
}

}  // namespace
}  // namespace lamina::testing
