// Reductions that are made together, as memory is faster with several streams: of matrices of few columns
// without gaps, and of long rows. Any number of them, of columns and of rows, with no memory before the first
// and after the last element.
#include <catch2/catch.hpp>
#include <functional>

#include "tests/jit/guarded.h"

using namespace lamina::jit;
using lamina::hlo::Prim;
using lamina::hlo::ScalarInstr;

namespace {

KernelInstr result_of(DType t) { return {KernelOp::kReduced, Prim::constant, t}; }

void reduce(KernelBuilder& k, uint32_t value, Prim combine, DType t) {
  Reduction& r = k.kernel.reduction;
  r.inputs = {value};
  r.combine.inputs = {t, t};
  ScalarInstr both;
  both.prim = combine;
  both.type = t;
  both.operands[0] = 0;
  both.operands[1] = 1;
  r.combine.code = {both};
  r.combine.outputs = {2};
  k.in_epilogue = true;
}

// Over the rows of each of `count` matrices, of their elements or of products with a number of each column.
Case matrices(Prim combine, DType t, bool scaled, int64_t count, int64_t rows, int64_t columns) {
  std::mt19937_64 rng(static_cast<uint64_t>(count * 100'000 + rows * 100 + columns));
  KernelBuilder k(2, 1);
  Case c;
  c.extents = {count, columns, rows};
  c.args = c.extents;
  const auto arg = [&](int64_t value) {
    c.args.push_back(value);
    return k.arg();
  };
  c.memory.push_back(random_elements(t, count * rows * columns, rng));
  const uint32_t x = k.buffer(t), matrix = arg(rows * columns), row = arg(columns);
  uint32_t value = k.load(k.access(x, {{0, 0, matrix}, {1, 1, 0}, {2, 0, row}}));
  if (scaled) {
    c.memory.push_back(random_elements(t, columns, rng));
    value = k.prim(Prim::mul, t, {value, k.load(k.access(k.buffer(t), {{1, 1, 0}}))});
  }
  reduce(k, value, combine, t);
  c.memory.push_back(random_elements(t, count * columns, rng));
  k.store(k.access(k.buffer(t, true), {{0, 0, row}, {1, 1, 0}}), k.add(result_of(t)));
  c.kernel = k.kernel;
  c.schedule = {ReduceForm::kAcrossParallel};
  return c;
}

// Of rows that begin `step` elements apart, of their squares if so.
Case rows(DType t, bool squared, int64_t count, int64_t length, int64_t step) {
  std::mt19937_64 rng(static_cast<uint64_t>(count * 100'000 + length));
  KernelBuilder k(1, 1);
  Case c;
  c.extents = {count, length};
  c.args = c.extents;
  c.args.push_back(step);
  c.memory.push_back(random_elements(t, (count - 1) * step + length, rng));
  uint32_t value = k.load(k.access(k.buffer(t), {{0, 0, k.arg()}, {1, 1, 0}}));
  if (squared) value = k.prim(Prim::mul, t, {value, value});
  reduce(k, value, Prim::add, t);
  c.memory.push_back(random_elements(t, count, rng));
  k.store(k.access(k.buffer(t, true), {{0, 1, 0}}), k.add(result_of(t)));
  c.kernel = k.kernel;
  c.schedule = {ReduceForm::kAlongReduced};
  return c;
}

// On each target the same as interpreted, of all that `each` calls its argument with.
void check_all(const Case& first, const std::function<void(const std::function<void(const Case&)>&)>& each) {
  INFO(to_string(first.kernel));
  REQUIRE(verify(first.kernel).ok());
  CHECK(favoured_schedule(first.kernel, first.args) == first.schedule);
  const KernelInterpreter interpreter(first.kernel);
  for (const char* cpu : {"", kLeastCpu}) {
    auto compiled = generator(cpu).compile(to_string(first.kernel), first.schedule);
    if (!compiled.ok()) FAIL(compiled.status().message());
    each([&](const Case& c) {
      INFO("target " << cpu);
      REQUIRE(c.kernel == first.kernel);
      const Memory expected = run_case(c, Guard::kEnd, [&](auto... a) { return interpreter.run(a...); });
      for (Guard guard : {Guard::kBegin, Guard::kEnd})
        CHECK(same_memory(c, expected, run_case(c, guard, compiled->entry())));
    });
  }
}

void check_matrices(Prim combine, DType t, bool scaled = false) {
  check_all(matrices(combine, t, scaled, 12, 1024, 8), [&](const auto& check) {
    const auto same = [&](int64_t count, int64_t rows, int64_t columns) {
      INFO(count << " of " << rows << " x " << columns);
      check(matrices(combine, t, scaled, count, rows, columns));
    };
    for (int64_t count : {1, 9, 12, 15, 24, 28}) same(count, 1030, 8);
    for (int64_t columns = 1; columns <= 33; ++columns) same(12, 4096 / columns + 700, columns);
    for (int64_t rows : {1, 31, 63, 64, 255, 511, 512, 513, 1087, 2048}) same(13, rows, 15);
    same(12, 16384, 3);
    same(12, 16385, 3);
  });
}

void check_rows(DType t, bool squared) {
  check_all(rows(t, squared, 64, 1000, 1000), [&](const auto& check) {
    const auto same = [&](int64_t count, int64_t length, int64_t step) {
      INFO(count << " rows of " << length << ", " << step << " apart");
      check(rows(t, squared, count, length, step));
    };
    for (int64_t count : {1, 2, 3, 7, 8, 9, 16, 17, 31, 48}) same(count, 1000, 1000);
    for (int64_t count : {2, 3, 5, 13}) same(count, 16384, 16384);
    for (int64_t length : {64, 100, 255, 511, 512, 513, 551, 576, 1023, 2048, 16384, 16385, 40000})
      same(34, length, length + 3);
  });
}

}  // namespace

TEST_CASE("reductions of matrices of few columns are made together", "[codegen]") {
  for (DType t : {DType::kF32, DType::kF64, DType::kS16, DType::kU8, DType::kS64})
    check_matrices(Prim::add, t);
  for (DType t : {DType::kF32, DType::kF64}) {
    check_matrices(Prim::maximum, t);
    check_matrices(Prim::add, t, true);
  }
}

TEST_CASE("long rows are reduced two at a time", "[codegen]") {
  for (DType t : {DType::kF32, DType::kF64, DType::kS32})
    for (bool squared : {false, true}) check_rows(t, squared);
}
