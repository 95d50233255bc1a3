// Kernels without reductions on the stand-in.
#include <catch2/catch.hpp>

#include "tests/grid/grid_testing.h"
#include "tests/jit/random_kernel.h"
#include "tests/jit/random_repeats.h"

namespace lamina::grid {
namespace {

// Rows that are no multiple of a vector, and of a warp's vectors.
constexpr int64_t kCount = 331;

GridSchedule elements(uint32_t lanes, uint32_t vectors) { return {GridForm::kElements, lanes, vectors, 1}; }

}  // namespace

TEST_CASE("every primitive has the interpreter's bits on a grid", "[grid]") {
  const auto kernels = prim_kernels(kCount);
  CHECK(kernels.size() > 700);
  uint64_t seed = 0;
  for (const OpKernel& k : kernels) {
    INFO(k.name);
    check_grid(k.c, ++seed);
  }
}

TEST_CASE("every elementwise op has the interpreter's bits on a grid", "[grid]") {
  const auto kernels = op_kernels(kCount);
  CHECK(kernels.size() > 1000);
  uint64_t seed = 0;
  for (const OpKernel& k : kernels) {
    INFO(k.name);
    check_grid(k.c, ++seed);
  }
}

TEST_CASE("random kernels have the interpreter's bits on a grid, in every schedule", "[grid]") {
  for (uint64_t seed = 0; seed < 300; ++seed) {
    const jit::Case made = jit::RandomKernel(seed).make(static_cast<int>(seed % 5), 0);
    const GridCase c{made.kernel, made.args, made.memory};
    check_grid(c, seed);
    check_grid(c, elements(1u << seed % 5, 1u << seed / 5 % 4), seed);
  }
}

TEST_CASE("random repeats have the interpreter's bits on a grid", "[grid]") {
  for (uint64_t seed = 0; seed < 150; ++seed) {
    testing::RandomRepeats made(seed);
    made.make();
    const GridCase c{made.kernel, made.args, made.memory};
    check_grid(c, seed);
    check_grid(c, elements(4, 2), seed);
  }
}

TEST_CASE("a result over its operand, in vectors and without", "[grid]") {
  for (int64_t count : {1, 3, 128, 331, 4099}) {
    jit::KernelBuilder k(1, 0);
    const uint32_t x = k.load(k.access(k.buffer(DType::kF32), {{0, 1, 0}}));
    k.store(k.access(k.buffer(DType::kF32, true), {{0, 1, 0}}), k.prim(Prim::add, DType::kF32, {x, x}));
    for (const int64_t skew : {0, 4}) {
      std::vector<float> data(static_cast<size_t>(count));
      for (size_t i = 0; i < data.size(); ++i) data[i] = static_cast<float>(i);
      const auto made = StandIn::make(k.kernel, elements(4, 4));
      REQUIRE(made.ok());
      const Region memory{reinterpret_cast<char*>(data.data()), count * 4, true, skew};
      const Region buffers[] = {memory, memory};
      CHECK((*made)->run(buffers, {&count, 1}, 9) == "");
      for (size_t i = 0; i < data.size(); ++i) CHECK(data[i] == 2 * static_cast<float>(i));
    }
  }
}

TEST_CASE("elements that alternate are moved together", "[grid]") {
  uint64_t seed = 0;
  for (const DType t : {DType::kU8, DType::kF16, DType::kF32, DType::kF64})
    for (const int64_t parts : {2, 3, 4})
      for (const int64_t count : {1, 7, 128, 331}) {
        jit::KernelBuilder k(1, 0);
        const uint32_t from = k.buffer(t), to = k.buffer(t, true);
        const auto access = [&](uint32_t buffer, int64_t part) {
          const uint32_t made = k.access(buffer, {{0, static_cast<int8_t>(parts), 0}});
          k.kernel.accesses[made].beside = static_cast<uint8_t>(part);
          return made;
        };
        std::vector<uint32_t> values;
        for (int64_t p = 0; p < parts; ++p) values.push_back(k.load(access(from, p)));
        for (int64_t p = 0; p < parts; ++p)
          k.store(access(to, p), values[static_cast<size_t>(parts - 1 - p)]);
        std::mt19937_64 rng(seed);
        const GridCase c{k.kernel,
                         {count},
                         {jit::random_elements(t, parts * count, rng),
                          std::vector<char>(static_cast<size_t>(parts * count * hlo::byte_size(t)))}};
        check_grid(c, ++seed);
        check_grid(c, elements(1, 1), seed);
        check_grid(c, elements(4, 2), seed);
        if (parts == 2 && count > 300 && t == DType::kF32) CHECK(favoured_grid(c.kernel, c.args).lanes == 2);
      }
}

TEST_CASE("what a grid does not take is refused in words", "[grid]") {
  jit::KernelBuilder k(0, 0);
  const uint32_t b = k.buffer(DType::kF32, true);
  const uint32_t at = k.prim(Prim::constant, DType::kS64, {}, 0);
  const uint32_t one = k.prim(Prim::constant, DType::kF32, {}, 0);
  jit::KernelInstr store{jit::KernelOp::kStoreAt, Prim::constant, DType::kF32, false, {at, one}};
  store.imm = b;
  k.add(store);
  REQUIRE(verify(k.kernel).ok());
  const absl::Status status = grid_takes(k.kernel);
  CHECK(status.code() == absl::StatusCode::kUnimplemented);
  CHECK(status.message() ==
        "the grid has no schedule for a kernel that changes arrays at computed positions");
  CHECK(StandIn::make(k.kernel, elements(1, 1)).status().message() == status.message());
}

TEST_CASE("schedules are read as they are written", "[grid]") {
  const GridSchedule s{GridForm::kColumns, 4, 2, 64};
  CHECK(to_string(s) == "schedule grid form=columns lanes=4 vectors=2 rows=64\n");
  CHECK(jit::parse_grid_schedule(to_string(s)).value() == s);
  for (const char* wrong :
       {"", "schedule grid form=columns lanes=3 vectors=2 rows=64\n",
        "schedule grid form=columns lanes=4 vectors=2 rows=64", "schedule cpu reduce=along\n"})
    CHECK(!jit::parse_grid_schedule(wrong).ok());
  const GridSchedule held{GridForm::kHeld, 4, 2, 16, true, 384};
  CHECK(to_string(held) == "schedule grid form=held lanes=4 vectors=2 rows=16 exact room=384\n");
  CHECK(jit::parse_grid_schedule(to_string(held)).value() == held);
}

TEST_CASE("chains are read as they are written, and what holds no rows is refused", "[grid]") {
  jit::KernelBuilder sum(1, 1), copy(2, 0);
  jit::Reduction& reduction = sum.kernel.reduction;
  reduction.inputs = {sum.load(sum.access(sum.buffer(DType::kF32), {{0, 0, sum.arg()}, {1, 1, 0}}))};
  reduction.combine.inputs = {DType::kF32, DType::kF32};
  reduction.combine.code = {{Prim::add, DType::kF32, {0, 1}}};
  reduction.combine.outputs = {2};
  sum.in_epilogue = true;
  sum.store(sum.access(sum.buffer(DType::kF32, true), {{0, 1, 0}}),
            sum.add({jit::KernelOp::kReduced, Prim::constant, DType::kF32}));
  const uint32_t from = copy.access(copy.buffer(DType::kF32), {{0, 0, copy.arg()}, {1, 1, 0}});
  const uint32_t to = copy.access(copy.buffer(DType::kF32, true), {{0, 0, copy.arg()}, {1, 1, 0}});
  copy.store(to, copy.load(from));
  const GridSchedule held{GridForm::kHeld, 4, 1, 16, false, 64};
  std::vector<jit::GridPart> parts{{sum.kernel, held, {{0, 0, true}, {1, 0, true}}},
                                   {copy.kernel, held, {{from, 0, false}}}};
  const std::string kernels = kernel_texts(parts), schedules = schedule_texts(parts);
  CHECK_THAT(schedules, Catch::Contains("\nheld x0=0 memory, x1=0 memory\nschedule grid form=held"));
  const auto read = jit::parse_grid_parts(kernels, schedules);
  REQUIRE(read.ok());
  CHECK(kernel_texts(*read) == kernels);
  CHECK(schedule_texts(*read) == schedules);
  CHECK(check_chain(parts).ok());
  for (const std::string wrong : {"held x1=0 memory and more\n", "held 1=0\n", "held x1\n"})
    CHECK(!jit::parse_grid_parts(kernels, schedules.substr(0, schedules.rfind("held")) + wrong).ok());

  std::vector<jit::GridPart> wrong = parts;
  wrong[1].held = {{from, 4, false}};
  CHECK_THAT(std::string(check_chain(wrong).message()),
             Catch::Contains("a kernel reads what none before it has held"));
  wrong = parts;
  wrong[1].schedule.lanes = 8;
  CHECK_THAT(std::string(check_chain(wrong).message()), Catch::Contains("would not own the same elements"));
  wrong = parts;
  for (jit::GridPart& p : wrong) p.schedule.room = 1 << 12;
  CHECK_THAT(std::string(check_chain(wrong).message()), Catch::Contains("more than a block has memory for"));
}

}  // namespace lamina::grid
