// Pieces of rows: what is read where the index lies within bounds, with no memory beyond them.
#include <catch2/catch.hpp>

#include "tests/jit/guarded.h"

using namespace lamina::jit;
using lamina::hlo::Prim;

namespace {

struct Pieces {
  DType type;
  int64_t step;  // of the first piece
  bool known;    // to the kernel
  bool closed;   // whether the last piece has its upper bound
};

struct Bounds {
  int64_t length, first, second, begin, size;
};

// out[j] = (j < first ? x[j * step] : j < second ? y[j] : 0) + (0 <= j - begin < size ? z[j] : 0), in two
// rows.
Case make(const Pieces& p, const Bounds& at, uint64_t seed) {
  std::mt19937_64 rng(seed);
  KernelBuilder k(2, 0);
  Case c;
  c.extents = {2, at.length};
  c.args = c.extents;
  const auto slot = [&](int64_t value) {
    c.args.push_back(value);
    return k.arg();
  };
  const auto argument = [&](int64_t value) {
    KernelInstr arg{KernelOp::kArg, Prim::constant, DType::kS64};
    arg.imm = slot(value);
    return k.add(arg);
  };
  // Elements `from` ... `to` - 1 of a row lie in memory, and no others.
  const auto load = [&](int64_t from, int64_t to, int64_t step, uint32_t predicate) {
    const int64_t count = std::max<int64_t>(std::min(to, at.length) - from, 1);
    const uint32_t buffer = k.buffer(p.type);
    const int8_t unit = step == 1 || p.known ? static_cast<int8_t>(step) : 0;
    const AccessTerm along{1, unit, unit ? 0 : slot(step)};
    const int64_t first = step < 0 ? (count - 1) * -step : 0;
    c.memory.push_back(random_elements(p.type, (count - 1) * std::abs(step) + 1, rng));
    KernelInstr i{KernelOp::kLoad, Prim::constant, p.type, true, {predicate}};
    i.imm = k.access(buffer, {along}, static_cast<int32_t>(slot(first - from * step)));
    return k.add(i);
  };
  KernelInstr index{KernelOp::kIndex, Prim::constant, DType::kS64};
  index.imm = 1;
  const uint32_t j = k.add(index), first = argument(at.first), second = argument(at.second);
  const uint32_t in_x = k.prim(Prim::lt, DType::kBool, {j, first});
  const uint32_t from_y = k.prim(Prim::le, DType::kBool, {first, j}),
                 to_y = k.prim(Prim::lt, DType::kBool, {j, second}),
                 in_y = k.prim(Prim::bit_and, DType::kBool, {from_y, to_y});
  const uint32_t x = load(0, at.first, p.step, in_x),
                 y = load(std::max<int64_t>(at.first, 0), at.second, 1, in_y);
  const uint32_t moved = k.prim(Prim::add, DType::kS64, {j, argument(-at.begin)}),
                 place = k.prim(Prim::bitcast, DType::kU64, {moved}),
                 size = k.prim(Prim::bitcast, DType::kU64, {argument(at.size)}),
                 in_z = k.prim(p.closed ? Prim::le : Prim::lt, DType::kBool, {place, size});
  const uint32_t z = load(std::max<int64_t>(at.begin, 0), at.begin + at.size + p.closed, 1, in_z);
  const uint32_t joined = k.prim(Prim::select, p.type, {in_x, x, y});
  const uint32_t out = k.buffer(p.type, true);
  c.memory.push_back(random_elements(p.type, 2 * at.length, rng));
  const Prim combine = p.type == DType::kBool ? Prim::bit_xor : Prim::add;
  k.store(k.access(out, {{0, 0, slot(at.length)}, {1, 1, 0}}), k.prim(combine, p.type, {joined, z}));
  c.kernel = k.kernel;
  return c;
}

void check(const Pieces& p) {
  const LoopKernel kernel = make(p, {9, 3, 6, 1, 5}, 1).kernel;
  INFO(to_string(kernel));
  REQUIRE(verify(kernel).ok());
  const KernelInterpreter interpreter(kernel);
  std::mt19937_64 rng(static_cast<uint64_t>(p.step + 10));
  for (const char* cpu : {"", kLeastCpu}) {
    auto compiled = generator(cpu).compile(to_string(kernel), {});
    if (!compiled.ok()) FAIL(compiled.status().message());
    for (int64_t length : {1, 2, 7, 8, 9, 16, 17, 33, 64, 65, 131})
      for (int round = 0; round < 6; ++round) {
        const auto bound = [&] {
          return static_cast<int64_t>(rng() % static_cast<uint64_t>(length + 5)) - 2;
        };
        const Bounds at{length, bound(), bound(), bound(), std::max<int64_t>(bound(), 0)};
        const Case c = make(p, at, rng());
        REQUIRE(c.kernel == kernel);
        const Memory expected = run_case(c, Guard::kEnd, [&](auto... a) { return interpreter.run(a...); });
        for (Guard guard : {Guard::kBegin, Guard::kEnd}) {
          INFO("target " << cpu << ", length " << length << ", bounds " << at.first << ", " << at.second
                         << ", " << at.begin << " + " << at.size);
          REQUIRE(same_memory(c, expected, run_case(c, guard, compiled->entry())));
        }
      }
  }
}

}  // namespace

TEST_CASE("pieces of rows are read within their bounds only", "[codegen]") {
  for (DType t : {DType::kBool, DType::kU8, DType::kS16, DType::kF32, DType::kF64})
    for (const auto& [step, known] :
         {std::pair<int64_t, bool>{1, true}, {3, true}, {-1, true}, {-4, true}, {3, false}})
      for (bool closed : {false, true}) check({t, step, known, closed});
}
