// Elements a few apart, and such as alternate in memory: every length, step and size of elements, with no
// memory before the first and after the last one.
#include <catch2/catch.hpp>

#include "tests/jit/guarded.h"

using namespace lamina::jit;
using lamina::hlo::Prim;

namespace {

constexpr int64_t kLongest = 70;

struct Pattern {
  DType type;
  int64_t step;         // between elements that are read
  int8_t known;         // what the kernel knows of it
  int64_t written = 1;  // how many values alternate where they are written
  int64_t leading = 0;  // elements before the first one written
  int64_t rows = 1;
};

// written[k] = x[i * step] + y[i + k], of `length` indices.
Case make(const Pattern& p, int64_t length) {
  std::mt19937_64 rng(static_cast<uint64_t>(length * 100 + p.step));
  KernelBuilder k(2, 0);
  Case c;
  c.extents = {p.rows, length};
  c.args = c.extents;
  const auto arg = [&](int64_t value) {
    c.args.push_back(value);
    return k.arg();
  };
  const auto access = [&](int64_t step, int8_t known, int64_t first, bool written) {
    const int64_t span = std::abs(step) * (length - 1) + 1;
    const uint32_t buffer = k.buffer(p.type, written);
    const int64_t offset = first + (step < 0 ? span - 1 : 0), row = span + 1;
    const AccessTerm along{1, known, known ? 0 : arg(step)}, across{0, 0, arg(row)};
    c.memory.push_back(random_elements(p.type, first + row * (p.rows - 1) + span, rng));
    return k.access(buffer, {across, along}, static_cast<int32_t>(arg(offset)));
  };
  const uint32_t x = k.load(access(p.step, p.known, 0, false));
  const Prim combine = p.type == DType::kBool ? Prim::bit_xor : Prim::add;
  if (p.written == 1) {
    const uint32_t y = k.load(access(1, 1, 0, false));
    k.store(access(1, 1, p.leading, true), k.prim(combine, p.type, {x, y}));
  } else {
    // One buffer of which each index fills `written` elements.
    const uint32_t out = k.buffer(p.type, true), row = arg(p.written * length + 1), offset = arg(p.leading);
    c.memory.push_back(random_elements(p.type, p.leading + (p.written * length + 1) * p.rows - 1, rng));
    uint32_t value = x;
    for (int64_t part = 0; part < p.written; ++part) {
      const AccessTerm along{1, static_cast<int8_t>(p.written), 0}, across{0, 0, row};
      const uint32_t to = k.access(out, {across, along}, static_cast<int32_t>(offset));
      k.kernel.accesses[to].beside = static_cast<uint8_t>(part);
      k.store(to, value);
      const uint32_t y = k.load(access(1, 1, 0, false));
      value = k.prim(combine, p.type, {value, y});
    }
  }
  c.kernel = k.kernel;
  return c;
}

void check(const Pattern& p) {
  const Case longest = make(p, kLongest);
  INFO(to_string(longest.kernel));
  REQUIRE(verify(longest.kernel).ok());
  CHECK(reads_back(longest.kernel));
  CHECK(alternating(longest.kernel, longest.kernel.stores, 1) == static_cast<size_t>(p.written));
  const KernelInterpreter interpreter(longest.kernel);
  for (const char* cpu : {"", kLeastCpu}) {
    auto compiled = generator(cpu).compile(to_string(longest.kernel), {});
    if (!compiled.ok()) FAIL(compiled.status().message());
    for (int64_t length = 1; length <= kLongest; ++length) {
      const Case c = make(p, length);
      REQUIRE(c.kernel == longest.kernel);
      const Memory expected = run_case(c, Guard::kEnd, [&](auto... a) { return interpreter.run(a...); });
      for (Guard guard : {Guard::kBegin, Guard::kEnd}) {
        INFO("target " << cpu << ", length " << length);
        REQUIRE(same_memory(c, expected, run_case(c, guard, compiled->entry())));
      }
    }
  }
}

constexpr DType kTypes[] = {DType::kBool, DType::kU8,  DType::kS16, DType::kU16,
                            DType::kF32,  DType::kS32, DType::kF64};

}  // namespace

TEST_CASE("elements a few apart are read, and none beside them", "[codegen]") {
  for (DType t : kTypes)
    for (int64_t step : {1, 2, 3, 4, 5, 6, 7, 8, 9, -1, -2, -3, -4, -5, -7, -8, -9}) {
      const bool known = std::abs(step) <= kMostKnownStride;
      check(
          {.type = t, .step = step, .known = static_cast<int8_t>(known ? step : 0), .leading = 1, .rows = 3});
    }
}

TEST_CASE("values that alternate in memory are written together", "[codegen]") {
  for (DType t : kTypes)
    for (int64_t written : {2, 3, 4, 5, 6, 7, 8})
      for (int64_t leading : {0, 1})
        check({.type = t, .step = 3, .known = 3, .written = written, .leading = leading, .rows = 3});
}

TEST_CASE("stores that leave gaps, or in another order, stand by themselves", "[codegen]") {
  Case c = make({.type = DType::kF32, .step = 1, .known = 1, .written = 3}, 9);
  std::swap(c.kernel.stores[0], c.kernel.stores[1]);
  CHECK(alternating(c.kernel, c.kernel.stores, 1) == 1);
  std::swap(c.kernel.stores[0], c.kernel.stores[1]);
  CHECK(alternating(c.kernel, c.kernel.stores, 0) == 1);
  c.kernel.stores.pop_back();
  CHECK(alternating(c.kernel, c.kernel.stores, 1) == 1);
}
