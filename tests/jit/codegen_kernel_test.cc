// Random kernels and reductions: machine code for several targets against the interpreter, and reductions of
// both tiers against a plain statement of the tree.
#include <algorithm>
#include <catch2/catch.hpp>
#include <numeric>

#include "hlo/graph.h"
#include "jit/kernel/choice.h"
#include "jit/kernel/split_reduction.h"
#include "tests/jit/guarded.h"
#include "tests/jit/random_kernel.h"

using namespace lamina::jit;
using lamina::hlo::Prim;
namespace hlo = lamina::hlo;

namespace {

void check_tiers(const Case& c) {
  const absl::Status status = verify(c.kernel);
  INFO(to_string(c.kernel));
  for (int64_t e : c.extents) UNSCOPED_INFO("extent " << e);
  if (!status.ok()) FAIL(status.message());
  CHECK(reads_back(c.kernel));
  const KernelInterpreter interpreter(c.kernel);
  const Memory expected = run_case(c, Guard::kEnd, [&](auto... a) { return interpreter.run(a...); });
  for (const char* cpu : {"", kLeastCpu}) {
    const auto compiled = compiled_entry(c.kernel, c.schedule, cpu);
    if (!compiled.ok()) FAIL(compiled.status().message());
    for (Guard guard : {Guard::kBegin, Guard::kEnd}) {
      const Memory got = run_case(c, guard, *compiled);
      INFO("target " << cpu);
      CHECK(same_memory(c, expected, got));
    }
  }
}

// The sum of x over one of two dimensions.
LoopKernel sum_kernel(DType t, bool reduce_last) {
  KernelBuilder k(1, 1);
  const uint32_t x = k.buffer(t), init = k.buffer(t), out = k.buffer(t, true);
  const uint32_t stride = k.arg();
  const AccessTerm unit{static_cast<uint8_t>(reduce_last ? 1 : 0), 1, 0};
  const AccessTerm far{static_cast<uint8_t>(reduce_last ? 0 : 1), 0, stride};
  k.load(k.access(x, {unit, far}));
  Reduction& r = k.kernel.reduction;
  r.inputs = {0};
  r.combine.inputs = {t, t};
  hlo::ScalarInstr add;
  add.prim = Prim::add;
  add.type = t;
  add.operands[0] = 0;
  add.operands[1] = 1;
  r.combine.code = {add};
  r.combine.outputs = {2};
  r.init = {k.access(init, {})};
  k.in_epilogue = true;
  KernelInstr result{KernelOp::kReduced, Prim::constant, t};
  k.add(result);
  k.store(k.access(out, {{0, true, 0}}), 0);
  return k.kernel;
}

// The tree, stated once more.
template <class T>
T tree_sum(const std::vector<T>& x, T init) {
  constexpr size_t kLanes = 256 / sizeof(T);
  if (x.empty()) return init;
  std::vector<T> level = x;
  do {
    std::vector<T> next;
    for (size_t start = 0; start < level.size(); start += 16384) {
      const size_t n = std::min<size_t>(16384, level.size() - start);
      std::vector<T> lanes;
      for (size_t i = 0; i < n; ++i) {
        if (i < kLanes)
          lanes.push_back(level[start + i]);
        else
          lanes[i % kLanes] = lanes[i % kLanes] + level[start + i];
      }
      for (size_t s = kLanes / 2; s > 0; s /= 2)
        for (size_t j = 0; j < s; ++j)
          if (j + s < lanes.size()) lanes[j] = lanes[j] + lanes[j + s];
      next.push_back(lanes[0]);
    }
    level = next;
  } while (level.size() > 1);
  return level[0] + init;
}

template <class T>
void check_sum(DType t, int64_t rows, int64_t columns) {
  std::mt19937_64 rng(static_cast<uint64_t>(rows * 1000003 + columns));
  std::vector<T> x(static_cast<size_t>(rows * columns));
  for (T& v : x) v = static_cast<T>((static_cast<double>(rng() >> 11) / 9007199254740992.0 - 0.5) * 100);
  // Sums of -0 alone, which an element too many would show.
  for (int64_t i = 0; i < columns; ++i) x[i] = T(-0.0);
  for (int64_t i = 0; i < rows; ++i) x[i * columns] = T(-0.0);
  const T init = static_cast<T>(columns % 2 == 0 ? -0.0 : 0.3);
  const int32_t cancel = 0;
  for (const bool reduce_last : {true, false}) {
    const int64_t outputs = reduce_last ? rows : columns, reduced = reduce_last ? columns : rows;
    std::vector<T> expected(outputs);
    for (int64_t o = 0; o < outputs; ++o) {
      std::vector<T> sequence;
      for (int64_t i = 0; i < reduced; ++i)
        sequence.push_back(reduce_last ? x[o * columns + i] : x[i * columns + o]);
      expected[o] = tree_sum(sequence, init);
    }
    for (ReduceForm form : {ReduceForm::kAlongReduced, ReduceForm::kAcrossParallel}) {
      const LoopKernel kernel = sum_kernel(t, reduce_last);
      const int64_t args[] = {outputs, reduced, columns};
      for (int tier = 0; tier < 3; ++tier) {
        std::vector<T> got(outputs, T(77));
        T init_value = init;
        void* buffers[] = {x.data(), &init_value, got.data()};
        INFO("rows " << rows << " columns " << columns << " last " << reduce_last << " form "
                     << static_cast<int>(form) << " tier " << tier);
        if (tier == 0) {
          REQUIRE(interpret_kernel(kernel, buffers, args, 0, 1, 0, outputs, &cancel) == 0);
        } else {
          const auto compiled = compiled_entry(kernel, {form}, tier == 1 ? "" : kLeastCpu);
          if (!compiled.ok()) FAIL(compiled.status().message());
          REQUIRE((*compiled)(buffers, args, 0, 1, 0, outputs, &cancel) == 0);
        }
        REQUIRE(std::memcmp(got.data(), expected.data(), outputs * sizeof(T)) == 0);
      }
    }
  }
}

}  // namespace

TEST_CASE("random kernels have the same bits in every tier and on every target", "[codegen]") {
  for (uint64_t seed = 1; seed <= 400; ++seed) {
    INFO("seed " << seed);
    check_tiers(RandomKernel(seed).make());
  }
}

TEST_CASE("elements that lie the other way round are read by tiles", "[codegen]") {
  uint64_t seed = 0;
  for (DType t : {DType::kF32, DType::kF64, DType::kS16, DType::kU8, DType::kBool})
    for (const auto& [rows, columns] : {std::pair<int64_t, int64_t>{1, 1},
                                        {3, 200},
                                        {8, 8},
                                        {64, 64},
                                        {63, 65},
                                        {129, 31},
                                        {70, 7},
                                        {33, 130}})
      for (int dim : {0, 1})
        for (int reads : {1, 3}) {
          INFO(rows << " x " << columns << " of dimension " << dim << ", " << reads << " turned");
          const std::vector<int64_t> extents = {dim == 0 ? rows : 3, dim == 0 ? 3 : rows, columns};
          const Case c = RandomKernel(++seed).turned(t, extents, dim, reads);
          REQUIRE(turned_accesses(c.kernel).dim == dim);
          REQUIRE(turned_accesses(c.kernel).accesses.size() == static_cast<size_t>(reads));
          check_tiers(c);
        }
}

TEST_CASE("sums follow the tree in both forms", "[codegen]") {
  for (int64_t columns : {1, 2, 31, 32, 33, 63, 64, 65, 127, 128, 129, 191, 192, 1000})
    check_sum<float>(DType::kF32, 5, columns);
  for (int64_t rows : {1, 40, 300}) check_sum<double>(DType::kF64, rows, 259);
  for (int64_t columns : {95, 96, 97}) check_sum<double>(DType::kF64, 2, columns);
  // More rows than a vector has lanes, and more columns than a block.
  for (int64_t columns : {1, 3, 16, 17, 50, 130}) {
    check_sum<float>(DType::kF32, 37, columns);
    check_sum<double>(DType::kF64, 19, columns);
  }
  // Segments of the tree that are read together, and what is left over.
  for (int64_t rows : {191, 192, 193, 384, 450}) {
    check_sum<float>(DType::kF32, rows, 37);
    check_sum<float>(DType::kF32, rows, 300);
  }
  // Few enough that lanes of the tree hold nothing, and lanes that hold one element more than others.
  for (int64_t rows : {2, 3, 4, 5, 7, 8, 9, 16, 17, 20, 31, 33, 47, 48, 63, 64, 65, 80, 100, 127, 200}) {
    check_sum<float>(DType::kF32, rows, 85);
    check_sum<double>(DType::kF64, rows, 69);
  }
  // Rows without gaps, as many columns as are read that way and more; segments that are not a whole number of
  // steps, and what is left over.
  for (int64_t rows : {64, 65, 128, 192, 256, 259, 320, 500})
    for (int64_t columns : {5, 100, 128, 130, 160}) check_sum<float>(DType::kF32, rows, columns);
  for (int64_t rows : {32, 63, 64, 100, 161}) check_sum<double>(DType::kF64, rows, 126);
  check_sum<float>(DType::kF32, 16500, 70);
  check_sum<float>(DType::kF32, 3, 16384);
  check_sum<float>(DType::kF32, 3, 16385);
  check_sum<double>(DType::kF64, 2, 3 * 16384 + 70);
  check_sum<float>(DType::kF32, 1, 70 * 16384 + 1);
}

namespace {

// What the loop's buffers are: those of the whole by their values, others one after the other.
std::vector<void*> pointers(const LoweredLoop& loop, const std::vector<hlo::Value>& values, Memory& memory,
                            std::span<std::vector<char>> own) {
  std::vector<void*> out;
  for (const hlo::Value& v : loop.buffers) {
    const auto at = std::find_if(values.begin(), values.end(),
                                 [&](const hlo::Value& w) { return v && w.node() == v.node(); });
    if (at == values.end()) {
      out.push_back(own.front().data());
      own = own.subspan(1);
    } else {
      out.push_back(memory[static_cast<size_t>(at - values.begin())].data());
    }
  }
  return out;
}

void check_cut(const Case& c, std::mt19937_64& rng) {
  INFO(to_string(c.kernel));
  LoweredLoop loop;
  loop.kernel = c.kernel;
  loop.args = c.args;
  for (size_t b = 0; b < c.kernel.buffers.size(); ++b)
    loop.buffers.push_back(hlo::make_parameter(hlo::scalar_type(DType::kF32)));
  loop.own_bytes.resize(c.kernel.buffers.size());
  loop.outer = c.outer(), loop.inner = c.inner();
  const std::optional<SplitReduction> split = split_reduction(loop);
  REQUIRE(split.has_value() == (c.outer() * c.inner() > 0));
  if (!split) return;
  INFO(to_string(split->chunks.kernel) << to_string(split->rest.kernel));
  for (const LoopKernel* k : {&split->chunks.kernel, &split->rest.kernel}) {
    REQUIRE(verify(*k).ok());
    REQUIRE(reads_back(*k));
  }
  CHECK(choice_of(split->chunks.kernel).has_value() == choice_of(c.kernel).has_value());
  const auto whole = [&](const auto& entry) {
    Memory memory = c.memory;
    const std::vector<void*> all = pointers(loop, loop.buffers, memory, {});
    const int32_t go = 0;
    REQUIRE(entry(all.data(), c.args.data(), 0, c.outer(), 0, c.inner(), &go) == 0);
    return memory;
  };
  // The chunks one by one, in any order.
  const auto cut = [&](const auto& chunks, const auto& rest) {
    Memory memory = c.memory, between;
    for (int64_t bytes : split->bytes) between.emplace_back(static_cast<size_t>(bytes), '\x5a');
    std::vector<int64_t> order(static_cast<size_t>(split->count));
    std::iota(order.begin(), order.end(), 0);
    std::shuffle(order.begin(), order.end(), rng);
    const std::vector<void*> first = pointers(split->chunks, loop.buffers, memory, between);
    const std::vector<void*> second = pointers(split->rest, loop.buffers, memory, between);
    const int64_t each = split->chunks.outer / split->count;
    const int32_t go = 0;
    for (int64_t n : order) {
      const std::vector<int64_t>& args = n + 1 == split->count ? split->last_args : split->chunks.args;
      const int32_t ended =
          each > 0 ? chunks(first.data(), args.data(), n * each, (n + 1) * each, 0, split->chunks.inner, &go)
                   : chunks(first.data(), args.data(), 0, 1, n, n + 1, &go);
      REQUIRE(ended == 0);
    }
    REQUIRE(rest(second.data(), split->rest.args.data(), 0, split->rest.outer, 0, split->rest.inner, &go) ==
            0);
    return memory;
  };
  const KernelInterpreter all(c.kernel), chunks(split->chunks.kernel), rest(split->rest.kernel);
  const Memory expected = whole([&](auto... a) { return all.run(a...); });
  CHECK(same_memory(
      c, expected,
      cut([&](auto... a) { return chunks.run(a...); }, [&](auto... a) { return rest.run(a...); })));
  const auto chunk_code = compiled_entry(split->chunks.kernel, c.schedule);
  const auto rest_code =
      compiled_entry(split->rest.kernel, favoured_schedule(split->rest.kernel, split->rest.args));
  REQUIRE(chunk_code.ok());
  REQUIRE(rest_code.ok());
  CHECK(same_memory(c, expected, cut(*chunk_code, *rest_code)));
}

}  // namespace

TEST_CASE("a reduction cut into its chunks has the bits of the whole", "[codegen]") {
  for (uint64_t seed = 0; seed < 60; ++seed) {
    std::mt19937_64 rng(seed);
    const int64_t totals[] = {2 * kReduceChunk, 2 * kReduceChunk + 1, 40'000, 5 * kReduceChunk - 1};
    RandomKernel random(seed);
    const Case c = random.make(static_cast<int>(seed % 4), 1, totals[rng() % std::size(totals)]);
    check_cut(c, rng);
  }
  for (const DType t : {DType::kF32, DType::kF64, DType::kS64, DType::kU8})
    for (const bool reduce_last : {true, false}) {
      std::mt19937_64 rng(7);
      const int64_t rows = 5, total = 3 * kReduceChunk + 77;
      Case c;
      c.kernel = sum_kernel(t, reduce_last);
      c.extents = {rows, total};
      c.args = {rows, total, reduce_last ? total : rows};
      c.memory = {random_elements(t, rows * total, rng), random_elements(t, 1, rng),
                  random_elements(t, rows, rng)};
      check_cut(c, rng);
    }
}
