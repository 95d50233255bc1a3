// Programs as data (jit/program/plan.h): what steps wait for holds their order in memory together.
#include "jit/program/plan.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <vector>

#include "hlo/builder.h"
#include "hlo/printer.h"
#include "jit/program/executable.h"
#include "tests/smith/generator.h"

using namespace lamina;
using namespace lamina::jit;

namespace {

struct Span {
  int memory;  // numbers of their own for arguments, results and arenas
  int64_t begin, end;
  bool written;
};

// Where a step reaches, in a run that writes results over no argument.
std::vector<Span> spans_of(const StepPlan& step, const MemoryPlan& memory) {
  std::vector<Span> out;
  const auto add = [&](const std::vector<Use>& uses, bool written) {
    for (const Use& u : uses) {
      const MemoryPlan::Place& p = memory.places[static_cast<size_t>(u.place)];
      int64_t at = p.offset;
      int number = 4 * p.number + static_cast<int>(p.storage);
      if (p.storage == Storage::kArena) {
        const MemoryPlan::Part& part = memory.parts[static_cast<size_t>(p.number)];
        number = 4 * part.space + static_cast<int>(p.storage);
        at = part.offset;
      }
      if (u.bytes > 0) out.push_back({number, at, at + u.bytes, written});
    }
  };
  add(step.in, false);
  add(step.out, true);
  add(step.scratch, true);
  return out;
}

bool conflict(const std::vector<Span>& a, const std::vector<Span>& b) {
  for (const Span& x : a)
    for (const Span& y : b)
      if (x.memory == y.memory && x.begin < y.end && y.begin < x.end && (x.written || y.written)) return true;
  return false;
}

// Steps whose order matters and does not follow from what they wait for; -1: there are none.
int unordered(const ProgramPlan& plan, const std::vector<std::vector<int>>& order) {
  const size_t n = plan.steps.size();
  std::vector<std::vector<bool>> before(n, std::vector<bool>(n, false));
  std::vector<std::vector<Span>> spans;
  for (size_t s = 0; s < n; ++s) {
    spans.push_back(spans_of(plan.steps[s], *plan.keeping));
    for (int a : order[s]) {
      before[s][static_cast<size_t>(a)] = true;
      for (size_t i = 0; i < n; ++i)
        if (before[static_cast<size_t>(a)][i]) before[s][i] = true;
    }
    for (size_t e = 0; e < s; ++e)
      if (!before[s][e] && conflict(spans[e], spans[s])) return static_cast<int>(s);
  }
  return -1;
}

}  // namespace

TEST_CASE("steps wait for all that must come before them, in random programs", "[plan]") {
  int64_t steps = 0, waits = 0;
  for (uint64_t seed = 0; seed < 1500; ++seed) {
    const hlo::ComputationPtr program = testing::random_program(seed);
    const auto exe = Executable::compile(host_device(), program);
    if (!exe.ok()) continue;
    const ProgramPlan& plan = (*exe)->plan();
    steps += static_cast<int64_t>(plan.steps.size());
    const std::vector<std::vector<int>> order = order_of(plan);
    for (const std::vector<int>& after : order) {
      waits += static_cast<int64_t>(after.size());
      CHECK(std::is_sorted(after.begin(), after.end()));
    }
    const int wrong = unordered(plan, order);
    INFO("seed " << seed << ", step " << wrong << "\n" << hlo::print(*program) << to_string(plan));
    REQUIRE(wrong < 0);
  }
  CHECK(steps > 3000);
  // Not simply one after the other.
  CHECK(waits < 2 * steps);
}

TEST_CASE("a plan is told in lines", "[plan]") {
  hlo::Builder b;
  const hlo::Type* type = *hlo::array_type(hlo::DType::kF32, hlo::Dims{8, 8});
  const hlo::Value x = hlo::make_parameter(type), w = hlo::make_parameter(type);
  const hlo::DotDims dims{.lhs_batch = {}, .rhs_batch = {}, .lhs_contract = {1}, .rhs_contract = {0}};
  const hlo::Value left = b.dot_general(x, w, dims), right = b.dot_general(w, x, dims);
  const auto program = *hlo::Computation::make({{x, w}}, {{b.dot_general(left, right, dims)}});
  const auto exe = *Executable::compile(host_device(), program);
  const std::string text = to_string(exe->plan());
  INFO(text);
  CHECK(text.find("place p0: 256 bytes, argument 0\n") != text.npos);
  CHECK(text.find("result memory 0\n") != text.npos);
  CHECK(text.find("bytes, arena 0 at 0\n") != text.npos);
  CHECK(text.find("step 0: dot f32[8,8] f32[8,8], reads p0 p1, writes p2\n") != text.npos);
  CHECK(text.find("step 1: dot f32[8,8] f32[8,8], reads p1 p0, writes p3\n") != text.npos);
  CHECK(text.find("step 2: dot f32[8,8] f32[8,8], reads p2 p3, writes p4, after 0 1\n") != text.npos);
}
