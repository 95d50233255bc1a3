// Reductions on the stand-in: the tree of the numerics contract, by every schedule.
#include <catch2/catch.hpp>

#include "tests/grid/grid_testing.h"
#include "tests/jit/random_kernel.h"

namespace lamina::grid {
namespace {

// Combining is by one primitive; pairs are argmax.
enum class By { kAdd, kMax, kPairs };

// Over the last of two dimensions, or the first.
GridCase reduction(DType t, By by, bool last, int64_t rows, int64_t columns, uint64_t seed) {
  jit::KernelBuilder k(1, 1);
  const uint32_t x = k.buffer(t), init = k.buffer(t), out = k.buffer(t, true);
  const uint32_t stride = k.arg();
  const jit::AccessTerm unit{static_cast<uint8_t>(last ? 1 : 0), 1, 0};
  const jit::AccessTerm far{static_cast<uint8_t>(last ? 0 : 1), 0, stride};
  const uint32_t element = k.load(k.access(x, {unit, far}));
  jit::Reduction& r = k.kernel.reduction;
  const auto instr = [](Prim p, DType type, std::initializer_list<uint32_t> operands) {
    hlo::ScalarInstr i;
    i.prim = p;
    i.type = type;
    std::copy(operands.begin(), operands.end(), i.operands);
    return i;
  };
  GridCase c;
  c.args = last ? std::vector<int64_t>{rows, columns, columns} : std::vector<int64_t>{columns, rows, columns};
  std::mt19937_64 rng(seed);
  c.memory = {jit::random_elements(t, rows * columns, rng), jit::random_elements(t, 1, rng), {}};
  const int64_t outputs = last ? rows : columns;
  c.memory[2].resize(static_cast<size_t>(outputs * hlo::byte_size(t)));
  r.inputs = {element};
  r.init = {k.access(init, {})};
  switch (by) {
    case By::kAdd:
      r.combine = {{t, t}, {instr(Prim::add, t, {0, 1})}, {2}};
      break;
    case By::kMax:
      r.combine = {{t, t}, {instr(Prim::lt, DType::kBool, {0, 1}), instr(Prim::select, t, {2, 1, 0})}, {3}};
      break;
    case By::kPairs: {
      jit::KernelInstr index{jit::KernelOp::kIndex, Prim::constant, DType::kS64};
      index.imm = 1;
      r.inputs.push_back(k.add(index));
      r.combine = {{t, DType::kS64, t, DType::kS64},
                   {instr(Prim::lt, DType::kBool, {0, 2}), instr(Prim::select, t, {4, 2, 0}),
                    instr(Prim::select, DType::kS64, {4, 3, 1})},
                   {5, 6}};
      const uint32_t place = k.buffer(DType::kS64), at = k.buffer(DType::kS64, true);
      r.init.push_back(k.access(place, {}));
      c.memory.push_back(std::vector<char>(8, 0));
      c.memory.push_back(std::vector<char>(static_cast<size_t>(outputs * 8), 0));
      k.in_epilogue = true;
      jit::KernelInstr which{jit::KernelOp::kReduced, Prim::constant, DType::kS64};
      which.imm = 1;
      k.store(k.access(at, {{0, 1, 0}}), k.add(which));
    }
  }
  k.in_epilogue = true;
  const uint32_t result = k.add({jit::KernelOp::kReduced, Prim::constant, t});
  k.store(k.access(out, {{0, 1, 0}}), result);
  c.kernel = k.kernel;
  return c;
}

GridSchedule along(const LoopKernel& k, GridForm form, uint32_t vectors) {
  return {form, static_cast<uint32_t>(jit::row_lanes(k)), vectors, 1};
}

bool combines(DType t) { return !hlo::is_complex(t) && !hlo::is_narrow(t) && !hlo::is_storage_float(t); }

}  // namespace

TEST_CASE("rows of any length and type by half a warp each", "[grid]") {
  uint64_t seed = 0;
  for (int i = 0; i < hlo::kNumDTypes; ++i) {
    const DType t = static_cast<DType>(i);
    for (const By by : {By::kAdd, By::kMax, By::kPairs}) {
      if (!combines(t) || (by == By::kAdd && t == DType::kBool)) continue;
      const std::vector<int64_t> some{0, 5, 1031}, many{0, 1, 5, 63, 64, 65, 1000, 1031};
      for (const int64_t columns : t == DType::kF32 ? many : some) {
        const GridCase c = reduction(t, by, true, 37, columns, ++seed);
        INFO(hlo::info(t).name << " " << columns);
        check_grid(c, seed);
        if (columns == 1031) check_grid(c, along(c.kernel, GridForm::kHalfWarp, 4), seed);
      }
    }
  }
}

TEST_CASE("chunks, their results, and the results of those", "[grid]") {
  for (const int64_t columns : {16384, 16385, 40000, 163840}) {
    const GridCase c = reduction(DType::kF32, By::kAdd, true, 3, columns, 5);
    const GridCase pairs = reduction(DType::kS64, By::kPairs, true, 2, columns, 6);
    CHECK(favoured_grid(c.kernel, c.args).form == GridForm::kBlocks);
    for (const GridForm form : {GridForm::kChunks, GridForm::kBlocks}) {
      check_grid(c, along(c.kernel, form, 2), 5);
      check_grid(pairs, along(pairs.kernel, form, 1), 6);
    }
  }
  // Results of more than a chunk of chunks are reduced twice.
  const GridCase c = reduction(DType::kF32, By::kAdd, true, 2, 4, 7);
  const std::vector<int64_t> args{2, int64_t{16384} * 16384 + 1, 0};
  const auto plan = grid_plan(c.kernel, along(c.kernel, GridForm::kChunks, 1), args);
  REQUIRE(plan.ok());
  REQUIRE(plan->launches.size() == 3);
  CHECK(plan->launches[0].entry == jit::kGridChunks);
  CHECK(plan->launches[0].blocks == (2 * 16385 + 15) / 16);
  CHECK(plan->launches[1].entry == jit::kGridPartials);
  CHECK(plan->launches[1].count == 16385);
  CHECK(plan->launches[2].entry == jit::kGridFinish);
  CHECK(plan->launches[2].count == 2);
  CHECK(plan->launches[2].from == plan->launches[1].to);
  CHECK(plan->scratch_bytes == 2 * 2 * 16385 * 8);
}

TEST_CASE("columns by threads below each other", "[grid]") {
  uint64_t seed = 100;
  for (int i = 0; i < hlo::kNumDTypes; ++i) {
    const DType t = static_cast<DType>(i);
    for (const By by : {By::kAdd, By::kMax, By::kPairs}) {
      if (!combines(t) || (by == By::kAdd && t == DType::kBool)) continue;
      const std::vector<int64_t> some{0, 3, 300}, many{0, 1, 3, 16, 63, 64, 65, 100, 300};
      for (const int64_t rows : t == DType::kF32 ? many : some) {
        const GridCase c = reduction(t, by, false, rows, rows == 300 ? 75 : 20, ++seed);
        INFO(hlo::info(t).name << " " << rows);
        if (rows > 0) CHECK(favoured_grid(c.kernel, c.args).form == GridForm::kColumns);
        check_grid(c, seed);
      }
    }
  }
}

TEST_CASE("columns of several chunks", "[grid]") {
  uint64_t seed = 300;
  for (const int64_t rows : {16385, 33000})
    for (const int64_t columns : {3, 37})
      for (const By by : {By::kAdd, By::kPairs}) {
        const GridCase c =
            reduction(by == By::kAdd ? DType::kF32 : DType::kS64, by, false, rows, columns, ++seed);
        const GridSchedule s = favoured_grid(c.kernel, c.args);
        CHECK(s.form == GridForm::kColumnChunks);
        CHECK(s.vectors > 1);
        check_grid(c, s, seed);
        check_grid(c, {s.form, 1, 1, s.rows}, seed);
      }
}

TEST_CASE("random reductions have the interpreter's bits on a grid, in every schedule", "[grid]") {
  for (uint64_t seed = 0; seed < 60; ++seed) {
    const int parallel = static_cast<int>(seed % 4), reduce = 1 + static_cast<int>(seed / 4 % 3);
    const jit::Case made = jit::RandomKernel(seed + 5000).make(parallel, reduce);
    const GridCase c{made.kernel, made.args, made.memory};
    check_grid(c, seed);
    // A block to each of many short rows or columns takes the stand-in minutes.
    const bool few = made.outer() * made.inner() <= 50;
    const GridForm forms[] = {GridForm::kHalfWarp, GridForm::kChunks,
                              few ? GridForm::kBlocks : GridForm::kChunks};
    const GridForm form = forms[seed / 4 % 3];
    check_grid(c, along(c.kernel, form, 1u << seed % 3), seed);
    if (parallel > 0 && few)
      for (const GridForm columns : {GridForm::kColumns, GridForm::kColumnChunks})
        check_grid(c,
                   {columns, 1u << seed % 3, 1u << seed / 3 % 3, static_cast<uint32_t>(tree_lanes(c.kernel))},
                   seed);
  }
}

TEST_CASE("schedules of other kernels and arguments are refused", "[grid]") {
  const GridCase c = reduction(DType::kF32, By::kAdd, true, 3, 20000, 1);
  const auto refused = [&](const GridSchedule& s) {
    return std::string(grid_plan(c.kernel, s, c.args).status().message());
  };
  CHECK(refused({GridForm::kElements, 4, 1, 1}) ==
        "\"schedule grid form=elements lanes=4 vectors=1 rows=1\" is no schedule here: it is one for a "
        "kernel that "
        "reduces, or the reverse");
  CHECK(refused(along(c.kernel, GridForm::kHalfWarp, 1)).ends_with("a row has more than one chunk"));
  CHECK(refused({GridForm::kColumns, 4, 1, 64}).ends_with("a column has more than one chunk"));
  CHECK(!StandIn::make(c.kernel, {GridForm::kHalfWarp, 2, 1, 1}).ok());
}

}  // namespace lamina::grid
