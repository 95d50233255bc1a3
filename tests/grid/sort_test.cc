// Sorts on the stand-in: rows in tiles, and long ones in tiles that are merged.
#include <algorithm>
#include <catch2/catch.hpp>
#include <numeric>

#include "jit/kernel/grid_sort.h"
#include "tests/grid/grid_testing.h"

namespace lamina::grid {
namespace {

using hlo::ScalarProgram;
using jit::grid_plan;

enum class Order : uint8_t { kAscending, kDescending, kNansLast };

// Of a row of `rows` x `length`: its elements by their first value, with others beside them. `strided`: rows
// lie across memory, as those of another dimension than the last do.
GridCase sort_case(const std::vector<DType>& types, int64_t rows, int64_t length, Order order, uint64_t seed,
                   bool strided = false, uint64_t distinct = 0) {
  jit::KernelBuilder k(2, 0);
  GridCase c;
  c.args = {rows, length};
  std::mt19937_64 rng(seed);
  const auto access = [&](uint32_t buffer) {
    const uint32_t stride = k.arg();
    c.args.push_back(strided ? rows : length);
    return strided ? k.access(buffer, {{0, 1, 0}, {1, 0, stride}})
                   : k.access(buffer, {{0, 0, stride}, {1, 1, 0}});
  };
  const auto fill = [&](DType t) {
    c.memory.push_back(jit::random_elements(t, rows * length, rng));
    // Few values, so that many elements are equal.
    if (distinct == 0) return;
    const auto size = static_cast<size_t>(hlo::byte_size(t));
    const std::vector<char> some = c.memory.back();
    for (size_t at = 0; at < some.size(); at += size)
      std::copy_n(some.begin() + static_cast<std::ptrdiff_t>(rng() % distinct * size), size,
                  c.memory.back().begin() + static_cast<std::ptrdiff_t>(at));
  };
  for (size_t v = 0; v < types.size(); ++v) {
    const uint32_t x = k.load(access(k.buffer(types[v])));
    fill(types[v]);
    if (v > 0) {  // where the element was
      std::vector<char>& memory = c.memory.back();
      const auto size = static_cast<size_t>(hlo::byte_size(types[v]));
      for (size_t i = 0; i * size < memory.size(); ++i)
        for (size_t b = 0; b < size && types[v] != DType::kBool; ++b)
          memory[i * size + b] = static_cast<char>(i >> (8 * b));
    }
    k.store(access(k.buffer(types[v], true)), x);
    c.memory.emplace_back(c.memory.back().size());
  }
  ScalarProgram before;
  for (int side = 0; side < 2; ++side) before.inputs.insert(before.inputs.end(), types.begin(), types.end());
  uint32_t x = 0;
  auto y = static_cast<uint32_t>(types.size());
  if (hlo::byte_size(types[0]) < 4) {  // as a type that is compared
    before.code = {{Prim::convert, DType::kF32, {x}}, {Prim::convert, DType::kF32, {y}}};
    x = static_cast<uint32_t>(before.inputs.size());
    y = x + 1;
  }
  const auto add = [&](Prim p, uint32_t a, uint32_t b) {
    before.code.push_back({p, DType::kBool, {a, b}});
    return static_cast<uint32_t>(before.inputs.size() + before.code.size() - 1);
  };
  uint32_t is_less = order == Order::kDescending ? add(Prim::lt, y, x) : add(Prim::lt, x, y);
  if (order == Order::kNansLast)
    is_less = add(Prim::bit_or, is_less, add(Prim::lt, add(Prim::ne, x, x), add(Prim::ne, y, y)));
  before.outputs = {is_less};
  c.kernel = k.kernel;
  c.kernel.before = before;
  REQUIRE(verify(c.kernel).message() == "");
  REQUIRE(jit::reads_back(c.kernel));
  return c;
}

GridSchedule in_tiles(uint32_t lanes, uint32_t rows) { return {GridForm::kSort, lanes, 1, rows}; }
GridSchedule merges(uint32_t lanes) { return {GridForm::kMerges, lanes}; }

}  // namespace

TEST_CASE("rows of each element type are sorted in tiles", "[grid][grid_sort]") {
  uint64_t seed = 0;
  for (int t = 0; t < hlo::kNumDTypes; ++t) {
    const auto type = static_cast<DType>(t);
    if (hlo::is_complex(type) || hlo::is_narrow(type)) continue;
    CAPTURE(hlo::info(type).name);
    const Order order = hlo::is_float(type) ? Order::kNansLast
                        : seed % 2          ? Order::kDescending
                                            : Order::kAscending;
    check_grid(sort_case({type}, 3, 500, order, seed), in_tiles(2, 1), seed);
    check_grid(sort_case({type, DType::kS32}, 5, 120, order, seed, false, 9), in_tiles(4, 8), seed);
    ++seed;
  }
}

TEST_CASE("tiles of rows of any length, at a time or several", "[grid][grid_sort]") {
  uint64_t seed = 0;
  for (const uint32_t lanes : {1U, 2U, 4U, 8U, 16U})
    for (const int64_t length : {1, 2, 3, 15, 16, 17, 64, 255, 256})
      for (const int64_t rows : {1, 7, 40}) {
        const int64_t places = jit::kGridThreads * lanes;
        uint32_t share = 1;
        while (share < jit::kGridThreads && places / (2 * share) >= std::max<int64_t>(length, lanes))
          share *= 2;
        if (length > places || (seed++ % 3 && rows != 7)) continue;
        CAPTURE(lanes, length, rows, share);
        check_grid(sort_case({DType::kF32, DType::kS16}, rows, length, Order::kNansLast, seed, seed % 2, 6),
                   in_tiles(lanes, share), seed);
      }
  check_grid(sort_case({DType::kF32}, 2, 4096, Order::kNansLast, 1), in_tiles(16, 1), 1);
  check_grid(sort_case({DType::kS64, DType::kF64}, 2, 1000, Order::kAscending, 2), in_tiles(4, 1), 2);
}

TEST_CASE("long rows are merged", "[grid][grid_sort]") {
  uint64_t seed = 0;
  for (const uint32_t lanes : {1U, 2U, 8U})
    for (const int64_t tiles : {1, 2, 3, 4, 5, 8, 9})
      for (const int64_t beside : {-1, 0, 1, 100}) {
        const int64_t length = tiles * lanes * jit::kGridThreads + beside;
        if ((seed++ % 3 && tiles > 2) || length > 6000 || (tiles == 1 && beside <= 0)) continue;
        CAPTURE(lanes, length);
        check_grid(sort_case({DType::kF32, DType::kS32}, 1 + static_cast<int64_t>(seed % 3), length,
                             Order::kNansLast, seed, seed % 2, seed % 4 ? 0 : 3),
                   merges(lanes), seed);
      }
}

TEST_CASE("elements of several values of different sizes are merged", "[grid][grid_sort]") {
  check_grid(sort_case({DType::kBF16, DType::kS64, DType::kBool, DType::kS16}, 2, 1111, Order::kNansLast, 1),
             merges(2), 1);
  check_grid(sort_case({DType::kBool, DType::kS32}, 1, 1400, Order::kDescending, 2), merges(1), 2);
  check_grid(sort_case({DType::kF64, DType::kS8}, 3, 700, Order::kNansLast, 3, true, 5), merges(1), 3);
}

TEST_CASE("random sorts with the schedule that is chosen", "[grid][grid_sort]") {
  std::mt19937_64 rng(5);
  for (uint64_t seed = 0; seed < 24; ++seed) {
    std::vector<DType> types;
    for (size_t v = 0; v < 1 + seed % 3; ++v) {
      auto t = static_cast<DType>(rng() % hlo::kNumDTypes);
      while (hlo::is_complex(t) || (v == 0 && hlo::is_narrow(t)))
        t = static_cast<DType>(rng() % hlo::kNumDTypes);
      types.push_back(t);
    }
    const auto length = static_cast<int64_t>(rng() % (seed % 2 ? 40 : 5000) + 1);
    const auto rows = static_cast<int64_t>(rng() % (length > 1000 ? 3 : 60) + 1);
    CAPTURE(length, rows, types.size());
    const Order order = hlo::is_float(types[0]) ? Order::kNansLast : Order::kDescending;
    check_grid(sort_case(types, rows, length, order, seed, seed % 4 == 0, seed % 5 ? 0 : 4), seed);
  }
}

TEST_CASE("what a sort launches and moves", "[grid][grid_sort]") {
  const GridCase keys = sort_case({DType::kF32}, 1, 2, Order::kNansLast, 1);
  const auto launches = [](const GridCase& c, int64_t rows, int64_t length) {
    std::vector<int64_t> args = c.args;
    args[0] = rows;
    args[1] = length;
    const GridSchedule s = favoured_grid(c.kernel, args);
    const auto plan = grid_plan(c.kernel, s, args);
    REQUIRE(plan.ok());
    return std::pair(to_string(s), plan->launches.size());
  };
  const auto tiles = [](const std::string& form, int lanes, int rows) {
    return "schedule grid form=" + form + " lanes=" + std::to_string(lanes) +
           " vectors=1 rows=" + std::to_string(rows) + "\n";
  };
  // 3907 tiles of 4096 places: 12 times two runs become one.
  CHECK(launches(keys, 1, 16000000) == std::pair(tiles("merges", 16, 1), size_t{25}));
  CHECK(launches(keys, 1, 4096) == std::pair(tiles("sort", 16, 1), size_t{1}));
  CHECK(launches(keys, 1, 4097) == std::pair(tiles("merges", 16, 1), size_t{3}));
  // Rows share tiles; where these are few, they are smaller.
  CHECK(launches(keys, 1 << 20, 10) == std::pair(tiles("sort", 16, 256), size_t{1}));
  CHECK(launches(keys, 1 << 20, 2) == std::pair(tiles("sort", 2, 256), size_t{1}));
  CHECK(launches(keys, 1000, 100) == std::pair(tiles("sort", 1, 2), size_t{1}));
  const GridCase pairs = sort_case({DType::kF32, DType::kS32}, 1, 2, Order::kNansLast, 1);
  CHECK(launches(pairs, 1, 16000000) == std::pair(tiles("merges", 8, 1), size_t{27}));
  CHECK(jit::sort_places(keys.kernel, merges(16)).back() == 4 * (4096 + 128));
  // Two halves of the splits and the values.
  std::vector<int64_t> args = keys.args;
  args[1] = 16000000;
  const auto plan = grid_plan(keys.kernel, merges(16), args);
  REQUIRE(plan.ok());
  CHECK(plan->scratch_bytes == 2 * (8 * 3908 - 8 + 8 + 4 * 16000000));
}

TEST_CASE("kernels and schedules that do not sort are refused in words", "[grid][grid_sort]") {
  const GridCase c = sort_case({DType::kF32}, 3, 300, Order::kNansLast, 1);
  const auto why = [&](const GridSchedule& s) {
    return std::string(grid_plan(c.kernel, s, c.args).status().message());
  };
  CHECK_THAT(why({GridForm::kElements, 1, 1, 1}),
             Catch::Contains("it is one for a kernel that sorts, or the reverse"));
  CHECK_THAT(why(in_tiles(1, 1)),
             Catch::Contains("a row has more elements than its part of a tile, or a single tile"));
  CHECK_THAT(why(merges(2)), Catch::Contains("or a single tile"));
  CHECK_THAT(why({GridForm::kMerges, 1, 1, 2}), Catch::Contains("its tiles are none for a sort"));
  CHECK(StandIn::make(c.kernel, {GridForm::kElements, 1, 1, 1}).status().message() ==
        "a schedule of sorts for another kernel, or the reverse");
  const GridCase wide = sort_case(std::vector<DType>(24, DType::kF64), 1, 9, Order::kNansLast, 1);
  CHECK(grid_takes(wide.kernel).message() == "a block's memory has no place to sort elements of 192 bytes");

  const auto malformed = [&](auto change) {
    LoopKernel kernel = c.kernel;
    change(kernel);
    return std::string(verify(kernel).message());
  };
  CHECK(malformed([](LoopKernel& k) { k.before->outputs.clear(); }) ==
        "malformed kernel: a sort of 1 values by an order of 2 inputs and 0 outputs");
  CHECK(malformed([](LoopKernel& k) { k.before->inputs[1] = DType::kS32; }) ==
        "malformed kernel: types of sorted value 0 differ");
  CHECK(malformed([](LoopKernel& k) { k.before->outputs[0] = 0; }) ==
        "malformed kernel: the order is no condition");
  CHECK(malformed([](LoopKernel& k) { k.before->code[0].operands[0] = 9; }) ==
        "malformed kernel: the order uses a value before it is defined");
  CHECK(malformed([](LoopKernel& k) { k.stores.clear(); }) ==
        "malformed kernel: a sort of no row, of nothing, or with loops or arrays that change");
}

}  // namespace lamina::grid
