// Updates of scatters by the part of the array that they fall into, and the threads that share such parts.
#include "jit/cpu/target_list.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <random>

#include "hlo/parser.h"
#include "jit/client/client.h"
#include "jit/cpu/native_op.h"

namespace lamina::testing {
namespace {

using jit::TargetList;

TEST_CASE("Lists of targets hold those of a range in their order", "[native]") {
  std::mt19937 rng(0);
  for (const hlo::Isa limit : {hlo::Isa::kPortable, hlo::Isa::kAvx2})
    for (const int64_t n : {0, 1, 7, 8, 63, 64, 65, 200, 512})
      for (const auto& [low, high] :
           {std::pair(-40, 60), std::pair(10, 19), std::pair(0, 9), std::pair(-9, -1)})
        for (const int32_t end : {0, 30}) {
          std::vector<int32_t> narrow(n);
          for (int32_t& x : narrow) x = low + static_cast<int32_t>(rng() % (high - low + 1));
          if (n > 100) narrow[100] = std::vector{10, 20, -1, INT32_MIN}[rng() % 4];
          const std::vector<int64_t> wide(narrow.begin(), narrow.end());
          for (const bool is_narrow : {true, false}) {
            const int32_t first = 10, last = 20;
            TargetList list;
            if (is_narrow)
              list.keep(narrow.data(), n, end, first, last, hlo::usable_isa(limit));
            else
              list.keep(wide.data(), n, first, last, hlo::usable_isa(limit));
            int64_t kept = 0;
            for (int64_t i = 0; i < n; ++i) {
              const int32_t at = narrow[i] + (is_narrow && narrow[i] < 0 ? end : 0);
              if (at < first || at >= last) continue;
              REQUIRE(kept < list.size());
              CHECK(list.targets()[kept] == at);
              CHECK(list.update(kept++) == i);
            }
            CHECK(kept == list.size());
          }
        }
}

// Tasks one after the other, in the place of `threads` threads.
struct Shares {
  int64_t tasks = 0;
  jit::KernelContext context(int threads) {
    jit::KernelContext c;
    c.scratch = &jit::host_device().memory();
    c.parallel = {threads, this, [](void* self, int64_t n, jit::TaskFn fn, void* arg) {
                    static_cast<Shares*>(self)->tasks = n;
                    for (int64_t i = n; i-- > 0;) fn(arg, i);
                  }};
    return c;
  }
};

TEST_CASE("Threads share the array of a scatter, and each element sees its updates in order", "[native]") {
  // Rounding depends on the order; rows, single elements, indices that are sorted or outside.
  const int64_t updates = 200'000, places = 1000;
  for (const int64_t row : {1, 8})
    for (const bool sorted : {false, true}) {
      const std::string tail = row == 1 ? "" : "," + std::to_string(row);
      const auto parsed = hlo::parse(
          "computation r0(p0: f32[], p1: f32[]) -> (f32[]) {\n  v0 = f32[] add(p0, p1)\n  return (v0)\n}\n"
          "computation main(p0: f32[1000" +
          tail + "], p1: s32[200000], p2: f32[200000" + tail + "]) -> (f32[1000" + tail +
          "]) {\n  v0 = f32[1000" + tail + "] scatter(p0, p1, p2), index_vector_dim=1, " +
          (row == 1 ? "" : "update_window_dims=[1], ") +
          "inserted_window_dims=[0], scatter_dims_to_operand_dims=[0], body=r0\n  return (v0)\n}\n");
      INFO(parsed.status());
      REQUIRE(parsed.ok());
      std::mt19937 rng(1);
      std::vector<int32_t> at(updates);
      for (int32_t& x : at) x = static_cast<int32_t>(rng() % 1200) - 100;
      if (sorted) std::sort(at.begin(), at.end());
      std::vector<float> x(updates * row), start(places * row), expected;
      for (float& v : x) v = std::ldexp(static_cast<float>(rng() % 1000), static_cast<int>(rng() % 20));
      for (float& v : start) v = static_cast<float>(rng() % 7);
      expected = start;
      for (int64_t i = 0; i < updates; ++i)
        if (at[i] >= 0 && at[i] < places)
          for (int64_t k = 0; k < row; ++k) expected[at[i] * row + k] += x[i * row + k];
      const jit::NativeOp op = jit::native_op(*(*parsed)->roots()[0].node());
      for (const int threads : {1, 3}) {
        std::vector<float> y = start;
        const void* in[] = {y.data(), at.data(), x.data()};
        void* out[] = {y.data()};
        Shares shares;
        jit::KernelContext context = shares.context(threads);
        REQUIRE(op.run(in, out, context).ok());
        CHECK(y == expected);
        const bool shared = threads > 1 && row == 1 && context.isa != hlo::Isa::kPortable;
        CHECK(shares.tasks == (shared ? threads : 0));
      }
    }
}

}  // namespace
}  // namespace lamina::testing
