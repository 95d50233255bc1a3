// Mistakes planted in generated code: the stand-in finds each.
#include <llvm/IR/Constants.h>
#include <llvm/IR/IRBuilder.h>
#include <llvm/IR/Instructions.h>
#include <llvm/IR/IntrinsicInst.h>
#include <llvm/IR/IntrinsicsNVPTX.h>
#include <llvm/IR/Module.h>

#include <catch2/catch.hpp>

#include "jit/codegen/ir_gate.h"
#include "jit/codegen/nvptx.h"
#include "tests/grid/grid_testing.h"

namespace lamina::grid {
namespace {

template <class F>
int for_each(llvm::Module& module, const F& f) {
  std::vector<llvm::Instruction*> code;
  for (llvm::Function& function : module)
    for (llvm::BasicBlock& block : function)
      for (llvm::Instruction& i : block) code.push_back(&i);
  int changed = 0;
  for (llvm::Instruction* i : code) changed += f(*i);
  return changed;
}

bool is_call(const llvm::Instruction& i, llvm::Intrinsic::ID id) {
  const auto* call = llvm::dyn_cast<llvm::IntrinsicInst>(&i);
  return call && call->getIntrinsicID() == id;
}

// Each instruction of the kind becomes its operand, or goes.
void drop(llvm::Module& module, llvm::Intrinsic::ID id, int operand) {
  const int changed = for_each(module, [&](llvm::Instruction& i) {
    if (!is_call(i, id)) return 0;
    if (operand >= 0) i.replaceAllUsesWith(i.getOperand(static_cast<unsigned>(operand)));
    i.eraseFromParent();
    return 1;
  });
  REQUIRE(changed > 0);
}

// Comparisons of the kind hold always.
void hold(llvm::Module& module, llvm::CmpInst::Predicate predicate) {
  const int changed = for_each(module, [&](llvm::Instruction& i) {
    auto* compare = llvm::dyn_cast<llvm::ICmpInst>(&i);
    if (!compare || compare->getPredicate() != predicate) return 0;
    compare->replaceAllUsesWith(llvm::ConstantInt::getTrue(module.getContext()));
    return 1;
  });
  REQUIRE(changed > 0);
}

GridCase sum_columns() {
  jit::KernelBuilder k(1, 1);
  const uint32_t x = k.buffer(DType::kF32), init = k.buffer(DType::kF32), out = k.buffer(DType::kF32, true);
  const uint32_t stride = k.arg();
  k.load(k.access(x, {{0, 1, 0}, {1, 0, stride}}));
  hlo::ScalarInstr add;
  add.prim = Prim::add;
  add.type = DType::kF32;
  add.operands[1] = 1;
  k.kernel.reduction = {{0}, {{DType::kF32, DType::kF32}, {add}, {2}}, {k.access(init, {})}};
  k.in_epilogue = true;
  k.store(k.access(out, {{0, 1, 0}}), k.add({jit::KernelOp::kReduced, Prim::constant, DType::kF32}));
  std::mt19937_64 rng(1);
  GridCase c{k.kernel, {33, 100, 33}, {}};
  c.memory = {jit::random_elements(DType::kF32, 3300, rng), std::vector<char>(4, 0),
              std::vector<char>(33 * 4)};
  return c;
}

GridCase doubled(int64_t count) {
  jit::KernelBuilder k(1, 0);
  const uint32_t x = k.load(k.access(k.buffer(DType::kF32), {{0, 1, 0}}));
  k.store(k.access(k.buffer(DType::kF32, true), {{0, 1, 0}}), k.prim(Prim::add, DType::kF32, {x, x}));
  std::mt19937_64 rng(2);
  return {k.kernel,
          {count},
          {jit::random_elements(DType::kF32, count, rng), std::vector<char>(static_cast<size_t>(count * 4))}};
}

GridCase transposed(int64_t across, int64_t along) {
  jit::KernelBuilder k(2, 0);
  const uint32_t from = k.buffer(DType::kF32), to = k.buffer(DType::kF32, true);
  const uint32_t down = k.arg(), side = k.arg();
  const uint32_t x = k.load(k.access(from, {{0, 1, 0}, {1, 0, down}}));
  k.store(k.access(to, {{0, 0, side}, {1, 1, 0}}), x);
  std::mt19937_64 rng(3);
  return {k.kernel,
          {across, along, across, along},
          {jit::random_elements(DType::kF32, across * along, rng),
           std::vector<char>(static_cast<size_t>(across * along * 4))}};
}

GridCase sorted(int64_t rows, int64_t length) {
  jit::KernelBuilder k(2, 0);
  const uint32_t from = k.buffer(DType::kS32), to = k.buffer(DType::kS32, true), stride = k.arg();
  k.store(k.access(to, {{0, 0, stride}, {1, 1, 0}}), k.load(k.access(from, {{0, 0, stride}, {1, 1, 0}})));
  k.kernel.before = {{DType::kS32, DType::kS32}, {{Prim::lt, DType::kBool, {0, 1}}}, {2}};
  std::mt19937_64 rng(4);
  return {k.kernel,
          {rows, length, length},
          {jit::random_elements(DType::kS32, rows * length, rng),
           std::vector<char>(static_cast<size_t>(rows * length * 4))}};
}

// What is found, in either order: a fault in words, or that results differ.
std::string found(const GridCase& c, const GridSchedule& schedule, void (*change)(llvm::Module&),
                  int64_t skew = 0) {
  const auto right = StandIn::make(c.kernel, schedule), wrong = StandIn::make(c.kernel, schedule, change);
  if (!right.ok() || !wrong.ok()) FAIL(right.status().message() << wrong.status().message());
  for (const Seed order : {Seed{0}, Seed{3}}) {
    auto expected = c.memory, got = c.memory;
    const auto run = [&](StandIn& on, std::vector<std::vector<char>>& memory) {
      std::vector<Region> regions;
      for (size_t b = 0; b < memory.size(); ++b)
        regions.push_back(
            {memory[b].data(), static_cast<int64_t>(memory[b].size()), c.kernel.buffers[b].written, skew});
      return on.run(regions, c.args, order);
    };
    REQUIRE(run(**right, expected) == "");
    if (std::string fault = run(**wrong, got); !fault.empty()) return fault;
    if (expected != got) return "results differ";
  }
  return "nothing";
}

constexpr GridSchedule kColumns{GridForm::kColumns, 4, 1, 64}, kRows{GridForm::kHalfWarp, 4, 1, 1},
    kVectors{GridForm::kElements, 4, 2, 1}, kTiles{GridForm::kTiles, 4, 1, 32},
    kSort{GridForm::kSort, 2, 1, 2}, kMerges{GridForm::kMerges, 1, 1, 1};

}  // namespace

TEST_CASE("planted mistakes are found", "[grid]") {
  using llvm::Module;
  CHECK(found(sum_columns(), kColumns, [](Module&) {}) == "nothing");
  SECTION("no barriers") {
    CHECK(found(sum_columns(), kColumns, [](Module& m) { drop(m, llvm::Intrinsic::nvvm_barrier0, -1); }) ==
          "results differ");
  }
  SECTION("no barriers between a tile's loads and its elements") {
    CHECK(found(transposed(64, 64), kTiles, [](Module&) {}) == "nothing");
    CHECK(found(transposed(64, 64), kTiles, [](Module& m) { drop(m, llvm::Intrinsic::nvvm_barrier0, -1); }) ==
          "results differ");
  }
  SECTION("reads of a tile past the end") {
    CHECK_THAT(found(transposed(60, 60), kTiles, [](Module& m) { drop(m, llvm::Intrinsic::smin, 0); }),
               Catch::Contains("outside of buffer 0"));
  }
  SECTION("a tile's vectors at odd addresses") {
    CHECK_THAT(found(transposed(61, 60), kTiles, [](Module& m) { hold(m, llvm::CmpInst::ICMP_EQ); }),
               Catch::StartsWith("a read of 16 bytes that is not aligned"));
  }
  SECTION("no barriers between the merges of a sort") {
    for (const auto& [c, schedule] : {std::pair(sorted(3, 250), kSort), std::pair(sorted(1, 900), kMerges)}) {
      CHECK(found(c, schedule, [](Module&) {}) == "nothing");
      CHECK(found(c, schedule, [](Module& m) { drop(m, llvm::Intrinsic::nvvm_barrier0, -1); }) ==
            "results differ");
    }
  }
  SECTION("reads of a sort past the end") {
    CHECK_THAT(found(sorted(3, 250), kSort, [](Module& m) { drop(m, llvm::Intrinsic::smin, 0); }),
               Catch::Contains("outside of"));
  }
  SECTION("a barrier that some threads do not come by") {
    const std::string fault = found(sum_columns(), kColumns, [](Module& m) {
      for (llvm::BasicBlock& block : *m.getFunction("lamina_kernel"))
        if (block.getName() == "fold")
          llvm::IRBuilder<>(&block, block.getFirstNonPHIIt())
              .CreateIntrinsic(llvm::Type::getVoidTy(m.getContext()), llvm::Intrinsic::nvvm_barrier0, {});
    });
    CHECK_THAT(fault, Catch::StartsWith("threads wait at different places"));
  }
  SECTION("no shuffles") {
    CHECK(found(sum_columns(), kRows,
                [](Module& m) { drop(m, llvm::Intrinsic::nvvm_shfl_sync_down_i32, 1); }) == "results differ");
  }
  SECTION("reads past the end") {
    CHECK_THAT(found(doubled(331), kVectors, [](Module& m) { drop(m, llvm::Intrinsic::smin, 0); }),
               Catch::StartsWith("a read of 4 bytes outside of buffer 0"));
  }
  SECTION("writes past the end") {
    CHECK_THAT(found(doubled(331), kVectors, [](Module& m) { hold(m, llvm::CmpInst::ICMP_SLT); }),
               Catch::StartsWith("a write of 4 bytes outside of buffer 1"));
  }
  SECTION("vectors at odd addresses") {
    CHECK_THAT(found(
                   doubled(512), kVectors, [](Module& m) { hold(m, llvm::CmpInst::ICMP_EQ); }, 4),
               Catch::StartsWith("a read of 16 bytes that is not aligned"));
  }
  SECTION("a write to what is only read") {
    CHECK_THAT(found(doubled(512), kVectors,
                     [](Module& m) {
                       llvm::Function* entry = m.getFunction("lamina_kernel");
                       entry->getArg(1)->replaceAllUsesWith(entry->getArg(0));
                     }),
               Catch::StartsWith("a write of 16 bytes of a buffer that is only read"));
  }
}

TEST_CASE("what the code generator would end the process for is refused", "[grid]") {
  const GridCase c = doubled(64);
  const auto refusal = [&](const std::function<llvm::Value*(llvm::IRBuilder<>&, llvm::Value*)>& with) {
    llvm::LLVMContext context;
    auto machine = jit::codegen::grid_machine("");
    REQUIRE(static_cast<bool>(machine));
    const std::vector<jit::GridPart> parts{{c.kernel, kVectors}};
    auto module = jit::codegen::emit_grid_module(parts, **machine, context);
    REQUIRE(static_cast<bool>(module));
    for_each(**module, [&](llvm::Instruction& i) {
      auto* sum = llvm::dyn_cast<llvm::BinaryOperator>(&i);
      if (!sum || sum->getOpcode() != llvm::Instruction::FAdd) return 0;
      llvm::IRBuilder<> b(sum);
      sum->replaceAllUsesWith(with(b, sum->getOperand(0)));
      return 1;
    });
    llvm::Error error = jit::codegen::pass_gate(**module);
    return llvm::toString(std::move(error));
  };
  CHECK(refusal([](llvm::IRBuilder<>&, llvm::Value* x) { return x; }) == "");
  CHECK_THAT(
      refusal([](llvm::IRBuilder<>& b, llvm::Value* x) {
        return b.CreateUnaryIntrinsic(llvm::Intrinsic::exp, x);
      }),
      Catch::StartsWith("the code generator of the grid does not take an intrinsic that is not on the list"));
  CHECK_THAT(refusal([](llvm::IRBuilder<>& b, llvm::Value* x) { return b.CreateFRem(x, x); }),
             Catch::StartsWith(
                 "the code generator of the grid does not take an instruction that is not on the list"));
  CHECK_THAT(refusal([](llvm::IRBuilder<>& b, llvm::Value* x) {
               llvm::Value* half = b.CreateFPTrunc(x, b.getHalfTy());
               return b.CreateFPExt(b.CreateFMul(half, half), b.getFloatTy());
             }),
             Catch::StartsWith("the code generator of the grid does not take arithmetic of f16"));
  CHECK_THAT(
      refusal([](llvm::IRBuilder<>& b, llvm::Value* x) {
        llvm::Value* wide = b.CreateZExt(b.CreateFPToUI(x, b.getInt64Ty()), b.getInt128Ty());
        return b.CreateUIToFP(b.CreateTrunc(wide, b.getInt64Ty()), b.getFloatTy());
      }),
      Catch::StartsWith("the code generator of the grid does not take a type that is not on the list"));
}

}  // namespace lamina::grid
