// Reductions of rows of few elements that are read by turned blocks: every length and distance of rows, with
// no memory before the first and after the last element.
#include <catch2/catch.hpp>

#include "jit/kernel/choice.h"
#include "tests/jit/guarded.h"

using namespace lamina::jit;
using lamina::hlo::Prim;
using lamina::hlo::ScalarInstr;

namespace {

enum class Kind { kSum, kLongSum, kArgmax };

ScalarInstr scalar(Prim prim, DType type, std::initializer_list<uint32_t> operands) {
  ScalarInstr i;
  i.prim = prim;
  i.type = type;
  std::copy(operands.begin(), operands.end(), i.operands);
  return i;
}

void combine(Reduction& r, Kind kind, DType t) {
  const auto code = [&](Prim prim, DType type, std::initializer_list<uint32_t> operands) {
    r.combine.code.push_back(scalar(prim, type, operands));
    return static_cast<uint32_t>(r.combine.inputs.size() + r.combine.code.size() - 1);
  };
  if (kind != Kind::kArgmax) {
    r.combine.inputs = {t, t};
    r.combine.outputs = {code(t == DType::kBool ? Prim::bit_xor : Prim::add, t, {0, 1})};
    return;
  }
  r.combine.inputs = {t, DType::kS32, t, DType::kS32};
  const auto test = [&](Prim p, uint32_t a, uint32_t b) { return code(p, DType::kBool, {a, b}); };
  uint32_t beats = test(Prim::lt, 0, 2), same = test(Prim::eq, 0, 2);
  if (lamina::hlo::is_float(t)) {
    const uint32_t a = test(Prim::ne, 0, 0), b = test(Prim::ne, 2, 2);
    beats = test(Prim::bit_or, beats, test(Prim::bit_and, code(Prim::bit_not, DType::kBool, {a}), b));
    same = test(Prim::bit_or, same, test(Prim::bit_and, a, b));
  }
  const uint32_t takes = test(Prim::bit_or, beats, test(Prim::bit_and, same, test(Prim::lt, 3, 1)));
  r.combine.outputs = {code(Prim::select, t, {takes, 2, 0}), code(Prim::select, DType::kS32, {takes, 3, 1})};
}

// Of x[row * step + element] for the `rows` of each of two parts.
Case make(Kind kind, DType t, int64_t rows, int64_t length, int64_t step) {
  std::mt19937_64 rng(static_cast<uint64_t>(rows * 1000 + length * 50 + step));
  KernelBuilder k(2, 1);
  Case c;
  c.extents = {2, rows, length};
  c.args = c.extents;
  const auto arg = [&](int64_t value) {
    c.args.push_back(value);
    return k.arg();
  };
  const int64_t span = std::abs(step) * (rows - 1) + length;
  c.memory.push_back(random_elements(t, 2 * span, rng));
  const uint32_t x = k.buffer(t), part = arg(span), beside = arg(step);
  const auto offset = static_cast<int32_t>(arg(step < 0 ? -step * (rows - 1) : 0));
  uint32_t value = k.load(k.access(x, {{0, 0, part}, {1, 0, beside}, {2, 1, 0}}, offset));
  if (kind == Kind::kLongSum) {
    c.memory.push_back(random_elements(t, rows, rng));
    const uint32_t of_row = k.load(k.access(k.buffer(t), {{1, 1, 0}}));
    for (int i = 0; i < 8; ++i) value = k.prim(i % 2 ? Prim::mul : Prim::add, t, {value, of_row});
  }
  Reduction& r = k.kernel.reduction;
  r.inputs = {value};
  if (kind == Kind::kArgmax) {
    KernelInstr index{KernelOp::kIndex, Prim::constant, DType::kS64};
    index.imm = 2;
    r.inputs.push_back(k.prim(Prim::convert, DType::kS32, {k.add(index)}));
  }
  combine(r, kind, t);
  k.in_epilogue = true;
  for (size_t v = 0; v < r.inputs.size(); ++v) {
    const DType type = r.combine.inputs[v];
    c.memory.push_back(random_elements(type, 1, rng));
    r.init.push_back(k.access(k.buffer(type), {}));
  }
  for (size_t v = 0; v < r.inputs.size(); ++v) {
    const DType type = r.combine.inputs[v];
    KernelInstr result{KernelOp::kReduced, Prim::constant, type};
    result.imm = v;
    c.memory.push_back(random_elements(type, 2 * rows, rng));
    const uint32_t out = k.buffer(type, true), row = arg(rows);
    k.store(k.access(out, {{0, 0, row}, {1, 1, 0}}), k.add(result));
  }
  c.kernel = k.kernel;
  c.schedule = {ReduceForm::kAcrossParallel, true};
  return c;
}

void check(Kind kind, DType t) {
  const Case first = make(kind, t, 64, 8, 8);
  INFO(to_string(first.kernel));
  REQUIRE(verify(first.kernel).ok());
  REQUIRE(turned_accesses(first.kernel).accesses == std::vector<uint32_t>{0});
  REQUIRE(choice_of(first.kernel).has_value() == (kind == Kind::kArgmax));
  CHECK(favoured_schedule(first.kernel, first.args) == first.schedule);
  const KernelInterpreter interpreter(first.kernel);
  for (const char* cpu : {"", kLeastCpu}) {
    auto compiled = generator(cpu).compile(to_string(first.kernel), first.schedule);
    if (!compiled.ok()) FAIL(compiled.status().message());
    const auto same = [&](int64_t rows, int64_t length, int64_t step) {
      INFO("target " << cpu << ", " << rows << " rows of " << length << ", " << step << " apart");
      const Case c = make(kind, t, rows, length, step);
      REQUIRE(c.kernel == first.kernel);
      const Memory expected = run_case(c, Guard::kEnd, [&](auto... a) { return interpreter.run(a...); });
      for (Guard guard : {Guard::kBegin, Guard::kEnd})
        CHECK(same_memory(c, expected, run_case(c, guard, compiled->entry())));
    };
    for (int64_t length = 1; length <= 40; ++length) same(200, length, length);
    for (int64_t rows : {1, 63, 64, 65, 127, 128, 129, 150, 300}) same(rows, 7, 7);
    for (int64_t step : {-11, -7, -1, 0, 1, 2, 6, 8, 12}) same(140, 7, step);
    same(140, 100, 100);
  }
}

}  // namespace

TEST_CASE("sums of short rows are read by turned blocks", "[codegen]") {
  for (DType t : {DType::kF32, DType::kF64, DType::kS16, DType::kU8, DType::kBool, DType::kS64})
    check(Kind::kSum, t);
  for (DType t : {DType::kF32, DType::kF64}) check(Kind::kLongSum, t);
}

TEST_CASE("places of extremes of short rows are found by turned blocks", "[codegen]") {
  for (DType t : {DType::kF32, DType::kF64, DType::kS32, DType::kU8, DType::kS64}) check(Kind::kArgmax, t);
}
