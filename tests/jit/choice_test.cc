// Reductions that choose an element: which are recognised, and that machine code finds what the interpreter
// does.
#include "jit/kernel/choice.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <cstring>
#include <limits>
#include <random>

#include "tests/jit/kernel_util.h"

using namespace lamina::jit;
using lamina::hlo::Prim;
namespace hlo = lamina::hlo;

namespace {

enum class Form { kFirst, kLast, kNanLess };

// (value, position) pairs along the last dimension of x: the first extreme; or the last; or with no place for
// NaN.
LoopKernel choice_kernel(DType t, bool largest, Form form) {
  KernelBuilder k(1, 1);
  const uint32_t x = k.buffer(t), init = k.buffer(t), far = k.buffer(DType::kS32), out = k.buffer(t, true),
                 at = k.buffer(DType::kS32, true);
  const uint32_t stride = k.arg();
  const uint32_t value = k.load(k.access(x, {{0, 0, stride}, {1, 1, 0}}));
  KernelInstr index{KernelOp::kIndex, Prim::constant, DType::kS64};
  index.imm = 1;
  const uint32_t position = k.prim(Prim::convert, DType::kS32, {k.add(index)});
  Reduction& r = k.kernel.reduction;
  r.inputs = {value, position};
  r.combine.inputs = {t, DType::kS32, t, DType::kS32};
  const auto emit = [&](Prim p, DType type, uint32_t a, uint32_t b = 0, uint32_t c = 0) {
    hlo::ScalarInstr i;
    i.prim = p;
    i.type = type;
    i.operands[0] = a;
    i.operands[1] = b;
    i.operands[2] = c;
    r.combine.code.push_back(i);
    return static_cast<uint32_t>(3 + r.combine.code.size());
  };
  const auto test = [&](Prim p, uint32_t a, uint32_t b) { return emit(p, DType::kBool, a, b); };
  uint32_t beats = largest ? test(Prim::lt, 0, 2) : test(Prim::lt, 2, 0), same = test(Prim::eq, 0, 2);
  if (hlo::is_float(t) && form != Form::kNanLess) {
    const uint32_t nan_a = test(Prim::ne, 0, 0), nan_b = test(Prim::ne, 2, 2);
    const uint32_t only_b = test(Prim::bit_and, emit(Prim::bit_not, DType::kBool, nan_a), nan_b);
    beats = test(Prim::bit_or, beats, only_b);
    same = test(Prim::bit_or, same, test(Prim::bit_and, nan_a, nan_b));
  }
  const uint32_t sooner = form == Form::kLast ? test(Prim::lt, 1, 3) : test(Prim::lt, 3, 1);
  const uint32_t takes = test(Prim::bit_or, beats, test(Prim::bit_and, same, sooner));
  r.combine.outputs = {emit(Prim::select, t, takes, 2, 0), emit(Prim::select, DType::kS32, takes, 3, 1)};
  r.init = {k.access(init, {}), k.access(far, {})};
  k.in_epilogue = true;
  const KernelInstr chosen{KernelOp::kReduced, Prim::constant, t};
  KernelInstr place{KernelOp::kReduced, Prim::constant, DType::kS32};
  place.imm = 1;
  k.store(k.access(out, {{0, 1, 0}}), k.add(chosen));
  k.store(k.access(at, {{0, 1, 0}}), k.add(place));
  return k.kernel;
}

// Rows of few different numbers, so that many are equal, and now and then a NaN.
template <class T>
void check_rows(DType t, int64_t rows, int64_t columns) {
  std::mt19937_64 rng(static_cast<uint64_t>(rows * 1000003 + columns));
  std::vector<T> x(static_cast<size_t>(rows * columns));
  for (int64_t r = 0; r < rows; ++r)
    for (int64_t c = 0; c < columns; ++c) {
      T& v = x[r * columns + c];
      v = static_cast<T>(rng() % (r % 2 ? 3 : 100));
      if constexpr (std::is_floating_point_v<T>) {
        if (r % 3 == 0) v = -v;
        if (r % 4 == 3 && rng() % static_cast<uint64_t>(columns) < 2) v = std::numeric_limits<T>::quiet_NaN();
        if (r % 7 == 5) v = std::copysign(T{0}, rng() % 2 ? -T{1} : T{1});
        if (r % 5 == 4) v = std::copysign(std::numeric_limits<T>::infinity(), c % 2 ? -T{1} : T{1});
      }
    }
  for (const bool largest : {true, false}) {
    const LoopKernel kernel = choice_kernel(t, largest, Form::kFirst);
    REQUIRE(choice_of(kernel));
    CHECK(choice_of(kernel)->largest == largest);
    const int64_t args[] = {rows, columns, columns};
    const int32_t cancel = 0;
    T init = largest ? std::numeric_limits<T>::lowest() : std::numeric_limits<T>::max();
    int32_t far = std::numeric_limits<int32_t>::max();
    const auto run = [&](auto entry) {
      std::pair<std::vector<T>, std::vector<int32_t>> out{std::vector<T>(rows), std::vector<int32_t>(rows)};
      void* buffers[] = {x.data(), &init, &far, out.first.data(), out.second.data()};
      REQUIRE(entry(buffers, args, 0, 1, 0, rows, &cancel) == 0);
      return out;
    };
    const auto expected = run([&](auto... a) { return interpret_kernel(kernel, a...); });
    for (const char* cpu : {"", kLeastCpu})
      for (const Schedule& schedule :
           {Schedule{ReduceForm::kAlongReduced}, Schedule{ReduceForm::kAcrossParallel},
            Schedule{ReduceForm::kAcrossParallel, true}}) {
        INFO("target " << cpu << ", " << rows << " x " << columns << ", largest " << largest << ", "
                       << to_string(schedule));
        const auto compiled = compiled_entry(kernel, schedule, cpu);
        if (!compiled.ok()) FAIL(compiled.status().message());
        const auto got = run(*compiled);
        CHECK(got.second == expected.second);
        for (int64_t r = 0; r < rows; ++r)
          CHECK(same_element(t, reinterpret_cast<const char*>(&got.first[r]),
                             reinterpret_cast<const char*>(&expected.first[r])));
      }
  }
}

}  // namespace

TEST_CASE("the extreme of a row and where it is have the same bits in every tier", "[codegen]") {
  for (int64_t columns : {1, 31, 32, 63, 64, 65, 79, 80, 127, 2047, 2048, 2049, 2063, 4100, 20000}) {
    check_rows<float>(DType::kF32, 21, columns);
    check_rows<double>(DType::kF64, 20, columns);
    check_rows<int32_t>(DType::kS32, 5, columns);
  }
  for (int64_t columns : {64, 100, 2050}) {
    check_rows<uint8_t>(DType::kU8, 7, columns);
    check_rows<int16_t>(DType::kS16, 7, columns);
    check_rows<uint32_t>(DType::kU32, 7, columns);
    check_rows<int64_t>(DType::kS64, 7, columns);
    check_rows<uint64_t>(DType::kU64, 7, columns);
  }
  for (int64_t columns : {0, 1, 2, 3, 8, 9, 10, 17, 32, 33}) check_rows<float>(DType::kF32, 600, columns);
}

TEST_CASE("choices are recognised by what they compute", "[kernel_text]") {
  for (const bool largest : {true, false}) {
    CHECK_FALSE(choice_of(choice_kernel(DType::kF32, largest, Form::kLast)));
    CHECK_FALSE(choice_of(choice_kernel(DType::kF32, largest, Form::kNanLess)));
    CHECK(choice_of(choice_kernel(DType::kS32, largest, Form::kNanLess)));
    LoopKernel other = choice_kernel(DType::kF32, largest, Form::kFirst);
    other.reduction.combine.code.back().operands[1] = 1;
    CHECK_FALSE(choice_of(other));
  }
}
